//! Attention coefficients of a run of edges: the part of the attention kernels that works on
//! `[edges, heads]` and costs little beside the gather. Plain loops, vectorised by the compiler;
//! the usual numbers of heads are known to it.

// A head is one index into several slices.
#![allow(clippy::needless_range_loop, clippy::too_many_arguments)]

use crate::exp::exp;
use crate::gat_factors::PACKED;
use crate::hash::{element, row};
use crate::simd::multiversion;

/// Runs `$f::<H>` with the number of heads as a constant where it is a usual one.
macro_rules! by_heads {
    ($heads:expr, $f:ident($($arg:expr),*)) => {
        match $heads {
            1 => $f::<1>($($arg),*),
            2 => $f::<2>($($arg),*),
            4 => $f::<4>($($arg),*),
            8 => $f::<8>($($arg),*),
            _ => $f::<0>($($arg),*),
        }
    };
}

pub(crate) use by_heads;

/// `LeakyReLU` for slopes in `[0, 1]`.
#[inline(always)]
pub(crate) fn leaky(x: f32, slope: f32) -> f32 {
    if x > slope * x { x } else { slope * x }
}

/// Lanes of sums and maxima over edges: a number of heads that divides it needs no other order.
const LANES: usize = 16;

/// Raises `m: [heads]` to the maxima of `p: [edges, heads]`.
#[inline(always)]
fn raise<const H: usize>(p: &[f32], m: &mut [f32]) {
    let max = |a: f32, b: f32| if b > a { b } else { a };
    if H > 0 && LANES.is_multiple_of(H) {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let rest = p.chunks_exact(LANES);
        for (l, &p) in lanes.iter_mut().zip(rest.remainder()) {
            *l = max(*l, p);
        }
        for p in rest {
            for k in 0..LANES {
                lanes[k] = max(lanes[k], p[k]);
            }
        }
        for (k, &l) in lanes.iter().enumerate() {
            m[k % H] = max(m[k % H], l);
        }
    } else {
        for p in p.chunks_exact(m.len()) {
            for (m, &p) in m.iter_mut().zip(p) {
                *m = max(*m, p);
            }
        }
    }
}

/// Adds the sums of `p: [edges, heads]` to `t: [heads]`.
#[inline(always)]
pub(crate) fn add_up<const H: usize>(p: &[f32], t: &mut [f32]) {
    if H > 0 && LANES.is_multiple_of(H) {
        let mut lanes = [0.0; LANES];
        let rest = p.chunks_exact(LANES);
        for (l, &p) in lanes.iter_mut().zip(rest.remainder()) {
            *l += p;
        }
        for p in rest {
            for k in 0..LANES {
                lanes[k] += p[k];
            }
        }
        for (k, &l) in lanes.iter().enumerate() {
            t[k % H] += l;
        }
    } else {
        for p in p.chunks_exact(t.len()) {
            for (t, &p) in t.iter_mut().zip(p) {
                *t += p;
            }
        }
    }
}

multiversion! {
    /// `p[e, h] = LeakyReLU(el[u, h] + er[h])`, and `m: [heads]` raised to the maxima.
    pub(crate) fn scores(
        level: Level, el: &[f32], er: &[f32], slope: f32, edges: &[u32], p: &mut [f32],
        m: &mut [f32],
    ) {
        by_heads!(m.len(), scores_body(el, er, slope, edges, p, m))
    }
}

#[inline(always)]
fn scores_body<const H: usize>(
    el: &[f32],
    er: &[f32],
    slope: f32,
    edges: &[u32],
    p: &mut [f32],
    m: &mut [f32],
) {
    let h = if H > 0 { H } else { m.len() };
    let (er, m, p) = (&er[..h], &mut m[..h], &mut p[..edges.len() * h]);
    for (p, &u) in p.chunks_exact_mut(h).zip(edges) {
        let el = &el[u as usize * h..][..h];
        for k in 0..h {
            p[k] = leaky(el[k] + er[k], slope);
        }
    }
    raise::<H>(p, m);
}

multiversion! {
    /// `p[e, h] = exp(p[e, h] − m[h])`.
    pub(crate) fn powers(level: Level, m: &[f32], p: &mut [f32]) {
        by_heads!(m.len(), powers_body(m, p))
    }
}

#[inline(always)]
fn powers_body<const H: usize>(m: &[f32], p: &mut [f32]) {
    let h = if H > 0 { H } else { m.len() };
    let m = &m[..h];
    for p in p.chunks_exact_mut(h) {
        for k in 0..h {
            p[k] -= m[k];
        }
    }
    for p in p.iter_mut() {
        *p = exp(*p);
    }
}

