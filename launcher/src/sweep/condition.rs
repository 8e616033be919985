//! When a sweep has found what it was started for: a column compared with a number.

use super::row::{Numbers, Row};
use crate::error::{Error, Result};

/// `COLUMN OP NUMBER`, as in `test >= 0.8`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    column: &'static str,
    op: Op,
    number: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    AtLeast,
    AtMost,
    Above,
    Below,
}

const OPS: [(&str, Op); 4] = [
    (">=", Op::AtLeast),
    ("<=", Op::AtMost),
    (">", Op::Above),
    ("<", Op::Below),
];

impl Condition {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Refused`] with the nearest column, or how it is written.
    pub fn read(text: &str) -> Result<Condition> {
        let wrong = |what: String| {
            Error::refused(
                format!("stop-if: {what}"),
                format!(
                    "write --stop-if \"test >= 0.8\"; columns: {}",
                    Numbers::NAMES.join(", ")
                ),
            )
        };
        let found = OPS.iter().find_map(|(sign, op)| {
            let (column, number) = text.split_once(sign)?;
            Some((column.trim(), *op, number.trim()))
        });
        let (column, op, number) =
            found.ok_or_else(|| wrong(format!("expected COLUMN >= NUMBER, got {text:?}")))?;
        let Some(column) = Numbers::NAMES.iter().find(|name| **name == column) else {
            let near = gnn_core::error::nearest(column, Numbers::NAMES.iter().copied());
            let near = near.map_or(String::new(), |n| format!("; did you mean '{n}'?"));
            return Err(wrong(format!("there is no column '{column}'{near}")));
        };
        let number = number.parse();
        let number =
            number.map_err(|_| wrong(format!("the right side of {text:?} is no number")))?;
        Ok(Condition { column, op, number })
    }

    /// Whether a row meets it; one without the number does not.
    pub fn holds(&self, row: &Row) -> bool {
        row.numbers.get(self.column).is_some_and(|x| match self.op {
            Op::AtLeast => x >= self.number,
            Op::AtMost => x <= self.number,
            Op::Above => x > self.number,
            Op::Below => x < self.number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_compared_with_a_number() {
        let row = Row {
            numbers: Numbers {
                test: Some(0.8),
                ..Numbers::default()
            },
            ..Row::default()
        };
        for (text, holds) in [
            ("test >= 0.8", true),
            ("test>0.8", false),
            ("test <= 0.8", true),
            ("test < 0.9", true),
            ("epoch_ms < 5", false),
        ] {
            assert_eq!(
                Condition::read(text).expect(text).holds(&row),
                holds,
                "{text}"
            );
        }
        let said = |text: &str| Condition::read(text).expect_err(text).to_string();
        assert!(said("tset >= 1").contains("did you mean 'test'"));
        assert!(said("test = 1").contains("expected COLUMN"));
        assert!(said("test > much").contains("no number"));
    }
}
