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

use crate::gat_scores::Kept;
use crate::hash::{element, mix64, row};
use crate::simd::Level;
use crate::{Csr, Mat, Par, dropout, expect_eq, expect_heads};

pub(crate) use crate::gat_forward::forward_at;

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

/// What [`forward_into`] writes.
#[derive(Debug)]
pub struct Sums<'a> {
    /// Logarithms of the softmax's denominators: `[n_dst, heads]`.
    pub lse: &'a mut Mat,
    /// The weighted sums: `[n_dst, heads·width]`.
    pub out: &'a mut Mat,
    /// For backward: the same over edges with positive scores alone.
    pub positive: Option<Positive<'a>>,
}

/// What edges with positive scores contribute, from which backward has the gradient of destinations' scores
/// ([`crate::gat_dense::destination_pass`]).
#[derive(Debug)]
pub struct Positive<'a> {
    /// Their part of the weighted sums: `[n_dst, heads·width]`.
    pub out: &'a mut Mat,
    /// Their share of the softmax, before dropout: `[n_dst, heads]`.
    pub share: &'a mut Mat,
}

/// For the rows `v` in `rows` and every head: `s_e = LeakyReLU(el[u] + er[v])` over the in-edges,
/// `lse[v] = ln Σ_e exp(s_e)` and `out[v] = Σ_e exp(s_e − lse[v]) · k_e · z[u]`, where `k_e` is the
/// dropout factor. Other rows stay as they are; a row without edges gets zeros and `lse = −∞`.
/// Weights of `a` are not used.
///
/// `a: [n_dst, n_src]`, `z: [n_src, heads·width]`, `el: [n_src, heads]`, `er: [n_dst, heads]`. Whether
/// `to.positive` is asked for does not change the other sums.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `n_dst`, an index of `a` is not below `n_src`, or a
/// setting is out of range.
pub fn forward_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    (z, el, er): (&Mat, &Mat, &Mat),
    to: Sums<'_>,
) {
    forward_at(Level::detect(), par, a, rows, att, (z, el, er), to);
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
