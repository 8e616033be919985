//! Sums of wide rows of attention where vectors' registers are few: coefficients are written for some edges first, and
//! each piece of the columns, whose sums stay in registers, reads them back a number at a time, spread over a vector.
//! To make them again for each piece, and to pick each vector's out of those of all heads, takes longer.
//!
//! Edges are added in their order, as [`crate::gat_sum::sum`] adds them elsewhere.
//!
//! Unsafe: loads and stores through pointers, behind checks in the same function.
#![allow(unsafe_code)]

use crate::gat_layout::{HALF, ONE, WHOLE, of_heads};
use crate::gat_sum::{Close, Edges, Rows, Run, Sums, Terms};
use crate::simd::Level;
use crate::spmm_tile::prefetch_row;
use crate::vector::{Vector, at_level};

/// Vectors of a piece at most: two sums of each, and what is multiplied, are 15 registers.
const MOST: usize = 6;

/// Vectors of all heads that need no pieces.
const FEW: usize = 4;

/// Numbers of rows that all pieces are done with before the next ones, and edges at least: more of them take longer out
/// of the caches (`notebooks/measured/kernels.md`).
const NEAR: usize = 4096;
const EDGES: usize = 16;

/// Columns of some heads whose sums are in registers together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// The first head, and how many.
    head: usize,
    heads: usize,
    /// The first column, and vectors of all heads.
    column: usize,
    vectors: usize,
    /// Columns of each head's last vector.
    tail: usize,
}

/// How rows are cut.
#[derive(Debug)]
pub(crate) struct Pieces {
    all: Vec<Piece>,
    /// Coefficients of an edge that are written: all heads, and what fills their vectors.
    stride: usize,
    /// Edges whose coefficients are written together.
    pub(crate) edges: usize,
}

impl Pieces {
    /// Of `heads` heads of `width` columns in vectors of `lanes`, where it pays: where sums of all columns do not fit
    /// into registers, and heads fill vectors of their own.
    pub(crate) fn new(heads: usize, width: usize, lanes: usize) -> Option<Pieces> {
        let vectors = width.div_ceil(lanes);
        let full = heads == 1 || width >= lanes && 4 * width >= 3 * vectors * lanes;
        if !full || heads.min(lanes) * vectors <= FEW {
            return None;
        }
        let mut all = Vec::new();
        let mut head = 0;
        while head < heads {
            let left = heads - head;
            let together = match vectors {
                1 if left >= 4 => 4,
                2 => left.min(3),
                1 | 3 => left.min(2),
                _ => 1,
            };
            let mut first = 0;
            while first < vectors {
                // No vector alone.
                let some = match vectors - first {
                    left @ ..=MOST => left,
                    7 => 4,
                    _ => MOST,
                };
                let last = first + some == vectors;
                all.push(Piece {
                    head,
                    heads: together,
                    column: head * width + first * lanes,
                    vectors: together * some,
                    tail: if last {
                        width - (vectors - 1) * lanes
                    } else {
                        lanes
                    },
                });
                first += some;
            }
            head += together;
        }
        let most = match all.len() {
            1 => usize::MAX,
            _ => (NEAR / (heads * width)).max(EDGES),
        };
        Some(Pieces {
            all,
            stride: match heads {
                1 => 1,
                _ => heads.next_multiple_of(lanes),
            },
            edges: crate::gat::chunk(heads).min(most),
        })
    }

    /// Room for the coefficients of as many edges as are written together, in vectors of `lanes`.
    pub(crate) fn room(&self, lanes: usize) -> Vec<f32> {
        vec![0.0; self.edges * self.stride + lanes]
    }
}

/// Coefficients in memory.
#[derive(Clone, Copy)]
pub(crate) struct Coefficients<'a> {
    /// `[edges, stride]`.
    pub(crate) row: &'a [f32],
    /// Zero where the score is not positive; not read without sums of those.
    pub(crate) positive: &'a [f32],
    pub(crate) stride: usize,
}

/// Writes the coefficients of `edges`, at most as many as [`Pieces::edges`], to `made`, and adds to the totals of `to`,
/// which begin and are closed as `run` says.
#[inline(always)]
pub(crate) fn write<'m, V: Vector, T: Terms<V>, const POSITIVE: bool>(
    pieces: &Pieces,
    edges: Edges<'_>,
    heads: usize,
    terms: T,
    run: Run,
    made: &'m mut [Vec<f32>; 2],
    to: &mut Sums<'_>,
) -> Coefficients<'m> {
    for head in (0..heads).step_by(V::LANES) {
        match heads - head {
            1 => write_some::<V, T, POSITIVE, ONE>(pieces, edges, head, 1, terms, run, made, to),
            n if 2 * n <= V::LANES => {
                write_some::<V, T, POSITIVE, HALF>(pieces, edges, head, n, terms, run, made, to);
            }
            n => {
                let n = n.min(V::LANES);
                write_some::<V, T, POSITIVE, WHOLE>(pieces, edges, head, n, terms, run, made, to);
            }
        }
    }
    let [row, positive] = made;
    Coefficients {
        row,
        positive,
        stride: pieces.stride,
    }
}

