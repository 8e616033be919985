//! Attention coefficients without an exponential for each edge.
//!
//! For slopes within `[0, 1]`, `LeakyReLU(x) = max(x, slope·x)`, and an exponential keeps the order, so
//!
//! `exp(LeakyReLU(el + er) − m) = max(e^el · e^(er − m), e^(slope·el) · e^(slope·er − m))`:
//!
//! four exponentials a vertex and head, and two products an edge. Forward takes `m = LeakyReLU(er)`, with
//! which both destination factors are at most one; backward takes the kept logarithm of the denominator.
//!
//! Exponentials of scores far from zero leave the range of `f32`. Whether a row is summed like this depends
//! on what came out of it, and a source's gradient on its own scores: never on other rows, so that every
//! strategy decides alike. Where it does not hold, the largest score is looked for (`gat_scores`).
//!
//! Unsafe: loads through pointers, behind checks in `gat_sum`.
#![allow(unsafe_code)]

use crate::Par;
use crate::exp::exp;
use crate::gat_layout::{by_column, of_heads};
use crate::gat_scores::{by_heads, leaky};
use crate::gat_sum::{Term, Terms};
use crate::simd::multiversion;
use crate::vector::{Vector, prefetch};
use std::ops::RangeInclusive;

/// Scores of sources up to this have factors whose products lose nothing.
const NEAR: f32 = 40.0;

/// Sums of powers beside which one that underflowed does not count, and that no overflow made.
const SUMS: RangeInclusive<f32> = 1e-18..=1e18;

/// Whether the sums of a row's powers are as good as those relative to its largest score.
pub(crate) fn good(t: &[f32]) -> bool {
    // All of them, so that no branch is needed for each.
    t.iter().fold(true, |good, t| good & SUMS.contains(t))
}

/// Whether the factors of a source with these scores are as good as exponentials of its edges' scores.
pub(crate) fn near(el: &[f32]) -> bool {
    el.iter().fold(true, |near, x| near & (x.abs() <= NEAR))
}

/// `e^x` for any `x`; what would be infinite becomes a large number, whose sums are not good.
#[inline(always)]
fn exp_within(x: f32) -> f32 {
    exp(if x > 88.0 { 88.0 } else { x })
}

/// Numbers of one kind that are made before they are laid side by side, about: exponentials fill vectors whatever the
/// number of heads is.
const AT_A_TIME: usize = 512;

/// Rows of `heads` numbers that are made together.
fn rows_at_a_time(heads: usize) -> usize {
    (AT_A_TIME / heads).max(1)
}

/// Rows of all `parts: [rows, heads]` side by side: the first numbers of each row of `to: [rows, stride]`.
#[inline(always)]
fn side_by_side<const H: usize>(parts: &[&[f32]], heads: usize, stride: usize, to: &mut [f32]) {
    let heads = if H > 0 { H } else { heads };
    let wide = parts.len() * heads;
    // Without gaps, a number that the compiler knows.
    match stride == wide {
        true => lay_rows(parts, heads, wide, to),
        false => lay_rows(parts, heads, stride, to),
    }
}

#[inline(always)]
fn lay_rows(parts: &[&[f32]], heads: usize, stride: usize, to: &mut [f32]) {
    for (r, to) in to.chunks_exact_mut(stride).enumerate() {
        for (part, to) in parts.iter().zip(to.chunks_exact_mut(heads)) {
            to.copy_from_slice(&part[r * heads..][..heads]);
        }
    }
}

multiversion! {
    /// `e^el` and `e^(slope·el)` side by side, the first numbers of each row of `to: [n, stride]`, of `el: [n, heads]`.
    pub(crate) fn source_rows(el: &[f32], heads: usize, slope: f32, stride: usize, to: &mut [f32]) {
        let rows = rows_at_a_time(heads) * heads;
        let mut made = vec![0.0; 2 * rows];
        let (one, other) = made.split_at_mut(rows);
        for (el, to) in el.chunks(rows).zip(to.chunks_mut(rows_at_a_time(heads) * stride)) {
            let (one, other) = (&mut one[..el.len()], &mut other[..el.len()]);
            for ((one, other), &x) in one.iter_mut().zip(&mut *other).zip(el) {
                (*one, *other) = (exp_within(x), exp_within(slope * x));
            }
            by_heads!(heads, side_by_side(&[one, other], heads, stride, to));
        }
    }
}

