//! The aggregation itself.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Relations;
use super::typed::{Sides, Typed, by_width, load, store, tile, typed_sums};
use crate::gat::level_for;
use crate::hubs::within;
use crate::simd::{AMD, Level};
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par};

/// Writes `out[v, :] = Σ_e w_e Σ_b coef[type_e, b] · x[col_e, b·d..(b + 1)·d]` for the rows in
/// `rows` and leaves the others.
///
/// `a: [m, n]`, `x: [n, bases·d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, an index of `a` is not below `n`, or a type has no
/// row in `coef`.
pub fn rspmm_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    x: &Mat,
    out: &mut Mat,
) {
    rspmm_at(level_for(out.ncols()), par, a, rows, rel, x, out);
}

pub(super) fn rspmm_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    x: &Mat,
    out: &mut Mat,
) {
    let sides = Sides {
        op: "rspmm",
        from: ("x", x),
        columns: [x.ncols(), out.ncols()],
        to: ("out", out),
    };
    typed_sums(par, a, rows, rel, sides, |r, x, rows, edges, out| {
        at_level!(
            level,
            mix(r: Typed<'_>, x: &[f32], rows: Range<usize>, edges: Range<usize>, out: &mut [f32])
        );
    });
}

#[inline(always)]
fn mix<V: Vector>(
    r: Typed<'_>,
    x: &[f32],
    rows: Range<usize>,
    edges: Range<usize>,
    out: &mut [f32],
) {
    for (v, out) in rows.zip(out.chunks_exact_mut(r.d)) {
        let span = within(r.a.span(v), &edges);
        let mut first = 0;
        while first < r.d {
            first += by_width!(V, (r.d - first), mix_tile(r, x, span.clone(), first, out));
        }
    }
}

#[inline(always)]
fn mix_tile<V: Vector, const N: usize>(
    r: Typed<'_>,
    x: &[f32],
    edges: Range<usize>,
    first: usize,
    out: &mut [f32],
) -> usize {
    let stride = r.bases * r.d;
    let (mask, wide) = tile::<V, N>(first, r.d);
    assert!(r.a.n_cols * stride <= x.len() && first + wide <= r.d && out.len() == r.d);
    // See `crate::spmm_tile`: AMD's processors wait for what nobody asked for.
    let asked = if *AMD { wide } else { 1 };
    // SAFETY: a constant vector.
    let mut sum = [unsafe { V::splat(0.0) }; N];
    for e in edges {
        let (u, coef) = r.edge(e);
        if let Some(&next) = r.a.indices.get(e + AHEAD) {
            let row = x.as_ptr().wrapping_add(next as usize * stride + first);
            for b in 0..r.bases.min(8) {
                prefetch_row(row.wrapping_add(b * r.d), asked);
            }
        }
        let w = r.a.weight(e);
        for (b, k) in coef.iter().enumerate() {
            // SAFETY: `u < n_cols`, `n_cols * stride <= x.len()`, `b < bases` and
            // `first + wide <= d`; the last vector is masked to `wide`.
            unsafe {
                let k = V::splat(w * k);
                let from = x.as_ptr().add(u * stride + b * r.d + first);
                for (n, sum) in sum.iter_mut().enumerate() {
                    *sum = load::<V, N>(from, n, mask).mul_add(k, *sum);
                }
            }
        }
    }
    // SAFETY: `first + wide <= d`, the length of `out`; masked like the loads.
    unsafe { store::<V, N>(sum, out.as_mut_ptr().add(first), mask) }
    wide
}
