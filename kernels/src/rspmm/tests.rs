//! The typed aggregation and its gradients against the references.

use super::coef::coef_gradient_at;
use super::forward::rspmm_at;
use super::transposed::rspmm_t_at;
use super::*;
use crate::CsrBuf;
use crate::csr::{tests::any_csr, transposed};
use crate::simd::Level;
use crate::spmm::tests::{matrix, star};
use crate::{Csr, Par};
use proptest::prelude::*;

fn types_of(a: &CsrBuf, n: usize) -> Vec<u16> {
    (0..a.indices.len())
        .map(|e| (e * 7 % 11 % n) as u16)
        .collect()
}

/// Sums of thousands of terms round by their terms' size, not by their own.
fn assert_close(got: &Mat, want: &Mat, size: &Mat) {
    for ((got, want), size) in got.iter().zip(want).zip(size) {
        assert!(
            (got - want).abs() <= 1e-6 + 1e-4 * size,
            "{got} instead of {want}"
        );
    }
}

proptest! {
    #[test]
    fn typed_sums_and_gradients_equal_naive_at_every_level(
        a in any_csr(), d in prop_oneof![0usize..20, 30usize..100], bases in 1usize..7,
        n_types in 1usize..9, cut in 0.0f64..1.0,
    ) {
        let (m, n) = (a.rows(), a.n_cols);
        let (x, g, coef) = (matrix(n, bases * d, 1), matrix(m, d, 2), matrix(n_types, bases, 3));
        let types = types_of(&a, n_types);
        let rows = (m as f64 * cut) as usize..m;
        let at = a.view().transpose();
        let map = a.view().transpose_map().map_err(|e| TestCaseError::fail(e.to_string()))?;
        let types_t = transposed(&map, &types);
        let sources = (n as f64 * cut) as usize..n;
        // Of the numbers, and of their sizes.
        let naive = |f: fn(f32) -> f32| {
            let sized = |a: &CsrBuf| CsrBuf {
                weights: a.weights.as_ref().map(|w| w.iter().map(|&w| f(w)).collect()),
                ..a.clone()
            };
            let (a, at) = (sized(&a), sized(&at));
            let [x, g, coef] = [&x, &g, &coef].map(|x| x.mapv(f));
            let rel = Relations { types: &types, coef: &coef };
            let rel_t = Relations { types: &types_t, coef: &coef };
            let mut out = Mat::from_elem((m, d), 7.0);
            naive::forward(a.view(), rows.clone(), &rel, &x, &mut out);
            let mut dx = Mat::from_elem((n, bases * d), 7.0);
            naive::transposed(at.view(), sources.clone(), &rel_t, &g, &mut dx);
            let mut dcoef = Mat::zeros(coef.dim());
            naive::coef(a.view(), &types, &x, &g, &mut dcoef);
            [out, dx, dcoef]
        };
        let (want, size) = (naive(|x| x), naive(f32::abs));
        let rel = Relations { types: &types, coef: &coef };
        let rel_t = Relations { types: &types_t, coef: &coef };
        for level in Level::available() {
            let par = Par::new(2);
            let mut got = Mat::from_elem((m, d), 7.0);
            rspmm_at(level, &par, a.view(), rows.clone(), &rel, &x, &mut got);
            assert_close(&got, &want[0], &size[0]);
            let mut got = Mat::from_elem((n, bases * d), 7.0);
            rspmm_t_at(level, &par, at.view(), sources.clone(), &rel_t, &g, &mut got);
            assert_close(&got, &want[1], &size[1]);
            let mut got = Mat::from_elem(coef.dim(), 7.0);
            coef_gradient_at(level, &par, a.view(), &types, (&x, &g), &mut got);
            assert_close(&got, &want[2], &size[2]);
        }
    }
}

#[test]
fn threads_and_hubs_do_not_change_a_bit_and_the_transposed_is_the_adjoint() {
    let a = star(500);
    let (n, d, bases) = (500, 20, 3);
    let (x, g, coef) = (
        matrix(n, bases * d, 1),
        matrix(n, d, 2),
        matrix(5, bases, 3),
    );
    let types = types_of(&a, 5);
    let at = a.view().transpose();
    let types_t = transposed(&a.view().transpose_map().expect("few edges"), &types);
    let all = |threads| {
        let par = Par::new(threads);
        let (mut out, mut dx) = (Mat::zeros((n, d)), Mat::zeros((n, bases * d)));
        let mut dcoef = Mat::zeros(coef.dim());
        let rel = Relations {
            types: &types,
            coef: &coef,
        };
        rspmm_into(&par, a.view(), 0..n, &rel, &x, &mut out);
        let rel = Relations {
            types: &types_t,
            coef: &coef,
        };
        rspmm_t_into(&par, at.view(), 0..n, &rel, &g, &mut dx);
        coef_gradient_into(&par, a.view(), &types, &x, &g, &mut dcoef);
        (out, dx, dcoef)
    };
    let want = all(1);
    for threads in [2, 3, 8] {
        assert_eq!(all(threads), want);
    }
    let dot = |x: &Mat, y: &Mat| -> f64 {
        x.iter()
            .zip(y)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum()
    };
    // Linear in x and in the coefficients, so all three are the same number.
    let forward = dot(&want.0, &g);
    assert!((forward - dot(&want.1, &x)).abs() < 1e-4 * forward.abs() + 1e-2);
    assert!((forward - dot(&want.2, &coef)).abs() < 1e-4 * forward.abs() + 1e-2);
}

#[test]
#[should_panic(expected = "rspmm: expected types below 2, got 5")]
fn a_type_without_coefficients_is_named() {
    let a = Csr {
        indptr: &[0, 1],
        indices: &[0],
        weights: None,
        n_cols: 1,
    };
    let rel = Relations {
        types: &[5],
        coef: &Mat::zeros((2, 1)),
    };
    rspmm_into(
        &Par::new(1),
        a,
        0..1,
        &rel,
        &Mat::zeros((1, 3)),
        &mut Mat::zeros((1, 3)),
    );
}
