//! `halobook plan`: what a run would send, hold and take, without training.

use super::Program;
use super::own::Own;
use crate::flags::{self, PLAN};
use crate::forecast::{self, Done, Wanted};
use crate::manifest::Manifest;
use crate::request::{Pair, parse_pairs};
use crate::{Error, Result, frames, store, strategies};
use gnn_core::spec::{Value, normalise};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// What `--help` adds.
pub fn help() -> String {
    let flags = flags::help(PLAN);
    format!("{BEFORE}{flags}{AFTER}")
}

const BEFORE: &str = "
Keys are those of `halobook train`, where -n takes one number of ranks or several: 1,2,4. Beside them:
";

const AFTER: &str = "
  halobook plan --data sbm:nodes=20000,classes=8,feat=64,degree=20 -s halo -n 1,2,4 --limit 2GB

Nothing is trained. Every rank builds its part from the real data and the real cut and goes through an epoch
whose matrices have no elements, so bytes are those that training sends in its first epoch. Items:
  graph, features, halo, optimizer    bytes, counted (halo: rows of others in the fullest layer)
  history                             bytes of earlier epochs' rows that are kept, counted
  offloaded                           bytes of rows that lie apart from the device, counted
  activations                         bytes of all other matrices, by a model of the buffers' pool
  setup                               bytes while data is read and cut out, over before training starts
  program                             bytes of a rank on 34 vertices, measured once here
  memory                              bytes of the rank at its fullest: what --limit is held against
  partitioner                         bytes of the cut, where ranks are started
  epoch_bytes                         bytes that the rank sends in its first epoch, counted
  to_device, to_host                  bytes that an epoch copies to a device, and from it, where rows lie apart
  dense, along_edges, beside          operations of dense products, elements added up along edges, and bytes that all
                                      else reads and writes in an epoch, counted
  epoch_time                          milliseconds, by rates measured once on this class of machine
What nobody can say is left out. With --forecast, generated data (like:, sbm:, rmat:) is not made: two small graphs
of its kind are, and their items extended to its size, in a few seconds.
";

/// Runs the command.
pub fn plan(words: &[String], program: &Program) -> Result<i32> {
    let (mut pairs, own) = Own::sort(words, PLAN, true)?;
    if let Some(run) = own.value("like") {
        let mut all = settings(&run)?;
        all.append(&mut pairs);
        pairs = all;
    }
    let counts = counts(&mut pairs)?;
    if let Some(&first) = counts.first() {
        pairs.push(("ranks".into(), Value::Int(first as i64)));
    }
    let spec = parse_pairs(strategies::known(program.strategies), pairs)?;
    if let Some(other) = strategies::program(program.strategies, &spec.strategy)? {
        return Err(strategies::become_program(&other, "plan", words));
    }
    let wanted = Wanted {
        strategies: program.strategies,
        counts: if counts.is_empty() {
            vec![spec.ranks]
        } else {
            counts
        },
        spec,
        worker: std::env::current_exe().map_err(Error::io(Path::new("halobook")))?,
    };
    let done = match own.has("forecast") {
        true => forecast::scaled(&wanted)?,
        false => forecast::plan(&wanted)?,
    };
    done.notes.iter().for_each(|note| eprintln!("note: {note}"));
    if own.has("json") {
        let frame = frames::plan_frame(&done.rows)?;
        frames::json_lines(&frame)
            .iter()
            .for_each(|line| println!("{line}"));
        let path = done.dir.join("plan.parquet");
        println!(
            "{}",
            json!({"plan_id": done.id, "fits": done.refused.is_empty(), "refused": done.refused, "frame": path})
        );
    } else {
        print!("{}", text(&done));
    }
    Ok(0)
}

/// The settings of a run, as they were asked for, without its name.
fn settings(run: &str) -> Result<Vec<Pair>> {
    let manifest = Manifest::read(&store::run_dir(run)?)?;
    let pairs = manifest.spec.into_iter();
    Ok(pairs.filter(|(key, _)| key != "name").collect())
}

/// Takes the last list of rank counts out of the pairs.
fn counts(pairs: &mut Vec<Pair>) -> Result<Vec<usize>> {
    let is_ranks = |pair: &Pair| normalise(&pair.0) == "ranks";
    let last = pairs.iter().rev().find(|pair| is_ranks(pair));
    let Some(text) = last.map(|(_, value)| value.to_string()) else {
        return Ok(Vec::new());
    };
    pairs.retain(|pair| !is_ranks(pair));
    let numbers = text.trim_matches(['[', ']']).split(',');
    let read: Option<Vec<usize>> = numbers
        .map(|n| n.trim().parse().ok().filter(|n| *n > 0))
        .collect();
    read.ok_or_else(|| {
        Error::refused(
            format!("ranks: expected numbers of ranks, got {text}"),
            "write -n 4, or -n 1,2,4 to compare",
        )
    })
}

/// A line a rank; what does not fit, below.
fn text(done: &Done) -> String {
    let mut text = forecast::wide(&done.rows).text();
    for line in &done.refused {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "does not fit: {line}");
    }
    let path = done.dir.join("plan.parquet");
    let basis = match done.rows.iter().any(|row| row.basis == forecast::SCALED) {
        true => "of the fullest rank, extended from small graphs of the same kind",
        false => {
            "bytes of the graph, features, halo and the first epoch are counted, the others modelled"
        }
    };
    let _ = writeln!(text, "{basis}; frame: {}", path.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_list_of_ranks_counts() {
        let pair = |key: &str, text: &str| (key.to_owned(), Value::from_word(text));
        let mut pairs = vec![pair("ranks", "2"), pair("lr", "0.1"), pair("n", "[1, 4]")];
        assert_eq!(counts(&mut pairs).expect("numbers"), [1, 4]);
        assert_eq!(pairs, [pair("lr", "0.1")]);
        assert_eq!(counts(&mut pairs).expect("none"), [0usize; 0]);
        let mut wrong = vec![pair("ranks", "1,x")];
        assert!(counts(&mut wrong).is_err());
    }
}
