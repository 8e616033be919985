//! What the operations of a backend take.

use super::{Kept, Mat, Sparse};
use kernels::{Csr, linear};

/// Whether a result replaces what is there or is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Replace.
    Set,
    /// Add.
    Add,
}

/// Rows of a matrix, in order.
#[derive(Debug, Clone, Copy)]
pub enum Picked<'a> {
    /// Those that follow each other from this one on.
    From(usize),
    /// These.
    List(&'a Kept<u32>),
}

/// A corner of a rectangle in a matrix: its rows and its first column.
#[derive(Debug, Clone, Copy)]
pub struct Corner<'a> {
    /// Its rows.
    pub rows: Picked<'a>,
    /// Its first column.
    pub col: usize,
}

impl<'a> Corner<'a> {
    /// Rows from the first on, from a column on.
    pub fn at(col: usize) -> Corner<'a> {
        let rows = Picked::From(0);
        Corner { rows, col }
    }

    /// Some rows, from a column on.
    pub fn of(rows: &'a Kept<u32>, col: usize) -> Corner<'a> {
        let rows = Picked::List(rows);
        Corner { rows, col }
    }

    pub(super) fn on_host(&self) -> kernels::copy_block::Corner<'a> {
        use kernels::copy_block as host;
        let rows = match self.rows {
            Picked::From(first) => host::Picked::From(first),
            Picked::List(list) => host::Picked::List(list),
        };
        host::Corner {
            rows,
            col: self.col,
        }
    }
}

/// What [`super::Backend::coefficients`] read and wrote.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients<'a> {
    /// Scores of the sources: `[n, 1]`.
    pub el: &'a Mat,
    /// Scores of the destinations: `[m, 1]`.
    pub er: &'a Mat,
    /// The coefficients: `[1, edges]`.
    pub alpha: &'a Mat,
}

/// `a` with other values, if there are any.
pub(super) fn with_values<'a>(a: &'a Sparse, values: Option<&'a [f32]>) -> Csr<'a> {
    let csr = a.view();
    Csr {
        weights: values.or(csr.weights),
        ..csr
    }
}

/// Which operand of a product is transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// `a · b`.
    Plain,
    /// `aᵀ · b`: weight gradients.
    LeftT,
    /// `a · bᵀ`: input gradients.
    RightT,
}

/// One product of a sum of them.
#[derive(Debug, Clone, Copy)]
pub struct Term<'a> {
    /// Which operand is transposed.
    pub product: Product,
    /// Left operand.
    pub a: &'a Mat,
    /// Right operand.
    pub b: &'a Mat,
}

impl<'a> Term<'a> {
    /// `a · b`.
    pub fn plain(a: &'a Mat, b: &'a Mat) -> Term<'a> {
        let product = Product::Plain;
        Term { product, a, b }
    }

    /// `a · bᵀ`.
    pub fn right_t(a: &'a Mat, b: &'a Mat) -> Term<'a> {
        let product = Product::RightT;
        Term { product, a, b }
    }

    /// Rows and columns of the product.
    pub fn dim(&self) -> (usize, usize) {
        let rows = match self.product {
            Product::LeftT => self.a.ncols(),
            _ => self.a.nrows(),
        };
        let cols = match self.product {
            Product::RightT => self.b.nrows(),
            _ => self.b.ncols(),
        };
        (rows, cols)
    }
}

/// The gradient of a layer's output, as its weights' gradients read it: `[m, n]`.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    /// Rows that exist.
    Held(&'a Mat),
    /// `then(Σ terms)`, which nobody else reads; no term has its left operand transposed.
    Made {
        /// The products.
        terms: &'a [Term<'a>],
        /// What is done to their sum.
        then: Then<'a>,
    },
}

impl Operand<'_> {
    /// Rows and columns.
    ///
    /// # Panics
    /// When rows are made of no term.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Operand::Held(g) => g.dim(),
            Operand::Made { terms, .. } => terms[0].dim(),
        }
    }
}

