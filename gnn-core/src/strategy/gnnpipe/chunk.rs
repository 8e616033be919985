//! The chunks of one rank's rows, and who reads whom.
//!
//! # Order
//! A rank's rows lie chunk by chunk. So do the rows that it reads, its *sources*: of each chunk its own
//! rows, then those of the other ranks of its stage.

use crate::backend::{Kept, Sparse};
use crate::error::Result;
use crate::partition::LocalPart;
use crate::strategy::halo::Halo;
use crate::strategy::ordered::Ordered;
use kernels::CsrBuf;
use std::ops::Range;
use std::rc::Rc;

/// A chunk at one rank.
pub(super) struct Chunk {
    /// Its rows among the rank's.
    pub(super) own: Range<usize>,
    /// Its rows among the sources, those of other ranks included.
    pub(super) seen: Range<usize>,
    /// How many of its first rows read no row of another rank in this chunk.
    pub(super) n_interior: usize,
    /// In-edges: `[n_k, n_sources]`.
    pub(super) edges: Rc<Sparse>,
    /// Out-edges of its rows, and of those of other ranks, to this rank's: `[n_k + h_k, n_own]`.
    pub(super) edges_t: Sparse,
    /// Who reads its rows, in whichever chunk.
    pub(super) halo: Halo,
    /// Global vertex ids of its rows.
    pub(super) ids: Kept<u32>,
}

impl Chunk {
    /// Number of its rows.
    pub(super) fn rows(&self) -> usize {
        self.own.len()
    }
}

/// All chunks of a rank.
pub(super) struct Chunks {
    /// By number.
    pub(super) all: Vec<Chunk>,
    /// Global vertex ids of the sources.
    pub(super) sources: Kept<u32>,
}

/// Rows `rows` of `a`.
fn rows_of(a: &CsrBuf, rows: Range<usize>) -> Sparse {
    let (first, last) = (a.indptr[rows.start], a.indptr[rows.end]);
    let edges = first as usize..last as usize;
    let indptr = a.indptr[rows.start..=rows.end].iter();
    Sparse::new(CsrBuf {
        indptr: indptr.map(|p| p - first).collect(),
        indices: a.indices[edges.clone()].to_vec(),
        weights: a.weights.as_ref().map(|w| w[edges].to_vec()),
        n_cols: a.n_cols,
    })
}

impl Chunks {
    /// Of the rank at `place` of its stage: `chunk_of` and `ordered.owner` have the chunk and the place of
    /// every vertex, by number.
    ///
    /// # Errors
    /// As [`LocalPart::new`].
    pub(super) fn new(
        ordered: &Ordered,
        chunk_of: &[u32],
        (place, places): (usize, usize),
        count: usize,
    ) -> Result<Chunks> {
        let part = LocalPart::new(&ordered.whole, &ordered.owner, place, places)?;
        let (n_own, a) = (part.own.len(), part.block.csr());
        let chunk = |number: u32| chunk_of[number as usize] as usize;
        let chunk_of_column = |c: u32| match (c as usize).checked_sub(n_own) {
            None => chunk(part.own[c as usize]),
            Some(h) => chunk(part.halo[h]),
        };
        // Rows that wait for others of their own chunk come last in it.
        let waits = |row: usize| {
            let own = chunk(part.own[row]);
            let near = &a.indices[a.span(row)];
            near.iter()
                .any(|&c| c as usize >= n_own && chunk_of_column(c) == own)
        };
        let mut rows: Vec<(usize, bool, u32)> = (0..n_own)
            .map(|row| (chunk(part.own[row]), waits(row), row as u32))
            .collect();
        rows.sort_unstable_by_key(|&(k, waits, row)| (k, waits, part.own[row as usize]));
        // The new number of every old row and column.
        let mut row_at = vec![0u32; n_own];
        let mut column_at = vec![0u32; n_own + part.halo.len()];
        let (mut sources, mut bounds) = (Vec::with_capacity(column_at.len()), Vec::new());
        let mut next = 0;
        for k in 0..count {
            let (own, seen) = (next, sources.len());
            while let Some(&(_, _, row)) = rows.get(next).filter(|r| r.0 == k) {
                row_at[row as usize] = next as u32;
                column_at[row as usize] = sources.len() as u32;
                sources.push(part.own[row as usize]);
                next += 1;
            }
            // Grouped by rank already, and ascending.
            for (h, &number) in part.halo.iter().enumerate() {
                if chunk(number) == k {
                    column_at[n_own + h] = sources.len() as u32;
                    sources.push(number);
                }
            }
            bounds.push((own..next, seen..sources.len()));
        }
        let mut whole = CsrBuf {
            weights: a.weights.map(|_| Vec::with_capacity(a.n_edges())),
            ..CsrBuf::empty(sources.len())
        };
        for &(_, _, row) in &rows {
            let span = a.span(row as usize);
            let near = a.indices[span.clone()].iter();
            whole.indices.extend(near.map(|&c| column_at[c as usize]));
            if let (Some(to), Some(from)) = (&mut whole.weights, a.weights) {
                to.extend_from_slice(&from[span]);
            }
            whole.indptr.push(whole.indices.len() as u64);
        }
        let transposed = whole.view().transpose();
        let make = |(k, (own, seen)): (usize, (Range<usize>, Range<usize>))| {
            let of_chunk = |&&row: &&u32| chunk(part.own[row as usize]) == k;
            let send = part.send.iter().map(|list| {
                let mine = list.iter().filter(of_chunk);
                mine.map(|&row| row_at[row as usize] - own.start as u32)
                    .collect()
            });
            let read = part.halo_ptr.windows(2).map(|group| {
                let theirs = &part.halo[group[0]..group[1]];
                theirs.iter().filter(|&&number| chunk(number) == k).count()
            });
            let edges = rows_of(&whole, own.clone());
            Chunk {
                n_interior: rows[own.clone()].iter().filter(|r| !r.1).count(),
                edges: Rc::new(edges),
                edges_t: rows_of(&transposed, seen.clone()),
                halo: Halo::new(send.collect(), read.collect(), true),
                ids: ordered.vertices(&sources[seen.start..][..own.len()]).into(),
                own,
                seen,
            }
        };
        Ok(Chunks {
            all: bounds.into_iter().enumerate().map(make).collect(),
            sources: ordered.vertices(&sources).into(),
        })
    }

    /// Number of the rank's rows.
    pub(super) fn rows(&self) -> usize {
        self.all.last().map_or(0, |chunk| chunk.own.end)
    }

    /// Sources of other chunks, once for every chunk that reads them.
    pub(super) fn reads_of_others(&self) -> usize {
        let mut seen_by = vec![usize::MAX; self.sources.len()];
        let mut reads = 0;
        for (number, chunk) in self.all.iter().enumerate() {
            let others = chunk.edges.view().indices.iter().map(|&c| c as usize);
            for c in others.filter(|c| !chunk.seen.contains(c)) {
                let last = std::mem::replace(&mut seen_by[c], number);
                reads += usize::from(last != number);
            }
        }
        reads
    }

    /// Rows that each rank of the stage reads of this one's, and this one of theirs.
    pub(super) fn counts(&self) -> (Vec<usize>, Vec<usize>) {
        let sum = |mut sums: Vec<usize>, more: &[usize]| {
            sums.resize(more.len(), 0);
            sums.iter_mut().zip(more).for_each(|(s, m)| *s += m);
            sums
        };
        let empty = (Vec::new(), Vec::new());
        self.all.iter().fold(empty, |(sends, reads), chunk| {
            let (send, read) = chunk.halo.counts();
            (sum(sends, &send), sum(reads, read))
        })
    }
}
