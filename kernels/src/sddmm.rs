//! Dot products on edges (sampled dense-dense product), per head, and aggregation with one stored
//! coefficient an edge and head: the unfused forms of attention, for strategies that need the
//! coefficients themselves.
//!
//! Each is the other's backward: with `s = ⟨p, q⟩` on edges, `dp` is [`spmm_heads_into`] of `q` with
//! coefficients `ds`, and `dq` the same on the transposed edges; the gradient of the coefficients of
//! an aggregation is [`sddmm_into`] of its gradient and its input.

use std::ops::Range;

use crate::csr::out_of_range;
use crate::gat::level_for;
use crate::gat_layout::Layout;
use crate::gat_sum::{Close, Gathered, Rows, Run, Sums, sum};
use crate::gat_written::Written;
use crate::head_dots::head_dots;
use crate::hubs::{each_edge, sum_rows, within};
use crate::simd::Level;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, expect_heads, expect_rows, flat, flat_mut};

/// Scalar reference of [`sddmm_into`].
pub fn naive(a: Csr<'_>, rows: Range<usize>, heads: usize, p: &Mat, q: &Mat, out: &mut [f32]) {
    let width = p.ncols() / heads;
    for r in rows {
        for e in a.span(r) {
            for h in 0..heads {
                let columns = h * width..(h + 1) * width;
                let dot = columns.map(|c| p[[r, c]] * q[[a.indices[e] as usize, c]]);
                out[e * heads + h] = dot.sum();
            }
        }
    }
}

/// Scalar reference of [`spmm_heads_into`].
pub fn naive_spmm(a: Csr<'_>, rows: Range<usize>, heads: usize, w: &[f32], x: &Mat, out: &mut Mat) {
    let width = x.ncols() / heads;
    for r in rows {
        for c in 0..x.ncols() {
            let message = |e: usize| w[e * heads + c / width] * x[[a.indices[e] as usize, c]];
            out[[r, c]] = a.span(r).map(message).sum();
        }
    }
}

/// Checks what both functions have in common.
fn check(op: &str, a: Csr<'_>, rows: &Range<usize>, heads: usize, x: &Mat, per_edge: usize) {
    expect_heads(op, "sources", x.ncols(), heads);
    expect_eq(op, "rows of sources", a.n_cols, x.nrows());
    expect_eq(op, "numbers of edges", a.n_edges() * heads, per_edge);
    expect_rows(op, rows, a.rows());
}

/// Writes `out[e, h] = ⟨p[r, h, :], q[col_e, h, :]⟩` for the edges of the rows `r` in `rows`, and
/// leaves the others. Weights of `a` are not used.
///
/// `a: [m, n]`, `p: [m, heads·width]`, `q: [n, heads·width]`, `out: [edges, heads]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or an index of `a` is not below `n`.
pub fn sddmm_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    heads: usize,
    p: &Mat,
    q: &Mat,
    out: &mut [f32],
) {
    let level = level_for(p.ncols() / heads.max(1));
    sddmm_at(level, par, a, rows, heads, (p, q), out);
}

fn sddmm_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    heads: usize,
    (p, q): (&Mat, &Mat),
    out: &mut [f32],
) {
    const OP: &str = "sddmm";
    check(OP, a, &rows, heads, q, out.len());
    expect_eq(OP, "p with rows", a.rows(), p.nrows());
    expect_eq(OP, "p with columns", q.ncols(), p.ncols());
    if rows.is_empty() {
        return;
    }
    let of_rows = a.indptr[rows.start] as usize * heads..a.indptr[rows.end] as usize * heads;
    let out = &mut out[of_rows];
    let d = q.ncols();
    if d == 0 {
        return out.fill(0.0);
    }
    let (p, q) = (flat(OP, p), flat(OP, q));
    each_edge(par, a.indptr, rows, heads, out, |rows, edges, out| {
        let pq = (p, q);
        at_level!(
            level,
            dots(
                a: Csr<'_>, rows: Range<usize>, edges: Range<usize>, pq: (&[f32], &[f32]),
                d: usize, heads: usize, out: &mut [f32],
            )
        );
    });
}

#[inline(always)]
fn dots<V: Vector>(
    a: Csr<'_>,
    rows: Range<usize>,
    edges: Range<usize>,
    (p, q): (&[f32], &[f32]),
    d: usize,
    heads: usize,
    out: &mut [f32],
) {
    let mut out = out.chunks_exact_mut(heads);
    for r in rows {
        let p = &p[r * d..(r + 1) * d];
        for (e, out) in within(a.span(r), &edges).zip(&mut out) {
            let u = a.indices[e] as usize;
            if u >= a.n_cols {
                out_of_range("sddmm", u, a.n_cols);
            }
            if let Some(&next) = a.indices.get(e + AHEAD) {
                let row = q.as_ptr().wrapping_add(next as usize * d);
                prefetch_row(row, d);
            }
            head_dots::<V>(p, &q[u * d..(u + 1) * d], d / heads, out);
        }
    }
}

