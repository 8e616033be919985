//! Halobook's core: models, communication, strategies and [`work()`], the only loop over epochs. What
//! is trained on lies in a crate below, [`gnn_data`], and has its names here too.
//!
//! The core knows no process, no Jupyter and no Polars. A [`plan::Plan`] comes in, rows leave
//! through a [`record::Recorder`]; nothing else crosses the boundary.
//!
//! | module | one idea |
//! |---|---|
//! | [`spec`] | what the user wrote: one table of keys, parsed once |
//! | [`plan`] | what will happen: everything refusable is refused before this exists |
//! | [`graph`], [`dataset`], [`partition`] | what is trained on, and how it is cut |
//! | [`convert`] | edge lists of any length to that form, within bounded memory |
//! | [`store`] | the project's own form of it on disk, mapped into memory |
//! | [`backend`] | matrices and the dozen operations on them |
//! | [`device`] | a budget of device memory, and what crosses between it and the host |
//! | [`comm`] | ranks and messages |
//! | [`sample`], [`feed`] | mini-batches drawn from it, and made ahead with their features |
//! | [`model`] | layers with hand-written exact backward passes |
//! | [`head`] | losses and metrics of the tasks |
//! | [`strategy`] | schedules over layers and ranks, one file each |
//! | [`evaluation`] | what the weights of a strategy are worth |
//! | [`record`] | rows, phases, status pages |
//! | [`checkpoint`] | what a run needs to go on later, on disk |
//! | [`work()`] | the loop |
//! | [`rehearse()`] | the same without computing: what a run will send and hold |

pub mod backend;
pub mod checkpoint;
pub mod comm;
pub mod ctx;
pub mod device;
pub mod evaluation;
pub mod feed;
pub mod head;
pub mod model;
mod patience;
pub mod plan;
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

pub use gnn_data::{Error, Result, convert, error, graph, partition, rng, store};
pub use rehearsal::{Rehearsed, rehearse};
pub use work::{Outcome, PART_FILES, World, work};
