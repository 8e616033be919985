//! Attention: fused forward and backward, and the separate steps that others are made of.
//!
//! The fused passes are checked row by row against their formulas in `f64`.

use super::sparse::{csr_bytes, some_rows};
use super::{Bench, Work, deviation, matrix};
use crate::gat::{Attention, Positive, Sums, forward_into};
use crate::gat_backward::{Saved, SourceGradients, source_pass};
use crate::gat_dense::{Summed, destination_pass, score_pair_into};
use crate::{Csr, Mat, Par, edge_softmax, sddmm};
use std::ops::Range;

const SLOPE: f32 = 0.2;

/// One layer's operands, `d` being the columns of all heads: `z, g: [n, d]`, scores `[n, heads]`.
struct Layer<'a> {
    a: Csr<'a>,
    at: Csr<'a>,
    heads: usize,
    z: Mat,
    g: Mat,
    el: Mat,
    er: Mat,
    lse: Mat,
    c: Mat,
}

pub(super) fn all(b: &mut Bench<'_>) {
    let names = [
        "gat scores",
        "gat forward",
        "gat backward, destinations",
        "gat backward, sources",
        "sddmm",
        "edge softmax",
        "edge softmax, backward",
        "spmm by heads",
    ];
    if !b.wants(&names) {
        return;
    }
    let a = Csr {
        weights: None,
        ..b.input.graph
    };
    let (n, heads, d) = (a.rows(), b.input.heads, b.input.heads * b.input.head_width);
    let at = a.transpose();
    let mut l = Layer {
        a,
        at: at.view(),
        heads,
        z: matrix(n, d, 20),
        g: matrix(n, d, 21),
        el: matrix(n, heads, 22),
        er: matrix(n, heads, 23),
        lse: Mat::zeros((n, heads)),
        c: Mat::zeros((n, heads)),
    };
    scores(b, &l);
    let sums = forward(b, &mut l);
    destinations(b, &mut l, &sums);
    sources(b, &l);
    steps(b, &l);
}

fn shape(l: &Layer<'_>) -> String {
    let (n, d) = l.z.dim();
    format!(
        "{n} rows, {} edges, {}×{}",
        l.a.n_edges(),
        l.heads,
        d / l.heads
    )
}

fn attention(heads: usize) -> Attention<'static> {
    Attention {
        heads,
        slope: SLOPE,
        dropout: None,
    }
}

fn scores(b: &mut Bench<'_>, l: &Layer<'_>) {
    let ((n, d), heads) = (l.z.dim(), l.heads);
    let (src, dst) = (matrix(1, d, 24), matrix(1, d, 25));
    let (src, dst) = (
        src.as_slice().expect("one row"),
        dst.as_slice().expect("one row"),
    );
    let mut scores = (Mat::zeros((n, heads)), Mat::zeros((n, heads)));
    b.case(
        "gat scores",
        format!("[{n}, {heads}×{}]", d / heads),
        Work::once(4 * n * (d + 2 * heads), 4 * n * d),
        &mut scores,
        |par, (el, er)| score_pair_into(par, &l.z, (src, dst), heads, el, er),
        |(el, er)| {
            let width = d / heads;
            let dot = |v: usize, h: usize, a: &[f32]| -> f64 {
                (h * width..(h + 1) * width)
                    .map(|c| f64::from(l.z[[v, c]]) * f64::from(a[c]))
                    .sum()
            };
            let rows = some_rows(n);
            let pairs = |a: &[f32]| -> Vec<f32> {
                let heads = |v| (0..heads).map(move |h| (v, h));
                rows.clone()
                    .flat_map(heads)
                    .map(|(v, h)| dot(v, h, a) as f32)
                    .collect()
            };
            let cut = ndarray::s![rows.clone(), ..];
            deviation(el.slice(cut), &pairs(src), width).max(deviation(
                er.slice(cut),
                &pairs(dst),
                width,
            ))
        },
    );
}

/// Forward's sums: all edges, and of positive scores their part and their share.
type Summing = [Mat; 3];

/// The pass over the edges, with what backward needs of it.
fn forward(b: &mut Bench<'_>, l: &mut Layer<'_>) -> Summing {
    let ((n, d), e, heads) = (l.z.dim(), l.a.n_edges(), l.heads);
    let (a, from) = (l.a, (&l.z, &l.el, &l.er));
    let sums = [d, d, heads].map(|columns| Mat::zeros((n, columns)));
    let mut out = (std::mem::take(&mut l.lse), sums);
    let run = |par: &Par, (lse, [out, positive, share]): &mut (Mat, Summing)| {
        let positive = Some(Positive {
            out: positive,
            share,
        });
        let to = Sums { lse, out, positive };
        forward_into(par, a, 0..n, &attention(heads), from, to);
    };
    // Also what backward reads, whatever was asked for.
    run(b.par, &mut out);
    b.case(
        "gat forward",
        shape(l),
        Work::once(
            csr_bytes(&a) + 4 * n * (3 * d + 4 * heads),
            e * (4 * d + 8 * heads),
        ),
        &mut out,
        run,
        |(_, [out, ..])| {
            let rows = some_rows(n);
            let want = attended(a, heads, from.0, (from.1, from.2), rows.clone());
            deviation(out.slice(ndarray::s![rows, ..]), &want, 16)
        },
    );
    l.lse = out.0;
    out.1
}

