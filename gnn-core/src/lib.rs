//! Halobook's core: graphs, models, communication, strategies and [`work()`], the only loop over
//! epochs.
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
//! | [`record`] | rows, phases, status pages |
//! | [`checkpoint`] | what a run needs to go on later, on disk |
//! | [`work()`] | the loop |
//! | [`rehearse()`] | the same without computing: what a run will send and hold |

pub mod backend;
pub mod checkpoint;
pub mod comm;
pub mod convert;
pub mod ctx;
pub mod dataset;
pub mod device;
pub mod error;
pub mod feed;
mod first;
pub mod graph;
pub mod head;
pub mod model;
pub mod partition;
mod patience;
pub mod plan;
pub mod record;
mod rehearsal;
pub mod rng;
pub mod sample;
pub mod spec;
pub mod store;
pub mod strategy;
mod work;

#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use rehearsal::{Rehearsed, rehearse};
pub use work::{Outcome, World, work};
