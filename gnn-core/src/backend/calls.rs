//! Operations that are one of the backend's with some of its options, under names of their own.

use super::{Backend, Corner, Kept, Mat, Operand, Picked};
use std::ops::Range;

impl dyn Backend + '_ {
    /// A copy of `x` on the device.
    pub fn copy(&self, x: &Mat) -> Mat {
        self.rows(x, 0..x.nrows())
    }

    /// `x[rows, :]`, as a matrix of its own.
    ///
    /// # Panics
    /// When `x` has fewer rows.
    pub fn rows(&self, x: &Mat, rows: Range<usize>) -> Mat {
        let mut out = self.fresh(rows.len(), x.ncols());
        self.copy_rows(x, rows.start, rows.len(), &mut out, 0);
        out
    }

    /// The rows of all `parts`, below each other.
    ///
    /// # Panics
    /// When they have not as many columns, or there are none.
    pub fn stacked(&self, parts: &[&Mat]) -> Mat {
        let rows = parts.iter().map(|part| part.nrows()).sum();
        let mut all = self.fresh(rows, parts[0].ncols());
        let mut first = 0;
        for part in parts {
            self.copy_rows(part, 0, part.nrows(), &mut all, first);
            first += part.nrows();
        }
        all
    }

    /// `out[first + i, :] = x[from + i, :]` for `n` rows.
    ///
    /// # Panics
    /// When `x` and `out` have not as many columns, or fewer rows.
    pub fn copy_rows(&self, x: &Mat, from: usize, n: usize, out: &mut Mat, first: usize) {
        assert_eq!(x.ncols(), out.ncols(), "copy_rows: columns of x and out");
        let rows = |first| Corner {
            rows: Picked::From(first),
            col: 0,
        };
        self.copy_block(x, rows(from), (n, x.ncols()), out, rows(first));
    }

    /// `out[i, :] = x[rows[i], :]`.
    ///
    /// # Panics
    /// When `out` has not as many rows as there are in the list, or as many columns as `x`.
    pub fn gather_rows(&self, x: &Mat, rows: &Kept<u32>, out: &mut Mat) {
        assert_eq!(out.dim(), (rows.len(), x.ncols()), "gather_rows: shape");
        self.copy_block(x, Corner::of(rows, 0), out.dim(), out, Corner::at(0));
    }

    /// `xᵀ · g` to `gw: [k, n]` and the column sums of `g` to `gb: [1, n]`; `x: [m, k]`, `g: [m, n]`.
    pub fn weight_gradient(&self, x: &Mat, g: &Mat, gw: &mut Mat, gb: Option<&mut Mat>) {
        self.weight_gradients(&[x], Operand::Held(g), std::slice::from_mut(gw), gb);
    }
}
