//! Dense matrix products with a factor on what was there: [`crate::linear`] without epilogue.
//!
//! # Whose product
//! The loops are our own: of `gemm`, `faer` and `matrixmultiply` none was faster but at 32 × 32; tiles of
//! AMX ([`crate::engine`]) gain more where shapes are wide. Times, those of MKL and OpenBLAS, and errors against
//! `f64`: `notebooks/measured/kernels.md`.
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
