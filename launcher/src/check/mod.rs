//! Claims about runs, checked: `%%check` and `halobook check`.
//!
//! A claim is a line that compares two numbers. Numbers are written out, or come from runs and frames:
//!
//! ```text
//! r1.test >= 0.95
//! median(r2_epochs.wall_ms where epoch > 0) < median(r1_epochs.wall_ms where epoch > 0)
//! "both strategies are exact": mean(s.test where strategy = 'halo') ~ mean(s.test where strategy = 'single')
//! sum(r1_comm.bytes) / r1.epochs_done == 4 * 16 * 1234
//! r1.test ~ 0.97 +- 0.01
//! saved['SCS-E1'].bytes == 0.75 * saved['CAGNET'].bytes
//! shown "an epoch is shorter" (ranks share cores): fig13['3 layers', 'DTP'].wall_ms < fig13['3 layers', 'halo'].wall_ms
//! ```
//!
//! `NAME.FIELD` is a column of a run's row in `runs`; `FUNCTION(TABLE.COLUMN where …)` is one number out of a
//! table, which is one that SQL knows ([`crate::sql`]), and so is the condition; `TABLE['LABEL'].COLUMN` is
//! that of the row whose first columns are these labels. What is `shown` is judged and cannot fail: a time,
//! say, that this machine does not decide.

mod parse;
mod verdict;

use crate::error::{Error, Result};
use crate::sql::{self, Bound};
pub use parse::read;
use polars::prelude::{AnyValue, DataFrame};
pub use verdict::{Relation, Verdict, short};

/// What is near where nobody says so, as a part of the right side.
pub const NEAR: f64 = 0.05;

/// A comparison of two numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// As it is written, without its label.
    pub text: String,
    /// What it says, in words.
    pub label: Option<String>,
    left: Expr,
    relation: Relation,
    right: Expr,
    tolerance: Option<Tolerance>,
    /// Why it is only shown; none where it can fail.
    shown: Option<String>,
}

/// How far apart two numbers may be that are nearly equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// So much.
    Absolute(f64),
    /// Such a part of the right one.
    Relative(f64),
}

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Number(f64),
    /// A column of a run's row in `runs`.
    Field {
        run: String,
        field: String,
    },
    /// One number out of a table.
    Of(Aggregate),
    /// A column of the row of a table whose first columns are these labels.
    Cell {
        table: String,
        labels: Vec<String>,
        column: String,
    },
    Negative(Box<Expr>),
    Binary(char, Box<Expr>, Box<Expr>),
}

/// `function(table.column where condition)`.
#[derive(Debug, Clone, PartialEq)]
struct Aggregate {
    function: &'static str,
    table: String,
    column: String,
    condition: Option<String>,
}

impl Claim {
    /// What is true of it. `bound` are the names it may use beside the store's tables, `tolerance` what is
    /// near where it does not say so itself.
    ///
    /// # Errors
    /// [`Error::Refused`] for names that are not there and for numbers that do not exist, such as the mean of
    /// no rows.
    pub fn judge(&self, tolerance: Tolerance, bound: &[(String, Bound)]) -> Result<Verdict> {
        let (left, right) = (value(&self.left, bound)?, value(&self.right, bound)?);
        let apart = match self.tolerance.unwrap_or(tolerance) {
            Tolerance::Absolute(most) => most,
            Tolerance::Relative(part) => part * right.abs(),
        };
        let mut verdict = Verdict::of(left, self.relation, right, apart);
        verdict.text.clone_from(&self.text);
        verdict.label.clone_from(&self.label);
        verdict.shown.clone_from(&self.shown);
        Ok(verdict)
    }
}

fn value(expr: &Expr, bound: &[(String, Bound)]) -> Result<f64> {
    Ok(match expr {
        Expr::Number(x) => *x,
        Expr::Negative(of) => -value(of, bound)?,
        Expr::Binary(how, a, b) => {
            let (a, b) = (value(a, bound)?, value(b, bound)?);
            match how {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }
        }
        Expr::Field { run, field } => {
            let id = run_id(run, bound)?;
            let query = format!("SELECT \"{field}\" FROM runs WHERE run_id = '{id}'");
            number(&sql::query(&query, bound)?, &format!("{run}.{field}"))?
        }
        Expr::Cell {
            table,
            labels,
            column,
        } => {
            let rows = sql::query(&format!("SELECT * FROM {table}"), bound)?;
            cell(&rows, table, labels, column)?
        }
        Expr::Of(of) => {
            let number_of = format!("{}(\"{}\")", of.function, of.column);
            // The sum of nothing is nothing.
            let number_of = match of.function {
                "SUM" => format!("COALESCE({number_of}, 0)"),
                _ => number_of,
            };
            let mut query = format!("SELECT {number_of} FROM {}", of.table);
            let mut what = format!("{}.{}", of.table, of.column);
            if let Some(condition) = &of.condition {
                query.push_str(&format!(" WHERE {condition}"));
                what.push_str(&format!(" where {condition}"));
            }
            number(&sql::query(&query, bound)?, &what)?
        }
    })
}

/// The id of the run that a name is bound to, or that the store knows by it.
fn run_id(name: &str, bound: &[(String, Bound)]) -> Result<String> {
    let dir = match bound.iter().find(|(known, _)| known == name) {
        Some((_, Bound::Run(dir))) => dir.clone(),
        Some((_, Bound::Frame(_))) => {
            return Err(Error::refused(
                format!("{name} is a frame, not a run"),
                format!("write a function of a column, as in mean({name}.test)"),
            ));
        }
        None => crate::store::run_dir(name)?,
    };
    let id = dir.file_name().unwrap_or_default();
    Ok(id.to_string_lossy().into_owned())
}

