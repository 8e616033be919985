//! How a run's end reads: its table, or its failure.

use std::path::Path;

use halobook::df_html;
use halobook::polars::prelude::DataFrame;
use launcher::MAKE_ROOM;
use launcher::store::{Manifest, RunError, Status};

use super::card::Card;
use crate::front::{Failure, Shown};
use crate::text::escape;

/// How many of the last epochs are shown.
const ROWS: usize = 20;

/// The columns of an epoch that are read first, where they hold anything.
const FIRST: [&str; 13] = [
    "epoch",
    "train_loss",
    "val_acc",
    "test_acc",
    "val_f1",
    "test_f1",
    "val_auc",
    "test_auc",
    "wall_ms",
    "compute_ms",
    "xfer_exposed_ms",
    "wait_ms",
    "bytes",
];

/// A frame as text and table.
pub fn frame(frame: &DataFrame) -> Shown {
    Shown::html(frame.to_string(), df_html(frame))
}

/// The result of a finished run: one line, what a reader should know where no card says it, then the
/// last epochs.
pub fn finished(run_dir: &Path, card: &Card, manifest: &Manifest) -> Shown {
    let mut line = card.line();
    let score = manifest.result.as_ref().and_then(|result| result.score);
    if let Some((metric, test)) = score.and_then(|s| Some((s.metric.label(), s.test?))) {
        line.push_str(&format!(
            " · test {metric} {:.1} % at best validation",
            test * 100.0
        ));
    }
    let told = card.shown;
    let notes = manifest.notes.iter().filter(|_| !told);
    let notes: Vec<String> = notes.map(|note| format!("note: {note}\n")).collect();
    let notes = notes.concat();
    match launcher::frames::load(run_dir, "epochs") {
        Ok(epochs) => {
            let tail = epochs.tail(Some(ROWS));
            let short = read_first(&tail);
            let count = epochs.height();
            let heading = if count > ROWS {
                format!("the last {ROWS} of {count} epochs:")
            } else {
                String::new()
            };
            Shown::html(
                format!("{line}\n{notes}{heading}\n{short}"),
                format!(
                    "<p>{}</p>{}<small>{}</small>{}<details><summary>all {} columns</summary>{}</details>",
                    escape(&line),
                    emphasised(&notes),
                    escape(&heading),
                    df_html(&short),
                    tail.width(),
                    df_html(&tail)
                ),
            )
        }
        Err(error) => Shown::text(format!("{line}\n{notes}(no epoch table: {error})")),
    }
}

/// What is read first of an epoch; a column without any value is left out.
fn read_first(epochs: &DataFrame) -> DataFrame {
    let holds = |name: &&str| {
        epochs
            .column(name)
            .is_ok_and(|column| column.null_count() < epochs.height())
    };
    let columns: Vec<&str> = FIRST.into_iter().filter(holds).collect();
    epochs.select(columns).unwrap_or_else(|_| epochs.clone())
}

fn emphasised(notes: &str) -> String {
    let line = |note: &str| format!("<div><em>{}</em></div>", escape(note));
    notes.lines().map(line).collect()
}

/// The failure of a run that did not finish; `name` is what it is bound to, if to anything.
pub fn unfinished(manifest: &Manifest, name: Option<&str>) -> Failure {
    let default = RunError::default();
    let error = manifest.error.as_ref().unwrap_or(&default);
    let ename = match manifest.status {
        Status::Interrupted => "HaloInterrupted",
        Status::Stalled => "HaloStalled",
        _ if error.name.is_empty() => "HaloRankFailed",
        _ => error.name.as_str(),
    };
    let evalue = match manifest.status {
        Status::Interrupted => format!(
            "stopped after {} epochs; they are whole",
            manifest.epochs_done
        ),
        _ => headline(error),
    };
    let mut lines = Vec::new();
    if !error.waits.is_empty() {
        lines.push(format!(
            "{:>4}  {:<10} {:<11} {:>4}  {:>5}  {:>9}",
            "rank", "phase", "operation", "peer", "epoch", "waiting"
        ));
        lines.extend(error.waits.iter().take(12).map(|wait| {
            format!(
                "{:>4}  {:<10} {:<11} {:>4}  {:>5}  {:>7.1} s",
                wait.rank,
                wait.phase,
                wait.op.as_deref().unwrap_or("-"),
                wait.peer.map_or("-".to_owned(), |peer| peer.to_string()),
                wait.epoch,
                wait.waiting_s
            )
        }));
    }
    if !error.others.is_empty() {
        let others: Vec<String> = error.others.iter().map(u32::to_string).collect();
        lines.push(format!(
            "as a consequence ended: rank {}",
            others.join(", ")
        ));
    }
    if manifest.status != Status::Interrupted {
        let said = without_backtrace(&error.log_tail);
        let from = said.len().saturating_sub(15);
        lines.extend(said[from..].iter().map(|line| format!("  {line}")));
        lines.push(match name {
            Some(name) => format!(
                "{name} is bound with the {} epochs that were finished",
                manifest.epochs_done
            ),
            None => format!(
                "the {} epochs that were finished are kept",
                manifest.epochs_done
            ),
        });
    } else if let Some(name) = name {
        lines.push(format!("{name} is bound; every Rust variable is intact"));
    }
    if error.name == "HaloDiskFull" {
        lines.push(format!("help: {MAKE_ROOM}"));
    }
    lines.push(match error.rank {
        Some(rank) => format!("%log {} --rank {rank} --tail 50", manifest.run_id),
        None => format!("%log {} --tail 50", manifest.run_id),
    });
    Failure::new(ename, evalue, lines)
}

