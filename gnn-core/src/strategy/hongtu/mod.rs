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
//! | between host and device | [`host`], [`tier`], [`topology`] |
//! | what a request asks for | [`setting`] |
//! | a device of so many bytes | [`need`] |
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
mod need;
mod remember;
mod seams;
mod setting;
#[cfg(test)]
mod tests;
mod tier;
mod topology;
mod trainer;

use super::full_graph::shape_of;
use super::ordered::Ordered;
use super::reduce::Reduction;
use super::{Built, Entry, Exact, Rows, Setup};
use crate::ctx::Ctx;
use crate::dataset::{Features, Task};
use crate::error::{Error, Result};
use crate::head::{Head, no_links};
use crate::model::{AggregateFirst, Input, Model, ModelKind, Optimiser, Shape, SparseInput};
use crate::partition::{Throughputs, TwoLevel};
use crate::record::RankFacts;
use crate::spec::{FeatureStorage, RunSpec};
use batches::{Batches, TwoLevels};
use columns::{RowsOf, columns_of};
use host::Host;
use kernels::Par;
use need::Need;
use remember::Remember;
use setting::How;
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

/// What is known before the number of chunks is.
struct Making<'a> {
    setup: &'a Setup,
    ordered: &'a Ordered,
    spec: &'a RunSpec,
    shape: Shape,
    how: How,
}

impl Making<'_> {
    /// The batch of each vertex, by number.
    fn batches(&self, devices: usize, chunks: usize) -> Vec<u32> {
        let data = &self.setup.data;
        let owner = match &self.setup.owner {
            Some(owner) => owner.to_vec(),
            None => vec![0; data.n()],
        };
        let throughputs = Throughputs {
            host: 12.0,
            peer: 50.0,
            reuse: 600.0,
        };
        let throughputs = self.how.reorganise.then_some(&throughputs);
        let two = TwoLevel::of_chunks(&data.graph, owner, devices, chunks, throughputs);
        let of = |&v: &u32| two.chunk[v as usize];
        self.ordered.ids().iter().map(of).collect()
    }

    /// The training of this rank, in so many chunks.
    fn training(&self, cx: &mut Ctx, chunks: usize) -> Result<HongTu> {
        let (ordered, spec, data) = (self.ordered, self.spec, &self.setup.data);
        let (me, devices) = (cx.rank(), cx.size());
        let batch = self.batches(devices, chunks);
        let model = Model::new(spec, cx.backend.as_ref(), self.shape);
        let layers = model.layers();
        let sparse = self.sparse();
        let reads: Vec<Reads> = (0..layers).map(|l| reads_of(&model, l, sparse)).collect();
        let How {
            dedup, remembers, ..
        } = self.how;
        let levels = TwoLevels {
            whole: ordered.whole.csr(),
            device: &ordered.owner,
            batch: &batch,
            devices,
            batches: chunks,
            reads_own: reads.contains(&Reads::Columns) && model.kind().reads_own_rows(),
        };
        let batches = Batches::new(&levels, me, dedup);
        let own = ordered.vertices(&batches.own);
        let sparse_rows = |ids: &[u32]| match data.features.select_rows(ids) {
            Features::Sparse(x) => Input::Sparse(SparseInput::new(x)),
            _ => unreachable!("asked only where features are sparse"),
        };
        let mut columns = Vec::new();
        if reads.contains(&Reads::Columns) {
            let features: Option<&RowsOf<'_>> = match reads[0] {
                Reads::Columns if sparse => Some(&sparse_rows),
                _ => None,
            };
            for batch in &batches.all {
                let own = &batches.own[batch.own.clone()];
                columns.push(columns_of(ordered, own, batch, features)?);
            }
        }
        let ids_of: Vec<&[u32]> = batches.all.iter().map(|b| &own[b.own.clone()]).collect();
        let own_sparse = sparse && reads[0] == Reads::Own;
        let remembers: Vec<Remember> = reads
            .iter()
            .map(|&reads| match reads {
                // The same on all ranks.
                Reads::Places if self.how.chooses => {
                    let (rows, edges) = (data.n() as u64, ordered.whole.csr().n_edges() as u64);
                    Remember::cheapest(rows, batches.volumes.reused, edges)
                }
                Reads::Places => remembers[0],
                _ => remembers[1],
            })
            .collect();
        let mut widths = vec![self.shape.d_in];
        widths.extend((0..layers).map(|l| model.layer(l).d_out()));
        let rows = Rows::of(data, &own);
        Ok(HongTu {
            head: Head::of(&rows, cx, layers)?,
            reduction: Reduction::new(&model.weights, cx),
            optimiser: Optimiser::new(spec, &model, cx.backend.as_ref()),
            sparse: ids_of
                .iter()
                .filter(|_| own_sparse)
                .map(|ids| sparse_rows(ids))
                .collect(),
            of_batches: ids_of.iter().map(|ids| Rows::of(data, ids)).collect(),
            passed: (0..layers)
                .map(|_| batches.all.iter().map(|_| None).collect())
                .collect(),
            // Features come when the number of chunks is known.
            host: self.host(cx, &own, (&widths, &remembers), false),
            ids_of: ids_of.iter().map(|ids| ids.to_vec().into()).collect(),
            ids: own.into(),
            tier: Tier::new(cx, self.how.resident),
            budget: 0,
            pinned: true,
            model,
            columns,
            reads,
            widths,
            dedup,
            remembers,
            batches,
        })
    }

    /// Whether rows of features are sparse.
    fn sparse(&self) -> bool {
        let none = self.setup.data.features.select_rows(&[]);
        matches!(none, Features::Sparse(_))
    }

    /// Room for rows of all layers, of vertices `own`, with their dense features or room for them.
    fn host(
        &self,
        cx: &Ctx,
        own: &[u32],
        (widths, remembers): (&[usize], &[Remember]),
        filled: bool,
    ) -> Host {
        let kept: Vec<bool> = remembers
            .iter()
            .map(|&r| r == Remember::Aggregate)
            .collect();
        let features = if self.sparse() {
            kernels::Mat::zeros((0, 0))
        } else if filled {
            self.features(own)
        } else {
            kernels::Mat::zeros((own.len(), widths[0]))
        };
        let features = (features, self.how.resident);
        Host::new(cx, features, own.len(), &widths[..kept.len()], &kept)
    }

    /// Dense features of some vertices.
    fn features(&self, ids: &[u32]) -> kernels::Mat {
        match self.setup.data.features.select_rows(ids) {
            Features::Dense(mut x) => {
                if self.spec.feature_storage == FeatureStorage::Bf16 {
                    kernels::spmm_bf16::round_in_place(&Par::new(1), &mut x);
                }
                x
            }
            _ => kernels::Mat::zeros((0, 0)),
        }
    }

    /// The training in as few chunks as fit into the device, or in as many as are asked for, and what it
    /// needs there.
    fn fitting(&self, cx: &mut Ctx) -> Result<(HongTu, Need)> {
        let mut tried = |chunks: usize| need::of(cx, |cx| self.training(cx, chunks));
        let fits = |need: &Need| need.fits(self.how.budget).is_some();
        let refused = |need: Need, chunks: usize| Err(need.refused(chunks, self.how.budget));
        if let Some(chunks) = self.how.chunks {
            let (made, need) = tried(chunks)?;
            return match fits(&need) {
                true => Ok((made, need)),
                false => refused(need, chunks),
            };
        }
        // Of more chunks than vertices some are empty.
        let most = self.setup.data.n().max(1);
        let (mut less, mut chunks) = (0, 1);
        let mut found = loop {
            let (made, need) = tried(chunks)?;
            if fits(&need) {
                break (made, need);
            }
            if chunks >= most {
                return refused(need, chunks);
            }
            (less, chunks) = (chunks, (2 * chunks).min(most));
        };
        while less + 1 < chunks {
            let middle = (less + chunks) / 2;
            let (made, need) = tried(middle)?;
            match fits(&need) {
                true => (chunks, found) = (middle, (made, need)),
                false => less = middle,
            }
        }
        Ok(found)
    }

    /// The same with all that backward reads kept of as many layers as the device has room for, from the last
    /// on, which backward comes to first.
    fn richest(&self, cx: &mut Ctx, fitting: (HongTu, Need)) -> Result<(HongTu, Need)> {
        let (mut made, mut need) = fitting;
        for layer in (0..made.remembers.len()).rev() {
            let before = std::mem::replace(&mut made.remembers[layer], Remember::All);
            let (again, with) = need::of(cx, |cx| {
                let host = self.host(cx, &made.ids, (&made.widths, &made.remembers), false);
                Ok(made.on_device(cx, self.shape, (0, need), host))
            })?;
            made = again;
            match with.fits(self.how.budget).is_some() {
                true => need = with,
                false => made.remembers[layer] = before,
            }
        }
        Ok((made, need))
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let how = How::of(&cx.plan.spec);
    build_so(setup, cx, how)
}

