//! The library of a reproduction: what a figure's cell needs, so that it reads like the figure's caption.
//!
//! ```no_run
//! use halobook::prelude::*;
//!
//! let setting = Setting::new("data = \"like:reddit,scale=0.02\"; ranks = 4; epochs = 16; link = \"1gbit,50us\"");
//! let methods = [("CAGNET", "strategy = broadcast"), ("SCS-E1", "strategy = sancus; bound = \"epoch-fixed=1\"")];
//! let fig21 = setting.runs(&methods)
//!     .measure("compute", |r| r.epoch_ms("compute_ms"))
//!     .measure("communicate", |r| r.communicate_ms())
//!     .measure("row_mb", |r| r.row_bytes() / 1e6);
//! bars(&fig21, "method", &["compute", "communicate"]).stacked().title("Figure 21").unit("ms an epoch");
//! claims("Figure 21")
//!     .claim("SANCUS sends less than CAGNET, MB", fig21.of("SCS-E1", "row_mb"), "<", fig21.of("CAGNET", "row_mb"))
//!     .check();
//! ```
//!
//! | you want | you write |
//! |---|---|
//! | what the paper printed | `published("sancus").table("Table 6")`; `.at(&["Reddit"], "2 GPUs")` is a number of it |
//! | runs of a setting | `Setting::new(..)`, `.with(..)`; `.runs(&methods)`, `.across(&shapes, &methods)`; `.seeds(5)` for repeats |
//! | real data where it can be had | `real("../../../shared/data", "cora", "sbm:nodes=2000,classes=4")` |
//! | one of them | `runs.of("CAGNET")`, `runs.at("4 ranks", "CAGNET")` |
//! | numbers of them | `runs.measure("row_mb", \|r\| r.row_bytes() / 1e6)`, of ranks `runs.by_rank("edges", \|r\| r.per_rank("edges"))` |
//! | what a request would send or hold, untrained | `setting.plan("ranks = 8").total("epoch_bytes")`, `.most("memory")` |
//! | the same of a graph that is too large to be made here | `setting.forecast("data = \"like:friendster\"")`: small ones of its kind, extended |
//! | what must be sent or kept | [`closed`]: forms by strategy |
//! | a figure | [`bars()`], [`lines()`], [`scatter()`] over any of these or any frame; a `Plot` when shown or `.plot()` |
//! | published beside measured | `claims("Table 6").printed(table, ..)` must meet every number, `.beside(table, ..)` shows ratios |
//! | times that rest on GPUs | `on_gpus(table, \|labels, column\| ..)`: published, predicted by a plan at a [`Gpu`]'s printed rates, not measured here |
//! | claims | `claims("Figure 21").claim("words", a, "<", b).check()`; or `bind("fig21", &table)` and a `%%check` cell |
//!
//! What can fail is a claim that must: bytes, rounds, edges, memory, accuracy. Times can fail where the
//! machine decides them ([`Claims::time`]), and are shown in the same table otherwise. With `HALOBOOK_DRAFT=1`
//! a notebook is a draft: see [`Setting`].
//!
//! # Not done
//! A logarithmic axis.

mod bind;
mod claims;
pub mod closed;
mod data;
mod decides;
mod draft;
mod figure;
mod gpus;
mod measured;
mod named;
pub(crate) mod numbers;
mod planned;
mod published;
mod setting;
mod source;
mod table;
mod verdicts;

pub use bind::{Kept, bind};
pub use claims::{Claims, claims};
pub use data::real;
pub use figure::{Figure, bars, lines, scatter};
pub use gpus::{EpochWork, Gpu, OnGpus, on_gpus};
pub use measured::{Listed, Measured};
pub use named::Named;
pub use numbers::{distances, least, most, uneven};
pub use planned::Planned;
pub use published::{Published, published};
pub use setting::Setting;
pub use source::Source;
pub use table::{Printed, Table};
pub use verdicts::Verdicts;