/// A log's last lines without the calls that led to a panic: they are the program's, not the user's, and
/// the log has them.
fn without_backtrace(log: &[String]) -> Vec<&str> {
    let call = |line: &str| {
        let words = line.trim_start();
        let number = words.split(':').next().unwrap_or_default();
        let frame = line.starts_with(' ') && number.parse::<u32>().is_ok();
        frame || words.starts_with("at ") && line.starts_with("     ")
    };
    let frame = |line: &&str| {
        let note = line.starts_with("note: Some details are omitted");
        !(call(line) || note || *line == "stack backtrace:")
    };
    log.iter().map(String::as_str).filter(frame).collect()
}

/// A run's error in one line: who, where, why.
pub fn headline(error: &RunError) -> String {
    if let Some(line) = told(error) {
        return line;
    }
    let mut line = match error.rank {
        Some(rank) if error.host.is_empty() => format!("rank {rank}"),
        Some(rank) => format!("rank {rank} on {}", error.host),
        None => "the run".to_owned(),
    };
    if let Some(phase) = &error.phase {
        line.push_str(&format!(" in {phase}"));
    }
    if let Some(epoch) = error.epoch {
        line.push_str(&format!(", epoch {epoch}"));
    }
    if let Some(signal) = &error.signal {
        line.push_str(&format!(" ({signal})"));
    }
    if !error.message.is_empty() {
        line.push_str(&format!(": {}", error.message));
    }
    line
}

/// The message of an error that says itself whom it is about; with the host, where that is known.
fn told(error: &RunError) -> Option<String> {
    let Some(rank) = error.rank else {
        let about = ["the run ", "no rank "];
        let told = about.iter().any(|words| error.message.starts_with(words));
        return told.then(|| error.message.clone());
    };
    let name = format!("rank {rank} ");
    let (before, after) = error.message.split_once(&name)?;
    if !(before.is_empty() || before.starts_with("no rank ")) {
        return None;
    }
    let host = match error.host.is_empty() {
        true => String::new(),
        false => format!("on {} ", error.host),
    };
    Some(format!("{before}{name}{host}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rank: Option<u32>, message: &str) -> String {
        headline(&RunError {
            rank,
            host: "here".into(),
            phase: Some("eval".into()),
            epoch: Some(9),
            message: message.into(),
            ..RunError::default()
        })
    }

    #[test]
    fn a_log_is_told_without_the_calls() {
        let log = [
            "epoch 2",
            "stack backtrace:",
            "   0: __rustc::rust_begin_unwind",
            "             at /rustc/panicking.rs:689:5",
            "  17: strategy::main",
            "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
            " 3 rows",
        ];
        let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(without_backtrace(&log), ["epoch 2", " 3 rows"]);
    }

    #[test]
    fn nothing_is_said_twice() {
        let killed = "rank 1 was killed (SIGKILL) in eval of epoch 9";
        assert_eq!(
            line(Some(1), killed),
            "rank 1 on here was killed (SIGKILL) in eval of epoch 9"
        );
        let stalled = "no rank made progress for 2.0 s: rank 1 is in eval; rank 0 waits";
        assert_eq!(
            line(Some(1), stalled),
            "no rank made progress for 2.0 s: rank 1 on here is in eval; rank 0 waits"
        );
        let late = "the run took longer than its timeout of 2 s";
        assert_eq!(line(None, late), late);
        // Words of a program, which may name any rank.
        assert_eq!(
            line(Some(1), "expected rank 1 of 2"),
            "rank 1 on here in eval, epoch 9: expected rank 1 of 2"
        );
    }
}
