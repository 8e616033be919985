//! Aggregation: `spmm.cu`.

use super::{THREADS, optional, variant, vector, word};
use crate::cuda::sparse::Items;
use crate::cuda::{Arg, Buf, Plain, SparseOn};
use crate::expect_eq;
use half::bf16;
use std::ops::Range;

/// Numbers that [`spmm`] can gather; the sum is always in `f32`.
pub trait Stored: Plain {
    /// The kernel for vectors of `v` numbers, `r` of them a lane.
    fn kernel(v: usize, r: usize) -> &'static str;
}

impl Stored for f32 {
    fn kernel(v: usize, r: usize) -> &'static str {
        variant!("spmm", v, r)
    }
}

impl Stored for bf16 {
    fn kernel(v: usize, r: usize) -> &'static str {
        variant!("spmm_bf16", v, r)
    }
}

/// Rounds `x` to the nearest bfloat16, ties to even.
///
/// # Panics
/// When the device fails.
pub fn to_bf16(x: &Buf<f32>) -> Buf<bf16> {
    let out = x.device().fresh(x.len());
    let args = [x.arg(), Arg::U64(x.len() as u64), out.arg()];
    let grid = [x.len().div_ceil(THREADS as usize), 1, 1];
    // SAFETY: to_bf16's arguments, both of one length.
    unsafe { x.device().launch("to_bf16", grid, &args) };
    out
}

/// What happens to the weighted sum of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// It replaces the row.
    Sum,
    /// It is added to the row.
    Add,
    /// Divided by the number of edges, it replaces the row; zeros without edges.
    Mean,
}

/// `out[r, :]` from `Σ_e w_e · x[col_e, :]` for the rows in `rows`, the other rows stay. `values`
/// stand in for the weights of `a`. `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn spmm<T: Stored>(
    a: &SparseOn,
    values: Option<&Buf<f32>>,
    rows: Range<usize>,
    x: &Buf<T>,
    d: usize,
    reduce: Reduce,
    out: &mut Buf<f32>,
) {
    expect_eq("spmm", "x with elements", a.n_cols() * d, x.len());
    expect_eq("spmm", "out with elements", a.rows() * d, out.len());
    if let Some(v) = values {
        expect_eq("spmm", "values", a.n_edges(), v.len());
    }
    let items = a.items("spmm", rows);
    if d == 0 {
        return;
    }
    let v = vector(d);
    let vectors = d / v;
    let lanes = vectors.next_power_of_two().min(32);
    let r = vectors.div_ceil(32).next_power_of_two().min(4);
    let partial = a.device().fresh::<f32>(items.pieces.len() * d);
    let mean = Arg::U32(u32::from(reduce == Reduce::Mean));
    let add = Arg::U32(u32::from(reduce == Reduce::Add));
    let mut args = a.args(&items).to_vec();
    args.extend([
        optional(values.or(a.weights())),
        x.arg(),
        word("spmm", d),
        word("spmm", lanes),
        mean,
        add,
        partial.arg(),
        out.arg(),
    ]);
    let grid = [items.blocks(), vectors.div_ceil(lanes * r), 1];
    // SAFETY: spmm_body's arguments; shapes were checked above and the indices with the matrix.
    unsafe { a.device().launch(T::kernel(v, r), grid, &args) };
    combine(a, &items, &partial, d, [mean, add], out);
}

/// Adds the pieces of long rows: `partial: [pieces, d]`, `out: [rows, d]`; `how` is mean, add.
pub(super) fn combine(
    a: &SparseOn,
    items: &Items,
    partial: &Buf<f32>,
    d: usize,
    how: [Arg; 2],
    out: &mut Buf<f32>,
) {
    let mut args = vec![a.indptr().arg()];
    args.extend(a.long_args(items));
    args.extend([partial.arg(), word("combine", d), how[0], how[1], out.arg()]);
    let grid = [items.long.len(), d.div_ceil(32), 1];
    // SAFETY: combine_sum's arguments; callers give a partial and an out of these shapes.
    unsafe { a.device().launch("combine_sum", grid, &args) };
}

/// Replaces rows: neither mean nor add.
pub(super) const SET: [Arg; 2] = [Arg::U32(0), Arg::U32(0)];