fn leaky(s: f64) -> (f64, f64) {
    if s > 0.0 {
        (s, 1.0)
    } else {
        (f64::from(SLOPE) * s, f64::from(SLOPE))
    }
}

/// Outputs of some rows by the formula: softmax over the in-edges, then the weighted sum.
fn attended(a: Csr<'_>, heads: usize, z: &Mat, (el, er): (&Mat, &Mat), rows: Range<usize>) -> Mat {
    let d = z.ncols();
    let first = rows.start;
    Mat::from_shape_fn((rows.len(), d), |(k, c)| {
        let (v, h) = (first + k, c * heads / d);
        let score = |e: usize| {
            let u = a.indices[e] as usize;
            leaky(f64::from(el[[u, h]]) + f64::from(er[[v, h]])).0.exp()
        };
        let total: f64 = a.span(v).map(score).sum();
        let sum: f64 = a
            .span(v)
            .map(|e| score(e) * f64::from(z[[a.indices[e] as usize, c]]))
            .sum();
        if total > 0.0 {
            (sum / total) as f32
        } else {
            0.0
        }
    })
}

/// `⟨g, out⟩` of every row, which the pass over sources reads, and the gradient of destinations' scores.
fn destinations(b: &mut Bench<'_>, l: &mut Layer<'_>, [out, positive, share]: &Summing) {
    let ((n, d), heads) = (l.z.dim(), l.heads);
    let sums = Summed {
        out,
        positive,
        share,
    };
    let (g, slope) = (&l.g, SLOPE);
    let mut to = (std::mem::take(&mut l.c), Mat::zeros((n, heads)));
    let run = |par: &Par, (c, der): &mut (Mat, Mat)| destination_pass(par, slope, g, sums, c, der);
    run(b.par, &mut to);
    b.case(
        "gat backward, destinations",
        format!("[{n}, {heads}×{}]", d / heads),
        Work::once(4 * n * (3 * d + 3 * heads), 4 * n * d),
        &mut to,
        run,
        |(_, der)| {
            let rows = some_rows(n);
            let want = Mat::from_shape_fn((rows.len(), heads), |(k, h)| {
                of_destination(l, rows.start + k, h) as f32
            });
            deviation(der.slice(ndarray::s![rows, ..]), &want, 16)
        },
    );
    l.c = to.0;
}

/// The gradient of a destination's score: the sum of those of its edges, by their formula.
fn of_destination(l: &Layer<'_>, v: usize, h: usize) -> f64 {
    let columns = |u: usize, x: &Mat| -> f64 {
        let width = l.z.ncols() / l.heads;
        let columns = h * width..(h + 1) * width;
        columns
            .map(|c| f64::from(l.g[[v, c]]) * f64::from(x[[u, c]]))
            .sum()
    };
    let mut edges = Vec::new();
    for &u in &l.a.indices[l.a.span(v)] {
        let score = f64::from(l.el[[u as usize, h]]) + f64::from(l.er[[v, h]]);
        let (s, slope) = leaky(score);
        edges.push((s.exp(), slope, columns(u as usize, &l.z)));
    }
    let total: f64 = edges.iter().map(|e| e.0).sum();
    let mean: f64 = edges.iter().map(|e| e.0 / total * e.2).sum();
    edges
        .iter()
        .map(|&(power, slope, dot)| power / total * (dot - mean) * slope)
        .sum()
}

fn sources(b: &mut Bench<'_>, l: &Layer<'_>) {
    let ((n, d), e, heads) = (l.z.dim(), l.a.n_edges(), l.heads);
    let saved = Saved {
        z: &l.z,
        el: &l.el,
        er: &l.er,
        lse: &l.lse,
        c: &l.c,
        g: &l.g,
    };
    let mut out = (Mat::zeros((n, d)), Mat::zeros((n, heads)));
    b.case(
        "gat backward, sources",
        shape(l),
        Work::once(
            csr_bytes(&l.at) + 4 * n * (3 * d + 5 * heads),
            e * (4 * d + 8 * heads),
        ),
        &mut out,
        |par, (dz, del)| {
            let out = SourceGradients { dz, del };
            source_pass(par, l.at, 0..n, &attention(heads), &saved, out);
        },
        |(dz, del)| of_sources(l, dz, del),
    );
}

