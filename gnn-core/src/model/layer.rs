//! One layer of a stack: an aggregate and an update, a dense layer, or a round of propagation.

use super::Input;
use super::site::Site;
use crate::backend::{Act, Backend, Dropout, Mat, Operand, Then};
use crate::error::Result;
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
        swappable: true,
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
    /// Coefficients of this rank's in-edges `[edges, heads]`, for models that make them once.
    pub(super) coefficients: Option<Rc<Mat>>,
}

impl From<Input> for Flow {
    fn from(x: Input) -> Flow {
        Flow {
            x,
            h0: None,
            coefficients: None,
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
    /// Of the coefficients of edges `[edges, heads]`, as far as later layers read them.
    pub(super) coefficients: Option<Mat>,
}

impl From<Mat> for Grad {
    fn from(g: Mat) -> Grad {
        Grad {
            g,
            h0: None,
            coefficients: None,
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
    /// Sums weighted by the mean of the heads' attention, whose scores come from the rows before the
    /// first round by the first round's tensors: the vectors of sources and of destinations,
    /// `[heads, width]` each.
    Attention {
        /// Number of heads.
        heads: usize,
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

/// What a layer has to do with what passes beside the rows, [`Flow::h0`] and coefficients of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// It begins the initial residual, of so many columns.
    BeginsResidual(usize),
    /// It reads the initial residual.
    ReadsResidual,
    /// It reads the coefficients that an earlier layer has made.
    ReadsCoefficients,
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

    /// Whether what it aggregates, of a dense input, is that itself, at any place in a model.
    fn aggregates_its_input(&self) -> bool {
        self.aggregates_features()
    }

    /// The weight whose product with its input it aggregates, where it multiplies such an input first and
    /// adds whatever else there is to the aggregate, of its own rows.
    fn product_tensor(&self, _sparse_input: bool) -> Option<usize> {
        None
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
