//! Batches for link prediction: edges, pairs without an edge beside them, and blocks for the ends of both.
//!
//! # Paper
//! That a model must not see the edge it is asked about: Zhang & Chen, "Link prediction based on graph
//! neural networks", NeurIPS 2018, <https://arxiv.org/abs/1802.09691>.

use super::draw::Draw;
use super::{Compact, MiniBatch, Negatives, Sampler};
use crate::dataset::Pair;
use crate::error::{Error, Result};
use crate::rng::{self, Purpose};
use kernels::hash;
use kernels::par::Par;
use std::ops::Range;

/// Where the pairs without an edge come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negative {
    /// So many an edge, both ends anywhere, as [`Negatives`] draws them: they depend on the edge alone.
    Uniform(u32),
    /// So many an edge: its first end with the second ends of other edges of the batch. Fewer where
    /// these are edges too.
    InBatch(u32),
}

/// Edges and pairs, and the batch of their ends.
#[derive(Debug, Clone)]
pub struct LinkBatch {
    /// Its seeds are the distinct ends, in the order in which `positives` and then `negatives` have them.
    pub batch: MiniBatch,
    /// The edges, as positions among the seeds.
    pub positives: Vec<Pair>,
    /// Pairs without an edge, likewise; those beside an edge follow each other.
    pub negatives: Vec<Pair>,
    /// By negative, the positive that it is beside.
    pub beside: Vec<u32>,
}

/// Draws batches of the edges that a model is trained on.
///
/// The blocks have neither the edges of the batch nor their reverses, everything else is as
/// if the graph did not have them. Weights of the graph stay what they were.
pub struct Links {
    sampler: Sampler,
    edges: TrainEdges,
}

/// The edges that a model is trained on, and how pairs without an edge are drawn beside them.
pub(crate) struct TrainEdges {
    train: Vec<Pair>,
    known: Negatives,
    negative: Negative,
    seed: u64,
}

/// Pairs without an edge, and by each the positive of the batch that it is beside. Those beside one follow each
/// other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) negatives: Vec<Pair>,
    pub(crate) beside: Vec<u32>,
}

impl TrainEdges {
    /// The edges `train` of a graph of `n` vertices.
    pub(crate) fn new(n: usize, train: Vec<Pair>, negative: Negative, seed: u64) -> TrainEdges {
        TrainEdges {
            known: Negatives::new(n, &train, seed),
            train,
            negative,
            seed,
        }
    }

    /// The pairs of some edges, which are positions among those to train on.
    pub(crate) fn positives(&self, edges: &[u32]) -> Vec<Pair> {
        edges.iter().map(|&e| self.train[e as usize]).collect()
    }

    /// What is drawn in an epoch beside `some` of a batch's edges: the same whatever is drawn for the others.
    pub(crate) fn negatives(&self, epoch: u64, edges: &[u32], some: Range<usize>) -> Beside {
        match self.negative {
            Negative::Uniform(k) => self.uniform(epoch, edges, some, k as usize),
            Negative::InBatch(k) => self.in_batch(epoch, edges, some, k as usize),
        }
    }
}

impl Links {
    /// Batches of the edges `train`, whose ends are vertices of the sampler's graph.
    ///
    /// # Errors
    /// [`Error::Shape`] for an end that is no vertex.
    pub fn new(sampler: Sampler, train: Vec<Pair>, negative: Negative) -> Result<Links> {
        let n = sampler.graph.n_dst;
        if let Some(v) = train.iter().flatten().find(|&&v| v as usize >= n) {
            return Err(Error::Shape {
                op: "edges to train on".into(),
                expected: format!("ends below {n}"),
                got: v.to_string(),
            });
        }
        let edges = TrainEdges::new(n, train, negative, sampler.seed);
        Ok(Links { sampler, edges })
    }

    /// The batch of some edges, as positions among those to train on, that has the number `batch` in its
    /// epoch.
    ///
    /// # Errors
    /// [`Error::Shape`] for an edge that is not there; as [`Sampler::batch`].
    pub fn batch(
        &self,
        (epoch, batch): (u64, u64),
        edges: &[u32],
        par: &Par,
        compact: &mut Compact,
    ) -> Result<LinkBatch> {
        let count = self.edges.train.len();
        if let Some(e) = edges.iter().find(|&&e| e as usize >= count) {
            return Err(Error::Shape {
                op: "edges of a batch".into(),
                expected: format!("numbers below {count}"),
                got: e.to_string(),
            });
        }
        let positives = self.edges.positives(edges);
        let Beside { negatives, beside } = self.edges.negatives(epoch, edges, 0..edges.len());
        let ends = positives.iter().chain(&negatives).flatten();
        let mut ends: Vec<u32> = ends.copied().collect();
        let seeds = compact.number(self.sampler.graph.n_src, &[], &mut ends);
        let without = Without::new(&positives);
        let batch = self.sampler.batch_by(&seeds, compact, |layer, rows| {
            let at = (epoch, batch);
            self.sampler
                .draw_without(layer, at, rows, Some(&without), par)
        })?;
        let mut pairs: Vec<Pair> = ends.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
        let negatives = pairs.split_off(positives.len());
        Ok(LinkBatch {
            batch,
            positives: pairs,
            negatives,
            beside,
        })
    }
}

impl TrainEdges {
    fn uniform(&self, epoch: u64, edges: &[u32], some: Range<usize>, k: usize) -> Beside {
        let drawn = edges[some.clone()].iter().flat_map(|&e| {
            let first = e as usize * k;
            self.known.draw(epoch, first..first + k)
        });
        let beside = some.flat_map(|p| std::iter::repeat_n(p as u32, k));
        Beside {
            negatives: drawn.collect(),
            beside: beside.collect(),
        }
    }

    fn in_batch(&self, epoch: u64, edges: &[u32], some: Range<usize>, k: usize) -> Beside {
        let key = rng::key(self.seed, epoch, Purpose::Negative, 1);
        let (mut drawn, mut draw) = (Beside::default(), Draw::default());
        let pair_of = |p: usize| self.train[edges[p] as usize];
        for p in some {
            draw.distinct(hash::row(key, edges[p]), edges.len() - 1, k);
            for &other in &draw.picked {
                // All but the edge itself.
                let other = other as usize + usize::from(other as usize >= p);
                let pair = [pair_of(p)[0], pair_of(other)[1]];
                if pair[0] != pair[1] && !self.known.known(pair) {
                    drawn.negatives.push(pair);
                    drawn.beside.push(p as u32);
                }
            }
        }
        drawn
    }
}

/// Edges that are as if the graph did not have them: (row, source), ascending.
#[derive(Debug)]
pub(crate) struct Without(Vec<[u32; 2]>);

impl Without {
    /// Edges as rows with their sources.
    pub(crate) fn of_rows(mut edges: Vec<[u32; 2]>) -> Without {
        edges.sort_unstable();
        Without(edges)
    }

    /// Both directions of some edges.
    pub(crate) fn new(edges: &[Pair]) -> Without {
        let both = edges.iter().flat_map(|&[u, v]| [[u, v], [v, u]]);
        let mut both: Vec<[u32; 2]> = both.collect();
        both.sort_unstable();
        both.dedup();
        Without(both)
    }

    /// Those of row `v`.
    pub(crate) fn of(&self, v: u32) -> &[[u32; 2]] {
        let rest = &self.0[self.0.partition_point(|pair| pair[0] < v)..];
        &rest[..rest.partition_point(|pair| pair[0] == v)]
    }
}

#[cfg(test)]
mod tests;
