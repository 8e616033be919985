//! One call of the compiler, and its complaints as the cell's.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cell::facts::Facts;
use crate::cell::shim;
use crate::front::Failure;
use crate::live::interrupt::Interrupt;

/// How often an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Compiles `main.rs` in `dir` into the program `program` there, against what set-up prepared. Places in
/// `cell.rs` are the cell's, which has `lines` lines.
///
/// # Errors
/// What the compiler says; an interrupt.
pub fn program(
    facts: &Facts,
    dir: &Path,
    lines: usize,
    interrupt: Option<&Interrupt>,
) -> Result<(), Failure> {
    let mut command = rustc(facts);
    command
        .args(["--crate-name", "strategy", "main.rs", "-o", "program"])
        .args(["--crate-type", "bin", "-Copt-level=3"])
        .arg(format!("-Ldependency={}", facts.deps.display()))
        .arg(extern_flag("halobook", &facts.rlib));
    if let Some(mpi) = &facts.mpi {
        command.arg(extern_flag("gnn_mpi", mpi));
    }
    command.args(facts.native.iter().map(|place| format!("-L{place}")));
    run(&mut command, dir, lines, interrupt)
}

/// Compiles `cell.rs` in `dir`, of `lines` lines, into the library `libcell.so` there, which is loaded
/// beside the prelude's own.
///
/// # Errors
/// What the compiler says; an interrupt.
pub fn library(
    facts: &Facts,
    dir: &Path,
    lines: usize,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut command = rustc(facts);
    command
        .args(["--crate-name", "cell", "cell.rs", "-o", "libcell.so"])
        .args(["--crate-type", "cdylib", "-Cprefer-dynamic"])
        .arg("-Copt-level=1");
    facts.link_cell(&mut command);
    run(&mut command, dir, lines, Some(interrupt))
}

fn extern_flag(name: &str, path: &Path) -> String {
    format!("--extern={name}={}", path.display())
}

fn rustc(facts: &Facts) -> Command {
    let mut command = Command::new(facts.rustc());
    shim::restore_environment(&mut command);
    command
        .args(["--edition", "2024", "--error-format=json"])
        .args(["-Cdebuginfo=0", "-Cstrip=debuginfo"]);
    command
}

/// Runs the compiler, which an interrupt ends.
fn run(
    command: &mut Command,
    dir: &Path,
    lines: usize,
    interrupt: Option<&Interrupt>,
) -> Result<(), Failure> {
    command
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let broken = |what: String| Failure::new("HaloCompileError", what, []);
    let mut child = command
        .spawn()
        .map_err(|e| broken(format!("the compiler cannot be started: {e}")))?;
    let pipe = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let text = pipe.map(std::io::read_to_string);
        text.and_then(Result::ok).unwrap_or_default()
    });
    let mut interrupts = interrupt.map(Interrupt::watch);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(broken(format!("the compiler is lost: {error}"))),
        }
        if interrupts.as_mut().is_some_and(|i| i.look().is_some()) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new(
                "HaloInterrupted",
                "interrupted while the cell was being compiled; nothing has changed",
                [],
            ));
        }
        std::thread::sleep(LOOK);
    };
    let said = reader.join().unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    Err(complaint(&said, lines))
}

/// The compiler's errors as the cell's one failure.
fn complaint(said: &str, lines: usize) -> Failure {
    let messages = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let errors: Vec<Value> = messages
        .filter(|m| m["level"] == "error" && m["spans"].as_array().is_some_and(|s| !s.is_empty()))
        .collect();
    let Some(first) = errors.first() else {
        // The linker's words, or the compiler's own when it fails.
        let plain = said.lines().map(|line| {
            let message = serde_json::from_str::<Value>(line).ok();
            let text = message.and_then(|m| m["message"].as_str().map(str::to_owned));
            text.unwrap_or_else(|| line.to_owned())
        });
        return Failure::new("HaloCompileError", "the cell cannot be linked", plain);
    };
    let mut text = Vec::new();
    for error in errors.iter().take(6) {
        let code = error["code"]["code"].as_str();
        let code = code.map_or(String::new(), |code| format!("[{code}]"));
        text.push(format!("error{code}: {}", words(&error["message"])));
        text.extend(spans(error, lines));
        for child in error["children"].as_array().into_iter().flatten() {
            let level = words(&child["level"]);
            if level == "help" || level == "note" {
                let said = words(&child["message"]);
                text.extend(
                    said.lines()
                        .take(4)
                        .map(|line| format!("  {level}: {line}")),
                );
            }
        }
    }
    if errors.len() > 6 {
        text.push(format!("… and {} more errors", errors.len() - 6));
    }
    Failure::new("HaloCompileError", words(&first["message"]), text)
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The lines that an error speaks of, with carets under the words.
fn spans(error: &Value, lines: usize) -> Vec<String> {
    let mut text = Vec::new();
    for span in error["spans"].as_array().into_iter().flatten() {
        let number = |name: &str| span[name].as_u64().unwrap_or(0) as usize;
        let (line, start) = (number("line_start"), number("column_start"));
        let label = words(&span["label"]);
        if words(&span["file_name"]) != "cell.rs" || line > lines {
            text.push(format!("  in what the magic adds: {label}"));
            continue;
        }
        let source = words(&span["text"][0]["text"]);
        let end = match line == number("line_end") {
            true => number("column_end"),
            false => source.chars().count() + 1,
        };
        let gutter = " ".repeat(line.to_string().len());
        let caret = if span["is_primary"] == true { "^" } else { "-" };
        text.push(format!("{line} | {source}"));
        text.push(format!(
            "{gutter} | {}{} {label}",
            " ".repeat(start.saturating_sub(1)),
            caret.repeat(end.saturating_sub(start).max(1)),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_at_the_cells_lines() {
        let error = serde_json::json!({
            "level": "error", "message": "mismatched types", "code": {"code": "E0308"},
            "spans": [{"file_name": "cell.rs", "line_start": 3, "line_end": 3, "column_start": 5,
                "column_end": 8, "is_primary": true, "label": "expected `usize`",
                "text": [{"text": "    abc"}]}],
            "children": [{"level": "help", "message": "try this"}],
        });
        let failure = complaint(&error.to_string(), 9);
        assert_eq!(failure.evalue, "mismatched types");
        assert_eq!(
            failure.traceback[1..],
            [
                "error[E0308]: mismatched types",
                "3 |     abc",
                "  |     ^^^ expected `usize`",
                "  help: try this"
            ]
        );
    }

    #[test]
    fn what_only_the_linker_says_is_shown() {
        let failure = complaint(
            "{\"message\": \"linking failed\", \"spans\": [], \"level\": \"error\"}",
            1,
        );
        assert!(failure.traceback[1].contains("linking failed"));
    }
}
