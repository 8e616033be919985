//! What follows a dense product: bias, activation, dropout, gradient of an activation.

use crate::dropout::threshold;
use crate::exp::exp_m1;
use crate::hash::{element, row};
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Elements of a run of rows that goes through all steps before the next: half a first-level cache.
const RUN: usize = 4096;

/// Activation functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// The identity.
    #[default]
    None,
    /// `max(0, x)`, keeping NaN.
    Relu,
    /// `x` where positive, `e^x - 1` elsewhere.
    Elu,
}

/// Counter-based dropout, as [`crate::dropout::dropout`].
#[derive(Clone, Copy, Debug)]
pub struct Dropout<'a> {
    /// Key of this draw.
    pub key: u64,
    /// Global vertices of the rows: `[n]` or more.
    pub ids: &'a [u32],
    /// Probability to drop an element, in `[0, 1)`.
    pub p: f32,
}

/// Turns the gradient of an activation's output into that of its input, from the output `y: [n, d]`.
#[derive(Clone, Copy, Debug)]
pub enum Gate<'a> {
    /// ReLU followed by dropout: `g · scale` where `y > 0`, else 0. `scale` is the factor of
    /// dropout's survivors, 1 without dropout; dropped elements are zeros of `y`.
    Relu {
        /// Output after dropout.
        y: &'a Mat,
        /// Factor of the survivors.
        scale: f32,
    },
    /// ELU: `g` where `y > 0`, else `g · (y / scale + 1)`. When dropout followed, `scale` is the
    /// factor of its survivors and the gradient itself passes [`Then::dropout`] with the same
    /// arguments (an output of zero does not tell whether it was dropped).
    Elu {
        /// Output after dropout.
        y: &'a Mat,
        /// Factor of the survivors.
        scale: f32,
    },
}

/// Steps that follow a product, in the order of the fields. The default does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Then<'a> {
    /// Added to every row: `[d]`.
    pub bias: Option<&'a [f32]>,
    /// Applied to every element.
    pub act: Act,
    /// Zeroes elements and scales the others.
    pub dropout: Option<Dropout<'a>>,
    /// Multiplies with an activation's derivative.
    pub gate: Option<Gate<'a>>,
}

/// Scalar reference in `f64`: see [`then_into`].
pub fn naive(then: Then<'_>, x: &mut Mat) {
    for ((r, c), v) in x.indexed_iter_mut() {
        let mut z = f64::from(*v) + then.bias.map_or(0.0, |b| f64::from(b[c]));
        z = match then.act {
            Act::None => z,
            Act::Relu => z.max(0.0),
            Act::Elu if z > 0.0 => z,
            Act::Elu => z.exp_m1(),
        };
        if let Some(d) = then.dropout {
            let kept = crate::dropout::hash(d.key, d.ids[r], c as u32) >= d.p;
            z *= if kept {
                1.0 / (1.0 - f64::from(d.p))
            } else {
                0.0
            };
        }
        z *= match then.gate {
            None => 1.0,
            Some(Gate::Relu { y, scale }) if y[[r, c]] > 0.0 => f64::from(scale),
            Some(Gate::Relu { .. }) => 0.0,
            Some(Gate::Elu { y, .. }) if y[[r, c]] > 0.0 => 1.0,
            Some(Gate::Elu { y, scale }) => f64::from(y[[r, c]]) / f64::from(scale) + 1.0,
        };
        *v = z as f32;
    }
}

/// Applies `then` to `x: [n, d]` in one pass.
///
/// # Panics
/// When the shapes disagree or dropout's probability is not in `[0, 1)`.
pub fn then_into(par: &Par, then: Then<'_>, x: &mut Mat) {
    let steps = Steps::new("then", Level::detect(), then, x.dim());
    let d = x.ncols();
    if !steps.is_empty() {
        par.rows_mut(flat_mut("then", x), d, |first, rows| {
            steps.apply(first, rows)
        });
    }
}

/// Writes `then` of `x: [n, d]` to `out: [n, d]` in one pass: a copy on the way.
///
/// # Panics
/// Like [`then_into`], and when `out` has another shape.
pub fn then_of(par: &Par, then: Then<'_>, x: &Mat, out: &mut Mat) {
    let steps = Steps::new("then", Level::detect(), then, x.dim());
    expect_eq("then", "out with rows", x.nrows(), out.nrows());
    expect_eq("then", "out with columns", x.ncols(), out.ncols());
    let (d, from) = (x.ncols(), flat("then", x));
    par.rows_mut(flat_mut("then", out), d, |first, rows| {
        let run = (RUN / d).max(1);
        for (k, rows) in rows.chunks_mut(run * d).enumerate() {
            let first = first + k * run;
            rows.copy_from_slice(&from[first * d..][..rows.len()]);
            steps.apply_run(first, rows);
        }
    });
}

