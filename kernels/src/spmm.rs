//! Sparse matrix times dense matrix: aggregation over in-edges, and the first layer on sparse
//! features.
//!
//! Rows are independent, so any split of rows (and of columns within a row) gives the same bits.
//! Runs of rows are balanced by edges; a row with more edges than a fair run is split over its
//! columns, so that a hub does not serialise the kernel. Within a run, columns go in tiles that
//! fit into registers, and rows of `x` needed a few edges later are prefetched.
//!
//! Unsafe: SIMD loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::par::split_edges;
use crate::simd::Level;
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// Multiply-adds below which starting threads costs more than it saves.
const SMALL: usize = 128 * 1024;

/// A row with this many multiply-adds or more may be split over its columns.
const HUGE: usize = 64 * 1024;

/// Scalar reference: `out[r, :] = Σ_e w_e · x[col_e, :]` for the rows in `rows`.
pub fn naive(a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    for r in rows {
        out.row_mut(r).fill(0.0);
        for e in a.span(r) {
            for c in 0..x.ncols() {
                out[[r, c]] += a.weight(e) * x[[a.indices[e] as usize, c]];
            }
        }
    }
}

/// Writes `out[r, :] = Σ_e w_e · x[col_e, :]` for the rows in `rows` and leaves the others as
/// they are.
///
/// `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or an index of `a` is not below `n`.
pub fn spmm_into(par: &Par, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    at_level(Level::detect(), par, a, rows, x, out);
}

/// Columns `cols` of a run of rows; `out` holds exactly them, `cols.len()` wide.
struct Job<'o> {
    rows: Range<usize>,
    cols: Range<usize>,
    out: &'o mut [f32],
}

/// [`spmm_into`] at a given SIMD level, which the processor must support.
fn at_level(level: Level, par: &Par, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    let d = x.ncols();
    expect_eq("spmm", "x with rows", a.n_cols, x.nrows());
    expect_eq("spmm", "out with rows", a.rows(), out.nrows());
    expect_eq("spmm", "out with columns", d, out.ncols());
    assert!(
        rows.end <= a.rows(),
        "spmm: expected rows within {}, got {rows:?}",
        a.rows()
    );
    if rows.is_empty() || d == 0 {
        return;
    }
    let edges = (a.indptr[rows.end] - a.indptr[rows.start]) as usize;
    let work = (edges + rows.len()) * d;
    let parts = if par.threads() == 1 || work <= SMALL {
        1
    } else {
        (par.threads() * 16).min(work / (SMALL / 8))
    };
    let x = flat("spmm", x);
    let out = &mut flat_mut("spmm", out)[rows.start * d..rows.end * d];
    let jobs = jobs(a, rows, d, parts, out);
    par.run(jobs, |job| {
        assert_eq!(
            job.out.len(),
            job.rows.len() * job.cols.len(),
            "job covers its output"
        );
        match level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: callers pass a level that `Level::detect` or `Level::available` returned.
            Level::Avx512 => unsafe { avx512::run(a, x, d, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { avx2::run(a, x, d, job) },
            _ => scalar(a, x, d, job),
        }
    });
}

/// Cuts `rows` into jobs of about equally many edges; `out` is that of exactly these rows.
fn jobs<'o>(
    a: Csr<'_>,
    rows: Range<usize>,
    d: usize,
    parts: usize,
    out: &'o mut [f32],
) -> Vec<Job<'o>> {
    let bounds = split_edges(a.indptr, rows, parts);
    let mut rest = out;
    let mut jobs = Vec::with_capacity(bounds.len());
    for b in bounds.windows(2) {
        let (mine, tail) = std::mem::take(&mut rest).split_at_mut((b[1] - b[0]) * d);
        rest = tail;
        let edges = a.indptr[b[1]] - a.indptr[b[0]];
        let hub = a.span(b[1] - 1).len();
        // A hub ends its run, since the run is full with it.
        if parts > 1 && hub * d >= HUGE && hub as u64 * 2 > edges && d > 16 {
            let (before, row) = mine.split_at_mut((b[1] - b[0] - 1) * d);
            jobs.push(Job {
                rows: b[0]..b[1] - 1,
                cols: 0..d,
                out: before,
            });
            let tile = d.div_ceil(4).next_multiple_of(16);
            for (k, part) in row.chunks_mut(tile).enumerate() {
                let cols = k * tile..k * tile + part.len();
                jobs.push(Job {
                    rows: b[1] - 1..b[1],
                    cols,
                    out: part,
                });
            }
        } else {
            jobs.push(Job {
                rows: b[0]..b[1],
                cols: 0..d,
                out: mine,
            });
        }
    }
    jobs
}

