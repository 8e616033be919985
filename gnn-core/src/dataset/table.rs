//! A table of numbers in a text or NumPy file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::dataset::bad;
use crate::dataset::npy::{self, Array};
use crate::{Error, Result};

/// Bytes of one line at most; longer ones are not text tables.
const MAX_LINE: u64 = 64 << 20;

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
    /// Reads a `.npy` file of one or two dimensions, or a text file.
    ///
    /// # Errors
    /// [`Error::Data`] naming the line, or [`Error::Io`].
    pub(super) fn read(path: &Path) -> Result<Table> {
        let file = path.display().to_string();
        let from = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
        if path.extension().is_some_and(|e| e == "npy") {
            let array = npy::read(from, &file, "array")?;
            let (rows, width) = match array.shape[..] {
                [rows] => (rows, 1),
                [rows, width] => (rows, width),
                _ => {
                    let reason = format!(
                        "expected 1 or 2 dimensions, got the shape {:?}",
                        array.shape
                    );
                    return Err(bad(
                        &file,
                        "array",
                        reason,
                        "reshape the array before saving it",
                    ));
                }
            };
            return Ok(Table {
                file,
                rows,
                width,
                values: Values::Npy(array),
            });
        }
        Table::text(path, file, from)
    }

    fn text(path: &Path, file: String, mut from: impl BufRead) -> Result<Table> {
        let (mut numbers, mut lines, mut width) = (Vec::new(), Vec::new(), 0);
        let (mut buffer, mut at) = (Vec::new(), 0u64);
        loop {
            buffer.clear();
            let got = std::io::Read::take(&mut from, MAX_LINE)
                .read_until(b'\n', &mut buffer)
                .map_err(|e| Error::io(path, e))?;
            if got == 0 {
                break;
            }
            at += 1;
            let place = format!("line {at}");
            if got as u64 == MAX_LINE {
                return Err(bad(
                    &file,
                    place,
                    "is too long for a table",
                    "write one record a line",
                ));
            }
            let line = std::str::from_utf8(&buffer).map_err(|_| {
                bad(
                    &file,
                    &place,
                    "is not UTF-8 text",
                    "save the table as UTF-8 text",
                )
            })?;
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let fields = line
                .split([',', ';', '\t', ' '])
                .map(str::trim)
                .filter(|f| !f.is_empty());
            let before = numbers.len();
            let mut wrong = None;
            for field in fields {
                match field.parse::<f64>() {
                    Ok(x) => numbers.push(x),
                    Err(_) => wrong = wrong.or(Some(field.to_owned())),
                }
            }
            if let Some(field) = wrong {
                // The first line may be a header.
                if lines.is_empty() && before == 0 && numbers.is_empty() {
                    continue;
                }
                let reason = format!(
                    "'{}' is not a number",
                    field.chars().take(40).collect::<String>()
                );
                return Err(bad(
                    &file,
                    place,
                    reason,
                    "write numbers only, after an optional header line",
                ));
            }
            let fields = numbers.len() - before;
            if width == 0 {
                width = fields;
            } else if width != fields {
                let reason = format!("expected {width} fields like the lines before, got {fields}");
                return Err(bad(
                    &file,
                    place,
                    reason,
                    "complete the line; is the file truncated?",
                ));
            }
            lines.push(at);
        }
        Ok(Table {
            file,
            rows: lines.len(),
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
    pub(super) fn floats(&self) -> Result<Vec<f32>> {
        match &self.values {
            Values::Text { numbers, .. } => Ok(numbers.iter().map(|&x| x as f32).collect()),
            Values::Npy(array) => Ok(array.floats()),
        }
    }

    /// All numbers as whole ones, record by record.
    ///
    /// # Errors
    /// [`Error::Data`] naming the record that is not whole.
    pub(super) fn ints(&self) -> Result<Vec<i64>> {
        match &self.values {
            Values::Npy(array) => array.ints(),
            Values::Text { numbers, .. } => {
                // Above 2^53 a float no longer holds every whole number.
                let whole = |x: f64| x.fract() == 0.0 && x.abs() < 9e15;
                if let Some(k) = numbers.iter().position(|&x| !whole(x)) {
                    let reason = format!("{} is not a whole number", numbers[k]);
                    let help = "write ids and classes as whole numbers";
                    return Err(bad(
                        &self.file,
                        self.place(k / self.width.max(1)),
                        reason,
                        help,
                    ));
                }
                Ok(numbers.iter().map(|&x| x as i64).collect())
            }
        }
    }
}
