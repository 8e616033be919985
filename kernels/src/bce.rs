//! Sigmoid cross-entropy of several labels a row with its gradient in one pass.

// A lane is one index into several arrays.
#![allow(clippy::needless_range_loop)]

use crate::exp::exp;
use crate::par::{cut_mut, split_rows};
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Elements of one block (whole rows); the loss is summed per block, then over the blocks.
const BLOCK: usize = 8 * 1024;

/// Independent partial sums of a run of elements; fixed, so that the order of additions is.
const LANES: usize = 16;

/// Scalar reference in `f64`: see [`sigmoid_bce`].
pub fn naive(logits: &Mat, labels: &[u8], mask: &[bool], scale: f32, grad: &mut Mat) -> f64 {
    let c = logits.ncols();
    let mut loss = 0.0;
    grad.fill(0.0);
    let rows = logits.rows().into_iter().zip(grad.rows_mut());
    for (v, (x, mut g)) in rows.enumerate().filter(|r| mask[r.0]) {
        for ((&x, g), &label) in x.iter().zip(&mut g).zip(&labels[v * c..]) {
            let (x, y) = (f64::from(x), f64::from(label));
            let e = (-x.abs()).exp();
            loss += x.max(0.0) - x * y + e.ln_1p();
            let sigmoid = if x >= 0.0 { 1.0 } else { e } / (1.0 + e);
            *g = (sigmoid - y) as f32 * scale;
        }
    }
    loss
}

/// `ln(1 + e)` for `0 <= e <= 1`, accurate relative to itself: twice the series of the inverse
/// hyperbolic tangent of `e / (2 + e)`, which is at most a third.
#[inline(always)]
fn ln_1p(e: f32) -> f32 {
    let s = e / (2.0 + e);
    let q = s * s;
    let p = q * (2.0 / 15.0) + 2.0 / 13.0;
    let p = p * q + 2.0 / 11.0;
    let p = p * q + 2.0 / 9.0;
    let p = p * q + 2.0 / 7.0;
    let p = p * q + 2.0 / 5.0;
    let p = p * q + 2.0 / 3.0;
    p * q * s + 2.0 * s
}

/// Loss of a logit, and its gradient. With the logit's sign turned for the label 1, both labels
/// are one case: the loss is `ln(1 + e^z)`, its slope the sigmoid of `z`.
#[inline(always)]
fn one(x: f32, label: u8, scale: f32) -> (f32, f32) {
    let sign = 1.0 - 2.0 * f32::from(label);
    let z = x * sign;
    let e = if z.abs() > 87.0 { 0.0 } else { exp(-z.abs()) };
    let top = if z >= 0.0 { 1.0 } else { e };
    let loss = if z > 0.0 { z } else { 0.0 } + ln_1p(e);
    (loss, top / (1.0 + e) * sign * scale)
}

multiversion! {
    /// The sum of the losses of a run of elements, and their gradients in `g`.
    fn run(level: Level, x: &[f32], labels: &[u8], scale: f32, g: &mut [f32]) -> f64 {
        let (xs, x_rest) = x.as_chunks::<LANES>();
        let (ys, y_rest) = labels.as_chunks::<LANES>();
        let (gs, g_rest) = g.as_chunks_mut::<LANES>();
        let mut sums = [0f64; LANES];
        for ((x, y), g) in xs.iter().zip(ys).zip(gs) {
            for l in 0..LANES {
                let (loss, slope) = one(x[l], y[l], scale);
                sums[l] += f64::from(loss);
                g[l] = slope;
            }
        }
        for (l, g) in g_rest.iter_mut().enumerate() {
            let (loss, slope) = one(x_rest[l], y_rest[l], scale);
            sums[l] += f64::from(loss);
            *g = slope;
        }
        sums.iter().sum()
    }
}

/// Sum over the rows in `mask` and all columns of `-y ln σ(x) - (1 - y) ln(1 - σ(x))`, and its
/// gradient times `scale` in `grad`, zero in the other rows, whose logits and labels do not
/// matter. `logits, grad: [n, c]`, `labels: [n · c]` of 0 and 1, `mask: [n]`. The sum itself is not
/// scaled. Stable for logits of any size, also infinite ones.
///
/// # Panics
/// When the shapes disagree.
pub fn sigmoid_bce(
    par: &Par,
    logits: &Mat,
    labels: &[u8],
    mask: &[bool],
    scale: f32,
    grad: &mut Mat,
) -> f64 {
    bce_at(Level::detect(), par, logits, (labels, mask), scale, grad)
}

