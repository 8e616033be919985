//! LayerNorm of every row, and its backward.
//!
//! # Paper
//! Ba, Kiros, Hinton, "Layer Normalization", 2016, <https://arxiv.org/abs/1607.06450>.

// A lane is one index into several arrays.
#![allow(clippy::needless_range_loop)]

use crate::elementwise::sum_rows;
use crate::par::{cut_mut, split_rows};
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Rows of one block of backward; gradients of gain and bias are summed per block, then over the
/// blocks.
const BLOCK: usize = 256;

/// Independent partial results of a row's reductions; fixed, so that the order of additions is.
const LANES: usize = 16;

/// What backward needs of forward.
#[derive(Clone, Copy, Debug)]
pub struct Normed<'a> {
    /// The input: `[n, d]`.
    pub x: &'a Mat,
    /// The gain: `[d]`.
    pub gain: &'a [f32],
    /// What [`layer_norm_into`] wrote: `[n, 2]`.
    pub stats: &'a Mat,
}

/// Scalar references in `f64`.
pub mod naive {
    use crate::Mat;

    /// Mean and one over the standard deviation of a row.
    fn moments(row: ndarray::ArrayView1<'_, f32>, eps: f32) -> (f64, f64) {
        let d = row.len() as f64;
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / d;
        let square = |&x: &f32| (f64::from(x) - mean).powi(2);
        let variance = row.iter().map(square).sum::<f64>() / d;
        (mean, 1.0 / (variance + f64::from(eps)).sqrt())
    }

    /// See [`super::layer_norm_into`]; returns `y: [n, d]` and its `stats: [n, 2]`.
    pub fn forward(x: &Mat, gain: &[f32], bias: &[f32], eps: f32) -> (Mat, Mat) {
        let (mut y, mut stats) = (Mat::zeros(x.dim()), Mat::zeros((x.nrows(), 2)));
        for (v, row) in x.rows().into_iter().enumerate() {
            let (mean, scale) = moments(row, eps);
            (stats[[v, 0]], stats[[v, 1]]) = (mean as f32, scale as f32);
            for (c, &x) in row.iter().enumerate() {
                let unit = (f64::from(x) - mean) * scale;
                y[[v, c]] = (unit * f64::from(gain[c]) + f64::from(bias[c])) as f32;
            }
        }
        (y, stats)
    }

    /// See [`super::layer_norm_backward_into`]; returns the gradients of `x: [n, d]`, of the gain
    /// and of the bias, both `[d]`.
    pub fn backward(x: &Mat, gain: &[f32], eps: f32, g: &Mat) -> (Mat, Vec<f64>, Vec<f64>) {
        let d = x.ncols();
        let (mut gx, mut ggain, mut gbias) = (Mat::zeros(x.dim()), vec![0.0; d], vec![0.0; d]);
        for (v, row) in x.rows().into_iter().enumerate() {
            let (mean, scale) = moments(row, eps);
            let unit = |c: usize| (f64::from(x[[v, c]]) - mean) * scale;
            let weighted = |c: usize| f64::from(g[[v, c]]) * f64::from(gain[c]);
            let sum: f64 = (0..d).map(weighted).sum();
            let dot: f64 = (0..d).map(|c| weighted(c) * unit(c)).sum();
            for c in 0..d {
                ggain[c] += f64::from(g[[v, c]]) * unit(c);
                gbias[c] += f64::from(g[[v, c]]);
                gx[[v, c]] = (scale * (weighted(c) - (sum + unit(c) * dot) / d as f64)) as f32;
            }
        }
        (gx, ggain, gbias)
    }
}

/// The sum of `f` over a row, in lanes.
#[inline(always)]
fn reduce(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            sums[l] += f(chunk[l]);
        }
    }
    sums.iter_mut().zip(rest).for_each(|(s, &x)| *s += f(x));
    sums.iter().sum()
}

multiversion! {
    fn forward_rows(level: Level, x: &[f32], gain: &[f32], bias: &[f32], eps: f32, stats: &mut [f32], y: &mut [f32]) {
        let d = gain.len();
        let rows = x.chunks_exact(d).zip(y.chunks_exact_mut(d));
        for ((x, y), s) in rows.zip(stats.chunks_exact_mut(2)) {
            let mean = reduce(x, |x| x) / d as f32;
            let variance = reduce(x, |x| (x - mean) * (x - mean)) / d as f32;
            let scale = 1.0 / (variance + eps).sqrt();
            (s[0], s[1]) = (mean, scale);
            for (((y, x), w), b) in y.iter_mut().zip(x).zip(gain).zip(bias) {
                *y = (x - mean) * scale * w + b;
            }
        }
    }
}

