//! Feeds: mini-batches with their features in place, made in the background.
//!
//! | module | one idea |
//! |---|---|
//! | `seeds` | which vertices each rank trains on, and in which batch of an epoch |
//! | `links` | seeds of batches of edges |
//! | `shard` | a rank's part of the graph, with numbers that name a vertex's owner |
//! | `cut` | that part, made from the graph without a copy of the whole |
//! | `expect` | how large batches will be, before any is drawn |
//! | `rows` | feature rows, and how they travel |
//! | `cache` | rows of others that are worth keeping |
//! | `server` | answers other ranks: neighbours drawn, rows looked up |
//! | `gather` | one hop, or the rows of some vertices, from whichever ranks own them |
//! | `collect` | what a hop reads, from wherever it lies |
//! | `make` | a whole batch out of those |
//! | `pieces` | how a rank's rows are taken in pieces that fit beside them |
//! | `hidden` | what layers have made, for other ranks to read |
//! | `layerwise` | outputs of all of a rank's vertices, exactly, a piece at a time |
//! | `table` | learnt rows at their owner |
//! | `learnt` | those as training reads and changes them |
//! | `queue` | batches made ahead by threads beside the one that trains |
//! | `prefetched` | those, with their features on the device |
//!
//! A strategy trains on whatever implements [`Feed`]. What is drawn does not depend on ranks, threads
//! or how far ahead it is drawn ([`crate::sample`]).

mod cache;
mod collect;
mod cut;
mod expect;
mod gather;
mod hidden;
mod layerwise;
mod learnt;
mod links;
mod make;
mod pieces;
mod prefetched;
mod queue;
mod rows;
mod seeds;
mod server;
mod shard;
mod stats;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use cache::{Cache, Room, presample};
pub(crate) use collect::{Collector, Wants};
pub(crate) use cut::{Ownership, cut};
pub(crate) use expect::{Draws, Expected};
pub(crate) use gather::Reach;
pub(crate) use hidden::Hidden;
pub(crate) use layerwise::Layerwise;
pub(crate) use learnt::Learnt;
pub(crate) use links::{EdgeSeeds, number_of_ids};
pub(crate) use make::Maker;
pub(crate) use pieces::{LEAST, Pieces};
pub(crate) use prefetched::Prefetched;
pub(crate) use rows::RowData;
pub(crate) use seeds::Seeds;
pub(crate) use server::{SERVER, Served, Server};
pub(crate) use shard::{Numbers, Shard};
pub use stats::{BatchRow, HopRow, HopStats, Stats};
pub(crate) use table::{Learning, RowOptimiser, Table};

use crate::backend::Write;
use crate::backend::{Kept, Mat};
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::Result;
use crate::graph::Block;
use crate::head::PairBatch;
use crate::model::{Aggregate, At, Edges, Input};
use crate::record::Direction;

/// A mini-batch, ready to be trained on.
pub struct Batch {
    /// Its number in the epoch.
    pub step: u64,
    /// What the first layer reads.
    pub input: Input,
    /// The blocks, and the dataset's ids of their columns.
    pub hops: Hops,
    /// The seeds with their labels; `train_total` counts the terms of the loss of all ranks in this step.
    pub rows: Rows,
    /// Where links are predicted, pairs of seeds.
    pub pairs: Option<PairBatch>,
}

/// The blocks of a batch: how its layers reach other vertices.
pub struct Hops {
    /// By layer; none for a first layer whose aggregate is known.
    pub blocks: Vec<Option<Block>>,
    /// By layer, the dataset's ids of its block's columns; those of the seeds follow.
    pub ids: Vec<Kept<u32>>,
}

/// Where batches come from. The narrowest seam for strategies that sample.
pub trait Feed {
    /// Number of batches in each epoch, the same on every rank.
    fn batches(&self) -> u64;

    /// Batch `step` of this epoch, with its features in place. Every rank takes all of them in order.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch>;

    /// May change the output of layer `layer` before the next one reads it, such as rows of vertices
    /// whose neighbours were not drawn: `h: [n_dst, d]`.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn patch(&mut self, _cx: &mut Ctx, _batch: &Batch, _layer: usize, h: Input) -> Result<Input> {
        Ok(h)
    }

    /// Whether some of the input is learnt, so that its gradient is wanted.
    fn learns(&self) -> bool {
        false
    }

    /// Takes the gradient of the input of batch `step`, `[n, d]`, before the next one is asked for.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn learn(&mut self, _cx: &mut Ctx, _step: u64, _gradient: Mat) -> Result<()> {
        Ok(())
    }

    /// The input of all of this rank's vertices where it has changed; called outside epoch time.
    /// Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn whole(&mut self, _cx: &mut Ctx) -> Result<Option<kernels::Mat>> {
        Ok(None)
    }

    /// Adds what this rank's vertices have learnt to `state`. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn save(&mut self, _cx: &mut Ctx, _state: &mut State) -> Result<()> {
        Ok(())
    }

    /// Takes it back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when something is missing.
    fn restore(&mut self, _state: &mut State) -> Result<()> {
        Ok(())
    }

    /// The epoch is over: writes rows of its own to the frames.
    fn close(&mut self, _cx: &mut Ctx) {}
}

impl Hops {
    fn block(&self, layer: usize) -> &Block {
        let block = self.blocks[layer].as_ref();
        block.expect("only a first layer whose aggregate is known has none")
    }
}

impl Aggregate for Hops {
    fn edges(&mut self, at: At) -> Option<Edges<'_>> {
        let block = self.blocks[at.layer].as_ref()?;
        Some(Edges {
            block,
            n_interior: block.n_dst,
            ids: &self.ids[at.layer],
            neighbours: None,
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let block = self.block(at.layer);
        let a = match at.direction {
            Direction::Backward => block.edges_t(),
            _ => block.edges(),
        };
        let mut out = cx.backend.fresh(a.rows(), x.ncols());
        cx.backend.spmm(a, 0..a.rows(), x, Write::Set, &mut out);
        cx.comm.poll()?;
        Ok(out)
    }
}
