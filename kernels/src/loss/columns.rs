//! Softmax of rows of few classes (up to 64), many rows at a time: a vector holds one class of several rows, so
//! that nothing is reduced within a vector and no lane is idle.

use super::{LANES, folded};
use crate::exp::exp;
use crate::simd::multiversion;

/// Rows at a time.
pub(super) const ROWS: usize = 16;

/// Classes at most: of more, a row fills vectors of its own.
pub(super) const MOST: usize = 64;

/// Room for the classes of so many rows.
pub(super) type Columns = [[f32; ROWS]; MOST];

multiversion! {
    /// What `row` does, with the same bits, for `rows` of `x: [_, classes]`: scaled softmax in `g: [_, classes]`, without
    /// what the label takes from it; the sums of exponentials and the largest logits.
    pub(super) fn rows(
        x: &[f32],
        rows: &[usize; ROWS],
        classes: usize,
        scale: f32,
        columns: &mut Columns,
        g: &mut [f32],
    ) -> ([f32; ROWS], [f32; ROWS]) {
        let columns = &mut columns[..classes];
        for (r, &v) in rows.iter().enumerate() {
            for (column, x) in columns.iter_mut().zip(&x[v * classes..][..classes]) {
                column[r] = *x;
            }
        }
        let mut tops = [f32::NEG_INFINITY; ROWS];
        for column in &*columns {
            tops.iter_mut().zip(column).for_each(|(m, &x)| *m = if x > *m { x } else { *m });
        }
        for column in &mut *columns {
            column.iter_mut().zip(&tops).for_each(|(x, top)| *x = exp(*x - top));
        }
        // In the order in which those of a row are added.
        let (chunks, rest) = columns.as_chunks::<LANES>();
        let rest = rest.iter().fold([0f32; ROWS], added);
        let sums = match chunks {
            [] => rest,
            [first, others @ ..] => {
                let mut lanes = *first;
                for chunk in others {
                    lanes.iter_mut().zip(chunk).for_each(|(sums, x)| *sums = added(*sums, x));
                }
                added(folded(lanes, |a, b| added(a, &b)), &rest)
            }
        };
        let inverse = sums.map(|sum| scale / sum);
        for column in &mut *columns {
            column.iter_mut().zip(&inverse).for_each(|(x, inverse)| *x *= inverse);
        }
        for (r, &v) in rows.iter().enumerate() {
            for (g, column) in g[v * classes..][..classes].iter_mut().zip(&*columns) {
                *g = column[r];
            }
        }
        (sums, tops)
    }
}

#[inline(always)]
fn added(mut a: [f32; ROWS], b: &[f32; ROWS]) -> [f32; ROWS] {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}
