//! One message-passing layer.

use super::{Aggregate, At, Input};
use crate::ctx::Ctx;
use crate::error::Result;
use kernels::Mat;

/// What a strategy may know of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Aggregation is linear in the rows it reads.
    pub linear: bool,
    /// Edges carry parameters (attention).
    pub edge_parameters: bool,
    /// Aggregate and update may be swapped, so that the narrower side travels.
    pub swappable: bool,
}

/// The tensors of one layer; a bias is a matrix of one row.
pub type Weights = Vec<Mat>;

/// What a layer keeps from forward for backward.
pub struct Saved {
    /// Its input, after dropout.
    pub x: Input,
    /// The aggregated input `[n_local, d_in]`, when it aggregated first.
    pub aggregated: Option<Mat>,
}

/// An aggregate and an update, with their exact backward.
pub trait Conv {
    /// What strategies may know.
    fn facts(&self) -> Facts;

    /// Name, rows and columns of each tensor; biases are named `bias`.
    fn shapes(&self) -> Vec<(&'static str, usize, usize)>;

    /// Whether it aggregates its input rather than its output, the narrower of the two. Sparse
    /// input is multiplied first, since aggregation would fill it in.
    fn aggregates_first(&self, sparse_input: bool) -> bool;

    /// `x: [n_local, d_in]` to `[n_local, d_out]`, with ReLU if asked.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    fn forward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        at: At,
        w: &Weights,
        x: Input,
        relu: bool,
    ) -> Result<(Mat, Saved)>;

    /// From `g`, the gradient of the output before ReLU `[n_local, d_out]`, to the weights'
    /// gradients of this rank's rows and, if wanted, the input's `[n_local, d_in]`.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    fn backward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        at: At,
        w: &Weights,
        saved: Saved,
        g: Mat,
        want_input: bool,
    ) -> Result<(Weights, Option<Mat>)>;
}
