//! The `?` of a cell.
//!
//! A cell's last value is shown. With `?` behind it, the compiler must first learn that the cell
//! may return early, and by then it has settled for the plain text form; and a cell that returns
//! early for an error counts as done. So the kernel writes [`OrEnd::or_end`] there, which gives the same
//! value and ends the cell with the same words, as an error.

use std::any::type_name;
use std::fmt::Display;

use serde_json::json;

use crate::display::tell;

/// The value, or the end of the cell.
pub trait OrEnd {
    /// What is inside.
    type Value;

    /// The value inside.
    ///
    /// # Panics
    /// With the error's words, which ends the cell; variables of earlier cells stay.
    fn or_end(self) -> Self::Value;
}

impl<T, E: Display> OrEnd for Result<T, E> {
    type Value = T;

    #[track_caller]
    fn or_end(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => end(type_name::<E>(), &error.to_string()),
        }
    }
}

impl<T> OrEnd for Option<T> {
    type Value = T;

    #[track_caller]
    fn or_end(self) -> T {
        match self {
            Some(value) => value,
            None => end("Option", "there is no value here (None)"),
        }
    }
}

/// Ends the cell with an error of the type `kind`.
#[track_caller]
pub(crate) fn end(kind: &str, words: &str) -> ! {
    let kind = kind.split('<').next().unwrap_or_default();
    let kind = kind.rsplit("::").next().unwrap_or_default();
    let mut lines = words.lines();
    let first = lines.next().unwrap_or_default();
    if !std::thread::panicking() {
        let lines: Vec<&str> = lines.collect();
        tell(&json!({"failed": {"ename": kind, "evalue": first, "lines": lines}}));
    }
    panic!("{words}")
}

#[cfg(test)]
mod tests {
    use super::OrEnd;

    #[test]
    fn values_come_out() {
        assert_eq!(Ok::<_, std::fmt::Error>(3).or_end(), 3);
        assert_eq!(Some(4).or_end(), 4);
    }

    #[test]
    #[should_panic(expected = "an error occurred")]
    fn errors_end_the_cell_in_their_words() {
        Err::<(), _>(std::fmt::Error).or_end();
    }
}
