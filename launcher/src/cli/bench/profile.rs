//! `halobook bench epoch --profile`: the operations of a real epoch beside the machine's limits.

use super::super::step::Steps;
use super::kernels_bench::{Limits, working_sets};
use super::machine::CLOCK;
use super::{disturbed, spread_json};
use crate::bench::held::Held;
use crate::bench::others::Watch;
use crate::bench::profile::{self, Profiled};
use crate::host::{self, Host};
use crate::{Error, Result};
use gnn_core::dataset;
use gnn_core::model::ModelKind;
use gnn_core::spec::RunSpec;
use kernels::Par;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// Operations of a table; the rest is one line.
const SHOWN: usize = 16;

/// Limits with so many threads, and working sets up to `largest` bytes.
pub(super) fn limits(threads: usize, largest: usize, steps: &mut Steps) -> Limits {
    let told = &mut |what: &str| steps.show(&format!("{threads} thread(s): {what}"));
    Limits::measure(&Par::new(threads), CLOCK, &working_sets(largest), told)
}

/// Runs it.
pub(super) fn run(spec: &RunSpec, largest: usize, quiet: bool, as_json: bool) -> Result<i32> {
    let mut steps = Steps::new(quiet);
    let threads = if spec.threads > 0 {
        spec.threads
    } else {
        host::cores()
    };
    let watch = Watch::start();
    let limits = limits(threads, largest, &mut steps);
    steps.show("reading the data");
    let data =
        dataset::load_for(spec.data_spec(), &crate::store::verdicts()).map_err(Error::Core)?;
    steps.show("training");
    let data = Arc::new(data);
    let made = profile::run(spec.clone(), Arc::clone(&data), &limits)?;
    let held = made.fetching_ms().and_then(|_| {
        steps.show("fetching rows in the given order");
        Held::of(spec, &data.graph, &made)
    });
    drop(steps);
    let others = watch.others();
    if !quiet {
        print!("{}", text(spec, &made, held.as_ref(), others));
    }
    if as_json {
        let mut object = record(spec, &made);
        object["bench"] = json!("profile");
        object["machine"] = json!(Host::this().class());
        object["others_cores"] = json!(others);
        object["ops"] = json!(made.ops);
        object["vertices"] = json!(held);
        println!("{object}");
    }
    Ok(0)
}

/// The numbers of a case.
pub(super) fn record(spec: &RunSpec, made: &Profiled) -> Value {
    let [nodes, edges, features, classes] = made.size;
    // Heads' columns are joined.
    let heads = if spec.model == ModelKind::Gat {
        spec.heads
    } else {
        1
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"), "model": spec.model.name(), "layers": spec.layers,
        "hidden": spec.hidden * heads, "nodes": nodes, "edges": edges, "features": features,
        "classes": classes, "threads": made.threads, "epoch_ms": spread_json(&made.epoch),
        "limit_ms": made.least_ms(), "over_limit": made.over_limit(), "fetching_ms": made.fetching_ms(),
        "between_ms": made.between_ms, "scales_to_16": made.scales_to(16),
    })
}

/// What an epoch gains from the order of vertices.
fn order_line(held: &Held) -> String {
    let repaid = match held.repaid_after() {
        Some(epoch) => format!("repaid after epoch {epoch}"),
        None => "not repaid".into(),
    };
    format!(
        "vertices by {}, found in {:.1} ms: an epoch's rows are fetched in {:.2} ms, and in the given order in {:.2}; {repaid}",
        held.by.name(),
        held.found_ms,
        held.fetch_ms,
        held.given_ms
    )
}

fn text(spec: &RunSpec, made: &Profiled, held: Option<&Held>, others: Option<f64>) -> String {
    let [nodes, edges, features, _] = made.size;
    let fetched = made.fetching_ms().map_or(String::new(), |ms| {
        format!("; with its rows fetched one by one {ms:.2} ms")
    });
    let mut text = format!(
        "{}\n{} on {nodes} vertices, {edges} edges, {features} features; {} layers, hidden {}, {} thread(s)\n\
         epoch {:.2} ms ({:.2} to {:.2}), limit {:.2} ms, {:.2} times it{fetched}\n\n\
         {:<24} {:>5} {:<10} {:>5} {:>9} {:>9} {:>6} {:>9} {:>6} {:>8} {:>8}  bound by\n",
        Host::this().class(),
        spec.model.name(),
        spec.layers,
        spec.hidden,
        made.threads,
        made.epoch.median,
        made.epoch.low,
        made.epoch.high,
        made.least_ms(),
        made.over_limit(),
        "operation",
        "layer",
        "pass",
        "calls",
        "ms",
        "limit",
        "times",
        "fetching",
        "shared",
        "MB",
        "MFLOP",
    );
    for op in made.ops.iter().take(SHOWN) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<24} {:>5} {:<10} {:>5} {:>9.3} {:>9.3} {:>6.2} {:>9.3} {:>4.0} % {:>8.1} {:>8.1}  {}",
            op.op,
            op.layer,
            op.pass,
            op.calls,
            op.ms,
            op.least_ms,
            op.ms / op.least_ms.max(1e-9),
            op.fetch_ms,
            100.0 * op.shared_ms / op.ms.max(1e-9),
            op.bytes / 1e6,
            op.flops / 1e6,
            op.bound,
        );
    }
    let rest = made.ops.iter().skip(SHOWN);
    let (ms, least) = rest.fold((0.0, 0.0), |(ms, least), op| {
        (ms + op.ms, least + op.least_ms)
    });
    if made.ops.len() > SHOWN {
        let _ = writeln!(
            text,
            "{:<47} {ms:>9.3} {least:>9.3}",
            format!("{} more", made.ops.len() - SHOWN)
        );
    }
    let _ = writeln!(text, "{:<47} {:>9.3}", "in no operation", made.between_ms);
    let scaled =
        [2, 4, 8, 16].map(|threads| format!("{:.1} on {threads}", made.scales_to(threads)));
    let _ = writeln!(
        text,
        "by what threads share of it, at most so many times as fast as on one: {}",
        scaled.join(", ")
    );
    if let Some(held) = held {
        let _ = writeln!(text, "{}", order_line(held));
    }
    if let Some(note) = disturbed(others) {
        let _ = writeln!(text, "{note}");
    }
    text
}
