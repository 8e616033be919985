//! Chunks as a device is given them: the rows that each reads, and its edges by their places among them.
//!
//! The slice `[n, own columns]` stays on the host. A chunk's in-neighbours are gathered to the device,
//! each once, with its part of the topology; the rows of its result are copied back. So a slice of any
//! size is aggregated on a device that holds a chunk ("The needed source vertices are loaded", §4.2 of
//! the paper). Dense layers stay on the host, as in the paper.
//!
//! Sources ascend as the edges of a row do, so that every sum has its terms in the order of the whole
//! matrix, and without segments of wide rows the bits of it.

use crate::backend::{Kept, Mat, Picked, Sparse};
use crate::ctx::Ctx;
use crate::device::{BudgetedDevice, Moved, SparseBytes, Stores};
use crate::error::Result;
use kernels::Csr;
use std::ops::Range;

/// A run of rows of a matrix.
pub(super) struct Cut {
    /// Which.
    rows: Range<usize>,
    /// Columns in which there are edges, ascending.
    sources: Kept<u32>,
    /// Where each row's edges begin, counted from the first row's.
    indptr: Vec<u64>,
    /// Place of each edge's column among the sources.
    indices: Vec<u32>,
}

/// The rows of `a` between bounds of vertices, each of which has `group` rows.
pub(super) fn cuts(a: Csr<'_>, bounds: &[usize], group: usize) -> Vec<Cut> {
    let mut place = vec![u32::MAX; a.n_cols];
    let of_run = |b: &[usize]| {
        let rows = b[0] * group..b[1] * group;
        let indptr = &a.indptr[rows.start..=rows.end];
        let edges = &a.indices[indptr[0] as usize..indptr[rows.len()] as usize];
        let mut sources = Vec::new();
        for &s in edges {
            if std::mem::replace(&mut place[s as usize], 0) == u32::MAX {
                sources.push(s);
            }
        }
        sources.sort_unstable();
        for (k, &s) in sources.iter().enumerate() {
            place[s as usize] = k as u32;
        }
        let indices = edges.iter().map(|&s| place[s as usize]).collect();
        sources.iter().for_each(|&s| place[s as usize] = u32::MAX);
        Cut {
            indptr: indptr.iter().map(|e| e - indptr[0]).collect(),
            indices,
            sources: sources.into(),
            rows,
        }
    };
    bounds.windows(2).map(of_run).collect()
}

impl Cut {
    /// `out[r, :] = (a · x)[r, :]` for its rows, on the device: `x: [n, d]` and `out: [m, d]` are on the
    /// host, and `a: [m, n]` is the matrix that it was cut from. `values: [1, edges]` stand in for those
    /// of `a`.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] for what does not fit into the device.
    pub(super) fn multiply(
        &self,
        cx: &Ctx,
        device: &BudgetedDevice,
        (a, values): (&Sparse, Option<&Mat>),
        x: &Mat,
        out: &mut Mat,
    ) -> Result<()> {
        let (whole, d) = (a.view(), x.ncols());
        let first = whole.indptr[self.rows.start] as usize;
        let edges = first..first + self.indices.len();
        let values = values.map(Mat::elements);
        let weights = values.as_deref().or(whole.weights);
        let own = Csr {
            indptr: &self.indptr,
            indices: &self.indices,
            weights: weights.map(|w| &w[edges]),
            n_cols: self.sources.len(),
        };
        let topology = device.topology(cx, "a chunk's edges", own, d)?;
        let read = device.load(cx, "the rows that a chunk reads", x, &self.sources)?;
        let mut sums = device.fresh(cx, "the rows that a chunk makes", self.rows.len(), d)?;
        device.spmm(cx, &topology, &read, &mut sums);
        let moved = Moved {
            from: Picked::From(0),
            to: Picked::From(self.rows.start),
            n: self.rows.len(),
        };
        device.store_rows(cx, moved, &sums, out)
    }
}

/// Bytes that a run of vertices takes on a device, one vertex after the other: over each of several
/// matrices the edges, the rows that are read, and those that are made; the most of them.
pub(super) struct Growing<'a> {
    stores: Stores,
    width: usize,
    matrices: Vec<Run<'a>>,
}

/// A run of vertices over one matrix.
struct Run<'a> {
    a: Csr<'a>,
    /// Rows of a vertex.
    group: usize,
    weighted: bool,
    /// The run that read each column last.
    seen: Vec<u32>,
    number: u32,
    edges: SparseBytes,
    sources: usize,
    rows: usize,
}

impl<'a> Growing<'a> {
    /// Over `matrices` with the rows that a vertex has in each, `width` columns wide; edges carry values
    /// where a matrix has them, or `weighted`.
    pub(super) fn new(
        stores: Stores,
        matrices: &[(&'a Sparse, usize)],
        width: usize,
        weighted: bool,
    ) -> Growing<'a> {
        let run = |&(a, group): &(&'a Sparse, usize)| {
            let a = a.view();
            let weighted = weighted || a.weights.is_some();
            Run {
                a,
                group,
                weighted,
                seen: vec![0; a.n_cols],
                number: 0,
                edges: stores.sparse(weighted),
                sources: 0,
                rows: 0,
            }
        };
        Growing {
            stores,
            width,
            matrices: matrices.iter().map(run).collect(),
        }
    }

    /// Bytes of the run when vertex `v` is added, or of `v` alone when it `begins` a run.
    pub(super) fn add(&mut self, v: usize, begins: bool) -> u64 {
        let (stores, width) = (self.stores, self.width);
        let of = |run: &mut Run<'_>| {
            if begins {
                (run.sources, run.rows) = (0, 0);
                run.edges = stores.sparse(run.weighted);
                run.number += 1;
            }
            for row in v * run.group..(v + 1) * run.group {
                let edges = &run.a.indices[run.a.span(row)];
                run.rows += 1;
                run.edges.row(edges.len());
                for &s in edges {
                    let seen = &mut run.seen[s as usize];
                    run.sources += usize::from(*seen != run.number);
                    *seen = run.number;
                }
            }
            let rows = [run.sources, run.rows].map(|rows| stores.matrix(rows, width));
            run.edges.held(width) + rows[0] + rows[1]
        };
        self.matrices.iter_mut().map(of).max().unwrap_or(0)
    }
}
