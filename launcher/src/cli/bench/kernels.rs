//! `halobook bench kernels`: every kernel against this machine's limits, and against libraries.

use super::super::step::Steps;
use super::super::words::Words;
use super::kernels_bench::{self, Clock, Input, Limits, Line, Outcome, Spread, working_sets};
use super::machine::{CLOCK, limits_json};
use super::{disturbed, positive, pythons, spread_json};
use crate::bench::export::{self, Folder};
use crate::bench::others::{Watch, wait_for_quiet};
use crate::bench::python::{Python, newest};
use crate::host::{self, Host};
use crate::{Error, Result, sys};
use gnn_core::model::ModelKind;
use kernels::Par;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

const DATA: &str = "rmat:scale=16,edge-factor=16,feat=4,classes=32";
const CLASSES: usize = 32;

/// One operation of theirs.
struct Theirs {
    kernel: String,
    library: String,
    ms: Vec<f64>,
}

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let valued = [
        "data",
        "width",
        "heads",
        "head-width",
        "threads",
        "only",
        "rounds",
        "against",
        "python",
        "patience",
    ];
    let words = Words::sort(words, &["json", "quiet"], &valued)?;
    words.names([])?;
    let width = positive(&words, "width", 128)?;
    let heads = positive(&words, "heads", 8)?;
    let head_width = positive(&words, "head-width", 32)?;
    let threads = positive(&words, "threads", host::cores())?;
    let rounds = positive(&words, "rounds", 3)?;
    let patience = Duration::from_secs(words.number("patience")?.unwrap_or(0));
    let pythons = pythons(words.value("against"), &words.values("python"))?;
    let only = words.value("only").unwrap_or_default().to_owned();
    if !kernels_bench::KERNELS
        .iter()
        .any(|name| name.contains(&only))
    {
        return Err(Error::refused(
            format!("only: no kernel's name contains {only:?}"),
            format!("known: {}", kernels_bench::KERNELS.join(", ")),
        ));
    }
    let name = words.value("data").unwrap_or(DATA);
    let data = gnn_core::dataset::load(name, 0)?;
    let mut steps = Steps::new(words.has("quiet"));
    let folder = if pythons.is_empty() {
        None
    } else {
        // From here on there is a folder and a process to clean up.
        sys::catch_interrupts();
        let folder = Folder::make()?;
        export::write(&data, folder.path())?;
        Some(folder)
    };
    let block = data.graph.propagation(ModelKind::Gcn.propagation());
    drop(data);
    let input = Input {
        graph: block.csr(),
        width,
        heads,
        head_width,
        classes: CLASSES,
        only,
    };
    let par = Par::new(threads);
    let footprint = 12 * block.n_dst * width + block.bytes();
    wait_for_quiet(patience);
    let watch = Watch::start();
    let limits = Limits::measure(&par, CLOCK, &working_sets(footprint), &mut |what| {
        steps.show(what)
    });
    let (mut ours, mut theirs): (Vec<Line>, Vec<Theirs>) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let told =
            &mut |what: &str| steps.show(&format!("round {} of {rounds}: {what}", round + 1));
        wait_for_quiet(patience);
        merge(
            &mut ours,
            kernels_bench::kernels(&par, Clock::default(), &input, told),
        );
        for python in timed_by(&pythons) {
            told("theirs");
            let folder = folder.as_ref().expect("made where there are Pythons");
            add(&mut theirs, operations(python, folder, width, threads)?);
        }
        if sys::interrupts() > 0 {
            return Ok(130);
        }
    }
    drop(steps);
    let others = watch.others();
    if !words.has("quiet") {
        print!("{}", text(&limits, &ours, others));
        print!("{}", against(&ours, &theirs));
    }
    if words.has("json") {
        let object = json!({
            "bench": "kernels", "version": env!("CARGO_PKG_VERSION"), "machine": Host::this().class(),
            "data": name, "width": width, "threads": threads, "rounds": rounds, "others_cores": others,
            "limits": limits_json(&limits),
            "kernels": ours.iter().map(|line| line_json(&limits, line)).collect::<Vec<_>>(),
            "theirs": theirs.iter().map(theirs_json).collect::<Vec<_>>(),
        });
        println!("{object}");
    }
    let wrong: Vec<&str> = ours
        .iter()
        .filter(|l| matches!(l.outcome, Outcome::Wrong(_)))
        .map(|l| l.kernel)
        .collect();
    if !wrong.is_empty() {
        eprintln!("error: wrong answers: {}", wrong.join(", "));
        eprintln!("help: this is a fault of Halobook: please report it with the line above");
    }
    Ok(i32::from(!wrong.is_empty()))
}

/// The Python with the newest PyTorch, and that with the newest DGL where it is another.
fn timed_by(pythons: &[Python]) -> Vec<&Python> {
    let mut chosen: Vec<&Python> = newest(pythons, |p| Some(&p.torch)).into_iter().collect();
    if let Some(dgl) = newest(pythons, |p| p.dgl.as_deref())
        && chosen.iter().all(|p| p.path != dgl.path)
    {
        chosen.push(dgl);
    }
    chosen
}

