//! `halobook bench epoch`: epochs of a real worker, and of libraries by turns.

use super::super::step::Steps;
use super::machine::default_largest;
use super::{at_least_one, disturbed, grid, profile, pythons, spread_json};
use crate::bench::epoch::{self, Form, Kind, Outcome, Request};
use crate::bench::grid::Kind as Mapped;
use crate::bench::ours::PHASES;
use crate::host::Host;
use crate::request::{Flag, Pair, parse_flags, parse_pairs};
use crate::{Error, Result, sys};
use gnn_core::model::{Memory, ModelKind};
use gnn_core::spec::{FirstAggregate, RunSpec};
use gnn_core::strategy::STRATEGIES;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

const SWITCHES: [&str; 5] = ["json", "quiet", "profile", "grid", "batches"];
const VALUED: [&str; 8] = [
    "rounds", "seconds", "patience", "against", "python", "cases", "svg", "largest",
];

/// What a request is where it says nothing else; keys as for `train`.
const DEFAULTS: &str = "data = \"sbm:nodes=50000,classes=16,feat=128,degree=16,homophily=0.5\"
model = gcn; hidden = 128; epochs = 22; warmup = 2; dropout = 0.0; weight_decay = 0.0; seed = 1
attention_dropout = 0.0";

/// Width of a head of attention, likewise.
const HEAD: usize = 32;

/// Runs the command.
pub fn run(words: &[String]) -> Result<i32> {
    let known = |flag: &str| {
        let switch = SWITCHES.contains(&flag).then_some(false);
        switch.or(VALUED.contains(&flag).then_some(true))
    };
    let (pairs, flags) = parse_flags(words, &known)?;
    let has = |name: &str| flags.iter().any(|(flag, _)| flag == name);
    let value = |name: &str| {
        let of_flag = flags.iter().rev().find(|(flag, _)| flag == name);
        of_flag.and_then(|(_, value)| value.as_deref())
    };
    let largest = match value("largest") {
        Some(mib) => number::<usize>("largest", &[mib], 0)?.max(1) << 20,
        None => default_largest(),
    };
    if has("grid") {
        let given: Vec<&str> = value("cases").into_iter().collect();
        return grid::run(&grid::Asked {
            kind: match has("batches") {
                true => Mapped::Batches,
                false => Mapped::Whole,
            },
            cases: at_least_one("cases", number("cases", &given, 60)?)?,
            seed: 1,
            largest,
            svg: value("svg").map(Path::new),
            quiet: has("quiet"),
            json: has("json"),
        });
    }
    let request = request(pairs, &flags)?;
    if has("profile") {
        return profile::run(&request.spec, largest, has("quiet"), has("json"));
    }
    sys::catch_interrupts();
    let worker = std::env::current_exe().map_err(Error::io(Path::new("halobook")))?;
    let mut steps = Steps::new(has("quiet"));
    let outcome = epoch::run(&request, &worker, &mut |what| steps.show(what))?;
    drop(steps);
    if !has("quiet") {
        print!("{}", text(&outcome));
    }
    if has("json") {
        println!("{}", outcome_json(&outcome));
    }
    if outcome.interrupted {
        eprintln!("error: interrupted; the figures are of the rounds until then");
        eprintln!("help: run it again");
        return Ok(130);
    }
    let failed: Vec<String> = outcome
        .forms
        .iter()
        .filter(|f| f.kind == Kind::Ours)
        .filter_map(|f| Some(format!("{}: {}", f.name, f.failure.as_deref()?)))
        .collect();
    if !failed.is_empty() {
        eprintln!("error: {}", failed.join("; "));
        eprintln!("help: this is a fault of Halobook: please report it with the command line");
    }
    Ok(i32::from(!failed.is_empty()))
}

