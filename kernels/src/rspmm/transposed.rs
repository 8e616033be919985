//! The gradient of the gathered rows: the aggregation over the transposed graph.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Relations;
use super::typed::{Sides, Typed, by_width, load, store, tile, typed_sums};
use crate::gat::level_for;
use crate::hubs::within;
use crate::simd::Level;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par};

/// The gradient of `x`: `dx[u, b·d..(b + 1)·d] = Σ w_e coef[type_e, b] · g[v, :]` over the edges from
/// `u`, for the sources in `rows`; others stay as they are.
///
/// `at: [n, m]` is the transposed graph with its weights and `rel.types` in its order
/// ([`crate::csr::transposed`]); `g: [m, d]`, `dx: [n, bases·d]`.
///
/// # Panics
/// Like [`super::rspmm_into`].
pub fn rspmm_t_into(
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    g: &Mat,
    dx: &mut Mat,
) {
    rspmm_t_at(level_for(g.ncols()), par, at, rows, rel, g, dx);
}

pub(super) fn rspmm_t_at(
    level: Level,
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    g: &Mat,
    dx: &mut Mat,
) {
    let sides = Sides {
        op: "rspmm_t",
        from: ("g", g),
        columns: [dx.ncols(), g.ncols()],
        to: ("dx", dx),
    };
    typed_sums(par, at, rows, rel, sides, |r, g, rows, edges, dx| {
        at_level!(
            level,
            spread(r: Typed<'_>, g: &[f32], rows: Range<usize>, edges: Range<usize>, dx: &mut [f32])
        );
    });
}

#[inline(always)]
fn spread<V: Vector>(
    r: Typed<'_>,
    g: &[f32],
    rows: Range<usize>,
    edges: Range<usize>,
    dx: &mut [f32],
) {
    for (u, dx) in rows.zip(dx.chunks_exact_mut(r.bases * r.d)) {
        let span = within(r.a.span(u), &edges);
        // Four bases at a time, so that a gathered row serves as many sums.
        for base in (0..r.bases).step_by(4) {
            let mut first = 0;
            while first < r.d {
                first += by_width!(
                    V,
                    (r.d - first),
                    spread_tile(r, g, span.clone(), base, first, dx)
                );
            }
        }
    }
}

#[inline(always)]
fn spread_tile<V: Vector, const N: usize>(
    r: Typed<'_>,
    g: &[f32],
    edges: Range<usize>,
    base: usize,
    first: usize,
    dx: &mut [f32],
) -> usize {
    let (mask, wide) = tile::<V, N>(first, r.d);
    assert!(r.a.n_cols * r.d <= g.len() && dx.len() == r.bases * r.d && base < r.bases);
    let bases = (r.bases - base).min(4);
    // SAFETY: a constant vector.
    let mut sums = [[unsafe { V::splat(0.0) }; N]; 4];
    for e in edges {
        let (v, coef) = r.edge(e);
        if let Some(&next) = r.a.indices.get(e + AHEAD) {
            let row = g.as_ptr().wrapping_add(next as usize * r.d + first);
            prefetch_row(row, wide);
        }
        let w = r.a.weight(e);
        let mut k = [0.0; 4];
        for (k, c) in k.iter_mut().zip(&coef[base..base + bases]) {
            *k = w * c;
        }
        for n in 0..N {
            // SAFETY: `v < n_cols`, `n_cols * d <= g.len()` and `first + wide <= d`; masked.
            unsafe {
                let from: V = load::<V, N>(g.as_ptr().add(v * r.d + first), n, mask);
                for (sum, &k) in sums.iter_mut().zip(&k) {
                    sum[n] = from.mul_add(V::splat(k), sum[n]);
                }
            }
        }
    }
    for (b, sum) in sums.into_iter().enumerate().take(bases) {
        // SAFETY: `base + b < bases` and `first + wide <= d`, so the tile lies within `dx`.
        unsafe { store::<V, N>(sum, dx.as_mut_ptr().add((base + b) * r.d + first), mask) }
    }
    wide
}
