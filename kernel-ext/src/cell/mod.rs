//! The cell path: from a cell's text to its output, fast.
//!
//! Stock evcxr compiles every dependency at every start, runs cargo for every cell, and loads
//! the whole dependency graph into rust-analyzer. Here the prelude is compiled once by set-up
//! ([`prepare`]) into one dynamic library; a kernel gets a small scratch folder of its own
//! ([`scratch`]) in which `cargo` is this binary ([`shim`]): a cell that needs no crate beyond
//! the prelude is handed to rustc directly, and rust-analyzer's questions are answered from
//! the prepared folder with a graph trimmed to the crates whose types people use ([`graph`]).
//! evcxr itself is untouched ([`engine`]).

mod again;
mod attempts;
mod built;
mod clones;
mod ends;
pub mod engine;
pub mod facts;
mod first;
pub mod fit;
mod graph;
mod lean;
mod loops;
mod outline;
pub mod panics;
mod place;
pub mod prepare;
mod prints;
pub mod pump;
mod rewrite;
pub mod scratch;
pub mod shim;
mod stand_in;
pub mod stop;
mod variables;

#[cfg(test)]
pub use rewrite::rewritten;

/// Names the prepared folder, from `kernel.json` to the shim.
pub const PREPARED_ENV: &str = "HALOBOOK_PREPARED";
/// What the user of a kernel should know of what is prepared.
pub const NOTE_ENV: &str = "HALOBOOK_SETUP_NOTE";
/// Names a running kernel's scratch folder.
pub const SCRATCH_ENV: &str = "HALOBOOK_SCRATCH";
/// The `CARGO_HOME` that was in force when the kernel was started (empty: none).
pub const CARGO_HOME_ENV: &str = "HALOBOOK_CARGO_HOME";
/// The `PATH` that was in force when the kernel was started.
pub const PATH_ENV: &str = "HALOBOOK_PATH";
/// The link in a prepared folder that names the version to use.
pub const CURRENT: &str = "current";
/// What every session starts with.
pub const IMPORT: &str = "use halobook::prelude::*;";
