//! HongTu: full-graph training on devices that hold a part of the graph at a time.
//!
//! # Paper
//! Wang et al., "HongTu: Scalable Full-Graph GNN Training on Multiple GPUs (via communication-optimized CPU
//! data offloading)", SIGMOD 2024, <https://doi.org/10.1145/3626733>.
//! # Idea
//! Rows and gradients of all layers lie on the host. A rank's vertices are cut into chunks; its device
//! computes a layer chunk by chunk, from the rows that the chunk reads, and gives back what it has made.
//! The `j`-th chunks of all ranks are a *batch*, in which devices load what their own vertices are read for
//! and fetch the rest from each other, so that a row crosses from host to device once a batch, and not
//! again for the next one if that reads it too ([`batches`]).
//!
//! | part | where |
//! |---|---|
//! | who reads what, and from where (§5, Algorithms 2 and 3) | [`batches`], [`dedup`] |
//! | which chunks follow each other (Algorithm 4) | [`crate::partition::TwoLevel`] |
//! | recomputation and caching (§4.2) | [`remember`] |
//! | forward, backward (Algorithm 1) | [`forward`], [`backward`] |
//! | between host and device | [`host`], [`tier`] |
//!
//! # Bytes
//! With `V_ru` rows loaded in a layer, `V` vertices and `d_l` columns of layer `l`'s input, `hybrid` moves
//! `4 · Σ_l V_ru·d_l + V(d_l + d_{l+1})` bytes to devices in an epoch and
//! `4 · Σ_l V(d_l + d_{l+1}) + 4 · Σ_{l≥1} V_ru·d_l` back; layers that read their own rows load them beside.
//! # Order
//! Batches go back from the last to the first: gradients that stay in the buffer are those that the next
//! batch adds to. (Algorithm 1 goes back in ascending order, in which Algorithm 3 loses them.) Additions are
//! in the order of batches, and in a batch of ranks.
//! # Exact when
//! Always.

mod backward;
mod batches;
mod columns;
mod dedup;
mod forward;
mod frames;
mod host;
mod remember;
mod seams;
#[cfg(test)]
mod tests;
mod tier;
mod trainer;

use super::full_graph::shape_of;
use super::ordered::Ordered;
use super::reduce::Reduction;
use super::{Built, Entry, Exact, Knob, Rows, Setup};
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::dataset::{Features, Task};
use crate::error::{Error, Result};
use crate::head::{Head, no_links};
use crate::model::{AggregateFirst, Input, Model, ModelKind, Optimiser, Shape, SparseInput};
use crate::partition::{Throughputs, TwoLevel};
use crate::record::RankFacts;
use crate::spec::{RunSpec, Value};
use batches::{Batches, TwoLevels};
use columns::columns_of;
use dedup::Dedup;
use host::Host;
use remember::Remember;
use std::sync::Arc;
use tier::Tier;
use trainer::{HongTu, Reads};

/// What a layer reads of a batch.
fn reads_of(model: &Model, layer: usize, sparse: bool) -> Reads {
    let of = model.layer(layer);
    match of.facts() {
        None => Reads::Own,
        // Sparse rows are multiplied before they are aggregated, which would fill them in.
        Some(facts) if facts.edge_parameters || (sparse && layer == 0) => Reads::Columns,
        Some(_) if of.aggregates_its_input() => Reads::Places,
        Some(_) => Reads::Columns,
    }
}

