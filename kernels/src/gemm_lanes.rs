//! Products of at most eight columns with AVX-512: a sum is in the lanes of a vector along the inner dimension, and the
//! lanes are added up at the end.
//!
//! Elsewhere ([`crate::gemm_simd`]) each element of the left operand is spread over a vector of columns, most of
//! which is empty where there are few. Here a vector of the left operand meets a vector of each column.
//!
//! An element of the output is a sum whose order depends on the inner dimension alone, so cutting rows differently
//! gives the same bits.
//!
//! Unsafe: loads through pointers, behind bounds checks in the same function.
#![allow(unsafe_code)]

use crate::gemm_block::{Product, Side};
use crate::simd::Level;
use crate::vector::{Vector, at_level, prefetch};

/// Columns at most; missing ones are zeros.
const COLUMNS: usize = 8;

/// Lanes of a vector.
const LANES: usize = 16;

/// Rows that share a column's vectors: with as many sums for each as there are columns, they fill the registers.
const ROWS: usize = 3;

/// Floats of rows between those that are read and those that are asked for: on their way while as many are used.
const AHEAD: usize = 1280;

/// Inner indices from which adding up lanes costs little beside the rest.
const LEAST: usize = 64;

/// Whether products of `n` columns with `inner` indices in all are made like this.
pub(crate) fn fits(level: Level, n: usize, inner: usize) -> bool {
    level == Level::Avx512 && n <= COLUMNS && inner >= LEAST
}

/// Floats of a packed right operand.
pub(crate) fn packed_len(inner: usize) -> usize {
    inner.next_multiple_of(LANES) * COLUMNS
}

/// Packs `b: [inner, n]` as `[inner / LANES, COLUMNS, LANES]`, zeros where there is nothing.
pub(crate) fn pack(b: Side<'_>, inner: usize, n: usize, to: &mut [f32]) {
    to.fill(0.0);
    for k in 0..inner {
        let to = &mut to[k / LANES * LANES * COLUMNS + k % LANES..];
        for c in 0..n {
            to[c * LANES] = b.at(k, c);
        }
    }
}

/// `out (+)= Σ a · b`; `out: [m, n]`, left operands as they were stored, right ones as [`pack`] leaves them.
pub(crate) fn multiply(
    level: Level,
    products: &[Product<'_>],
    size: [usize; 2],
    add: bool,
    out: &mut [f32],
) {
    at_level!(level, rows(products: &[Product<'_>], size: [usize; 2], add: bool, out: &mut [f32]));
}

#[inline(always)]
fn rows<V: Vector>(products: &[Product<'_>], [m, n]: [usize; 2], add: bool, out: &mut [f32]) {
    assert!(V::LANES == LANES && n <= COLUMNS && out.len() == m * n);
    let together = m / ROWS * ROWS;
    for first in (0..together).step_by(ROWS) {
        some::<V, ROWS>(products, first, (n, add), out);
    }
    for first in together..m {
        some::<V, 1>(products, first, (n, add), out);
    }
}

/// `R` rows from `first` on.
#[inline(always)]
fn some<V: Vector, const R: usize>(
    products: &[Product<'_>],
    first: usize,
    (n, add): (usize, bool),
    out: &mut [f32],
) {
    // SAFETY: this runs at the level of `V`.
    let mut sums = [[unsafe { V::splat(0.0) }; COLUMNS]; R];
    for p in products {
        let (a, width) = p.a.stored();
        let (full, rest) = (p.inner / LANES, p.inner % LANES);
        assert!((first + R - 1) * width + p.inner <= a.len() && !p.a.is_transposed());
        assert!(p.b.len() >= packed_len(p.inner));
        // SAFETY: as above. Rows `first..first + R` have `inner` elements each, and `b` whole vectors for them
        // (asserted above); the last ones of a row are masked.
        unsafe {
            let a = a.as_ptr().add(first * width);
            let mut row = [V::splat(0.0); R];
            let ahead = a.wrapping_add(AHEAD.div_ceil(R * width) * R * width);
            for k in 0..full {
                for (r, row) in row.iter_mut().enumerate() {
                    prefetch(ahead.wrapping_add(r * width + k * LANES));
                    *row = V::load(a.add(r * width + k * LANES));
                }
                meet(&row, p.b.as_ptr().add(k * LANES * COLUMNS), &mut sums);
            }
            if rest > 0 {
                let mask = V::mask(rest);
                for (r, row) in row.iter_mut().enumerate() {
                    *row = V::load_first(a.add(r * width + full * LANES), mask);
                }
                meet(&row, p.b.as_ptr().add(full * LANES * COLUMNS), &mut sums);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        let sums = V::sums(sums);
        for (to, sum) in out[(first + r) * n..][..n].iter_mut().zip(sums) {
            *to = if add { *to + sum } else { sum };
        }
    }
}

/// Adds the products of a vector of each row and one of each column.
///
/// # Safety
/// That of [`Vector`]; `columns` has [`COLUMNS`] vectors.
#[inline(always)]
unsafe fn meet<V: Vector, const R: usize>(
    row: &[V; R],
    columns: *const f32,
    sums: &mut [[V; COLUMNS]; R],
) {
    for c in 0..COLUMNS {
        // SAFETY: the caller's.
        let column = unsafe { V::load(columns.add(c * LANES)) };
        for (row, sums) in row.iter().zip(sums.iter_mut()) {
            sums[c] = row.mul_add(column, sums[c]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::tests::{close, matrix};
    use crate::linear::{Term, Then, Write, linear_into, naive};
    use crate::{Mat, Par};

    /// Every number of columns, inner dimensions around whole vectors and pieces, rows around whole groups; and
    /// the same bits for a row whatever stands beside it.
    #[test]
    fn few_columns_are_right_and_rows_do_not_depend_on_each_other() {
        for n in 1..=COLUMNS + 1 {
            for inner in [63, 64, 65, 80, 511, 512, 600, 2100] {
                for m in [1, 2, 3, 13, 40] {
                    let (a, b) = (matrix(m, inner, 1), matrix(inner, n, 2));
                    let (c, d) = (matrix(m, 70, 3), matrix(n, 70, 4));
                    let one = Term {
                        a: &a,
                        b: &b,
                        ta: false,
                        tb: false,
                    };
                    let other = Term {
                        a: &c,
                        b: &d,
                        ta: false,
                        tb: true,
                    };
                    for write in [Write::Set, Write::Add] {
                        let start = matrix(m, n, 5);
                        let (mut got, mut want) = (start.clone(), start.clone());
                        linear_into(
                            &Par::new(2),
                            &[one, other],
                            write,
                            Then::default(),
                            &mut got,
                        );
                        naive(&[one, other], write, Then::default(), &mut want);
                        close(&got, &want, 4e-6 * (inner as f32).sqrt().max(8.0));
                        let rows =
                            |x: &Mat, r: usize| x.slice(ndarray::s![r..r + 1, ..]).to_owned();
                        let last = m - 1;
                        let (a, c) = (rows(&a, last), rows(&c, last));
                        let terms = [Term { a: &a, ..one }, Term { a: &c, ..other }];
                        let mut alone = rows(&start, last);
                        linear_into(&Par::new(1), &terms, write, Then::default(), &mut alone);
                        assert_eq!(alone, rows(&got, last), "{n} columns of {inner}");
                    }
                }
            }
        }
    }
}
