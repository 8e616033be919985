//! Into what vertices are cut: parts, each of which may be cut again.

use crate::{Error, Result};
use std::fmt;

/// How every part of a cut is cut again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nested {
    /// It is not.
    #[default]
    No,
    /// Into so many parts by the cut's own method, which sees the edges within the part alone.
    Again(usize),
    /// Into so many runs of ascending ids with about equal in-edges.
    Ranges(usize),
}

impl Nested {
    /// Reads what [`Nested`] is written as: `2`, `ranges:8`, or `1` for none.
    ///
    /// # Errors
    /// [`Error::Spec`] for anything else.
    pub fn parse(text: &str) -> Result<Nested> {
        let (ranges, number) = match text.split_once(':') {
            Some(("ranges", number)) => (true, number),
            _ => (false, text),
        };
        match (ranges, number.trim().parse()) {
            (_, Ok(0)) | (_, Err(_)) => Err(Error::Spec {
                key: "nested".into(),
                reason: format!("expected a number of parts, or ranges:NUMBER, got {text}"),
                help: "write 2 to cut each part again into 2, ranges:8 into 8 runs of ids".into(),
            }),
            (true, Ok(count)) => Ok(Nested::Ranges(count)),
            (false, Ok(1)) => Ok(Nested::No),
            (false, Ok(count)) => Ok(Nested::Again(count)),
        }
    }

    /// Into how many each part is cut, 1 where it is not.
    pub fn count(self) -> usize {
        match self {
            Nested::No => 1,
            Nested::Again(count) | Nested::Ranges(count) => count,
        }
    }
}

/// Into what the vertices of a run are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Parts.
    pub count: usize,
    /// How each is cut again.
    pub nested: Nested,
}

impl Parts {
    /// So many parts and no more.
    pub const fn of(count: usize) -> Parts {
        let nested = Nested::No;
        Parts { count, nested }
    }

    /// The same, each part cut again.
    pub const fn each(self, nested: Nested) -> Parts {
        Parts { nested, ..self }
    }

    /// Parts of the parts, all together.
    pub fn total(self) -> usize {
        self.count.saturating_mul(self.nested.count())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nested {
            Nested::No => write!(f, "{} parts", self.count),
            Nested::Again(each) => write!(f, "{} parts, each cut again into {each}", self.count),
            Nested::Ranges(each) => write!(f, "{} parts of {each} ranges each", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_level_is_read_and_refused_in_words() {
        for (text, nested, parts) in [
            ("1", Nested::No, "3 parts"),
            ("4", Nested::Again(4), "3 parts, each cut again into 4"),
            ("ranges:4", Nested::Ranges(4), "3 parts of 4 ranges each"),
            ("ranges:1", Nested::Ranges(1), "3 parts of 1 ranges each"),
        ] {
            let read = Nested::parse(text).expect(text);
            assert_eq!(read, nested);
            let both = Parts::of(3).each(read);
            assert_eq!(
                (both.to_string().as_str(), both.total()),
                (parts, 3 * read.count())
            );
        }
        for text in ["0", "", "many", "ranges", "ranges:0", "chunks:3", "-1"] {
            let error = Nested::parse(text).expect_err(text).to_string();
            assert!(error.contains("ranges:NUMBER"), "{error}");
        }
    }
}