fn operations(
    python: &Python,
    folder: &Folder,
    width: usize,
    threads: usize,
) -> Result<Vec<Theirs>> {
    let request = json!({
        "folder": folder.path(), "width": width, "threads": threads, "seed": 1, "warmup": 2,
        "samples": 15, "seconds": 3.0, "dgl": python.dgl.is_some(),
        "device": "cpu",
        "memory_bytes": Host::this().memory_bytes / 10 * 7,
    });
    let limit = Duration::from_secs(600);
    let answer = python
        .ask("ops", &request, folder.path(), limit)
        .map_err(|silence| {
            Error::refused(
                format!("python: {}: {silence}", python.path.display()),
                "leave out --against to time ours alone",
            )
        })?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = answer["operations"].as_array().into_iter().flatten();
    Ok(list
        .map(|o| Theirs {
            kernel: text(&o["kernel"]),
            library: format!("{} ({})", text(&o["library"]), python.torch),
            ms: o["ms"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .collect(),
        })
        .collect())
}

/// Adds a round's samples to those before; an answer that was wrong once stays so.
fn merge(all: &mut Vec<Line>, round: Vec<Line>) {
    if all.is_empty() {
        *all = round;
        return;
    }
    for (line, new) in all.iter_mut().zip(round) {
        line.ms.extend(new.ms);
        if matches!(new.outcome, Outcome::Wrong(_)) {
            line.outcome = new.outcome;
        }
    }
}

fn add(all: &mut Vec<Theirs>, round: Vec<Theirs>) {
    for new in round {
        let same = |t: &&mut Theirs| t.kernel == new.kernel && t.library == new.library;
        match all.iter_mut().find(same) {
            Some(line) => line.ms.extend(new.ms),
            None => all.push(new),
        }
    }
}

fn line_json(limits: &Limits, line: &Line) -> Value {
    let spread = line.spread();
    let (least, bound) = limits.least_ms(line.bytes, line.footprint, line.flops);
    let (right, deviation) = match line.outcome {
        Outcome::Right(share) => (true, share),
        Outcome::Wrong(share) => (false, share),
    };
    json!({
        "kernel": line.kernel, "shape": line.shape, "ms": spread_json(&spread), "bytes": line.bytes,
        "flops": line.flops, "least_ms": least, "bound": bound.label(), "share": least / spread.median,
        "right": right, "deviation": deviation,
    })
}

fn theirs_json(theirs: &Theirs) -> Value {
    json!({
        "kernel": theirs.kernel, "library": theirs.library,
        "ms": Spread::of(&theirs.ms).as_ref().map(spread_json),
    })
}

fn text(limits: &Limits, lines: &[Line], others: Option<f64>) -> String {
    // Writing to a String cannot fail.
    let mut text = format!(
        "{}, {} thread(s); peak {:.0} GFLOP/s\n\n{:<26} {:<36} {:>9} {:>17} {:>7} {:>8}  share of limit\n",
        Host::this().class(),
        limits.threads,
        limits.gflops(),
        "kernel",
        "shape",
        "median ms",
        "quartiles",
        "GB/s",
        "GFLOP/s",
    );
    for line in lines {
        let ms = line.spread();
        let (least, bound) = limits.least_ms(line.bytes, line.footprint, line.flops);
        let _ = writeln!(
            text,
            "{:<26} {:<36} {:>9.3} {:>17} {:>7.1} {:>8.1}  {:>3.0} % {}{}",
            line.kernel,
            line.shape,
            ms.median,
            format!("{:.3}–{:.3}", ms.low, ms.high),
            line.bytes / ms.median / 1e6,
            line.flops / ms.median / 1e6,
            100.0 * least / ms.median,
            bound.label(),
            if matches!(line.outcome, Outcome::Wrong(_)) {
                "  WRONG"
            } else {
                ""
            },
        );
    }
    if let Some(note) = disturbed(others) {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn against(ours: &[Line], theirs: &[Theirs]) -> String {
    let mut text = String::new();
    if theirs.is_empty() {
        return text;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<26} {:<40} {:>9} {:>9} {:>9}",
        "kernel", "theirs", "theirs ms", "ours ms", "ratio"
    );
    for their in theirs {
        let mine = ours.iter().find(|l| l.kernel == their.kernel);
        if let (Some(mine), Some(spread)) = (mine, Spread::of(&their.ms)) {
            let ours = mine.spread().median;
            let _ = writeln!(
                text,
                "{:<26} {:<40} {:>9.3} {:>9.3} {:>8.2}×",
                their.kernel,
                their.library,
                spread.median,
                ours,
                spread.median / ours
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ms: f64, outcome: Outcome) -> Line {
        Line {
            kernel: "spmm, weights",
            shape: "small".into(),
            ms: vec![ms],
            bytes: 1e6,
            footprint: 1e6,
            flops: 1e6,
            outcome,
        }
    }

    #[test]
    fn rounds_are_pooled_and_a_wrong_answer_stays() {
        let mut all = Vec::new();
        merge(&mut all, vec![line(1.0, Outcome::Wrong(3.0))]);
        merge(&mut all, vec![line(3.0, Outcome::Right(0.1))]);
        assert_eq!(all[0].ms, [1.0, 3.0]);
        assert_eq!(all[0].outcome, Outcome::Wrong(3.0));
        let their = |ms| Theirs {
            kernel: "spmm, weights".into(),
            library: "torch".into(),
            ms: vec![ms],
        };
        let mut theirs = Vec::new();
        add(&mut theirs, vec![their(4.0)]);
        add(&mut theirs, vec![their(8.0)]);
        assert_eq!(theirs.len(), 1);
        let table = against(&all, &theirs);
        assert!(
            table.contains("6.000") && table.contains("3.00×"),
            "{table}"
        );
        assert!(against(&all, &[]).is_empty());
    }

    #[test]
    fn one_kernel_of_a_small_graph_is_timed_on_the_command_line() {
        let words = "--data sbm:nodes=300,classes=3,feat=4,degree=6 --width 8 --heads 2 --threads 1 \
                     --only spmm --rounds 2 --quiet";
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        assert_eq!(run(&words).expect("runs, with right answers"), 0);
    }
}
