//! The dense part of attention: scores of vertices, their gradients where no edge is needed for it, and their way
//! back into projections and attention vectors. One pass over the rows each, bound by memory.

use std::ops::Range;

use crate::gat::level_for;
use crate::head_dots::{add_scaled, ask_ahead, head_dots};
use crate::par::{cut_mut, split_rows};
use crate::vector::{Vector, at_level};
use crate::{Mat, Par, expect_eq, expect_heads, expect_rows, flat, flat_mut};

/// Rows of one partial sum of the attention vectors' gradients, whatever the number of threads.
const BLOCK: usize = 1024;

/// Writes `out[u, h] = ⟨z[u, h, :], a[h, :]⟩` for the rows in `rows` and leaves the others.
/// `z: [n, heads·width]`, `a: [heads·width]`, `out: [n', heads]` with `rows` within both.
///
/// # Panics
/// When the shapes disagree or `rows` exceeds one of them.
pub fn scores_into(par: &Par, z: &Mat, a: &[f32], heads: usize, rows: Range<usize>, out: &mut Mat) {
    const OP: &str = "scores";
    let d = z.ncols();
    expect_heads(OP, "z", d, heads);
    expect_eq(OP, "numbers in a", d, a.len());
    expect_eq(OP, "out with columns", heads, out.ncols());
    expect_rows(OP, &rows, z.nrows().min(out.nrows()));
    let z = flat(OP, z);
    let out = &mut flat_mut(OP, out)[rows.start * heads..rows.end * heads];
    if d == 0 {
        return out.fill(0.0);
    }
    let level = level_for(d / heads);
    let bounds = par.row_bounds(out.len() / heads, d);
    par.run(cut_mut(out, heads, &bounds), |(first, out)| {
        let z = &z[(rows.start + first) * d..];
        at_level!(
            level,
            each_row(z: &[f32], a: &[f32], heads: usize, out: &mut [f32])
        );
    });
}

#[inline(always)]
fn each_row<V: Vector>(z: &[f32], a: &[f32], heads: usize, out: &mut [f32]) {
    for (z, out) in z.chunks_exact(a.len()).zip(out.chunks_exact_mut(heads)) {
        ask_ahead(z);
        head_dots::<V>(z, a, a.len() / heads, out);
    }
}

/// [`scores_into`] for both ends in one pass: `el[u, h] = ⟨z[u, h, :], a_src[h, :]⟩` for all rows,
/// `er[v, h] = ⟨z[v, h, :], a_dst[h, :]⟩` for the first `n_dst`, the rows of `er`.
///
/// # Panics
/// When the shapes disagree.
pub fn score_pair_into(
    par: &Par,
    z: &Mat,
    (a_src, a_dst): (&[f32], &[f32]),
    heads: usize,
    el: &mut Mat,
    er: &mut Mat,
) {
    const OP: &str = "scores";
    let (n, d) = z.dim();
    let n_dst = er.nrows();
    expect_heads(OP, "z", d, heads);
    expect_eq(OP, "numbers in a_src", d, a_src.len());
    expect_eq(OP, "numbers in a_dst", d, a_dst.len());
    expect_eq(OP, "el with rows", n, el.nrows());
    expect_eq(OP, "el with columns", heads, el.ncols());
    expect_eq(OP, "er with columns", heads, er.ncols());
    assert!(
        n_dst <= n,
        "{OP}: expected at most {n} rows of er, got {n_dst}"
    );
    if d == 0 {
        el.fill(0.0);
        er.fill(0.0);
        return;
    }
    let z = flat(OP, z);
    let bounds = par.row_bounds(n, d);
    let within: Vec<usize> = bounds.iter().map(|&b| b.min(n_dst)).collect();
    let er = cut_all(flat_mut(OP, er), heads, &within);
    let el = cut_all(flat_mut(OP, el), heads, &bounds);
    let jobs: Vec<_> = bounds.iter().copied().zip(el.into_iter().zip(er)).collect();
    let level = level_for(d / heads);
    par.run(jobs, |(first, (el, er))| {
        let z = &z[first * d..];
        let a = (a_src, a_dst);
        at_level!(
            level,
            pair(z: &[f32], a: (&[f32], &[f32]), heads: usize, el: &mut [f32], er: &mut [f32])
        );
    });
}

