//! A whole batch: where it begins, and what it is once its blocks, its features and its labels are there.

use super::collect::{Collector, MadeInput};
use super::hops::{Hops, LayerBlock};
use super::links::EdgeSeeds;
use super::reach::Halo;
use super::seeds::Seeds;
use super::stats::Stats;
use super::task::DrawAt;
use crate::backend::Kept;
use crate::dataset::{Pair, Rows};
use crate::error::Result;
use crate::graph::Block;
use crate::head::PairBatch;
use crate::sample::Without;
use std::sync::Arc;

/// A batch that a thread has made for another.
pub(crate) struct MadeBatch {
    pub(crate) step: u64,
    pub(crate) input: MadeInput,
    pub(crate) hops: Hops,
    /// Where some of the input is learnt, the numbers of its rows.
    pub(crate) read: Vec<u32>,
    pub(crate) rows: Rows,
    pub(crate) pairs: Option<PairBatch>,
    pub(crate) stats: Stats,
}

impl MadeBatch {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let of_layer = |layer: &LayerBlock| {
            let block = layer.block.as_ref().map_or(0, Block::bytes);
            let leaves = layer.leaves.as_ref().map_or(0, |of| of.edges.bytes());
            block + leaves + 4 * (layer.rows.len() + layer.columns.len())
        };
        let layers: usize = self.hops.layers.iter().map(of_layer).sum();
        layers + self.input.bytes() + 4 * (self.hops.inputs.len() + self.read.len())
    }
}

/// Makes batches.
pub(crate) struct Maker {
    pub(crate) collector: Collector,
    pub(crate) seeds: Arc<Seeds>,
    /// Of the seeds, in their order.
    pub(crate) labels: Arc<Rows>,
    /// Where links are predicted, the edges that [`Maker::seeds`] are the first ends of.
    pub(crate) links: Option<Arc<EdgeSeeds>>,
    /// Rows of a hop that are asked for in one go; all where there are no more.
    pub(crate) grain: usize,
    /// The order of the seeds in an epoch.
    pub(crate) order: Option<(u64, Vec<u32>)>,
}

/// Where a batch begins.
pub(super) struct Begun {
    /// Numbers of the rows of its last block.
    pub(super) rows: Vec<u32>,
    pub(super) labels: Rows,
    /// Where links are predicted, pairs of them and edges that are left out.
    pub(super) pairs: Option<PairBatch>,
    pub(super) without: Option<Without>,
    /// How many seeds or edges it has.
    pub(super) seeds: usize,
}

impl Maker {
    /// Batch `step` of `epoch`, with this thread waiting for answers.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn make(&mut self, epoch: u64, step: u64) -> Result<MadeBatch> {
        let mut making = self.start(epoch, step)?;
        loop {
            if let Some(made) = self.go_on(&mut making)? {
                return Ok(made);
            }
            self.wait(&mut making)?;
        }
    }

    /// The data set's ids of some numbers.
    pub(super) fn ids(&self, numbers: &[u32]) -> Kept<u32> {
        let ids = &self.collector.reach.shard.numbers.ids;
        let ids = numbers.iter().map(|&v| ids[v as usize]);
        ids.collect::<Vec<_>>().into()
    }

    /// Where the seeds of batch `step` of `epoch` lie among this rank's.
    pub(super) fn places(&mut self, epoch: u64, step: u64) -> Vec<u32> {
        if self.order.as_ref().is_none_or(|o| o.0 != epoch) {
            self.order = Some((epoch, self.seeds.order(epoch)));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        order[self.seeds.of_batch(step)].to_vec()
    }

    /// Where batch `step` of `epoch` begins.
    pub(super) fn begin(&mut self, epoch: u64, step: u64) -> Result<Begun> {
        let places = self.places(epoch, step);
        let Some(links) = self.links.clone() else {
            return Ok(self.begin_at(step, &places));
        };
        let (all, batch) = (0..places.len(), links.at(&places));
        let positives = links.positives(epoch, &batch, all.clone());
        let negatives = links.negatives(epoch, &batch, all);
        self.begin_of(step, &links, (places.len(), &positives, &negatives))
    }

    /// Where a batch begins whose seeds lie at `places`.
    pub(super) fn begin_at(&self, step: u64, places: &[u32]) -> Begun {
        let mine = self.seeds.mine();
        Begun {
            rows: places.iter().map(|&k| mine[k as usize]).collect(),
            labels: self.labels.pick(places, self.seeds.total(step)),
            pairs: None,
            without: None,
            seeds: places.len(),
        }
    }

    /// Where a batch begins that has so many seeds and these pairs.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for pairs that leave the vertices.
    pub(super) fn begin_of(
        &mut self,
        step: u64,
        links: &EdgeSeeds,
        (seeds, positives, negatives): (usize, &[Pair], &[Pair]),
    ) -> Result<Begun> {
        let batch = links.batch((positives, negatives), &mut self.collector.compact)?;
        let mut labels = self.labels.pick(&[], 0);
        labels.train_total = self.seeds.total(step) * self.labels.train_total;
        Ok(Begun {
            rows: batch.seeds,
            labels,
            pairs: Some(batch.pairs),
            without: batch.without,
            seeds,
        })
    }

    /// The numbers, each once, whose feature rows batch `step` of `epoch` has to fetch.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn reads(&mut self, epoch: u64, step: u64) -> Result<Vec<u32>> {
        let Begun {
            mut rows, without, ..
        } = self.begin(epoch, step)?;
        let n = self.collector.reach.shard.numbers.ids.len();
        for layer in (0..self.collector.wants.layers).rev() {
            let of = DrawAt {
                layer,
                at: (epoch, step),
                without: without.as_ref(),
            };
            let (mut hop, _) = self.collector.reach.hop(of, &rows)?;
            rows = self.collector.compact.number(n, &rows, &mut hop.sources);
            if layer > 0 && self.collector.reach.halo == Halo::Leaves {
                let shard = &self.collector.reach.shard;
                let own = shard.numbers.of(shard.rank);
                rows.retain(|v| own.contains(v));
            }
        }
        rows.retain(|&v| self.collector.place(v).is_none());
        Ok(rows)
    }
}
