//! `halobook bench`: what this machine can do, how near the kernels come, what an epoch takes, what
//! sampling, conversions and cuts take.

mod cache;
mod data;
mod epoch;
mod gpu;
mod grid;
mod kernels;
mod machine;
mod profile;
mod sample;

use super::words::Words;
use crate::bench::others;
use crate::bench::python::{self, Python};
use crate::{Error, Result, sys};
use kernels_bench::Spread;
use serde_json::{Value, json};
use std::path::PathBuf;

use ::kernels::bench as kernels_bench;

/// Names of the benchmarks.
const NAMES: [&str; 9] = [
    "machine", "kernels", "epoch", "sample", "gpu", "cache", "data", "notebook", "polars",
];

/// Runs the command.
pub fn bench(words: &[String]) -> Result<i32> {
    settle();
    let (name, rest) = match words.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (name.as_str(), rest),
        _ => ("", words),
    };
    match name {
        "machine" => machine::run(rest),
        "kernels" => kernels::run(rest),
        "epoch" => epoch::run(rest),
        "sample" => sample::run(rest),
        "gpu" => gpu::run(rest),
        "cache" => cache::run(rest),
        "data" => data::run(rest),
        "notebook" => super::commands::bench_in_kernel(rest),
        "polars" => super::commands::bench_in_kernel(words),
        _ => Err(unknown(name)),
    }
}

/// Memory as workers have it: large pages, and what is freed is kept. Not in a test, whose program
/// must not start again.
fn settle() {
    if !cfg!(test) {
        sys::restart_with_large_pages();
        sys::keep_freed_memory();
    }
}

fn unknown(name: &str) -> Error {
    let what = if name.is_empty() {
        "bench: which benchmark?".to_owned()
    } else {
        let near = gnn_core::error::nearest(name, NAMES);
        let near = near.map_or(String::new(), |n| format!("; did you mean '{n}'?"));
        format!("bench: unknown benchmark '{name}'{near}")
    };
    Error::refused(what, format!("known: {}", NAMES.join(", ")))
}

