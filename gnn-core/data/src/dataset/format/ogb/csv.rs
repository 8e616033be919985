//! OGB's tables: comma-separated, compressed, without quotes.

use std::path::Path;
use std::str::FromStr;

use crate::Result;
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Limit, bad};

/// A table of numbers without a header.
pub(super) struct CsvRows<T> {
    /// The file, for messages.
    pub(super) file: String,
    /// Numbers in a row.
    pub(super) width: usize,
    /// All numbers, row by row.
    pub(super) values: Vec<T>,
}

impl<T> CsvRows<T> {
    /// Number of rows.
    pub(super) fn n(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Refuses another number of columns.
    pub(super) fn columns(&self, expected: usize) -> Result<()> {
        if self.width == expected || self.values.is_empty() {
            return Ok(());
        }
        let reason = format!("expected {expected} columns, got {}", self.width);
        Err(bad(&self.file, "line 1", reason, super::AGAIN))
    }
}

/// Reads a table of numbers.
///
/// # Errors
/// [`crate::Error::Data`] naming the line that is no row of numbers like the ones before.
pub(super) fn rows<T: FromStr>(path: &Path, limit: &Limit) -> Result<CsvRows<T>> {
    parsed(path, limit, |field| field.parse().ok())
}

/// Reads a table of labels: whole numbers, also as floats; -1 where there is none.
///
/// # Errors
/// As [`rows`].
pub(super) fn labels(path: &Path, limit: &Limit) -> Result<CsvRows<i64>> {
    parsed(path, limit, |field| match field.parse::<i64>() {
        Ok(x) => Some(x),
        Err(_) if field.is_empty() => Some(-1),
        Err(_) => whole(field.parse().ok()?),
    })
}

/// A label that was written as a float; NaN is none.
pub(super) fn whole(x: f64) -> Option<i64> {
    let right = x.is_nan() || (x.fract() == 0.0 && x.abs() < 9e15);
    right.then_some(if x.is_nan() { -1 } else { x as i64 })
}

fn parsed<T>(path: &Path, limit: &Limit, parse: impl Fn(&str) -> Option<T>) -> Result<CsvRows<T>> {
    let mut lines = Lines::open(path, limit)?;
    let (mut values, mut width) = (Vec::new(), 0);
    while let Some(line) = lines.next()? {
        let before = values.len();
        let mut wrong = None;
        for field in line.split(',').map(str::trim) {
            match parse(field) {
                Some(x) => values.push(x),
                None => wrong = wrong.or(Some(shown(field))),
            }
        }
        if let Some(field) = wrong {
            return Err(lines.bad(
                format!("{field} is not a number of this table"),
                super::AGAIN,
            ));
        }
        let fields = values.len() - before;
        if width == 0 {
            width = fields;
        } else if width != fields {
            let reason = format!("expected {width} fields like the lines before, got {fields}");
            return Err(lines.bad(reason, super::AGAIN));
        }
        // Twice, because a growing list may have room for as much again.
        limit.take(2 * (fields * size_of::<T>()) as u64, &lines.file, "numbers")?;
    }
    Ok(CsvRows {
        file: lines.file,
        width,
        values,
    })
}

/// Reads a header and the row below it, as pairs.
///
/// # Errors
/// [`crate::Error::Data`] when the row has another length.
pub(super) fn named(path: &Path, limit: &Limit) -> Result<Vec<(String, String)>> {
    let mut lines = Lines::open(path, limit)?;
    let fields = |line: Option<&str>| -> Vec<String> {
        let fields = line.unwrap_or("").split(',').take(1 << 16);
        fields.map(|f| f.trim().to_owned()).collect()
    };
    let header = fields(lines.next()?);
    let row = fields(lines.next()?);
    if header.len() != row.len() {
        let reason = format!(
            "expected {} fields like the header, got {}",
            header.len(),
            row.len()
        );
        return Err(lines.bad(reason, super::AGAIN));
    }
    Ok(header.into_iter().zip(row).collect())
}

/// Reads a table of words without a header: `width` a line.
///
/// # Errors
/// [`crate::Error::Data`] naming the line that has another number of words.
pub(super) fn words(path: &Path, width: usize, limit: &Limit) -> Result<Vec<Vec<String>>> {
    let mut lines = Lines::open(path, limit)?;
    let mut out = Vec::new();
    while let Some(line) = lines.next()? {
        let row: Vec<String> = line
            .split(',')
            .take(width + 1)
            .map(|f| f.trim().to_owned())
            .collect();
        if row.len() != width {
            let reason = format!("expected {width} fields, got {}", row.len());
            return Err(lines.bad(reason, super::AGAIN));
        }
        let bytes = row.iter().map(|w| 2 * w.len() as u64 + 64).sum();
        limit.take(bytes, &lines.file, "words")?;
        out.push(row);
    }
    Ok(out)
}
