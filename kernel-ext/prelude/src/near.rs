//! A column that a frame does not have: the error of plans, which lists the frame's columns, so that the kernel names
//! the near one.

use polars::prelude::{DataFrame, PolarsError};

use crate::or_end::end;

/// The value, or the end of the cell, of what a frame was asked for.
pub trait OrEndOf {
    /// What is inside.
    type Value;

    /// The value inside; `frame` is what it was asked of.
    ///
    /// # Panics
    /// With the error's words, and the frame's columns where one was not found.
    fn or_end_of(self, frame: &DataFrame) -> Self::Value;
}

impl<T> OrEndOf for Result<T, PolarsError> {
    type Value = T;

    #[track_caller]
    fn or_end_of(self, frame: &DataFrame) -> T {
        match self {
            Ok(value) => value,
            Err(error) => end("PolarsError", &with_columns(&error.to_string(), frame)),
        }
    }
}

/// The words, with the columns that there are where one is missing.
fn with_columns(words: &str, frame: &DataFrame) -> String {
    let missing = words.lines().next().and_then(|first| {
        let (_, rest) = first.split_once("not found: \"")?;
        rest.split_once('"')
            .filter(|(_, after)| after.starts_with(" not found"))
    });
    match missing {
        Some((name, _)) => format!(
            "not found: unable to find column {name:?}; valid columns: {:?}",
            frame.get_column_names()
        ),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use polars::prelude::*;

    use super::*;

    fn frame() -> DataFrame {
        df!("epoch_ms" => [1.0], "ranks" => [2]).expect("a frame")
    }

    #[test]
    #[should_panic(
        expected = "unable to find column \"epoc\"; valid columns: [\"epoch_ms\", \"ranks\"]"
    )]
    fn a_missing_column_lists_those_there_are() {
        let frame = frame();
        frame.column("epoc").or_end_of(&frame);
    }

    #[test]
    fn values_and_other_errors_are_as_they_were() {
        let frame = frame();
        assert_eq!(frame.select(["ranks"]).or_end_of(&frame).width(), 1);
        let words = "duplicate: \"ranks\" is there twice";
        assert_eq!(with_columns(words, &frame), words);
    }
}
