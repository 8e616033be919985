//! `use halobook::prelude::*;`: frames, runs, plots, and what makes them show in a cell.

pub use polars;
pub use polars::prelude::*;

pub use crate::display;
pub use crate::plot::{self, Plot, compare};
pub use crate::run::{Run, runs};
pub use crate::show::Show;
