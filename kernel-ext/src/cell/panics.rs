//! Panics of a cell, out of what its process prints.

/// A panic on the cell's own thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Panicked {
    /// File, line and column.
    pub at: String,
    /// Its words, a line each.
    pub words: Vec<String>,
    /// The cell's line where it was, and its text.
    pub place: Option<(usize, String)>,
}

impl Panicked {
    /// The line of the cell's source, if it was there.
    pub fn cell_line(&self) -> Option<usize> {
        let place = self.at.strip_prefix("src/lib.rs:")?;
        place.split(':').next()?.parse().ok()
    }
}

/// How many lines of a panic's words are taken; a thread of the cell may go on printing.
const MOST: usize = 60;

/// Recognises what a panic on the cell's own thread prints. That is the process's first thread, whose number is
/// the process's; other threads may panic and be joined.
pub struct Panics {
    mark: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    /// An empty line, as before a panic.
    Empty,
    Words,
    Trace,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is the cell's.
    Shown,
    /// It is the cell's, and so is the empty line before it.
    ShownBehindEmpty,
    /// It is held back: the next one tells.
    Held,
    /// It is a panic's.
    Taken,
}

impl Panics {
    /// Of the process with this number.
    pub fn of(pid: u32) -> Panics {
        Panics {
            mark: format!("({pid}) panicked at "),
            state: State::Outside,
        }
    }

    /// Looks at a line of standard error.
    pub fn note(&mut self, line: &str, panic: &mut Option<Panicked>) -> Fate {
        match self.state {
            State::Outside | State::Empty => {
                let behind_empty = self.state == State::Empty;
                let place = line
                    .strip_prefix("thread '")
                    .and_then(|line| line.split_once(&self.mark));
                if let Some((_, at)) = place
                    && panic.is_none()
                {
                    self.state = State::Words;
                    *panic = Some(Panicked {
                        at: at.trim_end_matches(':').to_owned(),
                        ..Panicked::default()
                    });
                    return Fate::Taken;
                }
                self.state = match line.is_empty() {
                    true => State::Empty,
                    false => State::Outside,
                };
                match (line.is_empty(), behind_empty) {
                    (true, false) => Fate::Held,
                    (false, true) => Fate::ShownBehindEmpty,
                    // Of two empty lines, the first.
                    (true, true) | (false, false) => Fate::Shown,
                }
            }
            State::Words | State::Trace => {
                if line == "stack backtrace:" {
                    self.state = State::Trace;
                } else if is_last(line) {
                    self.state = State::Outside;
                } else if self.state == State::Words
                    && let Some(panicked) = panic
                {
                    if panicked.words.len() == MOST {
                        self.state = State::Outside;
                        return Fate::Shown;
                    }
                    panicked.words.push(line.to_owned());
                } else if !is_frame(line) {
                    self.state = State::Outside;
                    return Fate::Shown;
                }
                Fate::Taken
            }
        }
    }

    /// The cell has ended; whether an empty line was held back.
    pub fn end(&mut self) -> bool {
        std::mem::replace(&mut self.state, State::Outside) == State::Empty
    }
}

fn is_last(line: &str) -> bool {
    line.starts_with("note: ") && line.contains("RUST_BACKTRACE")
}

/// Whether a line is one of a backtrace: a number and a name, or where that is.
fn is_frame(line: &str) -> bool {
    let rest = line.trim_start();
    let number = rest
        .split(':')
        .next()
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    number || rest.starts_with("at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<String>, Option<Panicked>) {
        let (mut panics, mut panic, mut shown) = (Panics::of(7), None, Vec::new());
        for line in lines {
            match panics.note(line, &mut panic) {
                Fate::Shown => shown.push((*line).to_owned()),
                Fate::ShownBehindEmpty => shown.extend([String::new(), (*line).to_owned()]),
                Fate::Held | Fate::Taken => {}
            }
        }
        if panics.end() {
            shown.push(String::new());
        }
        (shown, panic)
    }

    #[test]
    fn a_panic_of_the_cell_is_taken_out_of_what_it_prints() {
        let (shown, panic) = read(&[
            "before",
            "",
            "thread '<unnamed>' (7) panicked at src/lib.rs:12:5:",
            "boom",
            "and more",
            "stack backtrace:",
            "   0: __rustc::rust_begin_unwind",
            "             at /rustc/library/std/src/panicking.rs:689:5",
            "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
            "dropped",
        ]);
        assert_eq!(shown, ["before", "dropped"]);
        let panic = panic.expect("there is one");
        assert_eq!(
            (panic.words.join("|").as_str(), panic.cell_line()),
            ("boom|and more", Some(12))
        );
    }

    #[test]
    fn other_threads_and_empty_lines_stay() {
        let lines = [
            "",
            "a",
            "",
            "",
            "thread 'w' (8) panicked at src/lib.rs:1:1:",
            "other",
            "",
        ];
        let (shown, panic) = read(&lines);
        assert_eq!(shown, lines);
        assert_eq!(panic, None);
    }
}
