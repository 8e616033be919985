//! Element by element: bias, ReLU and its gradient, scaled addition; and sums of columns.

use crate::par::split_rows;
use crate::simd::multiversion;
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Rows of one block of [`column_sums_into`].
const BLOCK: usize = 1024;

/// Scalar references.
pub mod naive {
    use crate::Mat;

    /// `x[r, c] += bias[c]`, then `max(0, x)` when `relu`. `x: [n, d]`, `bias: [d]`.
    pub fn bias(x: &mut Mat, bias: &[f32], relu: bool) {
        for ((_, c), v) in x.indexed_iter_mut() {
            *v += bias[c];
            *v = if relu && *v <= 0.0 { 0.0 } else { *v };
        }
    }

    /// Zeroes `g` where `y` is not positive. `y, g: [n, d]`.
    pub fn relu_backward(y: &Mat, g: &mut Mat) {
        for (at, g) in g.indexed_iter_mut() {
            *g = if y[at] > 0.0 { *g } else { 0.0 };
        }
    }

    /// Sums of the columns of `g: [n, d]`.
    pub fn column_sums(g: &Mat) -> Vec<f32> {
        g.columns().into_iter().map(|c| c.sum()).collect()
    }
}

multiversion! {
    fn add_bias_rows(rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            for (x, b) in row.iter_mut().zip(bias) {
                *x += b;
            }
        }
    }
}

multiversion! {
    fn bias_relu_rows(rows: &mut [f32], bias: &[f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            for (x, b) in row.iter_mut().zip(bias) {
                let y = *x + b;
                *x = if y <= 0.0 { 0.0 } else { y };
            }
        }
    }
}

multiversion! {
    fn relu_rows(rows: &mut [f32]) {
        for x in rows {
            *x = if *x <= 0.0 { 0.0 } else { *x };
        }
    }
}

multiversion! {
    fn relu_backward_rows(y: &[f32], g: &mut [f32]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = if *y > 0.0 { *g } else { 0.0 };
        }
    }
}

multiversion! {
    fn axpy_rows(alpha: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += alpha * x;
        }
    }
}

multiversion! {
    /// Adds the rows to `sums`.
    pub(crate) fn sum_rows(rows: &[f32], sums: &mut [f32]) {
        for row in rows.chunks_exact(sums.len()) {
            for (s, x) in sums.iter_mut().zip(row) {
                *s += x;
            }
        }
    }
}

/// `x[r, :] += bias`. `x: [n, d]`, `bias: [d]`.
pub fn add_bias_into(par: &Par, x: &mut Mat, bias: &[f32]) {
    expect_eq("add_bias", "a bias of length", x.ncols(), bias.len());
    par.rows_mut(flat_mut("add_bias", x), bias.len(), |_, rows| {
        add_bias_rows(rows, bias)
    });
}

/// `x = max(0, x + bias)`, keeping NaN. `x: [n, d]`, `bias: [d]`.
pub fn bias_relu(par: &Par, x: &mut Mat, bias: &[f32]) {
    expect_eq("bias_relu", "a bias of length", x.ncols(), bias.len());
    par.rows_mut(flat_mut("bias_relu", x), bias.len(), |_, rows| {
        bias_relu_rows(rows, bias)
    });
}

/// `x = max(0, x)`, keeping NaN. `x: [n, d]`.
pub fn relu_into(par: &Par, x: &mut Mat) {
    par.rows_mut(flat_mut("relu", x), 1, |_, rows| relu_rows(rows));
}

/// Zeroes the gradient `g` where the activation's output `y` is not positive. `y, g: [n, d]`.
pub fn relu_backward(par: &Par, y: &Mat, g: &mut Mat) {
    expect_eq("relu_backward", "g with rows", y.nrows(), g.nrows());
    expect_eq("relu_backward", "g with columns", y.ncols(), g.ncols());
    let y = flat("relu_backward", y);
    par.rows_mut(flat_mut("relu_backward", g), 1, |first, rows| {
        relu_backward_rows(&y[first..first + rows.len()], rows);
    });
}

