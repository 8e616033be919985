//! Dense layers, norms, losses and optimisers.

use super::{assert_close, devices, few, matrix, on_every_device, up};
use crate::adam::{AdamParams, adam_step};
use crate::cuda::Moves;
use crate::cuda::ops::{
    ActOn, DropoutOn, GateOn, ThenOn, adam, axpby, column_sums, dot, gemm, layer_norm,
    layer_norm_backward, sgd, sigmoid_bce, softmax_xent, sparse_adagrad, sparse_adam, then,
};
use crate::linear_then::{Act, Dropout, Gate, Then};
use crate::sgd::{SgdParams, sgd_step};
use crate::sparse_optim::{self, AdagradParams, RowGradients};
use crate::{Mat, Par};
use proptest::prelude::*;

fn flat(x: &Mat) -> &[f32] {
    x.as_slice().expect("made in standard layout")
}

fn any_act() -> impl Strategy<Value = (Act, ActOn)> {
    prop_oneof![
        Just((Act::None, ActOn::None)),
        Just((Act::Relu, ActOn::Relu)),
        Just((Act::Elu, ActOn::Elu)),
    ]
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn epilogues_equal_the_cpu_kernel(
        n in 0usize..40, d in 1usize..70, bias: bool, act in any_act(), gate in 0u8..3, key: u64,
        p in prop_oneof![Just(None), (0.0f32..0.95).prop_map(Some)],
    ) {
        let (x, b, y) = (matrix(n, d, 1), matrix(1, d, 2), matrix(n, d, 3));
        let ids: Vec<u32> = (0..n as u32).map(|v| v.wrapping_mul(977)).collect();
        let dropout = p.map(|p| Dropout { key, ids: &ids, p });
        let scale = 1.5;
        let gates = [None, Some(Gate::Relu { y: &y, scale }), Some(Gate::Elu { y: &y, scale })];
        let steps = Then { bias: bias.then(|| b.as_slice().unwrap()), act: act.0, dropout, gate: gates[usize::from(gate)] };
        let mut want = x.clone();
        crate::linear_then::naive(steps, &mut want);
        on_every_device(|device| {
            let (ids, b, y, mut x) = (device.upload(&ids), up(device, &b), up(device, &y), up(device, &x));
            let act_of = [ActOn::None, ActOn::Relu, ActOn::Elu][usize::from(gate)];
            let steps = ThenOn {
                bias: bias.then_some(&b),
                act: act.1,
                dropout: p.map(|p| DropoutOn { key, ids: &ids, p }),
                gate: (gate > 0).then_some(GateOn { y: &y, act: act_of, scale }),
            };
            then(&steps, n, d, &mut x);
            let got = x.download();
            assert_close(&got, want.as_slice().unwrap(), 1e-6);
            for (g, w) in got.iter().zip(&want) {
                assert_eq!(*g == 0.0, *w == 0.0, "the same elements are dropped");
            }
            got
        });
    }

    #[test]
    fn products_and_sums_equal_the_cpu_kernel(m in 0usize..30, n in 1usize..30, k in 1usize..30, t in 0usize..3, add: bool) {
        let (ta, tb) = (t == 1, t == 2);
        let a = if ta { matrix(k, m, 1) } else { matrix(m, k, 1) };
        let b = if tb { matrix(n, k, 2) } else { matrix(k, n, 2) };
        let before = matrix(m, n, 3);
        let beta = if add { 1.0 } else { 0.0 };
        let mut want = before.clone();
        crate::gemm::naive(ta, tb, &a, &b, beta, &mut want);
        let sums = crate::elementwise::naive_column_sums(&want);
        on_every_device(|device| {
            let mut out = if add { up(device, &before) } else { device.fresh(m * n) };
            gemm([ta, tb], [m, n, k], &up(device, &a), &up(device, &b), beta, &mut out);
            assert_close(&out.download(), want.as_slice().unwrap(), 1e-4);
            let mut s = device.fresh(n);
            column_sums(m, n, &out, &mut s);
            assert_close(&s.download(), &sums, 1e-3);
            let x = up(device, &before);
            axpby(2.0, &x, 0.5, &mut out);
            let mixed: Vec<f32> = before.iter().zip(&want).map(|(x, y)| 2.0 * x + 0.5 * y).collect();
            assert_close(&out.download(), &mixed, 1e-4);
            s.download()
        });
    }

    #[test]
    fn layer_norm_equals_its_definition(n in 0usize..40, d in 1usize..70) {
        let (x, g) = (matrix(n, d, 1), matrix(n, d, 2));
        let (gain, bias) = (matrix(1, d, 3), matrix(1, d, 4));
        let (mut y, mut dx) = (Mat::zeros((n, d)), Mat::zeros((n, d)));
        let mut params = vec![0f64; 2 * d];
        let eps = 1e-5f32;
        for r in 0..n {
            let of = |m: &Mat, c: usize| f64::from(m[[r, c]]);
            let mean = (0..d).map(|c| of(&x, c)).sum::<f64>() / d as f64;
            let var = (0..d).map(|c| (of(&x, c) - mean).powi(2)).sum::<f64>() / d as f64;
            let root = 1.0 / (var + f64::from(eps)).sqrt();
            let hat: Vec<f64> = (0..d).map(|c| (of(&x, c) - mean) * root).collect();
            let t: Vec<f64> = (0..d).map(|c| of(&g, c) * f64::from(gain[[0, c]])).collect();
            let (a, b) = (t.iter().sum::<f64>() / d as f64, t.iter().zip(&hat).map(|(t, h)| t * h).sum::<f64>() / d as f64);
            for c in 0..d {
                y[[r, c]] = (hat[c] * f64::from(gain[[0, c]]) + f64::from(bias[[0, c]])) as f32;
                dx[[r, c]] = (root * (t[c] - a - hat[c] * b)) as f32;
                params[c] += of(&g, c) * hat[c];
                params[d + c] += of(&g, c);
            }
        }
        let params: Vec<f32> = params.into_iter().map(|v| v as f32).collect();
        on_every_device(|device| {
            let [x, g, gain, bias] = [&x, &g, &gain, &bias].map(|m| up(device, m));
            let (mut out, mut stats) = (device.fresh(n * d), device.fresh(2 * n));
            layer_norm(&x, &gain, &bias, eps, &mut out, &mut stats);
            // Rows of one element divide by almost nothing.
            let tolerance = if d < 3 { 2e-2 } else { 1e-4 };
            assert_close(&out.download(), y.as_slice().unwrap(), tolerance);
            let (mut back, mut dp) = (device.fresh(n * d), device.fresh(2 * d));
            layer_norm_backward(&x, &g, &gain, &stats, &mut back, &mut dp);
            if d >= 3 {
                assert_close(&back.download(), dx.as_slice().unwrap(), 2e-3);
                assert_close(&dp.download(), &params, 1e-3);
            }
            (out.download(), back.download(), dp.download())
        });
    }

    #[test]
    fn losses_equal_the_cpu_kernel(n in 0usize..60, classes in 1usize..50, seed: u64) {
        let x = matrix(n, classes, seed).mapv(|v| 20.0 * v);
        let pick = |k: usize| crate::hash::element(seed, k as u32) as usize;
        let labels: Vec<i32> = (0..n).map(|v| (pick(v) % classes) as i32).collect();
        let mask: Vec<bool> = (0..n).map(|v| pick(v + n) % 3 > 0).collect();
        let bytes: Vec<u8> = mask.iter().map(|&m| u8::from(m)).collect();
        let mut grad = Mat::ones((n, classes));
        let want = crate::loss::naive(&x, &labels, &mask, 0.1, &mut grad);
        let many: Vec<u8> = matrix(n, classes, seed ^ 1).iter().map(|&v| u8::from(v > 0.0)).collect();
        let (mut bce, mut bce_grad) = (0.0f64, Mat::zeros((n, classes)));
        for ((v, c), &z) in x.indexed_iter().filter(|((v, _), _)| mask[*v]) {
            let (z, y) = (f64::from(z), f64::from(many[v * classes + c]));
            bce += z.max(0.0) - z * y + (-z.abs()).exp().ln_1p();
            bce_grad[[v, c]] = ((1.0 / (1.0 + (-z).exp()) - y) * 0.1) as f32;
        }
        on_every_device(|device| {
            let (xs, ms) = (up(device, &x), device.upload(&bytes));
            let mut g = device.fresh(n * classes);
            let got = softmax_xent(&xs, &device.upload(&labels), &ms, 0.1, &mut g);
            assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{got} instead of {want}");
            assert_close(&g.download(), grad.as_slice().unwrap(), 1e-6);
            let sum = sigmoid_bce(&xs, &device.upload(&many), &ms, 0.1, &mut g);
            assert!((sum - bce).abs() <= 1e-5 * bce.abs().max(1.0), "{sum} instead of {bce}");
            assert_close(&g.download(), bce_grad.as_slice().unwrap(), 1e-6);
            (got.to_bits(), sum.to_bits())
        });
    }
}

