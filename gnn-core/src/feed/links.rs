//! Seeds of batches of edges: the ends of the edges and of the pairs drawn beside them.

use crate::error::Result;
use crate::head::PairBatch;
use crate::sample::{Beside, Compact, Nearby, TrainEdges, Without};
use kernels::pairs::Pairs;
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
    /// The batch of this rank's edges, or vertices, at `places`.
    pub(super) fn batch(
        &self,
        epoch: u64,
        places: &[u32],
        compact: &mut Compact,
    ) -> Result<EdgeBatch> {
        let edges: Vec<u32> = places.iter().map(|&k| self.mine[k as usize]).collect();
        let Beside {
            positives,
            negatives,
            ..
        } = match &self.pairs {
            PairsOf::Edges(all) => all.draw(epoch, &edges),
            PairsOf::Vertices(all) => all.draw(epoch, &edges),
        };
        let ends = positives.iter().chain(&negatives).flatten();
        let mut ends: Vec<u32> = ends.map(|&v| self.numbers[v as usize]).collect();
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
            without: self.exclude.then(|| Without::new(&positives)),
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