/// Attention dropout of one kernel call: which coefficients survive, and their factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The smallest 24-bit number that survives.
    pub(crate) keep: u32,
    /// Factor of survivors.
    pub(crate) scale: f32,
}

/// Edges whose keys are made together, so that the processor makes several at a time.
const KEYS: usize = 64;

multiversion! {
    /// Multiplies `p[e, h]` by the dropout factor of the edges from `edges` to one destination;
    /// `key` is that of the destination, `src_ids: [n_src]`.
    pub(crate) fn drop_to(
        level: Level, kept: Kept, key: u64, src_ids: &[u32], heads: usize, edges: &[u32],
        p: &mut [f32],
    ) {
        let mut keys = [0u64; KEYS];
        for (p, edges) in p.chunks_mut(KEYS * heads).zip(edges.chunks(KEYS)) {
            let keys = &mut keys[..edges.len()];
            keys.iter_mut().zip(edges).for_each(|(k, &u)| *k = u64::from(src_ids[u as usize]));
            keys.iter_mut().for_each(|k| *k = row(key, *k as u32));
            by_heads!(heads, drop_body(kept, heads, keys, p));
        }
    }
}

multiversion! {
    /// [`drop_to`] for the edges from one source, whose vertex is `src`, to many destinations:
    /// `keys: [n_dst]` are their keys.
    pub(crate) fn drop_from(
        level: Level, kept: Kept, dst_keys: &[u64], src: u32, heads: usize, edges: &[u32],
        p: &mut [f32],
    ) {
        let mut keys = [0u64; KEYS];
        for (p, edges) in p.chunks_mut(KEYS * heads).zip(edges.chunks(KEYS)) {
            let keys = &mut keys[..edges.len()];
            keys.iter_mut().zip(edges).for_each(|(k, &v)| *k = dst_keys[v as usize]);
            keys.iter_mut().for_each(|k| *k = row(*k, src));
            by_heads!(heads, drop_body(kept, heads, keys, p));
        }
    }
}

#[inline(always)]
fn drop_body<const H: usize>(kept: Kept, heads: usize, keys: &[u64], p: &mut [f32]) {
    let heads = if H > 0 { H } else { heads };
    for (p, &key) in p.chunks_exact_mut(heads).zip(keys) {
        for h in 0..heads {
            let alive = element(key, h as u32) >> 8 >= kept.keep;
            p[h] = if alive { p[h] * kept.scale } else { 0.0 };
        }
    }
}

multiversion! {
    /// `p[e, h]` where `by[e, h]` is positive, zero elsewhere, in the place of `by`; the sums of both added to
    /// `totals: [heads]` each.
    pub(crate) fn part_positive(level: Level, p: &[f32], by: &mut [f32], total: &mut [f32], total_positive: &mut [f32]) {
        for (by, &p) in by.iter_mut().zip(p) {
            *by = if *by > 0.0 { p } else { 0.0 };
        }
        by_heads!(total.len(), add_up(p, total));
        by_heads!(total.len(), add_up(by, total_positive));
    }
}

multiversion! {
    /// `gat_factors::Backward` for a source with scores far from zero, by an exponential for each edge: the
    /// coefficients, and what their scores were. `lse: [n_dst, heads]`; `packed` comes with its stride, as there.
    pub(crate) fn again(
        level: Level, el: &[f32], packed: (&[f32], usize), lse: &[f32], slope: f32, edges: &[u32], p: &mut [f32],
        score: &mut [f32], pc: &mut [f32],
    ) {
        by_heads!(el.len(), again_body(el, packed, lse, slope, edges, p, score, pc))
    }
}

#[inline(always)]
fn again_body<const H: usize>(
    el: &[f32],
    (packed, stride): (&[f32], usize),
    lse: &[f32],
    slope: f32,
    edges: &[u32],
    p: &mut [f32],
    score: &mut [f32],
    pc: &mut [f32],
) {
    let h = if H > 0 { H } else { el.len() };
    let el = &el[..h];
    let n = edges.len() * h;
    let (p, score, pc) = (&mut p[..n], &mut score[..n], &mut pc[..n]);
    let rows = p.chunks_exact_mut(h).zip(score.chunks_exact_mut(h));
    let rows = rows.zip(pc.chunks_exact_mut(h)).zip(edges);
    for (((p, score), pc), &v) in rows {
        let from = &packed[v as usize * stride..][..PACKED * h];
        let lse = &lse[v as usize * h..][..h];
        for k in 0..h {
            score[k] = el[k] + from[k];
            p[k] = leaky(score[k], slope) - lse[k];
            pc[k] = from[3 * h + k];
        }
    }
    for (p, pc) in p.iter_mut().zip(pc) {
        *p = exp(*p);
        *pc *= *p;
    }
}