/// [`source_rows`] of all, `[n, 2·heads]`.
pub(crate) fn of_sources(par: &Par, el: &[f32], heads: usize, slope: f32) -> Vec<f32> {
    let mut all = par.scratch_of_any(2 * el.len());
    par.rows_mut(&mut all, 2 * heads, |first, to| {
        let el = &el[first * heads..][..to.len() / 2];
        source_rows(el, heads, slope, 2 * heads, to);
    });
    all
}

/// How far one of the two products has to be above the other for a score to be positive: what rounding explains
/// for scores near zero.
const ABOVE: f32 = 1.0 + 4e-6;

/// Numbers a source and head that [`Forward`] reads.
pub(crate) const FACTORS: usize = 2;

/// Numbers a destination and head that [`Forward`] reads.
pub(crate) const OWN: usize = 3;

/// Room for what [`of_destinations`] makes of `rows` rows before it lays it side by side.
pub(crate) fn room(rows: usize, heads: usize) -> Vec<f32> {
    vec![0.0; OWN * rows * heads]
}

multiversion! {
    /// Factors of destinations, `e^(er − m)`, `e^(slope·er − m)` and the second times what makes a score positive,
    /// `[rows, 3·heads]`, of `er: [rows, heads]`, relative to `m = LeakyReLU(er)`, which is written; `made` is [`room`]
    /// of as many rows at least.
    pub(crate) fn of_destinations(
        level: Level, er: &[f32], heads: usize, slope: f32, m: &mut [f32], to: &mut [f32], made: &mut [f32],
    ) {
        let (one, rest) = made.split_at_mut(er.len());
        let (other, rest) = rest.split_at_mut(er.len());
        let least = &mut rest[..er.len()];
        for ((m, &x), (one, (other, least))) in
            m.iter_mut().zip(er).zip(one.iter_mut().zip(other.iter_mut().zip(&mut *least)))
        {
            *m = leaky(x, slope);
            *one = exp(x - *m);
            *other = exp(slope * x - *m);
            *least = *other * ABOVE;
        }
        by_heads!(heads, side_by_side(&[one, other, least], heads, OWN * heads, &mut to[..OWN * er.len()]));
    }
}

/// Forward's coefficients before the softmax's denominator: `exp(LeakyReLU(el[u, h] + er[h]) − m[h])` times the
/// factor of dropout; totals are without dropout.
#[derive(Clone, Copy)]
pub(crate) struct Forward<'a, const DROPS: bool> {
    /// Factors of the sources: the first `2·heads` numbers of each row of `[n, stride]`.
    pub(crate) from: &'a [f32],
    pub(crate) stride: usize,
    /// Those of the destination: `[3·heads]`.
    pub(crate) own: &'a [f32],
    /// With `DROPS`, factors of dropout: `[edges, heads]`.
    pub(crate) kept: &'a [f32],
    pub(crate) heads: usize,
}

