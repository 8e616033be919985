//! How long it takes to fetch the rows that edges read, in the order of the edges: what an aggregation hardly
//! goes below without another order, whatever it computes.
//!
//! One number of each cache line of a row is read, and rows are asked for ahead as SpMM does.

use super::clock::{Clock, Spread};
use crate::par::split_edges;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::{Csr, Par};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of a cache line.
const LINE: usize = 16;

/// Milliseconds of fetching a row of `width` numbers of four bytes for every edge of `a`, rows of `a` shared
/// out among the threads by edges.
///
/// # Panics
/// When an index of `a` is out of range, or not every line was read.
pub fn gather(par: &Par, clock: Clock, a: Csr<'_>, width: usize) -> Spread {
    let table = vec![1u32; a.n_cols * width];
    let bounds = split_edges(a.indptr, 0..a.rows(), par.threads());
    let sum = AtomicU64::new(0);
    let spread = clock.time(|| {
        sum.store(0, Ordering::Relaxed);
        let runs = bounds.windows(2).map(|w| w[0]..w[1]).collect();
        par.run(runs, |rows: Range<usize>| {
            let edges = a.indptr[rows.start] as usize..a.indptr[rows.end] as usize;
            sum.fetch_add(fetch(a.indices, edges, &table, width), Ordering::Relaxed);
        });
    });
    let lines = a.n_edges() as u64 * width.div_ceil(LINE) as u64;
    assert_eq!(sum.into_inner(), lines, "gather: every line is read once");
    spread
}

/// The sum of one number of each line of the edges' rows.
fn fetch(indices: &[u32], edges: Range<usize>, table: &[u32], width: usize) -> u64 {
    let mut sum = 0u64;
    for e in edges {
        if let Some(&next) = indices.get(e + AHEAD) {
            prefetch_row(table.as_ptr().wrapping_add(next as usize * width), width);
        }
        let row = &table[indices[e] as usize * width..][..width];
        sum += row.iter().step_by(LINE).map(|&x| u64::from(x)).sum::<u64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_fetches_a_row() {
        let (indptr, indices) = ([0, 2, 2, 5], [1, 2, 0, 1, 3]);
        let a = Csr {
            indptr: &indptr,
            indices: &indices,
            weights: None,
            n_cols: 4,
        };
        let clock = Clock {
            warmup: 0,
            samples: 1,
            seconds: 0.1,
        };
        for (threads, width) in [(1, 1), (2, 16), (3, 40)] {
            // The lines that are read are counted inside.
            let spread = gather(&Par::new(threads), clock, a, width);
            assert!(spread.samples >= 1);
        }
    }
}
