//! What a run leaves behind: rows, status pages, errors.
//!
//! A rank appends rows to `rows/rank-K.jsonl` and keeps one memory-mapped status page in
//! `state/rank-K`. The launcher turns rows into frames; nothing else comes back from a rank.

mod counters;
mod file;
pub mod frame;
mod holds;
mod meter;
mod partition;
pub mod phase;
mod recorder;
mod route;
pub mod rows;
pub mod state;
mod times;
pub mod trace;

pub use counters::Counters;
pub(crate) use gnn_data::clock::give_back;
pub use gnn_data::clock::{self, now_ns};
pub use holds::Holds;
pub use meter::{Lane, Meter, Traffic, Work};
pub use partition::part_rows;
pub(crate) use phase::labels;
pub use phase::{Direction, Label, Op, Pass, Phase, SpanPhase, Stream};
pub(crate) use recorder::host_name;
pub use recorder::{Closed, Epoch, PredictedLane, RankFacts, Recorder};
pub use route::{Copied, Copies, Route};
pub use times::Times;
pub use trace::Skew;
