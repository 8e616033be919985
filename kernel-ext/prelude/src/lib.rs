//! What a notebook cell sees: training runs as Polars frames, and plots of them.
//!
//! ```no_run
//! use halobook::prelude::*;
//!
//! let r1 = Run::open("latest"); // `%%gnn -o r1` does this for you
//! let waits = r1
//!     .ranks()
//!     .lazy()
//!     .group_by([col("rank")])
//!     .agg([col("wait_ms").median(), col("compute_ms").median()])
//!     .collect()?;
//! r1.plot("stack").save("stack.svg")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A cell's last value is shown: a frame as a table, a [`Plot`](plot::Plot) as a figure with a text
//! twin, a [`Run`] as its row. All of [`polars::prelude`] is in scope, so frames are queried with
//! the tools you know.
//!
//! | you want | you write |
//! |---|---|
//! | the runs there are | `runs()` |
//! | one of them | `Run::open("latest")`, or an id, or its beginning |
//! | a new one | a `%%gnn` cell, or `train("data = karate; strategy = halo; ranks = 2")` |
//! | one setting with several seeds | a `%%gnn --repeat 5 -o r1` cell; `r1` is then [`Runs`], `r1[0]` the first of them |
//! | many of them in one frame | a `%%sweep -o frame` cell, or `sweep("latest")` for the last one |
//! | its numbers | `r1.epochs()`, `.ranks()`, `.comm()`, `.stale()`, `.partition()`, `.summary()`; `.frame("name")` for what a strategy adds |
//! | its settings | `r1.manifest()`, `r1.status()` |
//! | a figure | `r1.plot("curve")`, `"stack"`, `"balance"`, `"matrix"`, `"stale"`, `"plan"`, `"partition"` |
//! | runs side by side | `compare(&[&r1, &r2], "curve")` |
//! | a paper's figures, tables and claims | [`paper`]: settings that make runs, closed forms, bars and lines, published numbers |
//! | a file for a talk | `r1.plot("stack").save("stack.svg")` |
//! | a wait, or a long loop, that an interrupt ends | `interrupt::sleep(..)`, `interrupt::check()`, `r1.wait()` |
//! | your own HTML | `display::html("<b>bold</b>")` |
//!
//! Durations are milliseconds and sizes are bytes; the unit is part of a column's name. A figure
//! names its data, marks generated graphs *synthetic*, and is stamped with the setting it was
//! measured in.
//!
//! The library needs no magics: it works in any Rust notebook kernel that has it as a dependency.

#![warn(missing_docs)]

mod as_of;
pub mod chart;
pub mod display;
mod export;
mod frame_html;
mod in_words;
pub mod interrupt;
mod near;
mod or_end;
pub mod paper;
pub mod plot;
pub mod prelude;
mod program;
pub mod ranks;
mod repeats;
mod run;
mod show;
mod source;
pub mod strategy;
mod train;

pub use as_of::AsOf;
pub use export::{Export, Text};
pub use frame_html::df_html;
pub use launcher::Error;
pub use near::OrEndOf;
pub use or_end::OrEnd;
pub use polars;
pub use repeats::Runs;
pub use run::{
    Run, compare, interactive, kept, partition, plan, plot_partition, plot_sweep, runs, sweep,
    try_compare,
};
pub use show::Show;
pub use source::Manifest;
pub use train::{train, try_train};