multiversion! {
    /// `params: [2, d]` takes the sums of the gradients of gain and bias over these rows.
    fn backward_rows(level: Level, x: &[f32], gain: &[f32], stats: &[f32], g: &[f32], gx: &mut [f32], params: &mut [f32]) {
        let d = gain.len();
        let (ggain, gbias) = params.split_at_mut(d);
        let rows = x.chunks_exact(d).zip(g.chunks_exact(d)).zip(gx.chunks_exact_mut(d));
        for (((x, g), gx), s) in rows.zip(stats.chunks_exact(2)) {
            let (mean, scale) = (s[0], s[1]);
            // The normalised row waits in `gx`.
            for (((to, x), g), p) in gx.iter_mut().zip(x).zip(g).zip(&mut *ggain) {
                *to = (x - mean) * scale;
                *p += g * *to;
            }
            gbias.iter_mut().zip(g).for_each(|(p, g)| *p += g);
            let (mut sums, mut dots) = ([0f32; LANES], [0f32; LANES]);
            let lanes = g.chunks(LANES).zip(gain.chunks(LANES)).zip(gx.chunks(LANES));
            for ((g, w), unit) in lanes {
                if let (Some(g), Some(w), Some(unit)) = (g.as_array::<LANES>(), w.as_array::<LANES>(), unit.as_array::<LANES>()) {
                    for l in 0..LANES {
                        let gw = g[l] * w[l];
                        sums[l] += gw;
                        dots[l] += gw * unit[l];
                    }
                } else {
                    for l in 0..g.len() {
                        let gw = g[l] * w[l];
                        sums[l] += gw;
                        dots[l] += gw * unit[l];
                    }
                }
            }
            let sum = sums.iter().sum::<f32>() / d as f32;
            let dot = dots.iter().sum::<f32>() / d as f32;
            for ((to, g), w) in gx.iter_mut().zip(g).zip(gain) {
                *to = scale * (g * w - (sum + *to * dot));
            }
        }
    }
}

/// `y = gain · (x - mean) / √(var + eps) + bias` row by row, with the mean and the (biased)
/// variance of the row; the mean and `1 / √(var + eps)` of each row go to `stats: [n, 2]`.
/// `x, y: [n, d]`, `gain, bias: [d]`.
///
/// # Panics
/// When the shapes disagree.
pub fn layer_norm_into(
    par: &Par,
    x: &Mat,
    gain: &[f32],
    bias: &[f32],
    eps: f32,
    stats: &mut Mat,
    y: &mut Mat,
) {
    forward_at(Level::detect(), par, x, (gain, bias, eps), stats, y);
}

fn forward_at(
    level: Level,
    par: &Par,
    x: &Mat,
    (gain, bias, eps): (&[f32], &[f32], f32),
    stats: &mut Mat,
    y: &mut Mat,
) {
    const OP: &str = "layer_norm";
    let (n, d) = x.dim();
    expect_eq(OP, "a gain of length", d, gain.len());
    expect_eq(OP, "a bias of length", d, bias.len());
    expect_eq(OP, "stats with rows", n, stats.nrows());
    expect_eq(OP, "stats with columns", 2, stats.ncols());
    expect_eq(OP, "y with rows", n, y.nrows());
    expect_eq(OP, "y with columns", d, y.ncols());
    if d == 0 {
        return;
    }
    let x = flat(OP, x);
    let bounds = par.row_bounds(n, d);
    let jobs = cut_mut(flat_mut(OP, y), d, &bounds)
        .into_iter()
        .zip(cut_mut(flat_mut(OP, stats), 2, &bounds));
    par.run(jobs.collect(), |((first, y), (_, stats))| {
        let x = &x[first * d..first * d + y.len()];
        forward_rows(level, x, gain, bias, eps, stats, y);
    });
}

