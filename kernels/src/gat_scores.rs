//! Attention coefficients of a run of edges: the part of the attention kernels that works on
//! `[edges, heads]` and costs little beside the gather. Plain loops, vectorised by the compiler;
//! the usual numbers of heads are known to it.

// A head is one index into several slices.
#![allow(clippy::needless_range_loop, clippy::too_many_arguments)]

use crate::exp::exp;
use crate::gat_factors::PACKED;
use crate::hash::{element, row};
use crate::simd::multiversion;
use crate::vector::prefetch;

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
    /// `p[e, h] = exp(p[e, h] − m[h])`, and their sums added to `t: [heads]`.
    pub(crate) fn powers(level: Level, m: &[f32], p: &mut [f32], t: &mut [f32]) {
        by_heads!(m.len(), powers_body(m, p, t))
    }
}

#[inline(always)]
fn powers_body<const H: usize>(m: &[f32], p: &mut [f32], t: &mut [f32]) {
    let h = if H > 0 { H } else { m.len() };
    let (m, t) = (&m[..h], &mut t[..h]);
    for p in p.chunks_exact_mut(h) {
        for k in 0..h {
            p[k] -= m[k];
        }
    }
    for p in p.iter_mut() {
        *p = exp(*p);
    }
    add_up::<H>(p, t);
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
    /// `gat_factors::again` for a source with scores far from zero, by an exponential for each edge.
    /// `lse: [n_dst, heads]`.
    pub(crate) fn again(
        level: Level, el: &[f32], packed: &[f32], lse: &[f32], slope: f32, edges: &[u32], p: &mut [f32],
        pc: &mut [f32], d: &mut [f32],
    ) {
        by_heads!(el.len(), again_body(el, packed, lse, slope, edges, p, pc, d))
    }
}

#[inline(always)]
fn again_body<const H: usize>(
    el: &[f32],
    packed: &[f32],
    lse: &[f32],
    slope: f32,
    edges: &[u32],
    p: &mut [f32],
    pc: &mut [f32],
    d: &mut [f32],
) {
    let h = if H > 0 { H } else { el.len() };
    let el = &el[..h];
    let n = edges.len() * h;
    let (p, pc, d) = (&mut p[..n], &mut pc[..n], &mut d[..n]);
    let rows = p.chunks_exact_mut(h).zip(pc.chunks_exact_mut(h));
    let rows = rows.zip(d.chunks_exact_mut(h)).zip(edges);
    for (((p, pc), d), &v) in rows {
        let from = &packed[v as usize * PACKED * h..][..PACKED * h];
        let lse = &lse[v as usize * h..][..h];
        for k in 0..h {
            let x = el[k] + from[k];
            p[k] = leaky(x, slope) - lse[k];
            pc[k] = from[3 * h + k];
            d[k] = if x > 0.0 { 1.0 } else { slope };
        }
    }
    for (p, pc) in p.iter_mut().zip(pc) {
        *p = exp(*p);
        *pc *= *p;
    }
}

multiversion! {
    /// `ds = (p · dot − pc) · d` for every element, and their sums added to `del: [heads]`.
    pub(crate) fn slopes(
        level: Level, p: &[f32], dots: &[f32], pc: &[f32], d: &[f32], ds: &mut [f32], del: &mut [f32],
    ) {
        by_heads!(del.len(), slopes_body(p, dots, pc, d, ds, del))
    }
}

#[inline(always)]
fn slopes_body<const H: usize>(
    p: &[f32],
    dots: &[f32],
    pc: &[f32],
    d: &[f32],
    ds: &mut [f32],
    del: &mut [f32],
) {
    let h = if H > 0 { H } else { del.len() };
    let n = ds.len();
    let (p, dots, pc, d, del) = (&p[..n], &dots[..n], &pc[..n], &d[..n], &mut del[..h]);
    for k in 0..n {
        ds[k] = (p[k] * dots[k] - pc[k]) * d[k];
    }
    add_up::<H>(ds, del);
}

/// How many edges ahead rows of slopes are asked for.
const AHEAD: usize = 16;

multiversion! {
    /// `sums[v, h] = Σ ds[e, h]` over the positions `e` of each row, in their order. `indptr: [rows + 1]` counts
    /// within `t_of`, from its own first; `ds: [_, heads]`, `sums: [rows, heads]`.
    pub(crate) fn gather_sums(
        level: Level, ds: &[f32], indptr: &[u64], t_of: &[u32], heads: usize, sums: &mut [f32],
    ) {
        by_heads!(heads, gather_sums_body(ds, indptr, t_of, heads, sums))
    }
}

#[inline(always)]
fn gather_sums_body<const H: usize>(
    ds: &[f32],
    indptr: &[u64],
    t_of: &[u32],
    heads: usize,
    sums: &mut [f32],
) {
    let h = if H > 0 { H } else { heads };
    for (sum, span) in sums.chunks_exact_mut(h).zip(indptr.windows(2)) {
        let (from, to) = (
            (span[0] - indptr[0]) as usize,
            (span[1] - indptr[0]) as usize,
        );
        // Apart from where it goes, in registers.
        let mut own = [0.0; LANES];
        let acc = if H > 0 { &mut own[..h] } else { &mut *sum };
        acc.fill(0.0);
        for (i, &e) in t_of[from..to].iter().enumerate() {
            if let Some(&next) = t_of.get(from + i + AHEAD) {
                prefetch(ds.as_ptr().wrapping_add(next as usize * h));
            }
            for (s, &v) in acc.iter_mut().zip(&ds[e as usize * h..][..h]) {
                *s += v;
            }
        }
        if H > 0 {
            sum.copy_from_slice(&own[..h]);
        }
    }
}
