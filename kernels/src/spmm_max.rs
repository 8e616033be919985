//! Aggregation by maximum, and its backward through the edges that won.
//!
//! Backward goes over the stored transposed graph: each source looks up, at every place that it leads
//! to, in which columns it won. That reads winners and gradients once an edge where a scatter from the
//! destinations would touch one element of a source each, but in whole vectors, without atomics, and
//! with sums of one order: 2.1 to 3.4 times as fast (`notebooks/measured/kernels.md`).
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use ndarray::Array2;

use crate::hubs::{reduce_rows, sum_rows, within};
use crate::simd::Level;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, expect_rows, flat, flat_mut};

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

/// Scalar reference of [`spmm_max_backward_into`], which sums in `f64`.
pub fn naive_backward(a: Csr<'_>, arg: &Array2<u32>, g: &Mat) -> Array2<f64> {
    let mut dx = Array2::zeros((a.n_cols, g.ncols()));
    for r in 0..a.rows() {
        for c in 0..g.ncols() {
            if arg[[r, c]] != NONE {
                let e = a.span(r).start + arg[[r, c]] as usize;
                dx[[a.indices[e] as usize, c]] += f64::from(a.weight(e)) * f64::from(g[[r, c]]);
            }
        }
    }
    dx
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
    expect_rows(OP, &rows, a.rows());
    if rows.is_empty() || d == 0 {
        return;
    }
    let x = flat(OP, x);
    let cells = rows.start * d..rows.end * d;
    let out = &mut flat_mut(OP, out)[cells.clone()];
    let arg = &mut flat_mut(OP, arg)[cells];
    // SAFETY: the same memory as numbers of the same size and alignment, every bit pattern of which
    // is valid as either; `arg` is not used besides.
    let winners =
        unsafe { std::slice::from_raw_parts_mut(arg.as_mut_ptr().cast::<f32>(), arg.len()) };
    let maxima = |rows: Range<usize>, edges: Range<usize>, outs: [&mut [f32]; 2]| {
        at_level!(
            level,
            tiles(
                a: Csr<'_>, x: &[f32], d: usize, rows: Range<usize>, edges: Range<usize>,
                outs: [&mut [f32]; 2],
            )
        );
    };
    reduce_rows(par, a.indptr, rows, [(out, d), (winners, d)], maxima, join);
}

/// The maxima of a hub's parts and their winners; the first of equals wins.
fn join([out, arg]: [&mut [f32]; 2], mut parts: std::slice::ChunksExact<'_, f32>) {
    let d = out.len();
    if let Some(first) = parts.next() {
        out.copy_from_slice(&first[..d]);
        arg.copy_from_slice(&first[d..]);
    }
    for part in parts {
        for (c, &best) in part[..d].iter().enumerate() {
            if best > out[c] {
                (out[c], arg[c]) = (best, part[d + c]);
            }
        }
    }
}

/// The maxima of `rows` over those of their edges that lie in `edges`, and the bits of the winners.
#[inline(always)]
fn tiles<V: Vector>(
    a: Csr<'_>,
    x: &[f32],
    d: usize,
    rows: Range<usize>,
    edges: Range<usize>,
    [out, arg]: [&mut [f32]; 2],
) {
    for ((r, out), arg) in rows
        .zip(out.chunks_exact_mut(d))
        .zip(arg.chunks_exact_mut(d))
    {
        let span = a.span(r);
        let n = span.len();
        assert!(
            n < NONE as usize,
            "spmm_max: expected fewer than {NONE} edges in row {r}, got {n}"
        );
        let mut first = 0;
        while first < d {
            let vectors = (d - first).div_ceil(V::LANES);
            let (span, edges) = (span.clone(), within(span.clone(), &edges));
            first += match vectors {
                1 => tile::<V, 1>(a, x, span, edges, first, out, arg),
                2 | 3 => tile::<V, 2>(a, x, span, edges, first, out, arg),
                4..=7 => tile::<V, 4>(a, x, span, edges, first, out, arg),
                _ => tile::<V, 8>(a, x, span, edges, first, out, arg),
            };
        }
    }
}

