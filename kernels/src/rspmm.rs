//! Aggregation over typed edges with basis decomposition (R-GCN), forward and backward.
//!
//! With `B` bases, `x` holds a vertex's `B` projections side by side, and an edge of type `t` adds
//! their mixture by row `t` of `coef`. So nothing of size types × vertices exists: the weights of
//! all types are never applied, only those of the bases.
//!
//! # Paper
//! Schlichtkrull et al., "Modeling relational data with graph convolutional networks", ESWC 2018,
//! <https://arxiv.org/abs/1703.06103>, equation 3.

mod coef;
mod forward;
pub mod naive;
#[cfg(test)]
mod tests;
mod transposed;
mod typed;

pub use coef::coef_gradient_into;
pub use forward::rspmm_into;
pub use transposed::rspmm_t_into;

use crate::Mat;

/// Types of edges and what they mix.
#[derive(Clone, Copy, Debug)]
pub struct Relations<'a> {
    /// Type of each edge, in the order of the graph that is passed with it: `[edges]`.
    pub types: &'a [u16],
    /// Share of each basis in each type: `[types, bases]`.
    pub coef: &'a Mat,
}
