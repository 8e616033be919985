//! What a run will send, hold and compute, found by going through it without computing.
//!
//! Every rank of the run is a thread here. It builds its strategy from the real data and the real cut,
//! then runs an epoch on a [`Hollow`] backend, whose matrices have shapes and no elements. So any
//! strategy of any registry can be rehearsed, and what is sent is counted where a run counts it:
//!
//! | number | |
//! |---|---|
//! | bytes, messages | exact for the first epoch. Full-graph strategies that reuse nothing send the same in all; those that reuse rows send less later (for a bound on values, no one can say before); sampled ones send what their draws need, which differ by epoch |
//! | graph | the sparse matrices and lists that an epoch reads, as they lie in memory: exact |
//! | features | the rank's own, as its backend stores them: exact |
//! | parameters | weights, gradients, the optimiser's moments: exact |
//! | history | rows of earlier epochs that a strategy says it keeps: exact |
//! | halo | rows of others in the layer and direction that moves most, and the messages with them: exact sizes, of which not all need exist at once |
//! | device | what chunks hold on a device with a budget: exact |
//! | activations | what the host's pool of buffers has grown to after two epochs and evaluations, without the above: by a model of that pool |
//! | set-up | the data set as every rank reads it, and what is made of it before a rank keeps its part: by a formula |
//!
//! A strategy that foresees its memory itself ([`RankFacts::memory`]) is believed. For other strategies
//! that work in the background nothing is said about memory, since their batches are not the backend's.
//!
//! # Costs
//! The data set, once more what ranks keep of it, and for a moment the whole graph's edges once a rank;
//! the time of set-up. Sampled strategies draw one epoch's batches, with their features.

use crate::backend::{Asked, Backend, Hollow, Ledger, Metered};
use crate::comm::{Post, ThreadTransport, Transport, with_hub};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Task};
use crate::error::{Error, Result};
use crate::evaluation::evaluate;
use crate::model::Optimiser;
use crate::plan::Plan;
use crate::record::{
    Copies, Direction, Holds, Lane, Meter, Op, Pass, RankFacts, Route, Traffic, Work,
};
use crate::spec::{FeatureStorage, RunSpec};
use crate::strategy::full_graph::shape;
use crate::strategy::{Built, Entry, Setup, find_in};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What one rank will do in an epoch.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    /// What its rows say.
    pub facts: RankFacts,
    /// What it sends in the first epoch.
    pub sent: BTreeMap<Lane, Traffic>,
    /// Bytes of training; none where nobody can say.
    pub memory: Option<Holds>,
    /// The most bytes on a device with a budget; none without one.
    pub device: Option<u64>,
    /// Bytes that its first epoch copies to a device, and from it, where rows lie apart from it.
    pub copied: Option<[u64; 2]>,
    /// Bytes of set-up at its fullest moment, for a rank that is a process.
    pub setup: usize,
    /// Bytes of the data set in it, which ranks of one process share.
    pub data: usize,
    /// Edges of aggregation.
    pub work: Work,
    /// Everything else that is computed.
    pub asked: Asked,
}

impl Rehearsed {
    /// Bytes sent in the first epoch.
    pub fn bytes(&self) -> u64 {
        self.sent.values().map(|t| t.bytes).sum()
    }

    /// Messages sent in the first epoch.
    pub fn messages(&self) -> u64 {
        self.sent.values().map(|t| t.messages).sum()
    }
}

/// Bytes of a whole model's weights, their gradients and the optimiser's moments: what training needs at least,
/// known without a rehearsal.
pub fn parameters(spec: &RunSpec, data: &Dataset) -> usize {
    Optimiser::bytes(spec, spec.model.weights(spec, shape(data, spec)))
}

