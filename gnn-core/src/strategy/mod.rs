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
pub mod written;

mod broadcast;
mod depcache;
mod distdgl;
mod halo;
mod neutrontp;
mod sancus;
pub(crate) mod single;

pub use crate::model::Neighbours;
pub use crate::spec::{Knob, Knobs};
pub use entry::{Determinism, Entry, Exact};
pub use full_graph::{FullGraph, OverBlock};
pub(crate) use ordered::reorders;

use crate::backend::{Kept, Mat};
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Links, Pair};
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

    /// The last epoch's weight gradients, summed over ranks: layers in order, tensors in order.
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
    /// Owner of each vertex; none for one rank, and for a strategy that cuts by itself.
    pub owner: Option<Arc<Vec<u32>>>,
}

/// A rank's own rows of the data set.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Global vertex ids.
    pub ids: Kept<u32>,
    /// Class of each, −1 for none.
    pub labels: Kept<i32>,
    /// Which are trained on.
    pub train: Kept<bool>,
    /// Which choose the epoch.
    pub val: Kept<bool>,
    /// Which are reported.
    pub test: Kept<bool>,
    /// Terms of the loss of all ranks: training vertices, times classes where a vertex may have
    /// several, or pairs of vertices for links.
    pub train_total: usize,
    /// 1 for each class of a row that may have several, else 0: `[n_local · classes]`.
    pub multi_labels: Option<Kept<u8>>,
    /// Links to be predicted.
    pub links: Option<Arc<Links>>,
}

impl Rows {
    /// The rows `ids` of a data set.
    pub fn of(data: &Dataset, ids: &[u32]) -> Rows {
        let classes = data.n_classes;
        let multi = |of: &Vec<u8>| -> Kept<u8> {
            let row = |&v: &u32| of[v as usize * classes..][..classes].iter().copied();
            ids.iter().flat_map(row).collect::<Vec<_>>().into()
        };
        let train = data.train.iter().filter(|&&t| t).count();
        let train_total = match &data.links {
            Some(links) => links.train.len() * (1 + links.negatives),
            None if data.multi_labels.is_some() => train * classes,
            None => train,
        };
        let pick = |mask: &[bool]| -> Kept<bool> {
            let of = |&v: &u32| mask[v as usize];
            ids.iter().map(of).collect::<Vec<_>>().into()
        };
        let label = |&v: &u32| data.labels[v as usize];
        Rows {
            ids: ids.to_vec().into(),
            labels: ids.iter().map(label).collect::<Vec<_>>().into(),
            train: pick(&data.train),
            val: pick(&data.val),
            test: pick(&data.test),
            train_total,
            multi_labels: data.multi_labels.as_ref().map(multi),
            links: data.links.clone().map(Arc::new),
        }
    }

    /// Those at `places`, all of them to be trained on, beside `total` in all ranks' parts of a batch.
    pub(crate) fn pick(&self, places: &[u32], total: usize) -> Rows {
        let classes = match (&self.multi_labels, self.ids.len()) {
            (Some(labels), n) if n > 0 => labels.len() / n,
            _ => 1,
        };
        let at = places.iter().map(|&k| k as usize);
        let multi = |of: &Kept<u8>| -> Kept<u8> {
            let row = |k: usize| of[k * classes..][..classes].iter().copied();
            at.clone().flat_map(row).collect::<Vec<_>>().into()
        };
        Rows {
            ids: at.clone().map(|k| self.ids[k]).collect::<Vec<_>>().into(),
            labels: at
                .clone()
                .map(|k| self.labels[k])
                .collect::<Vec<_>>()
                .into(),
            train: vec![true; places.len()].into(),
            val: Kept::default(),
            test: Kept::default(),
            train_total: total * classes,
            multi_labels: self.multi_labels.as_ref().map(multi),
            links: None,
        }
    }

    /// Number of training vertices among them.
    pub fn train_count(&self) -> usize {
        self.train.iter().filter(|&&t| t).count()
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
mod tests;
