//! Runs of one setting with several seeds, as cells hold them.

use std::fmt;

use launcher::{Error, Result};
use polars::prelude::DataFrame;

use crate::in_words::or_end;
use crate::plot::{Plot, PlotError};
use crate::run::{Run, plural, try_compare};
use crate::source;

/// Runs that differ in nothing but their seed, as `%%gnn --repeat K -o r1` binds them.
///
/// Frames are those of a [`Run`], of all runs one below the other: the column `run_id` tells them apart.
/// Runs that failed are not among them; the sweep's frame has their rows.
///
/// ```no_run
/// use halobook::prelude::*;
/// let r1 = Runs::of_sweep("latest");
/// let spread = r1.summary().lazy().select([col("test_acc").mean(), col("test_acc").std(1).alias("std")]);
/// r1.plot("curve"); // the median, inside a band from the smallest to the largest value
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    sweep: String,
    runs: Vec<Run>,
}

impl Runs {
    /// The runs of a sweep, by its id or `latest`, that have ended well.
    ///
    /// # Panics
    /// When there is no such sweep, or no run of it has ended well.
    #[track_caller]
    pub fn of_sweep(id: &str) -> Runs {
        or_end(Runs::try_of_sweep(id))
    }

    /// Like [`Runs::of_sweep`].
    ///
    /// # Errors
    /// When there is no such sweep, or no run of it has ended well.
    pub fn try_of_sweep(id: &str) -> Result<Runs> {
        let runs = source::sweep_runs(id)?;
        if runs.is_empty() {
            return Err(Error::refused(
                format!("no run of sweep {id} has ended well"),
                format!("sweep({id:?}) says what became of them, in the column error"),
            ));
        }
        let runs = runs.iter().map(|id| Run::try_open(id));
        Ok(Runs {
            sweep: id.to_owned(),
            runs: runs.collect::<Result<_>>()?,
        })
    }

    /// Them one by one, in the order of their seeds.
    pub fn iter(&self) -> std::slice::Iter<'_, Run> {
        self.runs.iter()
    }

    /// How many they are, at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// The frame of the sweep: one row a run, failed ones too.
    ///
    /// # Panics
    /// When it cannot be read.
    #[track_caller]
    pub fn sweep(&self) -> DataFrame {
        or_end(source::sweep(&self.sweep))
    }

    /// One row an epoch and run.
    ///
    /// # Panics
    /// When a frame cannot be read.
    #[track_caller]
    pub fn epochs(&self) -> DataFrame {
        or_end(self.try_frame("epochs"))
    }

    /// One row an epoch, rank and run.
    ///
    /// # Panics
    /// When a frame cannot be read.
    #[track_caller]
    pub fn ranks(&self) -> DataFrame {
        or_end(self.try_frame("ranks"))
    }

    /// One row an epoch, layer, direction, pair of ranks, operation and run.
    ///
    /// # Panics
    /// When a frame cannot be read.
    #[track_caller]
    pub fn comm(&self) -> DataFrame {
        or_end(self.try_frame("comm"))
    }

    /// One row a run: its setting, its status, its results.
    ///
    /// # Panics
    /// When a frame cannot be read.
    #[track_caller]
    pub fn summary(&self) -> DataFrame {
        or_end(self.try_frame("runs"))
    }

    /// Any frame of [`Run::frame`], of all runs one below the other.
    ///
    /// # Panics
    /// An unknown name, or a frame that cannot be read.
    #[track_caller]
    pub fn frame(&self, name: &str) -> DataFrame {
        or_end(self.try_frame(name))
    }

    /// Any frame of [`Run::try_frame`], of all runs one below the other.
    ///
    /// # Errors
    /// An unknown name, or what the disk says.
    pub fn try_frame(&self, name: &str) -> Result<DataFrame> {
        let mut all = self.runs[0].try_frame(name)?;
        for run in &self.runs[1..] {
            all.vstack_mut(&run.try_frame(name)?)
                .map_err(Error::frame("runs"))?;
        }
        Ok(all)
    }

    /// A plot of several runs: `curve`, `stack` or `plan`.
    ///
    /// # Panics
    /// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
    #[track_caller]
    pub fn plot(&self, kind: &str) -> Plot {
        or_end(self.try_plot(kind))
    }

    /// Like [`Runs::plot`].
    ///
    /// # Errors
    /// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
    pub fn try_plot(&self, kind: &str) -> std::result::Result<Plot, PlotError> {
        try_compare(&self.runs.iter().collect::<Vec<_>>(), kind)
    }
}

impl std::ops::Index<usize> for Runs {
    type Output = Run;

    fn index(&self, k: usize) -> &Run {
        &self.runs[k]
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = &'a Run;
    type IntoIter = std::slice::Iter<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A line for each run.
impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of sweep {}",
            plural(self.len() as u64, "run"),
            self.sweep
        )?;
        self.runs.iter().try_for_each(|run| write!(f, "\n{run}"))
    }
}
