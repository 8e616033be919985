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
//! | `inclusion` | how likely a batch reads each vertex |
//! | `server` | answers other ranks: neighbours drawn, rows looked up |
//! | `wire` | what ranks ask each other for, as messages |
//! | `desk` | a thread's requests and their answers, in any order |
//! | `task` | one hop, or the rows of some vertices, from whichever ranks own them |
//! | `reach` | what a thread reaches, alone or by asking |
//! | `collect` | what a hop reads, from wherever it lies |
//! | `in_place` | the same for features that are summed where they lie |
//! | `hops` | a batch as layers run on it |
//! | `make` | a whole batch: where it begins, and what it is in the end |
//! | `making` | what happens between, as far as answers have come |
//! | `pieces` | how a rank's rows are taken in pieces that fit beside them |
//! | `hidden` | what layers have made, for other ranks to read |
//! | `historical` | rows of others that are there from earlier steps |
//! | `layerwise` | outputs of all of a rank's vertices, exactly, a piece at a time |
//! | `table` | learnt rows at their owner |
//! | `learnt` | those as training reads and changes them |
//! | `launch` | when batches are begun |
//! | `queue` | batches made ahead by threads beside the one that trains |
//! | `board` | what those threads know of each other: who begins what, and what waits for its turn |
//! | `pool` | threads that share every batch, split into small operations |
//! | `on_device` | what a layer reads, on the device |
//! | `prefetched` | batches out of a queue, with their features on the device |
//!
//! A strategy trains on whatever implements [`Feed`]. What is drawn does not depend on ranks, threads
//! or how far ahead it is drawn ([`crate::sample`]).

mod board;
mod cache;
mod collect;
mod cut;
mod desk;
mod expect;
mod hidden;
mod historical;
mod hops;
mod in_place;
mod inclusion;
mod launch;
mod layerwise;
mod learnt;
mod links;
mod make;
mod making;
mod on_device;
mod pieces;
mod pool;
mod prefetched;
mod queue;
mod reach;
mod rows;
mod seeds;
mod server;
mod shard;
mod stats;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use cache::{Cache, Room, presample};
#[cfg(test)]
pub(crate) use collect::MadeInput;
pub(crate) use collect::{Collector, Wants};
pub(crate) use cut::{Ownership, cut};
pub(crate) use desk::Desk;
pub(crate) use expect::{Draws, Expected};
pub(crate) use hidden::Hidden;
pub(crate) use historical::{Historical, SharedHistory};
pub use hops::{Batch, Hops, LayerBlock, Leaves};
pub(crate) use inclusion::{DrawnHow, inclusion};
pub(crate) use launch::{BatchRange, Flight, How, Launcher, Launching};
pub(crate) use layerwise::Layerwise;
pub(crate) use learnt::Learnt;
pub(crate) use links::{EdgeSeeds, PairsOf, number_of_ids};
#[cfg(test)]
pub(crate) use make::MadeBatch;
pub(crate) use make::Maker;
pub(crate) use pieces::{LEAST, Pieces};
pub(crate) use pool::{PoolSettings, Split};
pub(crate) use prefetched::Prefetched;
pub(crate) use reach::{Halo, Reach};
pub(crate) use rows::RowData;
pub(crate) use seeds::{SeedChoice, Seeds, SeedsBy};
pub(crate) use server::{SERVER, Served, Server, Turn};
pub(crate) use shard::{Numbers, Shard};
pub use stats::{BatchRow, HopRow, HopStats, LaunchRow, Stats};
pub(crate) use table::{Learning, RowOptimiser, Table};

use crate::backend::Mat;
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::Input;
use std::sync::Arc;

/// Rows of some numbers that other ranks own, `[numbers, d]`.
pub(crate) type ExactRows<'a> = dyn FnMut(&[u32]) -> Result<Arc<kernels::Mat>> + 'a;

/// Where batches come from. The narrowest seam for strategies that sample.
pub trait Feed {
    /// Number of batches in each epoch, the same on every rank.
    fn batches(&self) -> u64;

    /// Step `step` of this epoch is about to be made.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn begin_step(&mut self, _cx: &mut Ctx, _step: u64) -> Result<()> {
        Ok(())
    }

    /// Batch `step` of this epoch, with its features in place. Every rank takes all of them in order.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch>;

    /// Who changes what layers read; none where layers read what the batch says.
    fn patcher(&mut self) -> Option<&mut dyn Patch> {
        None
    }

    /// Step `step` is over on this rank: its weights have changed, its batch is gone. Every rank says so,
    /// in order.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn end_step(&mut self, _cx: &mut Ctx, _step: u64) -> Result<()> {
        Ok(())
    }

    /// Whether it wants to see exact rows when an epoch has ended.
    fn compares(&self) -> bool {
        false
    }

    /// Sees what layer `layer`, not the first, would read by the weights that the epoch ended with, from whole
    /// neighbourhoods and without dropout: `exact` gives the rows of some numbers that other ranks own. Every rank
    /// is asked for every layer.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn compare(&mut self, _layer: usize, _exact: &mut ExactRows<'_>) -> Result<()> {
        Ok(())
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

/// Changes what the layers of a batch read, before each of them.
///
/// # Laws
/// For every layer, block and h, `patch` is a linear map of h and rows that do not depend on it, and
/// `unpatch` is the exact adjoint of the map: ⟨patch h − patch 0, g⟩ = ⟨h, unpatch g⟩ for every g.
pub trait Patch {
    /// What layer `layer` reads, `[columns, d]`, one row for each column of its block as it then is, out of
    /// what the layer below has made (the input, for the first), `h: [rows below, d]`, activation and
    /// dropout included. Appends rows for the columns that follow the rows below, and brings
    /// those of [leaves](Leaves) that are no columns.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn patch(&mut self, cx: &mut Ctx, hops: &mut Hops, layer: usize, h: Input) -> Result<Input>;

    /// The gradient of `h: [rows below, d]` out of that of what `patch` made of it, `g: [columns, d]`.
    /// Layers are asked last first; the first only where its input is learnt.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn unpatch(&mut self, cx: &mut Ctx, layer: usize, g: Mat) -> Result<Mat>;
}
