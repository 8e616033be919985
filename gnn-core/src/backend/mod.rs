//! Matrices on a device, and the dozen operations that models and strategies ask of it.
//!
//! One call is one matrix, so the seam is `dyn`. [`Cpu`] runs the kernels; [`Metered`] wraps any
//! backend and tells the meter what each call was and how long it took.

mod cpu;
mod metered;

pub use cpu::Cpu;
pub use kernels::Mat;
pub use metered::Metered;

use kernels::Csr;
use std::ops::Range;

/// Whether a result replaces what is there or is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Replace.
    Set,
    /// Add.
    Add,
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

/// One Adam step's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub lr: f32,
    /// L2 weight decay, added to the gradient.
    pub weight_decay: f32,
    /// Step number, from 1.
    pub step: u64,
}

/// What a loss needs to know about the rows of `logits`.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Class of each row, −1 for none: `[n]`.
    pub labels: &'a [i32],
    /// Which rows count: `[n]`.
    pub mask: &'a [bool],
    /// Factor on the gradient: one over the number of training vertices of all ranks.
    pub scale: f32,
}

/// Operations on matrices that live on one device.
pub trait Backend {
    /// Name of the device for the `device` column.
    fn device(&self) -> &str;

    /// `out[r, :] = Σ_e w_e · x[col_e, :]` for `r` in `rows`; `a: [m, n]`, `x: [n, d]`,
    /// `out: [m, d]`.
    fn spmm(&self, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat);

    /// Product of two dense matrices, as [`Product`] says.
    fn gemm(&self, product: Product, a: &Mat, b: &Mat, write: Write, out: &mut Mat);

    /// Sparse rows times a dense matrix: `a: [m, k]`, `b: [k, n]`, `out: [m, n]`. Counted as a
    /// dense layer, not as aggregation.
    fn sparse_gemm(&self, a: Csr<'_>, b: &Mat, write: Write, out: &mut Mat);

    /// Adds `bias: [d]` to every row of `x: [n, d]`, then applies ReLU if asked.
    fn bias(&self, x: &mut Mat, bias: &[f32], relu: bool);

    /// Zeroes `g` where the activation `y` was zero; both `[n, d]`.
    fn relu_backward(&self, y: &Mat, g: &mut Mat);

    /// Sums of the columns of `g: [n, d]` into `out: [d]`.
    fn column_sums(&self, g: &Mat, out: &mut [f32]);

    /// Drops elements of `x: [n, d]` by counter `(key, ids[row], column)`; its own backward.
    fn dropout(&self, key: u64, ids: &[u32], p: f32, x: &mut Mat);

    /// Values of the sparse rows `a: [n, d]` after the same dropout.
    fn sparse_dropout(&self, key: u64, ids: &[u32], p: f32, a: Csr<'_>, out: &mut [f32]);

    /// Values of `at: [d, n]`, the transpose of such rows, after the same dropout.
    fn sparse_dropout_t(&self, key: u64, ids: &[u32], p: f32, at: Csr<'_>, out: &mut [f32]);

    /// `out[i, :] = x[rows[i], :]`.
    fn gather_rows(&self, x: &Mat, rows: &[u32], out: &mut Mat);

    /// `out[first + i, :] = x[i, :]` for every row of `x`.
    fn copy_rows(&self, x: &Mat, out: &mut Mat, first: usize);

    /// `out[rows[i], :] += g[i, :]`, in the order of `i`.
    fn scatter_add_rows(&self, g: &Mat, rows: &[u32], out: &mut Mat);

    /// Writes the gradient of the mean softmax cross-entropy into `grad: [n, c]` (zero outside the
    /// mask) and returns the unscaled sum of the losses.
    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64;

    /// One Adam step on `w` with gradient `g` and moments `m`, `v`, all of one length.
    fn adam(&self, adam: Adam, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]);
}