/// An activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Act {
    /// None.
    #[default]
    None,
    /// `max(0, x)`.
    Relu,
    /// `x` above zero, `eˣ − 1` below.
    Elu,
}

/// Counter-based dropout of rows with global ids.
#[derive(Debug, Clone, Copy)]
pub struct Dropout<'a> {
    /// Key of the mask.
    pub key: u64,
    /// Global id of each row.
    pub ids: &'a Kept<u32>,
    /// Probability of dropping an element.
    pub p: f32,
}

impl<'a> Dropout<'a> {
    /// For the kernels of this process.
    pub(super) fn on_host(self) -> linear::Dropout<'a> {
        let Dropout { key, ids, p } = self;
        linear::Dropout { key, ids, p }
    }
}

/// The backward of an activation followed by dropout: the gradient passes where the value after
/// both says so.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// The value after activation and dropout: `[n, d]`.
    pub y: &'a Mat,
    /// The activation.
    pub act: Act,
    /// Factor of survivors: `1 / (1 - p)`. Where dropout took a value it is zero, so ReLU's
    /// pattern serves for both; with ELU the gradient passes [`Then::dropout`] as well.
    pub scale: f32,
}

/// What is done to a result while it is in cache, in this order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Then<'a> {
    /// Adds a row `[1, d]`.
    pub bias: Option<&'a Mat>,
    /// An activation.
    pub act: Act,
    /// Dropout.
    pub dropout: Option<Dropout<'a>>,
    /// The backward of an activation and dropout.
    pub gate: Option<Gate<'a>>,
}

impl<'a> Then<'a> {
    /// The backward of ReLU and dropout alone, which gave `y: [n, d]`; `scale` as in [`Gate`].
    pub fn relu_gate(y: &'a Mat, scale: f32) -> Then<'a> {
        let act = Act::Relu;
        Then {
            gate: Some(Gate { y, act, scale }),
            ..Then::default()
        }
    }
}

/// What LayerNorm adds to the variance.
pub(super) const LAYER_NORM_EPS: f32 = 1e-5;

/// What LayerNorm's backward needs of its forward.
#[derive(Debug, Clone, Copy)]
pub struct Normed<'a> {
    /// Its input: `[n, d]`.
    pub x: &'a Mat,
    /// Its gain: `[1, d]`.
    pub gain: &'a Mat,
    /// What forward wrote: `[n, 2]`.
    pub stats: &'a Mat,
}

/// Settings of multi-head attention: LeakyReLU of the sum of both ends' scores, softmax over the
/// in-edges.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Number of heads; the columns of projected rows are theirs, one head after the other.
    pub heads: usize,
    /// Slope of LeakyReLU below zero.
    pub slope: f32,
    /// Dropout of coefficients, after the softmax.
    pub dropout: Option<AttentionDropout<'a>>,
}

/// Counter-based dropout of attention coefficients: a function of both ends of an edge and the
/// head.
#[derive(Debug, Clone, Copy)]
pub struct AttentionDropout<'a> {
    /// Key of the mask.
    pub key: u64,
    /// Probability of dropping a coefficient.
    pub p: f32,
    /// Global id of each source, the destinations first.
    pub ids: &'a Kept<u32>,
}

/// What attention reads of the vertices.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// Rows of the sources, the destinations first: `[n_src, heads · width]`.
    pub z: &'a Mat,
    /// Scores of the sources: `[n_src, heads]`.
    pub el: &'a Mat,
    /// Scores of the destinations: `[n_dst, heads]`.
    pub er: &'a Mat,
}

