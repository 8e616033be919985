//! `use halobook::prelude::*;`: frames, runs, plots, and what makes them show in a cell.

pub use polars;
pub use polars::prelude::*;

pub use crate::as_of::AsOf;
pub use crate::chart::plot;
pub use crate::display;
pub use crate::export::Export;
pub use crate::interrupt;
pub use crate::near::OrEndOf;
pub use crate::or_end::OrEnd;
pub use crate::paper::{
    self, EpochWork, Gpu, Setting, Source, bars, bind, claims, closed, distances, least, lines,
    most, on_gpus, published, real, scatter, uneven,
};
pub use crate::plot::{self, Plot};
pub use crate::repeats::Runs;
pub use crate::run::{Run, compare, runs, sweep};
pub use crate::show::Show;
pub use crate::train::train;
