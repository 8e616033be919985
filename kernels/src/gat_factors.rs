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

use crate::Par;
use crate::exp::exp;
use crate::gat_scores::{add_up, by_heads, leaky};
use crate::gat_tile::Edges;
use crate::simd::multiversion;
use crate::vector::prefetch;
use std::ops::RangeInclusive;

/// Scores of sources up to this have factors whose products lose nothing.
const NEAR: f32 = 40.0;

/// Sums of powers beside which one that underflowed does not count, and that no overflow made.
const SUMS: RangeInclusive<f32> = 1e-18..=1e18;

/// Whether the sums of a row's powers are as good as those relative to its largest score.
pub(crate) fn good(t: &[f32]) -> bool {
    t.iter().all(|t| SUMS.contains(t))
}

/// Whether the factors of a source with these scores are as good as exponentials of its edges' scores.
pub(crate) fn near(el: &[f32]) -> bool {
    el.iter().all(|x| x.abs() <= NEAR)
}

/// `e^x` for any `x`; what would be infinite becomes a large number, whose sums are not good.
#[inline(always)]
fn exp_within(x: f32) -> f32 {
    exp(if x > 88.0 { 88.0 } else { x })
}

multiversion! {
    fn source_rows(el: &[f32], heads: usize, slope: f32, to: &mut [f32]) {
        for (to, el) in to.chunks_exact_mut(2 * heads).zip(el.chunks_exact(heads)) {
            let (one, other) = to.split_at_mut(heads);
            for ((one, other), &x) in one.iter_mut().zip(other).zip(el) {
                *one = x;
                *other = slope * x;
            }
        }
        for to in to {
            *to = exp_within(*to);
        }
    }
}

/// `e^el` and `e^(slope·el)` side by side, `[n, 2·heads]`, of `el: [n, heads]`.
pub(crate) fn of_sources(par: &Par, el: &[f32], heads: usize, slope: f32) -> Vec<f32> {
    let mut all = par.scratch_of_any(2 * el.len());
    par.rows_mut(&mut all, 2 * heads, |first, to| {
        let el = &el[first * heads..][..to.len() / 2];
        source_rows(el, heads, slope, to);
    });
    all
}

multiversion! {
    /// Factors of a destination with scores `er: [heads]`, `[2·heads]`, relative to `LeakyReLU(er)`, which
    /// goes to `m: [heads]`.
    pub(crate) fn of_destination(level: Level, er: &[f32], slope: f32, m: &mut [f32], to: &mut [f32]) {
        let heads = er.len();
        let (one, other) = to.split_at_mut(heads);
        for (((one, other), &x), m) in one.iter_mut().zip(other).zip(er).zip(m) {
            *m = leaky(x, slope);
            *one = x - *m;
            *other = slope * x - *m;
        }
        for to in to {
            *to = exp(*to);
        }
    }
}

/// How many edges ahead rows of factors are asked for.
const AHEAD: usize = 16;

/// Asks for the row of `wide` numbers of `x` that an edge gathers some edges after edge `i`.
#[inline(always)]
fn ask(x: &[f32], edges: Edges<'_>, i: usize, wide: usize) {
    if let Some(&next) = edges.ahead.get(i + AHEAD) {
        let row = x.as_ptr().wrapping_add(next as usize * wide);
        for k in (0..wide).step_by(16) {
            prefetch(row.wrapping_add(k));
        }
    }
}

multiversion! {
    /// `p[e, h] = exp(LeakyReLU(el[u, h] + er[h]) − m[h])`, and their sums added to `t: [heads]`. `sources:
    /// [n, 2·heads]` and `own: [2·heads]` are the factors.
    pub(crate) fn powers(
        level: Level, sources: &[f32], own: &[f32], edges: Edges<'_>, p: &mut [f32], t: &mut [f32],
    ) {
        by_heads!(t.len(), powers_body(sources, own, edges, p, t))
    }
}

