//! Multi-head graph attention: scores, softmax and weighted sum in one pass over the edges.
//!
//! Nothing of size edges × heads × width exists, and in forward not even edges × heads: a row's
//! coefficients are made a few hundred at a time, in a buffer that stays in the nearest cache, and
//! used at once. What is kept for backward ([`crate::gat_backward`]) is one number a row and head,
//! the logarithm of the softmax's denominator.
//!
//! Exponentials are taken of vertices' scores, not of edges' (`gat_factors`). Where that would leave the range
//! of `f32`, they are of edges', relative to the largest score so far, and sums are rescaled when a larger one
//! comes. A hub is worked on in parts of a fixed length, whose sums are
//! joined in their order (`hubs`).
//!
//! # Paper
//! Veličković et al., "Graph Attention Networks", ICLR 2018, <https://arxiv.org/abs/1710.10903>.
//! The joined softmax of parts is that of Milakov, Gimelshein, "Online normalizer calculation for
//! softmax", 2018, <https://arxiv.org/abs/1805.02867>.

use std::ops::Range;

use crate::exp::{exp, ln};
use crate::gat_factors as factors;
use crate::gat_fused;
use crate::gat_scores::{Kept, drop_to, powers, scores};
use crate::gat_tile::{Block, Edges, Rows, blocks, gather};
use crate::hash::{element, mix64, row};
use crate::hubs::{Piece, pieces};
use crate::simd::Level;
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, dropout, expect_eq, expect_heads, expect_rows, flat, flat_mut};

/// Settings of one attention layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Number of heads; the columns of `z` are theirs, one head after the other.
    pub heads: usize,
    /// Slope of LeakyReLU below zero, within `[0, 1]`.
    pub slope: f32,
    /// Dropout of coefficients, after the softmax.
    pub dropout: Option<AttentionDropout<'a>>,
}

/// Dropout of attention coefficients by counter: a function of both ends of an edge and the head,
/// so that every strategy draws the same.
#[derive(Clone, Copy, Debug)]
pub struct AttentionDropout<'a> {
    /// Key of this layer and epoch.
    pub key: u64,
    /// Probability of dropping, within `[0, 1)`.
    pub p: f32,
    /// Global vertex of each destination: `[n_dst]`.
    pub dst_ids: &'a [u32],
    /// Global vertex of each source: `[n_src]`.
    pub src_ids: &'a [u32],
}

impl AttentionDropout<'_> {
    /// The factor of the coefficient of the edge between these vertices: 0 or `1 / (1 − p)`.
    pub fn factor(key: u64, p: f32, dst: u32, src: u32, head: u32) -> f32 {
        let (keep, scale) = dropout::threshold(p);
        let alive = element(row(destination_key(key, dst), src), head) >> 8 >= keep;
        if alive { scale } else { 0.0 }
    }

    pub(crate) fn kept(&self) -> Kept {
        let (keep, scale) = dropout::threshold(self.p);
        Kept { keep, scale }
    }
}

/// The key of the edges to destination `dst`.
pub(crate) fn destination_key(key: u64, dst: u32) -> u64 {
    key ^ mix64(u64::from(dst))
}

/// Numbers of edges × heads in the buffer between scores and sums.
const BUFFER: usize = 512;

/// Edges that are worked on together.
pub(crate) fn chunk(heads: usize) -> usize {
    (BUFFER / heads).clamp(8, 256)
}

/// The best level for heads of `width` columns: vectors wider than a head would be half empty.
pub(crate) fn level_for(width: usize) -> Level {
    match Level::detect() {
        Level::Avx512 if width <= 8 => Level::Avx2,
        level => level,
    }
}

/// Scalar reference in double precision; see [`forward_into`]. Returns `(lse, out)` of all rows.
pub fn naive(
    a: Csr<'_>,
    att: &Attention<'_>,
    z: &ndarray::Array2<f64>,
    el: &ndarray::Array2<f64>,
    er: &ndarray::Array2<f64>,
) -> (ndarray::Array2<f64>, ndarray::Array2<f64>) {
    let (heads, width) = (att.heads, z.ncols() / att.heads);
    let mut lse = ndarray::Array2::from_elem((a.rows(), heads), f64::NEG_INFINITY);
    let mut out = ndarray::Array2::zeros((a.rows(), z.ncols()));
    for v in 0..a.rows() {
        for h in 0..heads {
            let score = |u: usize| {
                let x = el[[u, h]] + er[[v, h]];
                if x > 0.0 { x } else { f64::from(att.slope) * x }
            };
            let sources: Vec<usize> = a.span(v).map(|e| a.indices[e] as usize).collect();
            let m = sources
                .iter()
                .map(|&u| score(u))
                .fold(f64::NEG_INFINITY, f64::max);
            let t: f64 = sources.iter().map(|&u| (score(u) - m).exp()).sum();
            lse[[v, h]] = m + t.ln();
            for &u in &sources {
                let alpha = (score(u) - m).exp() / t * f64::from(factor(att, v, u, h));
                for c in h * width..(h + 1) * width {
                    out[[v, c]] += alpha * z[[u, c]];
                }
            }
        }
    }
    (lse, out)
}

