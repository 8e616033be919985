//! Aggregation over a block whose remote sources come through [`Neighbours`].
//!
//! A rank's sources are its own rows followed by the remote rows that its block reads.

use crate::backend::{Kept, Mat, Sparse};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At, Edges, Neighbours};
use crate::record::Direction;
use std::ops::Range;

/// Pieces of local work between which posted messages may progress.
const PIECES: usize = 8;

/// Aggregation over a block whose columns are the local sources followed by the remote ones.
///
/// Rows without remote sources are multiplied while remote rows travel, the others after. Every
/// row adds its sources in the order of the full block, so that the forward pass has the very bits
/// of one rank.
pub struct OverBlock<N> {
    neighbours: N,
    block: Block,
    n_interior: usize,
    ids: Kept<u32>,
}

impl<N: Neighbours> OverBlock<N> {
    /// `block: [n_local, n_local + n_remote]`, whose first `n_interior` rows have no remote
    /// sources; `ids` are the global vertex ids of its columns.
    pub fn new(neighbours: N, block: Block, n_interior: usize, ids: Vec<u32>) -> Self {
        OverBlock {
            neighbours,
            block,
            n_interior,
            ids: ids.into(),
        }
    }
}

/// Rows `rows` of `a · x`, in pieces between which messages may progress.
fn spmm_polling(
    cx: &mut Ctx,
    a: &Sparse,
    rows: Range<usize>,
    x: &Mat,
    out: &mut Mat,
) -> Result<()> {
    for bounds in kernels::par::split_edges(a.view().indptr, rows, PIECES).windows(2) {
        cx.backend.spmm(a, bounds[0]..bounds[1], x, out);
        cx.comm.poll()?;
    }
    Ok(())
}

impl<N: Neighbours> Aggregate for OverBlock<N> {
    fn edges(&mut self) -> Option<Edges<'_>> {
        Some(Edges {
            block: &self.block,
            n_interior: self.n_interior,
            ids: &self.ids,
            neighbours: &mut self.neighbours,
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (n, width) = x.dim();
        let alone = cx.size() == 1;
        if at.direction == Direction::Backward {
            let a = self.block.edges_t();
            let mut g = cx.backend.fresh(a.rows(), width);
            if alone {
                cx.backend.spmm(a, 0..n, x, &mut g);
                return Ok(g);
            }
            // Remote rows first: they travel while the local ones are computed.
            cx.backend.spmm(a, n..a.rows(), x, &mut g);
            self.neighbours
                .push(cx, at, &mut g, &mut |cx, g| spmm_polling(cx, a, 0..n, x, g))?;
            return Ok(g.truncate(n));
        }
        let a = self.block.edges();
        let mut out = cx.backend.fresh(n, width);
        if alone {
            cx.backend.spmm(a, 0..n, x, &mut out);
            return Ok(out);
        }
        let mut sources = cx.backend.fresh(a.n_cols(), width);
        cx.backend.copy_rows(x, 0, n, &mut sources, 0);
        let (interior, to) = (0..self.n_interior, &mut out);
        self.neighbours.pull(cx, at, &mut sources, &mut |cx, x| {
            spmm_polling(cx, a, interior.clone(), x, to)
        })?;
        cx.backend.spmm(a, self.n_interior..n, &sources, &mut out);
        Ok(out)
    }
}
