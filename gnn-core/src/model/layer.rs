//! One layer of a stack: an aggregate and an update, a dense layer, or a round of propagation.

use super::attention::Scores;
use super::{Aggregate, At, Input};
use crate::backend::{Act, Backend, Dropout, Kept, Mat, Operand, Term, Then, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use crate::rng::{self, Purpose};
use std::rc::Rc;

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

impl Facts {
    /// A weighted sum with fixed weights, which may come before the update or after it.
    pub const FIXED_WEIGHTS: Facts = Facts {
        linear: true,
        edge_parameters: false,
        swappable: true,
    };

    /// Sums weighted by attention.
    pub const ATTENTION: Facts = Facts {
        linear: false,
        edge_parameters: true,
        swappable: false,
    };

    /// Sums in which every relation has its own part.
    pub const RELATIONS: Facts = Facts {
        linear: true,
        edge_parameters: true,
        swappable: false,
    };
}

/// The tensors of one layer; a bias is a matrix of one row.
pub type Weights = Vec<Mat>;

/// Terms of a gradient: each matrix is to be multiplied with the transposed of a layer's tensor, by
/// number.
pub type Products = Vec<(Mat, usize)>;

/// One tensor of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tensor {
    /// Its name; biases are named `bias`.
    pub name: &'static str,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// What it begins with.
    pub init: Init,
}

/// What a tensor begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Uniform with the variance of Glorot & Bengio for this sum of widths.
    Glorot(usize),
    /// One number everywhere.
    Constant(f32),
}

impl Tensor {
    /// A dense weight `[rows, cols]`.
    pub fn weight(name: &'static str, rows: usize, cols: usize) -> Tensor {
        Tensor::weights(name, rows, cols, 1)
    }

    /// `count` dense weights `[rows, cols]` side by side, each with its own variance.
    pub fn weights(name: &'static str, rows: usize, cols: usize, count: usize) -> Tensor {
        let init = Init::Glorot(rows + cols);
        Tensor {
            name,
            rows,
            cols: count * cols,
            init,
        }
    }

    /// A row `[1, cols]` of one number.
    pub fn row(name: &'static str, cols: usize, value: f32) -> Tensor {
        let init = Init::Constant(value);
        Tensor {
            name,
            rows: 1,
            cols,
            init,
        }
    }
}

/// What passes from a layer to the next on this rank's rows.
#[derive(Clone)]
pub struct Flow {
    /// The next layer's input `[n_local, d]`, after activation and dropout.
    pub x: Input,
    /// The initial residual `[n_local, hidden]`, for models that have one.
    pub h0: Option<Rc<Mat>>,
    /// Attention scores of this rank's sources and destinations, for models that make them once.
    pub(super) scores: Option<Scores>,
}

impl From<Input> for Flow {
    fn from(x: Input) -> Flow {
        Flow {
            x,
            h0: None,
            scores: None,
        }
    }
}

impl From<Mat> for Flow {
    fn from(x: Mat) -> Flow {
        Flow::from(Input::Dense(Rc::new(x)))
    }
}

impl Flow {
    /// The same beside another input.
    pub(super) fn with(self, x: Mat) -> Flow {
        Flow {
            x: Input::Dense(Rc::new(x)),
            ..self
        }
    }
}

/// The gradients of a [`Flow`].
pub struct Grad {
    /// Of the output before what follows the layer `[n_local, d]`.
    pub g: Mat,
    /// Of the initial residual, as far as later layers read it.
    pub h0: Option<Mat>,
    /// Of the attention scores of sources and destinations, as far as later layers read them.
    pub(super) scores: Option<(Mat, Mat)>,
}

impl From<Mat> for Grad {
    fn from(g: Mat) -> Grad {
        Grad {
            g,
            h0: None,
            scores: None,
        }
    }
}

/// What a layer keeps from forward for backward.
#[derive(Default)]
pub struct Saved {
    /// Its input, after dropout, where backward reads it.
    pub x: Option<Input>,
    /// The aggregated input `[n_local, d_in]`, when it aggregated first.
    pub aggregated: Option<Rc<Mat>>,
    /// What else the layer wants, in its own order.
    pub more: Vec<Rc<Mat>>,
}

impl Saved {
    /// Only the input.
    pub(super) fn input(x: Input) -> Saved {
        Saved {
            x: Some(x),
            ..Saved::default()
        }
    }

    /// The input of a layer that keeps it.
    pub(super) fn x(&self) -> &Input {
        self.x.as_ref().expect("this layer keeps its input")
    }
}

/// What follows a layer: its activation, and the dropout of the next layer's input.
#[derive(Debug, Clone, Copy, Default)]
pub struct After<'a> {
    /// The activation.
    pub act: Act,
    /// The dropout.
    pub dropout: Option<Dropout<'a>>,
}