/// [`write`] for `some` heads from `head` on.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn write_some<V: Vector, T: Terms<V>, const POSITIVE: bool, const HEADS: u8>(
    pieces: &Pieces,
    edges: Edges<'_>,
    head: usize,
    some: usize,
    terms: T,
    run: Run,
    [row, positive]: &mut [Vec<f32>; 2],
    to: &mut Sums<'_>,
) {
    let stride = pieces.stride;
    let room = edges.rows().len() * stride + V::LANES;
    assert!(row.len() >= room && (!POSITIVE || positive.len() >= room));
    assert!(some <= V::LANES && head + some <= to.total.len() && head < stride);
    assert!(!POSITIVE || head + some <= to.total_positive.len());
    // SAFETY: this runs at the level of `V`. The heads are within all, of which `terms` has been checked with the rows
    // and edges; an edge's vector of coefficients ends within a vector behind its own `stride` (asserted above).
    unsafe {
        let (zero, mask, one) = (V::splat(0.0), V::mask(some), V::mask(1));
        let own = terms.own::<HEADS>(head, mask);
        let (mut total, mut above) = (zero, zero);
        if !run.begins {
            total = of_heads::<V, HEADS>(to.total.as_ptr().add(head), mask);
            if POSITIVE {
                above = of_heads::<V, HEADS>(to.total_positive.as_ptr().add(head), mask);
            }
        }
        let (mut row, mut positive) = (
            row.as_mut_ptr().add(head),
            positive.as_mut_ptr().wrapping_add(head),
        );
        for (i, &r) in edges.rows().iter().enumerate() {
            terms.ask(edges.later(i));
            let term = terms.term::<HEADS>(&own, i, r as usize, head, mask);
            total = total.add(term.total);
            // One number alone, or a vector whose other lanes nobody reads.
            store(term.row, row, HEADS == ONE, one);
            row = row.add(stride);
            if POSITIVE {
                above = above.add(term.total_positive);
                store(term.positive, positive, HEADS == ONE, one);
                positive = positive.add(stride);
            }
        }
        match run.close {
            Close::Not => {}
            Close::Divide => above = above.mul(V::splat(1.0).over(total)),
            Close::Slope(slope) => {
                above = above.mul_add(V::splat(1.0 - slope), total.mul(V::splat(slope)));
            }
        }
        total.store_first(to.total.as_mut_ptr().add(head), mask);
        if POSITIVE {
            above.store_first(to.total_positive.as_mut_ptr().add(head), mask);
        }
    }
}

/// Adds what `edges` gather times their coefficients to the rows of `to`, whose totals are those of all edges.
///
/// The processor has AVX2, whose vectors alone are [`Vector::BY_PIECES`]. It is compiled once, not in each caller.
pub(crate) fn add<const POSITIVE: bool>(
    pieces: &Pieces,
    x: Rows<'_>,
    edges: Edges<'_>,
    by: Coefficients<'_>,
    run: Run,
    to: &mut Sums<'_>,
) {
    macro_rules! call {
        ($f:ident) => {
            at_level!(
                Level::Avx2,
                $f(
                    pieces: &Pieces, x: Rows<'_>, edges: Edges<'_>, by: Coefficients<'_>, run: Run,
                    to: &mut Sums<'_>,
                )
            )
        };
    }
    match POSITIVE {
        true => call!(with_positive),
        false => call!(without),
    }
}

#[inline(always)]
fn with_positive<V: Vector>(
    pieces: &Pieces,
    x: Rows<'_>,
    edges: Edges<'_>,
    by: Coefficients<'_>,
    run: Run,
    to: &mut Sums<'_>,
) {
    each::<V, true>(pieces, x, edges, by, run, to);
}

#[inline(always)]
fn without<V: Vector>(
    pieces: &Pieces,
    x: Rows<'_>,
    edges: Edges<'_>,
    by: Coefficients<'_>,
    run: Run,
    to: &mut Sums<'_>,
) {
    each::<V, false>(pieces, x, edges, by, run, to);
}

/// [`add`], piece by piece.
#[inline(always)]
fn each<V: Vector, const POSITIVE: bool>(
    pieces: &Pieces,
    x: Rows<'_>,
    edges: Edges<'_>,
    by: Coefficients<'_>,
    run: Run,
    to: &mut Sums<'_>,
) {
    if !V::BY_PIECES {
        unreachable!("rows of these vectors are not cut into pieces");
    }
    for piece in &pieces.all {
        macro_rules! by_vectors {
            ($(($n:literal $heads:literal))*) => {
                match (piece.vectors, piece.heads, piece.tail == V::LANES) {
                    $(($n, $heads, true) => one::<V, POSITIVE, $n, $heads, true>(x, edges, piece, by, run, to),
                      ($n, $heads, false) => one::<V, POSITIVE, $n, $heads, false>(x, edges, piece, by, run, to),)*
                    (n, heads, _) => unreachable!("a piece of {n} vectors of {heads} heads"),
                }
            };
        }
        by_vectors!((1 1)(2 1)(3 1)(4 1)(5 1)(6 1)(2 2)(4 2)(6 2)(6 3)(4 4));
    }
}

