//! DistDGL: mini-batches whose neighbourhoods their owners draw.
//!
//! # Paper
//! Zheng et al., "DistDGL: Distributed Graph Neural Network Training for Billion-Scale Graphs", IA³
//! 2020, <https://arxiv.org/abs/2010.05337>; §§ 3.2 to 3.5.
//! # Idea
//! Vertices are cut so that few edges cross and parts have about as many vertices, edges and training
//! vertices (`metis:balance=train+edges`, unless the request names a partitioner). Every rank stores the features and in-edges of its own, and
//! whoever owns a vertex draws its neighbours. A rank trains on seeds of its own: it asks the owners
//! hop by hop, pulls the features it has not, and steps with the sum of all ranks' gradients. Batches
//! are made ahead, beside the training.
//!
//! With `vertex_embedding = D`, D columns of every vertex's input are learnt: they lie at the owner,
//! are pulled as a batch begins, and their gradients are pushed back, where the owner's optimiser
//! takes them (`feed/table.rs`). By default pushes are applied as they come, and a pull reads what is there;
//! such a run on several ranks promises nothing about bits (`statistical`). With `embedding_sync` a step
//! reads what all ranks' pushes of the step before have made, summed in the order of the ranks.
//! # Differs
//! A rank's server, its makers of batches and its trainer are threads of one process, not processes
//! that share memory. With `trainers = k` a rank stands for a machine: a step has a batch of each of its k
//! trainers, drawn and pulled apart, and the sum of their gradients; they have one copy of the weights and
//! one of the rank's store, cache included, and train one after the other, each with all of the rank's
//! threads. `workers` make their batches beside each other. Draws depend on seed, epoch, batch, layer and
//! vertex alone, so that any number of ranks draws the same. A first layer that reads aggregates of dense features, without dropout, sums
//! them where they lie: of the rank's own rows only those of destinations are copied, for GraphSAGE.
//! # Measured
//! Epochs beside DistDGL, GraphBolt and PyG, accuracy, and what several trainers a rank pull:
//! `notebooks/measured/distdgl.md`.
//! # Not done
//! Tensors of edges beyond weights and types, which owners hand out with what they draw: no model reads
//! any. Embeddings are not cached. Every rank keeps the data set's id of every vertex, and two words a
//! vertex for numbering batches. Evaluation is layer by layer, a piece of a rank's vertices at a time
//! (`feed/layerwise.rs`), but holds what a layer makes of all of them, which training does not
//! (`foreseen.rs`).
//! # Exact when
//! `fanout = all` and `batch = 0`: every step reads whole neighbourhoods of all training vertices. For
//! links also `exclude = false`, the default: full-graph training reads the edges it asks about. With
//! embeddings there is nothing to compare with but full-graph training on a wider input that is
//! changed by hand, which is what the tests do.

use super::mini_batch::{
    self, Base, CACHE, DEVICE, EMBEDDINGS, Foreseen, GRADIENTS, LINKS, NEIGHBOURS, PREFETCH,
    Settings, StepRow, TRAINERS, WORKERS, learning, of_request,
};
use super::{Built, Determinism, Entry, Exact, Knob, Setup};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{BatchRow, HopRow, Launching};
use crate::model::ModelKind;
use crate::record::Holds;
use crate::record::frame::FrameRow;
use crate::spec::RunSpec;

/// What the knobs say, read.
pub(super) fn settings(spec: &RunSpec) -> Result<Settings> {
    let prefetch = spec.knobs.count("prefetch");
    Ok(Settings {
        workers: spec.knobs.count("workers").clamp(1, prefetch.max(1)),
        background: prefetch > 0,
        ahead: prefetch,
        ..Settings::of(spec)?
    })
}

/// Batches are the same for the same ranks; pushes that are applied as they come are not.
fn determinism(spec: &RunSpec) -> Determinism {
    match learning(spec) {
        Some(learning) if !learning.synchronous && spec.ranks > 1 => Determinism::Statistical,
        _ => Determinism::SameRanks,
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let settings = settings(&cx.plan.spec)?;
    build_as(setup, cx, settings)
}

/// It, ready to run as `settings` say. Collective.
pub(super) fn build_as(setup: Setup, cx: &mut Ctx, settings: Settings) -> Result<Built> {
    let (ahead, workers) = (settings.ahead, settings.workers);
    let base = Base::of(&setup, cx, settings)?;
    let memory = Foreseen::of(&setup, cx, &base).map(Holds::from);
    drop(setup);
    let mut beside = base.start(cx)?;
    let makers = beside.makers(cx)?;
    let launching = (ahead > 0).then(|| Launching::fixed(ahead, workers));
    let feed = beside.prefetched(makers, launching, cx)?;
    beside.finish(cx, Box::new(feed), of_request, memory)
}

const KNOBS: &[Knob] = &mini_batch::splice::<19>(&[
    &NEIGHBOURS,
    &TRAINERS,
    &LINKS,
    &PREFETCH,
    &CACHE,
    &DEVICE,
    &WORKERS,
    &GRADIENTS,
    &EMBEDDINGS,
]);

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "distdgl",
    paper: "https://arxiv.org/abs/2010.05337",
    summary: "mini-batches; neighbours drawn by their owners, features pulled, made ahead",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gat,
        ModelKind::Rgcn,
    ],
    knobs: KNOBS,
    exact: Exact::With(&[("fanout", "all"), ("batch", "0"), ("exclude", "false")]),
    frames: &[BatchRow::FRAME, HopRow::FRAME, StepRow::FRAME],
    partition: "metis:balance=train+edges",
    determinism,
    background: true,
    resumes: true,
    refuse: |spec| settings(spec)?.refuse(spec),
    build,
    ..Entry::BASE
};
