//! Records: what edges read of a vertex when they gather it, numbers that coefficients are made of and its row.
//!
//! Rows are read where they are, but for those of eight or four narrow heads with AVX2, which are laid **by column**
//! first where they are gathered often enough: each of their vectors has columns of several heads, so that coefficients
//! would have to be picked out of the vector that holds one for each head, which takes longer than to fetch the row. A
//! row `[heads, width]` is copied to `[width, heads]`, behind its vertex's numbers. Its vectors have a lane for each head
//! then, as coefficients do, and an edge's lines follow each other. Sums are by column, too, and laid back when a row's
//! last edge has been added. Bits stay as they are.

use std::ops::Range;

use crate::gat_layout::Layout;
use crate::gat_sum::{Rows, Sums};
use crate::lines::LINE;
use crate::simd::Level;
use crate::vector::Vector;
use crate::{Mat, Par, flat};

/// Lanes of the vectors that rows are laid by column for.
const LANES: usize = 8;

/// Vectors of such a row at most: with two sums each, as many as there are registers for.
const MOST: usize = 4;

/// How often a row has to be gathered on average before it pays to lay it by column.
const PAYS: usize = 4;

/// Records that are made together, while they are in the nearest cache.
const TOGETHER: usize = 128;

/// The records of some vertices.
pub(crate) struct Records<'x> {
    heads: usize,
    width: usize,
    n: usize,
    /// Numbers for each head.
    each: usize,
    /// `[n, each·heads]`, or, by column, `[n, stride]`: numbers `[each, heads]`, the row `[width, heads]`, and nothing
    /// up to a line.
    numbers: Vec<f32>,
    /// From one vertex's numbers to the next one's.
    stride: usize,
    /// The rows, `[n, heads·width]`; none by column.
    rows: Option<&'x [f32]>,
}

impl<'x> Records<'x> {
    /// Of vertices with rows `x: [n, heads·width]` that `edges` edges gather at a level; `write(vertices, stride, to)`
    /// writes their numbers, `each` for each head, as the first of every row of `to: [vertices, stride]`.
    pub(crate) fn of(
        (level, par): (Level, &Par),
        x: &'x Mat,
        heads: usize,
        each: usize,
        edges: usize,
        write: impl Fn(Range<usize>, usize, &mut [f32]) + Sync,
    ) -> Records<'x> {
        let ((n, d), from) = (x.dim(), flat("gat", x));
        let by_column = level == Level::Avx2 && edges >= PAYS * n && fits(heads, d / heads);
        let at = each * heads;
        let stride = match by_column {
            true => (at + d).next_multiple_of(LINE),
            false => at,
        };
        let records = Records {
            heads,
            width: d / heads,
            n,
            each,
            numbers: Vec::new(),
            stride,
            rows: (!by_column).then_some(from),
        };
        let mut numbers = par.scratch_of_any(n * stride);
        let together = if by_column { TOGETHER } else { n };
        par.rows_mut(&mut numbers, stride, |first, to| {
            for (k, to) in to.chunks_mut(together * stride).enumerate() {
                let first = first + k * together;
                let vertices = first..first + to.len() / stride;
                write(vertices.clone(), stride, to);
                if by_column {
                    records.lay(&from[vertices.start * d..vertices.end * d], to);
                }
            }
        });
        Records { numbers, ..records }
    }

    fn by_column(&self) -> bool {
        self.rows.is_none()
    }

    /// Where a row begins that lies by column.
    fn at(&self) -> usize {
        self.each * self.heads
    }

    /// From one vertex's numbers to the next one's.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The first numbers of each row of `[n, stride]`.
    pub(crate) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// The rows, to be summed by [`Records::layout`].
    pub(crate) fn rows(&self) -> Rows<'_> {
        let (x, stride) = match self.rows {
            Some(rows) => (rows, self.heads * self.width),
            None => (
                self.numbers.get(self.at()..).unwrap_or_default(),
                self.stride,
            ),
        };
        Rows {
            x,
            n: self.n,
            heads: self.heads,
            width: self.width,
            stride,
        }
    }

    /// How the rows are cut into vectors.
    ///
    /// # Safety
    /// The caller runs at the level of `V`.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn layout<V: Vector>(&self) -> Layout<V> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.by_column() {
                true => Layout::by_column(self.heads, self.width),
                false => Layout::new(self.heads, self.width),
            }
        }
    }

    /// Lays rows `x` by column, into their records.
    fn lay(&self, x: &[f32], to: &mut [f32]) {
        let d = self.heads * self.width;
        for (x, to) in x.chunks_exact(d).zip(to.chunks_exact_mut(self.stride)) {
            transpose(self.heads, self.width, x, &mut to[self.at()..][..d]);
        }
    }

    /// Room for the sums of a row by column.
    pub(crate) fn room(&self) -> [Vec<f32>; 2] {
        let d = if self.by_column() {
            self.heads * self.width
        } else {
            0
        };
        [(); 2].map(|()| vec![0.0; d])
    }

    /// Where sums of these rows are added up: in the `room` by column, otherwise where they belong.
    #[inline(always)]
    pub(crate) fn sums<'a>(
        &self,
        [row, positive]: &'a mut [Vec<f32>; 2],
        to: &'a mut Sums<'_>,
    ) -> Sums<'a> {
        let (row, positive) = match self.by_column() {
            true => (&mut row[..], &mut positive[..to.positive.len()]),
            false => (&mut *to.row, &mut *to.positive),
        };
        Sums {
            row,
            positive,
            total: to.total,
            total_positive: to.total_positive,
        }
    }

    /// Lays what was added up in the room back to where it belongs.
    #[inline(always)]
    pub(crate) fn lay_back(&self, [row, positive]: &[Vec<f32>; 2], to: &mut Sums<'_>) {
        if self.by_column() {
            transpose(self.width, self.heads, row, to.row);
            if !to.positive.is_empty() {
                transpose(self.width, self.heads, positive, to.positive);
            }
        }
    }

    /// Hands its memory back for the next ones.
    pub(crate) fn done(self, par: &Par) {
        par.recycle(self.numbers);
    }
}

/// Whether rows are whole vectors by column, in which each head has as many lanes as every other.
fn fits(heads: usize, width: usize) -> bool {
    (heads == LANES || 2 * heads == LANES && width.is_multiple_of(2))
        && heads * width <= MOST * LANES
}

/// `from: [a, b]` to `to: [b, a]`, of the shapes that [`fits`] allows.
fn transpose(a: usize, b: usize, from: &[f32], to: &mut [f32]) {
    macro_rules! shapes {
        ($($a:literal $b:literal),*) => {
            match (a, b) {
                $(($a, $b) => of_shape::<$a, $b>(from, to),)*
                _ => unreachable!("{a} by {b} numbers by column"),
            }
        };
    }
    shapes!(8 1, 1 8, 8 2, 2 8, 8 3, 3 8, 8 4, 4 8, 4 2, 2 4, 4 4, 4 6, 6 4);
}

#[inline(always)]
fn of_shape<const A: usize, const B: usize>(from: &[f32], to: &mut [f32]) {
    let (from, to) = (&from[..A * B], &mut to[..A * B]);
    for b in 0..B {
        for a in 0..A {
            to[b * A + a] = from[a * B + b];
        }
    }
}

#[cfg(test)]
mod tests;
