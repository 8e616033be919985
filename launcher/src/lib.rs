//! Halobook's launcher: run folders, launching and supervising ranks, and frames.
//!
//! The run folder is the only channel: a request is resolved into a plan that lies in it, ranks
//! append rows, the supervisor appends events, and frames are made out of rows. The command line,
//! the magics and the Rust API are three skins over the functions of this crate.
//!
//! | module | one idea |
//! |---|---|
//! | [`request`] | flags, files and cells become one [`gnn_core::spec::RunSpec`] |
//! | [`flags`] | flags of the commands that are no keys of a run |
//! | [`resolve`] | a request becomes a plan, or is refused before anything starts |
//! | [`resume`] | the same, from the checkpoint of a run that has ended |
//! | [`replay`] | the same, as a run that has ended was; and whether its bits came back |
//! | [`partition`] | a cut by itself, and the cache of cuts |
//! | [`forecast`] | what a run would send, hold and take, and refusing what does not fit |
//! | [`launch`], [`mpi`] | a plan becomes processes in a group of their own |
//! | `supervise` | watch ranks, end the whole run when one fails, say why |
//! | [`store`], [`manifest`] | run folders: names, lookup, the manifest |
//! | [`jobs`] | the runs that are under way |
//! | [`sweep`] | many settings, one run each, one frame |
//! | [`sql`] | queries over all of them |
//! | [`frames`] | rows become Polars frames; the only place that links Polars |
//! | [`rank_error`] | what a failing rank says about itself |
//! | [`chrome`] | the spans of a traced run, for a trace viewer |
//! | [`datasets`] | the catalogue, and fetching what is in it |
//! | [`tables`] | edges from Parquet files |
//! | [`mod@bench`] | epochs timed, beside what libraries in a Python take |
//! | [`cli`] | the command line over all of them |
//! | [`tail`], [`mod@log`], [`mod@stop`], [`doctor`] | follow, read, end, check |

pub mod bench;
pub mod check;
pub mod chrome;
pub mod cite;
pub mod cli;
pub mod datasets;
pub mod diff;
pub mod doctor;
mod error;
pub mod flags;
pub mod forecast;
pub mod frames;
pub mod gc;
pub mod host;
pub mod jobs;
pub mod keep;
pub mod launch;
pub mod log;
pub mod manifest;
pub mod mpi;
pub mod page;
pub mod partition;
pub mod probe;
pub mod rank_error;
pub mod replay;
pub mod request;
pub mod resolve;
pub mod resume;
pub mod sql;
pub mod stop;
pub mod store;
pub mod strategies;
mod supervise;
pub mod sweep;
pub mod sys;
pub mod tables;
pub mod tail;
mod time;
mod train;
pub mod transport;
pub mod verify;

pub use error::{Error, MAKE_ROOM, Result};
pub use log::{LogQuery, log};
pub use stop::stop;
pub use train::{Options, Prepared, Started, prepare, train};
