//! Counting what libtest printed.

use crate::flow::Stop;

/// Passed, failed and ignored checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Not run because they are marked so.
    pub ignored: usize,
}

impl Counts {
    /// Adds one check.
    pub fn one(&mut self, passed: bool) {
        match passed {
            true => self.passed += 1,
            false => self.failed += 1,
        }
    }

    /// Counts a check that did not pass, and says why.
    pub fn refuse(&mut self, stop: Stop) {
        stop.print();
        self.one(false);
    }

    /// Adds what a check counted, or counts it as one that did not pass.
    pub fn add(&mut self, outcome: Result<Counts, Stop>) {
        match outcome {
            Ok(counts) => *self += counts,
            Err(stop) => self.refuse(stop),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Sums every `test result:` line of a log.
pub fn sum(log: &str) -> Counts {
    let mut total = Counts::default();
    for line in log.lines() {
        // A test that writes without a newline can push the result line to the right.
        let Some((_, rest)) = line.split_once("test result: ") else {
            continue;
        };
        let number = |word: &str| -> usize {
            rest.split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
                .unwrap_or(0)
        };
        total += Counts {
            passed: number("passed"),
            failed: number("failed"),
            ignored: number("ignored"),
        };
    }
    total
}

/// The names libtest lists as failed, in order, each once.
pub fn failures(log: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in log.lines() {
        let name = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let Some(name) = name.filter(|name| !names.iter().any(|seen| seen == name)) {
            names.push(name.to_string());
        }
    }
    names
}

/// The last lines of what libtest kept of a failed test.
pub fn kept(log: &str, name: &str) -> String {
    const LINES: usize = 20;
    let head = format!("---- {name} stdout ----");
    let lines = log.lines().skip_while(|line| *line != head).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("---- ") && *line != "failures:");
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Lines by which tests say that something is not here, so that they checked less.
pub fn skips(log: &str) -> Vec<String> {
    log.lines()
        .filter_map(|line| Some(line.split_once("skip: ")?.1.trim().to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 3 tests
test a ... ok
skip: b: no data here
test b ... ok
test c ... FAILED

failures:

---- c stdout ----
one
Error: two

failures:
    c

test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 5 filtered out; finished in 0.10s
half a linetest result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn every_result_line_counts() {
        let expected = Counts {
            passed: 12,
            failed: 1,
            ignored: 4,
        };
        assert_eq!(sum(LOG), expected);
        assert_eq!(sum("nothing ran"), Counts::default());
    }

    #[test]
    fn failures_and_skips_are_named() {
        assert_eq!(failures(LOG), ["c"]);
        assert_eq!(kept(LOG, "c"), "one\nError: two");
        assert_eq!(kept(LOG, "b"), "");
        assert_eq!(skips(LOG), ["b: no data here"]);
    }
}