/// The flags of all benchmarks, for `--help`.
pub fn help() -> &'static str {
    "
  bench machine                        bandwidth (copy, triad, update), peak multiply-adds
      --threads N        on 1 to N threads [all]
      --largest MIB      largest working set [twice the last cache]

  bench kernels                        every kernel: time, compulsory bytes, FLOPs, share of the limit
      --data DATA        the graph, as for train [rmat:scale=16,edge-factor=16]
      --width N          width of activations [128]
      --heads N          heads of attention [8]
      --head-width N     width of a head [32]
      --threads N        threads [all]
      --only NAME        kernels whose name contains NAME
      --rounds N         how often all are timed, by turns with --against [3]

  bench epoch                          epochs of a real worker: medians, phases, peak memory
      --KEY VALUE        any key of train; other defaults: SBM of 50000 vertices, hidden 128
                         (a head of attention 32), no dropout, no weight decay, 22 epochs of which 2 warm up
      --rounds N         how often every form trains [3]
      --seconds S        timed seconds of a round of theirs [10]
      --profile          every operation of the epoch in this process, beside the limit of bytes and FLOPs
                         and fetching the rows that it reads one by one, along edges or for elements of
                         sparse features; shared: of its time, by its threads
      --grid             a map of ours over that limit: graphs, features, widths, depths, models, threads
      --batches          of mini-batches, each made when it is asked for: fan-outs and seeds for depths
      --cases N          of so many cases of the map [60]
      --svg FILE         as a heat map
      --largest MIB      largest working set of the limit [twice the last cache]
                         (HALOBOOK_SIMD=avx2 caps the SIMD level, HALOBOOK_AMX=0 leaves tiles out)

  bench sample                         mini-batches drawn and numbered, of all training vertices in turn
      --data DATA        the graph, as for train [rmat:scale=16,edge-factor=16]
      --fan-outs K,K     in-edges of a vertex by layer, the first layer first [10,25]
      --batch N          seeds of a batch [1000]
      --threads N        threads [all]
      --rounds N         how often, by turns with --against [3]
      --seconds S        timed seconds of a round of each [3]

  bench gpu                            all that a GPU shows, in one go and one file to keep or send in: losses of every
                                       strategy beside the CPU's, the memory checker, kernels beside the GPU's
                                       copies, epochs (beside libraries), one to all GPUs
      --out FILE         the file, written anew behind each part [gpu-DATE.md]
      --gpus N           so many GPUs at most [all]
      --scale S          the kernels' R-MAT graph has 2^S vertices [20]
      --data DATA        what epochs train on [rmat:scale=18,edge-factor=16,feat=128,classes=32]
      --epochs N         timed epochs of a training [20]
      --rounds N         how often every form trains [1]
      --seconds S        timed seconds of a round of theirs [10]
                         (HALOBOOK_CUDA=shim:2 lets the host stand in for two GPUs: a rehearsal)

  bench cache                          a historical cache: search and load, and store, beside a copy
      --lines N          lines, all in use [200000]
      --width N          floats of a row [128]
      --rows N           rows that a step stores and reads [20000]
      --threads N        threads [all]

  bench data                           conversion and opening; METIS, foreseen beside measured
      --graph DATA       what is stored [rmat:scale=22]
      --cut DATA         what is cut; repeat it for several [R-MAT and planted partitions, three sizes each]
      --parts N          into so many parts [8]
      --rounds N         how often [3]

  bench notebook                       the cell path as a Jupyter client sees it
      --against KERNEL   another Rust kernel by turns, as `rust`
      --rounds N         how often each is started [3]
      --python PATH      a Python that has jupyter_client [the project's own]

  bench polars                         operations of frames, as cells run them
      --rows N           of so many rows [5000000]
      --rounds N         how often each, after one that is not counted [7]
      --against python   by turns with the Polars of a Python, on the same rows
      --python PATH      a Python that has polars [the project's own]

  the others
      --against python   time PyTorch, PyTorch Geometric and DGL by turns (kernels, epoch, sample, gpu)
      --python PATH      a Python that has them; repeat it for several [$HALOBOOK_PEERS]
      --patience S       wait so long at most for others to leave the machine [0]
      --json             end with one JSON object on standard output
      --quiet            no progress, no table
"
}

/// The Pythons of `--against python --python PATH…`; none when nothing is compared.
fn pythons(against: Option<&str>, paths: &[&str]) -> Result<Vec<Python>> {
    match against {
        None if paths.is_empty() => Ok(Vec::new()),
        None | Some("python") => {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            python::named(&paths)
        }
        Some(other) => Err(Error::refused(
            format!("against: expected python, got {other}"),
            "write --against python --python PATH",
        )),
    }
}

/// A whole number of at least one.
fn positive(words: &Words, flag: &str, default: usize) -> Result<usize> {
    at_least_one(flag, words.number(flag)?.unwrap_or(default))
}

fn at_least_one(flag: &str, value: usize) -> Result<usize> {
    if value == 0 {
        return Err(Error::refused(
            format!("{flag}: expected at least 1, got 0"),
            format!("write --{flag} 3, for example"),
        ));
    }
    Ok(value)
}

fn spread_json(spread: &Spread) -> Value {
    json!({
        "median": spread.median, "low": spread.low, "high": spread.high, "best": spread.best,
        "samples": spread.samples,
    })
}

/// A line about others on the machine, where they disturbed.
fn disturbed(cores: Option<f64>) -> Option<String> {
    let cores = cores.filter(|&c| c >= others::QUIET)?;
    Some(format!(
        "note: other processes used {cores:.1} cores meanwhile; these figures are not of a quiet machine"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> Error {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        bench(&words).expect_err("refused")
    }

    #[test]
    fn what_is_no_benchmark_is_refused_with_the_nearest() {
        assert!(error("").to_string().contains("which benchmark"));
        assert!(error("--json").to_string().contains("which benchmark"));
        assert!(error("kernel").to_string().contains("'kernels'"));
        assert!(
            error("epochs")
                .help()
                .contains("machine, kernels, epoch, sample, gpu, cache, data, notebook, polars")
        );
    }

    #[test]
    fn wrong_values_are_refused_before_anything_is_timed() {
        for (line, part) in [
            ("machine --threads 0", "threads: expected at least 1"),
            ("machine --threds 2", "--threads"),
            ("kernels --width 0", "width: expected at least 1"),
            ("kernels --only nothing-like-this", "no kernel"),
            ("kernels --data rmta", "rmat"),
            ("kernels --against torch", "expected python"),
            (
                "kernels --against python --python /nowhere/python",
                "/nowhere/python",
            ),
            ("sample --batch 0", "batch: expected at least 1"),
            ("sample --fan-outs 10,x", "fan-outs: expected numbers"),
            ("sample --python /nowhere/python", "/nowhere/python"),
            ("gpu --gpus 0", "gpus: expected at least 1"),
            ("gpu --scale 40", "scale: expected 4 to 26"),
            ("gpu --rounds x", "rounds"),
            ("cache --rows 0", "rows: expected at least 1"),
            ("cache --lines 5", "do not fit into 5 lines"),
            ("data --parts 0", "parts: expected at least 1"),
            ("epoch --modle gcn", "model"),
            ("epoch --rounds 0", "rounds: expected at least 1"),
            ("epoch --epochs 2 --warmup 2", "warmup"),
            (
                "epoch --python /nowhere/python --dropout 0.5",
                "/nowhere/python",
            ),
        ] {
            let text = error(line).to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