/// What attention writes.
#[derive(Debug)]
pub struct AttentionSums<'a> {
    /// Logarithms of the softmax's denominators: `[n_dst, heads]`.
    pub lse: &'a mut Mat,
    /// The weighted sums: `[n_dst, heads · width]`.
    pub out: &'a mut Mat,
    /// Where backward follows, the part of the edges with positive scores in the sums, `[n_dst, heads · width]`,
    /// and in the softmax, before dropout: `[n_dst, heads]`.
    pub positive: Option<(&'a mut Mat, &'a mut Mat)>,
}

/// The same for backward to read.
#[derive(Debug, Clone, Copy)]
pub struct Summed<'a> {
    /// The weighted sums: `[n_dst, heads · width]`.
    pub out: &'a Mat,
    /// Those of positive scores.
    pub positive: &'a Mat,
    /// Their share of the softmax: `[n_dst, heads]`.
    pub share: &'a Mat,
}

/// What attention's backward reads beside the edges.
#[derive(Debug, Clone, Copy)]
pub struct Attended<'a> {
    /// What forward read.
    pub from: Projected<'a>,
    /// Logarithms of the softmax's denominators: `[n_dst, heads]`.
    pub lse: &'a Mat,
    /// Products of `g` and forward's output by head: `[n_dst, heads]`.
    pub c: &'a Mat,
    /// Gradient of the output: `[n_dst, heads · width]`.
    pub g: &'a Mat,
}

/// What attention's backward writes for every source.
#[derive(Debug)]
pub struct SourceGradients<'a> {
    /// The aggregation's part of the gradient of `z`: `[n_src, heads · width]`.
    pub dz: &'a mut Mat,
    /// Gradient of `el`: `[n_src, heads]`.
    pub del: &'a mut Mat,
}

/// One score on its way back: `s[u, h] = ⟨z[u, h, :], a[h, :]⟩` for the first rows of `z`.
#[derive(Debug)]
pub struct ScoreTerm<'a> {
    /// Its gradient: `[≤ n, heads]`.
    pub ds: &'a Mat,
    /// The attention vectors: `[heads, width]`.
    pub a: &'a Mat,
    /// Their gradient, written: `[heads, width]`.
    pub da: &'a mut Mat,
}

/// Sparse rows and their transposed, with values that stand in for theirs.
#[derive(Debug, Clone, Copy)]
pub struct BothWays<'a> {
    /// `[m, k]`.
    pub rows: &'a Sparse,
    /// `[1, E]`, in the order of `rows`.
    pub row_values: Option<&'a Mat>,
    /// `[k, m]`; there where the backend reads it ([`super::Backend::reads_cols`]).
    pub cols: Option<&'a Sparse>,
    /// The same values in the order of `cols`.
    pub col_values: Option<&'a Mat>,
}

impl<'a> BothWays<'a> {
    /// The transposed.
    ///
    /// # Panics
    /// When it is not there.
    pub(super) fn columns(&self) -> &'a Sparse {
        self.cols
            .expect("sparse rows by column, which this backend reads")
    }
}

/// Edges with relations, and how much of each basis a relation takes.
#[derive(Debug, Clone, Copy)]
pub struct Typed<'a> {
    /// The edges with their weights.
    pub a: &'a Sparse,
    /// Relation of each.
    pub types: &'a Kept<u16>,
    /// Shares: `[relations, bases]`.
    pub coef: &'a Mat,
}

/// What a loss over several classes a row needs to know about the rows of `logits`.
#[derive(Debug, Clone, Copy)]
pub struct MultiTarget<'a> {
    /// 1 for each class of a row, else 0: `[n · c]`.
    pub labels: &'a Kept<u8>,
    /// Which rows count: `[n]`.
    pub mask: &'a Kept<bool>,
    /// Factor on the gradient.
    pub scale: f32,
}

/// What a loss needs to know about the rows of `logits`.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Class of each row, −1 for none: `[n]`.
    pub labels: &'a Kept<i32>,
    /// Which rows count: `[n]`.
    pub mask: &'a Kept<bool>,
    /// Factor on the gradient: one over the number of training vertices of all ranks.
    pub scale: f32,
}
