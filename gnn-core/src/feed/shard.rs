//! A rank's part of a cut graph, ready to be drawn from.
//!
//! Vertices are numbered rank by rank: rank `r` owns the numbers from `first[r]` on, so that the owner
//! of a number is found in a list of `ranks + 1`, and its row at the owner by a subtraction.
//!
//! # Paper
//! DistDGL § 4.1.2: core vertices and the halo of their in-edges, contiguous relabelling.

use crate::sample::{Hop, Sampler, Without};
use kernels::par::Par;
use std::ops::Range;
use std::sync::Arc;

/// How all ranks number the vertices.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// Where each rank's numbers begin: `[ranks + 1]`.
    pub(crate) first: Vec<u32>,
    /// The data set's id of each number: `[n]`.
    pub(crate) ids: Vec<u32>,
}

impl Numbers {
    /// The rank that owns a number.
    pub(crate) fn owner(&self, number: u32) -> usize {
        if self.first.len() == 2 {
            return 0;
        }
        self.first.partition_point(|&f| f <= number) - 1
    }

    /// The numbers of a rank.
    pub(crate) fn of(&self, rank: usize) -> Range<u32> {
        self.first[rank]..self.first[rank + 1]
    }
}

/// One rank's part.
pub(crate) struct Shard {
    pub(crate) rank: usize,
    pub(crate) numbers: Arc<Numbers>,
    sampler: Sampler,
    /// The number of each column of the part's block; empty where it is the column itself.
    columns: Vec<u32>,
    pub(crate) typed: usize,
}

impl Shard {
    /// A part whose rows are the rank's numbers in order, drawn from by `sampler`; `columns` is the number
    /// of each of its columns.
    pub(crate) fn new(
        rank: usize,
        numbers: Arc<Numbers>,
        sampler: Sampler,
        columns: Vec<u32>,
        typed: usize,
    ) -> Shard {
        let same = columns.iter().zip(0u32..).all(|(&c, k)| c == k);
        Shard {
            rank,
            numbers,
            sampler,
            columns: if same { Vec::new() } else { columns },
            typed,
        }
    }

    /// What layer `layer` draws of `rows`, rows of this part, as if the graph did not have some edges (by
    /// the data set's ids); sources are numbers.
    pub(crate) fn draw(
        &self,
        layer: usize,
        at: (u64, u64),
        rows: &[u32],
        without: Option<&Without>,
        par: &Par,
    ) -> Hop {
        let mut hop = self.sampler.draw_without(layer, at, rows, without, par);
        self.name(&mut hop.sources);
        hop
    }

    /// Those edges of `without` whose rows are `rows` of `owner`'s part, by the data set's ids.
    pub(super) fn left_out(
        &self,
        owner: usize,
        rows: &[u32],
        without: Option<&Without>,
    ) -> Vec<[u32; 2]> {
        let Some(without) = without else {
            return Vec::new();
        };
        let all = &self.numbers;
        let id = |&r: &u32| all.ids[(all.first[owner] + r) as usize];
        let of_rows = rows.iter().flat_map(|r| without.of(id(r)));
        of_rows.copied().collect()
    }

    /// About how many edges that is, for rows like those of this part.
    pub(super) fn expects(&self, layer: usize, rows: usize) -> usize {
        self.sampler.expects(layer, rows)
    }

    /// Turns columns of the part's block into the numbers of their vertices.
    pub(super) fn name(&self, columns: &mut [u32]) {
        if !self.columns.is_empty() {
            columns
                .iter_mut()
                .for_each(|c| *c = self.columns[*c as usize]);
        }
    }

    /// Whether every row that is drawn from is this rank's.
    pub(crate) fn alone(&self) -> bool {
        self.numbers.first.len() == 2
    }
}
