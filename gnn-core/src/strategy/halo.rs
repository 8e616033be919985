//! Graph parallelism: every rank owns some vertices and fetches its neighbours' rows each layer.
//!
//! # Paper
//! Baseline; "graph parallelism" in GNNPipe, "DepComm" in NeutronStar and NeutronTP.
//! # Idea
//! A precomputed list says which of a rank's rows each peer reads. Every layer sends just those,
//! once per peer; the backward pass sends the gradients of the same rows the other way, and their
//! owner adds them. Local edges are multiplied while remote rows travel.
//! # Bytes
//! Each way and layer `4 · width · Σ_i |B_i|`, `B_i` the remote vertices that rank `i` reads; the
//! narrower side of the dense layer travels. For links, the head's as well (`head/shares.rs`).
//! # Exact when
//! Always.

use super::full_graph::OverBlock;
use super::full_graph::{Prepared, aggregations, input_of, model_of};
use super::ordered::Ordered;
use super::{Built, Entry, Exact, Knob, Rows, Setup};
use crate::backend::{Kept, Mat};
use crate::comm::{Label, Message};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregation, At, Neighbours};
use crate::partition::LocalPart;
use crate::record::{Direction, PredictedLane};
use crate::spec::Value;
use std::collections::BTreeMap;

/// Who reads which of my rows, and whose rows I read.
pub(super) struct Halo {
    /// For each peer, the local rows it reads, in the order in which it stores them.
    send: Vec<Kept<u32>>,
    /// For each peer, how many of its rows I read; they follow each other in rank order.
    read: Vec<usize>,
    /// Whether local work runs while rows travel, or after.
    overlap: bool,
}

impl Halo {
    /// The lists of a part; local work runs while rows travel, or after.
    pub(super) fn new(send: Vec<Vec<u32>>, read: Vec<usize>, overlap: bool) -> Halo {
        Halo {
            send: send.into_iter().map(Kept::from).collect(),
            read,
            overlap,
        }
    }

    /// Sends and receives, with `meanwhile` in between or after.
    fn exchange(
        &self,
        cx: &mut Ctx,
        at: At,
        send: Vec<Message>,
        lens: &[usize],
        meanwhile: &mut dyn FnMut(&mut Ctx) -> Result<()>,
    ) -> Result<Vec<Message>> {
        let label = Label {
            layer: at.layer as u16,
            direction: at.direction,
        };
        let ticket = cx.comm.post_all_to_all_v(label, send, lens)?;
        if self.overlap {
            meanwhile(cx)?;
            return cx.comm.finish(ticket);
        }
        let parts = cx.comm.finish(ticket)?;
        meanwhile(cx)?;
        Ok(parts)
    }

    /// Rows before the remote ones of a matrix of `rows` rows.
    pub(super) fn local_rows(&self, rows: usize) -> usize {
        rows - self.read.iter().sum::<usize>()
    }

    /// Rows that each peer reads of this rank's, and that this rank reads of each peer's.
    pub(super) fn counts(&self) -> (Vec<usize>, &[usize]) {
        (
            self.send.iter().map(|rows| rows.len()).collect(),
            &self.read,
        )
    }

