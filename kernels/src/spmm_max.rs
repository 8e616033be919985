//! Aggregation by maximum, and its backward through the edges that won.
//!
//! Backward touches one source element for each output element, not one for each edge: threads own
//! blocks of columns and go through the rows in order, so the scatter needs no atomics and the sums
//! have one order.
//!
//! # Not done
//! A hub's row stays with one thread. Backward's single elements miss the caches: R-MAT 16, width
//! 256, one thread, 310 ms for 17 M elements, against 140 forward.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use ndarray::Array2;

use crate::par::split_edges;
use crate::simd::Level;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// The winner of a row without edges.
pub const NONE: u32 = u32::MAX;

/// Scalar reference; see [`spmm_max_into`].
pub fn naive(a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat, arg: &mut Array2<u32>) {
    for r in rows {
        for c in 0..x.ncols() {
            (out[[r, c]], arg[[r, c]]) = (0.0, NONE);
            for (i, e) in a.span(r).enumerate() {
                let v = a.weight(e) * x[[a.indices[e] as usize, c]];
                if i == 0 || v > out[[r, c]] {
                    (out[[r, c]], arg[[r, c]]) = (v, i as u32);
                }
            }
        }
    }
}

/// Writes `out[r, c] = max_e w_e · x[col_e, c]` for the rows in `rows`, and to `arg[r, c]` the edge
/// that won, counted from the start of its row; the first of equals wins. A row without edges
/// gives zeros and [`NONE`].
///
/// `a: [m, n]`, `x: [n, d]`, `out: [m, d]`, `arg: [m, d]`. Values that are not numbers never win
/// except as the first edge of a row.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, an index of `a` is not below `n`, or a row has
/// 2³² edges or more.
pub fn spmm_max_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    x: &Mat,
    out: &mut Mat,
    arg: &mut Array2<u32>,
) {
    run_at(Level::detect(), par, a, rows, x, out, arg);
}

/// Columns `cols` of a run of rows, each output a whole run of rows.
struct Job<'o> {
    rows: Range<usize>,
    out: &'o mut [f32],
    arg: &'o mut [u32],
}

fn run_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    x: &Mat,
    out: &mut Mat,
    arg: &mut Array2<u32>,
) {
    const OP: &str = "spmm_max";
    let d = x.ncols();
    expect_eq(OP, "x with rows", a.n_cols, x.nrows());
    expect_eq(OP, "out with rows", a.rows(), out.nrows());
    expect_eq(OP, "out with columns", d, out.ncols());
    expect_eq(OP, "arg with rows", a.rows(), arg.nrows());
    expect_eq(OP, "arg with columns", d, arg.ncols());
    let m = a.rows();
    assert!(
        rows.end <= m,
        "spmm_max: expected rows within {m}, got {rows:?}"
    );
    if rows.is_empty() || d == 0 {
        return;
    }
    let x = flat(OP, x);
    let parts = if par.threads() == 1 {
        1
    } else {
        par.threads() * 16
    };
    let bounds = split_edges(a.indptr, rows.clone(), parts);
    let mut out = &mut flat_mut(OP, out)[rows.start * d..rows.end * d];
    let arg = arg.as_slice_mut().expect("arg is row-major");
    let mut arg = &mut arg[rows.start * d..rows.end * d];
    let mut jobs = Vec::new();
    for b in bounds.windows(2) {
        let (o, out_rest) = std::mem::take(&mut out).split_at_mut((b[1] - b[0]) * d);
        let (g, arg_rest) = std::mem::take(&mut arg).split_at_mut((b[1] - b[0]) * d);
        (out, arg) = (out_rest, arg_rest);
        jobs.push(Job {
            rows: b[0]..b[1],
            out: o,
            arg: g,
        });
    }
    par.run(jobs, |job| {
        at_level!(level, tiles(a: Csr<'_>, x: &[f32], d: usize, job: Job<'_>));
    });
}

