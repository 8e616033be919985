//! What a `%%ranks` cell sees on every rank, and the process that runs it there.
//!
//! A pool of ranks is one process a rank, started by MPI, that loads one compiled cell after the other.
//! The folder of the pool is the only channel:
//!
//! ```text
//! pool/state/rank-2      what rank 2 does now (a status page)
//!     /3/request.json    the third cell: its library, whom it is for, its data; written last
//!     /3/cancel          ranks that wait shall give up
//!     /3/rank-2.out      what rank 2 printed
//!     /3/rank-2.json     what became of it there: value, or error
//! ```
//!
//! In a cell: `rank` and `size`; `comm`, messages of any serialisable value ([`Comm`]); `ctx`, the rank
//! itself ([`Rank`]): its part of the graph, what it keeps from cell to cell, its host. The cell's last
//! value becomes rows of a frame ([`IntoRows`]); [`row!`](crate::row) makes one.

mod comm;
mod graph;
mod hand;
mod rank;
mod row;
mod serve;

pub use comm::Comm;
pub use graph::Part;
pub use hand::{hand_over, handed};
pub use rank::Rank;
pub use row::{IntoRows, Row, frame};
pub use serve::{Cell, Returned, serve};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Imported above the cell's first line.
pub mod prelude {
    pub use super::{Comm, IntoRows, Part, Rank, Row};
    pub use crate::prelude::*;
    pub use crate::row;
}

/// The name of a cell's function in its library.
pub const ENTRY: &str = "halobook_ranks_cell";

/// A cell that is to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Its library.
    pub library: PathBuf,
    /// The ranks that run it; all where empty.
    pub only: Vec<u32>,
    /// The data set of `ctx.graph()`.
    pub data: String,
    /// How it is cut.
    pub partition: String,
    /// Seed of both.
    pub seed: u64,
    /// Whether standard error is kept apart from standard output.
    pub errors_apart: bool,
}

/// What became of a cell on a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It came to its end.
    Ok,
    /// It was not meant for this rank.
    Left,
    /// It returned an error.
    Error(String),
    /// It panicked: the words, and the line of the cell where it is known.
    Panic(String, Option<u32>),
    /// It waited and was told to give up.
    GaveUp(String),
}

/// A rank's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// How it ended.
    pub ended: Ended,
    /// Its rows.
    pub rows: Vec<Map<String, Value>>,
    /// How long it took, in milliseconds.
    pub ms: f64,
}
