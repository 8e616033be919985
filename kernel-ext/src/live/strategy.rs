//! `%%strategy`: compiled once, compared with `single`, then a name like a built-in one.

use std::process::Command;
use std::time::Instant;

use launcher::strategies::About;
use launcher::verify::Verdict;
use serde::Deserialize;

use super::{Session, lines, program};
use crate::cell::facts::Facts;
use crate::compile::{self, Source};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::StrategyRequest;

/// What can be implemented, as `--show-trait` shows it.
const TRAITS: &str = r#"impl Strategy for X: when do halo rows and their gradients travel?

    trait Strategy {
        fn exchange(&mut self, x: &mut Exchange) -> Result<()>;
    }
    x.epoch() x.layer() x.backward() x.rank() x.size()   where it is
    x.age() -> Option<usize>                             epochs since the rows at hand travelled
    x.drift()? -> f64                                    how far rows have moved since, of all ranks the most
    x.fetch_fresh()  x.reuse_last()                      the decision, the same on every rank

impl Aggregate for X, with a field `blocks: BlockRows`: the product of the graph and this rank's rows

    trait Aggregate {
        fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat>;
    }
    self.blocks.exact(cx, at, x)?                        every rank's rows travel
    self.blocks.product(cx, &Trip { at, own, sent, travels }, &mut |cx, rank, arrived| rows)?

impl Neighbourhood for X: which in-edges of a vertex does a mini-batch take? Otherwise it is bytegnn

    trait Neighbourhood {
        fn draw(&self, of: &Vertex<'_>, random: &mut Random, drawn: &mut Drawn);
    }
    of.degree() of.source(k) of.source_degree(k)         its in-edges, 0 to degree
    of.weight(k) of.edge_type(k) of.id of.layer
    of.fan_out                                           how many to take at most; None for all
    random.below(n) random.uniform()                     the only chance there is
    drawn.take(k)  drawn.take_for(k, 0.5)                the k-th in-edge; what it counts for
    compared with single of whole neighbourhoods: %%strategy NAME --set fanout=all --set batch=0

pub const ENTRY: Entry: all of it, as the built-in strategies are written

frame! { Drift in "drift" by layer { layer: u16, relative: f64 } }: a frame of the strategy's own

    x.row(Drift { layer: 0, relative: 0.1 });            a row of this rank and epoch; cx.row(…) in an Aggregate
    r1.frame("drift"), the table drift in %%sql          where it is read; `///` above a field says what it is
    frames: &[Drift::FRAME]                              in an ENTRY, which lists them itself

Fields that are numbers, bool or String are settings: keys of %%gnn like any other."#;

/// Compiles, compares, and keeps it under its name.
pub fn strategy(request: &StrategyRequest, session: &Session<'_>) -> Outcome {
    if request.show_trait {
        return Ok(Some(Shown::text(TRAITS)));
    }
    let facts = session.facts.ok_or_else(|| unprepared("%%strategy"))?;
    let started = Instant::now();
    let (about, missing) = compiled(request, facts, session)?;
    let took = started.elapsed().as_secs_f64();
    let mut text = format!("strategy {}: {} ({took:.1} s)\n", about.name, about.summary);
    for knob in &about.knobs {
        let default = match knob.default.as_str() {
            "" => "no default".to_owned(),
            value => format!("default {value}"),
        };
        let doc = match knob.doc.as_str() {
            "" => String::new(),
            doc => format!(": {doc}"),
        };
        text.push_str(&format!("  {} ({default}){doc}\n", knob.name));
    }
    for frame in &about.frames {
        let columns: Vec<&str> = frame.columns.iter().map(|c| c.name.as_str()).collect();
        text.push_str(&format!("  frame {}: {}\n", frame.name, columns.join(", ")));
    }
    if let Some(verdict) = &about.verified {
        text.push_str(&verdict.to_string());
        if let Some((ranks, why)) = verdict.failed() {
            return Err(Failure::new(
                "HaloCheckFailed",
                format!("{} does not train on {ranks} ranks: {why}", about.name),
                text.lines().map(str::to_owned),
            ));
        }
    } else if let Some(knob) = missing {
        text.push_str(&format!(
            "not compared with single: {knob} has no default; name one with --set {knob}=…, or \
             implement Default\n"
        ));
    }
    text.push_str(&format!("use it: %%gnn -n 2 -s {}", about.name));
    Ok(Some(Shown::text(text)))
}

/// What set-up did not leave.
pub fn unprepared(magic: &str) -> Failure {
    Failure::config(
        format!("{magic} has nothing to compile against"),
        ["help: run `cargo quickstart`, then start the kernel again".to_owned()],
    )
}

/// The strategy, kept; and the setting for want of which it was not compared.
fn compiled(
    request: &StrategyRequest,
    facts: &Facts,
    session: &Session<'_>,
) -> Result<(About, Option<String>), Failure> {
    let source = Source {
        name: &request.name,
        code: &request.code,
    };
    let mut about = compile::compile(&source, facts, Some(session.interrupt))?;
    let kept = |about: &About| about.keep().map_err(|error| lines::refused(&error));
    // `halobook verify` finds it by its name.
    kept(&about)?;
    let given = |name: &str| request.pairs.iter().any(|(key, _)| key == name);
    let missing = about
        .knobs
        .iter()
        .find(|knob| knob.default.is_empty() && !given(&knob.name));
    let missing = missing.map(|knob| knob.name.clone());
    if request.verify && missing.is_none() {
        about.verified = Some(verify(request, session)?);
        kept(&about)?;
    }
    Ok((about, missing))
}

#[derive(Deserialize)]
struct Said {
    verdict: Verdict,
}

/// `halobook verify`, interruptible.
fn verify(request: &StrategyRequest, session: &Session<'_>) -> Result<Verdict, Failure> {
    let mut command: Command = program::halobook();
    command.args(["verify", &request.name, "--json"]);
    if let Some(ranks) = &request.ranks {
        command.args(["--ranks", ranks]);
    }
    for (key, value) in &request.pairs {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let ran = program::run(&mut command, session)?;
    if ran.interrupted {
        return Err(Failure::new(
            "HaloInterrupted",
            format!(
                "interrupted while {} was being compared with single; it can be used",
                request.name
            ),
            [],
        ));
    }
    let last = ran.stdout.lines().last().unwrap_or_default();
    match serde_json::from_str::<Said>(last) {
        Ok(said) => Ok(said.verdict),
        Err(_) => Err(program::refusal(&ran.stderr, || {
            format!("`halobook verify` ended with {}", ran.status)
        })),
    }
}