#[test]
fn optimisers_take_the_steps_of_the_cpu() {
    let (n, start) = (1000, matrix(1, 1000, 1));
    let gradient = |step: u64| matrix(1, n, 100 + step);
    let zeros = vec![0f32; n];
    for decoupled in [false, true] {
        let p = AdamParams {
            weight_decay: 0.05,
            decoupled,
            ..AdamParams::default()
        };
        let (mut w, mut m, mut v) = (flat(&start).to_vec(), zeros.clone(), zeros.clone());
        for step in 1..6 {
            let g = gradient(step);
            adam_step(&Par::new(1), p, step, &mut w, flat(&g), &mut m, &mut v);
        }
        for device in devices() {
            let (mut dw, mut dm, mut dv) = (up(device, &start), device.zeros(n), device.zeros(n));
            for step in 1..6 {
                let g = up(device, &gradient(step));
                adam(p, step, &mut dw, &g, &mut dm, &mut dv);
            }
            assert_close(&dw.download(), &w, 2e-6);
            assert_close(&dm.download(), &m, 1e-6);
            assert_close(&dv.download(), &v, 1e-6);
        }
    }
    let p = SgdParams {
        lr: 0.05,
        momentum: 0.9,
        weight_decay: 0.1,
    };
    for with_velocity in [false, true] {
        let (mut w, mut u) = (flat(&start).to_vec(), with_velocity.then(|| zeros.clone()));
        for step in 1..6 {
            let g = gradient(step);
            sgd_step(&Par::new(1), p, &mut w, flat(&g), u.as_deref_mut());
        }
        for device in devices() {
            let mut dw = up(device, &start);
            let mut du = with_velocity.then(|| device.zeros(n));
            for step in 1..6 {
                sgd(p, &mut dw, &up(device, &gradient(step)), du.as_mut());
            }
            assert_close(&dw.download(), &w, 1e-6);
            if let (Some(got), Some(want)) = (du, &u) {
                assert_close(&got.download(), want, 1e-6);
            }
        }
    }
}

