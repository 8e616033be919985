//! One entry a kernel: its inputs, its answer checked against the scalar reference, its work counted.
//!
//! The reference is computed on a part where all of it would take long: a run of rows, or a few
//! columns of a weight gradient. A case names the largest deviation it found, as a share of what is
//! allowed for sums of that length.

mod attention;
mod dense;
mod optimisers;
mod rowwise;
mod sparse;

use super::clock::{Clock, Spread};
use crate::{Csr, Mat, Par, hash};

/// Names of all cases, in the order in which they are timed.
pub const KERNELS: &[&str] = &[
    "spmm, weights",
    "spmm, no weights",
    "spmm, no weights, row by row",
    "spmm, mean",
    "spmm, bf16 rows",
    "rspmm",
    "rspmm, transposed",
    "rspmm, coefficients",
    "gather_rows",
    "scatter_add_rows",
    "pair products",
    "pair products, backward",
    "gat scores",
    "gat forward",
    "gat backward, destinations",
    "gat backward, sources",
    "sddmm",
    "edge softmax",
    "edge softmax, backward",
    "spmm by heads",
    "linear x·w + b, relu",
    "linear x·w + y·v + b, relu",
    "linear g·wᵀ, gate",
    "gemm x·w",
    "weight gradient, bias",
    "gemm xᵀ·g",
    "dropout",
    "column_sums",
    "layer norm",
    "layer norm, backward",
    "softmax_xent",
    "sigmoid_bce",
    "sgd",
    "adam",
    "adamw",
    "sparse adagrad",
    "sparse adam",
];

/// What kernels are timed on.
pub struct Input<'a> {
    /// The graph's edges with weights, `[n, n]`, as a layer multiplies by them.
    pub graph: Csr<'a>,
    /// Width of activations.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Width of a head.
    pub head_width: usize,
    /// Classes of the loss.
    pub classes: usize,
    /// Only kernels whose name contains this.
    pub only: String,
}

/// Whether a kernel's answer was right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Within what sums of that length may deviate; the largest deviation as a share of it.
    Right(f64),
    /// Outside.
    Wrong(f64),
}

/// One kernel's figures.
#[derive(Clone, Debug)]
pub struct Line {
    /// The kernel, with its form.
    pub kernel: &'static str,
    /// Sizes of its operands.
    pub shape: String,
    /// Milliseconds of one call, by sample.
    pub ms: Vec<f64>,
    /// Compulsory bytes moved.
    pub bytes: f64,
    /// Bytes of all operands; less than what is moved where a result overwrites an operand.
    pub footprint: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// Whether its answer was right.
    pub outcome: Outcome,
}

impl Line {
    /// Quartiles of the times.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.ms).expect("a clock takes at least one sample")
    }
}

/// Times every kernel and checks its answer; `told` hears the name of the next one.
pub fn kernels(
    par: &Par,
    clock: Clock,
    input: &Input<'_>,
    told: &mut dyn FnMut(&str),
) -> Vec<Line> {
    let mut bench = Bench {
        par,
        clock,
        input,
        told,
        lines: Vec::new(),
    };
    sparse::all(&mut bench);
    attention::all(&mut bench);
    dense::all(&mut bench);
    rowwise::all(&mut bench);
    optimisers::all(&mut bench);
    bench.lines
}

/// Work of one call.
#[derive(Clone, Copy)]
struct Work {
    bytes: usize,
    footprint: usize,
    flops: usize,
}

impl Work {
    /// Every operand is read or written once.
    fn once(bytes: usize, flops: usize) -> Work {
        Work {
            bytes,
            footprint: bytes,
            flops,
        }
    }
}

/// Collects lines.
struct Bench<'a> {
    par: &'a Par,
    clock: Clock,
    input: &'a Input<'a>,
    told: &'a mut dyn FnMut(&str),
    lines: Vec<Line>,
}