#[inline(always)]
fn powers_body<const H: usize>(
    sources: &[f32],
    own: &[f32],
    edges: Edges<'_>,
    p: &mut [f32],
    t: &mut [f32],
) {
    let h = if H > 0 { H } else { t.len() };
    let n = edges.rows.len() * h;
    let (own, t, p) = (&own[..2 * h], &mut t[..h], &mut p[..n]);
    for (i, (p, &u)) in p.chunks_exact_mut(h).zip(edges.rows).enumerate() {
        ask(sources, edges, i, 2 * h);
        let from = &sources[u as usize * 2 * h..][..2 * h];
        for k in 0..h {
            p[k] = larger(from[k] * own[k], from[h + k] * own[h + k]);
        }
    }
    add_up::<H>(p, t);
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Numbers a destination and head that [`again`] reads.
pub(crate) const PACKED: usize = 4;

multiversion! {
    /// Side by side for each destination: `er`, `e^(er − lse)`, `e^(slope·er − lse)` and `c`, `[n, 4·heads]`,
    /// of `er, lse, c: [n, heads]`.
    pub(crate) fn pack_rows(
        er: &[f32], lse: &[f32], c: &[f32], heads: usize, slope: f32, to: &mut [f32],
    ) {
        let rows = er.chunks_exact(heads).zip(lse.chunks_exact(heads)).zip(c.chunks_exact(heads));
        for (to, ((er, lse), c)) in to.chunks_exact_mut(PACKED * heads).zip(rows) {
            let (plain, to) = to.split_at_mut(heads);
            let (factors, last) = to.split_at_mut(2 * heads);
            plain.copy_from_slice(er);
            last.copy_from_slice(c);
            let (one, other) = factors.split_at_mut(heads);
            for ((one, other), (er, lse)) in one.iter_mut().zip(other).zip(er.iter().zip(lse)) {
                *one = er - lse;
                *other = slope * er - lse;
            }
            for f in factors {
                *f = exp_within(*f);
            }
        }
    }
}

multiversion! {
    /// The coefficients of the edges from one source, once more: `p[e, h] = α`, `pc[e, h] = α·c` and `d[e, h]`
    /// the derivative of the activation. `el: [heads]` is the source's, `own: [2·heads]` are its factors,
    /// `packed: [n_dst, 4·heads]`.
    pub(crate) fn again(
        level: Level, el: &[f32], own: &[f32], packed: &[f32], slope: f32, edges: Edges<'_>, p: &mut [f32],
        pc: &mut [f32], d: &mut [f32],
    ) {
        by_heads!(el.len(), again_body(el, own, packed, slope, edges, p, pc, d))
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn again_body<const H: usize>(
    el: &[f32],
    own: &[f32],
    packed: &[f32],
    slope: f32,
    edges: Edges<'_>,
    p: &mut [f32],
    pc: &mut [f32],
    d: &mut [f32],
) {
    let h = if H > 0 { H } else { el.len() };
    let (el, own, n) = (&el[..h], &own[..2 * h], edges.rows.len() * h);
    let (p, pc, d) = (&mut p[..n], &mut pc[..n], &mut d[..n]);
    let rows = p.chunks_exact_mut(h).zip(pc.chunks_exact_mut(h));
    let rows = rows.zip(d.chunks_exact_mut(h)).zip(edges.rows);
    for (i, (((p, pc), d), &v)) in rows.enumerate() {
        ask(packed, edges, i, PACKED * h);
        let from = &packed[v as usize * PACKED * h..][..PACKED * h];
        if H > 0 {
            // Apart from where it goes, so that the compiler need not ask whether that overlaps.
            let mut made = [[0.0; H]; 3];
            let [p_made, pc_made, d_made] = &mut made;
            edge(h, el, own, from, slope, (p_made, pc_made, d_made));
            p.copy_from_slice(&made[0]);
            pc.copy_from_slice(&made[1]);
            d.copy_from_slice(&made[2]);
        } else {
            edge(h, el, own, from, slope, (p, pc, d));
        }
    }
}

/// One edge of [`again`].
#[inline(always)]
fn edge(
    h: usize,
    el: &[f32],
    own: &[f32],
    from: &[f32],
    slope: f32,
    (p, pc, d): (&mut [f32], &mut [f32], &mut [f32]),
) {
    for k in 0..h {
        p[k] = larger(own[k] * from[h + k], own[h + k] * from[2 * h + k]);
        pc[k] = p[k] * from[3 * h + k];
        // Which side of the kink: by the score itself, as products may round to either.
        d[k] = if el[k] + from[k] > 0.0 { 1.0 } else { slope };
    }
}
