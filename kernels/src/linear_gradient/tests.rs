//! Weight gradients against the reference.

use super::*;
use crate::linear::Write;
use crate::linear::tests::{close, matrix};
use crate::linear_then::Gate;
use proptest::prelude::*;

fn check(v: usize, k: usize, n: usize) {
    let (x, g) = (matrix(v, k, 1), matrix(v, n, 2));
    let run = |threads, bias: bool| {
        let (mut gw, mut gb) = (
            Mat::from_elem((k, n), f32::NAN),
            Mat::from_elem((1, n), f32::NAN),
        );
        let gb_out = bias.then(|| flat_mut("", &mut gb));
        weight_gradient_into(&Par::new(threads), &x, &g, &mut gw, gb_out);
        (gw, gb)
    };
    let (mut gw, mut gb) = (Mat::zeros((k, n)), Mat::zeros((1, n)));
    naive_gradient(&x, &g, &mut gw, Some(flat_mut("", &mut gb)));
    let one = run(1, true);
    let tolerance = 2e-6 * (v as f32).sqrt().max(8.0);
    close(&one.0, &gw, tolerance);
    close(&one.1, &gb, tolerance);
    for engine in Engine::available() {
        let (mut w, mut b) = (Mat::ones((k, n)), Mat::ones((1, n)));
        let par = Par::new(2);
        gradient_at(
            engine,
            &par,
            [&x, &g],
            true,
            &mut w,
            Some(flat_mut("", &mut b)),
        );
        close(&w, &(&gw + 1.0), tolerance);
        close(&b, &gb, tolerance);
    }
    for threads in [2, 3, 8] {
        assert_eq!(run(threads, true), one, "{threads} threads");
    }
    assert_eq!(run(2, false).0, one.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn weight_gradient_equals_naive(v in 0usize..600, k in 0usize..120, n in 0usize..120) {
        check(v, k, n);
    }
}

/// Several left operands and rows that are made, against the same one by one with rows that exist.
fn check_made(v: usize, ks: &[usize], n: usize, inner: &[usize]) {
    let xs: Vec<Mat> = (0..).zip(ks).map(|(i, &k)| matrix(v, k, i)).collect();
    let terms: Vec<(Mat, Mat)> = (50..)
        .zip(inner)
        .map(|(i, &k)| (matrix(v, k, i), matrix(n, k, i + 50)))
        .collect();
    let terms: Vec<_> = terms
        .iter()
        .map(|(a, b)| Term {
            a,
            b,
            ta: false,
            tb: true,
        })
        .collect();
    let y = matrix(v, n, 200);
    let then = Then {
        gate: Some(Gate::Relu { y: &y, scale: 2.0 }),
        ..Then::default()
    };
    let mut g = Mat::zeros((v, n));
    crate::linear::linear_into(&Par::new(1), &terms, Write::Set, then, &mut g);
    let made = Rows::Made {
        terms: &terms,
        then,
    };
    let run = |threads, rows: Rows<'_>| {
        let mut gws: Vec<Mat> = ks
            .iter()
            .map(|&k| Mat::from_elem((k, n), f32::NAN))
            .collect();
        let mut gb = vec![f32::NAN; n];
        let refs: Vec<&Mat> = xs.iter().collect();
        let mut to: Vec<&mut Mat> = gws.iter_mut().collect();
        weight_gradients_into(&Par::new(threads), &refs, rows, &mut to, Some(&mut gb));
        (gws, gb)
    };
    let one = run(1, made);
    let tolerance = 2e-6 * (v as f32).sqrt().max(8.0) * 4.0;
    for (x, gw) in xs.iter().zip(&one.0) {
        let mut want = Mat::zeros(gw.dim());
        naive_gradient(x, &g, &mut want, None);
        close(gw, &want, tolerance);
    }
    let sums: Vec<f32> = (0..n).map(|c| g.column(c).sum()).collect();
    for (got, want) in one.1.iter().zip(&sums) {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0));
    }
    for threads in [2, 3] {
        assert_eq!(run(threads, made), one, "{threads} threads");
    }
    if !Engine::detect().tiles {
        assert_eq!(run(2, Rows::Held(&g)), one, "rows that exist");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn made_rows_equal_rows_that_exist(
        v in 0usize..500, ks in prop::collection::vec(0usize..70, 1..4), n in 1usize..70,
        inner in prop::collection::vec(0usize..20, 1..3),
    ) {
        check_made(v, &ks, n, &inner);
    }
}

#[test]
fn made_rows_of_many_lanes_and_groups() {
    check_made(3 * LANE_ROWS + 77, &[33, 128], 128, &[16, 16]);
    check_made(2 * LANE_ROWS + 5, &[300, 250, 7], 40, &[600]);
    check_made(LANE_ROWS + 50, &[256, 7], 41, &[30]);
}

#[test]
fn many_rows_in_lanes() {
    check(5 * LANE_ROWS + 77, 33, 18);
    check(5 * LANE_ROWS + 77, 99, 50);
    check(1300, GROUP + 19, 5);
    check(2 * LANE_ROWS + 31, GROUP + 122, 14);
    check(700, 2 * GROUP, 64);
    check(700, 512, 33);
    check(2 * LANE_ROWS, 7, 130);
    check(LANES * LANE_ROWS + 1025, 5, 3);
}

#[test]
#[should_panic(expected = "weight_gradient: expected g with rows 3, got 2")]
fn wrong_shapes_name_both_sides() {
    let (x, g) = (Mat::zeros((3, 1)), Mat::zeros((2, 1)));
    weight_gradient_into(&Par::new(1), &x, &g, &mut Mat::zeros((1, 1)), None);
}
