//! One message-passing layer.

use super::{Aggregate, At, Input};
use crate::backend::{Product, Write};
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

/// Where a layer runs: the rank's hands, the seam to other vertices, the layer and its weights.
pub struct Site<'a> {
    /// The rank's hands.
    pub cx: &'a mut Ctx,
    /// The seam to other vertices.
    pub agg: &'a mut dyn Aggregate,
    /// Layer and direction.
    pub at: At,
    /// The layer's weights.
    pub w: &'a Weights,
}

impl Site<'_> {
    /// Â·x, or Âᵀ·x when the direction is backward.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn aggregate(&mut self, x: &Mat) -> Result<Mat> {
        self.agg.aggregate(self.cx, self.at, x)
    }

    /// A new product of two dense matrices.
    pub fn product(&self, product: Product, a: &Mat, b: &Mat) -> Mat {
        let rows = if product == Product::LeftT {
            a.ncols()
        } else {
            a.nrows()
        };
        let columns = if product == Product::RightT {
            b.nrows()
        } else {
            b.ncols()
        };
        let mut out = Mat::zeros((rows, columns));
        self.cx.backend.gemm(product, a, b, Write::Set, &mut out);
        out
    }

    /// The gradient of a bias: sums of the columns of `g`, one row.
    pub fn bias_gradient(&self, g: &Mat) -> Mat {
        let mut sums = vec![0.0; g.ncols()];
        self.cx.backend.column_sums(g, &mut sums);
        Mat::from_shape_vec((1, sums.len()), sums).expect("one row of this length")
    }
}

/// The one row of a bias.
pub(super) fn bias_row(bias: &Mat) -> &[f32] {
    bias.as_slice().expect("biases are made in standard layout")
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
    fn forward(&self, site: Site<'_>, x: Input, relu: bool) -> Result<(Mat, Saved)>;

    /// From `g`, the gradient of the output before ReLU `[n_local, d_out]`, to the weights'
    /// gradients of this rank's rows and, if wanted, the input's `[n_local, d_in]`.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        g: Mat,
        want_input: bool,
    ) -> Result<(Weights, Option<Mat>)>;
}
