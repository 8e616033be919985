//! Softmax cross-entropy with its gradient in one pass, and counting of correct predictions.

use crate::exp::exp;
use crate::par::{cut_mut, split_rows};
use crate::simd::multiversion;
use crate::{Mat, Par, expect_eq, flat, flat_mut};

mod columns;

/// Rows of one block; the loss is summed per block, then over the blocks.
const BLOCK: usize = 1024;

/// Products of sums beyond this could leave the range of `f64` with the next.
const LARGE: f64 = 1e250;

/// Scalar reference in `f64`: see [`softmax_xent`].
pub fn naive(logits: &Mat, labels: &[i32], mask: &[bool], scale: f32, grad: &mut Mat) -> f64 {
    grad.fill(0.0);
    let mut loss = 0.0;
    for v in (0..labels.len()).filter(|&v| mask[v]) {
        let row = logits.row(v);
        let top = row
            .iter()
            .fold(f64::NEG_INFINITY, |m, &x| m.max(f64::from(x)));
        let sum: f64 = row.iter().map(|&x| (f64::from(x) - top).exp()).sum();
        loss += sum.ln() + top - f64::from(row[labels[v] as usize]);
        for (c, &x) in row.iter().enumerate() {
            let p = (f64::from(x) - top).exp() / sum;
            grad[[v, c]] = (p - f64::from(u8::from(c as i32 == labels[v]))) as f32 * scale;
        }
    }
    loss
}

/// Sum over the rows in `mask` of `-ln softmax(logits)[label]`, and its gradient times `scale`
/// (one over the global number of masked rows, for the mean) in `grad`; rows not in `mask` get a
/// zero gradient.
///
/// `logits, grad: [n, classes]`, `labels, mask: [n]`. The sum itself is not scaled.
///
/// # Panics
/// When the shapes disagree or a masked row's label is not a class.
pub fn softmax_xent(
    par: &Par,
    logits: &Mat,
    labels: &[i32],
    mask: &[bool],
    scale: f32,
    grad: &mut Mat,
) -> f64 {
    let (n, classes) = logits.dim();
    expect_eq("softmax_xent", "labels", n, labels.len());
    expect_eq("softmax_xent", "a mask of length", n, mask.len());
    expect_eq("softmax_xent", "grad with rows", n, grad.nrows());
    expect_eq("softmax_xent", "grad with columns", classes, grad.ncols());
    if n == 0 || classes == 0 {
        return 0.0;
    }
    let logits = flat("softmax_xent", logits);
    let bounds = split_rows(n, n.div_ceil(BLOCK));
    let jobs = cut_mut(flat_mut("softmax_xent", grad), classes, &bounds);
    let losses = par.map(jobs, |(first, grads)| {
        let here = first..first + grads.len() / classes;
        let of_rows = Rows {
            logits: &logits[here.start * classes..here.end * classes],
            labels: &labels[here.clone()],
            mask: &mask[here],
            classes,
            scale,
            first,
        };
        of_rows.losses(grads)
    });
    losses.into_iter().sum()
}

/// A run of rows.
struct Rows<'a> {
    /// `[n, classes]`.
    logits: &'a [f32],
    labels: &'a [i32],
    mask: &'a [bool],
    classes: usize,
    scale: f32,
    /// Number of the first row, for messages.
    first: usize,
}

impl Rows<'_> {
    /// The loss of those in the mask, and all gradients in `grads: [n, classes]`.
    fn losses(&self, grads: &mut [f32]) -> f64 {
        let (mut all, mut waiting, mut count) = (Losses::NONE, [0; columns::ROWS], 0);
        let mut room = [[0.0; columns::ROWS]; columns::MOST];
        for v in 0..self.labels.len() {
            if !self.mask[v] {
                grads[v * self.classes..(v + 1) * self.classes].fill(0.0);
                continue;
            }
            waiting[count] = v;
            count += 1;
            if self.classes > columns::MOST {
                self.one_by_one(&waiting[..1], grads, &mut all);
                count = 0;
            } else if count == columns::ROWS {
                let (sums, tops) = columns::rows(
                    self.logits,
                    &waiting,
                    self.classes,
                    self.scale,
                    &mut room,
                    grads,
                );
                for (&v, (sum, top)) in waiting.iter().zip(sums.into_iter().zip(tops)) {
                    let at = v * self.classes + self.label(v);
                    grads[at] -= self.scale;
                    all.add(sum.into(), f64::from(top) - f64::from(self.logits[at]));
                }
                count = 0;
            }
        }
        self.one_by_one(&waiting[..count], grads, &mut all);
        all.sum + all.product.ln()
    }

    fn one_by_one(&self, rows: &[usize], grads: &mut [f32], losses: &mut Losses) {
        for &v in rows {
            let here = v * self.classes..(v + 1) * self.classes;
            let (x, g) = (&self.logits[here.clone()], &mut grads[here]);
            let (sum, rest) = row(x, self.label(v), self.scale, g);
            losses.add(sum, rest);
        }
    }

    /// The label of a row.
    ///
    /// # Panics
    /// When it is not a class.
    fn label(&self, v: usize) -> usize {
        let label = usize::try_from(self.labels[v]).ok();
        label.filter(|&c| c < self.classes).unwrap_or_else(|| {
            panic!(
                "softmax_xent: expected a label below {} in row {}, got {}",
                self.classes,
                self.first + v,
                self.labels[v]
            )
        })
    }
}