#[inline(always)]
fn pair<V: Vector>(
    z: &[f32],
    (a_src, a_dst): (&[f32], &[f32]),
    heads: usize,
    el: &mut [f32],
    er: &mut [f32],
) {
    let d = a_src.len();
    let mut er = er.chunks_exact_mut(heads);
    for (z, el) in z.chunks_exact(d).zip(el.chunks_exact_mut(heads)) {
        ask_ahead(z);
        head_dots::<V>(z, a_src, d / heads, el);
        if let Some(er) = er.next() {
            head_dots::<V>(z, a_dst, d / heads, er);
        }
    }
}

/// Cuts `data: [n, width]` at ascending row bounds, empty runs included.
fn cut_all<'a>(data: &'a mut [f32], width: usize, bounds: &[usize]) -> Vec<&'a mut [f32]> {
    let mut rest = data;
    let mut runs = Vec::with_capacity(bounds.len());
    for b in bounds.windows(2) {
        let (run, tail) = std::mem::take(&mut rest).split_at_mut((b[1] - b[0]) * width);
        rest = tail;
        runs.push(run);
    }
    runs
}

/// What [`destination_pass`] reads of forward's sums.
#[derive(Clone, Copy, Debug)]
pub struct Summed<'a> {
    /// All of them: `[n_dst, heads·width]`.
    pub out: &'a Mat,
    /// Those of positive scores, [`crate::gat::Positive::out`].
    pub positive: &'a Mat,
    /// [`crate::gat::Positive::share`].
    pub share: &'a Mat,
}

/// Writes `c[v, h] = ⟨g, out⟩` and the gradient of the destinations' scores, `der[v, h] = (1 − slope) ·
/// (⟨g, positive⟩ − c · share)`, of every row and head: with the derivative one everywhere the terms of a
/// row's edges add up to zero, and with the slope everywhere they do, so that what is left is that of positive scores,
/// whose derivative is `1 − slope` above the others'. `g: [n_dst, heads·width]`, `c, der: [n_dst, heads]`.
///
/// # Panics
/// When the shapes disagree.
pub fn destination_pass(
    par: &Par,
    slope: f32,
    g: &Mat,
    sums: Summed<'_>,
    c: &mut Mat,
    der: &mut Mat,
) {
    const OP: &str = "destination_pass";
    let (n, d, heads) = (g.nrows(), g.ncols(), c.ncols());
    expect_heads(OP, "g", d, heads);
    for (name, m, columns) in [
        ("out", sums.out, d),
        ("positive", sums.positive, d),
        ("share", sums.share, heads),
        ("c", c, heads),
        ("der", der, heads),
    ] {
        expect_eq(OP, &format!("{name} with rows"), n, m.nrows());
        expect_eq(OP, &format!("{name} with columns"), columns, m.ncols());
    }
    if d == 0 {
        c.fill(0.0);
        return der.fill(0.0);
    }
    let from = [g, sums.out, sums.positive, sums.share].map(|m| flat(OP, m));
    let bounds = par.row_bounds(n, d);
    let cut = |m| cut_mut(flat_mut(OP, m), heads, &bounds).into_iter();
    let jobs: Vec<_> = cut(c).zip(cut(der)).collect();
    let level = level_for(d / heads);
    par.run(jobs, |((first, c), (_, der))| {
        let (from, to) = ((first, d, from), (heads, slope, c, der));
        at_level!(level, destinations(from: (usize, usize, [&[f32]; 4]), to: (usize, f32, &mut [f32], &mut [f32])));
    });
}

#[inline(always)]
fn destinations<V: Vector>(
    (first, d, [g, out, positive, share]): (usize, usize, [&[f32]; 4]),
    (heads, slope, c, der): (usize, f32, &mut [f32], &mut [f32]),
) {
    let rows = c.chunks_exact_mut(heads).zip(der.chunks_exact_mut(heads));
    for (v, (c, der)) in (first..).zip(rows) {
        let row = v * d..(v + 1) * d;
        let [g, out, positive] = [g, out, positive].map(|x| &x[row.clone()]);
        [g, out, positive].into_iter().for_each(ask_ahead);
        head_dots::<V>(g, out, d / heads, c);
        head_dots::<V>(g, positive, d / heads, der);
        let share = &share[v * heads..(v + 1) * heads];
        for ((der, &c), &share) in der.iter_mut().zip(&*c).zip(share) {
            *der = (1.0 - slope) * (*der - c * share);
        }
    }
}

