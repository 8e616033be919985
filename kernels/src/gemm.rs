//! Dense matrix products: the update of every layer and its two gradients.
//!
//! The products themselves come from the `gemm` crate. Work is cut into blocks that depend on the
//! shapes only, each computed by one thread, so results are bit-identical for any thread count.
//! Two shapes matter: few columns by very many rows (forward, input gradient), cut by rows; and
//! the weight gradient `aᵀ g`, whose inner dimension is the very many rows: it is summed in lanes
//! of consecutive rows that are added in a fixed order.
//!
//! Unsafe: the `gemm` crate takes pointers.
#![allow(unsafe_code)]

use crate::par::{cut_mut, split_rows};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Rows of one block of the output.
const BLOCK: usize = 512;

/// Lanes that a long inner dimension is summed in, at most.
const LANES: usize = 16;

/// Inner length from which lanes pay.
const LONG: usize = 4096;

/// Elements of all lanes together, at most (64 MiB).
const LANE_ELEMENTS: usize = 16 << 20;

/// Scalar reference: `op(a) · op(b) + beta · out`, `op` being the transposed when asked for.
pub fn naive(ta: bool, tb: bool, a: &Mat, b: &Mat, beta: f32, out: &mut Mat) {
    let (a, b) = (
        if ta { a.t() } else { a.view() },
        if tb { b.t() } else { b.view() },
    );
    for i in 0..a.nrows() {
        for j in 0..b.ncols() {
            let sum: f32 = (0..a.ncols()).map(|k| a[[i, k]] * b[[k, j]]).sum();
            out[[i, j]] = sum + if beta == 0.0 { 0.0 } else { beta * out[[i, j]] };
        }
    }
}

/// Writes `op(a) · op(b) + beta · out` to `out`, where `op` transposes when `ta` (`tb`) is set.
/// With `beta = 0` the old content of `out` is not read.
///
/// `op(a): [m, k]`, `op(b): [k, n]`, `out: [m, n]`.
///
/// # Panics
/// When the shapes disagree.
pub fn gemm_into(par: &Par, ta: bool, tb: bool, a: &Mat, b: &Mat, beta: f32, out: &mut Mat) {
    let (m, k) = if ta { (a.ncols(), a.nrows()) } else { a.dim() };
    let (kb, n) = if tb { (b.ncols(), b.nrows()) } else { b.dim() };
    expect_eq("gemm", "op(b) with rows", k, kb);
    expect_eq("gemm", "out with rows", m, out.nrows());
    expect_eq("gemm", "out with columns", n, out.ncols());
    let a = Side::new(flat("gemm", a), a.ncols(), ta);
    let b = Side::new(flat("gemm", b), b.ncols(), tb);
    let out = flat_mut("gemm", out);
    if m == 0 || n == 0 {
        return;
    }
    let lanes = if k >= LONG {
        LANES.min(LANE_ELEMENTS / (m * n)).max(1)
    } else {
        1
    };
    let bounds = split_rows(m, m.div_ceil(BLOCK));
    if lanes <= 1 || m > 4 * BLOCK {
        par.run(cut_mut(out, n, &bounds), |(i, rows)| {
            product(a.rows(i, 0), b, [rows.len() / n, n, k], beta, rows);
        });
        return;
    }
    let mut partial = par.scratch(lanes * m * n);
    let spans = split_rows(k, lanes);
    let jobs = partial.chunks_mut(m * n).zip(spans.windows(2)).collect();
    par.run(jobs, |(lane, span)| {
        let (from, to) = (span[0], span[1]);
        product(
            a.rows(0, from),
            b.rows(from, 0),
            [m, n, to - from],
            0.0,
            lane,
        );
    });
    par.rows_mut(out, n, |first, rows| {
        rows.iter_mut()
            .for_each(|x| *x = if beta == 0.0 { 0.0 } else { beta * *x });
        for lane in partial.chunks(m * n) {
            rows.iter_mut()
                .zip(&lane[first * n..])
                .for_each(|(x, p)| *x += p);
        }
    });
    par.recycle(partial);
}

/// One operand: elements and the strides of `op(x)`.
#[derive(Clone, Copy)]
struct Side<'a> {
    data: &'a [f32],
    row: usize,
    col: usize,
}

