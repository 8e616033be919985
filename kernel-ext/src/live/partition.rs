//! `%partition`: a cut in a process of its own, its frame bound.

use std::process::Command;

use launcher::{frames, partition as cutting};

use super::bound::Thing;
use super::{Session, program, report};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::Line;
use crate::text::escape;

/// Cuts, binds the frame where a name is given, and shows it under one line about the whole.
pub fn partition(line: &Line, session: &Session<'_>) -> Outcome {
    let what = "interrupted before the cut was made; nothing is bound";
    let (stdout, stderr) = run(&mut command(line), session, what)?;
    let notes: String = stderr
        .lines()
        .filter(|l| l.starts_with("note: "))
        .map(|l| format!("{l}\n"))
        .collect();
    session.output.stdout(&notes);
    if line.flag("dry-run").is_some() {
        return Ok(Some(Shown::text(stdout.trim_end())));
    }
    let last = stdout.lines().last().unwrap_or_default();
    let summary: serde_json::Value = serde_json::from_str(last)
        .map_err(|e| Failure::config(format!("`halobook partition` said no result: {e}"), []))?;
    let id = summary["partition_id"].as_str().unwrap_or_default();
    let dir = cutting::dir(id).map_err(|e| super::lines::refused(&e))?;
    if let Some(name) = line.flag("output") {
        session.bind_as(name, Thing::Cut(id.to_owned()))?;
    }
    let refused = |e: launcher::Error| super::lines::refused(&e);
    let frame = frames::read_partition(&dir.join("partition.parquet")).map_err(refused)?;
    let report = cutting::read_report(&dir.join("report.json")).map_err(refused)?;
    let line = one_line(&report);
    let shown = report::frame(&frame);
    let text = |mime: &str| shown.bundle[mime].as_str().unwrap_or_default().to_owned();
    Ok(Some(Shown::html(
        format!("{line}\n{}", text("text/plain")),
        format!("<p>{}</p>{}", escape(&line), text("text/html")),
    )))
}

/// `halobook partition` with the line's flags.
fn command(line: &Line) -> Command {
    let mut command = program::halobook();
    command.arg("partition");
    command.args(&line.args);
    let passed = line.flags.iter().filter(|(name, _)| *name != "output");
    for (name, value) in passed {
        command.arg(format!("--{name}"));
        if !value.is_empty() {
            command.arg(value);
        }
    }
    if line.flag("dry-run").is_none() {
        command.arg("--json");
    }
    command
}

/// Runs it to its end; an interrupt ends it, with `what` as its words.
pub(super) fn run(
    command: &mut Command,
    session: &Session<'_>,
    what: &str,
) -> Result<(String, String), Failure> {
    let ran = program::run(command, session)?;
    if ran.interrupted {
        return Err(Failure::new("HaloInterrupted", what, []));
    }
    if !ran.status.success() {
        let otherwise = || format!("`halobook` ended with {}", ran.status);
        return Err(program::refusal(&ran.stderr, otherwise));
    }
    Ok((ran.stdout, ran.stderr))
}

/// The cut in one line, against the hash baseline.
fn one_line(report: &gnn_core::partition::Report) -> String {
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let hash = report
        .hash_cut_share
        .map_or(String::new(), |x| format!(" (hash {})", percent(x)));
    let synthetic = if report.synthetic { " (synthetic)" } else { "" };
    let types = match report.types.len() {
        0 => String::new(),
        count => format!(" · {count} types of vertices and edges, a column each"),
    };
    format!(
        "{}{synthetic}, {} into {} parts: {} of edges cut{hash} · replication factor {:.3} · \
         largest part {:.2}× the mean of vertices, {:.2}× of edges, {:.2}× of training vertices{types} · {:.0} ms{}",
        report.data,
        report.method,
        report.parts,
        percent(report.cut_share),
        report.alpha,
        report.node_balance,
        report.edge_balance,
        report.train_balance,
        report.ms,
        if report.cached {
            " when it was first made"
        } else {
            ""
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magic::{Action, expand};

    #[test]
    fn flags_go_to_the_program_and_the_name_stays() {
        let cell = "%partition karate -n 4 --method metis --balance train,edges -o part --no-cache";
        let Action::Lines { lines, .. } = expand(cell) else {
            panic!("a line magic");
        };
        let command = command(&lines[0]);
        let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        assert_eq!(
            args.join(" "),
            "partition karate --ranks 4 --method metis --balance train,edges --no-cache --json"
        );
    }
}