#[inline(always)]
fn tiles<V: Vector>(a: Csr<'_>, x: &[f32], d: usize, job: Job<'_>) {
    let Job { rows, out, arg } = job;
    for (k, r) in rows.enumerate() {
        let span = a.span(r);
        assert!(span.len() < NONE as usize, "spmm_max: too many edges");
        let out = &mut out[k * d..(k + 1) * d];
        let arg = &mut arg[k * d..(k + 1) * d];
        let mut first = 0;
        while first < d {
            let vectors = (d - first).div_ceil(V::LANES);
            first += match vectors {
                1 => tile::<V, 1>(a, x, span.clone(), first, out, arg),
                2 | 3 => tile::<V, 2>(a, x, span.clone(), first, out, arg),
                4..=7 => tile::<V, 4>(a, x, span.clone(), first, out, arg),
                _ => tile::<V, 8>(a, x, span.clone(), first, out, arg),
            };
        }
    }
}

/// One row's columns from `first`, at most `N` vectors; returns how many columns.
#[inline(always)]
fn tile<V: Vector, const N: usize>(
    a: Csr<'_>,
    x: &[f32],
    span: Range<usize>,
    first: usize,
    out: &mut [f32],
    arg: &mut [u32],
) -> usize {
    let d = out.len();
    let wide = (N * V::LANES).min(d - first);
    let tail = wide - (N - 1) * V::LANES;
    assert!(tail >= 1 && tail <= V::LANES && arg.len() == d && a.n_cols * d <= x.len());
    if span.is_empty() {
        out[first..first + wide].fill(0.0);
        arg[first..first + wide].fill(NONE);
        return wide;
    }
    // SAFETY: `tail` is within the lanes; constant vectors.
    let (mask, zero) = unsafe { (V::mask(tail), V::splat(0.0)) };
    let (mut best, mut winner) = ([zero; N], [zero; N]);
    for (i, e) in span.clone().enumerate() {
        let c = a.indices[e] as usize;
        assert!(
            c < a.n_cols,
            "spmm_max: expected indices below {}, got {c}",
            a.n_cols
        );
        if let Some(&next) = a.indices.get(e + AHEAD) {
            let row = x.as_ptr().wrapping_add(next as usize * d + first);
            prefetch_row(row, N * V::LANES);
        }
        // SAFETY: `c < n_cols` and `n_cols * d <= x.len()` are asserted above; the last vector
        // reads only its `tail` columns through the mask. Edge numbers travel as bits.
        unsafe {
            let (w, number) = (V::splat(a.weight(e)), V::splat(f32::from_bits(i as u32)));
            let row = x.as_ptr().add(c * d + first);
            for j in 0..N {
                let v = if j + 1 < N {
                    V::load(row.add(j * V::LANES))
                } else {
                    V::load_first(row.add(j * V::LANES), mask)
                };
                let v = v.mul(w);
                if i == 0 {
                    (best[j], winner[j]) = (v, number);
                } else {
                    winner[j] = v.if_greater(best[j], number, winner[j]);
                    best[j] = v.if_greater(best[j], v, best[j]);
                }
            }
        }
    }
    // SAFETY: `first + wide <= d`, the length of both outputs; the mask as for loads. A `u32` and
    // an `f32` have one size and alignment, and every bit pattern is a number.
    unsafe {
        let out = out.as_mut_ptr().add(first);
        let arg = arg.as_mut_ptr().add(first).cast::<f32>();
        for j in 0..N - 1 {
            best[j].store(out.add(j * V::LANES));
            winner[j].store(arg.add(j * V::LANES));
        }
        best[N - 1].store_first(out.add((N - 1) * V::LANES), mask);
        winner[N - 1].store_first(arg.add((N - 1) * V::LANES), mask);
    }
    wide
}

