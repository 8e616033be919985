//! Errors that end a cell with what is wrong and what to do.

use crate::plot::PlotError;
use crate::source;

/// An error that tells what to do.
pub(crate) trait InWords {
    fn in_words(&self) -> String;
}

impl InWords for launcher::Error {
    fn in_words(&self) -> String {
        source::in_words(self)
    }
}

impl InWords for PlotError {
    fn in_words(&self) -> String {
        self.to_string()
    }
}

/// The value, or the end of the cell with the error's words.
#[track_caller]
pub(crate) fn or_end<T, E: InWords>(result: std::result::Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => crate::or_end::end("HaloError", &error.in_words()),
    }
}
