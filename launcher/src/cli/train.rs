//! `halobook train`: one run, waited for or left to itself.

use super::announce::{self, Told};
use super::background::Work;
use super::outcome::{self, Said};
use super::own::Own;
use super::progress::{Progress, Shown};
use super::{Program, background, sweep, verify};
use crate::flags::{PAIRS, TRAIN};
use crate::manifest::Manifest;
use crate::request::parse_pairs;
use crate::resolve::{Resolved, resolve_with};
use crate::resume::resolve_resumed;
use crate::{Error, Options, Result, prepare, store, strategies, sys};
use gnn_core::partition::Parts;
use gnn_core::strategy::find_in;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Runs the command.
pub fn train(given: &[String], program: &Program) -> Result<i32> {
    let (words, detached) = background::detached(given);
    let (pairs, own) = Own::sort(&words, TRAIN, false)?;
    if own.has("repeat") {
        return repeated(given, &own, program);
    }
    if own.has("bg") && !own.has("dry-run") {
        let id = own.value("run-id").unwrap_or_else(store::new_id);
        return background::start(&Work::run("train", &id), &words, own.has("json"));
    }
    let run_id = own.value("run-id");
    let (mut announced, mut verdict) = (None, None);
    let mut resolved = match own.value("resume") {
        Some(run) => resolve_resumed(program.strategies, &run, pairs).map_err(also_our_flags)?,
        None => {
            let known = strategies::known(program.strategies);
            let spec = parse_pairs(known, pairs).map_err(also_our_flags)?;
            if let Some(other) = strategies::program(program.strategies, &spec.strategy)? {
                return Err(strategies::become_program(&other, "train", given));
            }
            if own.has("verify") && !own.has("dry-run") {
                let entry = find_in(program.strategies, &spec.strategy)?;
                verdict = Some(verify::beside_single(entry, &spec)?);
            }
            let (strategies, force) = (program.strategies, own.has("force"));
            let resolve = move |spec| {
                let cache = crate::partition::cache();
                resolve_with(strategies, spec, Some(&cache), force)
            };
            match run_id.as_ref().filter(|_| detached) {
                None => resolve(spec)?,
                Some(id) => {
                    let entry = find_in(strategies, &spec.strategy)?;
                    match announce::announced(id, entry, spec, resolve)? {
                        Told::Now(resolved) => *resolved,
                        Told::Later(resolved, manifest) => {
                            announced = Some(*manifest);
                            *resolved
                        }
                        Told::Closed(status) => return Ok(status),
                    }
                }
            }
        }
    };
    resolved.notes.extend(verdict);
    if let Some(note) = &resolved.slow_link {
        eprintln!("note: {note}");
    }
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
    let (run_dir, manifest) = Trainer {
        resolved,
        run_id,
        replays: None,
        quiet: own.has("quiet"),
        detached,
        announced,
    }
    .carry_out()?;
    outcome::tell(
        &run_dir,
        &manifest,
        Said::of(own.has("json"), own.has("quiet")),
    )
}

/// A run with several seeds: a sweep of one setting, seeds in their order.
fn repeated(given: &[String], own: &Own, program: &Program) -> Result<i32> {
    for flag in ["run-id", "resume", "verify"] {
        if own.has(flag) {
            return Err(Error::refused(
                format!("--{flag} is about one run, --repeat about several"),
                format!("leave out --repeat, or --{flag}"),
            ));
        }
    }
    let mut words = given.to_vec();
    words.push("--in-order".into());
    sweep::sweep(&words, program)
}

/// A run about to be carried out by this process.
pub(super) struct Trainer {
    pub resolved: Resolved,
    pub run_id: Option<String>,
    /// The run that it repeats, if it does.
    pub replays: Option<String>,
    /// Without progress.
    pub quiet: bool,
    /// Whoever started this process is told that the run has, and is not needed from then on.
    pub detached: bool,
    /// The manifest of a run that has its folder already; whoever started it has been told.
    pub announced: Option<Manifest>,
}

impl Trainer {
    /// Starts the run and supervises it to its end.
    ///
    /// # Errors
    /// As [`prepare`], [`crate::Prepared::start`] and [`crate::Started::watch`].
    pub fn carry_out(self) -> Result<(PathBuf, Manifest)> {
        sys::catch_interrupts();
        let told = self.announced.is_some();
        let options = Options {
            run_id: self.run_id,
            worker: std::env::current_exe().map_err(Error::io(Path::new("halobook")))?,
            replays: self.replays,
            announced: self.announced,
        };
        let prepared = prepare(self.resolved, options)?;
        let run_dir = prepared.run_dir.clone();
        let started = prepared.start()?;
        if self.detached && !told {
            background::let_go(&run_dir.join("logs/supervisor.log"))?;
        }
        let progress = match self.quiet {
            true => None,
            false => Progress::show(&run_dir, Shown::WhereWanted),
        };
        let manifest = started.watch();
        if let Some(progress) = progress {
            progress.end();
        }
        Ok((run_dir, manifest?))
    }
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
            let ours = TRAIN.iter().chain(PAIRS).map(|flag| flag.name);
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
    let spec = &resolved.plan.spec;
    let (Some(owner), Some(parts)) = (&resolved.owner, resolved.entry.cut_into(spec)) else {
        // Who is not cut by a partitioner has equal shares.
        let bounds = kernels::par::split_rows(resolved.data.nodes, spec.ranks);
        return bounds.windows(2).map(|b| b[1] - b[0]).collect();
    };
    let mut sizes = vec![0; parts.count];
    owner.iter().for_each(|&part| sizes[part as usize] += 1);
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
    let parts = resolved.entry.cut_into(&plan.spec);
    if let Some(parts) = parts.filter(|p| *p != Parts::of(plan.spec.ranks)) {
        let _ = writeln!(text, "# vertices are cut into {parts}");
    }
    for note in &resolved.notes {
        let _ = writeln!(text, "# note: {note}");
    }
    let _ = writeln!(text, "# nothing was started");
    text
}
