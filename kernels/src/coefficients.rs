//! Attention coefficients as numbers of their own, one an edge: made once and used by several rounds
//! of aggregation, where [`crate::gat`] makes them anew and keeps none.
//!
//! `α_e = softmax over the in-edges of v of LeakyReLU(el[u] + er[v])`, one head.

use crate::edge_softmax;
use crate::gat::AttentionDropout;
use crate::gat_scores::leaky;
use crate::linear::Dropout;
use crate::par::{cut_mut, split_edges};
use crate::{Csr, Par, expect_eq};

/// Calls `f(row, first_edge, out)` with each row's edges of `out: [edges]`.
fn by_row(
    par: &Par,
    a: Csr<'_>,
    out: &mut [f32],
    f: impl Fn(usize, usize, &mut [f32]) + Sync + Send,
) {
    let parts = if out.len() < 16 * 1024 {
        1
    } else {
        4 * par.threads()
    };
    let bounds = split_edges(a.indptr, 0..a.rows(), parts);
    let cuts: Vec<usize> = bounds.iter().map(|&r| a.indptr[r] as usize).collect();
    let runs = bounds
        .windows(2)
        .filter(|b| a.indptr[b[0]] < a.indptr[b[1]]);
    let jobs = runs.zip(cut_mut(out, 1, &cuts)).collect();
    par.run(
        jobs,
        |(rows, (first, out)): (&[usize], (usize, &mut [f32]))| {
            for r in rows[0]..rows[1] {
                let span = a.span(r);
                f(
                    r,
                    span.start,
                    &mut out[span.start - first..span.end - first],
                );
            }
        },
    );
}

fn check(op: &str, a: Csr<'_>, el: &[f32], er: &[f32], edges: usize) {
    expect_eq(op, "el with numbers", a.n_cols, el.len());
    expect_eq(op, "er with numbers", a.rows(), er.len());
    expect_eq(op, "a number for each of the edges", a.n_edges(), edges);
}

/// Writes `alpha: [edges]`; `a: [m, n]`, scores `el: [n]` of sources and `er: [m]` of destinations.
///
/// # Panics
/// When the shapes disagree.
pub fn coefficients_into(
    par: &Par,
    a: Csr<'_>,
    slope: f32,
    (el, er): (&[f32], &[f32]),
    alpha: &mut [f32],
) {
    check("coefficients", a, el, er, alpha.len());
    let mut scores = par.scratch(alpha.len());
    by_row(par, a, &mut scores, |r, first, out| {
        for (s, &u) in out.iter_mut().zip(&a.indices[first..]) {
            *s = leaky(el[u as usize] + er[r], slope);
        }
    });
    edge_softmax::forward_into(par, a.indptr, 0..a.rows(), 1, &scores, alpha);
    par.recycle(scores);
}

/// What [`coefficients_into`] read and wrote.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// Scores of sources: `[n]`.
    pub el: &'a [f32],
    /// Scores of destinations: `[m]`.
    pub er: &'a [f32],
    /// The coefficients: `[edges]`.
    pub alpha: &'a [f32],
}

/// From `dalpha: [edges]`, the gradient of the coefficients, that of the scores: `del: [n]`,
/// `der: [m]`, both written.
///
/// # Panics
/// When the shapes disagree.
pub fn coefficients_backward(
    par: &Par,
    a: Csr<'_>,
    slope: f32,
    made: Made<'_>,
    dalpha: &[f32],
    (del, der): (&mut [f32], &mut [f32]),
) {
    let Made { el, er, alpha } = made;
    check("coefficients_backward", a, el, er, alpha.len());
    check("coefficients_backward", a, del, der, dalpha.len());
    let mut ds = par.scratch(alpha.len());
    edge_softmax::backward_into(par, a.indptr, 0..a.rows(), 1, alpha, dalpha, &mut ds);
    by_row(par, a, &mut ds, |r, first, out| {
        for (s, &u) in out.iter_mut().zip(&a.indices[first..]) {
            let x = el[u as usize] + er[r];
            if x <= slope * x {
                *s *= slope;
            }
        }
    });
    del.fill(0.0);
    for (r, der) in der.iter_mut().enumerate() {
        let span = a.span(r);
        *der = ds[span.clone()].iter().sum();
        for (s, &u) in ds[span.clone()].iter().zip(&a.indices[span]) {
            del[u as usize] += s;
        }
    }
    par.recycle(ds);
}