/// [`add`] of one piece; each head's last vector has all lanes where `FULL` says so.
#[inline(always)]
fn one<V: Vector, const POSITIVE: bool, const N: usize, const HEADS: usize, const FULL: bool>(
    x: Rows<'_>,
    edges: Edges<'_>,
    piece: &Piece,
    by: Coefficients<'_>,
    run: Run,
    to: &mut Sums<'_>,
) {
    let (each, d, width) = (N / HEADS, x.heads * x.width, x.width);
    let (rows, head) = (edges.rows(), piece.head);
    // Of a vector, from the piece's first column on; heads are next to each other, and full ones have no gaps.
    let at = |n: usize| match FULL {
        true => n * V::LANES,
        false => n / each * width + n % each * V::LANES,
    };
    let last = piece.column + at(N - 1) + if FULL { V::LANES } else { piece.tail };
    assert!(last <= d && to.row.len() == d && (!POSITIVE || to.positive.len() == d));
    assert!(edges.below() <= x.n && x.are_there());
    assert!(HEADS == 1 || !FULL || width == each * V::LANES);
    assert!(head + HEADS <= by.stride && by.row.len() >= rows.len() * by.stride);
    assert!(!POSITIVE || by.positive.len() >= rows.len() * by.stride);
    let divides = matches!(run.close, Close::Divide);
    assert!(!divides || head + HEADS <= to.total.len());
    // SAFETY: this runs at the level of `V`. Columns of the piece lie within those of a row, edges gather rows of
    // which `x` has as many, and each edge has its heads' coefficients (asserted above).
    unsafe {
        let mask = V::mask(piece.tail);
        // Whether a vector is a head's last, of which some lanes are columns.
        let part = |n: usize| !FULL && n % each == each - 1;
        let (sums, positive) = (
            to.row.as_mut_ptr().add(piece.column),
            to.positive.as_mut_ptr().wrapping_add(piece.column),
        );
        let (mut acc, mut above) = ([V::splat(0.0); N], [V::splat(0.0); N]);
        if !run.begins {
            for n in 0..N {
                acc[n] = load(sums.add(at(n)), part(n), mask);
                if POSITIVE {
                    above[n] = load(positive.add(at(n)), part(n), mask);
                }
            }
        }
        let (x, stride) = (x.x.as_ptr().add(piece.column), x.stride);
        let (mut p, mut q) = (
            by.row.as_ptr().add(head),
            by.positive.as_ptr().wrapping_add(head),
        );
        for (i, &r) in rows.iter().enumerate() {
            prefetch_row(x.wrapping_add(edges.later(i) * stride), N * V::LANES);
            let from = x.add(r as usize * stride);
            for h in 0..HEADS {
                let all = V::splat(*p.add(h));
                let of_positive = if POSITIVE {
                    V::splat(*q.add(h))
                } else {
                    V::splat(0.0)
                };
                for n in h * each..(h + 1) * each {
                    let v: V = load(from.add(at(n)), part(n), mask);
                    acc[n] = v.mul_add(all, acc[n]);
                    if POSITIVE {
                        above[n] = v.mul_add(of_positive, above[n]);
                    }
                }
            }
            p = p.add(by.stride);
            q = q.wrapping_add(by.stride);
        }
        match run.close {
            Close::Not => {}
            Close::Divide => {
                for h in 0..HEADS {
                    let total = V::splat(1.0).over(V::splat(to.total[head + h]));
                    for n in h * each..(h + 1) * each {
                        acc[n] = acc[n].mul(total);
                        above[n] = above[n].mul(total);
                    }
                }
            }
            Close::Slope(slope) => {
                let (one, other) = (V::splat(1.0 - slope), V::splat(slope));
                for n in 0..N {
                    above[n] = above[n].mul_add(one, acc[n].mul(other));
                }
            }
        }
        for n in 0..N {
            store(acc[n], sums.add(at(n)), part(n), mask);
            if POSITIVE {
                store(above[n], positive.add(at(n)), part(n), mask);
            }
        }
    }
}

/// A vector, or the lanes of `mask` where it is a `part` of one.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn load<V: Vector>(p: *const f32, part: bool, mask: V::Mask) -> V {
    // SAFETY: passed on to the caller.
    unsafe {
        match part {
            true => V::load_first(p, mask),
            false => V::load(p),
        }
    }
}

/// The store of [`load`].
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn store<V: Vector>(v: V, p: *mut f32, part: bool, mask: V::Mask) {
    // SAFETY: passed on to the caller.
    unsafe {
        match part {
            true => v.store_first(p, mask),
            false => v.store(p),
        }
    }
}

#[cfg(test)]
mod tests;
