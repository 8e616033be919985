//! What rank 0 of a run prints, in the cell that waits for the run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use launcher::tail::Tail;

use crate::front::CellOutput;

/// Lines that are shown; the log has all of them.
const MOST: usize = 200;

/// Follows the log of rank 0.
pub struct Streamed {
    run_dir: PathBuf,
    log: Tail,
    output: CellOutput,
    /// Lines so far.
    lines: usize,
    /// Whether the rank has met an error: what it says of that is told with the run's failure.
    failing: bool,
    seen: HashSet<String>,
}

impl Streamed {
    /// Of the run in `run_dir`, into `output`.
    pub fn new(run_dir: &Path, output: &CellOutput) -> Streamed {
        Streamed {
            run_dir: run_dir.to_owned(),
            log: Tail::open(run_dir.join("logs/rank-0.log")),
            output: output.clone(),
            lines: 0,
            failing: false,
            seen: HashSet::new(),
        }
    }

    /// Shows what is new.
    pub fn look(&mut self) {
        let lines = self.log.next_lines().unwrap_or_default();
        if self.failing {
            return;
        }
        let mut text = String::new();
        for line in lines.into_iter().filter(|line| !is_ours(line)) {
            self.failing |= is_failure(&line);
            if self.failing {
                break;
            }
            self.lines += 1;
            if self.lines <= MOST {
                text.push_str(&line);
                text.push('\n');
            }
            if self.lines == MOST + 1 {
                text.push_str(&format!("… more: %log {}\n", self.id()));
            }
            self.seen.insert(line);
        }
        self.output.stdout(&text);
    }

    /// Shows the rest of a run that has ended well, and names ranks that printed what rank 0 did not.
    pub fn close(mut self, ranks: u32) {
        self.look();
        if self.failing {
            return;
        }
        let others = (1..ranks).filter(|rank| {
            let path = self.run_dir.join(format!("logs/rank-{rank}.log"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let mut lines = text.lines().filter(|line| !is_ours(line));
            lines.any(|line| !self.seen.contains(line))
        });
        let others: Vec<String> = others.map(|rank| rank.to_string()).collect();
        if !others.is_empty() {
            let of = if others.len() == 1 { "rank" } else { "ranks" };
            self.output.stdout(&format!(
                "{of} {} printed other lines: %log {}\n",
                others.join(", "),
                self.id()
            ));
        }
    }

    fn id(&self) -> String {
        let name = self.run_dir.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Whether a line is the first that a rank says of its own end.
fn is_failure(line: &str) -> bool {
    let panics = line.starts_with("thread '") && line.contains("panicked at");
    panics || line.starts_with("error: ")
}

/// Whether a line is the worker's own: `6 of 6 epochs`.
fn is_ours(line: &str) -> bool {
    let number = |word: &str| word.parse::<u64>().is_ok();
    match line.split(' ').collect::<Vec<_>>().as_slice() {
        [done, "of", all, "epochs"] => number(done) && number(all),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_failure, is_ours};

    #[test]
    fn the_workers_own_line_is_no_print() {
        assert!(is_failure("thread 'main' (7) panicked at cell.rs:6:70:"));
        assert!(!is_failure("the error: 0.1"));
        assert!(is_ours("6 of 6 epochs"));
        for line in ["epoch 6", "6 of 6 epochs are done", "a of b epochs", ""] {
            assert!(!is_ours(line), "{line}");
        }
    }
}