impl<V: Vector, const DROPS: bool> Terms<V> for Forward<'_, DROPS> {
    type Own = [V; OWN];
    const TOTALS: bool = true;

    #[inline(always)]
    fn check(&self, heads: usize, rows: usize, edges: usize) {
        assert!(self.heads == heads && self.own.len() == OWN * heads);
        assert!(self.stride >= FACTORS * heads && self.from.len() >= rows * self.stride);
        assert!(!DROPS || self.kept.len() >= edges * heads);
    }

    #[inline(always)]
    unsafe fn own<const HEADS: u8>(&self, head: usize, mask: V::Mask) -> Self::Own {
        // SAFETY: there are three numbers a head (`check`), and the mask's heads are within all.
        unsafe { three::<V, HEADS>(self.own, self.heads, head, mask) }
    }

    #[inline(always)]
    unsafe fn term<const HEADS: u8>(
        &self,
        own: &Self::Own,
        i: usize,
        row: usize,
        head: usize,
        mask: V::Mask,
    ) -> Term<V> {
        // SAFETY: the row's factors lie within `from`, the edge's within `kept` (`check`).
        unsafe {
            let stride = stride_of::<HEADS>(self.stride, FACTORS * self.heads);
            let from = self.from.as_ptr().add(row * stride + head);
            let (one, other) = (
                of_heads::<V, HEADS>(from, mask),
                of_heads::<V, HEADS>(from.add(self.heads), mask),
            );
            let near = one.mul(own[0]);
            let power = near.larger(other.mul(own[1]));
            let positive = near.sub(other.mul(own[2])).choose(power, V::splat(0.0));
            dropped::<V, HEADS, DROPS>(
                power,
                positive,
                (power, positive),
                self.kept,
                i * self.heads + head,
                mask,
            )
        }
    }

    const NUMBERS: usize = FACTORS;

    #[inline(always)]
    fn record(&self, row: usize) -> *const f32 {
        self.from.as_ptr().wrapping_add(row * self.stride)
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        self.stride
    }

    #[inline(always)]
    fn ask(&self, row: usize) {
        lines(self.from, row, FACTORS * self.heads);
    }
}

/// From one row's numbers to the next one's: `stride` by column, elsewhere as many as there are, so that the compiler
/// has one number less to keep.
#[inline(always)]
fn stride_of<const HEADS: u8>(stride: usize, numbers: usize) -> usize {
    if by_column(HEADS) { stride } else { numbers }
}

/// Vectors of three runs of as many numbers as heads.
///
/// # Safety
/// That of [`Vector`]; the mask's heads from `head` on are within `heads`, and `of` has three times as many.
#[inline(always)]
unsafe fn three<V: Vector, const HEADS: u8>(
    of: &[f32],
    heads: usize,
    head: usize,
    mask: V::Mask,
) -> [V; 3] {
    // SAFETY: passed on to the caller.
    std::array::from_fn(|k| unsafe {
        of_heads::<V, HEADS>(of.as_ptr().add(k * heads + head), mask)
    })
}

/// A term whose row's factors are dropped out by `kept[at..]`; its totals are not.
///
/// # Safety
/// That of [`Vector`]; with `DROPS`, `kept` has the numbers of the mask at `at`.
#[inline(always)]
unsafe fn dropped<V: Vector, const HEADS: u8, const DROPS: bool>(
    row: V,
    positive: V,
    (total, total_positive): (V, V),
    kept: &[f32],
    at: usize,
    mask: V::Mask,
) -> Term<V> {
    let (row, positive) = match DROPS {
        // SAFETY: passed on to the caller.
        true => unsafe {
            let kept = of_heads::<V, HEADS>(kept.as_ptr().add(at), mask);
            (row.mul(kept), positive.mul(kept))
        },
        false => (row, positive),
    };
    Term {
        row,
        positive,
        total,
        total_positive,
    }
}

/// Asks for a row of `x: [n, wide]`.
#[inline(always)]
fn lines(x: &[f32], row: usize, wide: usize) {
    let row = x.as_ptr().wrapping_add(row * wide);
    prefetch(row);
    prefetch(row.wrapping_add(wide - 1));
    if wide > 32 {
        for k in (16..wide).step_by(16) {
            prefetch(row.wrapping_add(k));
        }
    }
}

/// Numbers a destination and head that [`Backward`] reads.
pub(crate) const PACKED: usize = 4;