/// One score on its way back: `s[u, h] = ⟨z[u, h, :], a[h, :]⟩` for the first rows of `z`.
#[derive(Debug)]
pub struct ScoreTerm<'a> {
    /// Gradient of the score, of as many rows as have it: `[≤ n, heads]`.
    pub ds: &'a Mat,
    /// The attention vector: `[heads·width]`.
    pub a: &'a [f32],
    /// Its gradient, written: `[heads·width]`.
    pub da: &'a mut [f32],
}

/// Slopes and attention vector of each term.
type Terms<'a> = &'a [(&'a [f32], &'a [f32])];

/// Adds every term's `ds[u, h] · a[h, :]` to `dz[u, h, :]`, and writes `da[h, :] = Σ_u ds[u, h] ·
/// z[u, h, :]`, all in one pass. `z, dz: [n, heads·width]`.
///
/// # Panics
/// When the shapes disagree.
pub fn score_backward_into(par: &Par, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat) {
    const OP: &str = "score_backward";
    let (n, d) = z.dim();
    expect_eq(OP, "dz with rows", n, dz.nrows());
    expect_eq(OP, "dz with columns", d, dz.ncols());
    let heads = terms.first().map_or(1, |t| t.ds.ncols());
    for t in terms.iter_mut() {
        expect_eq(OP, "ds with columns", heads, t.ds.ncols());
        expect_heads(OP, "z", d, heads);
        expect_eq(OP, "numbers in a", d, t.a.len());
        expect_eq(OP, "numbers in da", d, t.da.len());
        let rows = t.ds.nrows();
        assert!(
            rows <= n,
            "{OP}: expected at most {n} rows of ds, got {rows}"
        );
        t.da.fill(0.0);
    }
    if n == 0 || d == 0 || terms.is_empty() {
        return;
    }
    let z = flat(OP, z);
    let plain: Vec<(&[f32], &[f32])> = terms.iter().map(|t| (flat(OP, t.ds), t.a)).collect();
    let level = level_for(d / heads);
    let stride = terms.len() * d;
    let blocks = n.div_ceil(BLOCK);
    let mut partials = par.scratch(blocks * stride);
    let bounds: Vec<usize> = (0..=blocks).map(|k| (k * BLOCK).min(n)).collect();
    let jobs = cut_mut(flat_mut(OP, dz), d, &bounds).into_iter();
    let jobs: Vec<_> = jobs.zip(partials.chunks_exact_mut(stride)).collect();
    par.run(jobs, |((first, dz), da)| {
        let terms = &plain[..];
        at_level!(
            level,
            back(first: usize, z: &[f32], terms: Terms<'_>, heads: usize, dz: &mut [f32], da: &mut [f32])
        );
    });
    // Blocks are added in their order, each thread on its own columns.
    for (k, t) in terms.iter_mut().enumerate() {
        let bounds = split_rows(d, if d >= 256 { par.threads() } else { 1 });
        par.run(cut_mut(&mut *t.da, 1, &bounds), |(first, da)| {
            for part in partials.chunks_exact(stride) {
                for (to, from) in da.iter_mut().zip(&part[k * d + first..]) {
                    *to += from;
                }
            }
        });
    }
    par.recycle(partials);
}

#[inline(always)]
fn back<V: Vector>(
    first: usize,
    z: &[f32],
    terms: Terms<'_>,
    heads: usize,
    dz: &mut [f32],
    da: &mut [f32],
) {
    let d = terms[0].1.len();
    for (r, dz) in dz.chunks_exact_mut(d).enumerate() {
        let u = first + r;
        let z = &z[u * d..(u + 1) * d];
        ask_ahead(z);
        ask_ahead(dz);
        for ((ds, a), da) in terms.iter().zip(da.chunks_exact_mut(d)) {
            if let Some(ds) = ds.get(u * heads..(u + 1) * heads) {
                add_scaled::<V>(ds, a, d / heads, dz);
                add_scaled::<V>(ds, z, d / heads, da);
            }
        }
    }
}
