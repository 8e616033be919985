//! Scaled addition, and sums of columns.

use crate::par::split_rows;
use crate::simd::multiversion;
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Rows of one block of [`column_sums_into`].
const BLOCK: usize = 1024;

/// Scalar reference of [`column_sums_into`].
pub fn naive_column_sums(g: &Mat) -> Vec<f32> {
    g.columns().into_iter().map(|c| c.sum()).collect()
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
        fn additions_and_sums_equal_naive(x in any_mat(), threads in 1usize..4) {
            let par = Par::new(threads);
            let mut got = x.mapv(|x| x * 0.3 - 1.0);
            let want = &got + 2.0 * &x;
            axpy(&par, 2.0, &x, &mut got);
            prop_assert_eq!(got, want);
            let mut sums = vec![7.0; x.ncols()];
            column_sums_into(&par, &x, &mut sums);
            for (s, w) in sums.iter().zip(naive_column_sums(&x)) {
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
            axpy(&par, 0.3, &x, &mut y);
            column_sums_into(&par, &y, &mut sums);
            (y, sums)
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(7));
    }
}
