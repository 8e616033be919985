//! The `Neighbours` seam, and aggregation over it.
//!
//! # Laws
//! Summed over ranks, ⟨pull x, g⟩ = ⟨x, push g⟩ for every x and g: push is the exact adjoint.

use crate::backend::{Mat, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At};
use crate::record::Direction;

/// Pieces of local work between which posted messages may progress.
const PIECES: usize = 8;

/// Local work to do while rows travel.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&mut Ctx) -> Result<()>;

/// Fetches the remote rows that a block reads, and returns gradients to their owners.
pub trait Neighbours {
    /// Rows of the remote sources, `[n_remote, d]`, from everybody's `x: [n_local, d]`;
    /// `meanwhile` runs once while they travel. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn pull(&mut self, cx: &mut Ctx, at: At, x: &Mat, meanwhile: Meanwhile<'_>) -> Result<Mat>;

    /// Adds everybody's `g: [n_remote, d]` to the owners' rows of `out: [n_local, d]`, after
    /// `meanwhile` has run on it while the gradients travel. Collective.
    ///
    /// # Errors
    /// Whatever the communicator or `meanwhile` meets.
    fn push(
        &mut self,
        cx: &mut Ctx,
        at: At,
        g: Mat,
        out: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()>;
}

/// Aggregation over a block whose columns are split into local and remote sources: all local
/// edges are multiplied while the remote rows travel.
pub struct OverBlock<N> {
    neighbours: N,
    local: Block,
    remote: Block,
}

impl<N: Neighbours> OverBlock<N> {
    /// `local: [n_local, n_local]`, `remote: [n_local, n_remote]`.
    pub fn new(neighbours: N, local: Block, remote: Block) -> Self {
        OverBlock {
            neighbours,
            local,
            remote,
        }
    }

    /// The seam below.
    pub fn neighbours(&mut self) -> &mut N {
        &mut self.neighbours
    }
}

/// `a · x` into `out` in pieces, letting messages progress in between.
fn spmm_polling(
    cx: &mut Ctx,
    a: kernels::Csr<'_>,
    x: &Mat,
    write: Write,
    out: &mut Mat,
) -> Result<()> {
    let pieces = if cx.size() == 1 { 1 } else { PIECES };
    for bounds in kernels::par::split_edges(a.indptr, 0..a.rows(), pieces).windows(2) {
        cx.backend.spmm(a, bounds[0]..bounds[1], x, write, out);
        cx.comm.poll()?;
    }
    Ok(())
}

impl<N: Neighbours> Aggregate for OverBlock<N> {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let mut out = Mat::zeros(x.raw_dim());
        if at.direction == Direction::Backward {
            let remote = self.remote.csr_t();
            let mut g = Mat::zeros((remote.rows(), x.ncols()));
            cx.backend
                .spmm(remote, 0..remote.rows(), x, Write::Set, &mut g);
            let local = &self.local;
            self.neighbours.push(cx, at, g, &mut out, &mut |cx, out| {
                spmm_polling(cx, local.csr_t(), x, Write::Set, out)
            })?;
        } else {
            let (local, to) = (&self.local, &mut out);
            let rows = self.neighbours.pull(cx, at, x, &mut |cx| {
                spmm_polling(cx, local.csr(), x, Write::Set, to)
            })?;
            let remote = self.remote.csr();
            cx.backend
                .spmm(remote, 0..remote.rows(), &rows, Write::Add, &mut out);
        }
        Ok(out)
    }
}

/// The columns of a block below `n_local` and the others, as two blocks with the same rows.
///
/// # Errors
/// [`crate::Error::Shape`] when there are fewer than `n_local` columns.
pub fn split_columns(block: &Block, n_local: usize) -> Result<(Block, Block)> {
    let half = |keep: &dyn Fn(usize) -> bool, shift: usize, n_src: usize| {
        let kept: Vec<usize> = (0..block.indices.len())
            .filter(|&e| keep(block.indices[e] as usize))
            .collect();
        let before = |bound: u64| kept.partition_point(|&e| (e as u64) < bound) as u64;
        let indptr = block.indptr.iter().map(|&p| before(p)).collect();
        let indices = kept
            .iter()
            .map(|&e| block.indices[e] - shift as u32)
            .collect();
        let weights = block
            .weights
            .as_ref()
            .map(|w| kept.iter().map(|&e| w[e]).collect());
        Block::new(block.n_dst, n_src, indptr, indices, weights)
    };
    let n_remote = block
        .n_src
        .checked_sub(n_local)
        .ok_or_else(|| crate::Error::Shape {
            op: "split columns".into(),
            expected: format!("at least {n_local} columns"),
            got: block.n_src.to_string(),
        })?;
    Ok((
        half(&|c| c < n_local, 0, n_local)?,
        half(&|c| c >= n_local, n_local, n_remote)?,
    ))
}
