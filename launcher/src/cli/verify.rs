//! `halobook verify`: a strategy beside `single`.

use super::Program;
use super::own::Own;
use crate::flags::JSON;
use crate::verify::{Request, verify as compare};
use crate::{Error, Result, strategies};
use gnn_core::checkpoint::may_change;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::{Entry, Exact, find_in};
use serde_json::json;
use std::path::Path;

/// Numbers of ranks where none are given.
const RANKS: &[usize] = &[1, 2, 3, 4];

/// Runs the command.
pub fn verify(words: &[String], program: &Program) -> Result<i32> {
    let usage = || {
        Error::refused(
            "verify takes a strategy's name",
            "for example: halobook verify sancus --set bound=epoch-fixed=0",
        )
    };
    let (name, words) = words.split_first().ok_or_else(usage)?;
    if name.starts_with('-') {
        return Err(usage());
    }
    let (mut pairs, own) = Own::sort(words, &[JSON], true)?;
    find_in(strategies::known(program.strategies), name)?;
    let (ranks, rest): (Vec<_>, Vec<_>) = pairs.drain(..).partition(|pair| pair.0 == "ranks");
    let ranks = match ranks.last() {
        None => RANKS.to_vec(),
        Some((_, written)) => numbers(&written.to_string())?,
    };
    let here = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let program = strategies::program(program.strategies, name)?.unwrap_or(here);
    let request = Request {
        strategy: name.clone(),
        ranks,
        pairs: rest,
    };
    let verdict = compare(&program, &request)?;
    if own.has("json") {
        println!("{}", json!({"exact": verdict.exact(), "verdict": verdict}));
    } else {
        print!("{verdict}");
    }
    Ok(i32::from(!verdict.exact()))
}

/// Whether a comparison takes that key from the request: not where it has a value of its own, nor where the key
/// changes no number.
fn compared(key: &str) -> bool {
    const OWN: [&str; 5] = ["data", "split", "strategy", "ranks", "backend"];
    !OWN.contains(&key) && !may_change(key)
}

/// `train --verify`: trains the strategy of a request with its settings beside `single` on a small graph;
/// what came of it, in a line.
///
/// # Errors
/// [`Error::Refused`] when it does not train there, and when it differs and claims never to.
pub(super) fn beside_single(entry: &Entry, spec: &RunSpec) -> Result<String> {
    let pairs = spec.to_pairs().into_iter();
    let request = Request {
        strategy: spec.strategy.clone(),
        ranks: vec![spec.ranks.min(RANKS.len())],
        pairs: pairs.filter(|(key, _)| compared(key)).collect(),
    };
    let here = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let verdict = compare(&here, &request)?;
    let said = verdict.to_string();
    let line = said.lines().next().unwrap_or_default();
    let wrong = verdict.failed().is_some() || entry.exact == Exact::Always;
    if wrong && !verdict.exact() {
        return Err(Error::refused(
            format!("verify: {}", said.lines().collect::<Vec<_>>().join("; ")),
            "`halobook verify` compares it on several numbers of ranks; without --verify it is trained",
        ));
    }
    Ok(format!("verified beside single: {line}"))
}

/// `4`, or `[1, 2, 4]`.
fn numbers(written: &str) -> Result<Vec<usize>> {
    let list = written.trim_matches(['[', ']', '"']).split(',');
    let number = |word: &str| word.trim().parse().ok().filter(|n| *n > 0);
    list.map(number)
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            Error::refused(
                format!("ranks: expected numbers from 1 on, got {written}"),
                "write -n 4, or -n [1,2,4]",
            )
        })
}
