//! What a figure or a table can be made of.

use polars::prelude::{DataFrame, LazyFrame};

use crate::or_end::{OrEnd, end};
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

/// The plan runs.
impl Source for LazyFrame {
    /// # Panics
    /// When the plan cannot run.
    fn rows(&self) -> DataFrame {
        self.clone().collect().or_end()
    }
}

/// # Panics
/// On an error.
impl<E: std::fmt::Display> Source for Result<DataFrame, E> {
    fn rows(&self) -> DataFrame {
        match self {
            Ok(frame) => frame.clone(),
            Err(error) => end(std::any::type_name::<E>(), &error.to_string()),
        }
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
