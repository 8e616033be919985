//! Block rows: every rank's rows go to everybody, one rank after the other.
//!
//! # Paper
//! Tripathy, Yelick & Buluç, "Reducing Communication in Graph Neural Network Training" (CAGNET),
//! SC 2020, the 1D algorithm, <https://arxiv.org/abs/2005.03300>.
//! # Idea
//! Rank `i` owns some rows of Â and of H. For each rank `j` in turn, `j` broadcasts `H_j` and every
//! rank adds `Â_ij · H_j` to its rows; backward does the same with Âᵀ. No list says who reads what:
//! a row travels also to ranks that have no use for it. The next block travels while the last one
//! is multiplied.
//! # Bytes
//! Each way and layer `4 · width · Σ_j (N − 1) · |V_j|`; the narrower side of the dense layer
//! travels. For links, the head's as well (`head/shares.rs`).
//! # Exact when
//! Always.

use super::full_graph::{FullGraph, aggregations, input_of, model_of, part_row};
use super::{Built, Determinism, Entry, Exact, Knob, Rows, Setup};
use crate::backend::{Mat, Sparse, Write};
use crate::comm::{Label, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, Aggregation, At, ModelKind, in_pieces};
use crate::record::{Direction, PredictedLane, RankFacts};
use crate::spec::Value;
use kernels::{Csr, CsrBuf};
use std::collections::BTreeMap;

/// A rank's rows of Â and of Âᵀ, by the owner of their columns.
struct BlockRows {
    /// `Â_ij` for each rank `j`: `[n_i, n_j]`.
    forward: Vec<Sparse>,
    /// `(Âᵀ)_ij` for each rank `j`: `[n_i, n_j]`.
    backward: Vec<Sparse>,
    /// Whether the next block travels while one is multiplied, or after.
    overlap: bool,
}

impl BlockRows {
    /// Starts the broadcast of rank `root`'s rows of `x`, which are `own` on that rank.
    fn post(&self, cx: &mut Ctx, at: At, root: usize, own: &Mat) -> Result<Ticket> {
        let label = Label {
            layer: at.layer as u16,
            direction: at.direction,
        };
        let len = self.forward[root].n_cols() * own.ncols();
        let mine = if root == cx.rank() {
            let copy = cx.backend.copy(own);
            cx.message(copy)
        } else {
            Vec::new()
        };
        cx.comm.post_broadcast(label, root, mine, len)
    }
}

impl Aggregate for BlockRows {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (me, ranks, width) = (cx.rank(), cx.size(), x.ncols());
        let blocks = if at.direction == Direction::Backward {
            &self.backward
        } else {
            &self.forward
        };
        let mut out = cx.backend.fresh(x.nrows(), width);
        let mut next = Some(self.post(cx, at, 0, x)?);
        for (root, a) in blocks.iter().enumerate() {
            let ticket = next.take().expect("posted a turn ago");
            let message = cx.comm.finish(ticket)?.pop().unwrap_or_default();
            if self.overlap && root + 1 < ranks {
                next = Some(self.post(cx, at, root + 1, x)?);
            }
            let write = if root == 0 { Write::Set } else { Write::Add };
            let received;
            let theirs = if root == me {
                x
            } else {
                received = cx.received(a.n_cols(), width, message)?;
                &received
            };
            in_pieces(cx, a, 0..a.rows(), |cx, rows| {
                cx.backend.spmm(a, rows, theirs, write, &mut out);
            })?;
            if !self.overlap && root + 1 < ranks {
                next = Some(self.post(cx, at, root + 1, x)?);
            }
        }
        Ok(out)
    }
}

/// The rows `members[me]` of `a: [n, n]`, cut by the owner of the columns; both are numbered within
/// their owner.
fn block_rows(a: Csr<'_>, owner: &[u32], members: &[Vec<u32>], me: usize) -> Vec<Sparse> {
    let mut local = vec![0u32; owner.len()];
    for rows in members {
        for (k, &v) in rows.iter().enumerate() {
            local[v as usize] = k as u32;
        }
    }
    let empty = |members: &Vec<u32>| CsrBuf {
        weights: a.weights.map(|_| Vec::new()),
        ..CsrBuf::empty(members.len())
    };
    let mut blocks: Vec<CsrBuf> = members.iter().map(empty).collect();
    for &v in &members[me] {
        for e in a.span(v as usize) {
            let s = a.indices[e] as usize;
            let block = &mut blocks[owner[s] as usize];
            block.indices.push(local[s]);
            if let Some(weights) = &mut block.weights {
                weights.push(a.weight(e));
            }
        }
        for block in &mut blocks {
            block.indptr.push(block.indices.len() as u64);
        }
    }
    blocks.into_iter().map(Sparse::new).collect()
}

/// Bytes that a rank with `own` rows sends to each of its peers each epoch.
fn predict(
    aggregations: &[Aggregation],
    own: usize,
    me: usize,
    ranks: usize,
) -> Vec<(PredictedLane, u64)> {
    let mut lanes: BTreeMap<PredictedLane, u64> = BTreeMap::new();
    for aggregation in aggregations.iter().filter(|_| own > 0) {
        for dst in (0..ranks).filter(|&dst| dst != me) {
            let lane = (aggregation.layer as u16, aggregation.direction, dst as u32);
            *lanes.entry(lane).or_default() += 4 * (aggregation.width * own) as u64;
        }
    }
    lanes.into_iter().collect()
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let data = &setup.data;
    let (me, ranks, n) = (cx.rank(), cx.size(), data.graph.n());
    let all_mine = vec![0; n];
    let owner = setup.owner.as_deref().unwrap_or(&all_mine);
    let mut members = vec![Vec::new(); ranks];
    for (v, &part) in owner.iter().enumerate() {
        members[part as usize].push(v as u32);
    }
    let whole = data.graph.propagation(cx.plan.spec.model.propagation());
    let blocks = BlockRows {
        forward: block_rows(whole.csr(), owner, &members, me),
        backward: block_rows(whole.edges_t().view(), owner, &members, me),
        overlap: cx.plan.spec.knobs.flag("overlap"),
    };
    let row = part_row(data, &whole, owner, cx);
    drop(whole);
    let own = std::mem::take(&mut members[me]);
    let rows = Rows::of(data, &own);
    let model = model_of(&setup, cx);
    let input = input_of(setup.data, cx, &own);
    let aggregations = aggregations(&model, input.is_sparse(), cx);
    let mut predicted = predict(&aggregations, own.len(), me, ranks);
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: own.len() as u64,
        halo_nodes: (n - own.len()) as u64,
        train_nodes: rows.train_count() as u64,
        ..RankFacts::default()
    };
    let strategy = FullGraph::new(blocks, model, input, rows.clone(), cx)?;
    predicted.extend(strategy.predict(cx));
    Ok(Built {
        strategy: Box::new(strategy),
        rows,
        facts,
        predicted,
        part: Some(row),
    })
}

const KNOBS: &[Knob] = &[Knob {
    name: "overlap",
    default: "true",
    doc: "the next rank's rows travel while one's are multiplied, instead of after",
    check: |v| matches!(v, Value::Bool(_)),
}];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "broadcast",
    paper: "https://arxiv.org/abs/2005.03300",
    summary: "CAGNET 1D: block rows; every rank's rows go to everybody in turn",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gin,
        ModelKind::Gcnii,
        ModelKind::Resgcn,
    ],
    ranks: (1, usize::MAX),
    knobs: KNOBS,
    exact: Exact::Always,
    determinism: Determinism::SameRanks,
    cut: true,
    settle: |_| Ok(()),
    refuse: |_| Ok(()),
    build,
};