    /// Sends the remote rows of `g: [n_local + n_remote, d]` to their owners; what the others sent of this
    /// rank's rows, for each peer the rows that it reads.
    pub(super) fn send_back(
        &self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<Vec<Mat>> {
        let width = g.ncols();
        let mut first = self.local_rows(g.nrows());
        let mut send = Vec::with_capacity(self.read.len());
        for &rows in &self.read {
            send.push(cx.message(cx.backend.rows(g, first..first + rows)));
            first += rows;
        }
        let lens: Vec<usize> = self.send.iter().map(|rows| rows.len() * width).collect();
        let parts = self.exchange(cx, at, send, &lens, &mut |cx| meanwhile(cx, g))?;
        let rows = self.send.iter().zip(parts);
        rows.map(|(rows, part)| cx.received(rows.len(), width, part))
            .collect()
    }

    /// Adds what the others sent of this rank's rows.
    pub(super) fn add(&self, cx: &Ctx, parts: &[Mat], g: &mut Mat) {
        for (rows, part) in self.send.iter().zip(parts) {
            cx.backend.scatter_add_rows(part, rows, g);
        }
    }
}

impl Neighbours for Halo {
    fn pull(
        &mut self,
        cx: &mut Ctx,
        at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()> {
        let width = x.ncols();
        let mut send = Vec::with_capacity(self.send.len());
        for rows in &self.send {
            let mut packed = cx.backend.fresh(rows.len(), width);
            cx.backend.gather_rows(x, rows, &mut packed);
            send.push(cx.message(packed));
        }
        let lens: Vec<usize> = self.read.iter().map(|n| n * width).collect();
        let local = &*x;
        let parts = self.exchange(cx, at, send, &lens, &mut |cx| meanwhile(cx, local))?;
        let mut first = self.local_rows(x.nrows());
        for (&rows, part) in self.read.iter().zip(parts) {
            let part = cx.received(rows, width, part)?;
            cx.backend.copy_rows(&part, 0, rows, x, first);
            first += rows;
        }
        cx.halo(at.direction, self.read.iter().sum(), 0);
        Ok(())
    }

    fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()> {
        let parts = self.send_back(cx, at, g, meanwhile)?;
        self.add(cx, &parts, g);
        Ok(())
    }
}

/// Bytes of aggregated rows that a rank sends each epoch: `sends[r]` rows forward to rank `r`,
/// `reads[r]` backward.
pub(super) fn predict(
    aggregations: &[Aggregation],
    sends: &[usize],
    reads: &[usize],
) -> Vec<(PredictedLane, u64)> {
    let mut lanes: BTreeMap<PredictedLane, u64> = BTreeMap::new();
    for aggregation in aggregations {
        let rows = if aggregation.direction == Direction::Backward {
            reads
        } else {
            sends
        };
        for (dst, &rows) in rows.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let lane = (aggregation.layer as u16, aggregation.direction, dst as u32);
            *lanes.entry(lane).or_default() += 4 * (aggregation.width * rows) as u64;
        }
    }
    lanes.into_iter().collect()
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let overlap = cx.plan.spec.knobs.flag("overlap");
    build_plain(setup, cx, overlap)
}

/// The strategy, for another one that does the same: local edges are multiplied while rows travel.
pub(super) fn build_overlapping(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    build_plain(setup, cx, true)
}

fn build_plain(setup: Setup, cx: &mut Ctx, overlap: bool) -> Result<Built> {
    build_over(setup, cx, overlap, |halo, aggregations| {
        let (sends, reads) = halo.counts();
        let predicted = predict(aggregations, &sends, reads);
        (halo, predicted)
    })
}

/// Training on a part and its halo; `seam` says how rows cross the cut, and what that will send in every
/// epoch.
pub(super) fn build_over<N: Neighbours + 'static>(
    setup: Setup,
    cx: &mut Ctx,
    overlap: bool,
    seam: impl FnOnce(Halo, &[Aggregation]) -> (N, Vec<(PredictedLane, u64)>),
) -> Result<Built> {
    let ordered = Ordered::of(&setup, cx);
    let part = LocalPart::new(&ordered.whole, &ordered.owner, cx.rank(), cx.size())?;
    let row = ordered.part_row(&setup, cx);
    let (own, halo) = (ordered.vertices(&part.own), ordered.vertices(&part.halo));
    drop(ordered);
    let read = part.recv_counts();
    let rows = Rows::of(&setup.data, &own);
    let model = model_of(&setup, cx);
    let input = input_of(setup.data, cx, &own);
    let aggregations = aggregations(&model, input.is_sparse(), cx);
    let (halo_nodes, sources) = (halo.len(), [own, halo].concat());
    let (neighbours, predicted) = seam(Halo::new(part.send, read, overlap), &aggregations);
    let prepared = Prepared {
        aggregate: OverBlock::new(neighbours, part.block, part.n_interior, sources),
        model,
        input,
        rows,
        halo_nodes,
        predicted,
        part: Some(row),
    };
    prepared.build(cx)
}

const KNOBS: &[Knob] = &[Knob {
    name: "overlap",
    default: "true",
    doc: "multiply local edges while remote rows travel, instead of after",
    check: |v| matches!(v, Value::Bool(_)),
}];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "halo",
    summary: "vertices are partitioned; boundary rows travel each layer",
    knobs: KNOBS,
    exact: Exact::Always,
    resumes: true,
    build,
    ..Entry::BASE
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelKind;
    use crate::rng;
    use crate::spec::RunSpec;
    use crate::testing::{random_dataset, world};
    use proptest::prelude::*;

    fn value(seed: u64, rank: usize, row: usize, column: usize) -> f32 {
        rng::uniform_f32(seed ^ rank as u64, (row * 64 + column) as u64) - 0.5
    }

    fn dot(a: &Mat, b: &Mat) -> f64 {
        a.as_slice()
            .iter()
            .zip(b.as_slice())
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// ⟨pull x, g⟩ = ⟨x, push g⟩ summed over ranks, for a `pull` that keeps local rows.
        #[test]
        fn push_is_the_adjoint_of_pull(
            n in 1usize..50, degree in 0usize..5, ranks in 1usize..5, width in 1usize..6, seed: u64,
        ) {
            let data = random_dataset(n, n * degree, 2, 2, false, seed);
            let whole = data.graph.propagation(ModelKind::Gcn.propagation());
            let owner: Vec<u32> =
                (0..n).map(|v| rng::below(seed, v as u64, ranks as u64) as u32).collect();
            let sides = world(&RunSpec::default(), ranks, |cx, _| {
                let me = cx.rank();
                let part = LocalPart::new(&whole, &owner, me, ranks).expect("a valid cut");
                let (n_local, rows) = (part.own.len(), part.own.len() + part.halo.len());
                let read = part.recv_counts();
                let mut halo = Halo::new(part.send, read, true);
                let at = At { layer: 0, direction: Direction::Forward };
                let x = Mat::from_host(kernels::Mat::from_shape_fn((rows, width), |(r, c)| {
                    if r < n_local { value(seed, me, r, c) } else { 0.0 }
                }));
                let g = kernels::Mat::from_shape_fn((rows, width), |(r, c)| value(!seed, me, r, c));
                let g = Mat::from_host(g);
                let (mut pulled, mut pushed) = (cx.backend.copy(&x), cx.backend.copy(&g));
                halo.pull(cx, at, &mut pulled, &mut |_, _| Ok(())).expect("pulls");
                halo.push(cx, at, &mut pushed, &mut |_, _| Ok(())).expect("pushes");
                (dot(&pulled, &g), dot(&x, &pushed))
            });
            let (left, right) = sides.iter().fold((0.0, 0.0), |s, t| (s.0 + t.0, s.1 + t.1));
            prop_assert!((left - right).abs() <= 1e-5 * left.abs().max(1.0), "{} {}", left, right);
        }
    }
}