fn request(pairs: Vec<Pair>, flags: &[Flag]) -> Result<Request> {
    let values = |name: &str| -> Vec<&str> {
        let of_flag = flags.iter().filter(|(flag, _)| flag == name);
        of_flag.filter_map(|(_, value)| value.as_deref()).collect()
    };
    let defaults = crate::request::parse_body(DEFAULTS)?;
    let keys: Vec<String> = pairs.iter().map(|(key, _)| key.replace('-', "_")).collect();
    let given = |key: &str| keys.iter().any(|k| k == key);
    let mut spec = parse_pairs(STRATEGIES, defaults.into_iter().chain(pairs))?;
    if spec.model == ModelKind::Gat && !given("hidden") {
        spec.hidden = HEAD;
    }
    if !given("eval_every") {
        // Evaluation is outside an epoch's time, but not outside the user's.
        spec.eval_every = spec.epochs;
    }
    if spec.warmup >= spec.epochs {
        return Err(Error::refused(
            format!(
                "warmup: {} of {} epochs leave none to time",
                spec.warmup, spec.epochs
            ),
            "raise --epochs or lower --warmup",
        ));
    }
    let rounds = at_least_one("rounds", number("rounds", &values("rounds"), 3)?)?;
    Ok(Request {
        spec,
        rounds,
        seconds: number("seconds", &values("seconds"), 10.0)?,
        patience: Duration::from_secs(number("patience", &values("patience"), 0)?),
        pythons: pythons(values("against").last().copied(), &values("python"))?,
    })
}

