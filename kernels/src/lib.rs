//! Halobook's compute kernels: every hot loop of training, one module a kernel.
//!
//! Each module holds a scalar reference called `naive…`, the CPU version beside it, and property
//! tests of one against the other. The CPU versions choose their SIMD level at run time
//! ([`simd::Level`]) and split work so that every number is computed by the same operations in the
//! same order whatever the number of threads: results are bit-identical for any [`Par`].
//!
//! Values are `f32` with `f32` accumulation. Matrices are row-major ([`Mat`]); sparse ones are
//! compressed rows ([`Csr`]). Shapes are checked once at the public edge of a kernel and a
//! disagreement panics with both sides in the message, because it is a bug of the caller; data of
//! users is checked before it gets here ([`Csr::check`]).

pub mod adam;
pub mod align;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_gradient;
#[cfg(target_arch = "x86_64")]
mod amx_linear;
#[cfg(target_arch = "x86_64")]
mod amx_split;
pub mod bce;
pub mod bench;
pub mod coefficients;
pub mod copy_block;
pub mod csr;
pub mod cuda;
pub mod dot;
pub mod dropout;
pub mod edge_softmax;
pub mod elementwise;
pub mod engine;
mod exp;
pub mod factor;
pub mod gat;
pub mod gat_backward;

pub mod gat_dense;
mod gat_factors;
mod gat_forward;
mod gat_layout;
mod gat_pieces;
mod gat_records;
mod gat_scores;
mod gat_sum;
#[cfg(test)]
mod gat_tests;
mod gat_written;
pub mod gemm;
mod gemm_ahead;
mod gemm_block;
mod gemm_lanes;
mod gemm_simd;
pub mod hash;
mod head_dots;
mod hubs;
pub mod layernorm;
pub mod linear;
mod linear_gradient;
mod linear_then;
mod lines;
pub mod loss;
pub mod pairs;
pub mod par;
pub mod rows;
pub mod rspmm;
pub mod sddmm;
pub mod segmented;
pub mod sgd;
pub mod simd;
pub mod sparse_optim;
pub mod spmm;
pub mod spmm_bf16;
pub mod spmm_t;
mod spmm_tile;
pub mod stream;
mod vector;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vector_pair;
#[cfg(any(not(target_arch = "x86_64"), miri, test))]
mod vector_plain;
#[cfg(target_arch = "x86_64")]
mod vector_x86;

use std::ops::Range;

use ndarray::Array2;

pub use csr::{Csr, CsrBuf, ShapeError};
pub use par::{Busy, Par};
pub use vector::prefetch;

/// A dense matrix `[rows, columns]` of `f32`, always in standard (row-major) layout.
pub type Mat = Array2<f32>;

/// The elements of `x` as one row-major slice.
///
/// # Panics
/// When `x` is not in standard layout, which every kernel relies on.
pub(crate) fn flat<'a, T>(op: &str, x: &'a Array2<T>) -> &'a [T] {
    x.as_slice().unwrap_or_else(|| {
        panic!(
            "{op}: expected a row-major matrix, got strides {:?}",
            x.strides()
        )
    })
}

/// The elements of `x` as one mutable row-major slice; panics like [`flat`].
pub(crate) fn flat_mut<'a, T>(op: &str, x: &'a mut Array2<T>) -> &'a mut [T] {
    let strides = [x.strides()[0], x.strides()[1]];
    x.as_slice_mut()
        .unwrap_or_else(|| panic!("{op}: expected a row-major matrix, got strides {strides:?}"))
}

/// Panics with both sides of a disagreement about a shape.
#[track_caller]
pub(crate) fn expect_eq(op: &str, what: &str, expected: usize, got: usize) {
    assert!(
        expected == got,
        "{op}: expected {what} {expected}, got {got}"
    );
}

/// Panics unless `rows` lie within the `n` rows that there are.
#[track_caller]
pub(crate) fn expect_rows(op: &str, rows: &Range<usize>, n: usize) {
    assert!(
        rows.start <= rows.end && rows.end <= n,
        "{op}: expected rows within {n}, got {rows:?}"
    );
}

/// Panics unless `columns` of the matrix `what` are whole heads.
#[track_caller]
pub(crate) fn expect_heads(op: &str, what: &str, columns: usize, heads: usize) {
    assert!(heads > 0, "{op}: expected at least one head, got 0");
    assert!(
        columns.is_multiple_of(heads),
        "{op}: expected columns of {what} in {heads} whole heads, got {columns}"
    );
}

/// The number of rows of an `indptr: [rows + 1]`; panics when it is empty.
#[track_caller]
pub(crate) fn expect_indptr(op: &str, indptr: &[u64]) -> usize {
    let n = indptr.len();
    assert!(n > 0, "{op}: expected indptr with at least 1 number, got 0");
    n - 1
}
