//! Attention of as many narrow heads as a vector has lanes: coefficients, sums and derivatives of one edge after
//! the other, all in registers. Otherwise each is a loop of its own over some edges, and of rows so short the
//! loops beside the gather take most of the time.
//!
//! Unsafe: loads and stores through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use crate::gat_factors::PACKED;
use crate::gat_tile::{Edges, Rows};
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, prefetch};

/// Whether so many heads of `width` columns are worked on like this.
pub(crate) fn fits<V: Vector>(heads: usize, width: usize) -> bool {
    heads == V::LANES && matches!(width, 1 | 2 | 4 | 8)
}

/// Calls `$f::<V, W>` with the columns of a head, which are as many vectors of a row.
macro_rules! by_width {
    ($w:expr, $f:ident::<$v:ident>($($arg:expr),*)) => {
        match $w {
            1 => $f::<$v, 1>($($arg),*),
            2 => $f::<$v, 2>($($arg),*),
            4 => $f::<$v, 4>($($arg),*),
            8 => $f::<$v, 8>($($arg),*),
            width => unreachable!("heads of {width} columns"),
        }
    };
}

/// Forward, over some edges to one destination: adds the powers `p[e, h] = max(from[u, h] · own[h], from[u,
/// heads + h] · own[heads + h])` to `t: [heads]`, and `p[e, h] · kept[e, h] · z[u, h, :]` to `sum: [heads·width]`.
/// `from: [n, 2·heads]` and `own: [2·heads]` are factors, `kept: [edges, heads]` those of dropout.
#[inline(always)]
pub(crate) fn forward<V: Vector>(
    z: Rows<'_>,
    edges: Edges<'_>,
    (from, own): (&[f32], &[f32]),
    kept: Option<&[f32]>,
    t: &mut [f32],
    sum: &mut [f32],
) {
    by_width!(
        z.width,
        forward_of::<V>(z, edges, (from, own), kept, t, sum)
    );
}

#[inline(always)]
fn forward_of<V: Vector, const W: usize>(
    z: Rows<'_>,
    edges: Edges<'_>,
    (from, own): (&[f32], &[f32]),
    kept: Option<&[f32]>,
    t: &mut [f32],
    sum: &mut [f32],
) {
    let (heads, d) = (V::LANES, V::LANES * W);
    check::<V, W>(z, edges, kept);
    assert!(from.len() >= z.n * 2 * heads && own.len() == 2 * heads);
    assert!(t.len() == heads && sum.len() == d);
    // SAFETY: this runs at the level of `V`. Every edge's row is below `n` (`check`), `x` and `from` have as many,
    // `kept` as many as there are edges; the lengths of the others are asserted above.
    unsafe {
        let spread = spread::<V, W>();
        let (one, other) = (V::load(own.as_ptr()), V::load(own.as_ptr().add(heads)));
        let mut total = V::load(t.as_ptr());
        let mut acc = row::<V, W>(sum.as_ptr());
        for (i, &u) in edges.rows.iter().enumerate() {
            ask(z, edges, i, from, 2 * heads);
            let from = from.as_ptr().add(u as usize * 2 * heads);
            let near = V::load(from).mul(one);
            let mut p = near.larger(V::load(from.add(heads)).mul(other));
            total = total.add(p);
            if let Some(kept) = kept {
                p = p.mul(V::load(kept.as_ptr().add(i * heads)));
            }
            let z = row::<V, W>(z.x.as_ptr().add(u as usize * d));
            for n in 0..W {
                acc[n] = z[n].mul_add(p.pick(spread[n]), acc[n]);
            }
        }
        total.store(t.as_mut_ptr());
        for (n, acc) in acc.into_iter().enumerate() {
            acc.store(sum.as_mut_ptr().add(n * heads));
        }
    }
}

/// A source with scores near zero.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Its scores: `[heads]`.
    pub(crate) el: &'a [f32],
    /// Factors of their exponentials: `[2·heads]`.
    pub(crate) own: &'a [f32],
    /// Its row: `[heads·width]`.
    pub(crate) z: &'a [f32],
}

/// Backward, over some edges from one source, what [`crate::gat_backward`] says: adds to `dz: [heads·width]` and
/// `del: [heads]`, and writes `ds: [edges, heads]`. `packed: [n, 4·heads]` is that of the destinations, `kept:
/// [edges, heads]` the factors of dropout.
#[inline(always)]
pub(crate) fn backward<V: Vector>(
    g: Rows<'_>,
    edges: Edges<'_>,
    (packed, slope): (&[f32], f32),
    source: Source<'_>,
    kept: Option<&[f32]>,
    out: (&mut [f32], &mut [f32], &mut [f32]),
) {
    by_width!(
        g.width,
        backward_of::<V>(g, edges, (packed, slope), source, kept, out)
    );
}

