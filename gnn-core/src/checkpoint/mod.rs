//! Checkpoints: what a run needs to go on with the same bits after its processes are gone.
//!
//! ```text
//! runs/<id>/checkpoints/epoch-00000040/rank-1   what only rank 1 knows, where it knows something
//!                                     /rank-3
//!                                     /shared   what all ranks know, written by rank 0: the last file
//! ```
//!
//! Every file is written under a temporary name, synced and renamed. `shared` is written after every
//! rank has said that its own file is there, so a folder with `shared` in it is a whole checkpoint,
//! and a kill at any moment leaves the one before. The last two are kept.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `HALOCKPT` |
//! | 8 | 4 | version of this form |
//! | 12 | 4 | the rank whose state this is; all bits set for `shared` |
//! | 16 | 8 | epochs that are finished |
//! | 24 | 8 | [`digest`] of the run |
//! | 32 | | numbers, then tensors, each with its name |
//! | end − 8 | 8 | checksum of everything before |
//!
//! Numbers are little-endian.
//!
//! # Not done
//! Bits are the same where arithmetic is: a run that goes on with another build or on another
//! processor may differ in last bits, and nobody is told.

mod digest;
mod file;
mod folder;
mod state;
#[cfg(test)]
mod tests;

pub use digest::{digest, may_change};
pub use folder::{Checkpoints, Found, find};
pub use state::{Snapshot, State};

use crate::error::Error;

/// Refuses checkpoints of a strategy that has none.
pub(crate) fn unsupported(strategy: &str) -> Error {
    Error::Unsupported {
        what: format!("checkpoints of strategy {strategy}"),
        reason: "it cannot write down what its later epochs need of the earlier ones".into(),
        help: "set checkpoint_every = 0, or choose another strategy, for example halo".into(),
    }
}