/// A sum of losses, of some of which the logarithm is still to be taken: one for many rows, as each sum of
/// exponentials is at least 1 and at most the number of classes.
struct Losses {
    sum: f64,
    product: f64,
}

impl Losses {
    const NONE: Losses = Losses {
        sum: 0.0,
        product: 1.0,
    };

    /// Adds `ln(sum) + rest`.
    fn add(&mut self, sum: f64, rest: f64) {
        self.sum += rest;
        self.product *= sum;
        if self.product > LARGE {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
    }
}

/// Independent partial results of a row's reductions; fixed, so that the order of additions is.
const LANES: usize = 16;

/// One result of the lanes, half by half: what a compiler makes of adding them in turn waits for each
/// addition.
#[inline(always)]
fn folded<T: Copy>(mut lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for k in 0..half {
            lanes[k] = f(lanes[k], lanes[k + half]);
        }
        half /= 2;
    }
    lanes[0]
}

multiversion! {
    /// Scaled gradient of one row in `g`; its loss is the logarithm of the first number plus the second.
    fn row(x: &[f32], label: usize, scale: f32, g: &mut [f32]) -> (f64, f64) {
        let (chunks, rest) = x.as_chunks::<LANES>();
        let mut tops = [f32::NEG_INFINITY; LANES];
        for chunk in chunks {
            tops.iter_mut().zip(chunk).for_each(|(m, &x)| *m = if x > *m { x } else { *m });
        }
        let top = folded(tops, |a, b| if b > a { b } else { a });
        let top = rest.iter().fold(top, |m, &x| if x > m { x } else { m });
        g.iter_mut().zip(x).for_each(|(g, &x)| *g = exp(x - top));
        let (chunks, rest) = g.as_chunks::<LANES>();
        let mut sums = [0f32; LANES];
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(s, &x)| *s += x);
        }
        let sum = folded(sums, |a, b| a + b) + rest.iter().sum::<f32>();
        let inverse = scale / sum;
        g.iter_mut().for_each(|g| *g *= inverse);
        g[label] -= scale;
        (f64::from(sum), f64::from(top) - f64::from(x[label]))
    }
}

