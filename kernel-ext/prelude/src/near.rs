//! A column that is not there: the near name, and those that there are.

use gnn_core::error::nearest;
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
            Err(error) => {
                let names = frame.get_column_names();
                let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                let words = error.to_string();
                end("PolarsError", &in_names(&words, &names).unwrap_or(words))
            }
        }
    }
}

/// The words of a plan that lacks a column, which list those that it has; none of other errors.
pub(crate) fn in_words(words: &str) -> Option<String> {
    let (_, list) = words.split_once("valid columns: [")?;
    let names: Vec<&str> = list
        .split_once(']')?
        .0
        .split(", ")
        .map(|name| name.trim_matches('"'))
        .collect();
    in_names(words, &names)
}

fn in_names(words: &str, names: &[&str]) -> Option<String> {
    let first = words.lines().next()?;
    let (before, rest) = first.split_once('"')?;
    let (name, after) = rest.split_once('"')?;
    let lacks = after.starts_with(" not found") || before.ends_with("unable to find column ");
    if !lacks || names.contains(&name) {
        return None;
    }
    let near = nearest(name, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Some(format!(
        "the frame has no column \"{name}\"{near}\nhelp: its columns are {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use polars::prelude::*;

    use super::*;

    fn frame() -> DataFrame {
        df!("epoch_ms" => [1.0], "ranks" => [2]).expect("a frame")
    }

    #[test]
    fn a_plan_names_the_near_column() {
        let lacks = frame().lazy().select([col("rank")]).collect();
        let words = in_words(&lacks.expect_err("no such column").to_string());
        let words = words.expect("a list of names");
        assert!(words.contains("did you mean \"ranks\"?"), "{words}");
        assert!(words.ends_with("epoch_ms, ranks"), "{words}");
    }

    #[test]
    #[should_panic(expected = "did you mean \"epoch_ms\"?")]
    fn a_frame_names_the_near_column() {
        let frame = frame();
        frame.column("epoch_mss").or_end_of(&frame);
    }

    #[test]
    fn other_errors_keep_their_words() {
        assert_eq!(in_words("something \"else\" is wrong"), None);
        assert_eq!(
            in_names("duplicate: \"ranks\" is there twice", &["ranks"]),
            None
        );
        let frame = frame();
        assert_eq!(frame.select(["ranks"]).or_end_of(&frame).width(), 1);
    }
}
