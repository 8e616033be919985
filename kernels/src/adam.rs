//! Adam with L2 weight decay, as `torch.optim.Adam` computes it.
//!
//! # Paper
//! Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015,
//! <https://arxiv.org/abs/1412.6980>.

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
    /// Factor of the weight that is added to its gradient.
    pub weight_decay: f32,
}

impl Default for AdamParams {
    fn default() -> Self {
        AdamParams {
            lr: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
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

/// Scalar reference in `f64`; see [`adam_step`].
pub fn naive(p: AdamParams, t: u64, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
    let (b1, b2) = (f64::from(p.beta1), f64::from(p.beta2));
    for i in 0..w.len() {
        let g = f64::from(g[i]) + f64::from(p.weight_decay) * f64::from(w[i]);
        let (mi, vi) = (
            b1 * f64::from(m[i]) + (1.0 - b1) * g,
            b2 * f64::from(v[i]) + (1.0 - b2) * g * g,
        );
        let (mh, vh) = (
            mi / (1.0 - b1.powf(t as f64)),
            vi / (1.0 - b2.powf(t as f64)),
        );
        w[i] -= (f64::from(p.lr) * mh / (vh.sqrt() + f64::from(p.eps))) as f32;
        (m[i], v[i]) = (mi as f32, vi as f32);
    }
}

multiversion! {
    /// One step on a run of weights.
    pub(crate) fn run(level: Level, p: AdamParams, s: Step, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            let g = *g + p.weight_decay * *w;
            *m = p.beta1 * *m + (1.0 - p.beta1) * g;
            *v = p.beta2 * *v + (1.0 - p.beta2) * g * g;
            *w -= s.size * (*m / (v.sqrt() / s.root + p.eps));
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
    expect_eq("adam_step", "gradients", w.len(), g.len());
    expect_eq("adam_step", "first moments", w.len(), m.len());
    expect_eq("adam_step", "second moments", w.len(), v.len());
    assert!(t > 0, "adam_step: expected steps counted from 1, got 0");
    let (level, s) = (Level::detect(), Step::new(params, t));
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

    proptest! {
        #[test]
        fn adam_equals_naive(w in prop::collection::vec(-1.0f32..1.0, 0..100), decay in 0.0f32..0.1, threads in 1usize..3) {
            let params = AdamParams { weight_decay: decay, ..AdamParams::default() };
            let par = Par::new(threads);
            let zero = vec![0.0; w.len()];
            let (mut a, mut b) = ((w.clone(), zero.clone(), zero.clone()), (w.clone(), zero.clone(), zero));
            for t in 1..20 {
                let g: Vec<f32> = w.iter().map(|x| (x * 7.0 + t as f32).sin()).collect();
                naive(params, t, &mut a.0, &g, &mut a.1, &mut a.2);
                adam_step(&par, params, t, &mut b.0, &g, &mut b.1, &mut b.2);
            }
            for (a, b) in a.0.iter().zip(&b.0) {
                prop_assert!((a - b).abs() < 1e-5, "{} against {}", a, b);
            }
        }
    }

    #[test]
    fn the_first_step_is_the_step_size() {
        let (mut w, mut m, mut v) = ([1.0f32], [0.0], [0.0]);
        adam_step(
            &Par::new(1),
            AdamParams::default(),
            1,
            &mut w,
            &[0.5],
            &mut m,
            &mut v,
        );
        assert!((w[0] - 0.99).abs() < 1e-6);
    }
}
