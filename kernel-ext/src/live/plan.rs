//! `%plan`: a rehearsal in a process of its own, its frame bound.

use std::process::Command;

use launcher::{forecast, frames};

use super::bound::Thing;
use super::{Session, lines::refused, program, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::Line;
use crate::text::escape;

/// Plans, binds the frame where a name is given, and shows it; what does not fit stands above.
pub fn plan(line: &Line, session: &Session<'_>) -> Outcome {
    let mut command = command(line, session)?;
    let what = "interrupted before there was a plan; nothing is bound";
    let (stdout, stderr) = super::partition::run(&mut command, session, what)?;
    let notes = stderr.lines().filter(|l| l.starts_with("note: "));
    let notes: String = notes.map(|l| format!("{l}\n")).collect();
    session.output.stdout(&notes);
    let last = stdout.lines().last().unwrap_or_default();
    let said: serde_json::Value = serde_json::from_str(last)
        .map_err(|e| Failure::config(format!("`halobook plan` said no result: {e}"), []))?;
    let id = said["plan_id"].as_str().unwrap_or_default();
    let path = forecast::path(id).map_err(|e| refused(&e))?;
    if let Some(name) = line.flag("output") {
        session.bind_as(name, Thing::Plan(id.to_owned()))?;
    }
    let frame = frames::read_named(&path, "plan").map_err(|e| refused(&e))?;
    let over = said["refused"].as_array().into_iter().flatten();
    let over: Vec<String> = over
        .filter_map(|line| Some(format!("does not fit: {}", line.as_str()?)))
        .collect();
    let shown = report::frame(&frame);
    let text = |mime: &str| shown.bundle[mime].as_str().unwrap_or_default().to_owned();
    let lines: String = over.iter().map(|l| format!("{l}\n")).collect();
    let paragraphs: String = over
        .iter()
        .map(|l| format!("<p>{}</p>", escape(l)))
        .collect();
    Ok(Some(Shown::html(
        lines + &text("text/plain"),
        paragraphs + &text("text/html"),
    )))
}

/// `halobook plan` with the line's flags; a bound run's name becomes its id.
fn command(line: &Line, session: &Session<'_>) -> Result<Command, Failure> {
    let mut command = program::halobook();
    command.args(["plan", "--json"]);
    if let Some(data) = line.args.first() {
        command.args(["--data", data]);
    }
    let passed = line.flags.iter().filter(|(name, _)| *name != "output");
    for (name, value) in passed {
        command.arg(format!("--{name}"));
        if *name == "like" {
            let dir = session.run_dir(value).map_err(|e| refused(&e))?;
            command.arg(dir.file_name().unwrap_or_default());
        } else if !value.is_empty() {
            command.arg(value);
        }
    }
    Ok(command)
}
