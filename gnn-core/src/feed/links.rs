//! Seeds of batches of edges: the ends of the edges and of the pairs drawn beside them.

use crate::dataset::Pair;
use crate::error::Result;
use crate::head::PairBatch;
use crate::sample::{Compact, Nearby, TrainEdges, Without};
use kernels::pairs::Pairs;
use std::ops::Range;
use std::sync::Arc;

/// What pairs are drawn for.
pub(crate) enum PairsOf {
    /// All ranks' edges, by the data set's ids.
    Edges(TrainEdges),
    /// All vertices, by what is near to them.
    Vertices(Nearby),
}

/// The edges, or the vertices, that a rank trains on.
pub(crate) struct EdgeSeeds {
    pub(crate) pairs: PairsOf,
    /// This rank's: positions among the edges, or the data set's ids.
    pub(crate) mine: Vec<u32>,
    /// The number of each id of the data set.
    pub(crate) numbers: Arc<Vec<u32>>,
    /// Whether blocks are drawn as if the graph did not have a batch's edges.
    pub(crate) exclude: bool,
}

/// One batch of them.
pub(super) struct EdgeBatch {
    /// Numbers of the distinct ends, in the order of their first appearance.
    pub(super) seeds: Vec<u32>,
    pub(super) pairs: PairBatch,
    pub(super) without: Option<Without>,
}

impl EdgeSeeds {
    /// This rank's edges, or vertices, at `places`.
    pub(super) fn at(&self, places: &[u32]) -> Vec<u32> {
        places.iter().map(|&k| self.mine[k as usize]).collect()
    }

    /// Pairs that are joined, of `some` of a batch's edges or vertices.
    pub(super) fn positives(&self, epoch: u64, batch: &[u32], some: Range<usize>) -> Vec<Pair> {
        match &self.pairs {
            PairsOf::Edges(all) => all.positives(&batch[some]),
            PairsOf::Vertices(all) => all.positives(epoch, &batch[some]),
        }
    }

    /// Pairs that are not, of `some` of a batch's edges or vertices.
    pub(super) fn negatives(&self, epoch: u64, batch: &[u32], some: Range<usize>) -> Vec<Pair> {
        match &self.pairs {
            PairsOf::Edges(all) => all.negatives(epoch, batch, some).negatives,
            PairsOf::Vertices(all) => all.negatives(epoch, &batch[some]),
        }
    }

    /// Numbers of the ends of some pairs, one pair after the other.
    pub(super) fn ends<'a>(&'a self, pairs: &'a [Pair]) -> impl Iterator<Item = u32> + 'a {
        pairs.iter().flatten().map(|&v| self.numbers[v as usize])
    }

    /// The batch that has these pairs.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for more pairs than can be numbered.
    pub(super) fn batch(
        &self,
        (positives, negatives): (&[Pair], &[Pair]),
        compact: &mut Compact,
    ) -> Result<EdgeBatch> {
        let mut ends: Vec<u32> = self.ends(positives).chain(self.ends(negatives)).collect();
        let seeds = compact.number(self.numbers.len(), &[], &mut ends);
        let count = positives.len() + negatives.len();
        let pairs = ends.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
        let labels = (0..count).map(|k| u8::from(k < positives.len()));
        Ok(EdgeBatch {
            pairs: PairBatch {
                pairs: Pairs::new(seeds.len(), pairs)?,
                labels: labels.collect::<Vec<_>>().into(),
                all: vec![true; count].into(),
            },
            seeds,
            without: self.exclude.then(|| Without::new(positives)),
        })
    }
}

/// The number of each id, where `ids` are those of the numbers.
pub(crate) fn number_of_ids(ids: &[u32]) -> Vec<u32> {
    let mut numbers = vec![0; ids.len()];
    for (&id, number) in ids.iter().zip(0..) {
        numbers[id as usize] = number;
    }
    numbers
}
