//! Gradients of weights with few columns where there are many registers: vectors lie along the columns of the
//! left operand, which is read in place, and each element of a row of the right one, of which there are few, is
//! spread over a vector once for several of them. Sums are those of the transposed gradient.
//!
//! Rows are fetched whole, in the order in which they lie, while the ones before are worked on strip by strip:
//! asking memory for strips of rows takes longer (`notebooks/measured/shapes.md`).
//!
//! Unsafe: loads and stores through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use super::add_rows;
use crate::Par;
use crate::simd::Level;
use crate::vector::{Vector, at_level, prefetch};

/// Columns of the right operand at most; of more both operands are packed.
const MOST: usize = 64;

/// Rows whose sums are added to those of the rows before, so that rounding does not grow with all rows.
const ROWS: usize = 192;

/// Rows of which a strip stays in the nearest cache for every group of the right operand's columns.
const BLOCK: usize = 48;

/// Columns of the right operand, and vectors of the left one, whose sums are in registers together.
const GROUP: usize = 8;
const STRIP: usize = 3;

/// Numbers of a cache line.
const LINE: usize = 16;

/// Columns of the left operand of one job at most: a block of them and the next lie in the second-level cache.
pub(super) const WIDEST: usize = 960;

/// Whether a gradient of `n` columns is summed here.
pub(super) fn pays(level: Level, n: usize) -> bool {
    level == Level::Avx512 && n <= MOST
}

/// Numbers of a column's sums, those that fill the last vector included.
fn padded(columns: usize) -> usize {
    columns.next_multiple_of(16)
}

/// A job for `n` columns.
pub(super) fn lane(
    level: Level,
    par: &Par,
    mut job: super::Job<'_>,
    right: &super::Right<'_>,
    n: usize,
) {
    let len = |left: &super::Left<'_>| n * padded(left.columns.len());
    let all: usize = job.lefts.iter().map(len).sum();
    let most = job.lefts.iter().map(len).max().unwrap_or(0);
    let room = right.room(ROWS, n);
    let mut scratch = par.scratch(all + most + room);
    let (made, rest) = scratch.split_at_mut(room);
    let (own, sums) = rest.split_at_mut(most);
    for from in job.rows.clone().step_by(ROWS) {
        let to = (from + ROWS).min(job.rows.end);
        let g = right.rows(from..to, n, made);
        if let Some(bias) = &mut job.bias {
            add_rows(level, g, bias);
        }
        let mut rest = &mut *sums;
        for left in &job.lefts {
            let (mine, others) = rest.split_at_mut(len(left));
            rest = others;
            let rows = Rows {
                x: &left.x[from * left.k..],
                k: left.k,
                from: left.columns.start,
                columns: left.columns.len(),
                g,
                n,
            };
            add(level, rows, &mut own[..mine.len()], mine);
        }
    }
    let mut rest = &sums[..];
    for left in &mut job.lefts {
        let wide = padded(left.columns.len());
        let (mine, others) = rest.split_at(n * wide);
        rest = others;
        for (c, to) in left.sums.chunks_exact_mut(n).enumerate() {
            for (j, to) in to.iter_mut().enumerate() {
                *to += mine[j * wide + c];
            }
        }
    }
    par.recycle(scratch);
}

/// Rows of both operands.
#[derive(Clone, Copy)]
struct Rows<'a> {
    /// `[rows, k]`, and those that come next.
    x: &'a [f32],
    k: usize,
    /// The columns of `x` that are read.
    from: usize,
    columns: usize,
    /// `[rows, n]`.
    g: &'a [f32],
    n: usize,
}

