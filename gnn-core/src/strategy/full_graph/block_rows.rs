//! Block rows: what strategies share whose ranks hand whole blocks of rows to each other.
//!
//! Rank `i` owns the rows `i` of Â and of H. Its rows of Â · H are `Σ_j Â_ij · H_j`, added in the
//! order of ranks, whoever sends `H_j` and whether it is sent at all.

use super::{Prepared, aggregations, input_of, model_of};
use crate::backend::{Mat, Sparse, Write};
use crate::comm::{Label, Message, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, Aggregation, At, Input, Model, in_pieces};
use crate::record::{Direction, PredictedLane, rows::PartRow};
use crate::spec::Value;
use crate::strategy::ordered::Ordered;
use crate::strategy::{Built, Rows, Setup};
use kernels::{Csr, CsrBuf};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A rank's rows of Â and of Âᵀ, by the owner of their columns.
pub struct BlockRows {
    /// `Â_ij` for each rank `j`: `[n_i, n_j]`.
    forward: Vec<Sparse>,
    /// `(Âᵀ)_ij` for each rank `j`: `[n_i, n_j]`.
    backward: Vec<Sparse>,
    /// Whether the next block travels while one is multiplied, or after.
    overlap: bool,
}

/// What travels for one product.
pub struct Trip<'a> {
    /// Where in the model.
    pub at: At,
    /// This rank's rows, as they are multiplied: `[n_i, d]`.
    pub own: &'a Mat,
    /// This rank's rows, as they are sent: `[n_i, d]`.
    pub sent: &'a Mat,
    /// Whose rows travel; the same on every rank.
    pub travels: &'a [bool],
}

/// Another rank's rows, given what arrived of them, if anything did: `[n_j, d]`.
pub type RowsOf<'a> = &'a mut dyn FnMut(&Ctx, usize, Option<Mat>) -> Rc<Mat>;

impl BlockRows {
    /// This rank's blocks, the vertices of every rank, and this rank's row of the `partition` frame.
    fn new(setup: &Setup, cx: &Ctx) -> (BlockRows, Vec<Vec<u32>>, PartRow) {
        let ordered = Ordered::of(setup, cx);
        let mut members = vec![Vec::new(); cx.size()];
        for (k, &part) in ordered.owner.iter().enumerate() {
            members[part as usize].push(k as u32);
        }
        let rows_of = |a: Csr<'_>| block_rows(a, &ordered.owner, &members, cx.rank());
        let blocks = BlockRows {
            forward: rows_of(ordered.whole.csr()),
            backward: rows_of(ordered.whole.edges_t().view()),
            overlap: cx.plan.spec.knobs.get("overlap") != Some(&Value::Bool(false)),
        };
        let row = ordered.part_row(setup, cx);
        let members = members.iter().map(|numbers| ordered.vertices(numbers));
        (blocks, members.collect(), row)
    }

    /// Rows of a rank.
    pub fn rows_of(&self, rank: usize) -> usize {
        self.forward[rank].n_cols()
    }

    /// Says which bytes of the rows of `travels` leave this rank, `width` floats a row: its own, and those
    /// that it hands on.
    pub fn foresee(&self, cx: &Ctx, at: At, width: usize, travels: &[bool]) {
        let travelling = (0..cx.size()).filter(|&root| travels[root]);
        let lens = travelling.map(|root| (root, width * self.rows_of(root)));
        for (peer, bytes) in handed(cx, lens) {
            cx.predict((at.layer as u16, at.direction, peer), bytes);
        }
    }

    /// Starts the broadcast of rank `root`'s rows.
    fn post(&self, cx: &mut Ctx, trip: &Trip<'_>, root: usize) -> Result<Ticket> {
        let label = Label {
            layer: trip.at.layer as u16,
            direction: trip.at.direction,
        };
        let len = self.rows_of(root) * trip.sent.ncols();
        let mine = if root == cx.rank() {
            let copy = cx.backend.copy(trip.sent);
            cx.message(copy)
        } else {
            Message::default()
        };
        cx.comm.post_broadcast(label, root, mine, len)
    }

