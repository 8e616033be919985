//! Moving rows, and dropout of sparse rows: `rows.cu`.

use super::{THREADS, optional, vector, word};
use crate::cuda::{Arg, Buf, Moves, SparseOn};
use crate::expect_eq;

/// `out[i, :] = x[rows[i], :]`. `x: [n, d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, a row is not in `x` or the device fails.
pub fn gather(x: &Buf<f32>, rows: &Moves, d: usize, out: &mut Buf<f32>) {
    expect_eq(
        "gather_rows",
        "out with elements",
        rows.rows.len() * d,
        out.len(),
    );
    check_bound("gather_rows", rows, d, x);
    let v = vector(d);
    let kernel = if v == 4 { "gather_4" } else { "gather_1" };
    let n = rows.rows.len();
    let args = [
        x.arg(),
        rows.rows.arg(),
        Arg::U64(n as u64),
        word("gather_rows", d),
        out.arg(),
    ];
    let grid = [(n * d / v).div_ceil(THREADS as usize), 1, 1];
    // SAFETY: gather_body's arguments, shapes checked above.
    unsafe { x.device().launch(kernel, grid, &args) };
}

pub(super) fn check_bound(op: &str, rows: &Moves, d: usize, x: &Buf<f32>) {
    assert!(
        rows.bound * d <= x.len(),
        "{op}: expected indices below {}, got {}",
        x.len() / d.max(1),
        rows.bound.wrapping_sub(1)
    );
}

/// `out[rows[i], :] += g[i, :]` in ascending order of `i`. `g: [m, d]`, `out: [n, d]`.
///
/// # Panics
/// When the shapes disagree, a row is not in `out` or the device fails.
pub fn scatter_add(g: &Buf<f32>, rows: &Moves, d: usize, out: &mut Buf<f32>) {
    expect_eq(
        "scatter_add_rows",
        "g with elements",
        rows.rows.len() * d,
        g.len(),
    );
    check_bound("scatter_add_rows", rows, d, out);
    let mut args = rows.by_target().to_vec();
    args.extend([g.arg(), word("scatter_add_rows", d), out.arg()]);
    let grid = [(rows.targets() * d).div_ceil(THREADS as usize), 1, 1];
    // SAFETY: scatter_add's arguments, shapes checked above.
    unsafe { out.device().launch("scatter_add", grid, &args) };
}

/// Values of the sparse rows `a: [n, d]` after dropout by the counters of `ids: [n]`; `transposed`,
/// `a: [d, n]` holds the columns of such rows. `out: [E]`.
///
/// # Panics
/// When the shapes disagree, `p` is not in `[0, 1)` or the device fails.
pub fn sparse_dropout(
    a: &SparseOn,
    transposed: bool,
    key: u64,
    ids: &Buf<u32>,
    p: f32,
    out: &mut Buf<f32>,
) {
    let n = if transposed { a.n_cols() } else { a.rows() };
    expect_eq("sparse_dropout", "ids", n, ids.len());
    expect_eq(
        "sparse_dropout",
        "out with elements",
        a.n_edges(),
        out.len(),
    );
    let (keep, scale) = crate::dropout::threshold(p);
    let items = a.items("sparse_dropout", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        optional(a.weights()),
        Arg::U32(u32::from(transposed)),
        Arg::U64(key),
    ]);
    args.extend([ids.arg(), Arg::U32(keep), Arg::F32(scale), out.arg()]);
    // SAFETY: sparse_dropout's arguments, shapes checked above.
    unsafe {
        a.device()
            .launch("sparse_dropout", [items.blocks(), 1, 1], &args)
    };
}