/// The columns from `first`, at most `N` vectors, of the row with the edges `span`, over those in
/// `edges`; returns how many columns.
#[inline(always)]
fn tile<V: Vector, const N: usize>(
    a: Csr<'_>,
    x: &[f32],
    span: Range<usize>,
    edges: Range<usize>,
    first: usize,
    out: &mut [f32],
    arg: &mut [f32],
) -> usize {
    let d = out.len();
    let wide = (N * V::LANES).min(d - first);
    let tail = wide - (N - 1) * V::LANES;
    assert!(tail >= 1 && tail <= V::LANES && arg.len() == d && a.n_cols * d <= x.len());
    if span.is_empty() {
        out[first..first + wide].fill(0.0);
        arg[first..first + wide].fill(f32::from_bits(NONE));
        return wide;
    }
    // Only the first edge of the row wins whatever its value is. Before other parts of a hub stands
    // what every number beats that can win.
    // SAFETY: `tail` is within the lanes; constant vectors.
    let (mask, mut best, mut winner) = unsafe {
        let (least, none) = (V::splat(f32::NEG_INFINITY), V::splat(f32::from_bits(NONE)));
        (V::mask(tail), [least; N], [none; N])
    };
    for e in edges {
        let i = e - span.start;
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
    // SAFETY: `first + wide <= d`, the length of both outputs; the mask as for loads.
    unsafe {
        let out = out.as_mut_ptr().add(first);
        let arg = arg.as_mut_ptr().add(first);
        for j in 0..N - 1 {
            best[j].store(out.add(j * V::LANES));
            winner[j].store(arg.add(j * V::LANES));
        }
        best[N - 1].store_first(out.add((N - 1) * V::LANES), mask);
        winner[N - 1].store_first(arg.add((N - 1) * V::LANES), mask);
    }
    wide
}

/// Writes `dx[u, c] = Σ w_e · g[r, c]` over the edges `e` from `u` that won at column `c` of the row
/// `r` to which they lead.
///
/// `at: [n, m]` is the transposed graph with its weights and `places: [edges]` the place of each of its
/// edges within the original row ([`Csr::places_t`]); `arg: [m, d]` of [`spmm_max_into`], `g: [m, d]`,
/// `dx: [n, d]`.
///
/// # Panics
/// When the shapes disagree or an index of `at` is not below `m`.
pub fn spmm_max_backward_into(
    par: &Par,
    at: Csr<'_>,
    places: &[u32],
    arg: &Array2<u32>,
    g: &Mat,
    dx: &mut Mat,
) {
    backward_at(Level::detect(), par, (at, places), arg, g, dx);
}

fn backward_at(
    level: Level,
    par: &Par,
    (at, places): (Csr<'_>, &[u32]),
    arg: &Array2<u32>,
    g: &Mat,
    dx: &mut Mat,
) {
    const OP: &str = "spmm_max_backward";
    let d = dx.ncols();
    expect_eq(OP, "dx with rows", at.rows(), dx.nrows());
    expect_eq(OP, "places of edges", at.n_edges(), places.len());
    expect_eq(OP, "g with rows", at.n_cols, g.nrows());
    expect_eq(OP, "g with columns", d, g.ncols());
    expect_eq(OP, "arg with rows", at.n_cols, arg.nrows());
    expect_eq(OP, "arg with columns", d, arg.ncols());
    if dx.is_empty() {
        return;
    }
    let won = Won {
        at,
        places,
        arg: flat(OP, arg),
        g: flat(OP, g),
        d,
    };
    let rows = 0..at.rows();
    let dx = flat_mut(OP, dx);
    sum_rows(par, at.indptr, rows, d, dx, |rows, edges, dx| {
        at_level!(
            level,
            won_sums(won: Won<'_>, rows: Range<usize>, edges: Range<usize>, dx: &mut [f32])
        );
    });
}

/// What backward reads.
#[derive(Clone, Copy)]
struct Won<'a> {
    at: Csr<'a>,
    places: &'a [u32],
    arg: &'a [u32],
    g: &'a [f32],
    d: usize,
}

/// The gradients of `rows` over those of their edges that lie in `edges`.
#[inline(always)]
fn won_sums<V: Vector>(won: Won<'_>, rows: Range<usize>, edges: Range<usize>, dx: &mut [f32]) {
    let d = won.d;
    for (u, dx) in rows.zip(dx.chunks_exact_mut(d)) {
        let edges = within(won.at.span(u), &edges);
        let mut first = 0;
        while first < d {
            let edges = edges.clone();
            first += match (d - first).div_ceil(V::LANES) {
                1 => won_tile::<V, 1>(won, edges, first, dx),
                2 | 3 => won_tile::<V, 2>(won, edges, first, dx),
                4..=7 => won_tile::<V, 4>(won, edges, first, dx),
                _ => won_tile::<V, 8>(won, edges, first, dx),
            };
        }
    }
}

/// The columns from `first`, at most `N` vectors, of one row; returns how many columns.
#[inline(always)]
fn won_tile<V: Vector, const N: usize>(
    won: Won<'_>,
    edges: Range<usize>,
    first: usize,
    dx: &mut [f32],
) -> usize {
    let Won {
        at,
        places,
        arg,
        g,
        d,
    } = won;
    let wide = (N * V::LANES).min(d - first);
    let tail = wide - (N - 1) * V::LANES;
    assert!(tail >= 1 && tail <= V::LANES && dx.len() == d);
    assert!(at.n_cols * d <= g.len() && g.len() == arg.len());
    // SAFETY: `tail` is within the lanes; a constant vector.
    let (mask, zero) = unsafe { (V::mask(tail), V::splat(0.0)) };
    let mut sums = [zero; N];
    for e in edges {
        let r = at.indices[e] as usize;
        let m = at.n_cols;
        assert!(
            r < m,
            "spmm_max_backward: expected indices below {m}, got {r}"
        );
        if let Some(&next) = at.indices.get(e + AHEAD / 2) {
            let next = next as usize * d + first;
            prefetch_row(arg.as_ptr().wrapping_add(next), wide);
            prefetch_row(g.as_ptr().wrapping_add(next), wide);
        }
        // SAFETY: `r < n_cols`, `n_cols * d` elements of `g` and `arg` are asserted above, and
        // `first + wide <= d`; the last vector reads only its `tail` columns through the mask. Winners
        // travel as bits.
        unsafe {
            let (w, place) = (V::splat(at.weight(e)), V::splat(f32::from_bits(places[e])));
            let from = r * d + first;
            let (g, winner) = (g.as_ptr().add(from), arg.as_ptr().cast::<f32>().add(from));
            for (j, sum) in sums.iter_mut().enumerate() {
                let k = j * V::LANES;
                let (g, winner) = if j + 1 < N {
                    (V::load(g.add(k)), V::load(winner.add(k)))
                } else {
                    (
                        V::load_first(g.add(k), mask),
                        V::load_first(winner.add(k), mask),
                    )
                };
                *sum = sum.add(winner.if_same(place, g.mul(w), zero));
            }
        }
    }
    // SAFETY: `first + wide <= d`, the length of `dx`; the mask as for loads.
    unsafe {
        let to = dx.as_mut_ptr().add(first);
        for (j, sum) in sums.into_iter().enumerate() {
            if j + 1 < N {
                sum.store(to.add(j * V::LANES));
            } else {
                sum.store_first(to.add(j * V::LANES), mask);
            }
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrBuf;
    use crate::csr::tests::any_csr;
    use crate::hubs::PART;
    use crate::spmm::tests::matrix;
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
            let g = matrix(a.rows(), d, 4);
            want_arg.slice_mut(ndarray::s![..rows.start, ..]).fill(NONE);
            let want = naive_backward(a.view(), &want_arg, &g);
            let (at, places) = (a.view().transpose(), a.view().places_t().expect("few edges"));
            for level in Level::available() {
                let mut dx = Mat::from_elem((a.n_cols, d), 9.0);
                backward_at(level, &Par::new(2), (at.view(), &places), &want_arg, &g, &mut dx);
                for (got, want) in dx.iter().zip(&want) {
                    prop_assert!((f64::from(*got) - want).abs() < 1e-4);
                }
            }
        }
    }

    /// Bits, since what is not a number does not equal itself; all of these count as one.
    fn bits(x: &Mat) -> Vec<u32> {
        let one = |x: &f32| if x.is_nan() { f32::NAN } else { *x };
        x.iter().map(|x| one(x).to_bits()).collect()
    }

    /// Row 0 has three parts: its maxima are in the second, equal ones in the third, and the second
    /// begins with the column `n - 1`. So does row 2, which has two parts.
    fn hubs_of_several_parts(n: usize) -> CsrBuf {
        let mut indices: Vec<u32> = (0..3 * PART).map(|e| (e * 31 % n) as u32).collect();
        indices[PART] = n as u32 - 1;
        let mut weights: Vec<f32> = (0..3 * PART).map(|e| (e / 700).min(8) as f32).collect();
        let mut indptr = vec![0, indices.len() as u64];
        indices.extend([7, 8, n as u32 - 1]);
        indptr.push(indices.len() as u64 - 1);
        indices.extend((0..PART + 9).map(|e| (e * 7 % n) as u32));
        indptr.resize(n + 1, indices.len() as u64);
        weights.resize(indices.len(), 0.5);
        CsrBuf {
            indptr,
            indices,
            weights: Some(weights),
            n_cols: n,
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "one thread, and thousands of edges")]
    fn threads_do_not_change_a_bit_around_hubs_of_several_parts() {
        let (n, d) = (500, 40);
        let a = hubs_of_several_parts(n);
        let (mut x, g) = (matrix(n, d, 1), matrix(n, d, 2));
        x.row_mut(n - 1).fill(f32::NAN);
        x.row_mut(13).fill(f32::NEG_INFINITY);
        let (mut want, mut want_arg) = (Mat::zeros((n, d)), Array2::zeros((n, d)));
        naive(a.view(), 0..n, &x, &mut want, &mut want_arg);
        assert!(
            want_arg
                .row(0)
                .iter()
                .all(|&i| (PART..2 * PART).contains(&(i as usize)))
        );
        assert!(want.row(2).iter().all(|x| x.is_nan()));
        let (at, places) = (
            a.view().transpose(),
            a.view().places_t().expect("few edges"),
        );
        let mut gradients = Vec::new();
        for threads in [1, 2, 3, 8] {
            let par = Par::new(threads);
            for level in Level::available() {
                let (mut out, mut arg) = (Mat::zeros((n, d)), Array2::zeros((n, d)));
                run_at(level, &par, a.view(), 0..n, &x, &mut out, &mut arg);
                assert_eq!(bits(&out), bits(&want), "{level:?}, {threads} threads");
                assert_eq!(arg, want_arg, "{level:?}, {threads} threads");
            }
            for level in Level::available() {
                let mut dx = Mat::zeros((n, d));
                backward_at(level, &par, (at.view(), &places), &want_arg, &g, &mut dx);
                gradients.push(bits(&dx));
            }
        }
        assert!(gradients.iter().all(|dx| *dx == gradients[0]));
    }
}
