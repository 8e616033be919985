//! Steps of optimisers beside [`crate::adam`]: gradient descent with momentum as
//! `torch.optim.SGD` computes it, and AdamW as `torch.optim.AdamW`.
//!
//! # Papers
//! Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
//! learning", ICML 2013, <https://proceedings.mlr.press/v28/sutskever13.html>.
//! Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019,
//! <https://arxiv.org/abs/1711.05101>.

use crate::adam::{AdamParams, Step};
use crate::par::cut_mut;
use crate::simd::{Level, multiversion};
use crate::{Par, expect_eq};

/// Settings of gradient descent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdParams {
    /// Step size.
    pub lr: f32,
    /// Part of the velocity that a step keeps.
    pub momentum: f32,
    /// Factor of the weight that is added to its gradient.
    pub weight_decay: f32,
}

impl Default for SgdParams {
    fn default() -> Self {
        SgdParams {
            lr: 0.01,
            momentum: 0.9,
            weight_decay: 0.0,
        }
    }
}

/// Scalar references with arithmetic and state in `f64`.
pub mod naive {
    use super::SgdParams;
    use crate::adam::AdamParams;

    /// See [`super::sgd_step`].
    pub fn sgd(p: SgdParams, w: &mut [f64], g: &[f32], velocity: &mut [f64]) {
        for ((w, g), u) in w.iter_mut().zip(g).zip(velocity) {
            let slope = f64::from(*g) + f64::from(p.weight_decay) * *w;
            *u = f64::from(p.momentum) * *u + slope;
            *w -= f64::from(p.lr) * *u;
        }
    }

    /// See [`super::adamw_step`].
    pub fn adamw(p: AdamParams, t: u64, w: &mut [f64], g: &[f32], m: &mut [f64], v: &mut [f64]) {
        let (b1, b2) = (f64::from(p.beta1), f64::from(p.beta2));
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            let g = f64::from(*g);
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            let mean = *m / (1.0 - b1.powf(t as f64));
            let root = (*v / (1.0 - b2.powf(t as f64))).sqrt();
            *w -= f64::from(p.lr) * f64::from(p.weight_decay) * *w;
            *w -= f64::from(p.lr) * mean / (root + f64::from(p.eps));
        }
    }
}

multiversion! {
    fn sgd_run(level: Level, p: SgdParams, w: &mut [f32], g: &[f32], velocity: &mut [f32]) {
        for ((w, g), u) in w.iter_mut().zip(g).zip(velocity) {
            *u = p.momentum * *u + (g + p.weight_decay * *w);
            *w -= p.lr * *u;
        }
    }
}

multiversion! {
    fn adamw_run(level: Level, p: AdamParams, s: Step, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let shrink = p.lr * p.weight_decay;
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            *m = p.beta1 * *m + (1.0 - p.beta1) * g;
            *v = p.beta2 * *v + (1.0 - p.beta2) * g * g;
            let x = *w - shrink * *w;
            *w = x - s.size * (*m / (v.sqrt() / s.root + p.eps));
        }
    }
}

/// One step `u = momentum · u + g + weight_decay · w`, `w -= lr · u` of gradient descent on weights
/// `w` with gradient `g`; the `velocity` u is zero before the first step. All slices:
/// `[parameters]`.
///
/// # Panics
/// When the lengths differ.
pub fn sgd_step(par: &Par, params: SgdParams, w: &mut [f32], g: &[f32], velocity: &mut [f32]) {
    sgd_at(Level::detect(), par, params, w, g, velocity);
}

fn sgd_at(
    level: Level,
    par: &Par,
    params: SgdParams,
    w: &mut [f32],
    g: &[f32],
    velocity: &mut [f32],
) {
    expect_eq("sgd_step", "gradients", w.len(), g.len());
    expect_eq("sgd_step", "velocities", w.len(), velocity.len());
    let bounds = par.row_bounds(w.len(), 1);
    let jobs = cut_mut(w, 1, &bounds)
        .into_iter()
        .zip(cut_mut(velocity, 1, &bounds));
    par.run(jobs.collect(), |((first, w), (_, u))| {
        sgd_run(level, params, w, &g[first..first + w.len()], u);
    });
}

/// Step `t` (counted from 1) of AdamW on weights `w` with gradient `g`: as
/// [`crate::adam::adam_step`], but the decay shrinks the weight by `lr · weight_decay` instead of
/// passing through the moments `m` and `v`, which are zero before the first step. All slices:
/// `[parameters]`.
///
/// # Panics
/// When the lengths differ or `t` is 0.
pub fn adamw_step(
    par: &Par,
    params: AdamParams,
    t: u64,
    w: &mut [f32],
    g: &[f32],
    m: &mut [f32],
    v: &mut [f32],
) {
    adamw_at(Level::detect(), par, (params, t), w, g, m, v);
}