/// The batch of each vertex, by number.
fn batches_of(setup: &Setup, ordered: &Ordered, devices: usize, cx: &Ctx) -> Vec<u32> {
    let knobs = &cx.plan.spec.knobs;
    let owner = match &setup.owner {
        Some(owner) => owner.to_vec(),
        None => vec![0; setup.data.n()],
    };
    let throughputs = Throughputs {
        host: 12.0,
        peer: 50.0,
        reuse: 600.0,
    };
    let reorganise = knobs.flag("reorganise").then_some(&throughputs);
    let chunks = knobs.count("chunks");
    let two = TwoLevel::of_chunks(&setup.data.graph, owner, devices, chunks, reorganise);
    let of = |&v: &u32| two.chunk[v as usize];
    ordered.ids().iter().map(of).collect()
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    if setup.data.task == Task::LinkPrediction {
        return Err(no_links(&spec.strategy));
    }
    let (me, devices) = (cx.rank(), cx.size());
    let ordered = Ordered::of(&setup, cx);
    let part = (devices > 1).then(|| ordered.part_row(&setup, cx));
    let batch = batches_of(&setup, &ordered, devices, cx);
    let shape = Shape {
        aggregate_first: AggregateFirst::Always,
        ..shape_of(&setup, cx)
    };
    let model = Model::new(spec, cx.backend.as_ref(), shape);
    let layers = model.layers();
    let sparse = matches!(setup.data.features, Features::Sparse(_));
    let reads: Vec<Reads> = (0..layers).map(|l| reads_of(&model, l, sparse)).collect();
    let dedup = Dedup::of(&spec.knobs);
    let levels = TwoLevels {
        whole: ordered.whole.csr(),
        device: &ordered.owner,
        batch: &batch,
        devices,
        batches: spec.knobs.count("chunks"),
        reads_own: reads.contains(&Reads::Columns) && model.kind().reads_own_rows(),
    };
    let batches = Batches::new(&levels, me, dedup);
    let own = ordered.vertices(&batches.own);
    let sparse_rows = |ids: &[u32]| match setup.data.features.select_rows(ids) {
        Features::Sparse(x) => Input::Sparse(SparseInput::new(x)),
        _ => unreachable!("asked only where features are sparse"),
    };
    let mut columns = Vec::new();
    if reads.contains(&Reads::Columns) {
        let features: Option<&dyn Fn(&[u32]) -> Input> = match reads[0] {
            Reads::Columns if sparse => Some(&sparse_rows),
            _ => None,
        };
        for batch in &batches.all {
            let own = &batches.own[batch.own.clone()];
            columns.push(columns_of(&ordered, own, batch, features)?);
        }
    }
    let ids_of: Vec<&[u32]> = batches.all.iter().map(|b| &own[b.own.clone()]).collect();
    let own_sparse = sparse && reads[0] == Reads::Own;
    let features = match setup.data.features.select_rows(&own) {
        Features::Dense(x) => Mat::from_host(x),
        _ => host::zeros(0, 0),
    };
    let remembers: Vec<Remember> = reads
        .iter()
        .map(|&reads| Remember::of(&spec.knobs, reads == Reads::Places))
        .collect();
    let mut widths = vec![shape.d_in];
    widths.extend((0..layers).map(|l| model.layer(l).d_out()));
    let kept: Vec<bool> = remembers
        .iter()
        .map(|&r| r == Remember::Aggregate)
        .collect();
    let rows = Rows::of(&setup.data, &own);
    let strategy = HongTu {
        head: Head::of(&rows, cx, layers)?,
        reduction: Reduction::new(&model.weights, cx),
        optimiser: Optimiser::new(spec, &model, cx.backend.as_ref()),
        sparse: ids_of
            .iter()
            .filter(|_| own_sparse)
            .map(|ids| sparse_rows(ids))
            .collect(),
        of_batches: ids_of
            .iter()
            .map(|ids| Rows::of(&setup.data, ids))
            .collect(),
        passed: (0..layers)
            .map(|_| batches.all.iter().map(|_| None).collect())
            .collect(),
        host: Host::new(features, own.len(), &widths[..layers], &kept),
        ids_of: ids_of.iter().map(|ids| ids.to_vec().into()).collect(),
        ids: own.into(),
        tier: Tier::new(cx),
        model,
        columns,
        reads,
        widths,
        dedup,
        remembers,
        batches,
    };
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: rows.ids.len() as u64,
        halo_nodes: strategy.batches.volumes.fetched,
        train_nodes: rows.train_count() as u64,
        ..RankFacts::default()
    };
    Ok(Built {
        predicted: strategy.predict(cx),
        strategy: Box::new(strategy),
        rows,
        facts,
        part,
    })
}

fn refuse(spec: &RunSpec) -> Result<()> {
    let refused = |what: &str, reason: &str, help: &str| {
        Err(Error::Unsupported {
            what: format!("{what} with strategy {}", spec.strategy),
            reason: reason.into(),
            help: help.into(),
        })
    };
    if spec.decoupled {
        return refused(
            "a decoupled model",
            "its rounds of propagation are one step",
            "set decoupled = false, or choose another strategy, for example neutrontp",
        );
    }
    if spec.first_aggregate == crate::spec::FirstAggregate::Once {
        return refused(
            "features aggregated once",
            "chunks aggregate them as they come",
            "leave first_aggregate out",
        );
    }
    Ok(())
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "chunks",
        default: "4",
        doc: "chunks of each rank's vertices, which its device computes one after the other",
        check: |v| matches!(v, Value::Int(1..=0xffff)),
    },
    dedup::KNOB,
    remember::KNOB,
    Knob {
        name: "reorganise",
        default: "true",
        doc: "chunks go in an order in which those that follow each other read most in common, instead of that of their vertices",
        check: |v| matches!(v, Value::Bool(_)),
    },
];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "hongtu",
    paper: "https://doi.org/10.1145/3626733",
    summary: "rows lie on the host; a device computes a layer chunk by chunk, and loads a row once",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gin,
        ModelKind::Gat,
        ModelKind::Rgcn,
        ModelKind::Gcnii,
        ModelKind::Resgcn,
    ],
    knobs: KNOBS,
    frames: frames::FRAMES,
    exact: Exact::Always,
    resumes: true,
    refuse,
    build,
    ..Entry::BASE
};
