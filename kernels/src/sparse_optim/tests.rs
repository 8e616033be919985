//! Several steps against the references, and what must not change.

use super::*;
use ndarray::Array2;
use proptest::prelude::*;

fn table(n: usize, d: usize) -> Mat {
    Mat::from_shape_fn((n, d), |(r, c)| ((r * 31 + c * 7) % 23) as f32 * 0.1 - 1.0)
}

/// Gradients of step `t`, none near zero: there AdaGrad's first step is a sign.
fn gradients(m: usize, d: usize, t: u64) -> Mat {
    Mat::from_shape_fn((m, d), |(r, c)| {
        0.2 + ((r * 13 + c * 5 + t as usize * 3) % 17) as f32 * 0.1
    })
}

fn wide(x: &Mat) -> Array2<f64> {
    x.mapv(f64::from)
}

fn close(got: &Mat, want: &Array2<f64>) -> bool {
    got.iter()
        .zip(want)
        .all(|(g, w)| (f64::from(*g) - w).abs() <= 1e-5 * w.abs().max(1.0))
}

/// Rows of three steps over a table of `n` rows.
fn any_steps() -> impl Strategy<Value = (usize, Vec<Vec<u32>>)> {
    (1usize..30).prop_flat_map(|n| {
        let rows = prop::collection::vec(0..n as u32, 0..60);
        (Just(n), prop::collection::vec(rows, 3))
    })
}

proptest! {
    #[test]
    fn sparse_steps_equal_naive_at_every_level(
        (n, steps) in any_steps(), d in 0usize..40, weight_decay in 0.0f32..0.1, decoupled: bool,
        threads in 1usize..4,
    ) {
        let par = Par::new(threads);
        let adam = AdamParams { weight_decay, decoupled, ..AdamParams::default() };
        let adagrad = AdagradParams { lr: 0.05, ..AdagradParams::default() };
        let zero = Mat::zeros((n, d));
        for level in Level::available() {
            let (mut w, mut s) = (table(n, d), zero.clone());
            let (mut ww, mut ws) = (wide(&w), wide(&s));
            let (mut x, mut m, mut v) = (table(n, d), zero.clone(), zero.clone());
            let (mut wx, mut wm, mut wv) = (wide(&x), wide(&m), wide(&v));
            for (rows, t) in steps.iter().zip(1..) {
                let grads = gradients(rows.len(), d, t);
                let of = RowGradients { rows, grads: &grads };
                naive::adagrad(adagrad, of, &mut ww, &mut ws);
                adagrad_at(level, &par, adagrad, of, &mut w, &mut s);
                naive::adam(adam, t, of, &mut wx, &mut wm, &mut wv);
                adam_at(level, &par, (adam, t), of, [&mut x, &mut m, &mut v]);
            }
            prop_assert!(close(&w, &ww) && close(&s, &ws), "AdaGrad at {level:?}");
            prop_assert!(close(&x, &wx) && close(&m, &wm) && close(&v, &wv), "Adam at {level:?}");
            let (touched, start) = (steps.concat(), table(n, d));
            for r in (0..n).filter(|&r| !touched.contains(&(r as u32))) {
                prop_assert_eq!(w.row(r), start.row(r));
                prop_assert_eq!(x.row(r), start.row(r));
                prop_assert!(m.row(r).iter().chain(s.row(r)).all(|&x| x == 0.0));
            }
        }
    }
}

#[test]
fn touching_every_row_once_is_the_dense_step() {
    let (rows, grads): (Vec<u32>, _) = ((0..50).rev().collect(), gradients(50, 19, 1));
    let of = RowGradients {
        rows: &rows,
        grads: &grads,
    };
    let (par, p, zero) = (Par::new(2), AdamParams::default(), Mat::zeros((50, 19)));
    let (mut w, mut m, mut v) = (table(50, 19), zero.clone(), zero.clone());
    sparse_adam(&par, p, 1, of, &mut w, &mut m, &mut v);
    let mut reversed = Mat::zeros((50, 19));
    for (r, g) in rows.iter().zip(grads.rows()) {
        reversed.row_mut(*r as usize).assign(&g);
    }
    let (mut dw, mut dm, mut dv) = (table(50, 19), zero.clone(), zero);
    adam::adam_step(
        &par,
        p,
        1,
        flat_mut("w", &mut dw),
        flat("g", &reversed),
        flat_mut("m", &mut dm),
        flat_mut("v", &mut dv),
    );
    assert_eq!((w, m, v), (dw, dm, dv));
}

#[test]
fn sparse_steps_do_not_depend_on_threads_even_with_a_hub() {
    // Half of all occurrences are of row 3; the others spread and repeat.
    let spread = |i: u32| i.wrapping_mul(2_654_435_761) % 700;
    let rows: Vec<u32> = (0..12_000)
        .map(|i| if i % 2 == 0 { 3 } else { spread(i) })
        .collect();
    assert!(rows.iter().filter(|&&v| v == 3).count() > HUB);
    let run = |threads| {
        let (par, zero) = (Par::new(threads), Mat::zeros((700, 37)));
        let (mut w, mut s) = (table(700, 37), zero.clone());
        let (mut x, mut m, mut v) = (table(700, 37), zero.clone(), zero);
        for t in 1..3 {
            let grads = gradients(rows.len(), 37, t);
            let of = RowGradients {
                rows: &rows,
                grads: &grads,
            };
            sparse_adagrad(&par, AdagradParams::default(), of, &mut w, &mut s);
            sparse_adam(&par, AdamParams::default(), t, of, &mut x, &mut m, &mut v);
        }
        (w, s, x, m, v)
    };
    let one = run(1);
    for threads in [2, 3, 8] {
        assert!(one == run(threads), "{threads} threads");
    }
    // The hub's sum is that of all its gradients, which `f32` adds to some digits only.
    let (g1, g2) = (gradients(rows.len(), 37, 1), gradients(rows.len(), 37, 2));
    let mine = |g: &Mat, k: usize| {
        if rows[k] == 3 {
            f64::from(g[[k, 5]])
        } else {
            0.0
        }
    };
    let sum = |g: &Mat| -> f64 { (0..rows.len()).map(|k| mine(g, k)).sum() };
    let want = sum(&g1).powi(2) + sum(&g2).powi(2);
    let off = (f64::from(one.1[[3, 5]]) - want).abs() / want;
    assert!(off < 1e-4, "off by {off}");
}

#[test]
#[should_panic(expected = "sparse_adagrad: expected rows below 2, got 2")]
fn a_row_out_of_range_is_named() {
    let grads = Mat::zeros((1, 1));
    let of = RowGradients {
        rows: &[2],
        grads: &grads,
    };
    let (mut w, mut s) = (Mat::zeros((2, 1)), Mat::zeros((2, 1)));
    sparse_adagrad(&Par::new(1), AdagradParams::default(), of, &mut w, &mut s);
}