fn adamw_at(
    level: Level,
    par: &Par,
    (params, t): (AdamParams, u64),
    w: &mut [f32],
    g: &[f32],
    m: &mut [f32],
    v: &mut [f32],
) {
    expect_eq("adamw_step", "gradients", w.len(), g.len());
    expect_eq("adamw_step", "first moments", w.len(), m.len());
    expect_eq("adamw_step", "second moments", w.len(), v.len());
    assert!(t > 0, "adamw_step: expected steps counted from 1, got 0");
    let s = Step::new(params, t);
    let bounds = par.row_bounds(w.len(), 1);
    let jobs = cut_mut(w, 1, &bounds)
        .into_iter()
        .zip(cut_mut(m, 1, &bounds))
        .zip(cut_mut(v, 1, &bounds));
    par.run(jobs.collect(), |(((first, w), (_, m)), (_, v))| {
        adamw_run(level, params, s, w, &g[first..first + w.len()], m, v);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gradient(w: &[f32], t: u64) -> Vec<f32> {
        w.iter().map(|x| (x * 7.0 + t as f32).sin()).collect()
    }

    fn wide(w: &[f32]) -> Vec<f64> {
        w.iter().map(|&x| f64::from(x)).collect()
    }

    fn close(got: &[f32], want: &[f64], off: f64) -> bool {
        got.iter()
            .zip(want)
            .all(|(g, w)| (f64::from(*g) - w).abs() < off)
    }

    proptest! {
        #[test]
        fn sgd_equals_naive_at_every_level(
            w in prop::collection::vec(-1.0f32..1.0, 0..100),
            momentum in 0.0f32..0.95, weight_decay in 0.0f32..0.1, threads in 1usize..4,
        ) {
            let p = SgdParams { lr: 0.05, momentum, weight_decay };
            let par = Par::new(threads);
            for level in Level::available() {
                let (mut a, mut ua) = (wide(&w), vec![0.0; w.len()]);
                let (mut b, mut ub) = (w.clone(), vec![0.0; w.len()]);
                for t in 1..20 {
                    let g = gradient(&w, t);
                    naive::sgd(p, &mut a, &g, &mut ua);
                    sgd_at(level, &par, p, &mut b, &g, &mut ub);
                    prop_assert!(close(&b, &a, 1e-5) && close(&ub, &ua, 1e-5), "step {t} of {level:?}");
                }
            }
        }

        #[test]
        fn adamw_equals_naive_at_every_level(
            w in prop::collection::vec(-1.0f32..1.0, 0..100),
            weight_decay in 0.0f32..0.5, threads in 1usize..4,
        ) {
            let p = AdamParams { weight_decay, ..AdamParams::default() };
            let par = Par::new(threads);
            let zero = vec![0.0f64; w.len()];
            for level in Level::available() {
                let (mut a, mut ma, mut va) = (wide(&w), zero.clone(), zero.clone());
                let (mut b, mut mb, mut vb) = (w.clone(), vec![0.0; w.len()], vec![0.0; w.len()]);
                for t in 1..20 {
                    let g = gradient(&w, t);
                    naive::adamw(p, t, &mut a, &g, &mut ma, &mut va);
                    adamw_at(level, &par, (p, t), &mut b, &g, &mut mb, &mut vb);
                    prop_assert!(close(&b, &a, 1e-5), "step {t} of {level:?}");
                    prop_assert!(close(&mb, &ma, 1e-6) && close(&vb, &va, 1e-6));
                }
            }
        }
    }

    #[test]
    fn decay_of_adamw_is_decoupled() {
        let p = AdamParams {
            weight_decay: 0.1,
            ..AdamParams::default()
        };
        let (mut w, mut m, mut v) = ([2.0f32], [0.0], [0.0]);
        adamw_step(&Par::new(1), p, 1, &mut w, &[0.0], &mut m, &mut v);
        assert!((w[0] - 2.0 * (1.0 - 0.01 * 0.1)).abs() < 1e-6);
        assert_eq!((m, v), ([0.0], [0.0]));
    }

    #[test]
    fn momentum_adds_up_to_a_longer_step() {
        let p = SgdParams {
            lr: 0.1,
            momentum: 0.5,
            weight_decay: 0.0,
        };
        let (mut w, mut u) = ([1.0f32], [0.0]);
        for want in [0.9, 0.75, 0.575] {
            sgd_step(&Par::new(1), p, &mut w, &[1.0], &mut u);
            assert!((w[0] - want).abs() < 1e-6);
        }
    }

    #[test]
    fn steps_do_not_depend_on_threads() {
        let start: Vec<f32> = (0..100_003).map(|k| (k % 97) as f32 * 0.02 - 1.0).collect();
        let run = |threads| {
            let par = Par::new(threads);
            let (mut w, mut x, zero) = (start.clone(), start.clone(), vec![0.0; start.len()]);
            let (mut u, mut m, mut v) = (zero.clone(), zero.clone(), zero);
            for t in 1..4 {
                let g = gradient(&start, t);
                sgd_step(&par, SgdParams::default(), &mut w, &g, &mut u);
                adamw_step(&par, AdamParams::default(), t, &mut x, &g, &mut m, &mut v);
            }
            (w, x, u, m, v)
        };
        let one = run(1);
        for threads in [2, 3, 8] {
            assert!(one == run(threads), "{threads} threads");
        }
    }
}
