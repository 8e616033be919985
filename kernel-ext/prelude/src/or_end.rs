//! The `?` at the very end of a cell.
//!
//! A cell's last value is shown. With `?` behind it, the compiler must first learn that the cell
//! may return early, and by then it has settled for the plain text form. So the kernel writes
//! [`OrEnd::or_end`] there, which gives the same value and ends the cell with the same words.

use std::fmt::Display;

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
            Err(error) => panic!("{error}"),
        }
    }
}

impl<T> OrEnd for Option<T> {
    type Value = T;

    #[track_caller]
    fn or_end(self) -> T {
        match self {
            Some(value) => value,
            None => panic!("there is no value here (None)"),
        }
    }
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
