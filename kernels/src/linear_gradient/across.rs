//! Gradients of weights with few columns: vectors lie along the columns of the left operand, which is read in
//! place (packing it, as wide gradients do, would cost more than its few multiply-adds), and each element of a row of
//! the right one, of which there are few, is spread over a vector once for several of them. Sums are those of the
//! transposed gradient.
//!
//! Rows of both are fetched whole, in the order in which they lie, while the ones before are worked on strip by
//! strip: asking memory for strips of rows takes longer (`notebooks/measured/shapes.md`).
//!
//! Unsafe: loads and stores through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use super::add_rows;
use crate::Par;
use crate::simd::Level;
use crate::vector::{Vector, at_level, prefetch};

/// Columns of the right operand at most; of more both operands are packed.
const MOST: usize = 64;

/// The same where vectors are pairs, and with few registers where the left operand's rows are [`CROWDED`].
const MOST_OF_FEW: usize = 32;

/// Rows this far apart, or a multiple of it, fall into a few sets of the nearest cache: a strip of a block of them is
/// fetched again for every group.
const CROWDED: usize = 256;

/// Rows whose sums are added to those of the rows before, so that rounding does not grow with all rows.
const ROWS: usize = 192;

/// Rows of which a strip stays in the nearest cache for every group of the right operand's columns.
const BLOCK: usize = 48;

/// Columns of the right operand, and vectors of the left one, whose sums are in registers together.
const GROUP: usize = 8;
const STRIP: usize = 3;

/// The columns with few registers, of a strip of several vectors.
const GROUP_OF_FEW: usize = 4;

/// Rows from one request for lines to the next with few registers: it takes as long as some of their multiply-adds.
const EVERY: usize = 4;

/// Numbers of a cache line.
const LINE: usize = 16;

/// Columns of the left operand of one job at most: a block of them and the next lie in the second-level cache.
pub(super) const WIDEST: usize = 960;

/// Whether a gradient of `n` columns is summed here, for left operands of so many columns each.
pub(super) fn pays(level: Level, mut lefts: impl Iterator<Item = usize>, n: usize) -> bool {
    let crowded = |k: usize| k > 0 && k.is_multiple_of(CROWDED);
    let most = match level {
        Level::Avx512 => MOST,
        Level::Avx2 if !lefts.any(crowded) => MOST,
        Level::Avx2 | Level::Neon | Level::Scalar => MOST_OF_FEW,
    };
    n <= most
}

/// Whether a level has few registers: as many vectors as a tile of aggregation holds.
const fn few<V: Vector>() -> bool {
    V::TILE <= 8
}

/// Rows from one request for lines to the next.
const fn every<V: Vector>() -> usize {
    if few::<V>() { EVERY } else { 1 }
}