/// The dropout factor of one coefficient.
pub(crate) fn factor(att: &Attention<'_>, v: usize, u: usize, h: usize) -> f32 {
    att.dropout.map_or(1.0, |d| {
        AttentionDropout::factor(d.key, d.p, d.dst_ids[v], d.src_ids[u], h as u32)
    })
}

/// For the rows `v` in `rows` and every head: `s_e = LeakyReLU(el[u] + er[v])` over the in-edges,
/// `lse[v] = ln Σ_e exp(s_e)` and `out[v] = Σ_e exp(s_e − lse[v]) · k_e · z[u]`, where `k_e` is the
/// dropout factor. Other rows stay as they are; a row without edges gets zeros and `lse = −∞`.
/// Weights of `a` are not used.
///
/// `a: [n_dst, n_src]`, `z: [n_src, heads·width]`, `el: [n_src, heads]`, `er: [n_dst, heads]`,
/// `lse: [n_dst, heads]`, `out: [n_dst, heads·width]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `n_dst`, an index of `a` is not below `n_src`, or a
/// setting is out of range.
#[allow(clippy::too_many_arguments)]
pub fn forward_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    z: &Mat,
    el: &Mat,
    er: &Mat,
    lse: &mut Mat,
    out: &mut Mat,
) {
    let level = level_for(z.ncols() / att.heads.max(1));
    forward_at(level, par, a, rows, att, (z, el, er), (lse, out));
}

/// Checks what both directions have in common and returns the width of a head.
pub(crate) fn check(
    op: &str,
    att: &Attention<'_>,
    (n_dst, n_src): (usize, usize),
    z: &Mat,
    el: &Mat,
    er: &Mat,
) -> usize {
    let heads = att.heads;
    expect_heads(op, "z", z.ncols(), heads);
    assert!(
        (0.0..=1.0).contains(&att.slope),
        "{op}: expected a slope within [0, 1], got {}",
        att.slope
    );
    expect_eq(op, "z with rows", n_src, z.nrows());
    expect_eq(op, "el with rows", n_src, el.nrows());
    expect_eq(op, "el with columns", heads, el.ncols());
    expect_eq(op, "er with rows", n_dst, er.nrows());
    expect_eq(op, "er with columns", heads, er.ncols());
    if let Some(d) = att.dropout {
        expect_eq(op, "ids of destinations", n_dst, d.dst_ids.len());
        expect_eq(op, "ids of sources", n_src, d.src_ids.len());
    }
    z.ncols() / heads
}

/// What every row of one forward call needs.
struct Forward<'a> {
    level: Level,
    a: Csr<'a>,
    att: &'a Attention<'a>,
    kept: Option<Kept>,
    z: Rows<'a>,
    el: &'a [f32],
    er: &'a [f32],
    /// Factors of the sources' exponentials: `[n_src, 2·heads]`.
    factors: &'a [f32],
}

enum Job<'o> {
    /// Whole rows with their outputs.
    Rows {
        rows: Range<usize>,
        lse: &'o mut [f32],
        out: &'o mut [f32],
    },
    /// Part of a hub: the maxima and sums of its heads, then its unscaled output.
    Part {
        row: usize,
        edges: Range<usize>,
        partial: &'o mut [f32],
    },
}

/// A hub: its parts among the partial results, and its outputs.
struct Hub<'o> {
    parts: Range<usize>,
    lse: &'o mut [f32],
    out: &'o mut [f32],
}