/// Writes `out[r, h, :] = Σ_e w[e, h] · x[col_e, h, :]` for the rows in `rows` and leaves the
/// others. Weights of `a` are not used.
///
/// `a: [m, n]`, `w: [edges, heads]`, `x: [n, heads·width]`, `out: [m, heads·width]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or an index of `a` is not below `n`.
pub fn spmm_heads_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    heads: usize,
    w: &[f32],
    x: &Mat,
    out: &mut Mat,
) {
    let level = level_for(x.ncols() / heads.max(1));
    spmm_heads_at(level, par, a, rows, heads, (w, x), out);
}

fn spmm_heads_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    heads: usize,
    (w, x): (&[f32], &Mat),
    out: &mut Mat,
) {
    const OP: &str = "spmm_heads";
    check(OP, a, &rows, heads, x, w.len());
    let d = x.ncols();
    expect_eq(OP, "out with rows", a.rows(), out.nrows());
    expect_eq(OP, "out with columns", d, out.ncols());
    if rows.is_empty() || d == 0 {
        return;
    }
    let (n, width) = (a.n_cols, d / heads);
    let x = Rows {
        x: flat(OP, x),
        n,
        heads,
        width,
        stride: d,
    };
    let out = &mut flat_mut(OP, out)[rows.start * d..rows.end * d];
    sum_rows(par, a.indptr, rows, d, out, |rows, edges, out| {
        at_level!(
            level,
            sums(
                a: Csr<'_>, rows: Range<usize>, edges: Range<usize>, w: &[f32], x: Rows<'_>,
                out: &mut [f32],
            )
        );
    });
}

#[inline(always)]
fn sums<V: Vector>(
    a: Csr<'_>,
    rows: Range<usize>,
    edges: Range<usize>,
    w: &[f32],
    x: Rows<'_>,
    out: &mut [f32],
) {
    // SAFETY: this runs at the level of `V`.
    #[allow(unsafe_code)]
    let layout = &unsafe { Layout::<V>::new(x.heads, x.width) };
    let gathered = Gathered::new(a.indices, edges.clone(), x.n);
    // Coefficients have been written.
    let mut room = [Vec::new(), Vec::new()];
    for (r, out) in rows.zip(out.chunks_exact_mut(x.heads * x.width)) {
        let span = within(a.span(r), &edges);
        let terms = Written {
            row: &w[span.start * x.heads..span.end * x.heads],
            positive: &[],
            heads: x.heads,
        };
        let run = Run {
            begins: true,
            close: Close::Not,
        };
        let mut sums = Sums {
            row: out,
            positive: &mut [],
            total: &mut [],
            total_positive: &mut [],
        };
        sum::<V, _, false>(
            x,
            gathered.run(span),
            layout,
            terms,
            run,
            &mut room,
            &mut sums,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use crate::spmm::tests::{assert_close, matrix, star};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn edge_dots_and_head_sums_equal_naive_at_every_level(
            a in any_csr(), heads in 1usize..10, width in prop_oneof![0usize..20, 30usize..140],
            cut in 0.0f64..1.0,
        ) {
            let (m, n, d) = (a.rows(), a.n_cols, heads * width);
            let (p, q) = (matrix(m, d, 1), matrix(n, d, 2));
            let w = matrix(a.indices.len(), heads, 3).into_raw_vec_and_offset().0;
            let rows = (m as f64 * cut) as usize..m;
            let mut want = vec![7.0; w.len()];
            naive(a.view(), rows.clone(), heads, &p, &q, &mut want);
            let mut want_sum = Mat::from_elem((m, d), 7.0);
            naive_spmm(a.view(), rows.clone(), heads, &w, &q, &mut want_sum);
            for level in Level::available() {
                let mut got = vec![7.0; w.len()];
                sddmm_at(level, &Par::new(2), a.view(), rows.clone(), heads, (&p, &q), &mut got);
                for (g, w) in got.iter().zip(&want) {
                    prop_assert!((g - w).abs() <= 1e-4, "{} instead of {}", g, w);
                }
                let mut got = Mat::from_elem((m, d), 7.0);
                spmm_heads_at(level, &Par::new(2), a.view(), rows.clone(), heads, (&w, &q), &mut got);
                assert_close(&got, &want_sum);
            }
        }
    }

    #[test]
    fn threads_and_hubs_do_not_change_a_bit_and_the_two_are_adjoint() {
        let a = star(500);
        let (m, e, heads, d) = (500, a.indices.len(), 3, 30);
        let (p, q) = (matrix(m, d, 1), matrix(m, d, 2));
        let w = matrix(e, heads, 3).into_raw_vec_and_offset().0;
        let both = |threads| {
            let par = Par::new(threads);
            let (mut s, mut out) = (vec![0.0; e * heads], Mat::zeros((m, d)));
            sddmm_into(&par, a.view(), 0..m, heads, &p, &q, &mut s);
            spmm_heads_into(&par, a.view(), 0..m, heads, &w, &q, &mut out);
            (s, out)
        };
        let want = both(1);
        for threads in [2, 3, 8] {
            assert_eq!(both(threads), want);
        }
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter()
                .zip(y)
                .map(|(x, y)| f64::from(*x) * f64::from(*y))
                .sum()
        };
        // ⟨w, s(p, q)⟩ = ⟨p, out(w, q)⟩.
        let (left, right) = (
            dot(&w, &want.0),
            dot(
                p.as_slice().expect("made here"),
                want.1.as_slice().expect("made here"),
            ),
        );
        assert!((left - right).abs() < 1e-2, "{left} and {right}");
    }
}
