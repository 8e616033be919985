//! ByteGNN: sampling as a graph of operators, scheduled at two levels.
//!
//! # Paper
//! Zheng et al., "ByteGNN: Efficient Graph Neural Network Training at Large Scale", PVLDB 15(6), 2022,
//! <https://doi.org/10.14778/3514061.3514069>; § 4 (operators, two-level scheduling, partitioning), § 5.
//! # Idea
//! Five operators make a mini-batch: seeds, positives and negatives beside them, neighbourhoods, features. A
//! batch is split into instances of `grain` seeds, whose neighbourhoods are one-hop operations; each runs as
//! soon as what it reads is there, and features are fetched as soon as a vertex is found ([`crate::feed`],
//! `pool`). Two decisions remain. When is another batch begun? When a score of the queue, the processors and
//! the time since the last one says so ([`coarse`]). Which operation is next? That of the oldest batch, and
//! of its operations the one that touches least; owners answer other ranks in the same order, in which letters
//! also leave where the way out is slow. Vertices are cut into neighbourhoods of training vertices (`bytegnn`,
//! Algorithm 2), so that few rows are fetched.
//! Gradients go to parameter servers, one a rank (`gradients = ps`), or into an all-reduce.
//! # Differs
//! Instances share what they find, so that a batch fetches a row once however it is split; a batch is put
//! together in the order of the unsplit one. So a run's losses are those of `distdgl` bit by bit, on as many
//! ranks and the same cut, whatever the schedule did. What Algorithm 1 leaves open: [`coarse`]. What
//! a remote row's neighbours cost is not known before it is asked for: as much as this rank's, on average.
//! # Measured
//! Seeds a second beside `distdgl`, and where the schedule wins: `notebooks/measured/bytegnn.md`.
//! # Not done
//! Servers of parameters that are no ranks. Samplers and trainer of a rank are threads of one process.
//! # Exact when
//! As `distdgl`: `fanout = all` and `batch = 0`; for links also `exclude = false`.

mod coarse;

use super::distdgl;
use super::mini_batch::{
    self, Base, CACHE, DEVICE, EMBEDDINGS, Foreseen, GRADIENTS, LINKS, NEIGHBOURS, Settings,
    StepRow, TRAINERS, is_flag, of_request,
};
use super::{Built, Entry, Knob, Setup};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{BatchRow, HopRow, How, LaunchRow, Launching, PoolSettings, Split, Turn};
use crate::plan::Plan;
use crate::record::Holds;
use crate::record::frame::FrameRow;
use crate::sample::Neighbourhood;
use crate::spec::{RunSpec, Value, bytes};
use coarse::{Bounds, Coarse, CoarseSettings};
use std::sync::Arc;
use std::time::Duration;

fn is_positive(v: &Value) -> bool {
    matches!(v, Value::Int(i) if *i >= 1)
}

/// How batches are scheduled.
const SCHEDULE: [Knob; 9] = [
    Knob {
        name: "coarse",
        default: "true",
        doc: "a launch score says when a batch is begun (Algorithm 1); false begins as many as dags and in_flight \
              allow",
        check: is_flag,
    },
    Knob {
        name: "fine",
        default: "true",
        doc: "operations of the oldest batch first, and of these the cheapest, here and at owners; false does \
              them in the order in which they come up",
        check: is_flag,
    },
    Knob {
        name: "grain",
        default: "256",
        doc: "seeds of an instance: how finely a batch is split into operations",
        check: is_positive,
    },
    Knob {
        name: "sigma",
        default: "10.0",
        doc: "the launch score that is enough",
        check: |v| {
            v.as_f64()
                .is_some_and(|sigma| sigma.is_finite() && sigma >= 0.0)
        },
    },
    Knob {
        name: "poll_ms",
        default: "5",
        doc: "how often the launch score is computed while nothing happens",
        check: |v| v.as_f64().is_some_and(|ms| (0.1..=10_000.0).contains(&ms)),
    },
    Knob {
        name: "dags",
        default: "8",
        doc: "batches that are begun and not trained on, at most",
        check: is_positive,
    },
    Knob {
        name: "in_flight",
        default: "1GB",
        doc: "bytes of those batches at most, as in 256MB; none for any number",
        check: |v| v.to_string() == "none" || bytes(&v.to_string()).is_some(),
    },
    Knob {
        name: "sample_threads",
        default: "1",
        doc: "threads of a rank that make batches, beside those that train",
        check: |v| matches!(v, Value::Int(1..=1024)),
    },
    Knob {
        name: "pin",
        default: "false",
        doc: "keep those threads on the last cores of the rank's share, and the one that trains on the others, where \
              there is a core for each and the system lets it; threads of kernels stay where the system puts them",
        check: is_flag,
    },
];