/// [`forward_into`] at a level that the processor supports.
pub(crate) fn forward_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    (z, el, er): (&Mat, &Mat, &Mat),
    (lse, out): (&mut Mat, &mut Mat),
) {
    let width = check(OP, att, (a.rows(), a.n_cols), z, el, er);
    let (heads, d) = (att.heads, z.ncols());
    expect_eq(OP, "lse with rows", a.rows(), lse.nrows());
    expect_eq(OP, "lse with columns", heads, lse.ncols());
    expect_eq(OP, "out with rows", a.rows(), out.nrows());
    expect_eq(OP, "out with columns", d, out.ncols());
    expect_rows(OP, &rows, a.rows());
    if rows.is_empty() || d == 0 {
        return;
    }
    let factors = factors::of_sources(par, flat(OP, el), heads, att.slope);
    let f = &Forward {
        level,
        a,
        att,
        kept: att.dropout.map(|d| d.kept()),
        z: Rows {
            x: flat(OP, z),
            n: a.n_cols,
            heads,
            width,
        },
        el: flat(OP, el),
        er: flat(OP, er),
        factors: &factors,
    };
    let pieces = pieces(a.indptr, rows.clone(), par.threads());
    let part = |p: &&Piece| matches!(p, Piece::Part { .. });
    let n_parts = pieces.iter().filter(part).count();
    let stride = 2 * heads + d;
    let mut scratch = par.scratch(n_parts * stride);
    let (jobs, hubs) = share_out(f, rows, pieces, (lse, out), &mut scratch);
    par.run(jobs, |job| {
        at_level!(level, run(f: &Forward<'_>, job: Job<'_>));
    });
    for hub in hubs {
        join(
            &scratch[hub.parts.start * stride..hub.parts.end * stride],
            stride,
            heads,
            hub,
        );
    }
    par.recycle(scratch);
    par.recycle(factors);
}

const OP: &str = "gat";

/// A job for each of `pieces` of the rows `rows`, with what it writes: rows of the outputs, or for a part
/// of a hub a place in `scratch`, from which the hub is joined.
fn share_out<'o: 's, 's>(
    f: &Forward<'_>,
    rows: Range<usize>,
    pieces: Vec<Piece>,
    (lse, out): (&'o mut Mat, &'o mut Mat),
    scratch: &'s mut [f32],
) -> (Vec<Job<'s>>, Vec<Hub<'o>>) {
    let (heads, d) = (f.z.heads, f.z.heads * f.z.width);
    let mut lse = &mut flat_mut(OP, lse)[rows.start * heads..rows.end * heads];
    let mut out = &mut flat_mut(OP, out)[rows.start * d..rows.end * d];
    let mut take = |n: usize| {
        let (l, l_rest) = std::mem::take(&mut lse).split_at_mut(n * heads);
        let (o, o_rest) = std::mem::take(&mut out).split_at_mut(n * d);
        (lse, out) = (l_rest, o_rest);
        (l, o)
    };
    let mut partials = scratch.chunks_exact_mut(2 * heads + d);
    let (mut jobs, mut hubs, mut part) =
        (Vec::with_capacity(pieces.len()), Vec::<Hub<'_>>::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Rows(rows) => {
                let (lse, out) = take(rows.len());
                jobs.push(Job::Rows { rows, lse, out });
            }
            Piece::Part { row, edges } => {
                if edges.start as u64 == f.a.indptr[row] {
                    let (lse, out) = take(1);
                    hubs.push(Hub {
                        parts: part..part,
                        lse,
                        out,
                    });
                }
                part += 1;
                hubs.last_mut()
                    .expect("a hub's first part comes first")
                    .parts
                    .end = part;
                let partial = partials.next().expect("one for each part");
                jobs.push(Job::Part {
                    row,
                    edges,
                    partial,
                });
            }
        }
    }
    (jobs, hubs)
}

/// Buffers for one run of edges and one row.
struct Buffers {
    /// Powers: `[edges, heads]`.
    p: Vec<f32>,
    /// A destination's factors: `[2·heads]`.
    own: Vec<f32>,
    /// The largest scores before a run of edges: `[heads]`.
    before: Vec<f32>,
}

#[inline(always)]
fn run<V: Vector>(f: &Forward<'_>, job: Job<'_>) {
    let (heads, d) = (f.z.heads, f.z.heads * f.z.width);
    let blocks = blocks::<V>(heads, f.z.width);
    let mut buffers = Buffers {
        p: vec![0.0; chunk(heads) * heads],
        own: vec![0.0; 2 * heads],
        before: vec![0.0; heads],
    };
    match job {
        Job::Rows { rows, lse, out } => {
            let (mut m, mut t) = (vec![0.0; heads], vec![0.0; heads]);
            let outputs = lse.chunks_exact_mut(heads).zip(out.chunks_exact_mut(d));
            for (r, (lse, out)) in rows.zip(outputs) {
                let to = (&mut m[..], &mut t[..], &mut *out);
                sum::<V>(f, r, f.a.span(r), &blocks, &mut buffers, to);
                finish(&m, &t, lse, out);
            }
        }
        Job::Part {
            row,
            edges,
            partial,
        } => {
            let (m, rest) = partial.split_at_mut(heads);
            let (t, out) = rest.split_at_mut(heads);
            sum::<V>(f, row, edges, &blocks, &mut buffers, (m, t, out));
        }
    }
}

