//! How a layer reaches other vertices.

use crate::backend::{Kept, Mat};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::record::Direction;

/// Where in the model an aggregation happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Layer, from 0.
    pub layer: usize,
    /// Backward means the transpose.
    pub direction: Direction,
}

/// The narrowest seam: Â·X, or Âᵀ·X when `at.direction` is backward, for this rank's rows.
pub trait Aggregate {
    /// `x: [n_local, d]` to `[n_local, d]`. Collective: every rank calls it in the same order, also
    /// one without rows.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat>;

    /// The rank's edges and the way to their sources, for layers whose edges have parameters. None
    /// where a strategy only aggregates with fixed weights; such a strategy's entry does not list
    /// models with edge parameters.
    fn edges(&mut self) -> Option<Edges<'_>> {
        None
    }
}

/// A rank's in-edges, and the way to the rows at their other ends.
pub struct Edges<'a> {
    /// `[n_local, n_local + n_remote]`: sources are the rank's own rows, then the remote ones.
    pub block: &'a Block,
    /// How many of the first rows have no remote source.
    pub n_interior: usize,
    /// Global vertex id of every source.
    pub ids: &'a Kept<u32>,
    /// Fetches remote rows and returns their gradients.
    pub neighbours: &'a mut dyn Neighbours,
}

/// Fetches the remote rows that a block reads, and returns gradients to their owners.
///
/// # Laws
/// Summed over ranks, ⟨pull x, g⟩ = ⟨x, push g⟩ for every x and g: push is the exact adjoint.
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