proptest! {
    #![proptest_config(few())]
    #[test]
    fn sparse_optimisers_step_the_touched_rows_alone(
        n in 1usize..20, d in 1usize..40, decoupled: bool,
        steps in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..30), 1..4),
    ) {
        let adagrad = AdagradParams { lr: 0.05, ..AdagradParams::default() };
        let adam = AdamParams { weight_decay: 0.05, decoupled, ..AdamParams::default() };
        let steps: Vec<Vec<u32>> = steps.iter().map(|s| s.iter().map(|i| i.index(n) as u32).collect()).collect();
        // None near zero, where first steps are signs.
        let gradient = |m: usize, t: u64| matrix(m, d, t).mapv(|g| g + g.signum());
        let (start, zero, par) = (matrix(n, d, 1), Mat::zeros((n, d)), Par::new(1));
        let mut want: [Mat; 5] = [start.clone(), zero.clone(), start.clone(), zero.clone(), zero.clone()];
        for (rows, t) in steps.iter().zip(1..) {
            let of = RowGradients { rows, grads: &gradient(rows.len(), t) };
            let [w, s, x, m, v] = &mut want;
            sparse_optim::sparse_adagrad(&par, adagrad, of, w, s);
            sparse_optim::sparse_adam(&par, adam, t, of, x, m, v);
        }
        on_every_device(|device| {
            let mut got = [&start, &zero, &start, &zero, &zero].map(|x| up(device, x));
            for (rows, t) in steps.iter().zip(1..) {
                let g = up(device, &gradient(rows.len(), t));
                let rows = Moves::new(device, rows);
                let [w, s, x, m, v] = &mut got;
                sparse_adagrad(adagrad, &rows, &g, d, w, s);
                sparse_adam((adam, t), &rows, &g, d, [x, m, v]);
            }
            let got = got.map(|x| x.download());
            got.iter().zip(&want).for_each(|(got, want)| assert_close(got, flat(want), 4e-6));
            got.map(|x| x.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        });
    }
}

#[test]
fn a_logit_that_is_not_a_number_shows_in_the_loss() {
    for device in devices() {
        let x = device.upload(&[0.0, f32::NAN, 1.0]);
        let (labels, mask) = (device.upload(&[0i32]), device.upload(&[1u8]));
        assert!(softmax_xent(&x, &labels, &mask, 1.0, &mut device.fresh(3)).is_nan());
    }
}

#[test]
fn long_sums_are_exact_and_independent_of_order() {
    on_every_device(|device| {
        let (n, c) = (5000, 2);
        let x = matrix(n, c, 7);
        let labels: Vec<i32> = (0..n as i32).map(|v| v % 2).collect();
        let mut grad = Mat::zeros((n, c));
        let want = crate::loss::naive(&x, &labels, &vec![true; n], 1.0, &mut grad);
        let mut g = device.fresh(n * c);
        let got = softmax_xent(
            &up(device, &x),
            &device.upload(&labels),
            &device.upload(&vec![1u8; n]),
            1.0,
            &mut g,
        );
        assert!((got - want).abs() < 1e-6 * want);
        let (mut sums, mut square) = (device.fresh(c), device.fresh(1));
        dot(&g, &g, &mut square);
        let norm: f64 = grad.iter().map(|&g| f64::from(g) * f64::from(g)).sum();
        assert!((f64::from(square.download()[0]) - norm).abs() < 1e-5 * norm);
        column_sums(n, c, &g, &mut sums);
        assert_close(
            &sums.download(),
            &crate::elementwise::naive_column_sums(&grad),
            2e-4,
        );
        (got.to_bits(), sums.download())
    });
}