multiversion! {
    /// Side by side for each destination: `er`, `e^(er − lse)`, `e^(slope·er − lse)` and `c`, the first numbers of each
    /// row of `to: [n, stride]`, of `er, lse, c: [n, heads]`.
    pub(crate) fn pack_rows(
        er: &[f32], lse: &[f32], c: &[f32], heads: usize, slope: f32, stride: usize, to: &mut [f32],
    ) {
        let rows = rows_at_a_time(heads) * heads;
        let mut made = vec![0.0; 2 * rows];
        let (one, other) = made.split_at_mut(rows);
        let all = er.chunks(rows).zip(lse.chunks(rows)).zip(c.chunks(rows));
        for (((er, lse), c), to) in all.zip(to.chunks_mut(rows_at_a_time(heads) * stride)) {
            let (one, other) = (&mut one[..er.len()], &mut other[..er.len()]);
            for ((one, other), (&er, &lse)) in one.iter_mut().zip(&mut *other).zip(er.iter().zip(lse)) {
                *one = exp_within(er - lse);
                *other = exp_within(slope * er - lse);
            }
            by_heads!(heads, side_by_side(&[er, one, other, c], heads, stride, to));
        }
    }
}

/// Backward's coefficients `α` of the edges from one source, times the factor of dropout; totals are of `α·c`.
#[derive(Clone, Copy)]
pub(crate) struct Backward<'a, const DROPS: bool> {
    /// Of the destinations: the first `4·heads` numbers of each row of `[n, stride]`.
    pub(crate) packed: &'a [f32],
    pub(crate) stride: usize,
    /// The source's scores: `[heads]`.
    pub(crate) el: &'a [f32],
    /// Factors of their exponentials: `[2·heads]`.
    pub(crate) own: &'a [f32],
    /// With `DROPS`, factors of dropout: `[edges, heads]`.
    pub(crate) kept: &'a [f32],
}

impl<V: Vector, const DROPS: bool> Terms<V> for Backward<'_, DROPS> {
    type Own = [V; 3];
    const TOTALS: bool = true;

    #[inline(always)]
    fn check(&self, heads: usize, rows: usize, edges: usize) {
        assert!(self.el.len() == heads && self.own.len() == 2 * heads);
        assert!(self.stride >= PACKED * heads && self.packed.len() >= rows * self.stride);
        assert!(!DROPS || self.kept.len() >= edges * heads);
    }

    #[inline(always)]
    unsafe fn own<const HEADS: u8>(&self, head: usize, mask: V::Mask) -> Self::Own {
        let heads = self.el.len();
        // SAFETY: there is a score and there are two factors of each head (`check`).
        unsafe {
            let load =
                |of: &[f32], at: usize| of_heads::<V, HEADS>(of.as_ptr().add(at + head), mask);
            [load(self.el, 0), load(self.own, 0), load(self.own, heads)]
        }
    }

    #[inline(always)]
    unsafe fn term<const HEADS: u8>(
        &self,
        own: &Self::Own,
        i: usize,
        row: usize,
        head: usize,
        mask: V::Mask,
    ) -> Term<V> {
        let heads = self.el.len();
        // SAFETY: the row's numbers lie within `packed`, the edge's within `kept` (`check`).
        unsafe {
            let stride = stride_of::<HEADS>(self.stride, PACKED * heads);
            let from = self.packed.as_ptr().add(row * stride + head);
            let of = |k: usize| of_heads::<V, HEADS>(from.add(k * heads), mask);
            let a = own[1].mul(of(1)).larger(own[2].mul(of(2)));
            let (ac, zero) = (a.mul(of(3)), V::splat(0.0));
            // Which side of the kink: by the score itself, as products may round to either.
            let score = own[0].add(of(0));
            let (positive, total) = (score.choose(a, zero), (ac, score.choose(ac, zero)));
            dropped::<V, HEADS, DROPS>(a, positive, total, self.kept, i * heads + head, mask)
        }
    }

    const NUMBERS: usize = PACKED;

    #[inline(always)]
    fn record(&self, row: usize) -> *const f32 {
        self.packed.as_ptr().wrapping_add(row * self.stride)
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        self.stride
    }

    #[inline(always)]
    fn ask(&self, row: usize) {
        lines(self.packed, row, PACKED * self.el.len());
    }
}
