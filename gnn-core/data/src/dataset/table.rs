//! A table of numbers in a text or NumPy file.

use std::io::BufReader;
use std::path::Path;

use crate::Result;
use crate::dataset::npy::{self, Array};
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Limit, bad, regular};

/// A table of numbers from a text or NumPy file.
pub(super) struct Table {
    /// Where it was read, for messages.
    pub(super) file: String,
    /// Number of records.
    pub(super) rows: usize,
    /// Numbers in a record.
    pub(super) width: usize,
    values: Values,
}

enum Values {
    /// Fields with the line each row came from.
    Text {
        numbers: Vec<f64>,
        lines: Vec<u64>,
    },
    Npy(Array),
}

impl Table {
    /// Reads a `.npy` file of one or two dimensions, or a text file, compressed or not.
    ///
    /// # Errors
    /// [`Error::Data`] naming the line, or [`Error::Io`].
    pub(super) fn read(path: &Path, limit: &Limit) -> Result<Table> {
        if path.extension().is_none_or(|e| e != "npy") {
            return Table::text(path, limit);
        }
        let file = path.display().to_string();
        let from = BufReader::new(regular::open(path)?);
        let array = npy::read(from, &file, "array", limit)?;
        let (rows, width) = match array.shape[..] {
            [rows] => (rows, 1),
            [rows, width] => (rows, width),
            _ => {
                let shape = &array.shape;
                let reason = format!("expected 1 or 2 dimensions, got the shape {shape:?}");
                let help = "reshape the array before saving it";
                return Err(bad(&file, "array", reason, help));
            }
        };
        Ok(Table {
            file,
            rows,
            width,
            values: Values::Npy(array),
        })
    }

    fn text(path: &Path, limit: &Limit) -> Result<Table> {
        let mut from = Lines::open(path, limit)?;
        let (mut numbers, mut lines, mut width) = (Vec::new(), Vec::new(), 0);
        while let Some(line) = from.record(&['#', '%'])? {
            let line = line.split('#').next().unwrap_or("");
            let fields = line
                .split([',', ';', '\t', ' '])
                .map(str::trim)
                .filter(|f| !f.is_empty());
            let before = numbers.len();
            let mut wrong = None;
            for field in fields {
                match field.parse::<f64>() {
                    Ok(x) => numbers.push(x),
                    Err(_) => wrong = wrong.or(Some(shown(field))),
                }
            }
            if let Some(field) = wrong {
                // The first line may be a header.
                if lines.is_empty() && before == 0 && numbers.is_empty() {
                    continue;
                }
                let reason = format!("{field} is not a number");
                let help = "write numbers only, after an optional header line";
                return Err(from.bad(reason, help));
            }
            let fields = numbers.len() - before;
            if width == 0 {
                width = fields;
            } else if width != fields {
                let reason = format!("expected {width} fields like the lines before, got {fields}");
                return Err(from.bad(reason, "complete the line; is the file truncated?"));
            }
            // Twice, because growing lists may have room for as much again.
            limit.take(16 * (fields as u64 + 1), &from.file, "numbers")?;
            lines.push(from.at());
        }
        Ok(Table {
            rows: lines.len(),
            file: from.file,
            width,
            values: Values::Text { numbers, lines },
        })
    }

    /// Refuses another number of columns.
    pub(super) fn columns(&self, expected: usize) -> Result<()> {
        if self.width == expected || self.rows == 0 {
            return Ok(());
        }
        let reason = format!("expected {expected} columns, got {}", self.width);
        Err(bad(
            &self.file,
            self.place(0),
            reason,
            format!("write {expected} numbers a line"),
        ))
    }

    /// Where row `k` is.
    pub(super) fn place(&self, k: usize) -> String {
        match &self.values {
            Values::Text { lines, .. } => format!("line {}", lines.get(k).unwrap_or(&1)),
            Values::Npy(_) => format!("row {k}"),
        }
    }

    /// All numbers, record by record.
    pub(super) fn into_floats(self) -> Vec<f32> {
        match self.values {
            Values::Text { numbers, .. } => numbers.into_iter().map(|x| x as f32).collect(),
            Values::Npy(array) => array.into_floats(),
        }
    }

    /// All numbers as whole ones, record by record, and the table without them for messages.
    ///
    /// # Errors
    /// [`Error::Data`] naming the record that is not whole.
    pub(super) fn into_ints(self) -> Result<(Vec<i64>, Places)> {
        let width = self.width.max(1);
        let values = match self.values {
            Values::Npy(array) => return Ok((array.into_ints()?, Places(self.file, Vec::new()))),
            Values::Text { numbers, lines } => (numbers, Places(self.file, lines)),
        };
        let (numbers, places) = values;
        // Above 2^53 a float no longer holds every whole number.
        let whole = |x: f64| x.fract() == 0.0 && x.abs() < 9e15;
        if let Some(k) = numbers.iter().position(|&x| !whole(x)) {
            let reason = format!("{} is not a whole number", numbers[k]);
            let help = "write ids and classes as whole numbers";
            return Err(bad(&places.0, places.of(k / width), reason, help));
        }
        Ok((numbers.into_iter().map(|x| x as i64).collect(), places))
    }
}

/// Where the records of a table were: the file, and the line of each.
pub(super) struct Places(pub(super) String, Vec<u64>);

impl Places {
    /// Where row `k` was.
    pub(super) fn of(&self, k: usize) -> String {
        match self.1.get(k) {
            Some(line) => format!("line {line}"),
            None => format!("row {k}"),
        }
    }
}
