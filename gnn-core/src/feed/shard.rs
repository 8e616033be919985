//! A rank's part of a cut graph, ready to be drawn from.
//!
//! Vertices are numbered rank by rank: rank `r` owns the numbers from `first[r]` on, so that the owner
//! of a number is found in a list of `ranks + 1`, and its row at the owner by a subtraction.
//!
//! # Paper
//! DistDGL § 4.1.2: core vertices and the halo of their in-edges, contiguous relabelling.

use crate::error::Result;
use crate::graph::Block;
use crate::partition::LocalPart;
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
        if !self.columns.is_empty() {
            for source in &mut hop.sources {
                *source = self.columns[*source as usize];
            }
        }
        hop
    }

    /// Whether every row that is drawn from is this rank's.
    pub(crate) fn alone(&self) -> bool {
        self.numbers.first.len() == 2
    }
}

/// The parts of all ranks, as one of them sees them.
pub(crate) struct Parts {
    pub(crate) numbers: Arc<Numbers>,
    /// This rank's, as the full-graph strategies have it.
    pub(crate) local: LocalPart,
    /// The number of each column of the local block.
    pub(crate) columns: Vec<u32>,
}

/// Cuts `whole: [n, n]` as `owner` says; `ids` are the data set's ids of its vertices. Every rank
/// computes this alike.
///
/// # Errors
/// As [`LocalPart::new`].
pub(crate) fn cut(
    whole: &Block,
    owner: &[u32],
    ids: &[u32],
    (rank, ranks): (usize, usize),
) -> Result<Parts> {
    let local = LocalPart::new(whole, owner, rank, ranks)?;
    let a = whole.csr();
    // The order of `LocalPart::own` on every rank: interior vertices first.
    let boundary = |v: usize| {
        let far = |&s: &u32| owner[s as usize] != owner[v];
        a.indices[a.span(v)].iter().any(far)
    };
    let mut sizes = vec![[0u32; 2]; ranks];
    let kinds: Vec<usize> = (0..owner.len()).map(|v| usize::from(boundary(v))).collect();
    for (&r, &kind) in owner.iter().zip(&kinds) {
        sizes[r as usize][kind] += 1;
    }
    let mut first = vec![0];
    let mut next = Vec::with_capacity(ranks);
    let mut sum = 0;
    for [interior, rest] in sizes {
        next.push([sum, sum + interior]);
        sum += interior + rest;
        first.push(sum);
    }
    let mut number = vec![0u32; owner.len()];
    let mut by_number = vec![0u32; owner.len()];
    for (v, (&r, &kind)) in owner.iter().zip(&kinds).enumerate() {
        let slot = &mut next[r as usize][kind];
        number[v] = *slot;
        by_number[*slot as usize] = ids[v];
        *slot += 1;
    }
    let columns = local.own.iter().chain(&local.halo);
    let columns = columns.map(|&v| number[v as usize]).collect();
    let numbers = Numbers {
        first,
        ids: by_number,
    };
    Ok(Parts {
        numbers: Arc::new(numbers),
        local,
        columns,
    })
}