impl Bench<'_> {
    /// Whether any of these names was asked for; a case makes its operands only then.
    fn wants(&self, names: &[&str]) -> bool {
        names.iter().any(|name| name.contains(&self.input.only))
    }

    /// Times `f`, then has `check` give the share of the allowed deviation.
    fn case<S>(
        &mut self,
        kernel: &'static str,
        shape: String,
        work: Work,
        state: &mut S,
        run: impl Fn(&Par, &mut S),
        check: impl FnOnce(&S) -> f64,
    ) {
        if !kernel.contains(&self.input.only) {
            return;
        }
        (self.told)(kernel);
        let ms = self.clock.samples(|| run(self.par, state));
        let share = check(state);
        // Not a number counts as wrong.
        let outcome = if share <= 1.0 {
            Outcome::Right(share)
        } else {
            Outcome::Wrong(share)
        };
        self.lines.push(Line {
            kernel,
            shape,
            ms,
            bytes: work.bytes as f64,
            footprint: work.footprint as f64,
            flops: work.flops as f64,
            outcome,
        });
    }
}

/// A matrix of numbers in `[-1, 1)` that depend on `seed` and the place.
fn matrix(n: usize, d: usize, seed: u64) -> Mat {
    let mut x = Vec::with_capacity(n * d);
    for r in 0..n {
        let row = hash::row(seed, r as u32);
        x.extend((0..d).map(|c| hash::element(row, c as u32) as f32 / 2f32.powi(31) - 1.0));
    }
    Mat::from_shape_vec((n, d), x).expect("n * d numbers")
}

/// Largest deviation of `got` from `want` as a share of what sums of `terms` numbers below one may
/// deviate.
fn deviation<'a>(
    got: impl IntoIterator<Item = &'a f32>,
    want: impl IntoIterator<Item = &'a f32>,
    terms: usize,
) -> f64 {
    let allowed = 1e-5 * (terms.max(1) as f64).sqrt();
    let mut worst = 0f64;
    let (mut got, mut want) = (got.into_iter(), want.into_iter());
    loop {
        match (got.next(), want.next()) {
            (Some(g), Some(w)) => {
                let (g, w) = (f64::from(*g), f64::from(*w));
                let share = (g - w).abs() / (allowed * (1.0 + w.abs()));
                // `max` would drop a NaN.
                worst = if share > worst || share.is_nan() {
                    share
                } else {
                    worst
                };
                if worst.is_nan() {
                    return worst;
                }
            }
            (None, None) => return worst,
            _ => return f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrBuf;

    fn ring(n: usize) -> CsrBuf {
        let mut a = CsrBuf::empty(n);
        for r in 0..n {
            a.indices.extend([r as u32, ((r + 1) % n) as u32]);
            a.indptr.push(a.indices.len() as u64);
        }
        a.weights = Some((0..2 * n).map(|e| 1.0 / (1 + e % 3) as f32).collect());
        a
    }

    #[test]
    fn every_kernel_gives_its_line_and_the_right_answer() {
        let graph = ring(600);
        let mut input = Input {
            graph: graph.view(),
            width: 24,
            heads: 3,
            head_width: 8,
            classes: 5,
            only: String::new(),
        };
        let clock = Clock {
            warmup: 0,
            samples: 1,
            seconds: 0.01,
        };
        for threads in [1, 2] {
            let mut told = Vec::new();
            let lines = kernels(&Par::new(threads), clock, &input, &mut |name| {
                told.push(name.to_owned())
            });
            assert_eq!(told, KERNELS);
            for line in &lines {
                assert!(matches!(line.outcome, Outcome::Right(_)), "{line:?}");
                assert!(line.bytes > 0.0 && line.spread().median > 0.0, "{line:?}");
            }
            let names: Vec<&str> = lines.iter().map(|l| l.kernel).collect();
            assert_eq!(names, KERNELS);
        }
        input.only = "spmm".into();
        let lines = kernels(&Par::new(1), clock, &input, &mut |_| {});
        assert!(!lines.is_empty() && lines.iter().all(|l| l.kernel.contains("spmm")));
    }

    #[test]
    fn deviations_count_what_is_missing_and_what_is_no_number() {
        assert_eq!(deviation(&[1.0], &[1.0], 1), 0.0);
        assert!(deviation(&[1.1], &[1.0], 1) > 1.0);
        assert!(deviation(&[1.0, 2.0], &[1.0], 1).is_infinite());
        assert!(deviation(&[f32::NAN, 1.0], &[1.0, 1.0], 1).is_nan());
    }
}