impl<'a> After<'a> {
    /// What is done to the output of a layer without a bias.
    pub(super) fn then(self) -> Then<'a> {
        Then {
            act: self.act,
            dropout: self.dropout,
            ..Then::default()
        }
    }
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

/// Columns of the matrices that a layer aggregates, for each direction in which it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Widths {
    /// Forward.
    pub forward: Option<usize>,
    /// Backward.
    pub backward: Option<usize>,
}

impl Widths {
    /// The same both ways.
    pub(super) fn both(width: usize) -> Widths {
        Widths {
            forward: Some(width),
            backward: Some(width),
        }
    }

    /// Of a layer that aggregates its input: backward only where the input's gradient is wanted.
    pub(super) fn of_input(width: usize, input_gradient: bool) -> Widths {
        Widths {
            forward: Some(width),
            backward: input_gradient.then_some(width),
        }
    }
}

/// What a round of propagation does, for a strategy that runs all of them in a layout of its own
/// ([`super::Rounds`]). Every round works on each column apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Round {
    /// `Y = own · X + others · Â X`.
    Sum {
        /// Factor of a vertex's own row.
        own: f32,
        /// Factor of the aggregate.
        others: f32,
        /// Whether `own` is learnt: its gradient is that of the round's only tensor.
        learns: bool,
    },
    /// Sums weighted by attention, whose scores come from the rows before the first round by the
    /// first round's tensors: the vectors of sources and of destinations, `[1, width]` each.
    Attention {
        /// Probability that a coefficient is dropped.
        dropout: f32,
    },
    /// Rows have a part of `width / count` columns for each relation, which propagates along its
    /// own edges.
    Relations {
        /// Number of relations.
        count: usize,
        /// Whether the relations' parts are summed and [`Flow::h0`] is added.
        last: bool,
    },
}

/// What a layer has to do with what passes beside the rows, [`Flow::h0`] and scores of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// It begins the initial residual, of so many columns.
    BeginsResidual(usize),
    /// It reads the initial residual.
    ReadsResidual,
    /// It reads the scores that an earlier layer has made.
    ReadsScores,
}

/// A layer with its exact backward.
pub trait Layer {
    /// Columns of its output.
    fn d_out(&self) -> usize;

    /// What it has to do with what passes beside the rows.
    fn beside(&self) -> Beside {
        Beside::Nothing
    }

    /// What strategies may know; none for a layer that reads no other vertex.
    fn facts(&self) -> Option<Facts> {
        None
    }

    /// What the layer does, if it is a round of propagation behind dense layers; `w` are its tensors.
    fn round(&self, _backend: &dyn Backend, _w: &Weights) -> Option<Round> {
        None
    }

    /// Its tensors, in the order of its weights.
    fn tensors(&self) -> Vec<Tensor>;

    /// What it aggregates, of an input that is sparse or not and whose gradient is wanted or not.
    /// Sparse input is multiplied before, since aggregation would fill it in.
    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::default()
    }

    /// Whether, of a dense input, it aggregates that itself rather than a product of it.
    fn aggregates_features(&self) -> bool {
        false
    }

    /// `flow.x: [n_local, d_in]` to `[n_local, d_out]`, with what follows the layer applied.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)>;

    /// From `grad`, the gradient of the output before what follows the layer `[n_local, d_out]`,
    /// to the weights' gradients of this rank's rows and, if `input` says what is done to it, the
    /// input's `[n_local, d_in]`.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)>;

    /// Whether the gradient of its dense input is a sum of products: [`Layer::backward_in_parts`].
    fn in_parts(&self) -> bool {
        false
    }

    /// [`Layer::backward`] without making the gradient of the input, which is `Σ g · wᵀ` over these
    /// `g: [n_local, _]` and tensors `w`, by number, before what is done to it.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    ///
    /// # Panics
    /// Where [`Layer::in_parts`] says no.
    fn backward_in_parts(&self, _: Site<'_>, _: Saved, _: Grad) -> Result<(Weights, Products)> {
        unreachable!("the gradient of this layer's input is no sum of products")
    }

    /// Columns of what is multiplied with the gradient of its output, and of that, where a first layer
    /// with a dense input reads it for its weights' gradients only: [`Layer::backward_of_rows`].
    fn only_weights_read(&self) -> Option<[usize; 2]> {
        None
    }

    /// The weights' gradients of a first layer whose input needs none.
    ///
    /// # Panics
    /// Where [`Layer::only_weights_read`] is none, or the layer has not kept its aggregate.
    fn backward_of_rows(&self, _: Site<'_>, _: Saved, _: Operand<'_>) -> Weights {
        unreachable!("others read the gradient of this layer's output")
    }
}
