//! Gradients of weights with few columns where there are few registers: a row of sums is a few vectors, to which
//! each element of the left operand adds its multiple of a row of the right one. The left operand is read in place,
//! once: packing it, as wide gradients do, would cost more than its few multiply-adds.
//!
//! Unsafe: loads and stores through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use super::add_rows;
use crate::Par;
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
const ROWS: usize = 192;

/// Numbers of a vector.
const LANES: usize = 8;

/// Columns of a padded row of sums; none where rows are not narrow.
pub(super) fn padded(n: usize) -> Option<usize> {
    let wide = n.next_multiple_of(LANES);
    (wide <= MOST * LANES).then_some(wide)
}

/// A job for `n` columns; `wide` with those that fill the last vector.
pub(super) fn lane(
    level: Level,
    par: &Par,
    mut job: super::Job<'_>,
    right: &super::Right<'_>,
    (n, wide): (usize, usize),
) {
    let pad = wide != n;
    let len = |columns: usize| if pad { columns * wide } else { 0 };
    let all: usize = job.lefts.iter().map(|left| len(left.columns.len())).sum();
    let room = right.room(ROWS, n);
    let mut scratch = par.scratch(all + len(ROWS) + room);
    let (rows, rest) = scratch.split_at_mut(len(ROWS));
    let (made, sums) = rest.split_at_mut(room);
    for from in job.rows.clone().step_by(ROWS) {
        let to = (from + ROWS).min(job.rows.end);
        let mut gs = right.rows(from..to, n, made);
        if let Some(bias) = &mut job.bias {
            add_rows(level, gs, bias);
        }
        if pad {
            for (row, g) in rows.chunks_exact_mut(wide).zip(gs.chunks_exact(n)) {
                row[..n].copy_from_slice(g);
            }
            gs = &rows[..(to - from) * wide];
        }
        let mut padded = &mut *sums;
        for left in &mut job.lefts {
            let (mine, rest) = padded.split_at_mut(len(left.columns.len()));
            padded = rest;
            let rows = Left {
                x: &left.x[from * left.k..to * left.k],
                k: left.k,
                from: left.columns.start,
            };
            add(level, rows, gs, wide, if pad { mine } else { left.sums });
        }
    }
    if pad {
        let mut padded = &sums[..];
        for left in &mut job.lefts {
            let (mine, rest) = padded.split_at(len(left.columns.len()));
            padded = rest;
            for (to, from) in left.sums.chunks_exact_mut(n).zip(mine.chunks_exact(wide)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
    }
    par.recycle(scratch);
}

/// Some columns of rows of `x: [rows, k]`.
#[derive(Clone, Copy)]
struct Left<'a> {
    x: &'a [f32],
    k: usize,
    from: usize,
}

/// Adds `xᵀ · g` to `sums: [columns, wide]`; `g: [rows, wide]`, `wide` as [`padded`] says.
fn add(level: Level, left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]) {
    at_level!(level, blocks(left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]));
}

#[inline(always)]
fn blocks<V: Vector>(left: Left<'_>, g: &[f32], wide: usize, sums: &mut [f32]) {
    assert_eq!(V::LANES, LANES, "narrow: lanes of a vector");
    let mut own = [0.0; NEAR];
    for (b, sums) in sums.chunks_mut(NEAR / wide * wide).enumerate() {
        let from = left.from + b * (NEAR / wide);
        let (left, own) = (Left { from, ..left }, &mut own[..sums.len()]);
        own.fill(0.0);
        // As many rows at once as 16 registers have room for, of which some hold sums and an element.
        match wide / LANES {
            1 => rows::<V, 1, 8>(left, g, own),
            2 => rows::<V, 2, 6>(left, g, own),
            3 => rows::<V, 3, 4>(left, g, own),
            MOST => rows::<V, MOST, 3>(left, g, own),
            n => unreachable!("a row of {n} vectors"),
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
