//! evcxr's errors as a notebook shows them.

use std::collections::HashMap;

use evcxr::{CompilationError, Error};

use super::outcome::Failure;
use crate::cell::panics::Panicked;
use crate::cell::pump::Seen;
use crate::live::Lost;

/// What the system says of a full disk, through whichever program met it.
const NO_ROOM: &str = "No space left on device";
/// How evcxr begins when a compiler failed without an error of the cell's.
const NOT_THE_CELLS: &str = "but no parsable errors were found. STDERR";

/// Turns an evaluation error into the cell's one failure. `lost` is what became of the variables
/// that the cell's process held when it ended.
pub fn failure(error: &Error, lost: &Lost) -> Failure {
    match error {
        Error::CompilationErrors(errors)
            if errors.iter().any(|e| e.rendered().contains(NO_ROOM)) =>
        {
            no_room()
        }
        Error::CompilationErrors(errors) => compile_failure(errors),
        Error::TypeRedefinedVariablesLost(variables) => Failure::new(
            "HaloVariablesLost",
            format!(
                "a type was redefined, so these variables are lost: {}",
                variables.join(", ")
            ),
            [],
        ),
        Error::SubprocessTerminated(message) => terminated(message, lost),
        Error::Message(message) if message.contains(NO_ROOM) => no_room(),
        Error::Message(message) => {
            // What a compiler said that was no error of the cell's.
            let message = message
                .split_once(NOT_THE_CELLS)
                .map_or(&**message, |(_, said)| said.trim_start_matches([':', '\n']));
            let mut lines = message.lines().map(str::to_owned);
            let first = lines.next().unwrap_or_default();
            Failure::new("HaloCellError", first, lines)
        }
    }
}

/// The failure of a cell that could not be compiled because the disk is full.
fn no_room() -> Failure {
    let folder = std::env::temp_dir();
    Failure::new(
        "HaloDiskFull",
        format!("no room is left in {} to compile the cell", folder.display()),
        [
            "variables of earlier cells are intact".to_owned(),
            "help: make room there and run the cell again; another folder for the next kernel: set TMPDIR"
                .to_owned(),
        ],
    )
}

/// The failure of a cell whose process was ended on request.
pub fn interrupted(lost: &Lost) -> Failure {
    Failure::new(
        "HaloInterrupted",
        "the cell was interrupted and its process ended",
        lost_lines(lost),
    )
}

/// The failure of a cell that an interrupt has ended without its process.
pub fn stopped(seen: &Seen) -> Failure {
    let (what, remark) = match (&seen.interrupted, &seen.panic) {
        (Some(remark), _) => ("the cell was interrupted", remark.as_str()),
        (None, Some(panic)) => (
            "the cell was interrupted, and panicked",
            panic.words.first().map_or("", String::as_str),
        ),
        (None, None) => (
            "the cell had come to its end before the interrupt reached it",
            "",
        ),
    };
    let remark = (!remark.is_empty()).then(|| remark.to_owned());
    let kept = "variables of earlier cells are intact".to_owned();
    Failure::new("HaloInterrupted", what, remark.into_iter().chain([kept]))
}

/// The failure of a cell that was still being compiled when the interrupt came.
pub fn interrupted_before_running() -> Failure {
    Failure::new(
        "HaloInterrupted",
        "the cell was interrupted before it ran; all variables are intact",
        [],
    )
}

fn terminated(message: &str, lost: &Lost) -> Failure {
    let mut lines: Vec<String> = message
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    lines.truncate(20);
    lines.extend(lost_lines(lost));
    Failure::new(
        "HaloProcessEnded",
        "the process that ran the cell has ended",
        lines,
    )
}

fn lost_lines(lost: &Lost) -> Vec<String> {
    let mut lines = Vec::new();
    if !lost.back.is_empty() {
        lines.push(format!("bound again: {}", lost.back.join(", ")));
    }
    lines.push(match (lost.gone.is_empty(), lost.back.is_empty()) {
        (true, true) => "no variable was lost".to_owned(),
        (true, false) => "no other variable was lost".to_owned(),
        (false, _) => format!("these variables are lost: {}", lost.gone.join(", ")),
    });
    lines
}

