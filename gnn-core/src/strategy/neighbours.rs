//! The `Neighbours` seam, and aggregation over it.
//!
//! A rank's sources are its own rows followed by the remote rows that its block reads.
//!
//! # Laws
//! Let `pull` fill the remote rows with their owners' and `push` add remote rows to their owners'.
//! Summed over ranks, ⟨pull x, g⟩ = ⟨x, push g⟩ for every x and g: push is the exact adjoint.

use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At};
use crate::record::Direction;
use std::ops::Range;

/// Pieces of local work between which posted messages may progress.
const PIECES: usize = 8;

/// Fetches the remote rows that a block reads, and returns gradients to their owners.
pub trait Neighbours {
    /// Fills the remote rows of `x: [n_local + n_remote, d]`, whose local rows are there;
    /// `meanwhile` runs once while they travel and reads local rows only. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn pull(
        &mut self,
        cx: &mut Ctx,
        at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()>;

    /// Adds the remote rows of everybody's `g: [n_local + n_remote, d]` to their owners' local
    /// rows; `meanwhile` runs once while they travel and writes the local rows. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()>;
}

/// Aggregation over a block whose columns are the local sources followed by the remote ones.
///
/// Rows without remote sources are multiplied while remote rows travel, the others after. Every
/// row adds its sources in the order of the full block, so that the forward pass has the very bits
/// of one rank.
pub struct OverBlock<N> {
    neighbours: N,
    block: Block,
    n_interior: usize,
}

impl<N: Neighbours> OverBlock<N> {
    /// `block: [n_local, n_local + n_remote]`, whose first `n_interior` rows have no remote
    /// sources.
    pub fn new(neighbours: N, block: Block, n_interior: usize) -> Self {
        OverBlock {
            neighbours,
            block,
            n_interior,
        }
    }
}

/// Rows `rows` of `a · x`, in pieces between which messages may progress.
fn spmm_polling(
    cx: &mut Ctx,
    a: kernels::Csr<'_>,
    rows: Range<usize>,
    x: &Mat,
    out: &mut Mat,
) -> Result<()> {
    let pieces = if cx.size() == 1 { 1 } else { PIECES };
    for bounds in kernels::par::split_edges(a.indptr, rows, pieces).windows(2) {
        cx.backend.spmm(a, bounds[0]..bounds[1], x, out);
        cx.comm.poll()?;
    }
    Ok(())
}

impl<N: Neighbours> Aggregate for OverBlock<N> {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (n, width) = x.dim();
        if at.direction == Direction::Backward {
            let a = self.block.csr_t();
            let mut g = Mat::zeros((a.rows(), width));
            // Remote rows first: they travel while the local ones are computed.
            cx.backend.spmm(a, n..a.rows(), x, &mut g);
            self.neighbours
                .push(cx, at, &mut g, &mut |cx, g| spmm_polling(cx, a, 0..n, x, g))?;
            let mut local = g.into_raw_vec_and_offset().0;
            local.truncate(n * width);
            return Ok(Mat::from_shape_vec((n, width), local).expect("truncated to this size"));
        }
        let a = self.block.csr();
        let mut out = Mat::zeros((n, width));
        if cx.size() == 1 {
            spmm_polling(cx, a, 0..n, x, &mut out)?;
            return Ok(out);
        }
        let mut sources = Mat::zeros((a.n_cols, width));
        cx.backend.copy_rows(x, &mut sources, 0);
        let (interior, to) = (0..self.n_interior, &mut out);
        self.neighbours.pull(cx, at, &mut sources, &mut |cx, x| {
            spmm_polling(cx, a, interior.clone(), x, to)
        })?;
        cx.backend.spmm(a, self.n_interior..n, &sources, &mut out);
        Ok(out)
    }
}
