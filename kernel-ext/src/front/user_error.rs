//! evcxr's errors as a notebook shows them.

use evcxr::{CompilationError, Error};

use super::outcome::Failure;

/// Turns an evaluation error into the cell's one failure. `lost` are the variables that the
/// cell's process held when it ended.
pub fn failure(error: &Error, lost: &[String]) -> Failure {
    match error {
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
        Error::Message(message) => {
            let mut lines = message.lines().map(str::to_owned);
            let first = lines.next().unwrap_or_default();
            Failure::new("HaloCellError", first, lines)
        }
    }
}

/// The failure of a cell whose process was ended on request.
pub fn interrupted(lost: &[String]) -> Failure {
    Failure::new(
        "HaloInterrupted",
        "the cell was interrupted and its process ended",
        lost_lines(lost),
    )
}

/// The failure of a cell that was still being compiled when the interrupt came.
pub fn interrupted_before_running() -> Failure {
    Failure::new(
        "HaloInterrupted",
        "the cell was interrupted before it ran; all variables are intact",
        [],
    )
}

fn terminated(message: &str, lost: &[String]) -> Failure {
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

fn lost_lines(lost: &[String]) -> Vec<String> {
    if lost.is_empty() {
        return vec!["no variable was lost".to_owned()];
    }
    vec![
        format!("these variables are lost: {}", lost.join(", ")),
        "a run is not: bind it again with `let r = halobook::Run::open(\"ID\");` (see %runs)"
            .to_owned(),
    ]
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
