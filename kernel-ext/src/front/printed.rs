//! How much printed text waits for clients: more than they take in time is dropped, counted and said.
//!
//! A loop that prints without end is quicker than any notebook. Its text may not fill the kernel's memory, nor arrive
//! for a minute after the cell has ended.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Bytes that may wait.
const MOST: usize = 16 << 20;

/// Bytes of an ended cell that still arrive when it was interrupted.
const REST: usize = 64 << 10;

/// The text of streams between cells and the socket.
#[derive(Default)]
pub struct Printed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that wait.
    waiting: usize,
    /// Lines and bytes dropped since it was last said.
    lines: usize,
    bytes: usize,
    /// Requests whose waiting text nobody shall see any more.
    cut: HashSet<String>,
}

impl Printed {
    /// Whether `text` may be queued; it counts as waiting then. Once something was dropped, nothing is taken before
    /// half of what waits has gone.
    pub fn admits(&self, text: &str) -> bool {
        let mut state = self.state();
        let most = if state.bytes > 0 { MOST / 2 } else { MOST };
        let taken = state.waiting + text.len() <= most;
        match taken {
            true => state.waiting += text.len(),
            false => {
                state.bytes += text.len();
                state.lines += text.bytes().filter(|byte| *byte == b'\n').count();
            }
        }
        taken
    }

    /// What is said of dropped text, once.
    pub fn missing(&self) -> Option<String> {
        let mut state = self.state();
        let (lines, bytes) = (state.lines, state.bytes);
        (state.lines, state.bytes) = (0, 0);
        (bytes > 0).then(|| {
            let megabytes = bytes as f64 / 1e6;
            format!(
                "[{lines} lines ({megabytes:.1} MB) are missing here: they came faster than the notebook took them]\n"
            )
        })
    }

    /// The cell of this request was interrupted and has ended: a little of what waits may still come.
    pub fn cut(&self, request: &str) {
        let mut state = self.state();
        if state.waiting > REST {
            state.cut.insert(request.to_owned());
        }
    }

    /// Text of a request leaves the queue; whether it is to be sent.
    pub fn leaves(&self, request: Option<&str>, bytes: usize) -> bool {
        let mut state = self.state();
        state.waiting = state.waiting.saturating_sub(bytes);
        let wanted = request.is_none_or(|request| !state.cut.contains(request));
        if state.waiting == 0 {
            state.cut.clear();
        }
        wanted
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_counted_and_said_once() {
        let printed = Printed::default();
        let text = "x\n".repeat(MOST / 4);
        assert!(printed.admits(&text) && printed.admits(&text));
        assert!(!printed.admits("one\ntwo\n") && printed.missing().is_some());
        assert!(!printed.admits("one\ntwo\n") && !printed.admits("three\n"));
        assert!(printed.leaves(None, text.len()));
        assert!(!printed.admits("four\n"), "half of it still waits");
        assert!(printed.leaves(None, 16));
        assert!(printed.admits("five\n"));
        let said = printed.missing().expect("four lines are missing");
        assert!(said.starts_with("[4 lines (0.0 MB)"), "{said}");
        assert_eq!(printed.missing(), None);
    }

    #[test]
    fn waiting_text_of_an_interrupted_cell_does_not_arrive() {
        let printed = Printed::default();
        let text = "x".repeat(REST + 1);
        assert!(printed.admits(&text) && printed.admits("later"));
        printed.cut("a");
        assert!(!printed.leaves(Some("a"), text.len()));
        assert!(printed.leaves(Some("b"), 5));
        assert!(printed.admits("a few words"));
        printed.cut("a");
        assert!(printed.leaves(Some("a"), 11), "a few words arrive");
    }
}
