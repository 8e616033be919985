//! `%plan`: a rehearsal in a process of its own, its frame bound.

use std::process::Command;

use gnn_core::record::rows::PlanRow;
use launcher::{forecast, frames};

use super::bound::Thing;
use super::{Session, lines::refused, program, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::Line;
use crate::text::escape;

const INTERRUPTED: &str = "interrupted before there was a plan; nothing is bound";

/// Plans, binds the frame where a name is given, and shows it; what does not fit stands above. Where counting takes
/// long, a forecast is shown first.
pub fn plan(line: &Line, session: &Session<'_>) -> Outcome {
    let first = match line.flag("forecast") {
        None => forecast(line, session)?,
        Some(_) => None,
    };
    let ran = super::partition::run(&mut command(line, session)?, session, INTERRUPTED);
    if let Some(first) = &first {
        first.fold(session, ran.is_ok());
    }
    let (stdout, stderr) = ran?;
    let notes = stderr.lines().filter(|l| l.starts_with("note: "));
    let notes: String = notes.map(|l| format!("{l}\n")).collect();
    session.output.stdout(&notes);
    let said = Said::read(&stdout)?;
    let path = forecast::path(&said.plan_id).map_err(|e| refused(&e))?;
    if let Some(name) = line.flag("output") {
        session.bind_as(name, Thing::Plan(said.plan_id.clone()))?;
    }
    let frame = frames::read_named(&path, "plan").map_err(|e| refused(&e))?;
    let long = report::frame(&frame);
    let long = long.bundle["text/html"].as_str().unwrap_or_default();
    let (text, html) = said.shown();
    let count = frame.height();
    Ok(Some(Shown::html(
        text,
        format!("{html}<details><summary>the frame, {count} rows</summary>{long}</details>"),
    )))
}

/// What was shown before the plan.
struct First {
    id: String,
    text: String,
    html: String,
}

impl First {
    /// Makes room for the plan, or says that this is all there is.
    fn fold(&self, session: &Session<'_>, planned: bool) {
        let (text, html) = (&self.text, &self.html);
        let shown = match planned {
            true => Shown::html(
                "a forecast stood here until the plan was there",
                format!("<details><summary>the forecast before the plan</summary>{html}</details>"),
            ),
            false => Shown::html(
                format!("a forecast:\n{text}"),
                format!("<p>a forecast:</p>{html}"),
            ),
        };
        session.output.update(&shown, &self.id);
    }
}

/// A forecast, shown; none of data that is planned as quickly. What is wrong with the line is the plan's to say.
fn forecast(line: &Line, session: &Session<'_>) -> Result<Option<First>, Failure> {
    let mut command = command(line, session)?;
    command.arg("--forecast");
    let ran = program::run(&mut command, session)?;
    if ran.interrupted {
        return Err(Failure::new("HaloInterrupted", INTERRUPTED, []));
    }
    if !ran.status.success() {
        return Ok(None);
    }
    let (text, html) = Said::read(&ran.stdout)?.shown();
    let id = launcher::store::new_id();
    let what = "a forecast out of small graphs of the same kind, the fullest rank's; the plan is being counted";
    let shown = Shown::html(format!("{what}:\n{text}"), format!("<p>{what}:</p>{html}"));
    session.output.display(&shown, &id);
    Ok(Some(First { id, text, html }))
}

/// What `halobook plan --json` says.
struct Said {
    plan_id: String,
    refused: Vec<String>,
    rows: Vec<PlanRow>,
}

impl Said {
    fn read(stdout: &str) -> Result<Said, Failure> {
        let wrong = |e: serde_json::Error| {
            Failure::config(format!("`halobook plan` said no result: {e}"), [])
        };
        let (rows, last) = stdout.trim_end().rsplit_once('\n').unwrap_or(("", stdout));
        let rows: Result<_, _> = rows.lines().map(serde_json::from_str).collect();
        let last: serde_json::Value = serde_json::from_str(last).map_err(wrong)?;
        let refused = last["refused"].as_array().into_iter().flatten();
        let refused = refused.filter_map(|line| Some(format!("does not fit: {}", line.as_str()?)));
        Ok(Said {
            plan_id: last["plan_id"].as_str().unwrap_or_default().to_owned(),
            refused: refused.collect(),
            rows: rows.map_err(wrong)?,
        })
    }

    /// What does not fit, and a line a rank, as text and as HTML.
    fn shown(&self) -> (String, String) {
        let wide = forecast::wide(&self.rows);
        let over: String = self.refused.iter().map(|l| format!("{l}\n")).collect();
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let mut html: String = self
            .refused
            .iter()
            .map(|l| format!("<p>{}</p>", escape(l)))
            .collect();
        html += "<table>";
        html += &cells("th", &mut wide.heads.iter().copied());
        for line in &wide.lines {
            html += &cells("td", &mut line.iter().map(String::as_str));
        }
        html += "</table>";
        if wide.more > 0 {
            html += &format!("<p>… and {} more ranks, all in the frame</p>", wide.more);
        }
        (over + &wide.text(), html)
    }
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