/// What the knobs say, read.
fn settings(spec: &RunSpec) -> Result<Settings> {
    let dags = spec.knobs.count("dags");
    Ok(Settings {
        workers: spec.knobs.count("sample_threads"),
        background: true,
        ahead: dags,
        room: bytes(&spec.knobs.written("in_flight")),
        turn: match spec.knobs.flag("fine") {
            true => Turn::Cost,
            false => Turn::Arrival,
        },
        ..Settings::of(spec)?
    })
}

/// Cores that a rank's process has: where ranks outnumber the machine's, a part of one.
fn cores(plan: &Plan) -> f64 {
    let machine = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let (ranks, threads) = (plan.spec.ranks as f64, plan.threads as f64);
    match (plan.in_process, plan.oversubscribed) {
        (true, _) => machine.min(ranks * threads),
        (false, true) => machine.min(ranks * threads) / ranks,
        (false, false) => threads,
    }
}

/// When batches are begun, by a process of so many cores.
fn coarse(spec: &RunSpec, cores: f64) -> CoarseSettings {
    let knobs = &spec.knobs;
    CoarseSettings {
        sigma: knobs.number("sigma"),
        poll: Duration::from_secs_f64(knobs.number("poll_ms") / 1e3),
        bounds: Bounds {
            dags: knobs.count("dags") as u64,
            bytes: bytes(&knobs.written("in_flight")),
        },
        threads: knobs.count("sample_threads") as u64,
        cores,
        scored: knobs.flag("coarse"),
    }
}

/// In which order they are made.
fn fine(spec: &RunSpec) -> PoolSettings {
    PoolSettings {
        cores: None,
        grain: spec.knobs.count("grain"),
        fine: spec.knobs.flag("fine"),
        #[cfg(test)]
        delays: None,
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    build_by(setup, cx, None)
}

/// It, with neighbours drawn by a rule that is written elsewhere, if there is one. Collective.
pub(super) fn build_by(
    setup: Setup,
    cx: &mut Ctx,
    rule: Option<Arc<dyn Neighbourhood>>,
) -> Result<Built> {
    let spec = &cx.plan.spec;
    let (mut settings, pool) = (settings(spec)?, fine(spec));
    settings.neighbours.rule = rule;
    settings.refuse(spec)?;
    build_as(setup, cx, settings, pool)
}

/// It, ready to run as `settings` and `pool` say. Collective.
fn build_as(
    setup: Setup,
    cx: &mut Ctx,
    settings: Settings,
    mut pool: PoolSettings,
) -> Result<Built> {
    let (spec, share) = (&cx.plan.spec, cx.plan.threads);
    let coarse = coarse(spec, cores(&cx.plan));
    // Ranks that are threads of one process have no share of their own.
    let pins = spec.knobs.flag("pin") && !cx.plan.in_process;
    let split = pins
        .then(|| Split::of(cx.rank(), share, settings.workers))
        .flatten();
    pool.cores = split.map(|split| split.samplers);
    let launching = Launching {
        launcher: Box::new(move |range| Box::new(Coarse::new(coarse, range))),
        how: How::Pool(pool),
    };
    let base = Base::of(&setup, cx, settings)?;
    let memory = Foreseen::of(&setup, cx, &base).map(Holds::from);
    drop(setup);
    let mut beside = base.start(cx)?;
    let makers = beside.makers(cx)?;
    let feed = beside.prefetched(makers, Some(launching), cx)?;
    if let Some(split) = split {
        split.trainer.keep_here();
    }
    beside.finish(cx, Box::new(feed), of_request, memory)
}

const KNOBS: &[Knob] = &mini_batch::splice::<26>(&[
    &NEIGHBOURS,
    &TRAINERS,
    &SCHEDULE,
    &LINKS,
    &CACHE,
    &DEVICE,
    &GRADIENTS,
    &EMBEDDINGS,
]);

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "bytegnn",
    paper: "https://doi.org/10.14778/3514061.3514069",
    summary: "mini-batches as graphs of small operations, begun by a score and done oldest and cheapest first",
    knobs: KNOBS,
    frames: &[
        BatchRow::FRAME,
        HopRow::FRAME,
        StepRow::FRAME,
        LaunchRow::FRAME,
    ],
    partition: "bytegnn:hops=layers",
    refuse: |spec| settings(spec)?.refuse(spec),
    build,
    ..distdgl::ENTRY
};

#[cfg(test)]
mod tests;