/// From `g: [n, d]`, the gradient of the output, writes the gradients of the input, `gx: [n, d]`,
/// of the gain and of the bias, both `[d]`; the latter two are summed in a fixed order: blocks of
/// 256 rows, then the blocks.
///
/// # Panics
/// When the shapes disagree.
pub fn layer_norm_backward_into(
    par: &Par,
    normed: Normed<'_>,
    g: &Mat,
    gx: &mut Mat,
    ggain: &mut [f32],
    gbias: &mut [f32],
) {
    backward_at(Level::detect(), par, normed, g, gx, (ggain, gbias));
}

fn backward_at(
    level: Level,
    par: &Par,
    Normed { x, gain, stats }: Normed<'_>,
    g: &Mat,
    gx: &mut Mat,
    (ggain, gbias): (&mut [f32], &mut [f32]),
) {
    const OP: &str = "layer_norm_backward";
    let (n, d) = x.dim();
    expect_eq(OP, "a gain of length", d, gain.len());
    expect_eq(OP, "stats with rows", n, stats.nrows());
    expect_eq(OP, "stats with columns", 2, stats.ncols());
    for (what, m) in [("g", g), ("gx", &*gx)] {
        expect_eq(OP, &format!("{what} with rows"), n, m.nrows());
        expect_eq(OP, &format!("{what} with columns"), d, m.ncols());
    }
    expect_eq(OP, "a gain's gradient of length", d, ggain.len());
    expect_eq(OP, "a bias' gradient of length", d, gbias.len());
    ggain.fill(0.0);
    gbias.fill(0.0);
    if n == 0 || d == 0 {
        return;
    }
    let (x, stats, g) = (flat(OP, x), flat(OP, stats), flat(OP, g));
    let bounds = split_rows(n, n.div_ceil(BLOCK));
    let mut partial = par.scratch((bounds.len() - 1) * 2 * d);
    let jobs: Vec<_> = cut_mut(flat_mut(OP, gx), d, &bounds)
        .into_iter()
        .zip(partial.chunks_mut(2 * d))
        .collect();
    let block = |((first, gx), params): ((usize, &mut [f32]), &mut [f32])| {
        let rows = first..first + gx.len() / d;
        let of = rows.start * d..rows.end * d;
        let stats = &stats[2 * rows.start..2 * rows.end];
        backward_rows(level, &x[of.clone()], gain, stats, &g[of], gx, params);
    };
    if n * d <= 64 * BLOCK {
        jobs.into_iter().for_each(block)
    } else {
        par.run(jobs, block)
    }
    let mut sums = par.scratch(2 * d);
    sum_rows(&partial, &mut sums);
    ggain.copy_from_slice(&sums[..d]);
    gbias.copy_from_slice(&sums[d..]);
    par.recycle(sums);
    par.recycle(partial);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EPS: f32 = 1e-5;

    fn any_case() -> impl Strategy<Value = (Mat, Mat, Vec<f32>, Vec<f32>)> {
        (0usize..40, 1usize..70).prop_flat_map(|(n, d)| {
            let mat = move || {
                prop::collection::vec(-2.0f32..2.0, n * d)
                    .prop_map(move |v| Mat::from_shape_vec((n, d), v).expect("n * d values"))
            };
            let row = move || prop::collection::vec(-2.0f32..2.0, d);
            (mat(), mat(), row(), row())
        })
    }

    proptest! {
        #[test]
        fn layernorm_equals_naive_at_every_level((x, g, gain, bias) in any_case(), threads in 1usize..4) {
            let par = Par::new(threads);
            let (wy, ws) = naive::forward(&x, &gain, &bias, EPS);
            let (wx, wgain, wbias) = naive::backward(&x, &gain, EPS, &g);
            let n = x.nrows();
            // Rounding of a normalised value: that of the difference, magnified, and its own.
            let off: Vec<f32> = (0..n).map(|v| 1e-6 * (2.0 * ws[[v, 1]] + 8.0)).collect();
            let all: f64 = off.iter().map(|&o| f64::from(o)).sum();
            for level in Level::available() {
                let nan = Mat::from_elem(x.dim(), f32::NAN);
                let (mut y, mut gx, mut stats) = (nan.clone(), nan, Mat::zeros((n, 2)));
                forward_at(level, &par, &x, (&gain, &bias, EPS), &mut stats, &mut y);
                let (mut ggain, mut gbias) = (vec![7.0; gain.len()], vec![7.0; gain.len()]);
                let normed = Normed { x: &x, gain: &gain, stats: &stats };
                backward_at(level, &par, normed, &g, &mut gx, (&mut ggain, &mut gbias));
                for ((v, c), &w) in wy.indexed_iter() {
                    prop_assert!((y[[v, c]] - w).abs() <= 2.0 * off[v], "y {} against {w}", y[[v, c]]);
                    let (got, w) = (gx[[v, c]], wx[[v, c]]);
                    prop_assert!((got - w).abs() <= 20.0 * off[v] * ws[[v, 1]].max(1.0), "gx {got} against {w}");
                }
                for ((got, bgot), (w, bw)) in ggain.iter().zip(&gbias).zip(wgain.iter().zip(&wbias)) {
                    prop_assert!((f64::from(*got) - w).abs() <= 2.0 * all, "gain {got} against {w}");
                    prop_assert!((f64::from(*bgot) - bw).abs() <= 1e-5, "bias {bgot} against {bw}");
                }
            }
        }
    }

    #[test]
    fn the_naive_gradient_is_that_of_the_naive_loss() {
        let x = Mat::from_shape_fn((3, 5), |(r, c)| ((r * 5 + c * 3) % 7) as f32 * 0.4 - 1.0);
        let g = Mat::from_shape_fn((3, 5), |(r, c)| ((r + c * 2) % 5) as f32 * 0.3 - 0.5);
        let (gain, bias) = ([0.5, 1.0, -1.5, 2.0, 0.7], [0.1; 5]);
        let loss = |x: &Mat, gain: &[f32]| -> f64 {
            let (y, _) = naive::forward(x, gain, &bias, EPS);
            let terms = y.iter().zip(&g);
            terms.map(|(y, g)| f64::from(*y) * f64::from(*g)).sum()
        };
        let (gx, ggain, _) = naive::backward(&x, &gain, EPS, &g);
        for at in [(0, 0), (1, 3), (2, 4), (2, 1)] {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[at] += 0.01;
            down[at] -= 0.01;
            let slope = (loss(&up, &gain) - loss(&down, &gain)) / 0.02;
            assert!((slope - f64::from(gx[at])).abs() < 2e-3, "{slope} {at:?}");
        }
        for c in 0..5 {
            let (mut up, mut down) = (gain, gain);
            up[c] += 0.1;
            down[c] -= 0.1;
            let slope = (loss(&x, &up) - loss(&x, &down)) / 0.2;
            assert!((slope - ggain[c]).abs() < 1e-4);
        }
    }

    #[test]
    fn layernorm_does_not_depend_on_threads() {
        let x = Mat::from_shape_fn((5000, 37), |(r, c)| ((r * 31 + c * 17) % 101) as f32 * 0.05);
        let g = Mat::from_shape_fn((5000, 37), |(r, c)| ((r * 7 + c * 13) % 89) as f32 * 0.02);
        let gain: Vec<f32> = (0..37).map(|c| c as f32 * 0.1 - 1.0).collect();
        let run = |threads| {
            let par = Par::new(threads);
            let (mut y, mut gx) = (Mat::zeros(x.dim()), Mat::zeros(x.dim()));
            let (mut stats, mut params) = (Mat::zeros((5000, 2)), [vec![0.0; 37], vec![0.0; 37]]);
            layer_norm_into(&par, &x, &gain, &gain, EPS, &mut stats, &mut y);
            let normed = Normed {
                x: &x,
                gain: &gain,
                stats: &stats,
            };
            let [a, b] = &mut params;
            layer_norm_backward_into(&par, normed, &g, &mut gx, a, b);
            (y, gx, stats, params)
        };
        let one = run(1);
        for threads in [2, 3, 8] {
            assert_eq!(one, run(threads));
        }
    }

    #[test]
    fn a_constant_row_gives_the_bias() {
        let (mut y, mut stats) = (Mat::ones((1, 20)), Mat::zeros((1, 2)));
        let x = Mat::from_elem((1, 20), 3.0);
        layer_norm_into(
            &Par::new(1),
            &x,
            &[2.0; 20],
            &[0.25; 20],
            EPS,
            &mut stats,
            &mut y,
        );
        assert!(y.iter().all(|&y| y == 0.25));
    }
}