/// The number in the one row of a table whose first columns are these labels.
fn cell(rows: &DataFrame, table: &str, labels: &[String], column: &str) -> Result<f64> {
    let said = |row: usize, at: usize| {
        let cell = rows
            .columns()
            .get(at)
            .and_then(|column| column.get(row).ok());
        cell.map(|cell| match cell {
            AnyValue::String(text) => text.to_owned(),
            AnyValue::StringOwned(text) => text.to_string(),
            other => other.to_string(),
        })
    };
    let is = |row: &usize| {
        let mut each = labels.iter().enumerate();
        each.all(|(at, label)| said(*row, at).as_ref() == Some(label))
    };
    let found: Vec<usize> = (0..rows.height()).filter(is).collect();
    let what = format!("{table}['{}']", labels.join("', '"));
    let [row] = found[..] else {
        let mut known: Vec<String> = (0..rows.height()).filter_map(|row| said(row, 0)).collect();
        known.dedup();
        return Err(Error::refused(
            format!("{what} is {} rows of {table}, not one", found.len()),
            format!("its first column has {}", known.join(", ")),
        ));
    };
    let found = rows.column(column).map_err(Error::frame(table))?;
    let number = found
        .get(row)
        .ok()
        .and_then(|cell| cell.try_extract::<f64>().ok());
    number.ok_or_else(|| {
        Error::refused(
            format!("{what}.{column} is no number"),
            "choose a column of numbers",
        )
    })
}

/// The one number that a query answers.
fn number(frame: &DataFrame, what: &str) -> Result<f64> {
    let cell = frame
        .columns()
        .first()
        .and_then(|column| column.get(0).ok());
    let number = cell.and_then(|cell| cell.try_extract::<f64>().ok());
    number.ok_or_else(|| {
        Error::refused(
            format!("{what} is no number"),
            "nothing fits the condition, the run has no such value, or it is a text",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let claims = read(text).expect("claims");
        let near = Tolerance::Relative(0.05);
        let judge = |c: &Claim| c.judge(near, &[]).expect("numbers");
        claims.iter().all(|claim| judge(claim).holds)
    }

    #[test]
    fn numbers_are_compared_as_written() {
        assert!(holds(
            "1 + 2 * 3 == 7\n(1 + 2) * 3 > 8.9 # a remark\n\n-2 < 1e-3 // another"
        ));
        assert!(holds("8 / 2 / 2 = 2\n1 - -1 >= 2\n3 != 4"));
        assert!(!holds("1 == 2"));
        assert!(!holds("0 / 0 == 0") && !holds("0 / 0 != 0") && !holds("0 / 0 ~ 1"));
    }

    #[test]
    fn near_is_what_the_claim_or_the_cell_says() {
        assert!(holds("1.04 ~ 1") && !holds("1.06 ~ 1"));
        assert!(holds("1.06 ~ 1 +- 0.1") && !holds("1.06 ~ 1 ± 0.01"));
        assert!(holds("103 ~ 100 within 3 %") && !holds("103 ~ 100 within 2%"));
    }

    #[test]
    fn what_is_shown_is_judged_and_does_not_fail() {
        let claims = read("shown \"faster\" (by luck): 3 < 2\nshown 2 < 3").expect("claims");
        let judge = |k: usize| {
            claims[k]
                .judge(Tolerance::Relative(0.0), &[])
                .expect("numbers")
        };
        assert!(!judge(0).holds && !judge(0).fails() && !judge(1).fails());
        assert!(
            judge(0)
                .to_string()
                .starts_with("shown  faster: 3 against 2")
        );
    }

    #[test]
    fn a_cell_is_found_by_its_labels() {
        let rows = polars::df!(
            "shape" => ["2 ranks", "4 ranks", "4 ranks"], "method" => ["a", "a", "b"],
            "bytes" => [1.0, 2.0, 3.0],
        );
        let rows = rows.expect("columns have equal lengths");
        let find = |labels: &[&str], column: &str| {
            let labels: Vec<String> = labels.iter().map(|l| (*l).to_owned()).collect();
            cell(&rows, "t", &labels, column)
        };
        assert_eq!(find(&["4 ranks", "b"], "bytes").expect("a cell"), 3.0);
        assert_eq!(find(&["2 ranks"], "bytes").expect("a cell"), 1.0);
        let two = find(&["4 ranks"], "bytes")
            .expect_err("two rows")
            .to_string();
        assert!(two.contains("2 rows of t, not one"), "{two}");
        assert!(find(&["2 ranks"], "method").is_err() && find(&["2 ranks"], "none").is_err());
    }

    #[test]
    fn a_verdict_shows_both_numbers() {
        let claims = read("\"twice as fast\": 10.5 / 4 > 3").expect("a claim");
        let verdict = claims[0]
            .judge(Tolerance::Relative(0.0), &[])
            .expect("numbers");
        assert_eq!(verdict.to_string(), "FAILS  twice as fast: 2.625 against 3");
        assert_eq!(
            [short(0.123_456_78), short(1234.5), short(3.0)],
            ["0.123457", "1234.5", "3"]
        );
    }
}