/// Deviation of the gradients of some sources from their formulas.
fn of_sources(l: &Layer<'_>, dz: &Mat, del: &Mat) -> f64 {
    let (d, heads) = (l.z.ncols(), l.heads);
    let (width, rows) = (d / heads, some_rows(l.at.rows()));
    let mut want = Mat::zeros((rows.len(), d));
    let mut want_del = ndarray::Array2::<f64>::zeros((rows.len(), heads));
    for u in rows.clone() {
        for e in l.at.span(u) {
            let v = l.at.indices[e] as usize;
            for h in 0..heads {
                let (s, slope) = leaky(f64::from(l.el[[u, h]]) + f64::from(l.er[[v, h]]));
                let alpha = (s - f64::from(l.lse[[v, h]])).exp();
                let mut dot = 0.0;
                for c in h * width..(h + 1) * width {
                    let g = f64::from(l.g[[v, c]]);
                    dot += g * f64::from(l.z[[u, c]]);
                    want[[u - rows.start, c]] += (alpha * g) as f32;
                }
                want_del[[u - rows.start, h]] += alpha * (dot - f64::from(l.c[[v, h]])) * slope;
            }
        }
    }
    let want_del = want_del.mapv(|x| x as f32);
    let some = ndarray::s![rows, ..];
    deviation(dz.slice(some), &want, 16).max(deviation(del.slice(some), &want_del, 16 * width))
}

fn steps(b: &mut Bench<'_>, l: &Layer<'_>) {
    let ((n, d), e, heads) = (l.z.dim(), l.a.n_edges(), l.heads);
    let csr = csr_bytes(&l.a);
    // Edges of the rows that are checked.
    let rows = some_rows(n);
    let span = l.a.indptr[rows.start] as usize * heads..l.a.indptr[rows.end] as usize * heads;
    let mut scores = vec![0f32; e * heads];
    b.case(
        "sddmm",
        shape(l),
        Work::once(csr + 4 * (2 * n * d + e * heads), 2 * e * d),
        &mut scores,
        |par, scores| sddmm::sddmm_into(par, l.a, 0..n, heads, &l.g, &l.z, scores),
        |scores| {
            let mut want = vec![0f32; e * heads];
            sddmm::naive(l.a, rows.clone(), heads, &l.g, &l.z, &mut want);
            deviation(&scores[span.clone()], &want[span.clone()], d / heads)
        },
    );
    let mut alpha = vec![0f32; e * heads];
    b.case(
        "edge softmax",
        shape(l),
        Work::once(8 * (n + 1) + 8 * e * heads, 5 * e * heads),
        &mut alpha,
        |par, alpha| edge_softmax::forward_into(par, l.a.indptr, 0..n, heads, &scores, alpha),
        |alpha| {
            let exact: Vec<f64> = scores.iter().map(|&s| f64::from(s)).collect();
            let want = edge_softmax::naive::forward(l.a.indptr, heads, &exact);
            let want: Vec<f32> = want[span.clone()].iter().map(|&w| w as f32).collect();
            deviation(&alpha[span.clone()], &want, 16)
        },
    );
    // Shares of every edge, whatever was asked for.
    edge_softmax::forward_into(b.par, l.a.indptr, 0..n, heads, &scores, &mut alpha);
    let mut ds = vec![0f32; e * heads];
    b.case(
        "edge softmax, backward",
        shape(l),
        Work::once(8 * (n + 1) + 12 * e * heads, 4 * e * heads),
        &mut ds,
        |par, ds| {
            edge_softmax::backward_into(par, l.a.indptr, 0..n, heads, &alpha, &scores, ds);
        },
        |ds| {
            let want: Vec<f32> = rows
                .clone()
                .flat_map(|r| softmax_slopes(l.a.span(r), heads, &alpha, &scores))
                .collect();
            deviation(&ds[span.clone()], &want, d / heads)
        },
    );
    let mut out = Mat::zeros((n, d));
    b.case(
        "spmm by heads",
        shape(l),
        Work::once(csr + 4 * (2 * n * d + e * heads), 2 * e * d),
        &mut out,
        |par, out| sddmm::spmm_heads_into(par, l.a, 0..n, heads, &alpha, &l.z, out),
        |out| {
            let mut want = Mat::zeros((n, d));
            sddmm::naive_spmm(l.a, rows.clone(), heads, &alpha, &l.z, &mut want);
            let cut = ndarray::s![rows.clone(), ..];
            deviation(out.slice(cut), want.slice(cut), 16)
        },
    );
}

/// `α (g − Σ α g)` of one row's edges.
fn softmax_slopes(span: Range<usize>, heads: usize, alpha: &[f32], g: &[f32]) -> Vec<f32> {
    let at = |e: usize, h: usize| (f64::from(alpha[e * heads + h]), f64::from(g[e * heads + h]));
    let mut out = Vec::with_capacity(span.len() * heads);
    let product = |(a, g)| a * g;
    let sums: Vec<f64> = (0..heads)
        .map(|h| span.clone().map(|e| product(at(e, h))).sum())
        .collect();
    for e in span {
        for (h, sum) in sums.iter().enumerate() {
            let (a, g) = at(e, h);
            out.push((a * (g - sum)) as f32);
        }
    }
    out
}
