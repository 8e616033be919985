//! Attention coefficients as numbers of their own, one an edge: `edges.cu`. Twin of
//! [`crate::coefficients`].

use super::{edge_softmax, edge_softmax_backward, edge_sums, scatter_add};
use crate::cuda::{Arg, Buf, Moves, SparseOn};
use crate::expect_eq;

/// What [`coefficients`] read and wrote.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// Scores of sources: `[n]`.
    pub el: &'a Buf<f32>,
    /// Scores of destinations: `[m]`.
    pub er: &'a Buf<f32>,
    /// The coefficients: `[edges]`.
    pub alpha: &'a Buf<f32>,
}

/// Launches a kernel over the edges of `a`.
///
/// # Safety
/// `more` are the kernel's arguments behind those of the matrix.
unsafe fn over_edges(a: &SparseOn, kernel: &'static str, more: &[Arg]) {
    let items = a.items(kernel, 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend(more);
    // SAFETY: the caller's.
    unsafe { a.device().launch(kernel, [items.blocks(), 1, 1], &args) };
}

fn check(op: &str, a: &SparseOn, el: &Buf<f32>, er: &Buf<f32>, edges: usize) {
    expect_eq(op, "el with numbers", a.n_cols(), el.len());
    expect_eq(op, "er with numbers", a.rows(), er.len());
    expect_eq(op, "a number for each of the edges", a.n_edges(), edges);
}

/// Softmax over each row's edges of LeakyReLU of the sum of both ends' scores; `a: [m, n]`, `el: [n]`,
/// `er: [m]`, `alpha: [edges]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn coefficients(a: &SparseOn, slope: f32, el: &Buf<f32>, er: &Buf<f32>, alpha: &mut Buf<f32>) {
    check("coefficients", a, el, er, alpha.len());
    let scores = a.device().fresh::<f32>(alpha.len());
    let args = [el.arg(), er.arg(), Arg::F32(slope), scores.arg()];
    // SAFETY: edge_scores' arguments, shapes checked above.
    unsafe { over_edges(a, "edge_scores", &args) };
    edge_softmax(a, 1, &scores, alpha);
}

/// From `dalpha: [edges]`, the gradient of the coefficients, that of the scores: `del: [n]`,
/// `der: [m]`, both written. `columns` are those of the edges.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn coefficients_backward(
    a: &SparseOn,
    columns: &Moves,
    slope: f32,
    made: Made<'_>,
    dalpha: &Buf<f32>,
    (del, der): (&mut Buf<f32>, &mut Buf<f32>),
) {
    let Made { el, er, alpha } = made;
    check("coefficients_backward", a, el, er, alpha.len());
    check("coefficients_backward", a, del, der, dalpha.len());
    let mut ds = a.device().fresh::<f32>(alpha.len());
    edge_softmax_backward(a, 1, alpha, dalpha, &mut ds);
    let args = [el.arg(), er.arg(), Arg::F32(slope), ds.arg()];
    // SAFETY: edge_slopes' arguments, shapes checked above.
    unsafe { over_edges(a, "edge_slopes", &args) };
    edge_sums(a, 1, &ds, None, None, der);
    *del = a.device().zeros(del.len());
    scatter_add(&ds, columns, 1, del);
}

/// Writes `out[e] = values[e]` times 0 or `1 / (1 − p)`, the factor that attention has for an edge
/// between these vertices: row and column `k` of `a: [n, n]` are vertex `ids[k]`.
///
/// # Panics
/// When the shapes disagree, `p` is not in `[0, 1)` or the device fails.
pub fn edge_dropout(
    a: &SparseOn,
    key: u64,
    ids: &Buf<u32>,
    p: f32,
    values: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    expect_eq("edge_dropout", "ids", a.n_cols(), ids.len());
    assert!(
        a.rows() <= a.n_cols(),
        "edge_dropout: expected at most {} rows, got {}",
        a.n_cols(),
        a.rows()
    );
    expect_eq("edge_dropout", "values", a.n_edges(), values.len());
    expect_eq("edge_dropout", "out", a.n_edges(), out.len());
    let (keep, scale) = crate::dropout::threshold(p);
    let args = [
        Arg::U64(key),
        ids.arg(),
        Arg::U32(keep),
        Arg::F32(scale),
        values.arg(),
        out.arg(),
    ];
    // SAFETY: edge_dropout's arguments, shapes checked above.
    unsafe { over_edges(a, "edge_dropout", &args) };
}