/// `y += alpha · x`. `x, y: [n, d]`.
pub fn axpy(par: &Par, alpha: f32, x: &Mat, y: &mut Mat) {
    expect_eq("axpy", "y with rows", x.nrows(), y.nrows());
    expect_eq("axpy", "y with columns", x.ncols(), y.ncols());
    let x = flat("axpy", x);
    par.rows_mut(flat_mut("axpy", y), 1, |first, rows| {
        axpy_rows(alpha, &x[first..first + rows.len()], rows);
    });
}

/// Writes the sums of the columns of `g: [n, d]` to `out: [d]`, in a fixed order: blocks of 1024
/// rows, then the blocks.
pub fn column_sums_into(par: &Par, g: &Mat, out: &mut [f32]) {
    let (n, d) = g.dim();
    expect_eq("column_sums", "out of length", d, out.len());
    out.fill(0.0);
    if n == 0 || d == 0 {
        return;
    }
    let g = flat("column_sums", g);
    let bounds = split_rows(n, n.div_ceil(BLOCK));
    let mut partial = par.scratch((bounds.len() - 1) * d);
    let jobs: Vec<_> = partial.chunks_mut(d).zip(bounds.windows(2)).collect();
    let sum = |(to, b): (&mut [f32], &[usize])| sum_rows(&g[b[0] * d..b[1] * d], to);
    if n * d <= 64 * BLOCK {
        jobs.into_iter().for_each(sum)
    } else {
        par.run(jobs, sum)
    }
    sum_rows(&partial, out);
    par.recycle(partial);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_mat() -> impl Strategy<Value = Mat> {
        (0usize..50, 1usize..40).prop_flat_map(|(n, d)| {
            prop::collection::vec(prop_oneof![9 => -2.0f32..2.0, 1 => Just(0.0)], n * d)
                .prop_map(move |v| Mat::from_shape_vec((n, d), v).expect("n * d values"))
        })
    }

    proptest! {
        #[test]
        fn elementwise_equals_naive(x in any_mat(), threads in 1usize..4) {
            let par = Par::new(threads);
            let bias: Vec<f32> = (0..x.ncols()).map(|c| c as f32 * 0.3 - 1.0).collect();
            let (mut want, mut got) = (x.clone(), x.clone());
            naive::bias(&mut want, &bias, false);
            add_bias_into(&par, &mut got, &bias);
            prop_assert_eq!(&got, &want);
            naive::bias(&mut want, &vec![0.0; bias.len()], true);
            relu_into(&par, &mut got);
            prop_assert_eq!(&got, &want);
            let mut fused = x.clone();
            bias_relu(&par, &mut fused, &bias);
            prop_assert_eq!(&fused, &want);
            let (mut gw, mut gg) = (x.clone(), x.clone());
            naive::relu_backward(&want, &mut gw);
            relu_backward(&par, &want, &mut gg);
            prop_assert_eq!(gg, gw);
            axpy(&par, 2.0, &x, &mut got);
            prop_assert_eq!(got, want + 2.0 * &x);
            let mut sums = vec![7.0; x.ncols()];
            column_sums_into(&par, &x, &mut sums);
            for (s, w) in sums.iter().zip(naive::column_sums(&x)) {
                prop_assert!((s - w).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn large_matrices_do_not_depend_on_threads() {
        let x = Mat::from_shape_fn((40_000, 9), |(r, c)| {
            ((r * 7 + c) % 1013) as f32 * 0.01 - 5.0
        });
        let run = |threads| {
            let par = Par::new(threads);
            let (mut y, mut sums) = (x.clone(), vec![0.0; 9]);
            bias_relu(&par, &mut y, &[0.1; 9]);
            axpy(&par, 0.3, &x, &mut y);
            column_sums_into(&par, &y, &mut sums);
            (y, sums)
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(7));
    }

    #[test]
    fn relu_keeps_nan_visible() {
        let mut x = Mat::from_elem((1, 3), f32::NAN);
        relu_into(&Par::new(1), &mut x);
        assert!(x.iter().all(|v| v.is_nan()));
    }
}
