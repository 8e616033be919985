//! Dense matrix products with a factor on what was there: [`crate::linear`] without epilogue.
//!
//! # Whose product
//! The tiles are our own. Milliseconds of one thread, 65536 rows, `k` columns in and `n` out: the
//! least CPU time of 20 runs of each candidate, in two rounds, ours and `gemm` first, then the others; 4 KiB
//! pages; a virtual machine with AVX-512 (Sapphire Rapids or later, 2 MiB second-level cache) that was busy
//! with other work, 2026-11-21. Rounds differed by up to a fifth, and more for `gemm` and small shapes,
//! so differences below that say little. MKL is PyTorch 2.15's, bias and ReLU each a step of its own;
//! `gemm` is version 0.19 over blocks of 512 rows (256 for gradients).
//!
//! Forward:
//!
//! | k × n | ours | `gemm` | MKL | OpenBLAS | ours, bias + ReLU | MKL, bias, ReLU |
//! |---|---|---|---|---|---|---|
//! | 32 × 32 | 1.1 | 1.2 | 1.1 | 2.5 | 1.2 | 2.0 |
//! | 32 × 128 | 4.2 | 6.0 | 5.5 | 8.7 | 5.2 | 12.0 |
//! | 128 × 32 | 3.9 | 7.0 | 6.3 | 8.6 | 4.0 | 7.4 |
//! | 128 × 128 | 12.9 | 16.5 | 14.7 | 20.9 | 13.3 | 20.9 |
//! | 128 × 512 | 46.7 | 53.3 | 57.2 | 73.2 | 49.0 | 80.6 |
//! | 256 × 256 | 45.7 | 53.5 | 54.2 | 65.8 | 45.7 | 66.1 |
//! | 512 × 128 | 43.2 | 51.4 | 59.0 | 78.6 | 45.7 | 65.7 |
//! | 512 × 512 | 186 | 205 | 198 | 228 | 188 | 227 |
//!
//! Weight gradient, without and with the sums of columns:
//!
//! | k × n | ours | `gemm` | MKL | OpenBLAS | ours + bias | MKL, bias |
//! |---|---|---|---|---|---|---|
//! | 32 × 32 | 1.6 | 1.4 | 2.1 | 2.8 | 1.8 | 2.5 |
//! | 32 × 128 | 7.1 | 7.4 | 5.8 | 8.3 | 7.8 | 10.5 |
//! | 128 × 32 | 7.1 | 9.7 | 7.3 | 8.0 | 7.2 | 8.3 |
//! | 128 × 128 | 18.0 | 19.3 | 17.6 | 20.2 | 18.3 | 23.1 |
//! | 128 × 512 | 63.3 | 66.0 | 56.7 | 80.1 | 67.3 | 76.5 |
//! | 256 × 256 | 58.0 | 60.0 | 58.5 | 67.9 | 58.8 | 69.1 |
//! | 512 × 128 | 69.5 | 73.4 | 76.8 | 71.9 | 76.5 | 84.2 |
//! | 512 × 512 | 266 | 219 | 214 | 239 | 270 | 242 |
//!
//! The load favoured ours: in quieter hours MKL took 18.6 and 20.4 ms for 128 × 128 with its further
//! steps, ours 13.0 to 13.4 and 17.4 to 17.7, so 1.4 and 1.15 times are the careful reading.
//!
//! # Not done
//! The weight gradient is behind MKL where the columns are many on both sides, and packing both operands costs most
//! where they are few. Two threads could not be timed on that machine. `matrixmultiply` and `faer`
//! have not been timed.

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
