//! Rows as a product gathers them: copied first to where they lie in whole lines of memory, or multiplied by a number
//! each, where that is quicker.

use std::ops::Range;

use crate::simd::Level;
use crate::spmm::{self, Onto};
use crate::{Csr, Mat, Par, flat};

/// Numbers of a line of memory.
pub(crate) const LINE: usize = 16;

/// How often a row has to be gathered on average before it pays to copy all of them to where each begins a line, or
/// shares one with no part of another.
pub(crate) const PAYS: usize = 24;

/// From row to row of a copy of `[n, d]` whose rows lie in as few lines as can be; none where they do, or where
/// `edges` gather too few of them.
pub(crate) fn stride(n: usize, d: usize, edges: usize) -> Option<usize> {
    let stride = match d {
        0 => 0,
        1..LINE => d.next_power_of_two(),
        _ => d.next_multiple_of(LINE),
    };
    (stride > d && edges >= PAYS * n).then_some(stride)
}

/// Rows of a matrix that are some numbers apart, maybe a copy's.
pub(crate) struct Lines<'x> {
    copy: Option<Vec<f32>>,
    from: &'x [f32],
    shape: (usize, usize),
    stride: usize,
}

impl<'x> Lines<'x> {
    /// Those of `x`, copied where that is quicker for `edges` that gather them; their multiples by `scale`, where each
    /// has a number.
    pub(crate) fn of(par: &Par, x: &'x Mat, edges: usize, scale: Option<&[f32]>) -> Lines<'x> {
        let (n, d) = x.dim();
        let from = flat("spmm", x);
        let stride = match scale {
            Some(_) => Some(stride(n, d, usize::MAX).unwrap_or(d)),
            None => stride(n, d, edges),
        };
        let copy = stride.map(|stride| {
            let mut copy = par.scratch_of_any(n * stride);
            par.rows_mut(&mut copy, stride, |first, to| {
                let from = from[first * d..].chunks_exact(d);
                for (r, (to, from)) in to.chunks_exact_mut(stride).zip(from).enumerate() {
                    match scale {
                        Some(scale) => times(&mut to[..d], from, scale[first + r]),
                        None => to[..d].copy_from_slice(from),
                    }
                }
            });
            copy
        });
        Lines {
            copy,
            from,
            shape: (n, d),
            stride: stride.unwrap_or(d),
        }
    }

    /// The rows, and how many numbers they are apart.
    pub(crate) fn rows(&self) -> (&[f32], usize) {
        (self.copy.as_deref().unwrap_or(self.from), self.stride)
    }

    /// A sparse matrix times these rows.
    pub(crate) fn spmm(
        &self,
        level: Level,
        par: &Par,
        a: Csr<'_>,
        rows: Range<usize>,
        onto: Onto<'_>,
        out: &mut Mat,
    ) {
        let (x, stride) = self.rows();
        spmm::strided(level, par, a, rows, onto, (self.shape, stride, x), out);
    }

    /// Hands the copy back for the next one.
    pub(crate) fn done(self, par: &Par) {
        if let Some(copy) = self.copy {
            par.recycle(copy);
        }
    }
}

/// A row's multiple.
fn times(to: &mut [f32], from: &[f32], number: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from * number;
    }
}
