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

/// `out[r, c] = max_e w_e · x[col_e, c]` for the rows in `rows`, and the edge it came from (the
/// first of equals, counted from the start of its row) in `arg: [m, d]`; 0 and `u32::MAX` for a row
/// without edges.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn spmm_max(
    a: &SparseOn,
    rows: Range<usize>,
    x: &Buf<f32>,
    d: usize,
    out: &mut Buf<f32>,
    arg: &mut Buf<u32>,
) {
    expect_eq("spmm_max", "x with elements", a.n_cols() * d, x.len());
    expect_eq("spmm_max", "out with elements", a.rows() * d, out.len());
    expect_eq("spmm_max", "arg with elements", a.rows() * d, arg.len());
    let items = a.items("spmm_max", rows);
    let device = a.device();
    let partial = device.fresh::<f32>(items.pieces.len() * d);
    let partial_arg = device.fresh::<u32>(items.pieces.len() * d);
    let mut args = a.args(&items).to_vec();
    args.extend([optional(a.weights()), x.arg(), word("spmm_max", d)]);
    args.extend([partial.arg(), partial_arg.arg(), out.arg(), arg.arg()]);
    // SAFETY: spmm_max's arguments, shapes checked above.
    unsafe { device.launch("spmm_max", [items.blocks(), d.div_ceil(32), 1], &args) };
    let mut args = a.long_args(&items).to_vec();
    args.extend([partial.arg(), partial_arg.arg(), word("spmm_max", d)]);
    args.extend([out.arg(), arg.arg()]);
    let grid = [items.long.len(), d.div_ceil(256), 1];
    // SAFETY: combine_max's arguments; the partials were written by the kernel above.
    unsafe { device.launch("combine_max", grid, &args) };
}

/// Backward of [`spmm_max`] to `x`: `at: [n, m]` is the transposed matrix, `place: [E]` the
/// place of each of its edges within the original row, `arg, g: [m, d]`, `out: [n, d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn spmm_max_backward(
    at: &SparseOn,
    place: &Buf<u32>,
    arg: &Buf<u32>,
    g: &Buf<f32>,
    d: usize,
    out: &mut Buf<f32>,
) {
    expect_eq("spmm_max_backward", "edges", at.n_edges(), place.len());
    expect_eq(
        "spmm_max_backward",
        "g with elements",
        at.n_cols() * d,
        g.len(),
    );
    expect_eq("spmm_max_backward", "arg with elements", g.len(), arg.len());
    expect_eq(
        "spmm_max_backward",
        "out with elements",
        at.rows() * d,
        out.len(),
    );
    let items = at.items("spmm_max_backward", 0..at.rows());
    let partial = at.device().fresh::<f32>(items.pieces.len() * d);
    let mut args = at.args(&items).to_vec();
    args.extend([optional(at.weights()), place.arg(), g.arg(), arg.arg()]);
    args.extend([word("spmm_max_backward", d), partial.arg(), out.arg()]);
    let grid = [items.blocks(), d.div_ceil(32), 1];
    // SAFETY: spmm_max_backward's arguments, shapes checked above.
    unsafe { at.device().launch("spmm_max_backward", grid, &args) };
    combine(at, &items, &partial, d, SET, out);
}