    /// This rank's rows of Â · X, or Âᵀ · X when the trip goes backward: `[n_i, d]`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub fn product(&self, cx: &mut Ctx, trip: &Trip<'_>, rows_of: RowsOf<'_>) -> Result<Mat> {
        let (me, width) = (cx.rank(), trip.own.ncols());
        let blocks = if trip.at.direction == Direction::Backward {
            &self.backward
        } else {
            &self.forward
        };
        let mut out = cx.backend.fresh(trip.own.nrows(), width);
        if let [all] = &blocks[..] {
            cx.backend
                .spmm(all, 0..all.rows(), trip.own, Write::Set, &mut out);
            return Ok(out);
        }
        let mut roots = (0..cx.size()).filter(|&root| trip.travels[root]);
        let mut post = |cx: &mut Ctx| {
            let next = roots.next();
            next.map(|root| self.post(cx, trip, root)).transpose()
        };
        let mut flying = post(cx)?;
        for (root, a) in blocks.iter().enumerate() {
            let mut arrived = None;
            if trip.travels[root] {
                let ticket = flying.take().expect("posted a turn ago");
                let message = cx.comm.finish(ticket)?.pop().unwrap_or_default();
                if self.overlap {
                    flying = post(cx)?;
                }
                if root != me {
                    arrived = Some(cx.received(a.n_cols(), width, message)?);
                }
            }
            let write = if root == 0 { Write::Set } else { Write::Add };
            let others;
            let theirs = if root == me {
                trip.own
            } else {
                let (all, travels) = (a.n_cols(), trip.travels[root]);
                let fresh = if travels { all } else { 0 };
                cx.halo(trip.at.direction, fresh, all - fresh);
                others = rows_of(cx, root, arrived);
                &others
            };
            in_pieces(cx, a, 0..a.rows(), |cx, rows| {
                cx.backend.spmm(a, rows, theirs, write, &mut out);
            })?;
            if trip.travels[root] && !self.overlap {
                flying = post(cx)?;
            }
        }
        Ok(out)
    }

    /// The product of rows that all travel: `x: [n_i, d]` to `[n_i, d]`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub fn exact(&self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let trip = Trip {
            at,
            own: x,
            sent: x,
            travels: &vec![true; cx.size()],
        };
        self.product(cx, &trip, &mut |_, _, arrived| {
            Rc::new(arrived.expect("every rank's rows travel"))
        })
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

/// Bytes that this rank hands to each peer of broadcasts of so many floats from each root.
fn handed(cx: &Ctx, lens: impl Iterator<Item = (usize, usize)>) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for (root, len) in lens {
        for peer in cx.comm.broadcast_to(root, len) {
            *bytes.entry(peer as u32).or_default() += 4 * len as u64;
        }
    }
    bytes
}

/// Bytes that this rank hands to each peer in each epoch in which the rows of all travel.
fn predict(
    cx: &Ctx,
    aggregations: &[Aggregation],
    members: &[Vec<u32>],
) -> Vec<(PredictedLane, u64)> {
    let mut lanes: BTreeMap<PredictedLane, u64> = BTreeMap::new();
    for aggregation in aggregations {
        let of = |(root, rows): (usize, &Vec<u32>)| (root, aggregation.width * rows.len());
        for (peer, bytes) in handed(cx, members.iter().enumerate().map(of)) {
            let lane = (aggregation.layer as u16, aggregation.direction, peer);
            *lanes.entry(lane).or_default() += bytes;
        }
    }
    lanes.into_iter().collect()
}

/// What a strategy of block rows is made of.
pub struct OnBlocks<'a> {
    /// This rank's rows of Â and Âᵀ.
    pub blocks: BlockRows,
    /// The vertices of every rank.
    pub members: &'a [Vec<u32>],
    /// What is trained.
    pub model: &'a Model,
    /// Features of this rank's rows.
    pub input: &'a Input,
    /// The aggregations of an epoch.
    pub aggregations: Vec<Aggregation>,
}

/// Training on block rows. `seam` says how rows reach other ranks, and in which aggregations all
/// ranks' rows travel in every epoch. Collective.
///
/// # Errors
/// As building any strategy.
pub fn build<A: Aggregate + 'static>(
    setup: Setup,
    cx: &mut Ctx,
    seam: impl FnOnce(&mut Ctx, OnBlocks<'_>) -> (A, Vec<Aggregation>),
) -> Result<Built> {
    let (me, n) = (cx.rank(), setup.data.graph.n());
    let (blocks, members, row) = BlockRows::new(&setup, cx);
    let own = &members[me];
    let rows = Rows::of(&setup.data, own);
    let model = model_of(&setup, cx);
    let input = input_of(setup.data, cx, own);
    let aggregations = aggregations(&model, input.is_sparse(), cx);
    let parts = OnBlocks {
        blocks,
        members: &members,
        model: &model,
        input: &input,
        aggregations,
    };
    let (aggregate, every_epoch) = seam(cx, parts);
    let prepared = Prepared {
        aggregate,
        model,
        input,
        rows,
        halo_nodes: n - own.len(),
        predicted: predict(cx, &every_epoch, &members),
        part: Some(row),
    };
    prepared.build(cx)
}