fn bce_at(
    level: Level,
    par: &Par,
    logits: &Mat,
    (labels, mask): (&[u8], &[bool]),
    scale: f32,
    grad: &mut Mat,
) -> f64 {
    const OP: &str = "sigmoid_bce";
    let (n, c) = logits.dim();
    expect_eq(OP, "labels", n * c, labels.len());
    expect_eq(OP, "a mask of length", n, mask.len());
    expect_eq(OP, "grad with rows", n, grad.nrows());
    expect_eq(OP, "grad with columns", c, grad.ncols());
    if n == 0 || c == 0 {
        return 0.0;
    }
    let logits = flat(OP, logits);
    let bounds = split_rows(n, (n * c).div_ceil(BLOCK).min(n));
    let jobs = cut_mut(flat_mut(OP, grad), c, &bounds);
    let losses = par.map(jobs, |(first, grads)| {
        let (mut loss, mut from) = (0.0, 0);
        let (x, y) = (&logits[first * c..], &labels[first * c..]);
        // Neighbouring rows on the same side of the mask are one run: rows may be short.
        for same in mask[first..first + grads.len() / c].chunk_by(|a, b| a == b) {
            let at = from..from + same.len() * c;
            from = at.end;
            let g = &mut grads[at.clone()];
            if same[0] {
                loss += run(level, &x[at.clone()], &y[at], scale, g);
            } else {
                g.fill(0.0);
            }
        }
        loss
    });
    losses.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;
    use proptest::prelude::*;

    fn any_rows() -> impl Strategy<Value = (Mat, Vec<u8>, Vec<bool>)> {
        (0usize..40, 1usize..40).prop_flat_map(|(n, c)| {
            (
                prop::collection::vec(prop_oneof![4 => -5.0f32..5.0, 1 => -120.0f32..120.0], n * c)
                    .prop_map(move |v| Mat::from_shape_vec((n, c), v).expect("n * c values")),
                prop::collection::vec(0u8..2, n * c),
                prop::collection::vec(any::<bool>(), n),
            )
        })
    }

    proptest! {
        #[test]
        fn bce_equals_naive_at_every_level((x, labels, mask) in any_rows(), threads in 1usize..4) {
            let mut want = Mat::from_elem(x.dim(), f32::NAN);
            let loss = naive(&x, &labels, &mask, 0.5, &mut want);
            let par = Par::new(threads);
            for level in Level::available() {
                let mut got = Mat::from_elem(x.dim(), f32::NAN);
                let sum = bce_at(level, &par, &x, (&labels, &mask), 0.5, &mut got);
                prop_assert!((sum - loss).abs() <= 5e-7 * loss, "{sum} instead of {loss}");
                for (g, w) in got.iter().zip(&want) {
                    prop_assert!((g - w).abs() <= 2e-7, "{g} instead of {w}");
                }
            }
        }
    }

    #[test]
    fn loss_and_gradient_follow_the_definition() {
        let x = array![[0.3f32, -1.2], [2.0, 0.0], [4.0, -3.0]];
        let (labels, mask) = ([1u8, 0, 0, 1, 1, 1], [true, false, true]);
        let mut g = Mat::from_elem((3, 2), f32::NAN);
        let loss = sigmoid_bce(&Par::new(1), &x, &labels, &mask, 0.5, &mut g);
        let mut want = 0.0;
        for v in [0, 2] {
            for c in 0..2 {
                let s = 1.0 / (1.0 + (-f64::from(x[[v, c]])).exp());
                let y = f64::from(labels[2 * v + c]);
                want -= y * s.ln() + (1.0 - y) * (1.0 - s).ln();
                assert!((f64::from(g[[v, c]]) - 0.5 * (s - y)).abs() < 1e-7);
            }
        }
        assert!((loss - want).abs() < 1e-6, "{loss} instead of {want}");
        assert_eq!(g.row(1).to_vec(), [0.0, 0.0]);
    }

    #[test]
    fn huge_logits_stay_finite() {
        let x = array![[1e30f32, -1e30, f32::MAX]];
        let (par, mut g) = (Par::new(1), Mat::zeros((1, 3)));
        assert_eq!(sigmoid_bce(&par, &x, &[1, 0, 1], &[true], 1.0, &mut g), 0.0);
        assert_eq!(g.row(0).to_vec(), [0.0; 3]);
        assert!(sigmoid_bce(&par, &x, &[0, 1, 0], &[true], 1.0, &mut g).is_finite());
        assert_eq!(g.row(0).to_vec(), [1.0, -1.0, 1.0]);
    }

    #[test]
    fn nan_and_infinity_show_in_the_loss_unless_masked_out() {
        for c in [0, 15, 16, 18] {
            for label in [0, 1] {
                let (mut x, mut g) = (Mat::zeros((2, 19)), Mat::zeros((2, 19)));
                let mut loss = |x: &Mat, mask: [bool; 2]| {
                    sigmoid_bce(&Par::new(1), x, &[label; 38], &mask, 1.0, &mut g)
                };
                x[[0, c]] = f32::NAN;
                assert!(loss(&x, [true, true]).is_nan());
                assert!(loss(&x, [false, true]).is_finite());
                let sign = 1.0 - 2.0 * f32::from(label);
                x[[0, c]] = sign * f32::INFINITY;
                assert_eq!(loss(&x, [true, true]), f64::INFINITY);
                x[[0, c]] = -sign * f32::INFINITY;
                assert!((loss(&x, [true, false]) - 18.0 * 2f64.ln()).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn confident_logits_keep_a_relative_accuracy() {
        for x in [3.0f32, 10.0, 40.0, 80.0] {
            let mut g = Mat::zeros((1, 1));
            let loss = sigmoid_bce(&Par::new(1), &array![[x]], &[1], &[true], 1.0, &mut g);
            let e = (-f64::from(x)).exp();
            assert!((loss - e.ln_1p()).abs() < 5e-7 * e);
            assert!((f64::from(g[[0, 0]]) + e / (1.0 + e)).abs() < 5e-7 * e);
        }
    }

    #[test]
    fn bce_does_not_depend_on_threads() {
        for (n, c) in [(3000, 19), (50_000, 1)] {
            let x = Mat::from_shape_fn((n, c), |(r, c)| {
                ((r * 31 + c * 17) % 101) as f32 * 0.1 - 5.0
            });
            let labels: Vec<u8> = (0..n * c).map(|k| (k % 3 == 0) as u8).collect();
            let mask: Vec<bool> = (0..n).map(|v| v % 7 != 2).collect();
            let run = |threads| {
                let mut g = Mat::zeros((n, c));
                let loss = sigmoid_bce(&Par::new(threads), &x, &labels, &mask, 0.1, &mut g);
                (loss.to_bits(), g)
            };
            let one = run(1);
            for threads in [2, 3, 8] {
                assert_eq!(one, run(threads));
            }
        }
    }
}
