//! Moving a rectangle of one matrix into another: some rows, a run of columns.
//!
//! What tensor parallelism does between rows and columns: a rank's rows are cut into slices of
//! columns that go to other ranks, and slices of other ranks' rows are put side by side.

use std::ops::Range;

use crate::par::{cut_mut, split_rows};
use crate::{Mat, Par, expect_rows, flat, flat_mut};

/// Rows of a matrix, in order.
#[derive(Clone, Copy, Debug)]
pub enum Picked<'a> {
    /// Those that follow each other from this one on.
    From(usize),
    /// These.
    List(&'a [u32]),
}

impl Picked<'_> {
    fn row(&self, i: usize) -> usize {
        match self {
            Picked::From(first) => first + i,
            Picked::List(list) => list[i] as usize,
        }
    }

    fn ascends(&self) -> bool {
        match self {
            Picked::From(_) => true,
            Picked::List(list) => list.windows(2).all(|v| v[0] < v[1]),
        }
    }

    /// Panics unless the first `n` of them are below `rows`.
    fn check(&self, what: &str, n: usize, rows: usize) {
        match self {
            Picked::From(first) => expect_rows("copy_block", &(*first..first + n), rows),
            Picked::List(list) => {
                assert!(
                    list.len() >= n,
                    "copy_block: expected {n} rows of {what}, got a list of {}",
                    list.len()
                );
                if let Some(v) = list[..n].iter().find(|&&v| v as usize >= rows) {
                    panic!("copy_block: expected rows of {what} below {rows}, got {v}");
                }
            }
        }
    }
}

/// A corner of a rectangle: its rows and its first column.
#[derive(Clone, Copy, Debug)]
pub struct Corner<'a> {
    /// Its rows.
    pub rows: Picked<'a>,
    /// Its first column.
    pub col: usize,
}

/// Scalar reference of [`copy_block_into`].
pub fn naive(x: &Mat, from: Corner<'_>, (n, width): (usize, usize), out: &mut Mat, to: Corner<'_>) {
    for i in 0..n {
        for c in 0..width {
            out[[to.rows.row(i), to.col + c]] = x[[from.rows.row(i), from.col + c]];
        }
    }
}

/// Writes row `from.rows[i]`, columns `from.col..from.col + width` of `x` to row `to.rows[i]`,
/// columns `to.col..to.col + width` of `out`, for `i` below `n`; what is elsewhere stays.
///
/// Threads share the rows of `out`: each has a part of the list where `to.rows` ascends, and picks its own
/// out of all of it otherwise.
///
/// # Panics
/// When the rectangle leaves `x` or `out`.
pub fn copy_block_into(
    par: &Par,
    x: &Mat,
    from: Corner<'_>,
    (n, width): (usize, usize),
    out: &mut Mat,
    to: Corner<'_>,
) {
    let (dx, d) = (x.ncols(), out.ncols());
    from.rows.check("x", n, x.nrows());
    to.rows.check("out", n, out.nrows());
    expect_rows("copy_block", &(from.col..from.col + width), dx);
    expect_rows("copy_block", &(to.col..to.col + width), d);
    if n == 0 || width == 0 {
        return;
    }
    let (x, rows) = (flat("copy_block", x), out.nrows());
    let out = flat_mut("copy_block", out);
    // `part` holds rows of `out` from `first` on.
    let copy_row = |i: usize, first: usize, part: &mut [f32]| {
        let a = from.rows.row(i) * dx + from.col;
        let b = (to.rows.row(i) - first) * d + to.col;
        part[b..b + width].copy_from_slice(&x[a..a + width]);
    };
    let copy = |range: Range<usize>, first: usize, part: &mut [f32]| {
        range.for_each(|i| copy_row(i, first, part));
    };
    let bounds = par.row_bounds(n, width);
    if bounds.len() == 2 {
        copy(0..n, 0, out);
        return;
    }
    if !to.rows.ascends() {
        let cuts = split_rows(rows, bounds.len() - 1);
        par.run(cut_mut(out, d, &cuts), |(first, part)| {
            let mine = first..first + part.len() / d;
            let of_mine = (0..n).filter(|&i| mine.contains(&to.rows.row(i)));
            of_mine.for_each(|i| copy_row(i, first, part));
        });
        return;
    }
    let mut cuts: Vec<usize> = bounds
        .iter()
        .take(bounds.len() - 1)
        .map(|&i| to.rows.row(i))
        .collect();
    cuts[0] = 0;
    cuts.push(rows);
    let jobs = bounds.windows(2).zip(cut_mut(out, d, &cuts)).collect();
    par.run(
        jobs,
        |(b, (first, part)): (&[usize], (usize, &mut [f32]))| copy(b[0]..b[1], first, part),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_reference(
            n in 0usize..400, width in 0usize..60, extra in 0usize..5, threads in 1usize..4,
            reversed: bool, listed: bool, turned in 0usize..7,
        ) {
            let x = Mat::from_shape_fn((n + extra, width + extra), |(r, c)| (r * 101 + c) as f32);
            let mut list: Vec<u32> = (0..n as u32).map(|i| i + extra as u32).collect();
            if reversed { list.reverse(); }
            list.rotate_left(turned.min(n));
            let from = Corner { rows: Picked::From(extra), col: extra };
            let rows = if listed { Picked::List(&list) } else { Picked::From(extra) };
            let to = Corner { rows, col: 0 };
            for (from, to) in [(from, to), (to, from)] {
                let mut expected = Mat::from_elem(x.dim(), -1.0);
                let mut out = expected.clone();
                naive(&x, from, (n, width), &mut expected, to);
                copy_block_into(&Par::new(threads), &x, from, (n, width), &mut out, to);
                prop_assert_eq!(&out, &expected);
            }
        }
    }

    #[test]
    #[should_panic(expected = "copy_block: expected rows of out below 2, got 2")]
    fn a_row_outside_is_refused() {
        let x = Mat::zeros((1, 1));
        let from = Corner {
            rows: Picked::From(0),
            col: 0,
        };
        let to = Corner {
            rows: Picked::List(&[2]),
            col: 0,
        };
        copy_block_into(&Par::new(1), &x, from, (1, 1), &mut Mat::zeros((2, 1)), to);
    }
}
