//! A whole batch: its blocks, its features, its labels.

use super::collect::{Collector, MadeInput};
use super::links::EdgeSeeds;
use super::seeds::Seeds;
use super::stats::{HopStats, Stats};
use crate::backend::Kept;
use crate::dataset::Rows;
use crate::error::Result;
use crate::graph::Block;
use crate::head::PairBatch;
use crate::record::now_ns;
use crate::sample::Without;
use std::sync::Arc;

/// A batch that a thread has made for another.
pub(crate) struct Made {
    pub(crate) step: u64,
    pub(crate) input: MadeInput,
    pub(crate) blocks: Vec<Option<Block>>,
    pub(crate) ids: Vec<Kept<u32>>,
    /// Where some of the input is learnt, the numbers of its rows.
    pub(crate) read: Vec<u32>,
    pub(crate) rows: Rows,
    pub(crate) pairs: Option<PairBatch>,
    pub(crate) stats: Stats,
}

/// Makes batches, one after the other.
pub(crate) struct Maker {
    pub(crate) collector: Collector,
    pub(crate) seeds: Arc<Seeds>,
    /// Of the seeds, in their order.
    pub(crate) labels: Arc<Rows>,
    /// Where links are predicted, the edges that [`Maker::seeds`] are the first ends of.
    pub(crate) links: Option<Arc<EdgeSeeds>>,
    /// The order of the seeds in an epoch.
    pub(crate) order: Option<(u64, Vec<u32>)>,
}

/// Numbers of the rows of a batch's last block, their labels, pairs of them and edges that are left out
/// where links are predicted, and how many seeds or edges it has.
type Begun = (Vec<u32>, Rows, Option<PairBatch>, Option<Without>, usize);

impl Maker {
    /// Batch `step` of `epoch`.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn make(&mut self, epoch: u64, step: u64) -> Result<Made> {
        let start = now_ns();
        self.collector.reach.wait_ns = 0;
        self.collector.reach.epoch = epoch;
        let (mut rows, labels, pairs, without, seeds) = self.begin(epoch, step)?;
        let layers = self.collector.wants.layers;
        let mut stats = Stats {
            batches: 1,
            seeds: seeds as u64,
            ..Stats::new(layers)
        };
        let (mut blocks, mut levels) = (Vec::with_capacity(layers), vec![rows.clone()]);
        let mut input = None;
        for layer in (0..layers).rev() {
            let (hop, remote) =
                self.collector
                    .reach
                    .hop(layer, (epoch, step), &rows, without.as_ref())?;
            stats.drawn_remote += remote as u64;
            stats.hops[layer] = HopStats {
                rows: rows.len() as u64,
                columns: 0,
                edges: hop.sources.len() as u64,
            };
            if layer == 0 && self.collector.wants.in_place {
                stats.draw_ns = now_ns() - start - self.collector.reach.wait_ns;
                self.collector.count_local(&hop.sources, &rows, &mut stats);
                input = Some(self.collector.in_place(hop, &rows, &mut stats)?);
                blocks.push(None);
                break;
            }
            let (block, columns) = self.collector.block(hop, &rows)?;
            // What backward will ask of it is made here, beside the thread that trains.
            block.edges_t();
            if self.collector.wants.edge_places {
                block.t_of()?;
            }
            stats.hops[layer].columns = columns.len() as u64;
            blocks.push(Some(block));
            levels.push(columns.clone());
            rows = columns;
        }
        let input = match input {
            Some(input) => input,
            None => {
                stats.draw_ns = now_ns() - start - self.collector.reach.wait_ns;
                match self.collector.wants.features {
                    true => self.collector.rows_of(&rows, &mut stats)?,
                    false => MadeInput::Nothing,
                }
            }
        };
        stats.wait_ns = self.collector.reach.wait_ns;
        stats.collect_ns = (now_ns() - start).saturating_sub(stats.draw_ns + stats.wait_ns);
        blocks.reverse();
        if levels.len() == layers {
            // A block in place has no columns of its own.
            levels.push(Vec::new());
        }
        let ids = &self.collector.reach.shard.numbers.ids;
        let named = levels.iter().rev().map(|level| {
            let ids: Vec<u32> = level.iter().map(|&v| ids[v as usize]).collect();
            Kept::from(ids)
        });
        Ok(Made {
            step,
            input,
            blocks,
            ids: named.collect(),
            read: if self.collector.wants.learnt {
                rows
            } else {
                Vec::new()
            },
            rows: labels,
            pairs,
            stats,
        })
    }

    /// Where a batch begins.
    fn begin(&mut self, epoch: u64, step: u64) -> Result<Begun> {
        if self.order.as_ref().is_none_or(|o| o.0 != epoch) {
            self.order = Some((epoch, self.seeds.order(epoch)));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        let places = order[self.seeds.of_batch(step)].to_vec();
        let total = self.seeds.total(step);
        let begun = match &self.links {
            None => {
                let mine = self.seeds.mine();
                let rows: Vec<u32> = places.iter().map(|&k| mine[k as usize]).collect();
                (
                    rows,
                    self.labels.pick(&places, total),
                    None,
                    None,
                    places.len(),
                )
            }
            Some(links) => {
                let batch = links.batch(epoch, &places, &mut self.collector.compact)?;
                let mut labels = self.labels.pick(&[], 0);
                labels.train_total = total * self.labels.train_total;
                let (pairs, without) = (Some(batch.pairs), batch.without);
                (batch.seeds, labels, pairs, without, places.len())
            }
        };
        Ok(begun)
    }

    /// The numbers, each once, whose feature rows batch `step` of `epoch` has to fetch.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn reads(&mut self, epoch: u64, step: u64) -> Result<Vec<u32>> {
        let (mut rows, _, _, without, _) = self.begin(epoch, step)?;
        let n = self.collector.reach.shard.numbers.ids.len();
        for layer in (0..self.collector.wants.layers).rev() {
            let at = (epoch, step);
            let (mut hop, _) = self
                .collector
                .reach
                .hop(layer, at, &rows, without.as_ref())?;
            rows = self.collector.compact.number(n, &rows, &mut hop.sources);
        }
        rows.retain(|&v| self.collector.place(v).is_none());
        Ok(rows)
    }
}