/// A checked [`Then`].
pub(crate) struct Steps<'a> {
    level: Level,
    d: usize,
    bias: Option<&'a [f32]>,
    act: Act,
    /// Key, vertices, smallest number that survives, factor of survivors.
    dropout: Option<(u64, &'a [u32], u32, f32)>,
    /// Outputs, factor, whether of ELU.
    gate: Option<(&'a [f32], f32, bool)>,
}

impl<'a> Steps<'a> {
    /// Checks `then` against the shape `[n, d]` of what it will be applied to.
    pub(crate) fn new(op: &str, level: Level, then: Then<'a>, (n, d): (usize, usize)) -> Steps<'a> {
        if let Some(bias) = then.bias {
            expect_eq(op, "a bias of length", d, bias.len());
        }
        let dropout = then.dropout.and_then(|drop| {
            assert!(
                drop.ids.len() >= n,
                "{op}: expected a dropout id for each of {n} rows, got {}",
                drop.ids.len()
            );
            let (keep, scale) = threshold(drop.p);
            (keep > 0).then_some((drop.key, drop.ids, keep, scale))
        });
        let gate = then.gate.map(|gate| {
            let (y, scale, elu) = match gate {
                Gate::Relu { y, scale } => (y, scale, false),
                Gate::Elu { y, scale } => (y, 1.0 / scale, true),
            };
            expect_eq(op, "a gate with rows", n, y.nrows());
            expect_eq(op, "a gate with columns", d, y.ncols());
            (flat(op, y), scale, elu)
        });
        Steps {
            level,
            d,
            bias: then.bias,
            act: then.act,
            dropout,
            gate,
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.bias.is_none()
            && self.act == Act::None
            && self.dropout.is_none()
            && self.gate.is_none()
    }

    /// The gate's outputs of a range of rows.
    pub(crate) fn gate_rows(&self, rows: std::ops::Range<usize>) -> Option<&'a [f32]> {
        let (y, ..) = self.gate?;
        y.get(rows.start * self.d..rows.end * self.d)
    }

    /// Applies the steps to whole `rows` of which the first is row `first`; few rows at a time go
    /// through all steps, so that they stay in the first-level cache.
    pub(crate) fn apply(&self, first: usize, rows: &mut [f32]) {
        if self.is_empty() || self.d == 0 {
            return;
        }
        let run = (RUN / self.d).max(1);
        for (k, rows) in rows.chunks_mut(run * self.d).enumerate() {
            self.apply_run(first + k * run, rows);
        }
    }

    fn apply_run(&self, first: usize, rows: &mut [f32]) {
        match (self.bias, self.act) {
            (Some(bias), Act::None) => bias_rows(self.level, rows, bias),
            (Some(bias), Act::Relu) => bias_relu_rows(self.level, rows, bias),
            (Some(bias), Act::Elu) => bias_elu_rows(self.level, rows, bias),
            (None, Act::None) => {}
            (None, Act::Relu) => relu_rows(self.level, rows),
            (None, Act::Elu) => elu_rows(self.level, rows),
        }
        if let Some((key, ids, keep, scale)) = self.dropout {
            dropout_rows(self.level, key, &ids[first..], keep, scale, self.d, rows);
        }
        if let Some((y, scale, elu)) = self.gate {
            let y = &y[first * self.d..][..rows.len()];
            if elu {
                gate_elu_rows(self.level, y, scale, rows);
            } else {
                gate_relu_rows(self.level, y, scale, rows);
            }
        }
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn elu(x: f32) -> f32 {
    // The exponential also of positive numbers, capped, so that there is no branch.
    let below = exp_m1(if x > 0.0 { 0.0 } else { x });
    if x > 0.0 { x } else { below }
}

multiversion! {
    fn bias_rows(level: Level, rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }
}

multiversion! {
    fn bias_relu_rows(level: Level, rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x = relu(*x + b));
        }
    }
}

multiversion! {
    fn bias_elu_rows(level: Level, rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x = elu(*x + b));
        }
    }
}

multiversion! {
    fn relu_rows(level: Level, rows: &mut [f32]) {
        rows.iter_mut().for_each(|x| *x = relu(*x));
    }
}

multiversion! {
    fn elu_rows(level: Level, rows: &mut [f32]) {
        rows.iter_mut().for_each(|x| *x = elu(*x));
    }
}

multiversion! {
    fn dropout_rows(level: Level, key: u64, ids: &[u32], keep: u32, scale: f32, d: usize, rows: &mut [f32]) {
        for (x, &v) in rows.chunks_exact_mut(d).zip(ids) {
            let key = row(key, v);
            for (c, x) in x.iter_mut().enumerate() {
                let kept = element(key, c as u32) >> 8 >= keep;
                *x = if kept { *x * scale } else { 0.0 };
            }
        }
    }
}

multiversion! {
    fn gate_relu_rows(level: Level, y: &[f32], scale: f32, g: &mut [f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = if *y > 0.0 { *g * scale } else { 0.0 };
        }
    }
}

