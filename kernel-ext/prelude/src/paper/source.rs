//! What a figure or a table can be made of.

use polars::prelude::DataFrame;

use crate::plot::Setting;
use crate::run::Run;

/// Rows for a figure, and what it must say of where they come from.
pub trait Source {
    /// The rows.
    fn rows(&self) -> DataFrame;

    /// The settings of the runs behind them; none where no run is.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Where the rows come from, if not from runs.
    fn origin(&self) -> Option<String> {
        None
    }
}

impl Source for DataFrame {
    fn rows(&self) -> DataFrame {
        self.clone()
    }
}

impl<T: Source + ?Sized> Source for &T {
    fn rows(&self) -> DataFrame {
        (**self).rows()
    }

    fn settings(&self) -> Vec<Setting> {
        (**self).settings()
    }

    fn origin(&self) -> Option<String> {
        (**self).origin()
    }
}

/// A frame of a cell's own, and the runs that it was made of.
impl Source for (DataFrame, &[&Run]) {
    fn rows(&self) -> DataFrame {
        self.0.clone()
    }

    fn settings(&self) -> Vec<Setting> {
        self.1.iter().filter_map(|run| run.setting().ok()).collect()
    }
}
