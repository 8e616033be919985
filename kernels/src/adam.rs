//! Adam with L2 weight decay as `torch.optim.Adam` computes it, and with decoupled decay as
//! `torch.optim.AdamW`.
//!
//! # Papers
//! Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015,
//! <https://arxiv.org/abs/1412.6980>.
//! Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019,
//! <https://arxiv.org/abs/1711.05101>.

use crate::par::cut_mut;
use crate::simd::{Level, multiversion};
use crate::{Par, expect_eq};

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamParams {
    /// Step size.
    pub lr: f32,
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the root of the second mean.
    pub eps: f32,
    /// Factor of the weight that is added to its gradient, or when [`Self::decoupled`] shrinks the
    /// weight, times the step size.
    pub weight_decay: f32,
    /// Whether the decay does not pass through the moments (AdamW).
    pub decoupled: bool,
}

impl Default for AdamParams {
    fn default() -> Self {
        AdamParams {
            lr: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
        }
    }
}

/// What one step needs beside the settings, computed once in `f64`.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// The step size over the first moment's correction.
    pub(crate) size: f32,
    /// The root of the second moment's correction.
    pub(crate) root: f32,
}

impl Step {
    /// For step `t`, counted from 1.
    pub(crate) fn new(params: AdamParams, t: u64) -> Step {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(t as f64);
        Step {
            size: (f64::from(params.lr) / correction(params.beta1)) as f32,
            root: correction(params.beta2).sqrt() as f32,
        }
    }
}

/// Scalar reference with arithmetic and state in `f64`; see [`adam_step`].
pub fn naive(p: AdamParams, t: u64, w: &mut [f64], g: &[f64], m: &mut [f64], v: &mut [f64]) {
    let (b1, b2) = (f64::from(p.beta1), f64::from(p.beta2));
    let (lr, decay) = (f64::from(p.lr), f64::from(p.weight_decay));
    for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
        let mut g = *g;
        if p.decoupled {
            *w -= lr * decay * *w;
        } else {
            g += decay * *w;
        }
        *m = b1 * *m + (1.0 - b1) * g;
        *v = b2 * *v + (1.0 - b2) * g * g;
        let mean = *m / (1.0 - b1.powf(t as f64));
        let root = (*v / (1.0 - b2.powf(t as f64))).sqrt();
        *w -= lr * mean / (root + f64::from(p.eps));
    }
}

multiversion! {
    /// One step on a run of weights.
    pub(crate) fn run(level: Level, p: AdamParams, s: Step, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let (l2, shrink) = if p.decoupled {
            (0.0, p.lr * p.weight_decay)
        } else {
            (p.weight_decay, 0.0)
        };
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            let g = *g + l2 * *w;
            *m = p.beta1 * *m + (1.0 - p.beta1) * g;
            *v = p.beta2 * *v + (1.0 - p.beta2) * g * g;
            let x = *w - shrink * *w;
            *w = x - s.size * (*m / (v.sqrt() / s.root + p.eps));
        }
    }
}

/// Step `t` (counted from 1) of Adam on weights `w` with gradient `g`; `m` and `v` hold the two
/// moments, zero before the first step. All slices: `[parameters]`.
///
/// # Panics
/// When the lengths differ or `t` is 0.
pub fn adam_step(
    par: &Par,
    params: AdamParams,
    t: u64,
    w: &mut [f32],
    g: &[f32],
    m: &mut [f32],
    v: &mut [f32],
) {
    step_at(Level::detect(), par, (params, t), w, g, m, v);
}

fn step_at(
    level: Level,
    par: &Par,
    (params, t): (AdamParams, u64),
    w: &mut [f32],
    g: &[f32],
    m: &mut [f32],
    v: &mut [f32],
) {
    expect_eq("adam_step", "gradients", w.len(), g.len());
    expect_eq("adam_step", "first moments", w.len(), m.len());
    expect_eq("adam_step", "second moments", w.len(), v.len());
    assert!(t > 0, "adam_step: expected steps counted from 1, got 0");
    let s = Step::new(params, t);
    let bounds = par.row_bounds(w.len(), 1);
    let jobs = cut_mut(w, 1, &bounds)
        .into_iter()
        .zip(cut_mut(m, 1, &bounds))
        .zip(cut_mut(v, 1, &bounds));
    par.run(jobs.collect(), |(((first, w), (_, m)), (_, v))| {
        run(level, params, s, w, &g[first..first + w.len()], m, v);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    fn close(got: &[f32], want: &[f64], off: f64) -> bool {
        got.iter()
            .zip(want)
            .all(|(g, w)| (f64::from(*g) - w).abs() < off)
    }

    proptest! {
        #[test]
        fn adam_equals_naive_at_every_level(
            w in prop::collection::vec(-1.0f32..1.0, 0..100),
            weight_decay in 0.0f32..0.5, decoupled: bool, threads in 1usize..4,
        ) {
            let params = AdamParams { weight_decay, decoupled, ..AdamParams::default() };
            let par = Par::new(threads);
            for level in Level::available() {
                let mut want: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; w.len()]);
                want[0] = wide(&w);
                let mut got = [w.clone(), vec![0.0; w.len()], vec![0.0; w.len()]];
                for t in 1..20 {
                    let g: Vec<f32> = w.iter().map(|x| (x * 7.0 + t as f32).sin()).collect();
                    let [a, ma, va] = &mut want;
                    naive(params, t, a, &wide(&g), ma, va);
                    let [b, mb, vb] = &mut got;
                    step_at(level, &par, (params, t), b, &g, mb, vb);
                    prop_assert!(close(b, a, 1e-5), "step {t} of {level:?}");
                    prop_assert!(close(mb, ma, 2e-6) && close(vb, va, 2e-6));
                }
            }
        }
    }

    #[test]
    fn the_first_step_is_the_step_size() {
        let (mut w, mut m, mut v) = ([1.0f32], [0.0], [0.0]);
        let (par, params) = (Par::new(1), AdamParams::default());
        adam_step(&par, params, 1, &mut w, &[0.5], &mut m, &mut v);
        assert!((w[0] - 0.99).abs() < 1e-6);
    }

    #[test]
    fn decoupled_decay_does_not_reach_the_moments() {
        let params = AdamParams {
            weight_decay: 0.1,
            decoupled: true,
            ..AdamParams::default()
        };
        let (mut w, mut m, mut v) = ([2.0f32], [0.0], [0.0]);
        adam_step(&Par::new(1), params, 1, &mut w, &[0.0], &mut m, &mut v);
        assert!((w[0] - 2.0 * (1.0 - 0.01 * 0.1)).abs() < 1e-6);
        assert_eq!((m, v), ([0.0], [0.0]));
    }

    #[test]
    fn steps_do_not_depend_on_threads() {
        let start: Vec<f32> = (0..100_003).map(|k| (k % 97) as f32 * 0.02 - 1.0).collect();
        let run = |threads| {
            let par = Par::new(threads);
            let (mut w, mut m) = (start.clone(), vec![0.0; start.len()]);
            let mut v = m.clone();
            for t in 1..4 {
                adam_step(
                    &par,
                    AdamParams::default(),
                    t,
                    &mut w,
                    &start,
                    &mut m,
                    &mut v,
                );
            }
            (w, m, v)
        };
        let one = run(1);
        for threads in [2, 3, 8] {
            assert!(one == run(threads), "{threads} threads");
        }
    }
}