#[inline(always)]
fn backward_of<V: Vector, const W: usize>(
    g: Rows<'_>,
    edges: Edges<'_>,
    (packed, slope): (&[f32], f32),
    source: Source<'_>,
    kept: Option<&[f32]>,
    (dz, del, ds): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let (heads, d, stride) = (V::LANES, V::LANES * W, V::LANES * PACKED);
    let Source { el, own, z } = source;
    check::<V, W>(g, edges, kept);
    assert!(packed.len() >= g.n * stride && ds.len() == edges.rows.len() * heads);
    assert!(el.len() == heads && own.len() == 2 * heads && z.len() == d);
    assert!(dz.len() == d && del.len() == heads);
    // SAFETY: as in `forward_of`, with `packed` in the place of factors; `ds` has a row for each edge.
    unsafe {
        let spread = spread::<V, W>();
        let (one, other) = (V::load(own.as_ptr()), V::load(own.as_ptr().add(heads)));
        let (el, up, down) = (V::load(el.as_ptr()), V::splat(1.0), V::splat(slope));
        let mut total = V::load(del.as_ptr());
        let mut acc = row::<V, W>(dz.as_ptr());
        for (i, &v) in edges.rows.iter().enumerate() {
            ask(g, edges, i, packed, stride);
            let from = packed.as_ptr().add(v as usize * stride);
            let near = one.mul(V::load(from.add(heads)));
            let mut p = near.larger(other.mul(V::load(from.add(2 * heads))));
            let pc = p.mul(V::load(from.add(3 * heads)));
            // Which side of the kink: by the score itself, as products may round to either.
            let derivative = el.add(V::load(from)).choose(up, down);
            if let Some(kept) = kept {
                p = p.mul(V::load(kept.as_ptr().add(i * heads)));
            }
            let mut products = row::<V, W>(g.x.as_ptr().add(v as usize * d));
            for n in 0..W {
                acc[n] = products[n].mul_add(p.pick(spread[n]), acc[n]);
                products[n] = products[n].mul(V::load(z.as_ptr().add(n * heads)));
            }
            let slope = p.mul(V::run_sums(products)).sub(pc).mul(derivative);
            slope.store(ds.as_mut_ptr().add(i * heads));
            total = total.add(slope);
        }
        total.store(del.as_mut_ptr());
        for (n, acc) in acc.into_iter().enumerate() {
            acc.store(dz.as_mut_ptr().add(n * heads));
        }
    }
}

/// Every edge gathers one of the rows, which are `W` vectors, and has factors of dropout if any has.
#[inline(always)]
fn check<V: Vector, const W: usize>(x: Rows<'_>, edges: Edges<'_>, kept: Option<&[f32]>) {
    assert!(x.heads == V::LANES && x.width == W && x.n * V::LANES * W <= x.x.len());
    assert!(kept.is_none_or(|kept| kept.len() >= edges.rows.len() * V::LANES));
    edges.expect_below(x.n);
}

/// The head of each lane of each vector of a row.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn spread<V: Vector, const W: usize>() -> [V::Lanes; W] {
    // SAFETY: the level is the caller's; a lane's head is below the number of lanes.
    std::array::from_fn(|n| unsafe {
        V::lanes(std::array::from_fn(|lane| {
            ((n * V::LANES + lane % V::LANES) / W) as u32
        }))
    })
}

/// `W` vectors at `p`.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn row<V: Vector, const W: usize>(p: *const f32) -> [V; W] {
    // SAFETY: passed on to the caller.
    unsafe {
        let mut all = [V::splat(0.0); W];
        for (n, v) in all.iter_mut().enumerate() {
            *v = V::load(p.add(n * V::LANES));
        }
        all
    }
}

/// Asks for what an edge gathers some edges after edge `i`: a row, and `wide` numbers beside it.
#[inline(always)]
fn ask(x: Rows<'_>, edges: Edges<'_>, i: usize, beside: &[f32], wide: usize) {
    if let Some(&next) = edges.ahead.get(i + AHEAD) {
        let (next, d) = (next as usize, x.heads * x.width);
        prefetch_row(x.x.as_ptr().wrapping_add(next * d), d);
        for k in (0..wide).step_by(16) {
            prefetch(beside.as_ptr().wrapping_add(next * wide + k));
        }
    }
}