/// Rehearses `plan` on the data that it names and their parts.
///
/// # Errors
/// Whatever building the strategy meets; [`Error::Unsupported`] for a strategy that looks into
/// matrices which have no elements.
pub fn rehearse(plan: &Plan, setup: Setup, entries: &[Entry]) -> Result<Vec<Rehearsed>> {
    let entry = find_in(entries, &plan.spec.strategy)?;
    let plan = Arc::new(plan.clone());
    let setup_bytes = reading(&setup.data, &plan.spec);
    let mut all = std::thread::scope(|scope| {
        let worlds = ThreadTransport::world(plan.spec.ranks);
        let setups = std::iter::repeat_n(setup, plan.spec.ranks);
        let threads = worlds.into_iter().zip(setups);
        let threads: Vec<_> = threads
            .map(|(transport, setup)| {
                let (plan, name) = (Arc::clone(&plan), format!("rehearsal-{}", transport.rank()));
                std::thread::Builder::new()
                    .name(name.clone())
                    .spawn_scoped(scope, move || {
                        let transport = Box::new(transport);
                        if !entry.background {
                            return on_rank(plan, entry, setup, transport, None);
                        }
                        with_hub(transport, name, |port, post| {
                            on_rank(plan, entry, setup, Box::new(port), Some(post))
                        })
                    })
                    .map_err(|e| Error::io("thread", e))
            })
            .collect();
        let mut ranks = Vec::with_capacity(threads.len());
        let mut lost = None;
        for thread in threads {
            match thread?.join() {
                Ok(Ok(rank)) => ranks.push(rank),
                Ok(Err(e @ Error::Comm { .. })) => lost = lost.or(Some(e)),
                Ok(Err(e)) => return Err(e),
                Err(_) => return Err(looked_inside(entry.name)),
            }
        }
        lost.map_or(Ok(ranks), Err)
    })?;
    apportion(&mut all);
    for rank in &mut all {
        let memory = rank.memory.unwrap_or_default();
        let kept = memory.graph + memory.features.max(setup_bytes.whole);
        rank.data = setup_bytes.data;
        rank.setup = setup_bytes.data + kept.max(setup_bytes.whole + setup_bytes.copy);
    }
    Ok(all)
}

fn looked_inside(strategy: &str) -> Error {
    Error::Unsupported {
        what: format!("a plan of strategy {strategy}"),
        reason: "it looks into matrices, which have no elements while nothing is computed".into(),
        help: "train it on a small graph instead, and see its `ranks` frame".into(),
    }
}

/// Bytes that exist before a rank keeps its part.
struct Reading {
    /// The data set.
    data: usize,
    /// The whole graph as the model wants it.
    whole: usize,
    /// The graph in another order, of which that is made.
    copy: usize,
}

fn reading(data: &Dataset, spec: &RunSpec) -> Reading {
    use crate::graph::Propagation;
    let (n, edges) = (data.n(), data.graph.n_edges());
    let typed = data.graph.relations().map_or(0, |r| r.bytes());
    let lists = 8 * (n + 1) + 4 * edges + typed;
    let labels = data.multi_labels.as_ref().map_or(4 * n, Vec::len) + 3 * n;
    let (loops, weight) = match spec.model.propagation() {
        Propagation::Sum => (0, 0),
        Propagation::Mean | Propagation::RelationMean => (0, 4),
        Propagation::Loops => (n, 0),
        Propagation::GcnSym => (n, 4),
    };
    Reading {
        data: lists + data.features.bytes() + labels,
        whole: 8 * (n + 1) + (4 + weight) * (edges + loops) + typed,
        copy: match crate::strategy::reorders(&data.graph, spec) {
            true => lists + 12 * n,
            false => 0,
        },
    }
}

/// One rank's part. Collective.
fn on_rank(
    plan: Arc<Plan>,
    entry: &Entry,
    setup: Setup,
    transport: Box<dyn Transport>,
    post: Option<Post>,
) -> Result<Rehearsed> {
    let (meter, ledger) = (Rc::new(Meter::new(None)), Rc::new(Ledger::default()));
    let hollow = Metered::new(
        Hollow::new(Rc::clone(&ledger), plan.spec.backend == "cpu"),
        Rc::clone(&meter),
    );
    let backend: Box<dyn Backend> = Box::new(hollow);
    let mut cx = Ctx::new(plan, transport, backend, Rc::clone(&meter));
    cx.comm.add_nothing();
    cx.post = post;
    let result = run(&mut cx, entry, setup, &meter, &ledger);
    if result.is_err() {
        cx.comm.abort(1);
    }
    result
}

