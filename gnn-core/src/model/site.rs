//! Where a layer runs, and the arithmetic that layers share.

use super::layer::{After, Weights};
use super::{Aggregate, At, Input};
use crate::backend::{Dropout, Kept, Mat, Operand, Term, Then, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use crate::rng::{self, Purpose};
use std::rc::Rc;

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
    /// Global vertex ids of the rank's rows.
    pub ids: &'a Kept<u32>,
    /// The model's seed.
    pub seed: u64,
    /// Dropout inside the layer, for layers that have it.
    pub inside: Option<Dropout<'a>>,
}

impl<'a> Site<'a> {
    /// Â·x, or Âᵀ·x when the direction is backward.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn aggregate(&mut self, x: &Mat) -> Result<Mat> {
        self.agg.aggregate(self.cx, self.at, x)
    }

    /// Â times the layer's dense input, which may be known already.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn aggregate_input(&mut self, input: &Input, x: &Mat) -> Result<Rc<Mat>> {
        match input.aggregated() {
            Some(ax) => Ok(Rc::clone(ax)),
            None => Ok(Rc::new(self.aggregate(x)?)),
        }
    }

    /// Whether this is training, and not evaluation.
    pub fn trains(&self) -> bool {
        self.at.direction != Direction::Eval
    }

    /// The key of this epoch's and layer's random numbers.
    pub fn key(&self, purpose: Purpose) -> u64 {
        rng::key(self.seed, self.cx.epoch, purpose, self.at.layer as u64)
    }

    /// The one element of a tensor.
    pub fn scalar(&self, tensor: usize) -> f32 {
        self.cx.backend.download(&self.w[tensor])[[0, 0]]
    }

    /// What is done to the layer's output: the bias, then what follows the layer.
    pub fn then<'b>(&self, bias: usize, after: After<'b>) -> Then<'b>
    where
        'a: 'b,
    {
        Then {
            bias: Some(&self.w[bias]),
            ..after.then()
        }
    }

    /// The gradients of dense weights whose layer reads `xs: [n_local, _]` and has the gradient
    /// `g: [n_local, k]` of its output, and of the bias beside them, in one pass.
    pub fn weight_gradients<const N: usize>(
        &self,
        xs: [&Mat; N],
        g: Operand<'_>,
    ) -> ([Mat; N], Mat) {
        let backend = &self.cx.backend;
        let cols = g.dim().1;
        let mut gws = xs.map(|x| backend.fresh(x.ncols(), cols));
        let mut gb = backend.fresh(1, cols);
        backend.weight_gradients(&xs, g, &mut gws, Some(&mut gb));
        (gws, gb)
    }

    /// A new sum of products, with `then` applied.
    ///
    /// # Panics
    /// When there is no term.
    pub fn linear(&self, terms: &[Term<'_>], then: Then<'_>) -> Mat {
        let (rows, cols) = terms[0].dim();
        let mut out = self.cx.backend.fresh(rows, cols);
        self.cx.backend.linear(terms, Write::Set, then, &mut out);
        out
    }

    /// The first `n` rows of `x`, which are a block's own rows among its columns; `x` itself where it
    /// has no more.
    pub fn first_rows(&self, x: &Rc<Mat>, n: usize) -> Rc<Mat> {
        if x.nrows() == n {
            return Rc::clone(x);
        }
        let mut own = self.cx.backend.fresh(n, x.ncols());
        self.cx.backend.copy_rows(x, 0, n, &mut own, 0);
        Rc::new(own)
    }

    /// Adds a product to the first rows of `out`, which may have more, and applies `then` to all.
    pub fn add_to_first_rows(&self, term: Term<'_>, then: Then<'_>, out: &mut Mat) {
        let backend = &self.cx.backend;
        let rows = term.dim().0;
        if rows == out.nrows() {
            return backend.linear(&[term], Write::Add, then, out);
        }
        let own = self.linear(&[term], Then::default());
        let first = (0..rows as u32).collect::<Vec<_>>().into();
        backend.scatter_add_rows(&own, &first, out);
        backend.then(then, out);
    }

    /// A product, with another added to its first rows, and `then` applied: what a gradient is that
    /// comes back through a block's edges and through its own rows.
    pub fn sum_of_terms(&self, [all, own]: [Term<'_>; 2], then: Then<'_>) -> Mat {
        if all.dim() == own.dim() {
            return self.linear(&[all, own], then);
        }
        let mut sum = self.linear(&[all], Then::default());
        self.add_to_first_rows(own, then, &mut sum);
        sum
    }

    /// The gradients of a dense weight and of the bias beside it: `xᵀ · g` and the column sums of
    /// `g`; `x: [n_local, d]`, `g: [n_local, k]`.
    pub fn weight_and_bias_gradient(&self, x: &Mat, g: &Mat) -> (Mat, Mat) {
        let backend = &self.cx.backend;
        let mut gw = backend.fresh(x.ncols(), g.ncols());
        let mut gb = backend.fresh(1, g.ncols());
        backend.weight_gradient(x, g, &mut gw, Some(&mut gb));
        (gw, gb)
    }

    /// The same of a layer's input, which may be sparse.
    pub fn input_gradients(&self, x: &Input, g: &Mat) -> (Mat, Mat) {
        match x.dense() {
            Some(x) => self.weight_and_bias_gradient(x, g),
            None => (x.t_times(self.cx, g), self.bias_gradient(g)),
        }
    }

    /// The gradient of a dense weight: `xᵀ · g`.
    pub fn weight_gradient(&self, x: &Mat, g: &Mat) -> Mat {
        let mut gw = self.cx.backend.fresh(x.ncols(), g.ncols());
        self.cx.backend.weight_gradient(x, g, &mut gw, None);
        gw
    }

    /// `alpha · x + beta · y` in the place of `y`.
    pub fn axpby(&self, alpha: f32, x: &Mat, beta: f32, mut y: Mat) -> Mat {
        self.cx.backend.axpby(alpha, x, beta, &mut y);
        y
    }

    /// The sum of the products of all elements, `[1, 1]`.
    pub fn dot(&self, a: &Mat, b: &Mat) -> Mat {
        let mut out = self.cx.backend.fresh(1, 1);
        self.cx.backend.dot(a, b, &mut out);
        out
    }

    /// The gradient of a bias: sums of the columns of `g`, one row.
    pub fn bias_gradient(&self, g: &Mat) -> Mat {
        let mut sums = self.cx.backend.fresh(1, g.ncols());
        self.cx.backend.column_sums(g, &mut sums);
        sums
    }
}
