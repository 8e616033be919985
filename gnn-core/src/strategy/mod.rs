//! Strategies: schedules over layers and ranks, one file each.
//!
//! What full-graph strategies share is in [`full_graph`], what sampled ones share in `mini_batch`; beside
//! them are the systems.
//!
//! Adding one is a file here, its `mod` line and its entry in [`STRATEGIES`]. Listing, completion,
//! the equivalence tests and the comparison notebook read that slice. The worker takes a slice as
//! an argument, so a strategy written elsewhere needs no plug-in loading.

mod entry;
pub mod full_graph;
mod mini_batch;
mod ordered;
mod reduce;
mod request;
pub mod written;

mod broadcast;
mod bytegnn;
mod depcache;
mod distdgl;
mod distgnn_mb;
mod gnnpipe;
mod halo;
mod hongtu;
mod neutrontp;
mod sancus;
pub(crate) mod single;

pub use crate::dataset::Rows;
pub use crate::model::Neighbours;
pub use crate::spec::{Knob, Knobs};
pub use distgnn_mb::{CacheCase, CacheTimes};
pub use entry::{Determinism, Entry, Exact, ShareOut};
pub use full_graph::{FullGraph, OverBlock};
pub use ordered::order as vertex_order;
pub(crate) use ordered::reorders;

use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Pair};
use crate::error::{Error, Result};
use crate::record::{PredictedLane, RankFacts, rows::PartRow};
use std::sync::Arc;

/// Every built-in strategy.
pub const STRATEGIES: &[Entry] = &[
    single::ENTRY,
    halo::ENTRY,
    broadcast::ENTRY,
    neutrontp::ENTRY,
    sancus::ENTRY,
    sancus::SKIPG,
    depcache::ENTRY,
    distdgl::ENTRY,
    bytegnn::ENTRY,
    distgnn_mb::ENTRY,
    gnnpipe::ENTRY,
    hongtu::ENTRY,
    hongtu::IN_MEMORY,
];

/// The entry of a built-in strategy.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest known one.
pub fn find(name: &str) -> Result<&'static Entry> {
    find_in(STRATEGIES, name)
}

/// The entry of a strategy in a given slice.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest known one.
pub fn find_in<'a>(entries: &'a [Entry], name: &str) -> Result<&'a Entry> {
    entries.iter().find(|e| e.name == name).ok_or_else(|| {
        let known: Vec<&str> = entries.iter().map(|e| e.name).collect();
        Error::unknown("strategy", name, &known)
    })
}

/// How a rank trains: the widest seam.
pub trait Strategy {
    /// Runs one epoch on this rank; returns the sum of the losses of its training vertices, at the
    /// weights with which the epoch (or a vertex's batch) began.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64>;

    /// Logits of this rank's rows without dropout, `[n_local, classes]`; called outside epoch time.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat>;

    /// Scores of pairs of vertices as links, without dropout, the same on every rank; called outside
    /// epoch time, and only where links are to be predicted. Collective.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a strategy that does not score links.
    fn scores(&mut self, cx: &mut Ctx, pairs: Vec<Pair>) -> Result<Vec<f32>> {
        let _ = pairs;
        Err(crate::head::no_links(&cx.plan.spec.strategy))
    }

    /// The last epoch's weight gradients, summed over ranks: layers in order, tensors in order. Of layers
    /// that only other ranks have, matrices without rows.
    fn gradients(&self) -> Vec<&Mat>;

    /// Adds to `snapshot` all that later epochs need of the earlier ones: a strategy that is built
    /// anew and given it back goes on with the same bits. Called between epochs, on every rank.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a strategy whose entry says that it does not do this.
    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let _ = snapshot;
        Err(crate::checkpoint::unsupported(&cx.plan.spec.strategy))
    }

    /// Takes back what [`Strategy::save`] added, on every rank.
    ///
    /// # Errors
    /// As [`Strategy::save`]; [`Error::Data`] when something is missing.
    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let _ = snapshot;
        Err(crate::checkpoint::unsupported(&cx.plan.spec.strategy))
    }
}

/// What a strategy is built from. The data set is dropped once every rank is built; a rank that has it
/// alone may take parts of it.
#[derive(Clone)]
pub struct Setup {
    /// The data.
    pub data: Arc<Dataset>,
    /// Part of each vertex, which is its owner where there is one part a rank; none for one part, and for
    /// a strategy that cuts by itself ([`Entry::parts`]).
    pub owner: Option<Arc<Vec<u32>>>,
    /// The part of each vertex within its own, where parts are cut again.
    pub nested: Option<Arc<Vec<u32>>>,
}

impl Setup {
    /// Data and the parts of its vertices, none of them cut again.
    pub fn of(data: Arc<Dataset>, owner: Option<Arc<Vec<u32>>>) -> Setup {
        Setup {
            data,
            owner,
            nested: None,
        }
    }
}

/// A strategy ready to run on this rank, with what the recorder needs to know.
pub struct Built {
    /// It.
    pub strategy: Box<dyn Strategy>,
    /// This rank's rows, in the order of [`Strategy::logits`].
    pub rows: Rows,
    /// Facts for every row of the frames.
    pub facts: RankFacts,
    /// Bytes that this rank will send each epoch, from the cut and the model alone.
    pub predicted: Vec<(PredictedLane, u64)>,
    /// This rank's row of the `partition` frame.
    pub part: Option<PartRow>,
}

#[cfg(test)]
pub(crate) mod tests;