fn number<T: FromStr>(flag: &str, given: &[&str], default: T) -> Result<T> {
    let Some(text) = given.last() else {
        return Ok(default);
    };
    text.parse().map_err(|_| {
        Error::refused(
            format!("{flag}: expected a number, got {text}"),
            format!("write --{flag} 3, for example"),
        )
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The tables.
pub(super) fn text(outcome: &Outcome) -> String {
    let spec = &outcome.spec;
    let [nodes, edges, features, classes] = outcome.size;
    // Writing to a String cannot fail.
    let mut text = format!(
        "{}\n{} on {}: {nodes} vertices, {edges} edges, {features} features, {classes} classes; \
         {} layers, hidden {}; {} on {} rank(s) of {} thread(s)\n\n",
        Host::this().class(),
        spec.model.name(),
        spec.data,
        spec.layers,
        spec.hidden,
        spec.strategy,
        spec.ranks,
        outcome.threads,
    );
    let _ = writeln!(
        text,
        "{:<14} {:<11} {:>10} {:>17} {:>9} {:>10} {:>10} {:>8}  loss",
        "form", "kind", "median ms", "quartiles", "best", "peak MiB", "of it data", "others"
    );
    for form in &outcome.forms {
        let _ = writeln!(text, "{}", form_text(form));
    }
    for form in outcome.forms.iter().filter(|f| !f.phases.is_empty()) {
        let medians = form.phase_medians();
        let total: f64 = medians.iter().sum();
        let shares: Vec<String> = PHASES
            .iter()
            .zip(&medians)
            .filter(|(_, ms)| **ms >= 0.005 * total)
            .map(|(name, ms)| format!("{name} {:.0} %", 100.0 * ms / total.max(1e-9)))
            .collect();
        let _ = writeln!(text, "{}: {}", form.name, shares.join(", "));
    }
    if let Some(planned) = &outcome.planned {
        text += &memory_text(planned, spec, &outcome.forms);
    }
    for r in outcome.ratios() {
        let _ = writeln!(
            text,
            "{:<14} {:>6.2} times as fast as {} ({}), with {:.2} of its memory",
            r.ours,
            r.speed,
            r.theirs,
            r.kind.label(),
            r.memory,
        );
    }
    let most = outcome
        .forms
        .iter()
        .filter_map(|f| f.others)
        .reduce(f64::max);
    if let Some(note) = disturbed(most) {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// What the plan says, and how far the peaks of ours are from it.
fn memory_text(planned: &Memory, spec: &RunSpec, forms: &[Form]) -> String {
    let part = |bytes: usize| mib(bytes as u64);
    let mut text = format!(
        "planned: {:.0} MiB = graph {:.0} + features {:.0} + activations {:.0} + gradients {:.0}; \
         parameters {:.1}\n",
        part(planned.data()),
        part(planned.graph),
        part(planned.features),
        part(planned.activations),
        part(planned.gradients),
        part(planned.parameters),
    );
    // The plan is that of what was asked for; features aggregated once may be kept twice.
    let once = spec.first_aggregate == FirstAggregate::Once;
    let ours = |f: &&Form| f.kind == Kind::Ours && f.once == once && f.peak_bytes > 0;
    for form in forms.iter().filter(ours) {
        let ratio = form.peak_bytes as f64 / planned.data().max(1) as f64;
        let _ = writeln!(text, "{}: peak is {ratio:.2} times that", form.name);
    }
    text
}

fn form_text(form: &Form) -> String {
    let Some(ms) = form.spread() else {
        let why = form.failure.as_deref().unwrap_or("not timed");
        return format!("{:<14} {:<11} {why}", form.name, form.kind.label());
    };
    format!(
        "{:<14} {:<11} {:>10.2} {:>17} {:>9.2} {:>10.0} {:>10.0} {:>8}  {:.4} {}",
        form.name,
        form.kind.label(),
        ms.median,
        format!("{:.2}–{:.2}", ms.low, ms.high),
        ms.best,
        mib(form.peak_bytes),
        mib(form.peak_bytes.saturating_sub(form.libraries_bytes)),
        form.others.map_or("-".into(), |c| format!("{c:.2}")),
        form.losses.1,
        form.version,
    )
}

fn outcome_json(outcome: &Outcome) -> Value {
    let form = |f: &Form| {
        let phases: serde_json::Map<String, Value> = PHASES
            .iter()
            .zip(f.phase_medians())
            .filter(|_| !f.phases.is_empty())
            .map(|(name, ms)| ((*name).to_owned(), json!(ms)))
            .collect();
        json!({
            "form": f.name, "kind": f.kind.label(), "once": f.once, "version": f.version,
            "epoch_ms": f.spread().as_ref().map(spread_json), "rounds_ms": f.rounds, "phases_ms": phases,
            "peak_bytes": f.peak_bytes, "libraries_bytes": f.libraries_bytes,
            "first_loss": f.losses.0, "last_loss": f.losses.1, "others_cores": f.others,
            "failure": f.failure,
        })
    };
    let ratios: Vec<Value> = outcome
        .ratios()
        .iter()
        .map(|r| {
            json!({
                "ours": r.ours, "theirs": r.theirs, "kind": r.kind.label(), "speed": r.speed,
                "memory": r.memory,
            })
        })
        .collect();
    let spec: serde_json::Map<String, Value> = outcome
        .spec
        .to_pairs()
        .into_iter()
        .map(|(key, value)| (key, json!(value)))
        .collect();
    let [nodes, edges, features, classes] = outcome.size;
    json!({
        "bench": "epoch", "version": env!("CARGO_PKG_VERSION"), "machine": Host::this().class(),
        "spec": spec, "nodes": nodes, "edges": edges, "features": features, "classes": classes,
        "threads": outcome.threads, "planned_bytes": outcome.planned,
        "planned_total_bytes": outcome.planned.map(|planned| planned.data()),
        "forms": outcome.forms.iter().map(form).collect::<Vec<_>>(), "ratios": ratios,
        "interrupted": outcome.interrupted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_of(line: &str) -> Result<Request> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let known = |flag: &str| VALUED.contains(&flag).then_some(true);
        let (pairs, flags) = parse_flags(&words, &known)?;
        request(pairs, &flags)
    }

    #[test]
    fn a_request_has_its_own_defaults_and_takes_every_key() {
        let plain = request_of("").expect("defaults are a request");
        assert_eq!((plain.spec.hidden, plain.spec.dropout), (128, 0.0));
        assert_eq!((plain.rounds, plain.spec.eval_every), (3, 22));
        assert!(plain.pythons.is_empty() && plain.spec.data.contains("nodes=50000"));
        let other = request_of("--model sage --epochs 7 --rounds 5 --seconds 1.5 --eval-every 2");
        let other = other.expect("a request");
        assert_eq!((other.spec.epochs, other.rounds), (7, 5));
        assert_eq!((other.spec.eval_every, other.seconds), (2, 1.5));
        let head = |line: &str| request_of(line).expect("a request").spec.hidden;
        assert_eq!(
            (head("--model gat"), head("--model gat --hidden 64")),
            (32, 64)
        );
        assert!(request_of("--rounds x").is_err());
    }
}
