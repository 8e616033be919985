//! Dense matrix products with a factor on what was there: [`crate::linear`] without epilogue.
//!
//! # Whose product
//! The loops are our own. Milliseconds of one thread's processor time, 65536 rows, `k` columns in and
//! `n` out, least of 5 calls of each candidate by turns in one run; a virtual machine with AVX-512 and
//! AMX (2 MiB second-level cache), 2026-11-21. `vectors` is ours with AVX-512, `tiles` ours with AMX
//! ([`crate::engine`]), which takes shapes only where it gains; `gemm` is version 0.19 over blocks of
//! 512 rows (256 for gradients), `faer` 0.24 and `matrixmultiply` 0.3 (what `ndarray` calls) over all.
//!
//! Forward:
//!
//! | k × n | vectors | tiles | `gemm` | `faer` | `matrixmultiply` |
//! |---|---|---|---|---|---|
//! | 32 × 32 | 1.6 | = | 1.5 | 1.5 | 2.9 |
//! | 128 × 32 | 4.9 | = | 6.5 | 6.0 | 12.3 |
//! | 128 × 128 | 16.6 | 13.2 | 19.6 | 19.7 | 35.8 |
//! | 128 × 512 | 64.9 | 40.0 | 69.8 | 73.3 | 119.6 |
//! | 256 × 256 | 64.0 | 39.3 | 75.7 | 77.3 | 129.2 |
//! | 512 × 128 | 63.9 | 41.7 | 78.9 | 84.7 | 148.7 |
//! | 512 × 512 | 264.8 | 149.1 | 289.0 | 332.1 | 528.0 |
//!
//! Weight gradient:
//!
//! | k × n | vectors | tiles | `gemm` | `faer` | `matrixmultiply` |
//! |---|---|---|---|---|---|
//! | 32 × 32 | 2.7 | = | 1.9 | 2.2 | 3.2 |
//! | 128 × 32 | 8.6 | = | 8.9 | 9.2 | 11.8 |
//! | 128 × 128 | 21.7 | 18.7 | 22.6 | 23.9 | 36.3 |
//! | 128 × 512 | 78.6 | 57.3 | 92.1 | 91.7 | 160.2 |
//! | 256 × 256 | 78.0 | 51.4 | 83.1 | 92.2 | 133.1 |
//! | 512 × 128 | 97.3 | 68.5 | 97.1 | 116.9 | 162.8 |
//! | 512 × 512 | 336.7 | 215.5 | 344.7 | 402.5 | 565.7 |
//!
//! In an earlier run (another hour, least of 20) MKL of PyTorch 2.15 and OpenBLAS took, forward, 14.7 and
//! 20.9 ms for 128 × 128 where vectors took 12.9, and 198 and 228 ms for 512 × 512 where they took 186;
//! with bias and ReLU, which MKL does in steps of their own, 20.9 ms against 13.3 and 227 against 188. For
//! gradients, 17.6 and 20.2 ms for 128 × 128 (vectors 18.0), 214 and 239 for 512 × 512 (vectors 266).
//!
//! How much tiles gain depends on the other hardware thread of the core: alone, a step of 24 tile
//! instructions takes 165 ns; beside a busy neighbour 500 to 600, while vectors lose a third.
//!
//! Errors against `f64`, numbers in [-1, 1], largest and root mean square (200 rows; 256 weights):
//!
//! | k × n | forward, vectors | forward, tiles | gradient, vectors | gradient, tiles |
//! |---|---|---|---|---|
//! | 128 × 128 | 8.8e-6, 7.6e-7 | 3.2e-6, 3.5e-7 | 7.4e-5, 2.5e-5 | 3.8e-5, 1.3e-5 |
//! | 256 × 256 | 2.1e-5, 1.5e-6 | 5.4e-6, 6.8e-7 | 6.3e-5, 1.9e-5 | 4.6e-5, 1.4e-5 |
//! | 512 × 512 | 3.1e-5, 3.1e-6 | 1.1e-5, 1.3e-6 | 6.2e-5, 2.1e-5 | 6.2e-5, 1.5e-5 |
//!
//! # Not done
//! Packing both operands costs most where columns are few.

use crate::linear::{Term, Then, Write, linear_into};
use crate::{Mat, Par, expect_eq, flat_mut};