/// Numbers of a column's sums, those that fill the last vector included, and a line more where those of several
/// columns would fall into a few sets of the nearest cache.
fn padded(columns: usize) -> usize {
    let whole = columns.next_multiple_of(LINE);
    whole
        + if whole.is_multiple_of(CROWDED) {
            LINE
        } else {
            0
        }
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
                far: matches!(right, super::Right::Held(_)),
            };
            add(level, rows, &mut own[..mine.len()], mine);
        }
        // Now that they are near.
        if let Some(bias) = &mut job.bias {
            add_rows(level, g, bias);
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
    /// Whether the right operand's next rows lie behind these, where nobody has fetched them.
    far: bool,
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

/// What the next block will read: pieces of rows of the left operand, then rows of the right one.
#[derive(Clone, Copy)]
struct Next {
    /// The next line, and where its piece ends.
    line: *const f32,
    end: *const f32,
    /// Pieces from this one on; how far they begin behind the end of the one before, and behind each other's.
    pieces: usize,
    gap: usize,
    apart: usize,
    /// Where the right operand's rows begin, and how many numbers they are; none when they have begun.
    right: (*const f32, usize),
    /// Lines of one request.
    lines: usize,
}

impl Next {
    /// That of the block behind `rows`, in `requests`.
    fn behind(rows: Rows<'_>, requests: usize) -> Next {
        let Rows { x, k, columns, .. } = rows;
        let count = rows.g.len() / rows.n;
        let line = x.as_ptr().wrapping_add(count * k + rows.from);
        // Whole rows lie next to each other.
        let (pieces, piece) = if columns == k {
            (1, count * k)
        } else {
            (count, columns)
        };
        let right = if rows.far { rows.g.len() } else { 0 };
        let lines = pieces * (piece / LINE + 1) + right / LINE + 1;
        Next {
            line,
            end: line.wrapping_add(piece),
            pieces,
            gap: k - columns,
            apart: k,
            right: (rows.g.as_ptr_range().end, right),
            lines: lines.div_ceil(requests.max(1)),
        }
    }

    /// One request.
    #[inline(always)]
    fn ask(&mut self) {
        if self.pieces == 0 {
            return;
        }
        for l in 0..self.lines {
            prefetch(self.line.wrapping_add(l * LINE));
        }
        self.line = self.line.wrapping_add(self.lines * LINE);
        if self.line < self.end {
            return;
        }
        self.pieces -= 1;
        if self.pieces > 0 {
            self.line = self.end.wrapping_add(self.gap);
            self.end = self.end.wrapping_add(self.apart);
        } else if self.right.1 > 0 {
            self.line = self.right.0;
            self.end = self.line.wrapping_add(self.right.1);
            (self.pieces, self.right.1) = (1, 0);
        }
    }
}

#[inline(always)]
fn strips<V: Vector>(rows: Rows<'_>, sums: &mut [f32]) {
    let every = every::<V>();
    // Columns of a group beside so many vectors.
    let group = |strip: usize| {
        let most = if few::<V>() && strip > 1 {
            GROUP_OF_FEW
        } else {
            GROUP
        };
        rows.n.div_ceil(rows.n.div_ceil(most).max(1))
    };
    let vectors = rows.columns.div_ceil(V::LANES);
    let count = rows.g.len() / rows.n;
    let tiles = rows.n.div_ceil(group(STRIP)) * vectors.div_ceil(STRIP);
    let mut next = Next::behind(rows, (count / every).max(1) * tiles);
    let mut first = 0;
    while first < vectors {
        let strip = match vectors - first {
            // Two and two rather than three and one.
            4 => 2,
            left => left.min(STRIP),
        };
        let group = group(strip);
        for right in (0..rows.n).step_by(group) {
            let at = (first * V::LANES, right);
            // A mask takes a register, of which many are left or none.
            let whole = few::<V>() && (first + strip) * V::LANES <= rows.columns;
            macro_rules! tile {
                ($($n:literal)*) => {
                    match (group.min(rows.n - right), strip, whole) {
                        $(($n, 1, false) => tile::<V, $n, 1, false>(rows, at, &mut next, sums),
                          ($n, 2, false) => tile::<V, $n, 2, false>(rows, at, &mut next, sums),
                          ($n, _, false) => tile::<V, $n, STRIP, false>(rows, at, &mut next, sums),
                          ($n, 1, true) => tile::<V, $n, 1, true>(rows, at, &mut next, sums),
                          ($n, 2, true) => tile::<V, $n, 2, true>(rows, at, &mut next, sums),
                          ($n, _, true) => tile::<V, $n, STRIP, true>(rows, at, &mut next, sums),)*
                        (n, _, _) => unreachable!("a group of {n} columns"),
                    }
                };
            }
            tile!(1 2 3 4 5 6 7 8);
        }
        first += strip;
    }
}

/// The sums of `N` columns of the right operand and `S` vectors of the left one, which begin at those columns; all
/// of the last vector's exist where `WHOLE` says so.
#[inline(always)]
fn tile<V: Vector, const N: usize, const S: usize, const WHOLE: bool>(
    rows: Rows<'_>,
    (left, right): (usize, usize),
    next: &mut Next,
    sums: &mut [f32],
) {
    if few::<V>() && S > 1 && N > GROUP_OF_FEW || WHOLE && !few::<V>() {
        unreachable!(
            "a group has at most {GROUP_OF_FEW} columns, and whole strips of their own where registers are few"
        );
    }
    let every = every::<V>();
    let Rows {
        x,
        k,
        from,
        columns,
        g,
        n,
        ..
    } = rows;
    let (count, wide) = (g.len() / n, padded(columns));
    let tail = (columns - left).min(S * V::LANES) - (S - 1) * V::LANES;
    assert!(left + (S - 1) * V::LANES < columns && from + columns <= k && count * k <= x.len());
    assert!(right + N <= n && n * wide <= sums.len() && tail <= V::LANES);
    assert!(!WHOLE || tail == V::LANES);
    // SAFETY: this runs at the level of `V`. Columns up to `columns` of `count` rows lie within `x`, of whose last
    // vector only those are read; `N` numbers from `right` on lie in each row of `g`; and `sums` has `wide`
    // numbers for each of them, which whole vectors end at or before (asserted above).
    unsafe {
        let mask = V::mask(tail);
        let to = sums.as_mut_ptr().add(right * wide + left);
        let mut acc = [[V::splat(0.0); S]; N];
        for (c, acc) in acc.iter_mut().enumerate() {
            for (s, acc) in acc.iter_mut().enumerate() {
                *acc = V::load(to.add(c * wide + s * V::LANES));
            }
        }
        let mut ahead = *next;
        let mut row = x.as_ptr().wrapping_add(from + left);
        let mut elements = g.as_ptr().wrapping_add(right);
        // The next strip, which the second-level cache holds, for the last group; nothing new for the others.
        let behind = if right + N == n {
            S * V::LANES + LINE
        } else {
            0
        };
        macro_rules! add_row {
            () => {
                if few::<V>() {
                    prefetch(row.wrapping_add(behind));
                }
                let mut vectors = [V::splat(0.0); S];
                for (s, vector) in vectors.iter_mut().enumerate() {
                    let p = row.add(s * V::LANES);
                    *vector = if WHOLE || s + 1 < S {
                        V::load(p)
                    } else {
                        V::load_first(p, mask)
                    };
                }
                for (c, acc) in acc.iter_mut().enumerate() {
                    let element = V::splat(*elements.add(c));
                    for (s, acc) in acc.iter_mut().enumerate() {
                        *acc = vectors[s].mul_add(element, *acc);
                    }
                }
                row = row.wrapping_add(k);
                elements = elements.wrapping_add(n);
            };
        }
        for _ in 0..count / every {
            ahead.ask();
            for _ in 0..every {
                add_row!();
            }
        }
        for _ in 0..count % every {
            add_row!();
        }
        *next = ahead;
        for (c, acc) in acc.into_iter().enumerate() {
            for (s, acc) in acc.into_iter().enumerate() {
                acc.store(to.add(c * wide + s * V::LANES));
            }
        }
    }
}
