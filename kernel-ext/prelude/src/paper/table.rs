//! One published table, or what a text says of one figure.

use launcher::{Error, Result};
use polars::prelude::{Column, DataFrame, NamedFrom, Series};

use super::source::Source;
use crate::display::Bundle;
use crate::frame_html::df_html;
use crate::in_words::or_end;
use crate::plot::{self, escape};
use crate::show::Show;

/// A published table, or the numbers that the text gives of a figure.
///
/// Shown, it is the table with its caption and where it stands. As a frame it has its label columns as
/// text and the others as numbers, none where none was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// `Table 6`, `Figure 21`.
    pub number: String,
    /// The caption, in the paper's words.
    pub caption: String,
    /// What its numbers are.
    pub unit: String,
    /// Lines of the paper's text that have every number of it: `614-620`, or several ranges with commas.
    pub lines: String,
    /// `not given`, where the figure draws more than the text says.
    pub curves: Option<String>,
    /// Names of the columns that tell rows apart.
    pub labels: Vec<String>,
    /// Names of the columns of numbers.
    pub columns: Vec<String>,
    /// Cells as printed, labels first.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The number in the row of these labels, as printed, without its unit.
    ///
    /// # Panics
    /// When there is no such row or column, or no number in it.
    #[track_caller]
    pub fn at(&self, labels: &[&str], column: &str) -> f64 {
        or_end(self.try_at(labels, column).map(|printed| printed.value))
    }

    /// Like [`Table::at`], with the unit and the number of its digits.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such row or column, or no number in it.
    pub fn try_at(&self, labels: &[&str], column: &str) -> Result<Printed> {
        let refused = |what: String, known: Vec<String>| {
            Error::refused(
                format!("{} has no {what}", self.number),
                format!("there are {}", known.join(", ")),
            )
        };
        let column_at = self.columns.iter().position(|known| known == column);
        let column_at =
            column_at.ok_or_else(|| refused(format!("column {column:?}"), self.columns.clone()))?;
        let width = self.labels.len();
        let row = self.rows.iter().find(|row| row[..width] == *labels);
        let row = row.ok_or_else(|| {
            let known = self.rows.iter().map(|row| row[..width].join(" "));
            refused(format!("row {:?}", labels.join(" ")), known.collect())
        })?;
        let cell = &row[width + column_at];
        Printed::read(cell).ok_or_else(|| {
            Error::refused(
                format!("{} says {cell:?} there, which is no number", self.number),
                "choose another row or column",
            )
        })
    }

    /// Labels and column of every cell that is none of a label, row by row.
    pub fn cells<'t>(&'t self) -> Vec<(Vec<&'t str>, &'t str)> {
        let width = self.labels.len();
        let row = |row: &'t Vec<String>| {
            let labels: Vec<&str> = row[..width].iter().map(String::as_str).collect();
            let columns = self.columns.iter();
            columns.map(move |column| (labels.clone(), column.as_str()))
        };
        self.rows.iter().flat_map(row).collect()
    }

    /// The same with these columns alone.
    ///
    /// # Panics
    /// When there is no such column.
    #[must_use]
    pub fn only(&self, columns: &[&str]) -> Table {
        let place = |name: &&str| {
            let found = self.columns.iter().position(|known| known == name);
            found.unwrap_or_else(|| panic!("{} has no column {name:?}", self.number))
        };
        let places: Vec<usize> = columns.iter().map(place).collect();
        let row = |row: &Vec<String>| {
            let cells = places.iter().map(|at| row[self.labels.len() + at].clone());
            row[..self.labels.len()]
                .iter()
                .cloned()
                .chain(cells)
                .collect()
        };
        Table {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: self.rows.iter().map(row).collect(),
            ..self.clone()
        }
    }

    /// The table as a frame.
    ///
    /// # Panics
    /// When two of its columns have the same name.
    #[track_caller]
    pub fn frame(&self) -> DataFrame {
        let cells = |at: usize| self.rows.iter().map(move |row| &*row[at]);
        let labels = self.labels.iter().enumerate().map(|(at, name)| {
            Column::from(Series::new(
                name.as_str().into(),
                cells(at).collect::<Vec<_>>(),
            ))
        });
        let columns = self.columns.iter().enumerate().map(|(at, name)| {
            let numbers = cells(self.labels.len() + at).map(Printed::read);
            let numbers: Vec<Option<f64>> = numbers.map(|p| p.map(|p| p.value)).collect();
            Column::from(Series::new(name.as_str().into(), numbers))
        });
        let columns: Vec<Column> = labels.chain(columns).collect();
        or_end(DataFrame::new(self.rows.len(), columns).map_err(Error::frame("published")))
    }
}

