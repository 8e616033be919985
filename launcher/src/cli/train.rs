//! `halobook train`: one run, waited for.

use super::Program;
use super::own::Own;
use super::progress::Progress;
use crate::frames;
use crate::manifest::{Manifest, Status};
use crate::page;
use crate::request::parse_pairs;
use crate::resolve::{Resolved, resolve_with};
use crate::resume::resolve_resumed;
use crate::{Error, Options, Result, prepare, sys};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

const SWITCHES: [&str; 4] = ["json", "dry-run", "quiet", "force"];
const VALUED: [&str; 2] = ["run-id", "resume"];

/// Runs the command.
pub fn train(words: &[String], program: &Program) -> Result<i32> {
    let (pairs, own) = Own::sort(words, &SWITCHES, &VALUED, false)?;
    let run_id = own.value("run-id");
    let resolved = match own.value("resume") {
        Some(run) => resolve_resumed(program.strategies, &run, pairs).map_err(also_our_flags)?,
        None => {
            let spec = parse_pairs(program.strategies, pairs).map_err(also_our_flags)?;
            let cache = crate::partition::cache();
            resolve_with(program.strategies, spec, Some(&cache), own.has("force"))?
        }
    };
    if own.has("dry-run") {
        print!(
            "{}",
            if own.has("json") {
                dry_json(&resolved)
            } else {
                dry_text(&resolved)
            }
        );
        return Ok(0);
    }
    sys::catch_interrupts();
    let worker = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let prepared = prepare(resolved, Options { run_id, worker })?;
    let run_dir = prepared.run_dir.clone();
    let progress = if own.has("quiet") {
        None
    } else {
        Progress::show(&run_dir)
    };
    let manifest = prepared.run();
    if let Some(progress) = progress {
        progress.end();
    }
    let manifest = manifest?;
    if own.has("json") {
        println!("{}", result_json(&run_dir, &manifest));
    } else if !own.has("quiet") {
        print!("{}", page::outcome(&run_dir, &manifest));
    }
    complain(&manifest);
    Ok(manifest.status.exit_code())
}

/// An unknown key that is nearly one of the flags which are no keys.
fn also_our_flags(error: Error) -> Error {
    match &error {
        Error::Core(gnn_core::Error::UnknownName {
            kind,
            got,
            nearest: None,
            ..
        }) if kind == "key" => {
            let ours = SWITCHES
                .iter()
                .chain(&VALUED)
                .copied()
                .chain(["config", "set"]);
            match gnn_core::error::nearest(got, ours) {
                Some(near) => Error::refused(
                    format!("unknown flag '{got}'; did you mean '--{near}'?"),
                    "`halobook train --help` lists all flags",
                ),
                None => error,
            }
        }
        _ => error,
    }
}

/// The two lines about a run that did not finish, after the end of the failing rank's log.
fn complain(manifest: &Manifest) {
    let Some(error) = &manifest.error else {
        if manifest.status == Status::Interrupted {
            eprintln!("error: interrupted after {} epochs", manifest.epochs_done);
            eprintln!(
                "help: finished epochs are kept: halobook frames {} epochs",
                manifest.run_id
            );
        }
        return;
    };
    for line in &error.log_tail {
        eprintln!("  | {line}");
    }
    eprintln!("error: {}: {}", error.name, error.message);
    let rank = error
        .rank
        .map_or(String::new(), |rank| format!(" --rank {rank}"));
    let help = match error.name.as_str() {
        "HaloStalled" => "raise --stall if the ranks are only slow, or see",
        "HaloTimeout" => "raise --timeout, or see",
        _ => "see",
    };
    eprintln!(
        "help: {help} halobook log {}{rank} --tail 50",
        manifest.run_id
    );
}

fn result_json(run_dir: &Path, manifest: &Manifest) -> Value {
    let written: Map<String, Value> = frames::FRAMES
        .iter()
        .map(|name| (*name, frames::path(run_dir, name)))
        .filter(|(_, path)| path.exists())
        .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into()))
        .collect();
    let mut object = json!({
        "run_id": manifest.run_id,
        "status": manifest.status,
        "epochs_done": manifest.epochs_done,
        "stopped_early": manifest.stopped_early,
        "resumed": manifest.resumed,
        "final": manifest.result,
        "wall_ms": manifest.wall_ms,
        "frames": written,
    });
    if let Some(error) = &manifest.error {
        object["error"] = json!(error);
    }
    object
}

fn dry_json(resolved: &Resolved) -> String {
    let object = json!({
        "status": "dry-run",
        "launch": resolved.starter.label(),
        "data": resolved.data,
        "plan": resolved.plan,
        "part_nodes": part_sizes(resolved),
        "notes": resolved.notes,
    });
    format!("{object}\n")
}

fn part_sizes(resolved: &Resolved) -> Vec<usize> {
    let ranks = resolved.plan.spec.ranks;
    let Some(owner) = &resolved.owner else {
        // Who is not cut by a partitioner has equal shares.
        let bounds = kernels::par::split_rows(resolved.data.nodes, ranks);
        return bounds.windows(2).map(|b| b[1] - b[0]).collect();
    };
    let mut sizes = vec![0; ranks];
    owner.iter().for_each(|&rank| sizes[rank as usize] += 1);
    sizes
}

fn dry_text(resolved: &Resolved) -> String {
    let (data, plan) = (&resolved.data, &resolved.plan);
    let mut text = String::new();
    for (key, value) in plan.spec.to_pairs() {
        let _ = writeln!(text, "{key} = {value}");
    }
    let _ = writeln!(
        text,
        "# {}: {} vertices, {} edges, {} features, {} classes, {} to train on",
        data.name, data.nodes, data.edges, data.features, data.classes, data.train_nodes
    );
    const TYPES: usize = 12;
    for facts in data.types.iter().take(TYPES) {
        let _ = writeln!(
            text,
            "# {} of type {}: {}",
            facts.of.label(),
            facts.name,
            facts.count()
        );
    }
    if data.types.len() > TYPES {
        let _ = writeln!(text, "# … and {} more types", data.types.len() - TYPES);
    }
    let _ = writeln!(
        text,
        "# {} rank(s) by {}, {} thread(s) each, vertices of each {:?}",
        plan.spec.ranks,
        resolved.starter.label(),
        plan.threads,
        part_sizes(resolved),
    );
    for note in &resolved.notes {
        let _ = writeln!(text, "# note: {note}");
    }
    let _ = writeln!(text, "# nothing was started");
    text
}