/// Over some edges of row `r`: what powers are relative to, `m: [heads]`, the sums `t: [heads]` of the powers,
/// and the sum of the sources with these as factors, `out: [heads·width]`.
#[inline(always)]
fn sum<V: Vector>(
    f: &Forward<'_>,
    r: usize,
    edges: Range<usize>,
    blocks: &[Block],
    buffers: &mut Buffers,
    (m, t, out): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let heads = f.z.heads;
    let Buffers { p, own, before } = buffers;
    let er = &f.er[r * heads..(r + 1) * heads];
    let step = p.len() / heads;
    // Rows without edges, and those whose factors leave the range, are relative to their largest scores.
    let mut by_largest = edges.is_empty();
    loop {
        if by_largest {
            m.fill(f32::NEG_INFINITY);
        } else {
            factors::of_destination(f.level, er, f.att.slope, m, own);
        }
        t.fill(0.0);
        out.fill(0.0);
        let mut at = edges.start;
        while at < edges.end {
            let some = Edges::new(f.a.indices, at..(at + step).min(edges.end));
            some.expect_below(f.z.n);
            let p = &mut p[..some.rows.len() * heads];
            if !by_largest && gat_fused::fits::<V>(heads, f.z.width) {
                if f.kept.is_some() {
                    p.fill(1.0);
                }
                let kept = drop_out(f, r, some, p).then_some(&*p);
                gat_fused::forward::<V>(f.z, some, (f.factors, own), kept, t, out);
                at += step;
                continue;
            }
            if by_largest {
                before.copy_from_slice(m);
                scores(f.level, f.el, er, f.att.slope, some.rows, p, m);
                if at > edges.start && before != m {
                    rescale(before, m, t, out);
                }
                powers(f.level, m, p, t);
            } else {
                factors::powers(f.level, f.factors, own, some, p, t);
            }
            drop_out(f, r, some, p);
            gather::<V>(f.z, some, p, blocks, out);
            at += step;
        }
        if by_largest || factors::good(t) {
            break;
        }
        by_largest = true;
    }
}

/// Multiplies `p: [edges, heads]` by the dropout factors of the edges to row `r`; whether there are any.
#[inline(always)]
fn drop_out(f: &Forward<'_>, r: usize, edges: Edges<'_>, p: &mut [f32]) -> bool {
    let (Some(kept), Some(drop)) = (f.kept, f.att.dropout) else {
        return false;
    };
    let key = destination_key(drop.key, drop.dst_ids[r]);
    drop_to(f.level, kept, key, drop.src_ids, f.z.heads, edges.rows, p);
    true
}

/// Takes sums relative to the maxima `before` to those relative to `m`.
fn rescale(before: &[f32], m: &[f32], t: &mut [f32], out: &mut [f32]) {
    let width = out.len() / m.len();
    for (h, out) in out.chunks_exact_mut(width).enumerate() {
        let by = exp(before[h] - m[h]);
        t[h] *= by;
        out.iter_mut().for_each(|o| *o *= by);
    }
}

/// From the sums of a row to its outputs.
#[inline(always)]
fn finish(m: &[f32], t: &[f32], lse: &mut [f32], out: &mut [f32]) {
    let width = out.len() / m.len();
    for ((lse, &m), &t) in lse.iter_mut().zip(m).zip(t) {
        *lse = m + ln(t);
    }
    for (h, out) in out.chunks_exact_mut(width).enumerate() {
        // Without edges there is nothing to scale, and no number to scale it with.
        if t[h] != 0.0 {
            let scale = 1.0 / t[h];
            out.iter_mut().for_each(|o| *o *= scale);
        }
    }
}

/// Joins the parts of a hub in their order.
fn join(parts: &[f32], stride: usize, heads: usize, hub: Hub<'_>) {
    let (mut m, mut t) = (vec![f32::NEG_INFINITY; heads], vec![0.0; heads]);
    for part in parts.chunks_exact(stride) {
        for (m, &other) in m.iter_mut().zip(part) {
            *m = m.max(other);
        }
    }
    hub.out.fill(0.0);
    let width = hub.out.len() / heads;
    for part in parts.chunks_exact(stride) {
        let (head, sums) = part.split_at(2 * heads);
        for h in 0..heads {
            let scale = exp(head[h] - m[h]);
            t[h] += scale * head[heads + h];
            let sums = &sums[h * width..(h + 1) * width];
            for (o, s) in hub.out[h * width..].iter_mut().zip(sums) {
                *o += scale * s;
            }
        }
    }
    finish(&m, &t, hub.lse, hub.out);
}
