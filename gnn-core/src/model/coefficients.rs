//! Attention whose coefficients are made once and used by several rounds, and whose heads are averaged.
//!
//! # Paper
//! Veličković et al., "Graph attention networks", ICLR 2018, eq. 6: the heads of a layer whose columns
//! are the prediction are averaged, since concatenating them is no longer sensible there. Those of a
//! decoupled model's rounds are the prediction: every head weighs all of them. The average of the heads'
//! sums is the sum by their average coefficient, so that a round has one number an edge however many
//! heads there are, and works on any slice of columns.
//!
//! Coefficients of all heads are `[edges, heads]`, in the order of the in-edges. Each head has a mask of
//! its own where coefficients are dropped, before they are averaged.

use crate::backend::{Coefficients, Corner, Dropout, Kept, Mat, Picked, Sparse, Term, Then, Write};
use crate::ctx::Ctx;
use crate::rng::{self, Purpose};

/// Slope of LeakyReLU below zero.
const SLOPE: f32 = 0.2;

/// The key of a head's mask, of that of all heads.
pub(crate) fn key_of_head(key: u64, head: usize) -> u64 {
    match head {
        0 => key,
        _ => rng::key(key, head as u64, Purpose::Attention, 0),
    }
}

/// `x · aᵀ`: the scores of rows `x: [n, width]` by the heads' vectors `a: [heads, width]`, `[n, heads]`.
pub(crate) fn scores(cx: &Ctx, x: &Mat, a: &Mat) -> Mat {
    let mut out = cx.backend.fresh(x.nrows(), a.nrows());
    let terms = [Term::right_t(x, a)];
    cx.backend
        .linear(&terms, Write::Set, Then::default(), &mut out);
    out
}

/// The column of a head, `[n, 1]`.
fn column(cx: &Ctx, x: &Mat, head: usize) -> Mat {
    let mut out = cx.backend.fresh(x.nrows(), 1);
    let size = (x.nrows(), 1);
    cx.backend
        .copy_block(x, Corner::at(head), size, &mut out, Corner::at(0));
    out
}

/// Writes the column of a head.
fn put(cx: &Ctx, column: Mat, head: usize, out: &mut Mat) {
    let rows = out.nrows();
    let column = column.reshape(rows, 1);
    cx.backend
        .copy_block(&column, Corner::at(0), (rows, 1), out, Corner::at(head));
}

/// The coefficients of the edges of `a: [m, n]`, by head, from scores of sources `el: [n, heads]` and of
/// destinations `er: [m, heads]`.
pub(crate) fn make(cx: &Ctx, a: &Sparse, el: &Mat, er: &Mat) -> Mat {
    let heads = el.ncols();
    let mut all = cx.backend.fresh(a.n_edges(), heads);
    for h in 0..heads {
        let mut alpha = cx.backend.fresh(1, a.n_edges());
        let (el, er) = (column(cx, el, h), column(cx, er, h));
        cx.backend.coefficients(a, SLOPE, &el, &er, &mut alpha);
        put(cx, alpha, h, &mut all);
    }
    all
}

/// What [`make`] read and wrote.
pub(crate) struct Made<'a> {
    pub(crate) el: &'a Mat,
    pub(crate) er: &'a Mat,
    pub(crate) alpha: &'a Mat,
}

/// The gradients of the scores, `[n, heads]` and `[m, heads]`, from `dalpha: [edges, heads]`.
pub(crate) fn backward(cx: &Ctx, a: &Sparse, made: &Made<'_>, dalpha: &Mat) -> (Mat, Mat) {
    let heads = dalpha.ncols();
    let mut all_del = cx.backend.fresh(a.n_cols(), heads);
    let mut all_der = cx.backend.fresh(a.rows(), heads);
    let row = |x: &Mat, h| column(cx, x, h).reshape(1, a.n_edges());
    for h in 0..heads {
        let (el, er) = (column(cx, made.el, h), column(cx, made.er, h));
        let alpha = row(made.alpha, h);
        let made = Coefficients {
            el: &el,
            er: &er,
            alpha: &alpha,
        };
        let mut del = cx.backend.fresh(a.n_cols(), 1);
        let mut der = cx.backend.fresh(a.rows(), 1);
        let to = (&mut del, &mut der);
        cx.backend
            .coefficients_backward(a, SLOPE, made, &row(dalpha, h), to);
        put(cx, del, h, &mut all_del);
        put(cx, der, h, &mut all_der);
    }
    (all_del, all_der)
}

/// A head's numbers `[1, edges]` after its dropout, if anything is dropped.
fn dropped(cx: &Ctx, a: &Sparse, values: Mat, head: usize, drop: Option<Dropout<'_>>) -> Mat {
    let Some(drop) = drop else { return values };
    let mut out = cx.backend.fresh(1, a.n_edges());
    let drop = Dropout {
        key: key_of_head(drop.key, head),
        ..drop
    };
    cx.backend.edge_dropout(a, drop, &values, &mut out);
    out
}

/// The heads' average `[1, edges]` of `alpha: [edges, heads]` after dropout; row and column `k` of `a`
/// are vertex `drop.ids[k]`.
pub(crate) fn mean(cx: &Ctx, a: &Sparse, alpha: &Mat, drop: Option<Dropout<'_>>) -> Mat {
    let (edges, heads) = alpha.dim();
    let of_head = |h| dropped(cx, a, column(cx, alpha, h).reshape(1, edges), h, drop);
    let mut sum = of_head(0);
    let share = 1.0 / heads as f32;
    for h in 1..heads {
        let first = if h == 1 { share } else { 1.0 };
        cx.backend.axpby(share, &of_head(h), first, &mut sum);
    }
    sum
}

/// Adds what `dots: [1, edges]`, the gradient of [`mean`], gives to `dalpha: [edges, heads]`.
pub(crate) fn add_gradient(
    cx: &Ctx,
    a: &Sparse,
    dots: &Mat,
    drop: Option<Dropout<'_>>,
    dalpha: &mut Mat,
) {
    let (edges, heads) = dalpha.dim();
    let mut part = cx.backend.fresh(edges, heads);
    for h in 0..heads {
        let of_head = dropped(cx, a, cx.backend.copy(dots), h, drop);
        put(cx, of_head, h, &mut part);
    }
    cx.backend.axpby(1.0 / heads as f32, &part, 1.0, dalpha);
}

/// Numbers of in-edges `[1, edges]`, in the order of the transposed matrix.
pub(crate) fn transposed(cx: &Ctx, values: &Mat, t_of: &Kept<u32>) -> Mat {
    let edges = values.len();
    let mut out = cx.backend.fresh(edges, 1);
    let column = cx.backend.copy(values).reshape(edges, 1);
    let to = Corner {
        rows: Picked::List(t_of),
        col: 0,
    };
    cx.backend
        .copy_block(&column, Corner::at(0), (edges, 1), &mut out, to);
    out.reshape(1, edges)
}