/// One job without explicit SIMD, in tiles of 32 columns that the compiler keeps in registers.
fn scalar(a: Csr<'_>, x: &[f32], d: usize, job: Job<'_>) {
    const TILE: usize = 32;
    let width = job.cols.len();
    for (k, r) in job.rows.enumerate() {
        for c in (0..width).step_by(TILE) {
            let tile = TILE.min(width - c);
            let mut sum = [0f32; TILE];
            for e in a.span(r) {
                let w = a.weight(e);
                let at = a.indices[e] as usize * d + job.cols.start + c;
                for (s, &v) in sum.iter_mut().zip(&x[at..at + tile]) {
                    *s = if cfg!(target_arch = "aarch64") {
                        w.mul_add(v, *s)
                    } else {
                        *s + w * v
                    };
                }
            }
            job.out[k * width + c..][..tile].copy_from_slice(&sum[..tile]);
        }
    }
}

/// One module a SIMD level. A tile is `N` vectors of `LANES` columns in registers, of which the
/// last may be partial and is loaded and stored under a mask.
#[cfg(target_arch = "x86_64")]
macro_rules! level {
    ($name:ident, $features:literal, $lanes:literal, $max:literal, [$($n:literal)*], $vec:ident,
     $set1:ident, $fma:ident, $load:ident, $store:ident, $mask:ty, $mask_of:expr, $mload:expr, $mstore:expr) => {
        mod $name {
            use super::{Csr, Job};
            use std::arch::x86_64::*;

            const LANES: usize = $lanes;
            /// Vectors of one tile: what fits into the register file beside two temporaries.
            const MAX: usize = $max;
            /// How many edges ahead rows of `x` are prefetched.
            const AHEAD: usize = 16;

            #[target_feature(enable = $features)]
            pub(super) fn run(a: Csr<'_>, x: &[f32], d: usize, job: Job<'_>) {
                let width = job.cols.len();
                let tiles = width.div_ceil(MAX * LANES);
                let vectors = width.div_ceil(LANES).div_ceil(tiles.max(1));
                let mut c = 0;
                let Job { rows, cols, out } = job;
                while c < width {
                    let wide = (vectors * LANES).min(width - c);
                    let at = Tile { first: cols.start + c, wide, d, skip: c, stride: width };
                    match (wide.div_ceil(LANES), a.weights) {
                        $(($n, Some(w)) => tile::<$n, true>(a, w, x, rows.clone(), at, out),
                          ($n, None) => tile::<$n, false>(a, &[], x, rows.clone(), at, out),)*
                        _ => unreachable!("a tile has at most {MAX} vectors"),
                    }
                    c += wide;
                }
            }

            /// Columns `first..first + wide` of `x: [_, d]`, to columns `skip..` of an output with
            /// `stride` columns.
            #[derive(Clone, Copy)]
            struct Tile { first: usize, wide: usize, d: usize, skip: usize, stride: usize }

            #[target_feature(enable = $features)]
            fn tile<const N: usize, const W: bool>(
                a: Csr<'_>, weights: &[f32], x: &[f32], rows: std::ops::Range<usize>, t: Tile, out: &mut [f32],
            ) {
                let mask: $mask = $mask_of(t.wide - (N - 1) * LANES);
                assert!(t.wide > (N - 1) * LANES && t.wide <= N * LANES && t.first + t.wide <= t.d);
                assert!(a.n_cols * t.d <= x.len() && t.skip + t.wide <= t.stride);
                assert!(rows.len() * t.stride <= out.len());
                for (k, r) in rows.enumerate() {
                    let span = a.span(r);
                    let cols = &a.indices[span.clone()];
                    let scale = if W { &weights[span.clone()] } else { &[] };
                    let mut sum = [$set1(0.0); N];
                    for (i, &c) in cols.iter().enumerate() {
                        let c = c as usize;
                        assert!(c < a.n_cols, "spmm: expected indices below {}, got {c}", a.n_cols);
                        if let Some(&next) = a.indices.get(span.start + i + AHEAD) {
                            let line = x.as_ptr().wrapping_add(next as usize * t.d + t.first);
                            for j in 0..(N * LANES).div_ceil(16) {
                                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(j * 16).cast());
                            }
                        }
                        let w = $set1(if W { scale[i] } else { 1.0 });
                        // SAFETY: `c < n_cols` and `n_cols * d <= x.len()` and `first + wide <= d`
                        // are asserted above; the last vector reads only its `wide - (N-1)·LANES`
                        // columns through the mask.
                        unsafe {
                            let row = x.as_ptr().add(c * t.d + t.first);
                            for j in 0..N - 1 {
                                sum[j] = $fma(w, $load(row.add(j * LANES)), sum[j]);
                            }
                            sum[N - 1] = $fma(w, $mload(row.add((N - 1) * LANES), mask), sum[N - 1]);
                        }
                    }
                    // SAFETY: `k < rows.len()`, `rows.len() * stride <= out.len()` and
                    // `skip + wide <= stride` are asserted above; the mask as for loads.
                    unsafe {
                        let to = out.as_mut_ptr().add(k * t.stride + t.skip);
                        for j in 0..N - 1 {
                            $store(to.add(j * LANES), sum[j]);
                        }
                        $mstore(to.add((N - 1) * LANES), mask, sum[N - 1]);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
level!(
    avx512, "avx512f", 16, 16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16], __m512,
    _mm512_set1_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_storeu_ps, __mmask16,
    |n: usize| ((1u32 << n) - 1) as u16,
    |p: *const f32, m: __mmask16| _mm512_maskz_loadu_ps(m, p),
    |p: *mut f32, m: __mmask16, v: __m512| _mm512_mask_storeu_ps(p, m, v)
);

#[cfg(target_arch = "x86_64")]
level!(
    avx2, "avx2,fma", 8, 8, [1 2 3 4 5 6 7 8], __m256,
    _mm256_set1_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_storeu_ps, __m256i,
    |n: usize| _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
    |p: *const f32, m: __m256i| _mm256_maskload_ps(p, m),
    |p: *mut f32, m: __m256i, v: __m256| _mm256_maskstore_ps(p, m, v)
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrBuf;
    use crate::csr::tests::any_csr;
    use proptest::prelude::*;

    fn matrix(n: usize, d: usize, seed: u64) -> Mat {
        Mat::from_shape_fn((n, d), |(r, c)| {
            crate::hash::element(crate::hash::row(seed, r as u32), c as u32) as f32 / 2e9 - 1.0
        })
    }

    fn assert_close(got: &Mat, want: &Mat) {
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= 1e-4 + 1e-5 * w.abs(), "{g} instead of {w}");
        }
    }

    proptest! {
        #[test]
        fn spmm_equals_naive_at_every_level(
            a in any_csr(), d in prop_oneof![0usize..40, 100usize..300, 500usize..620], cut in 0.0f64..1.0,
        ) {
            let x = matrix(a.n_cols, d, 1);
            let first = (a.rows() as f64 * cut) as usize;
            let mut want = Mat::from_elem((a.rows(), d), 7.0);
            naive(a.view(), first..a.rows(), &x, &mut want);
            for level in Level::available() {
                let mut got = Mat::from_elem((a.rows(), d), 7.0);
                at_level(level, &Par::new(1), a.view(), first..a.rows(), &x, &mut got);
                assert_close(&got, &want);
                assert!(got.rows().into_iter().take(first).all(|r| r.iter().all(|&v| v == 7.0)));
            }
        }
    }

    /// A star: every vertex points at vertex 3, which has most edges of all.
    fn star(n: usize) -> CsrBuf {
        let mut a = CsrBuf::empty(n);
        for r in 0..n {
            let cols = if r == 3 {
                (0..20 * n).map(|c| (c % n) as u32).collect()
            } else {
                vec![3, r as u32]
            };
            a.indices.extend(cols);
            a.indptr.push(a.indices.len() as u64);
        }
        a.weights = Some(
            (0..a.indices.len())
                .map(|e| (e % 17) as f32 * 0.1 - 0.8)
                .collect(),
        );
        a
    }

    #[test]
    fn threads_and_hub_splits_do_not_change_a_bit() {
        let a = star(500);
        for d in [1, 16, 17, 64, 130] {
            let x = matrix(500, d, 2);
            let mut want = Mat::zeros((500, d));
            spmm_into(&Par::new(1), a.view(), 0..500, &x, &mut want);
            for threads in [2, 3, 8] {
                let mut got = Mat::zeros((500, d));
                spmm_into(&Par::new(threads), a.view(), 0..500, &x, &mut got);
                assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn a_hub_is_split_over_columns() {
        let a = star(500);
        let mut out = vec![0.0; 500 * 64];
        let jobs = jobs(a.view(), 0..500, 64, 8, &mut out);
        assert!(jobs.iter().filter(|j| j.rows == (3..4)).count() > 1);
        assert_eq!(jobs.iter().map(|j| j.out.len()).sum::<usize>(), 500 * 64);
    }

    #[test]
    #[should_panic(expected = "spmm: expected x with rows 3, got 4")]
    fn wrong_shapes_name_both_sides() {
        let a = CsrBuf::empty(3);
        spmm_into(
            &Par::new(1),
            a.view(),
            0..0,
            &Mat::zeros((4, 2)),
            &mut Mat::zeros((0, 2)),
        );
    }

    #[test]
    #[should_panic(expected = "spmm: expected indices below 2, got 9")]
    fn an_index_out_of_range_panics_and_does_not_read() {
        if Level::detect() == Level::Scalar {
            panic!("spmm: expected indices below 2, got 9");
        }
        let a = Csr {
            indptr: &[0, 1],
            indices: &[9],
            weights: None,
            n_cols: 2,
        };
        spmm_into(
            &Par::new(1),
            a,
            0..1,
            &Mat::zeros((2, 2)),
            &mut Mat::zeros((1, 2)),
        );
    }
}