fn build_in_memory(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let how = How::in_memory(&cx.plan.spec);
    build_so(setup, cx, how)
}

fn build_so(setup: Setup, cx: &mut Ctx, how: How) -> Result<Built> {
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    if setup.data.task == Task::LinkPrediction {
        return Err(no_links(&spec.strategy));
    }
    let ordered = Ordered::of(&setup, cx);
    let part = (cx.size() > 1).then(|| ordered.part_row(&setup, cx));
    let making = Making {
        setup: &setup,
        ordered: &ordered,
        spec,
        shape: Shape {
            aggregate_first: AggregateFirst::Always,
            ..shape_of(&setup, cx)
        },
        how,
    };
    let (made, need) = match making.fitting(cx)? {
        found if how.chooses => making.richest(cx, found)?,
        found => found,
    };
    let of_layers = (&made.widths[..], &made.remembers[..]);
    let host = making.host(cx, &made.ids, of_layers, true);
    let strategy = made.on_device(cx, making.shape, (how.budget, need), host);
    let rows = Rows::of(&setup.data, &strategy.ids);
    let facts = RankFacts {
        rank: cx.rank() as u32,
        owned_nodes: rows.ids.len() as u64,
        halo_nodes: strategy.batches.volumes.fetched,
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
    build,
    ..Entry::BASE
};

/// The entry of the comparison: everything on the device, in one chunk.
pub const IN_MEMORY: Entry = Entry {
    name: "hongtu-im",
    summary: "hongtu with everything on the device, which it is compared with",
    knobs: setting::IN_MEMORY,
    build: build_in_memory,
    ..ENTRY
};