impl<'a> Side<'a> {
    fn new(data: &'a [f32], width: usize, transposed: bool) -> Side<'a> {
        let (row, col) = if transposed { (1, width) } else { (width, 1) };
        Side { data, row, col }
    }

    /// The operand from row `i` and column `j` on.
    fn rows(self, i: usize, j: usize) -> Side<'a> {
        Side {
            data: self.data.get(i * self.row + j * self.col..).unwrap_or(&[]),
            ..self
        }
    }

    /// Whether `[rows, cols]` elements from here on lie within the data.
    fn holds(&self, rows: usize, cols: usize) -> bool {
        rows == 0 || cols == 0 || (rows - 1) * self.row + (cols - 1) * self.col < self.data.len()
    }
}

/// `out = a · b + beta · out` on one thread for `[m, n, k] = shape`; `out` is row-major and exact.
fn product(a: Side<'_>, b: Side<'_>, [m, n, k]: [usize; 3], beta: f32, out: &mut [f32]) {
    if k == 0 {
        out.iter_mut()
            .for_each(|x| *x = if beta == 0.0 { 0.0 } else { beta * *x });
        return;
    }
    assert!(
        a.holds(m, k) && b.holds(k, n) && out.len() == m * n,
        "gemm: block within operands"
    );
    // SAFETY: the assertion above establishes that every element that the strides and sizes reach
    // lies within the three slices; `out` is borrowed mutably, so it aliases neither operand.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            beta != 0.0,
            a.data.as_ptr(),
            a.col as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.col as isize,
            b.row as isize,
            beta,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(rows: usize, cols: usize, seed: u64) -> Mat {
        Mat::from_shape_fn((rows, cols), |(r, c)| {
            crate::hash::element(crate::hash::row(seed, r as u32), c as u32) as f32 / 2e9 - 1.0
        })
    }

    fn check(m: usize, n: usize, k: usize, ta: bool, tb: bool, beta: f32) {
        let a = if ta { matrix(k, m, 1) } else { matrix(m, k, 1) };
        let b = if tb { matrix(n, k, 2) } else { matrix(k, n, 2) };
        let start = matrix(m, n, 3);
        let mut want = start.clone();
        naive(ta, tb, &a, &b, beta, &mut want);
        let mut one = start.clone();
        gemm_into(&Par::new(1), ta, tb, &a, &b, beta, &mut one);
        for (g, w) in one.iter().zip(&want) {
            assert!(
                (g - w).abs() <= 1e-4 * (k as f32).sqrt().max(1.0),
                "{g} instead of {w}"
            );
        }
        for threads in [2, 5] {
            let mut got = start.clone();
            gemm_into(&Par::new(threads), ta, tb, &a, &b, beta, &mut got);
            assert_eq!(got, one);
        }
    }

    proptest! {
        #[test]
        fn gemm_equals_naive(
            m in 0usize..70, n in 0usize..40, k in 0usize..70, ta: bool, tb: bool,
            beta in prop_oneof![Just(0.0f32), Just(1.0), Just(-0.5)],
        ) {
            check(m, n, k, ta, tb, beta);
        }
    }

    #[test]
    fn long_and_tall_shapes() {
        check(33, 7, LONG + 13, true, false, 0.0);
        check(5, 3, 2 * LONG + 1, true, false, 1.0);
        check(3 * BLOCK + 5, 9, 20, false, false, 0.0);
        check(BLOCK + 1, 12, 31, false, true, 2.0);
    }

    #[test]
    fn zero_beta_does_not_read_what_was_there() {
        let mut out = Mat::from_elem((2, 2), f32::NAN);
        gemm_into(
            &Par::new(1),
            false,
            false,
            &matrix(2, 3, 1),
            &matrix(3, 2, 2),
            0.0,
            &mut out,
        );
        assert!(out.iter().all(|x| x.is_finite()));
        gemm_into(
            &Par::new(1),
            false,
            false,
            &Mat::zeros((2, 0)),
            &Mat::zeros((0, 2)),
            0.0,
            &mut out,
        );
        assert!(out.iter().all(|&x| x == 0.0));
    }

    #[test]
    #[should_panic(expected = "gemm: expected op(b) with rows 3, got 4")]
    fn wrong_shapes_name_both_sides() {
        let (a, b) = (Mat::zeros((2, 3)), Mat::zeros((4, 2)));
        gemm_into(
            &Par::new(1),
            false,
            false,
            &a,
            &b,
            0.0,
            &mut Mat::zeros((2, 2)),
        );
    }
}