/// The failure of a cell that has panicked, or ended itself for an error: its name, a line, and what follows.
pub fn panicked(panicked: Panicked, failed: Option<(String, String, Vec<String>)>) -> Failure {
    let Panicked { at, words, place } = panicked;
    let (name, first, rest) = failed.unwrap_or_else(|| {
        let mut words = words.into_iter();
        let first = words.next().unwrap_or_default();
        ("Panic".to_owned(), first, words.collect())
    });
    let place = match place {
        // Of a line that became Rust the user wrote what stands behind it.
        Some((number, text)) => {
            let own = text
                .split_once(" // %plot ")
                .map(|(_, own)| format!("%plot {own}"));
            format!(
                "line {number} | {}",
                own.as_deref().unwrap_or(&text).trim_end()
            )
        }
        // A library's own place, without where its sources lie and whose index they are of.
        None => {
            let of = at.rsplit_once("/registry/src/");
            let of = of.and_then(|(_, at)| at.split_once('/'));
            format!("in {}", of.map_or(&*at, |(_, at)| at))
        }
    };
    let (first, near) = with_near_columns(first);
    // How far polars got with a plan is no help.
    let rest = rest
        .into_iter()
        .take_while(|line| !line.starts_with("Resolved plan until failure"));
    let mut rest: Vec<String> = rest.collect();
    while rest.last().is_some_and(|line| line.trim().is_empty()) {
        rest.pop();
    }
    Failure::new(name, first, [place].into_iter().chain(rest).chain(near))
}

/// What polars says of a column that is not there, without all that are, and these, the near ones first.
fn with_near_columns(words: String) -> (String, Option<String>) {
    let parts = words
        .split_once("; valid columns: ")
        .and_then(|(said, all)| {
            let asked = said.rsplit_once(" \"")?.1.trim_end_matches('"');
            Some((said, asked, serde_json::from_str::<Vec<String>>(all).ok()?))
        });
    let Some((said, asked, mut all)) = parts else {
        return (words, None);
    };
    let near = gnn_core::error::nearest(asked, all.iter().map(String::as_str)).map(str::to_owned);
    all.sort_by_key(|name| near.as_ref() != Some(name));
    let meant = near.map_or(String::new(), |near| format!("did you mean {near:?}? "));
    let columns = format!("help: {meant}columns: {}", all.join(", "));
    (said.to_owned(), Some(columns))
}

/// A failure that says which cell took the variables that it misses; `taken` are those that are gone.
pub fn with_takers(mut failure: Failure, taken: &HashMap<String, usize>) -> Failure {
    let mut notes: Vec<String> = taken
        .iter()
        .filter(|(name, _)| {
            let missed = format!("cannot find value `{name}` in this scope");
            failure.traceback.iter().any(|line| line.contains(&missed))
        })
        .map(|(name, cell)| {
            format!("help: cell {cell} took `{name}` by value, so it is gone; write `&{name}` or `{name}.clone()` there")
        })
        .collect();
    notes.sort();
    failure.traceback.extend(notes);
    failure
}

fn compile_failure(errors: &[CompilationError]) -> Failure {
    let first = errors
        .first()
        .map(CompilationError::message)
        .unwrap_or_default();
    let mut lines = Vec::new();
    for error in errors.iter().take(6) {
        let code = error
            .code()
            .map(|code| format!("[{code}]"))
            .unwrap_or_default();
        lines.push(format!("error{code}: {}", error.message()));
        lines.extend(spans(error));
        lines.extend(error.help().into_iter().flat_map(|help| {
            format!("  help: {help}")
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        }));
        if let Some(hint) = error.evcxr_extra_hint() {
            lines.push(format!("  note: {hint}"));
        }
    }
    if errors.len() > 6 {
        lines.push(format!("… and {} more errors", errors.len() - 6));
    }
    Failure::new("HaloCompileError", first, lines)
}

