//! Models: a stack of message-passing layers, each with a hand-written exact backward pass.
//!
//! A layer is an *aggregate* on a block and an *update* on rows ([`Conv`]). It reaches other
//! vertices only through an [`Aggregate`], so no model knows any strategy, and strategies know no
//! more of a model than [`Facts`] and [`Model::aggregations`].

mod conv;
mod gcn;
mod input;
mod kind;
mod sage;
mod stack;

pub use conv::{Conv, Facts, Saved, Site, Weights};
pub use input::{Input, SparseInput};
pub use kind::ModelKind;
pub use stack::{Aggregation, Model, Tape};

use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use kernels::Mat;

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
}

#[cfg(test)]
mod tests;
