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
//! | which chunks follow each other (Algorithm 4) | [`crate::partition::TwoLevel`], [`crate::partition::Batched`] |
//! | recomputation and caching (§4.2) | [`remember`] |
//! | layers whose product is narrower than their input | [`product`] |
//! | forward, backward (Algorithm 1) | [`forward`], [`backward`] |
//! | between host and device | [`host`], [`tier`], [`topology`] |
//! | copies beside what is computed | [`ahead`], [`stage`] |
//! | what a request asks for | [`setting`] |
//! | a device of so many bytes | [`need`], [`making`] |
//! | a host of so many bytes, and a disk behind it | [`disk`] |
//!
//! # Bytes
//! With `V_ru` rows loaded in a layer, `V` vertices and `d_l` columns of layer `l`'s input, `hybrid` moves
//! `4 · Σ_l V_ru·d_l + V(d_l + d_{l+1})` bytes to devices in an epoch and
//! `4 · Σ_l V(d_l + d_{l+1}) + 4 · Σ_{l≥1} V_ru·d_l` back; layers that read their own rows load them beside.
//! Layers that multiply first move `d_{l+1}` columns of each of the `V_ru` rows, and of their own
//! `4 · V(2·d_l + 5·d_{l+1})` to devices (the last `2·d_{l+1}` less) and `4 · V(d_l + 2·d_{l+1})` back (the
//! first `d_l` less).
//! # Order
//! Batches go back from the last to the first: gradients that stay in the buffer are those that the next
//! batch adds to. (Algorithm 1 goes back in ascending order, in which Algorithm 3 loses them.) Additions are
//! in the order of batches, and in a batch of ranks.
//! # Exact when
//! Always.

mod ahead;
mod backward;
mod batches;
mod columns;
mod dedup;
mod disk;
mod forward;
mod frames;
mod host;
mod in_memory;
mod making;
mod need;
mod product;
mod remember;
mod seams;
mod setting;
mod stage;
#[cfg(test)]
mod tests;
mod tier;
mod topology;
mod trainer;

use super::full_graph::shape_of;
use super::ordered::Ordered;
use super::{Built, Entry, Exact, Rows, Setup};
use crate::ctx::Ctx;
use crate::dataset::Task;
use crate::device;
use crate::error::{Error, Result};
use crate::head::no_links;
use crate::model::{AggregateFirst, ModelKind, Shape};
use crate::record::RankFacts;
use crate::spec::RunSpec;
use making::Making;
use setting::How;
use std::sync::Arc;

fn build_in_memory(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    no_links_in(&setup, cx)?;
    let budget = device::budget(&cx.plan.spec.knobs);
    let need = in_memory::need(&setup, cx)?;
    in_memory::build(setup, cx, (need, budget))
}

fn no_links_in(setup: &Setup, cx: &Ctx) -> Result<()> {
    match setup.data.task {
        Task::LinkPrediction => Err(no_links(&cx.plan.spec.strategy)),
        _ => Ok(()),
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    no_links_in(&setup, cx)?;
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    let how = How::of(spec);
    if how.keeps_all() {
        let need = in_memory::need(&setup, cx)?;
        if need.fits(how.budget) == Some(true) {
            return in_memory::build(setup, cx, (need, how.budget));
        }
    }
    let ordered = Ordered::of(&setup, cx);
    let part = (cx.size() > 1).then(|| ordered.part_row(&setup, cx));
    let making = Making {
        setup: &setup,
        ordered: &ordered,
        spec,
        shape: Shape {
            aggregate_first: match how.narrower {
                // What GIN aggregates goes through more before it passes on.
                true if spec.model != ModelKind::Gin => AggregateFirst::Narrower,
                _ => AggregateFirst::Always,
            },
            ..shape_of(&setup, cx)
        },
        how,
    };
    let (made, need) = match making.fitting(cx)? {
        found if how.chooses => making.richest(cx, found)?,
        found => found,
    };
    let strategy = making.placed(cx, made, need)?;
    let rows = Rows::of(&setup.data, &strategy.ids);
    let facts = RankFacts {
        rank: cx.rank() as u32,
        owned_nodes: rows.ids.len() as u64,
        halo_nodes: strategy.batches.volumes.remote,
        train_nodes: rows.train_count() as u64,
        memory: Some(strategy.holds(cx, need)),
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
    knobs: setting::KNOBS,
    frames: frames::FRAMES,
    exact: Exact::Always,
    resumes: true,
    refuse,
    moving: Some(setting::measured),
    build,
    ..Entry::BASE
};

/// The entry of the comparison: everything on the device, in one chunk.
pub const IN_MEMORY: Entry = Entry {
    name: "hongtu-im",
    summary: "hongtu with everything on the device, which it is compared with",
    knobs: setting::IN_MEMORY,
    moving: None,
    build: build_in_memory,
    ..ENTRY
};