/// How many masked rows have their largest logit (the first of equals) at their label, and how
/// many masked rows there are. A row whose logits are all NaN, or without a valid label, is wrong.
///
/// `logits: [n, classes]`, `labels, mask: [n]`.
pub fn accuracy(logits: &Mat, labels: &[i32], mask: &[bool]) -> (u64, u64) {
    expect_eq("accuracy", "labels", logits.nrows(), labels.len());
    expect_eq("accuracy", "a mask of length", logits.nrows(), mask.len());
    let (mut correct, mut total) = (0, 0);
    for ((row, &label), _) in logits
        .rows()
        .into_iter()
        .zip(labels)
        .zip(mask)
        .filter(|(_, m)| **m)
    {
        total += 1;
        let mut best = (f32::NEG_INFINITY, -1);
        for (c, &x) in row.iter().enumerate() {
            if x > best.0 {
                best = (x, c as i32);
            }
        }
        correct += u64::from(label >= 0 && best.1 == label);
    }
    (correct, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_rows() -> impl Strategy<Value = (Mat, Vec<i32>, Vec<bool>)> {
        (0usize..40, 1usize..12).prop_flat_map(|(n, c)| {
            (
                prop::collection::vec(-30.0f32..30.0, n * c)
                    .prop_map(move |v| Mat::from_shape_vec((n, c), v).expect("n * c values")),
                prop::collection::vec(0..c as i32, n),
                prop::collection::vec(any::<bool>(), n),
            )
        })
    }

    proptest! {
        #[test]
        fn softmax_xent_equals_naive((x, labels, mask) in any_rows(), threads in 1usize..4) {
            let (mut want, mut got) = (Mat::ones(x.dim()), Mat::ones(x.dim()));
            let lw = naive(&x, &labels, &mask, 0.1, &mut want);
            let lg = softmax_xent(&Par::new(threads), &x, &labels, &mask, 0.1, &mut got);
            prop_assert!((lw - lg).abs() <= 1e-5 * lw.abs().max(1.0));
            for (g, w) in got.iter().zip(&want) {
                prop_assert!((g - w).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn rows_of_few_classes_are_as_one_by_one() {
        for classes in (1..=18).chain([31, 47, 64, 65]) {
            let n = 3 * columns::ROWS + 5;
            let x = Mat::from_shape_fn((n, classes), |(r, c)| {
                ((r * 31 + c * 17) % 101) as f32 * 0.3
            });
            let labels: Vec<i32> = (0..n).map(|v| (v * 7 % classes) as i32).collect();
            let mask: Vec<bool> = (0..n).map(|v| v % 5 != 2).collect();
            let mut got = Mat::from_elem((n, classes), f32::NAN);
            let loss = softmax_xent(&Par::new(1), &x, &labels, &mask, 0.3, &mut got);
            let (mut want, mut losses) = (Mat::zeros((n, classes)), Losses::NONE);
            for v in (0..n).filter(|&v| mask[v]) {
                let mut g = vec![0.0; classes];
                let x = x.row(v).to_vec();
                let (sum, rest) = row(&x, labels[v] as usize, 0.3, &mut g);
                losses.add(sum, rest);
                want.row_mut(v)
                    .iter_mut()
                    .zip(g)
                    .for_each(|(to, g)| *to = g);
            }
            assert_eq!(got, want, "{classes} classes");
            assert_eq!(loss, losses.sum + losses.product.ln());
        }
    }

    #[test]
    fn a_logit_that_is_not_a_number_shows_in_the_loss() {
        for c in [0, 3, 17, 39] {
            let mut x = Mat::zeros((1, 40));
            x[[0, c]] = f32::NAN;
            let mut g = Mat::zeros((1, 40));
            assert!(softmax_xent(&Par::new(1), &x, &[1], &[true], 1.0, &mut g).is_nan());
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let x = Mat::from_shape_fn((3, 4), |(r, c)| (r as f32 - c as f32) * 0.7);
        let (labels, mask) = ([1, 0, 3], [true, false, true]);
        let loss = |x: &Mat| {
            softmax_xent(
                &Par::new(1),
                x,
                &labels,
                &mask,
                1.0,
                &mut Mat::zeros((3, 4)),
            )
        };
        let mut grad = Mat::zeros((3, 4));
        softmax_xent(&Par::new(1), &x, &labels, &mask, 1.0, &mut grad);
        for at in [(0, 0), (0, 1), (1, 2), (2, 3), (2, 0)] {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[at] += 0.01;
            down[at] -= 0.01;
            assert!(((loss(&up) - loss(&down)) / 0.02 - f64::from(grad[at])).abs() < 1e-3);
        }
    }

    #[test]
    fn large_inputs_do_not_depend_on_threads() {
        let x = Mat::from_shape_fn((5000, 7), |(r, c)| ((r * 31 + c * 17) % 100) as f32 * 0.05);
        let labels: Vec<i32> = (0..5000).map(|r| r % 7).collect();
        let run = |threads| {
            let mut g = Mat::zeros((5000, 7));
            (
                softmax_xent(&Par::new(threads), &x, &labels, &[true; 5000], 1.0, &mut g).to_bits(),
                g,
            )
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn accuracy_counts_masked_rows() {
        let x = ndarray::array![[1.0, 2.0], [3.0, 0.0], [f32::NAN, f32::NAN], [1.0, 1.0]];
        assert_eq!(accuracy(&x, &[1, 1, 0, 0], &[true; 4]), (2, 4));
        assert_eq!(
            accuracy(&x, &[1, 1, 0, -1], &[false, false, false, true]),
            (0, 1)
        );
    }
}
