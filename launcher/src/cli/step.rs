//! One line of progress: what is being measured now.

use std::io::{IsTerminal, Write};

/// Shows each step on standard error: one rewritten line on a terminal, a line each where
/// `HALOBOOK_NONINTERACTIVE` is set, else nothing.
pub struct Steps {
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Line,
    Lines,
    Nothing,
}

impl Steps {
    /// Steps that are shown unless `quiet`.
    pub fn new(quiet: bool) -> Steps {
        let lines = std::env::var("HALOBOOK_NONINTERACTIVE").is_ok_and(|v| v != "0");
        let style = match (quiet, lines, std::io::stderr().is_terminal()) {
            (true, ..) => Style::Nothing,
            (_, true, _) => Style::Lines,
            (_, _, true) => Style::Line,
            _ => Style::Nothing,
        };
        Steps { style }
    }

    /// Shows the next one.
    pub fn show(&mut self, what: &str) {
        let mut err = std::io::stderr();
        // Progress that cannot be shown is no reason to fail.
        let _ = match self.style {
            Style::Line => write!(err, "\r\x1b[K{what}").and_then(|()| err.flush()),
            Style::Lines => writeln!(err, "{what}"),
            Style::Nothing => Ok(()),
        };
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.style == Style::Line {
            // As above.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