fn run(
    cx: &mut Ctx,
    entry: &Entry,
    setup: Setup,
    meter: &Meter,
    ledger: &Ledger,
) -> Result<Rehearsed> {
    let spec = cx.plan.spec.clone();
    let labels = setup.data.multi_labels.as_ref();
    let classes = labels.map_or(0, |_| setup.data.n_classes);
    let links = setup.data.task == Task::LinkPrediction;
    cx.pass(Pass::Setup);
    let Built {
        mut strategy,
        rows,
        facts,
        ..
    } = (entry.build)(setup, cx)?;
    let weights: usize = strategy.gradients().iter().map(|g| g.len()).sum();
    let parameters = Optimiser::bytes(&spec, weights);
    // Rows that are kept over epochs may be there before the first.
    let kept = parameters + meter.cached().iter().sum::<u64>() as usize;
    let mut features = ledger.live_bytes().saturating_sub(kept);
    meter.take_traffic();
    meter.take_times();
    meter.take_copies();
    ledger.take_asked();
    strategy.epoch(cx)?;
    let copies = meter.take_copies();
    let sent = meter.take_traffic();
    let ((_, work), asked) = (meter.take_times(), ledger.take_asked());
    if !entry.background {
        if !links {
            evaluate(cx, strategy.as_mut(), &rows)?;
        }
        cx.epoch = 1;
        strategy.epoch(cx)?;
    }
    features += ledger.input_bytes();
    let widened = spec.feature_storage == FeatureStorage::Bf16;
    let memory = facts.memory.or_else(|| {
        // What others' rows take of it is found when all ranks are known.
        let held = ledger.most_bytes() + ledger.input_bytes();
        let own = (15 + classes) * rows.ids.len();
        let unknown = entry.background || (widened && spec.backend != "cpu");
        let history = meter.cached().iter().sum::<u64>() as usize;
        (!unknown).then(|| Holds {
            graph: ledger.list_bytes() + own,
            features,
            activations: held.saturating_sub(features + parameters + history),
            history,
            offloaded: 0,
            parameters,
            halo: 0,
        })
    });
    cx.comm.drain()?;
    Ok(Rehearsed {
        facts,
        sent,
        memory,
        device: meter.most_on_device(),
        copied: (copies != Copies::default())
            .then(|| [Route::HostToDevice, Route::DeviceToHost].map(|route| copies[route].bytes)),
        setup: 0,
        data: 0,
        work,
        asked,
    })
}

/// Takes from activations what rows of others are.
fn apportion(all: &mut [Rehearsed]) {
    let ranks = all.len();
    let mut moved: Vec<BTreeMap<(u16, Direction), usize>> = vec![BTreeMap::new(); ranks];
    for src in 0..ranks {
        for (&(layer, direction, op, dst), traffic) in &all[src].sent {
            if !matches!(direction, Direction::Forward | Direction::Backward) {
                continue;
            }
            for rank in [src, dst as usize] {
                let all = moved[rank].entry((layer, direction)).or_default();
                let bytes = traffic.bytes as usize;
                // Broadcasts come one after the other, and what is sent is sent to all at once.
                *all = match op {
                    Op::Broadcast => (*all).max(2 * bytes),
                    _ => *all + bytes,
                };
            }
        }
    }
    for (rank, moved) in all.iter_mut().zip(moved) {
        let most = moved.into_values().max().unwrap_or(0);
        if let Some(memory) = &mut rank.memory
            && rank.facts.memory.is_none()
        {
            memory.halo = most.min(memory.activations);
            memory.activations -= memory.halo;
        }
    }
}

#[cfg(test)]
mod tests;
