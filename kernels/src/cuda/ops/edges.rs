//! The separate steps of attention, and sums over a head's columns: `edges.cu`.

use super::attention::{HeadKernel, Scores, head_kernel, head_lanes, launch_over_heads, row_lse};
use super::spmm::{SET, combine};
use super::{optional, variant, word};
use crate::cuda::{Arg, Buf, SparseOn};
use crate::expect_eq;
use std::ops::Range;

/// `out[v, h] = Σ_e values[at(e), h]` over the edges of each row, times `other[at(e), h]` when
/// given; `at(e) = map[e]`, or `e` without a map. `values, other: [E, H]`, `out: [rows, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_sums(
    a: &SparseOn,
    heads: usize,
    values: &Buf<f32>,
    other: Option<&Buf<f32>>,
    map: Option<&Buf<u32>>,
    out: &mut Buf<f32>,
) {
    expect_eq("edge_sums", "values", a.n_edges() * heads, values.len());
    expect_eq(
        "edge_sums",
        "out with elements",
        a.rows() * heads,
        out.len(),
    );
    if let Some(other) = other {
        expect_eq("edge_sums", "factors", values.len(), other.len());
    }
    if let Some(map) = map {
        expect_eq("edge_sums", "a map of length", a.n_edges(), map.len());
    }
    let items = a.items("edge_sums", 0..a.rows());
    let lanes = head_lanes(heads);
    let partial = a.device().fresh::<f32>(items.pieces.len() * heads);
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_sums", heads),
        word("edge_sums", lanes),
        values.arg(),
    ]);
    args.extend([optional(other), optional(map), partial.arg(), out.arg()]);
    let grid = [items.blocks(), heads.div_ceil(lanes), 1];
    // SAFETY: edge_sum's arguments, shapes checked above; a map holds edges of the same graph.
    unsafe { a.device().launch("edge_sum", grid, &args) };
    combine(a, &items, &partial, heads, SET, out);
}

/// `out[e, h] = ⟨y[v, h, :], x[u, h, :]⟩` for every edge. `y: [rows, H·D]`, `x: [n_cols, H·D]`,
/// `out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn sddmm(
    a: &SparseOn,
    heads: usize,
    dim: usize,
    y: &Buf<f32>,
    x: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    expect_eq("sddmm", "y with elements", a.rows() * heads * dim, y.len());
    expect_eq(
        "sddmm",
        "x with elements",
        a.n_cols() * heads * dim,
        x.len(),
    );
    expect_eq("sddmm", "out with elements", a.n_edges() * heads, out.len());
    let items = a.items("sddmm", 0..a.rows());
    let tail = [y.arg(), x.arg(), out.arg()];
    // SAFETY: sddmm_body's arguments, shapes checked above.
    unsafe { launch_over_heads(a, &items, head_kernel!("sddmm"), [heads, dim], &tail) };
}

/// Softmax over the edges of each row: `scores, out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_softmax(a: &SparseOn, heads: usize, scores: &Buf<f32>, out: &mut Buf<f32>) {
    expect_eq("edge_softmax", "scores", a.n_edges() * heads, scores.len());
    expect_eq("edge_softmax", "out with elements", scores.len(), out.len());
    let mut lse = a.device().fresh::<f32>(a.rows() * heads);
    row_lse(a, 0..a.rows(), heads, Scores::Stored(scores), &mut lse);
    let items = a.items("edge_softmax", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_softmax", heads),
        scores.arg(),
        lse.arg(),
        out.arg(),
    ]);
    // SAFETY: edge_softmax's arguments, shapes checked above.
    unsafe {
        a.device()
            .launch("edge_softmax", [items.blocks(), 1, 1], &args)
    };
}

/// Its backward: `out = α ⊙ (g − Σ_row α ⊙ g)`; `alpha, g, out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_softmax_backward(
    a: &SparseOn,
    heads: usize,
    alpha: &Buf<f32>,
    g: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    expect_eq(
        "edge_softmax_backward",
        "out with elements",
        g.len(),
        out.len(),
    );
    let mut c = a.device().fresh::<f32>(a.rows() * heads);
    edge_sums(a, heads, alpha, Some(g), None, &mut c);
    let items = a.items("edge_softmax_backward", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_softmax", heads),
        alpha.arg(),
        g.arg(),
        c.arg(),
        out.arg(),
    ]);
    // SAFETY: edge_softmax_backward's arguments, shapes checked above and in `edge_sums`.
    unsafe {
        a.device()
            .launch("edge_softmax_backward", [items.blocks(), 1, 1], &args)
    };
}

/// `out[v, h] = ⟨x[v, h, :], y[h, :]⟩` with `y: [H·D]` (scores), or `⟨x[v, h, :], y[v, h, :]⟩` with
/// `y: [n, H·D]`, for the rows `v` in `rows`, the others stay. `x: [n, H·D]`, `out: [.., H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn head_dots(
    heads: usize,
    dim: usize,
    rows: Range<usize>,
    x: &Buf<f32>,
    y: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    let (width, last) = (heads * dim, rows.end);
    let by_row = y.len() != width;
    for (what, has, per) in [("x", x.len(), width), ("out", out.len(), heads)] {
        assert!(
            last * per <= has,
            "head_dots: expected {what} with {last} rows at least"
        );
    }
    assert!(
        !by_row || last * width <= y.len(),
        "head_dots: expected y with {last} rows at least"
    );
    let lanes = dim.next_power_of_two().min(32);
    let y_at = if by_row { rows.start * width } else { 0 };
    let mut args = vec![Arg::U64(x.at(rows.start * width)), Arg::U64(y.at(y_at))];
    args.push(Arg::U32(u32::from(by_row)));
    args.extend([rows.len(), heads, dim, lanes].map(|k| word("head_dots", k)));
    args.push(Arg::U64(out.at(rows.start * heads)));
    let grid = [rows.len().div_ceil(super::WARPS), 1, 1];
    // SAFETY: head_dots' arguments, shapes checked above.
    unsafe { out.device().launch("head_dots", grid, &args) };
}

/// `x[v, h, :] += s[v, h] · a[h, :]` for the rows of `s: [n, H]`; `a: [H·D]`, `x: [≥ n, H·D]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn head_outer_add(heads: usize, dim: usize, s: &Buf<f32>, a: &Buf<f32>, x: &mut Buf<f32>) {
    let n = s.len() / heads.max(1);
    expect_eq("head_outer_add", "s with elements", n * heads, s.len());
    expect_eq("head_outer_add", "a with elements", heads * dim, a.len());
    assert!(
        n * heads * dim <= x.len(),
        "head_outer_add: expected x with {n} rows at least"
    );
    let mut args = vec![s.arg(), a.arg()];
    args.extend([n, heads, dim].map(|k| word("head_outer_add", k)));
    args.push(x.arg());
    let grid = [(n * heads * dim).div_ceil(super::THREADS as usize), 1, 1];
    // SAFETY: head_outer_add's arguments, shapes checked above.
    unsafe { x.device().launch("head_outer_add", grid, &args) };
}
