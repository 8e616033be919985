//! Halobook's core: models, communication, strategies and [`work()`], the only loop over epochs. What
//! is trained on lies in a crate below, [`gnn_data`], and has its names here too.
//!
//! The core knows no process, no Jupyter and no Polars. A [`plan::Plan`] comes in, rows leave
//! through a [`record::Recorder`]; nothing else crosses the boundary.
//!
//! # Floors
//! A module knows those below it, and none above or beside it on its floor
//! (`tests/floors.rs` holds every arrow to that):
//!
//! ```text
//!  work   rehearsal   profiling   the loop · the same without computing · with every operation timed
//!  evaluation   embeddings   what a strategy's weights are worth · what they make of each vertex
//!  strategy                  schedules over layers and ranks, one folder or file each
//!  feed                      mini-batches made ahead
//!  head                      losses and metrics
//!  model   device            layers with exact backward · a budget beside the host
//!  patience
//!  checkpoint                what a run goes on from
//!  ctx                       a rank's hands
//!  backend   comm            operations · messages
//!  plan
//!  spec   record   sample    what is asked · what happened · what is drawn
//!  ───────────────────────────────────────────────────────────────
//!  gnn-data                  dataset, graph, partition, store, convert
//!  kernels                   loops over slices
//! ```
//!
//! Reading a request needs the registry, since an entry lists the settings that a request may have:
//! [`RunSpec::from_pairs`](spec::RunSpec::from_pairs) is written beside the registry, in [`strategy`].
//!
//! | module | one idea |
//! |---|---|
//! | [`spec`] | what the user wrote: one table of keys, parsed once |
//! | [`plan`] | what will happen: everything refusable is refused before this exists |
//! | [`graph`], [`dataset`], [`partition`] | what is trained on, and how it is cut |
//! | [`convert`] | edge lists of any length to that form, within bounded memory |
//! | [`store`] | the project's own form of it on disk, mapped into memory |
//! | [`backend`] | matrices and the operations on them |
//! | [`device`] | a budget of device memory, and what crosses between it and the host |
//! | [`comm`] | ranks and messages |
//! | [`sample`], [`feed`] | mini-batches drawn from it, and made ahead with their features |
//! | [`model`] | layers with hand-written exact backward passes |
//! | [`head`] | losses and metrics of the tasks |
//! | [`strategy`] | schedules over layers and ranks |
//! | [`evaluation`] | what the weights of a strategy are worth |
//! | [`embeddings`] | what they make of every vertex, in a file a rank |
//! | [`record`] | rows, phases, status pages |
//! | [`checkpoint`] | what a run needs to go on later, on disk |
//! | [`work()`] | the loop |
//! | [`rehearse()`] | the same without computing: what a run will send and hold |
//! | [`profile()`] | a few epochs with every operation timed, and what it needs at least |

pub mod backend;
pub mod checkpoint;
pub mod comm;
pub mod ctx;
pub mod device;
pub mod embeddings;
pub mod evaluation;
pub mod feed;
pub mod head;
pub mod model;
mod patience;
pub mod plan;
mod profiling;
pub mod record;
mod rehearsal;
pub mod sample;
pub mod spec;
pub mod strategy;
mod work;

/// Features, labels and splits, from files of many forms or generated.
pub mod dataset {
    pub use gnn_data::dataset::*;
    pub use gnn_data::load::*;
}

#[cfg(test)]
mod testing;

#[doc(hidden)]
pub use gnn_data::at_random;
pub use gnn_data::{Error, Result, convert, error, graph, memory, partition, rng, store};
pub use profiling::{Profile, profile};
pub use rehearsal::{Rehearsed, parameters, rehearse};
pub use work::{DIVERGED, Outcome, PART_FILES, World, work};
