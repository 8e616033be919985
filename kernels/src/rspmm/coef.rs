//! The gradient of the coefficients.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use super::typed::{Typed, by_width, expect_types, load, tile};
use crate::gat::level_for;
use crate::hubs::within;
use crate::simd::{AMD, Level};
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// Edges of one partial sum of the coefficients' gradient, whatever the number of threads.
const BLOCK: usize = 8192;

/// Lanes of the longest vector.
const MOST_LANES: usize = 16;

/// The gradient of the coefficients: `dcoef[t, b] = Σ w_e ⟨g[v, :], x[col_e, b·d..(b + 1)·d]⟩` over
/// the edges of type `t`, in a fixed order.
///
/// `a: [m, n]`, `types: [edges]` in its order, `x: [n, bases·d]`, `g: [m, d]`,
/// `dcoef: [types, bases]`.
///
/// # Panics
/// Like [`super::rspmm_into`].
pub fn coef_gradient_into(par: &Par, a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
    coef_gradient_at(level_for(g.ncols()), par, a, types, (x, g), dcoef);
}

pub(super) fn coef_gradient_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    types: &[u16],
    (x, g): (&Mat, &Mat),
    dcoef: &mut Mat,
) {
    const OP: &str = "coef_gradient";
    let (n_types, bases) = dcoef.dim();
    let d = g.ncols();
    expect_eq(OP, "x with rows", a.n_cols, x.nrows());
    expect_eq(OP, "x with columns", bases * d, x.ncols());
    expect_eq(OP, "g with rows", a.rows(), g.nrows());
    expect_eq(OP, "types of edges", a.n_edges(), types.len());
    expect_types(OP, types, n_types);
    dcoef.fill(0.0);
    if types.is_empty() || bases == 0 || d == 0 {
        return;
    }
    let r = Typed {
        a,
        types,
        coef: &[],
        bases,
        d,
    };
    let (x, g) = (flat(OP, x), flat(OP, g));
    let stride = n_types * bases;
    let mut scratch = par.scratch(types.len().div_ceil(BLOCK) * stride);
    let jobs = scratch.chunks_exact_mut(stride).enumerate().collect();
    par.run(jobs, |(block, sums): (usize, &mut [f32])| {
        let edges = block * BLOCK..((block + 1) * BLOCK).min(types.len());
        let mut wide = par.scratch(stride * MOST_LANES);
        let lanes = &mut wide[..];
        at_level!(
            level,
            type_dots(
                r: Typed<'_>, x: &[f32], g: &[f32], edges: Range<usize>, lanes: &mut [f32],
                sums: &mut [f32],
            )
        );
        par.recycle(wide);
    });
    let dcoef = flat_mut(OP, dcoef);
    for part in scratch.chunks_exact(stride) {
        dcoef
            .iter_mut()
            .zip(part)
            .for_each(|(to, from)| *to += from);
    }
    par.recycle(scratch);
}

/// The sums of one block. Products stay in lanes until all of its edges are over: adding the lanes of
/// each would take longer than multiplying.
#[inline(always)]
fn type_dots<V: Vector>(
    r: Typed<'_>,
    x: &[f32],
    g: &[f32],
    edges: Range<usize>,
    lanes: &mut [f32],
    sums: &mut [f32],
) {
    assert!(sums.len() * V::LANES <= lanes.len());
    // The row of the first edge: the last one that starts at or before it.
    let mut v = r.a.indptr.partition_point(|&at| at <= edges.start as u64) - 1;
    while v < r.a.rows() && r.a.span(v).start < edges.end {
        let span = within(r.a.span(v), &edges);
        let (g, mut first) = (&g[v * r.d..(v + 1) * r.d], 0);
        while first < r.d {
            first += by_width!(
                V,
                (r.d - first),
                dots_tile(r, x, g, span.clone(), first, lanes)
            );
        }
        v += 1;
    }
    for (sum, lanes) in sums.iter_mut().zip(lanes.chunks_exact(V::LANES)) {
        // SAFETY: a chunk has all lanes.
        *sum = unsafe { V::load(lanes.as_ptr()) }.sum();
    }
}

/// The columns from `first`, at most `N` vectors, of one row's edges; returns how many columns.
#[inline(always)]
fn dots_tile<V: Vector, const N: usize>(
    r: Typed<'_>,
    x: &[f32],
    g: &[f32],
    edges: Range<usize>,
    first: usize,
    lanes: &mut [f32],
) -> usize {
    let (stride, bases) = (r.bases * r.d, r.bases);
    let (mask, wide) = tile::<V, N>(first, r.d);
    assert!(r.a.n_cols * stride <= x.len() && g.len() == r.d && first + wide <= r.d);
    let asked = if *AMD { wide } else { 1 };
    // SAFETY: `first + wide <= d`, the length of `g`; the last vector is masked to `wide`.
    let g: [V; N] = std::array::from_fn(|n| unsafe { load::<V, N>(g[first..].as_ptr(), n, mask) });
    for e in edges {
        let u = r.column(e);
        if let Some(&next) = r.a.indices.get(e + AHEAD) {
            let row = x.as_ptr().wrapping_add(next as usize * stride + first);
            for b in 0..bases.min(8) {
                prefetch_row(row.wrapping_add(b * r.d), asked);
            }
        }
        let at = r.types[e] as usize * bases * V::LANES;
        let lanes = &mut lanes[at..at + bases * V::LANES];
        // SAFETY: `u < n_cols` and `n_cols * stride <= x.len()`, so base `b` of `u` lies within `x`; the
        // last vector is masked to `wide`. Every base has its lanes.
        unsafe {
            let w = V::splat(r.a.weight(e));
            for (b, to) in lanes.chunks_exact_mut(V::LANES).enumerate() {
                let from = x.as_ptr().add(u * stride + b * r.d + first);
                let mut dot = V::splat(0.0);
                for (n, &g) in g.iter().enumerate() {
                    dot = load::<V, N>(from, n, mask).mul_add(g, dot);
                }
                dot.mul_add(w, V::load(to.as_ptr())).store(to.as_mut_ptr());
            }
        }
    }
    wide
}
