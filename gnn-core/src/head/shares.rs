//! The pairs of a link head shared out among ranks: each rank scores a run of them.
//!
//! A pair's ends may belong to any two ranks, and pairs without an edge are drawn uniformly, so that
//! a rank's run reads most vertices whichever pairs it has. All embeddings travel to all ranks, once
//! each way and epoch: `4 · d · n_local` bytes to each peer forward, and the gradient of the peer's
//! rows, `4 · d` bytes a row, backward.

use crate::backend::{Kept, Mat};
use crate::comm::Label;
use crate::ctx::Ctx;
use crate::dataset::Pair;
use crate::error::Result;
use crate::record::{Direction, PredictedLane};
use kernels::pairs::Pairs;
use kernels::par::split_rows;
use std::ops::Range;

/// Whose rows are where.
pub(super) struct Shares {
    /// Global ids of each rank's rows, in its order.
    rows: Vec<Kept<u32>>,
    /// What the traffic is counted as: a layer behind the model's.
    layer: u16,
    /// Where a lone rank has each vertex, unless it has them by id.
    place: Option<Vec<u32>>,
}

impl Shares {
    /// For a rank with rows of the vertices `mine`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn new(cx: &mut Ctx, mine: &[u32], layer: usize) -> Result<Shares> {
        let shares = Shares {
            rows: Vec::new(),
            layer: layer as u16,
            place: None,
        };
        let lens = cx.comm.agree(&[mine.len() as f64])?;
        let lens: Vec<usize> = lens.iter().map(|len| len[0] as usize).collect();
        let ids = bytemuck::cast_vec(mine.to_vec());
        let label = shares.label(Direction::Eval);
        let all = cx.comm.all_gather_v(label, ids, &lens)?;
        let rows = all.into_iter().map(|ids| bytemuck::cast_vec(ids).into());
        let by_id = mine.iter().enumerate().all(|(k, &v)| k == v as usize);
        let place = (cx.size() == 1 && !by_id).then(|| {
            let mut place = vec![0; mine.len()];
            for (k, &v) in mine.iter().enumerate() {
                place[v as usize] = k as u32;
            }
            place
        });
        Ok(Shares {
            rows: rows.collect(),
            place,
            ..shares
        })
    }

    /// Pairs of vertices, as pairs of rows of what [`Shares::gather`] leaves.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for a vertex that there is not.
    pub(super) fn pairs(&self, mut ends: Vec<Pair>) -> Result<Pairs> {
        if let Some(place) = &self.place {
            let at = |v: u32| place.get(v as usize).copied().unwrap_or(u32::MAX);
            ends.iter_mut().for_each(|pair| *pair = pair.map(at));
        }
        Ok(Pairs::new(self.n(), ends)?)
    }

    fn label(&self, direction: Direction) -> Label {
        Label {
            layer: self.layer,
            direction,
        }
    }

    /// Vertices of all ranks.
    pub(super) fn n(&self) -> usize {
        self.rows.iter().map(|rows| rows.len()).sum()
    }

    /// This rank's run of `pairs`.
    pub(super) fn run(&self, cx: &Ctx, pairs: usize) -> Range<usize> {
        let bounds = split_rows(pairs, self.rows.len());
        bounds[cx.rank()]..bounds[cx.rank() + 1]
    }

    /// The rows of all vertices by global id, `[n, d]`, from this rank's `z: [n_local, d]`; none
    /// on one rank, which has them all. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn gather(
        &self,
        cx: &mut Ctx,
        direction: Direction,
        z: &Mat,
    ) -> Result<Option<Mat>> {
        if cx.size() == 1 {
            return Ok(None);
        }
        let d = z.ncols();
        let lens: Vec<usize> = self.rows.iter().map(|rows| rows.len() * d).collect();
        let mine = cx.message(cx.backend.copy(z));
        let parts = cx.comm.all_gather_v(self.label(direction), mine, &lens)?;
        let mut all = cx.backend.zeros(self.n(), d);
        for (rows, part) in self.rows.iter().zip(parts) {
            let part = cx.received(rows.len(), d, part)?;
            cx.backend.scatter_add_rows(&part, rows, &mut all);
        }
        Ok(Some(all))
    }

    /// The adjoint of [`Shares::gather`] on several ranks: the sum over ranks of the rows of
    /// `g: [n, d]` that are this rank's, `[n_local, d]`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn reduce(&self, cx: &mut Ctx, g: &Mat) -> Result<Mat> {
        let (me, d) = (cx.rank(), g.ncols());
        let mut send = Vec::with_capacity(self.rows.len());
        for rows in &self.rows {
            let mut packed = cx.backend.fresh(rows.len(), d);
            cx.backend.gather_rows(g, rows, &mut packed);
            send.push(cx.message(packed));
        }
        let n_local = self.rows[me].len();
        let lens = vec![n_local * d; self.rows.len()];
        let label = self.label(Direction::Backward);
        let parts = cx.comm.all_to_all_v(label, send, &lens)?;
        let mut sum = cx.backend.zeros(n_local, d);
        for part in parts {
            let part = cx.received(n_local, d, part)?;
            cx.backend.axpby(1.0, &part, 1.0, &mut sum);
        }
        Ok(sum)
    }

    /// Every rank's part of `run`, in order. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn join(&self, cx: &mut Ctx, run: Vec<f32>, pairs: usize) -> Result<Vec<f32>> {
        let bounds = split_rows(pairs, self.rows.len());
        let lens: Vec<usize> = bounds.windows(2).map(|b| b[1] - b[0]).collect();
        let label = self.label(Direction::Eval);
        Ok(cx.comm.all_gather_v(label, run, &lens)?.concat())
    }

    /// Bytes that this rank sends each epoch for embeddings of `d` columns.
    pub(super) fn predict(&self, me: usize, d: usize) -> Vec<(PredictedLane, u64)> {
        let bytes = |r: usize| 4 * (d * self.rows[r].len()) as u64;
        let peers = (0..self.rows.len()).filter(|&r| r != me);
        peers
            .flat_map(|dst| {
                let lane = |direction| (self.layer, direction, dst as u32);
                [
                    (lane(Direction::Forward), bytes(me)),
                    (lane(Direction::Backward), bytes(dst)),
                ]
            })
            .collect()
    }
}