/// Adds `gᵀ · x` to `sums: [n, padded]`, by way of as many numbers of `own`.
fn add(level: Level, rows: Rows<'_>, own: &mut [f32], sums: &mut [f32]) {
    own.fill(0.0);
    at_level!(level, blocks(rows: Rows<'_>, own: &mut [f32]));
    sums.iter_mut()
        .zip(&*own)
        .for_each(|(sum, own)| *sum += own);
}

#[inline(always)]
fn blocks<V: Vector>(all: Rows<'_>, sums: &mut [f32]) {
    for (b, g) in all.g.chunks(BLOCK * all.n).enumerate() {
        let x = &all.x[b * BLOCK * all.k..];
        strips::<V>(Rows { x, g, ..all }, sums);
    }
}

/// Where a tile's operands and sums begin.
#[derive(Clone, Copy)]
struct At {
    /// The first of the left operand's columns, from where reading begins, and of the right one's.
    left: usize,
    right: usize,
    /// How many numbers of the next block have been asked for, and lines for each row.
    ahead: usize,
    lines: usize,
}

#[inline(always)]
fn strips<V: Vector>(rows: Rows<'_>, sums: &mut [f32]) {
    let groups = rows.n.div_ceil(GROUP);
    let group = rows.n.div_ceil(groups.max(1));
    let vectors = rows.columns.div_ceil(V::LANES);
    let count = rows.g.len() / rows.n;
    let lines = STRIP.div_ceil(groups);
    let (mut first, mut ahead) = (0, 0);
    while first < vectors {
        let strip = match vectors - first {
            // Two and two rather than three and one.
            4 => 2,
            left => left.min(STRIP),
        };
        for right in (0..rows.n).step_by(group) {
            let at = At {
                left: first * V::LANES,
                right,
                ahead,
                lines,
            };
            ahead += count * lines * LINE;
            macro_rules! tile {
                ($($n:literal)*) => {
                    match (group.min(rows.n - right), strip) {
                        $(($n, 1) => tile::<V, $n, 1>(rows, at, sums),
                          ($n, 2) => tile::<V, $n, 2>(rows, at, sums),
                          ($n, _) => tile::<V, $n, STRIP>(rows, at, sums),)*
                        (n, _) => unreachable!("a group of {n} columns"),
                    }
                };
            }
            tile!(1 2 3 4 5 6 7 8);
        }
        first += strip;
    }
}

/// The sums of `N` columns of the right operand and `S` vectors of the left one.
#[inline(always)]
fn tile<V: Vector, const N: usize, const S: usize>(rows: Rows<'_>, at: At, sums: &mut [f32]) {
    let Rows {
        x,
        k,
        from,
        columns,
        g,
        n,
    } = rows;
    let (count, wide) = (g.len() / n, padded(columns));
    let tail = (columns - at.left).min(S * V::LANES) - (S - 1) * V::LANES;
    assert!(at.left + (S - 1) * V::LANES < columns && from + columns <= k && count * k <= x.len());
    assert!(at.right + N <= n && n * wide <= sums.len() && tail <= V::LANES);
    // SAFETY: this runs at the level of `V`. Columns up to `columns` of `count` rows lie within `x`, of whose last
    // vector only those are read; `N` numbers from `right` on lie in each row of `g`; and `sums` has `wide`
    // numbers for each of them, which whole vectors end at or before (asserted above).
    unsafe {
        let mask = V::mask(tail);
        let to = sums.as_mut_ptr().add(at.right * wide + at.left);
        let mut acc = [[V::splat(0.0); S]; N];
        for (c, acc) in acc.iter_mut().enumerate() {
            for (s, acc) in acc.iter_mut().enumerate() {
                *acc = V::load(to.add(c * wide + s * V::LANES));
            }
        }
        // Pieces of rows lie apart; whole rows lie next to each other.
        let piece = if columns == k { count * k } else { columns };
        let (row, asked) = (count + at.ahead / piece, at.ahead % piece);
        let mut line = x.as_ptr().wrapping_add(row * k + from + asked);
        let mut end = line.wrapping_add(piece - asked);
        for r in 0..count {
            for l in 0..at.lines {
                prefetch(line.wrapping_add(l * LINE));
            }
            line = line.wrapping_add(at.lines * LINE);
            if line >= end {
                line = end.wrapping_add(k - columns);
                end = end.wrapping_add(k);
            }
            let row = x.as_ptr().add(r * k + from + at.left);
            let mut left = [V::splat(0.0); S];
            for (s, left) in left.iter_mut().enumerate() {
                let p = row.add(s * V::LANES);
                *left = if s + 1 < S {
                    V::load(p)
                } else {
                    V::load_first(p, mask)
                };
            }
            let right = g.as_ptr().add(r * n + at.right);
            for (c, acc) in acc.iter_mut().enumerate() {
                let element = V::splat(*right.add(c));
                for (s, acc) in acc.iter_mut().enumerate() {
                    *acc = left[s].mul_add(element, *acc);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            for (s, acc) in acc.into_iter().enumerate() {
                acc.store(to.add(c * wide + s * V::LANES));
            }
        }
    }
}