multiversion! {
    fn gate_elu_rows(level: Level, y: &[f32], inverse: f32, g: &mut [f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g *= if *y > 0.0 { 1.0 } else { *y * inverse + 1.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::tests::matrix;
    use proptest::prelude::*;

    /// `then` at one level, inline.
    fn at(level: Level, then: Then<'_>, x: &Mat) -> Mat {
        let mut out = x.clone();
        Steps::new("then", level, then, x.dim()).apply(0, flat_mut("then", &mut out));
        out
    }

    proptest! {
        #[test]
        fn then_equals_naive_at_every_level(
            n in 0usize..40, d in 0usize..90, bias: bool, act in 0usize..3, p in prop_oneof![Just(-1.0f32), 0.0f32..0.9],
            gate in 0usize..3, key: u64,
        ) {
            let (x, y, b) = (matrix(n, d, 1) * 4.0, matrix(n, d, 2), matrix(1, d, 3));
            let ids: Vec<u32> = (0..n as u32).map(|v| v * 31 + 7).collect();
            let then = Then {
                bias: bias.then(|| flat("", &b)),
                act: [Act::None, Act::Relu, Act::Elu][act],
                dropout: (p >= 0.0).then_some(Dropout { key, ids: &ids, p }),
                gate: [None, Some(Gate::Relu { y: &y, scale: 1.5 }), Some(Gate::Elu { y: &y, scale: 1.25 })][gate],
            };
            let mut want = x.clone();
            naive(then, &mut want);
            for level in Level::available() {
                for (g, w) in at(level, then, &x).iter().zip(&want) {
                    prop_assert!((g - w).abs() <= 1e-5 * w.abs() + 1e-6, "{:?}: {} instead of {}", level, g, w);
                }
            }
            for threads in [1, 2, 3, 8] {
                let mut got = x.clone();
                then_into(&Par::new(threads), then, &mut got);
                prop_assert_eq!(&got, &at(Level::detect(), then, &x));
                let mut copied = Mat::from_elem((n, d), f32::NAN);
                then_of(&Par::new(threads), then, &x, &mut copied);
                prop_assert_eq!(&copied, &got);
            }
        }
    }

    #[test]
    fn elu_and_its_gate_are_function_and_derivative() {
        let x = Mat::from_shape_fn((1, 400), |(_, c)| (c as f32 - 250.0) * 0.02 + 0.003);
        let elu = |x: &Mat| {
            at(
                Level::detect(),
                Then {
                    act: Act::Elu,
                    ..Then::default()
                },
                x,
            )
        };
        let y = elu(&x);
        let gate = Gate::Elu { y: &y, scale: 1.0 };
        let slope = at(
            Level::detect(),
            Then {
                gate: Some(gate),
                ..Then::default()
            },
            &Mat::ones(x.dim()),
        );
        let (up, down) = (elu(&(&x + 1e-3)), elu(&(&x - 1e-3)));
        for c in 0..400 {
            let want = (up[[0, c]] - down[[0, c]]) / 2e-3;
            assert!(
                (slope[[0, c]] - want).abs() < 2e-3,
                "{} against {want}",
                slope[[0, c]]
            );
        }
    }

    #[test]
    fn backward_of_elu_and_dropout_goes_through_both() {
        let x = matrix(30, 20, 5);
        let ids: Vec<u32> = (0..30).collect();
        let dropout = Some(Dropout {
            key: 3,
            ids: &ids,
            p: 0.5,
        });
        let y = at(
            Level::detect(),
            Then {
                act: Act::Elu,
                dropout,
                ..Then::default()
            },
            &x,
        );
        let gate = Some(Gate::Elu { y: &y, scale: 2.0 });
        let g = at(
            Level::detect(),
            Then {
                dropout,
                gate,
                ..Then::default()
            },
            &Mat::ones(x.dim()),
        );
        for ((at, g), x) in g.indexed_iter().zip(&x) {
            let want = if y[at] == 0.0 {
                0.0
            } else {
                2.0 * x.exp().min(1.0)
            };
            assert!((g - want).abs() < 1e-5, "{g} instead of {want}");
        }
    }

    #[test]
    fn not_a_number_stays_visible() {
        for act in [Act::Relu, Act::Elu] {
            let y = at(
                Level::detect(),
                Then {
                    act,
                    ..Then::default()
                },
                &Mat::from_elem((2, 20), f32::NAN),
            );
            assert!(y.iter().all(|x| x.is_nan()), "{act:?}");
        }
    }

    #[test]
    #[should_panic(expected = "then: expected a bias of length 3, got 4")]
    fn wrong_lengths_name_both_sides() {
        let then = Then {
            bias: Some(&[0.0; 4]),
            ..Then::default()
        };
        then_into(&Par::new(1), then, &mut Mat::zeros((2, 3)));
    }
}
