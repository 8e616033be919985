//! `halobook bench epoch --grid`: ours over the limit, case by case, and as a heat map.

use super::super::step::Steps;
use super::profile::{limits, record};
use crate::bench::grid::{self, BATCHES, Case, FAN_OUTS, FEATURES, GRAPHS, HIDDEN, Kind, MODELS};
use crate::bench::heat;
use crate::bench::others::Watch;
use crate::bench::profile;
use crate::host::{self, Host};
use crate::request::{parse_body, parse_pairs};
use crate::{Error, Result, sys};
use gnn_core::strategy::STRATEGIES;
use kernels::bench::Spread;
use serde_json::{Value, json};
use std::path::Path;

/// What is asked for.
pub(super) struct Asked<'a> {
    /// Of what.
    pub kind: Kind,
    /// How many cases.
    pub cases: usize,
    /// Which.
    pub seed: u64,
    /// Bytes of the largest working set of the limits.
    pub largest: usize,
    /// Where the heat map goes.
    pub svg: Option<&'a Path>,
    pub quiet: bool,
    pub json: bool,
}

/// One case and what came of it.
struct Done {
    case: Case,
    line: Value,
    over: f64,
}

/// Epochs of a case, of which the first warms up.
const EPOCHS: &str =
    "epochs = 6; warmup = 1; dropout = 0.0; attention_dropout = 0.0; weight_decay = 0.0; seed = 1";

/// Runs it.
pub(super) fn run(asked: &Asked<'_>) -> Result<i32> {
    sys::catch_interrupts();
    let mut steps = Steps::new(asked.quiet);
    let mut threads = vec![1, host::cores()];
    threads.dedup();
    let limits: Vec<_> = threads
        .iter()
        .map(|&t| limits(t, asked.largest, &mut steps))
        .collect();
    let cases = grid::cases(asked.kind, asked.cases, threads.len(), asked.seed);
    let (watch, mut done, mut graph) = (Watch::start(), Vec::new(), None);
    for (k, case) in cases.iter().enumerate() {
        if sys::interrupts() > 0 {
            break;
        }
        let words = format!(
            "{}; {}, {} features",
            case.pairs(),
            GRAPHS[case.graph].0,
            case.features()
        );
        steps.show(&format!("{} of {}: {words}", k + 1, cases.len()));
        if graph.as_ref().is_none_or(|(known, _)| *known != case.graph) {
            // The last one goes before the next one comes.
            drop(graph.take());
            graph = Some((case.graph, grid::graph(case)?));
        }
        let Some((_, of)) = &graph else { continue };
        let data = grid::with_features(of, case);
        let spec = parse_pairs(
            STRATEGIES,
            parse_body(&format!("{EPOCHS}; {}", case.pairs()))?,
        )?;
        let made = profile::run(spec.clone(), data, &limits[case.threads])?;
        let mut line = record(&spec, &made);
        line["graph"] = json!(GRAPHS[case.graph].0);
        line["features"] = json!(case.features());
        if asked.kind == Kind::Batches {
            line["fanout"] = json!(FAN_OUTS[case.depth]);
            line["batch"] = json!(BATCHES[case.batch]);
        }
        line["worst"] = json!(made.ops.iter().take(3).collect::<Vec<_>>());
        if asked.json {
            println!("{line}");
        }
        done.push(Done {
            case: *case,
            line,
            over: made.over_limit(),
        });
    }
    drop(steps);
    if !asked.quiet {
        print!("{}", text(&done, watch.others()));
    }
    if let Some(path) = asked.svg {
        std::fs::write(path, map(asked.kind, &done)).map_err(Error::io(path))?;
    }
    Ok(0)
}

fn text(done: &[Done], others: Option<f64>) -> String {
    let mut by_over: Vec<&Done> = done.iter().collect();
    by_over.sort_by(|a, b| b.over.total_cmp(&a.over));
    let over: Vec<f64> = done.iter().map(|done| done.over).collect();
    let Some(spread) = Spread::of(&over) else {
        return String::new();
    };
    let mut text = format!(
        "{}; {} cases: median {:.2} times the limit, worst {:.2}, {} within 1.35\n\n\
         {:<14} {:<12} {:<6} {:>6} {:>15} {:>7} {:>10} {:>10} {:>6}\n",
        Host::this().class(),
        done.len(),
        spread.median,
        by_over[0].over,
        over.iter().filter(|&&over| over <= 1.35).count(),
        "graph",
        "features",
        "model",
        "hidden",
        "layers",
        "threads",
        "ms",
        "limit",
        "times",
    );
    for Done { case, line, over } in by_over {
        text += &format!(
            "{:<14} {:<12} {:<6} {:>6} {:>15} {:>7} {:>10.2} {:>10.2} {:>6.2}\n",
            GRAPHS[case.graph].0,
            case.features(),
            MODELS[case.model],
            HIDDEN[case.hidden],
            case.depth(),
            line["threads"],
            line["epoch_ms"]["median"].as_f64().unwrap_or(f64::NAN),
            line["limit_ms"].as_f64().unwrap_or(f64::NAN),
            over,
        );
    }
    if let Some(note) = super::disturbed(others) {
        text += &note;
        text.push('\n');
    }
    text
}

/// Graphs and models down; features and hidden columns across, or fan-outs and seeds of a batch. Of several cases
/// in a cell, the worst.
fn map(kind: Kind, done: &[Done]) -> String {
    let rows: Vec<String> = GRAPHS
        .iter()
        .flat_map(|(graph, _)| MODELS.iter().map(move |model| format!("{graph}, {model}")))
        .collect();
    let pairs = |outer: &[String], inner: &[usize]| -> Vec<String> {
        let of = |outer: &String| {
            let of_one = inner.iter().map(|inner| format!("{outer}, {inner}"));
            of_one.collect::<Vec<_>>()
        };
        outer.iter().flat_map(of).collect()
    };
    let (columns, across) = match kind {
        Kind::Whole => (
            pairs(&FEATURES.map(|(width, _)| width.to_string()), &HIDDEN),
            "features, hidden columns",
        ),
        Kind::Batches => (
            pairs(&FAN_OUTS.map(str::to_owned), &BATCHES),
            "fan-outs, seeds of a batch",
        ),
    };
    let mut cells = vec![vec![None::<f64>; columns.len()]; rows.len()];
    for Done { case, over, .. } in done {
        let row = case.graph * MODELS.len() + case.model;
        let column = match kind {
            Kind::Whole => case.features * HIDDEN.len() + case.hidden,
            Kind::Batches => case.depth * BATCHES.len() + case.batch,
        };
        let cell = &mut cells[row][column];
        *cell = Some(cell.map_or(*over, |known| known.max(*over)));
    }
    let (rows, cells) = rows
        .into_iter()
        .zip(cells)
        .filter(|(_, cells)| kind == Kind::Whole || cells.iter().any(Option::is_some))
        .unzip::<_, _, Vec<_>, Vec<_>>();
    let title = format!(
        "An epoch's time over its limit, {} cases; {}",
        done.len(),
        Host::this().class()
    );
    heat::svg(&heat::Map {
        title: &title,
        across,
        rows: &rows,
        columns: &columns,
        cells: &cells,
    })
}