/// Writes `dx[u, c] = Σ w_e · g[r, c]` over the rows `r` in `rows` whose winner at column `c` is an
/// edge `e` from `u`; everything else of `dx` becomes zero.
///
/// `a: [m, n]`, `arg: [m, d]` of [`spmm_max_into`], `g: [m, d]`, `dx: [n, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or a winner is no edge of its row.
pub fn spmm_max_backward_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    arg: &Array2<u32>,
    g: &Mat,
    dx: &mut Mat,
) {
    const OP: &str = "spmm_max_backward";
    let (n, d) = dx.dim();
    expect_eq(OP, "dx with rows", a.n_cols, n);
    expect_eq(OP, "g with rows", a.rows(), g.nrows());
    expect_eq(OP, "g with columns", d, g.ncols());
    expect_eq(OP, "arg with rows", a.rows(), arg.nrows());
    expect_eq(OP, "arg with columns", d, arg.ncols());
    dx.fill(0.0);
    // Blocks of a cache line, so that no two threads write to one.
    let blocks = dx.axis_chunks_iter_mut(ndarray::Axis(1), 16);
    let blocks: Vec<_> = blocks.enumerate().collect();
    par.run(blocks, |(k, mut dx)| {
        for r in rows.clone() {
            let span = a.span(r);
            for c in 0..dx.ncols() {
                let i = arg[[r, k * 16 + c]];
                if i != NONE {
                    let e = span.start + i as usize;
                    assert!(e < span.end, "{OP}: expected an edge of row {r}, got {i}");
                    dx[[a.indices[e] as usize, c]] += a.weight(e) * g[[r, k * 16 + c]];
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use crate::spmm::tests::{matrix, star};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn maxima_and_winners_equal_naive_at_every_level(
            a in any_csr(), d in prop_oneof![0usize..40, 100usize..300], cut in 0.0f64..1.0,
        ) {
            let x = matrix(a.n_cols, d, 3);
            let rows = (a.rows() as f64 * cut) as usize..a.rows();
            let fresh = || (Mat::from_elem((a.rows(), d), 7.0), Array2::from_elem((a.rows(), d), 5));
            let (mut want, mut want_arg) = fresh();
            naive(a.view(), rows.clone(), &x, &mut want, &mut want_arg);
            for level in Level::available() {
                let (mut got, mut arg) = fresh();
                run_at(level, &Par::new(2), a.view(), rows.clone(), &x, &mut got, &mut arg);
                prop_assert_eq!(&got, &want);
                prop_assert_eq!(&arg, &want_arg);
            }
            // Backward: the sum of g over an output's winner, written out.
            let g = matrix(a.rows(), d, 4);
            let mut want = vec![0f64; a.n_cols * d];
            for r in rows.clone() {
                for c in 0..d {
                    if want_arg[[r, c]] != NONE {
                        let e = a.view().span(r).start + want_arg[[r, c]] as usize;
                        want[a.indices[e] as usize * d + c] +=
                            f64::from(a.view().weight(e)) * f64::from(g[[r, c]]);
                    }
                }
            }
            let mut dx = Mat::from_elem((a.n_cols, d), 9.0);
            spmm_max_backward_into(&Par::new(2), a.view(), rows, &want_arg, &g, &mut dx);
            for (got, want) in dx.iter().zip(want) {
                prop_assert!((f64::from(*got) - want).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit_around_a_hub() {
        let a = star(500);
        let (x, g) = (matrix(500, 40, 1), matrix(500, 40, 2));
        let all = |threads| {
            let par = Par::new(threads);
            let (mut out, mut arg) = (Mat::zeros((500, 40)), Array2::zeros((500, 40)));
            let mut dx = Mat::zeros((500, 40));
            spmm_max_into(&par, a.view(), 0..500, &x, &mut out, &mut arg);
            spmm_max_backward_into(&par, a.view(), 0..500, &arg, &g, &mut dx);
            (out, arg, dx)
        };
        let want = all(1);
        for threads in [2, 3, 8] {
            assert_eq!(all(threads), want);
        }
    }
}
