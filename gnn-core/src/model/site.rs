//! Where a layer runs, and the arithmetic that layers share.

use super::layer::{After, Weights};
use super::owed::Product;
use super::{Aggregate, At, Input};
use crate::backend::{Dropout, Kept, Mat, Operand, Term, Then, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use crate::rng::{self, Purpose};
use std::cell::RefCell;
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
    /// Where gradients of dense weights are put off to, where they are.
    pub(super) owed: Option<&'a RefCell<Vec<Product>>>,
}

impl<'a> Site<'a> {
    /// Â·x, or Âᵀ·x when the direction is backward.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn aggregate(&mut self, x: &Mat) -> Result<Mat> {
        self.agg.aggregate(self.cx, self.at, x)
    }

    /// The layer's input times one of its tensors, for an aggregate that reads it: without rows otherwise.
    pub fn product(&self, x: &Input, tensor: usize) -> Mat {
        let w = &self.w[tensor];
        match self.agg.reads_rows() {
            true => x.times(self.cx, w),
            false => self.cx.backend.fresh(0, w.ncols()),
        }
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

    /// The gradients of the dense tensors `of.0`, whose layer reads `xs: [n_local, _]` and has the gradient
    /// `g: [n_local, k]` of its output, and of the bias `of.1` beside them, in one pass; matrices without
    /// rows where they are put off.
    pub fn gradients_of<const N: usize>(
        &self,
        of: ([usize; N], usize),
        xs: [&Rc<Mat>; N],
        g: &Rc<Mat>,
    ) -> ([Mat; N], Mat) {
        let Some(owed) = self.owed else {
            return self.weight_gradients(xs.map(Rc::as_ref), Operand::Held(g));
        };
        owed.borrow_mut().push(Product {
            layer: self.at.layer,
            tensors: of.0.to_vec(),
            bias: Some(of.1),
            xs: xs.map(Rc::clone).to_vec(),
            g: Rc::clone(g),
            scale: 1.0,
        });
        let none = || self.cx.backend.fresh(0, 0);
        (xs.map(|_| none()), none())
    }

    /// The gradient of a dense weight without a bias, `scale · xᵀ · g`; put off likewise.
    pub fn scaled_gradient_of(&self, tensor: usize, x: Rc<Mat>, g: &Rc<Mat>, scale: f32) -> Mat {
        let product = Product {
            layer: self.at.layer,
            tensors: vec![tensor],
            bias: None,
            xs: vec![x],
            g: Rc::clone(g),
            scale,
        };
        match self.owed {
            None => {
                let mut gw = product.weights(self.cx.backend.as_ref());
                gw.pop().expect("of one tensor")
            }
            Some(owed) => {
                owed.borrow_mut().push(product);
                self.cx.backend.fresh(0, 0)
            }
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
        Rc::new(self.cx.backend.rows(x, 0..n))
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
    /// `g`; `x: [n_local, d]`, `g: [n_local, k]`. Put off likewise.
    pub fn weight_and_bias_gradient(
        &self,
        [weight, bias]: [usize; 2],
        x: &Rc<Mat>,
        g: &Rc<Mat>,
    ) -> (Mat, Mat) {
        if self.owed.is_some() {
            let ([gw], gb) = self.gradients_of(([weight], bias), [x], g);
            return (gw, gb);
        }
        let backend = &self.cx.backend;
        let mut gw = backend.fresh(x.ncols(), g.ncols());
        let mut gb = backend.fresh(1, g.ncols());
        backend.weight_gradient(x, g, &mut gw, Some(&mut gb));
        (gw, gb)
    }

    /// The same of a layer's input, which may be sparse and is not put off then.
    pub fn input_gradients(&self, of: [usize; 2], x: &Input, g: &Rc<Mat>) -> (Mat, Mat) {
        match x.dense() {
            Some(x) => self.weight_and_bias_gradient(of, x, g),
            None => (x.t_times(self.cx, g), self.bias_gradient(g)),
        }
    }

    /// `alpha · x + beta · y` in the place of `y`.
    pub fn axpby(&self, alpha: f32, x: &Mat, beta: f32, mut y: Mat) -> Mat {
        self.cx.backend.axpby(alpha, x, beta, &mut y);
        y
    }

    /// Adds `alpha · x` to the first rows of `y`, which may have more.
    pub fn scaled_to_first_rows(&self, alpha: f32, x: &Mat, mut y: Mat) -> Mat {
        let n = x.nrows();
        if n == y.nrows() {
            return self.axpby(alpha, x, 1.0, y);
        }
        let own = self.axpby(alpha, x, 1.0, self.cx.backend.rows(&y, 0..n));
        self.cx.backend.copy_rows(&own, 0, n, &mut y, 0);
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
