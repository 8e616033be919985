//! Gradient descent with momentum, as `torch.optim.SGD` computes it.
//!
//! # Paper
//! Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
//! learning", ICML 2013, <https://proceedings.mlr.press/v28/sutskever13.html>.

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

/// Scalar reference with arithmetic and state in `f64`; see [`sgd_step`].
pub fn naive(p: SgdParams, w: &mut [f64], g: &[f32], velocity: &mut [f64]) {
    for ((w, g), u) in w.iter_mut().zip(g).zip(velocity) {
        let slope = f64::from(*g) + f64::from(p.weight_decay) * *w;
        *u = f64::from(p.momentum) * *u + slope;
        *w -= f64::from(p.lr) * *u;
    }
}

multiversion! {
    fn run(level: Level, p: SgdParams, w: &mut [f32], g: &[f32], velocity: &mut [f32]) {
        for ((w, g), u) in w.iter_mut().zip(g).zip(velocity) {
            *u = p.momentum * *u + (g + p.weight_decay * *w);
            *w -= p.lr * *u;
        }
    }
}

multiversion! {
    fn run_without_velocity(level: Level, p: SgdParams, w: &mut [f32], g: &[f32]) {
        for (w, g) in w.iter_mut().zip(g) {
            *w -= p.lr * (g + p.weight_decay * *w);
        }
    }
}

/// One step `u = momentum · u + g + weight_decay · w`, `w -= lr · u` of gradient descent on weights
/// `w` with gradient `g`; the `velocity` u is zero before the first step, and without one the
/// momentum is 0 whatever the settings say. All slices: `[parameters]`.
///
/// # Panics
/// When the lengths differ.
pub fn sgd_step(
    par: &Par,
    params: SgdParams,
    w: &mut [f32],
    g: &[f32],
    velocity: Option<&mut [f32]>,
) {
    step_at(Level::detect(), par, params, w, g, velocity);
}

fn step_at(
    level: Level,
    par: &Par,
    params: SgdParams,
    w: &mut [f32],
    g: &[f32],
    velocity: Option<&mut [f32]>,
) {
    expect_eq("sgd_step", "gradients", w.len(), g.len());
    let bounds = par.row_bounds(w.len(), 1);
    let Some(velocity) = velocity else {
        return par.run(cut_mut(w, 1, &bounds), |(first, w)| {
            run_without_velocity(level, params, w, &g[first..first + w.len()]);
        });
    };
    expect_eq("sgd_step", "velocities", w.len(), velocity.len());
    let jobs = cut_mut(w, 1, &bounds)
        .into_iter()
        .zip(cut_mut(velocity, 1, &bounds));
    par.run(jobs.collect(), |((first, w), (_, u))| {
        run(level, params, w, &g[first..first + w.len()], u);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gradient(w: &[f32], t: u64) -> Vec<f32> {
        w.iter().map(|x| (x * 7.0 + t as f32).sin()).collect()
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
            momentum in prop::option::of(0.0f32..0.95), weight_decay in 0.0f32..0.1,
            threads in 1usize..4,
        ) {
            let p = SgdParams { lr: 0.05, momentum: momentum.unwrap_or(0.0), weight_decay };
            let par = Par::new(threads);
            for level in Level::available() {
                let wide = w.iter().map(|&x| f64::from(x));
                let (mut a, mut ua) = (wide.collect::<Vec<_>>(), vec![0.0; w.len()]);
                let (mut b, mut ub) = (w.clone(), momentum.map(|_| vec![0.0; w.len()]));
                for t in 1..20 {
                    let g = gradient(&w, t);
                    naive(p, &mut a, &g, &mut ua);
                    step_at(level, &par, p, &mut b, &g, ub.as_deref_mut());
                    prop_assert!(close(&b, &a, 1e-5), "step {t} of {level:?}");
                    if let Some(ub) = &ub {
                        prop_assert!(close(ub, &ua, 1e-5), "velocity {t} of {level:?}");
                    }
                }
            }
        }
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
            sgd_step(&Par::new(1), p, &mut w, &[1.0], Some(&mut u));
            assert!((w[0] - want).abs() < 1e-6);
        }
    }

    #[test]
    fn steps_do_not_depend_on_threads() {
        let start: Vec<f32> = (0..100_003).map(|k| (k % 97) as f32 * 0.02 - 1.0).collect();
        let run = |threads| {
            let par = Par::new(threads);
            let (mut w, mut plain, mut u) = (start.clone(), start.clone(), vec![0.0; start.len()]);
            for t in 1..4 {
                let g = gradient(&start, t);
                sgd_step(&par, SgdParams::default(), &mut w, &g, Some(&mut u));
                sgd_step(&par, SgdParams::default(), &mut plain, &g, None);
            }
            (w, plain, u)
        };
        let one = run(1);
        for threads in [2, 3, 8] {
            assert!(one == run(threads), "{threads} threads");
        }
    }
}
