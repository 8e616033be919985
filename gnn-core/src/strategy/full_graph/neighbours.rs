//! Aggregation over a block whose remote sources come through [`Neighbours`].
//!
//! A rank's sources are its own rows followed by the remote rows that its block reads.

use crate::backend::{Kept, Mat, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At, Edges, Neighbours, in_pieces, with_room};
use crate::record::Direction;
use std::sync::Arc;

/// Aggregation over a block whose columns are the local sources followed by the remote ones.
///
/// Rows without remote sources are multiplied while remote rows travel, the others after. Every
/// row adds its sources in the order of the full block, so that the forward pass has the very bits
/// of one rank, but where wide rows are aggregated by segments ([`kernels::segmented`]), or where all weights of one
/// rank's rows happen to be one number a row and others' are not ([`kernels::factor`]).
pub struct OverBlock<N> {
    neighbours: N,
    block: Arc<Block>,
    n_interior: usize,
    ids: Kept<u32>,
}

impl<N: Neighbours> OverBlock<N> {
    /// `block: [n_local, n_local + n_remote]`, whose first `n_interior` rows have no remote
    /// sources; `ids` are the global vertex ids of its columns.
    pub fn new(
        neighbours: N,
        block: impl Into<Arc<Block>>,
        n_interior: usize,
        ids: impl Into<Kept<u32>>,
    ) -> Self {
        OverBlock {
            neighbours,
            block: block.into(),
            n_interior,
            ids: ids.into(),
        }
    }
}

impl<N> OverBlock<N> {
    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }
}

impl<N: Neighbours> Aggregate for OverBlock<N> {
    fn edges(&mut self, _at: At) -> Option<Edges<'_>> {
        Some(Edges {
            block: &self.block,
            n_interior: self.n_interior,
            ids: &self.ids,
            neighbours: Some(&mut self.neighbours),
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (n, width) = x.dim();
        let alone = cx.size() == 1;
        if at.direction == Direction::Backward {
            let a = self.block.edges_t();
            let mut g = cx.backend.fresh(a.rows(), width);
            if alone {
                cx.backend.spmm(a, 0..n, x, Write::Set, &mut g);
                return Ok(g);
            }
            // Remote rows first: they travel while the local ones are computed.
            cx.backend.spmm(a, n..a.rows(), x, Write::Set, &mut g);
            self.neighbours.push(cx, at, &mut g, &mut |cx, g| {
                in_pieces(cx, a, 0..n, |cx, rows| {
                    cx.backend.spmm(a, rows, x, Write::Set, g)
                })
            })?;
            return Ok(g.truncate(n));
        }
        let a = self.block.edges();
        let mut out = cx.backend.fresh(n, width);
        if alone {
            cx.backend.spmm(a, 0..n, x, Write::Set, &mut out);
            return Ok(out);
        }
        let mut sources = with_room(cx, x, a.n_cols());
        let (interior, to) = (0..self.n_interior, &mut out);
        self.neighbours.pull(cx, at, &mut sources, &mut |cx, x| {
            let rows = interior.clone();
            in_pieces(cx, a, rows, |cx, rows| {
                cx.backend.spmm(a, rows, x, Write::Set, to)
            })
        })?;
        cx.backend
            .spmm(a, self.n_interior..n, &sources, Write::Set, &mut out);
        Ok(out)
    }
}
