//! What is trained on: graphs, data sets and how they are cut, below everything that trains.
//!
//! Nothing here knows a run: what one asks of its data comes in as [`dataset::DataSpec`], what it asks
//! of a partitioner as [`partition::Request`]. `gnn-core` passes all of it on under the same names.
//!
//! | module | one idea |
//! |---|---|
//! | [`error`] | the one error type of the core |
//! | [`rng`] | randomness as a function of what it is for |
//! | [`clock`] | time, and the memory of the process |
//! | [`memory`] | how much of it this process may have |
//! | [`knobs`] | values as they are written, and settings of one partitioner or strategy |
//! | [`kept`] | host data of which a device may keep a copy |
//! | [`list`] | numbers that are owned or lie in a mapped file |
//! | [`graph`] | graphs by in-edges, and the blocks that layers run on |
//! | [`dataset`] | features, labels and splits, from files of many forms or generated |
//! | [`store`] | the project's own form of it on disk, mapped into memory |
//! | [`load`] | from what the user wrote to a data set, whatever form it has |
//! | [`convert`] | edge lists of any length to that form, within bounded memory |
//! | [`partition`] | which rank owns which vertex, and what it sees of the others |

#[doc(hidden)]
pub mod at_random;
pub mod clock;
pub mod convert;
pub mod dataset;
pub mod error;
mod first;
pub mod graph;
pub mod kept;
pub mod knobs;
pub mod list;
pub mod load;
pub mod memory;
pub mod partition;
pub mod rng;
pub mod store;
mod words;

#[cfg(test)]
mod testing;

pub use error::{Error, Result};