impl Source for Table {
    fn rows(&self) -> DataFrame {
        self.frame()
    }

    fn settings(&self) -> Vec<plot::Setting> {
        Vec::new()
    }

    fn origin(&self) -> Option<String> {
        Some(format!("published: {}", self.number))
    }
}

impl Show for Table {
    fn bundle(&self) -> Bundle {
        let mut said = format!("{}: {} ({})", self.number, self.caption, self.unit);
        if let Some(curves) = &self.curves {
            said += &format!("; curves {curves}");
        }
        if self.rows.is_empty() {
            return Bundle::text(&said).with("text/html", format!("<p>{}</p>", escape(&said)));
        }
        let frame = self.frame();
        Bundle::text(format!("{said}\n{frame}")).with(
            "text/html",
            format!("<p>{}</p>{}", escape(&said), df_html(&frame)),
        )
    }
}

/// A number as it was printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// Its value, without its unit.
    pub value: f64,
    /// How far it may be from what was rounded to it: half of its last digit.
    pub rounding: f64,
    /// What stands behind it: `MB`, `%`, `×`, or nothing.
    pub unit: String,
}

impl Printed {
    /// The number that a cell begins with, if it begins with one. A comma before three digits groups them,
    /// another one is a decimal point.
    pub fn read(cell: &str) -> Option<Printed> {
        let cell = cell.trim();
        let end = cell
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
            .unwrap_or(cell.len());
        let (number, unit) = cell.split_at(end);
        let mut groups = number.split(',');
        groups.next();
        let number = match groups.all(|g| g.len() == 3 || g.starts_with("000.")) {
            true => number.replace(',', ""),
            false => number.replace(',', "."),
        };
        let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
        Some(Printed {
            value: number.parse().ok()?,
            rounding: 0.5 * 10_f64.powi(-(decimals as i32)),
            unit: unit.trim().to_owned(),
        })
    }

    /// The number and its rounding in bytes, where its unit is one of them. Tables that say MB and GB mean
    /// powers of 1024.
    pub fn bytes(&self) -> Option<(f64, f64)> {
        let power = ["B", "KB", "MB", "GB", "TB"]
            .iter()
            .position(|unit| *unit == self.unit)?;
        let scale = 1024_f64.powi(power as i32);
        Some((self.value * scale, self.rounding * scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_printed() {
        let read = |cell: &str| Printed::read(cell).map(|p| (p.value, p.unit));
        assert_eq!(read("170.2 MB"), Some((170.2, "MB".into())));
        assert_eq!(read("2,449,029"), Some((2_449_029.0, String::new())));
        assert_eq!(read("5,87×"), Some((5.87, "×".into())));
        assert_eq!([read("OOM"), read("-"), read("")], [None, None, None]);
        let half = Printed::read("0.50").expect("a number").rounding;
        assert!((half - 0.005).abs() < 1e-12);
        let (bytes, near) = Printed::read("0.5 GB")
            .and_then(|p| p.bytes())
            .expect("bytes");
        assert_eq!(bytes, 0.5 * 1024_f64.powi(3));
        assert!((near - 0.05 * 1024_f64.powi(3)).abs() < 1.0);
    }
}