/// Writes `out[e] = values[e]` times 0 or `1 / (1 − p)`: the factor that [`crate::gat`] has for an edge
/// between these vertices. Row and column `k` of `a` are vertex `drop.ids[k]`; there may be more columns
/// than rows.
///
/// # Panics
/// When the shapes disagree.
pub fn drop_into(par: &Par, a: Csr<'_>, drop: Dropout<'_>, values: &[f32], out: &mut [f32]) {
    let Dropout { key, ids, p } = drop;
    expect_eq("drop_coefficients", "ids", a.n_cols, ids.len());
    assert!(
        a.rows() <= a.n_cols,
        "drop_coefficients: expected at most {} rows, got {}",
        a.n_cols,
        a.rows()
    );
    expect_eq("drop_coefficients", "values", a.n_edges(), values.len());
    expect_eq("drop_coefficients", "out", a.n_edges(), out.len());
    by_row(par, a, out, |r, first, out| {
        let edges = a.indices[first..].iter().zip(&values[first..]);
        for (o, (&u, &value)) in out.iter_mut().zip(edges) {
            *o = value * AttentionDropout::factor(key, p, ids[r], ids[u as usize], 0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsrBuf, Mat, gat};

    fn matrix(n: usize) -> CsrBuf {
        let mut csr = CsrBuf::empty(n);
        for r in 0..n {
            let sources = (0..(r * 7) % 5).map(|k| ((r * 31 + k * 17) % n) as u32);
            csr.indices.extend(sources);
            csr.indptr.push(csr.indices.len() as u64);
        }
        csr
    }

    fn number(i: usize) -> f32 {
        ((i * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0
    }

    /// Sums with these coefficients are those of attention, dropped or not.
    #[test]
    fn sums_are_those_of_attention() {
        let n = 5000;
        let a = matrix(n);
        let a = a.view();
        let (el, er): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (number(i), number(i + n))).unzip();
        let z = Mat::from_shape_fn((n, 3), |(r, c)| number(r * 3 + c));
        let ids: Vec<u32> = (0..n as u32).map(|k| k * 7 % n as u32).collect();
        for dropout in [None, Some((99, 0.5))] {
            let att = gat::Attention {
                heads: 1,
                slope: 0.2,
                dropout: dropout.map(|(key, p)| AttentionDropout {
                    key,
                    p,
                    dst_ids: &ids,
                    src_ids: &ids,
                }),
            };
            let wide = |x: &Mat| x.mapv(f64::from);
            let column = |x: &[f32]| Mat::from_shape_vec((n, 1), x.to_vec()).expect("a column");
            let (el_1, er_1) = (wide(&column(&el)), wide(&column(&er)));
            let (_, expected) = gat::naive(a, &att, &wide(&z), &el_1, &er_1);
            for threads in [1, 3] {
                let par = Par::new(threads);
                let mut alpha = vec![f32::NAN; a.n_edges()];
                coefficients_into(&par, a, 0.2, (&el, &er), &mut alpha);
                if let Some((key, p)) = dropout {
                    let (all, ids) = (alpha.clone(), &ids);
                    drop_into(&par, a, Dropout { key, ids, p }, &all, &mut alpha);
                }
                let weighted = Csr {
                    weights: Some(&alpha),
                    ..a
                };
                let mut out = Mat::zeros((n, 3));
                crate::spmm::naive(weighted, 0..n, &z, &mut out);
                let worst = (&wide(&out) - &expected)
                    .iter()
                    .fold(0.0f64, |m, x| m.max(x.abs()));
                assert!(worst < 1e-5, "{worst}");
            }
        }
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let n = 12;
        let a = matrix(n);
        let a = a.view();
        let (el, er): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (number(i), number(i + n))).unzip();
        let g: Vec<f32> = (0..a.n_edges()).map(|e| number(e + 77)).collect();
        let par = Par::new(1);
        let value = |el: &[f32], er: &[f32]| {
            let mut alpha = vec![0.0; a.n_edges()];
            coefficients_into(&par, a, 0.2, (el, er), &mut alpha);
            alpha
                .iter()
                .zip(&g)
                .map(|(a, g)| f64::from(a * g))
                .sum::<f64>()
        };
        let mut alpha = vec![0.0; a.n_edges()];
        coefficients_into(&par, a, 0.2, (&el, &er), &mut alpha);
        let (mut del, mut der) = (vec![f32::NAN; n], vec![f32::NAN; n]);
        let made = Made {
            el: &el,
            er: &er,
            alpha: &alpha,
        };
        coefficients_backward(&par, a, 0.2, made, &g, (&mut del, &mut der));
        let step = 1e-2f32;
        for v in 0..n {
            let moved = |x: &[f32], by: f32| {
                let mut x = x.to_vec();
                x[v] += by;
                x
            };
            let del_v = (value(&moved(&el, step), &er) - value(&moved(&el, -step), &er)) / 0.02;
            let der_v = (value(&el, &moved(&er, step)) - value(&el, &moved(&er, -step))) / 0.02;
            assert!(
                (del_v - f64::from(del[v])).abs() < 1e-3,
                "{v}: {del_v} {}",
                del[v]
            );
            assert!(
                (der_v - f64::from(der[v])).abs() < 1e-3,
                "{v}: {der_v} {}",
                der[v]
            );
        }
    }
}