/// The cell's lines that an error speaks of, with carets under the words.
fn spans(error: &CompilationError) -> Vec<String> {
    let mut lines = Vec::new();
    for message in error.spanned_messages() {
        let Some(span) = message.span else {
            if !message.label.is_empty() {
                lines.push(format!("  {}", message.label));
            }
            continue;
        };
        let Some(source) = message.lines.first() else {
            continue;
        };
        let number = span.start_line.to_string();
        let last = if span.end_line == span.start_line {
            span.end_column
        } else {
            source.chars().count() + 1
        };
        let width = last.saturating_sub(span.start_column).max(1);
        let gutter = " ".repeat(number.len());
        let caret = if message.is_primary { "^" } else { "-" };
        lines.push(format!("{number} | {source}"));
        lines.push(format!(
            "{gutter} | {}{} {}",
            " ".repeat(span.start_column.saturating_sub(1)),
            caret.repeat(width),
            message.label
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_called_that() {
        let said = |stderr: &str| {
            let message = format!("Compilation failed, {NOT_THE_CELLS}:\n{stderr}\n\nSTDOUT:\n");
            failure(&Error::Message(message), &Lost::default())
        };
        let full = said("rustc-LLVM ERROR: IO failure on output stream: No space left on device");
        assert_eq!(full.ename, "HaloDiskFull");
        assert!(full.evalue.starts_with("no room is left in /"), "{full:?}");
        let other = said("error: could not exec the linker");
        assert_eq!(other.ename, "HaloCellError");
        assert_eq!(other.evalue, "error: could not exec the linker");
    }

    #[test]
    fn a_variable_that_a_cell_took_is_explained() {
        let taken = HashMap::from([("t".to_owned(), 5), ("u".to_owned(), 6)]);
        let missed = |name: &str| {
            let line = format!("error[E0425]: cannot find value `{name}` in this scope");
            let failure = Failure::new("HaloCompileError", "not found", [line]);
            with_takers(failure, &taken).traceback
        };
        let explained =
            "help: cell 5 took `t` by value, so it is gone; write `&t` or `t.clone()` there";
        assert_eq!(missed("t").last().map(String::as_str), Some(explained));
        assert!(!missed("v").iter().any(|line| line.contains("help")));
    }

    #[test]
    fn a_wrong_column_names_the_near_ones() {
        let words = "not found: unable to find column \"valeu\"; valid columns: [\"k\", \"value\"]";
        let place = Some((3, "t.select([col(\"valeu\")])?  ".to_owned()));
        let at = "src/lib.rs:110:19".to_owned();
        let of = Panicked {
            at,
            words: Vec::new(),
            place,
        };
        let rest = ["", "Resolved plan until failure:", "", "..."].map(str::to_owned);
        let failed = Some(("PolarsError".to_owned(), words.to_owned(), rest.to_vec()));
        assert_eq!(
            panicked(of, failed).traceback,
            [
                "PolarsError: not found: unable to find column \"valeu\"",
                "line 3 | t.select([col(\"valeu\")])?",
                "help: did you mean \"value\"? columns: value, k",
            ]
        );
    }

    #[test]
    fn a_panic_says_where_it_was() {
        let of = Panicked {
            at: "/home/u/.cargo/registry/src/x/polars-core-0.55.2/src/a.rs:1:2".to_owned(),
            words: vec!["boom".to_owned(), "more".to_owned()],
            place: None,
        };
        let said = panicked(of, None).traceback;
        assert_eq!(
            said,
            ["Panic: boom", "in polars-core-0.55.2/src/a.rs:1:2", "more"]
        );
    }

    #[test]
    fn what_is_back_and_what_is_lost_are_told_apart() {
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect();
        for (back, gone, lines) in [
            (&[][..], &[][..], &["no variable was lost"][..]),
            (&[], &["x", "y"], &["these variables are lost: x, y"]),
            (
                &["r1"],
                &[],
                &["bound again: r1", "no other variable was lost"],
            ),
            (
                &["r1"],
                &["x"],
                &["bound again: r1", "these variables are lost: x"],
            ),
        ] {
            let lost = Lost {
                back: names(back),
                gone: names(gone),
            };
            assert_eq!(interrupted(&lost).traceback[1..], *lines);
        }
    }
}