/// Scalar reference: `op(a) · op(b) + beta · out`, `op` being the transposed when asked for.
pub fn naive(ta: bool, tb: bool, a: &Mat, b: &Mat, beta: f32, out: &mut Mat) {
    let (a, b) = (
        if ta { a.t() } else { a.view() },
        if tb { b.t() } else { b.view() },
    );
    for i in 0..a.nrows() {
        for j in 0..b.ncols() {
            let sum: f32 = (0..a.ncols()).map(|k| a[[i, k]] * b[[k, j]]).sum();
            out[[i, j]] = sum + if beta == 0.0 { 0.0 } else { beta * out[[i, j]] };
        }
    }
}

/// Writes `op(a) · op(b) + beta · out` to `out`, where `op` transposes when `ta` (`tb`) is set.
/// With `beta = 0` the old content of `out` is not read.
///
/// `op(a): [m, k]`, `op(b): [k, n]`, `out: [m, n]`.
///
/// # Panics
/// When the shapes disagree.
pub fn gemm_into(par: &Par, ta: bool, tb: bool, a: &Mat, b: &Mat, beta: f32, out: &mut Mat) {
    let (m, k) = if ta { (a.ncols(), a.nrows()) } else { a.dim() };
    let (kb, n) = if tb { (b.ncols(), b.nrows()) } else { b.dim() };
    expect_eq("gemm", "op(b) with rows", k, kb);
    expect_eq("gemm", "out with rows", m, out.nrows());
    expect_eq("gemm", "out with columns", n, out.ncols());
    if beta != 0.0 && beta != 1.0 {
        par.rows_mut(flat_mut("gemm", out), 1, |_, rows| {
            rows.iter_mut().for_each(|x| *x *= beta);
        });
    }
    let write = if beta == 0.0 { Write::Set } else { Write::Add };
    linear_into(par, &[Term { a, b, ta, tb }], write, Then::default(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(rows: usize, cols: usize, seed: u64) -> Mat {
        Mat::from_shape_fn((rows, cols), |(r, c)| {
            crate::hash::element(crate::hash::row(seed, r as u32), c as u32) as f32 / 2e9 - 1.0
        })
    }

    fn check(m: usize, n: usize, k: usize, ta: bool, tb: bool, beta: f32) {
        let a = if ta { matrix(k, m, 1) } else { matrix(m, k, 1) };
        let b = if tb { matrix(n, k, 2) } else { matrix(k, n, 2) };
        let start = matrix(m, n, 3);
        let mut want = start.clone();
        naive(ta, tb, &a, &b, beta, &mut want);
        let mut one = start.clone();
        gemm_into(&Par::new(1), ta, tb, &a, &b, beta, &mut one);
        for (g, w) in one.iter().zip(&want) {
            assert!(
                (g - w).abs() <= 1e-4 * (k as f32).sqrt().max(1.0),
                "{g} instead of {w}"
            );
        }
        for threads in [2, 5] {
            let mut got = start.clone();
            gemm_into(&Par::new(threads), ta, tb, &a, &b, beta, &mut got);
            assert_eq!(got, one);
        }
    }

    proptest! {
        #[test]
        fn gemm_equals_naive(
            m in 0usize..70, n in 0usize..40, k in 0usize..70, ta: bool, tb: bool,
            beta in prop_oneof![Just(0.0f32), Just(1.0), Just(-0.5)],
        ) {
            check(m, n, k, ta, tb, beta);
        }
    }

    #[test]
    fn long_and_tall_shapes() {
        check(33, 7, 4096 + 13, true, false, 0.0);
        check(5, 3, 2 * 4096 + 1, true, false, 1.0);
        check(1541, 9, 20, false, false, 0.0);
        check(513, 12, 31, false, true, 2.0);
    }

    #[test]
    fn zero_beta_does_not_read_what_was_there() {
        let mut out = Mat::from_elem((2, 2), f32::NAN);
        gemm_into(
            &Par::new(1),
            false,
            false,
            &matrix(2, 3, 1),
            &matrix(3, 2, 2),
            0.0,
            &mut out,
        );
        assert!(out.iter().all(|x| x.is_finite()));
        gemm_into(
            &Par::new(1),
            false,
            false,
            &Mat::zeros((2, 0)),
            &Mat::zeros((0, 2)),
            0.0,
            &mut out,
        );
        assert!(out.iter().all(|&x| x == 0.0));
    }

    #[test]
    #[should_panic(expected = "gemm: expected op(b) with rows 3, got 4")]
    fn wrong_shapes_name_both_sides() {
        let (a, b) = (Mat::zeros((2, 3)), Mat::zeros((4, 2)));
        gemm_into(
            &Par::new(1),
            false,
            false,
            &a,
            &b,
            0.0,
            &mut Mat::zeros((2, 2)),
        );
    }
}
