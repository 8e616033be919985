//! A device with a budget of memory, on the host.
//!
//! Chunks exist to fit into a device. Here the device is an arena: what a chunk reads and writes is
//! copied into memory of its own, which is counted against the budget, and results are copied back.
//! Dense layers stay outside, as in the paper.
//!
//! A chunk holds the slice `[n, own columns]` of all sources, its part of the topology, and its rows of
//! the result.

use super::chunks::over_budget;
use crate::backend::{Mat, Sparse, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use kernels::{Csr, CsrBuf};
use std::cell::Cell;
use std::ops::Range;

/// Memory of a device, all of it counted.
pub(super) struct Arena {
    budget: u64,
    held: Cell<u64>,
}

/// Bytes of the arena, until this is gone.
pub(super) struct Held<'a> {
    arena: &'a Arena,
    bytes: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.arena.held.set(self.arena.held.get() - self.bytes);
    }
}

impl Arena {
    /// A device with `budget` bytes.
    pub(super) fn new(budget: u64) -> Arena {
        let held = Cell::new(0);
        Arena { budget, held }
    }

    /// Takes `bytes` bytes.
    ///
    /// # Errors
    /// [`crate::Error::Spec`] with the bytes that would be held and the budget.
    pub(super) fn hold(&self, cx: &Ctx, bytes: u64) -> Result<Held<'_>> {
        let held = self.held.get() + bytes;
        if held > self.budget {
            return Err(over_budget(held, self.budget));
        }
        self.held.set(held);
        cx.on_device(held);
        Ok(Held { arena: self, bytes })
    }

    /// `out[r, :] = (a · x)[r, :]` for `r` in `rows`, on the device: `x: [n, d]` is there already, the
    /// rows of `a` are copied there, the rows of the result are copied back. `values: [1, edges]`
    /// stand in for those of `a`.
    ///
    /// # Errors
    /// As [`Arena::hold`].
    pub(super) fn multiply(
        &self,
        cx: &Ctx,
        (a, values): (&Sparse, Option<&Mat>),
        rows: Range<usize>,
        x: &Mat,
        out: &mut Mat,
    ) -> Result<()> {
        let a = a.view();
        let weights = values.map(Mat::as_slice).or(a.weights);
        let bytes = chunk_bytes(a, weights.is_some(), &rows, x.ncols());
        let _held = self.hold(cx, bytes)?;
        let edges = a.span(rows.start).start..a.span(rows.end - 1).end;
        let first = a.indptr[rows.start];
        let chunk = Sparse::new(CsrBuf {
            indptr: a.indptr[rows.start..=rows.end]
                .iter()
                .map(|e| e - first)
                .collect(),
            indices: a.indices[edges.clone()].to_vec(),
            weights: weights.map(|w| w[edges].to_vec()),
            n_cols: a.n_cols,
        });
        let mut part = cx.backend.fresh(rows.len(), x.ncols());
        cx.backend
            .spmm(&chunk, 0..rows.len(), x, Write::Set, &mut part);
        cx.backend.copy_rows(&part, 0, rows.len(), out, rows.start);
        Ok(())
    }
}

/// Bytes of the slice of all sources, `rows` rows of `d` columns.
pub(super) fn slice_bytes(rows: usize, d: usize) -> u64 {
    4 * (rows * d) as u64
}

/// Bytes of the topology of some rows, with values or without, and of their result, `d` columns wide.
pub(super) fn chunk_bytes(a: Csr<'_>, weighted: bool, rows: &Range<usize>, d: usize) -> u64 {
    let edges = a.indptr[rows.end] - a.indptr[rows.start];
    let edge = if weighted { 8 } else { 4 };
    8 * (rows.len() as u64 + 1) + edge * edges + slice_bytes(rows.len(), d)
}
