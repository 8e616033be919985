//! Gradients of weights with few columns: a row of sums is a few vectors, to which each element of the left
//! operand adds its multiple of a row of the right one. The left operand is read in place, once: packing it, as wide
//! gradients do, would cost more than its few multiply-adds.
//!
//! Unsafe: loads and stores through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use crate::simd::Level;
use crate::vector::{Vector, at_level, prefetch};
use std::ops::Range;

/// Vectors of a row of sums at most.
const MOST: usize = 4;

/// Numbers of sums that stay near while rows go by. Fewer of them, and so more visits to a row, cost more than what
/// does not fit into the nearest cache: the row is fetched a few lines at a time.
const NEAR: usize = 8192;

/// Rows of the operands that are worked on together: their sums are added to those of the rows before, so that
/// rounding does not grow with all rows.
pub(super) const ROWS: usize = 192;

/// Columns of a padded row of sums; none where rows are not narrow.
pub(super) fn padded(level: Level, n: usize) -> Option<usize> {
    let lanes = match level {
        Level::Avx512 => 16,
        _ => 8,
    };
    let wide = n.next_multiple_of(lanes);
    (wide <= MOST * lanes).then_some(wide)
}

/// Some columns of rows of `x: [rows, k]`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) x: &'a [f32],
    pub(super) k: usize,
    pub(super) from: usize,
}

/// Adds `xᵀ · g` to `sums: [columns, wide]`; `g: [rows, wide]`, `wide` as [`padded`] says.
pub(super) fn add(level: Level, left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]) {
    at_level!(level, blocks(left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]));
}

#[inline(always)]
fn blocks<V: Vector>(left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]) {
    let mut own = [0.0; NEAR];
    for (b, sums) in sums.chunks_mut(NEAR / wide * wide).enumerate() {
        let from = left.from + b * (NEAR / wide);
        let (left, own) = (Left { from, ..left }, &mut own[..sums.len()]);
        own.fill(0.0);
        // As many rows at once as there are registers for (32 of 16 lanes, 16 of 8), of which some hold sums and an
        // element.
        match (wide / V::LANES, V::LANES) {
            (1, 16) => rows::<V, 1, 16>(left, g, own),
            (2, 16) => rows::<V, 2, 12>(left, g, own),
            (3, 16) => rows::<V, 3, 8>(left, g, own),
            (MOST, 16) => rows::<V, MOST, 6>(left, g, own),
            (1, _) => rows::<V, 1, 8>(left, g, own),
            (2, _) => rows::<V, 2, 6>(left, g, own),
            (3, _) => rows::<V, 3, 4>(left, g, own),
            (MOST, _) => rows::<V, MOST, 3>(left, g, own),
            (n, _) => unreachable!("a row of {n} vectors"),
        }
        for (sum, own) in sums.iter_mut().zip(&*own) {
            *sum += own;
        }
    }
}

#[inline(always)]
fn rows<V: Vector, const N: usize, const R: usize>(left: Left<'_>, g: &[f32], sums: &mut [f32]) {
    let all = g.len() / (N * V::LANES);
    let together = all / R * R;
    for r in (0..together).step_by(R) {
        some::<V, N, R>(left, r..all, g, sums);
    }
    for r in together..all {
        some::<V, N, 1>(left, r..all, g, sums);
    }
}

/// The first `R` of `rows`.
#[inline(always)]
fn some<V: Vector, const N: usize, const R: usize>(
    left: Left<'_>,
    rows: Range<usize>,
    g: &[f32],
    sums: &mut [f32],
) {
    const LINE: usize = 16;
    let Left { x, k, from } = left;
    let (wide, columns) = (N * V::LANES, sums.len() / (N * V::LANES));
    let first = rows.start;
    assert!(first + R <= rows.end && rows.end * k <= x.len() && rows.end * wide <= g.len());
    assert!(from + columns <= k);
    // SAFETY: this runs at the level of `V`. Rows `first..first + R` lie within `x` and `g`, columns `from..from +
    // columns` within a row of `x`, and `sums` has a row of `N` vectors for each of them (asserted above).
    unsafe {
        let mut right = [[V::splat(0.0); N]; R];
        for (r, right) in right.iter_mut().enumerate() {
            for (n, right) in right.iter_mut().enumerate() {
                *right = V::load(g.as_ptr().add((first + r) * wide + n * V::LANES));
            }
        }
        let x = x.as_ptr().add(first * k + from);
        for c in 0..columns {
            if c % LINE == 0 {
                for r in 2 * R..3 * R {
                    prefetch(x.wrapping_add(r * k + c));
                }
            }
            let to = sums.as_mut_ptr().add(c * wide);
            let mut acc = [V::splat(0.0); N];
            for (n, acc) in acc.iter_mut().enumerate() {
                *acc = V::load(to.add(n * V::LANES));
            }
            for (r, right) in right.iter().enumerate() {
                let element = V::splat(*x.add(r * k + c));
                for (n, acc) in acc.iter_mut().enumerate() {
                    *acc = right[n].mul_add(element, *acc);
                }
            }
            for (n, acc) in acc.into_iter().enumerate() {
                acc.store(to.add(n * V::LANES));
            }
        }
    }
}
