//! What is measured of runs by name.

use polars::prelude::DataFrame;

use super::named::{Named, frame, numbers};
use super::source::Source;
use crate::display::Bundle;
use crate::plot;
use crate::run::Run;
use crate::show::Show;

/// Numbers of runs by name: a frame that knows its runs.
///
/// ```no_run
/// # use halobook::prelude::*;
/// # let runs = Setting::new("data = karate").runs(&[("halo", "strategy = halo")]);
/// let table = runs
///     .measure("row_mb", |r| r.row_bytes() / 1e6)
///     .measure("epoch_ms", |r| r.epoch_ms("wall_ms"));
/// bars(&table, "method", &["row_mb"]).title("Rows that travel");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    runs: Named,
    columns: Vec<(String, Vec<f64>)>,
}

impl Measured {
    pub(super) fn new(runs: Named) -> Measured {
        let columns = Vec::new();
        Measured { runs, columns }
    }

    /// Another number of each run.
    #[must_use]
    pub fn measure(mut self, name: &str, of: impl Fn(&Run) -> f64) -> Measured {
        let values = self.runs.rows.iter().map(|(_, run)| of(run)).collect();
        self.columns.push((name.to_owned(), values));
        self
    }

    /// The runs.
    pub fn runs(&self) -> &Named {
        &self.runs
    }

    /// Labels and numbers, one row a run.
    pub fn frame(&self) -> DataFrame {
        let numbers = self
            .columns
            .iter()
            .map(|(name, values)| numbers(name, values.clone()));
        frame(self.runs.labels().into_iter().chain(numbers).collect())
    }

    /// The column `column` over that of the run with the last label `name` and the same others, as the
    /// column `COLUMN_rel` behind the others. Repeats are taken in their order.
    ///
    /// # Panics
    /// When there is no such column, or a run has nothing to be held against.
    #[must_use]
    pub fn relative(mut self, column: &str, name: &str) -> Measured {
        let values = self.column(column);
        let rows = &self.runs.rows;
        let mut seen: Vec<&[String]> = Vec::new();
        let mut over = Vec::new();
        for ((labels, _), value) in rows.iter().zip(values) {
            let which = seen
                .iter()
                .filter(|known| **known == labels.as_slice())
                .count();
            seen.push(labels);
            let mut wanted = labels.clone();
            wanted.pop();
            wanted.push(name.to_owned());
            let base = rows
                .iter()
                .zip(values)
                .filter(|((known, _), _)| *known == wanted);
            let base = base.map(|(_, base)| *base).nth(which);
            over.push(value / base.unwrap_or_else(|| panic!("there is no run {wanted:?}")));
        }
        self.columns.push((format!("{column}_rel"), over));
        self
    }

    /// The number `column` of the last label `name`: the median, where there are several runs.
    ///
    /// # Panics
    /// When there is no such run or column.
    pub fn of(&self, name: &str, column: &str) -> f64 {
        self.runs.of(name);
        self.median(column, |labels| {
            labels.last().is_some_and(|last| last == name)
        })
    }

    /// The number `column` of a shape and a method: the median, where there are several runs.
    ///
    /// # Panics
    /// When there is no such run or column.
    pub fn at(&self, shape: &str, method: &str, column: &str) -> f64 {
        self.runs.at(shape, method);
        self.median(column, |labels| labels == [shape, method])
    }

    fn median(&self, column: &str, is: impl Fn(&[String]) -> bool) -> f64 {
        let rows = self.runs.rows.iter().zip(self.column(column));
        plot::median(
            rows.filter(|((labels, _), _)| is(labels))
                .map(|(_, value)| *value),
        )
    }

    fn column(&self, column: &str) -> &[f64] {
        let found = self.columns.iter().find(|(name, _)| name == column);
        let Some((_, values)) = found else {
            let known: Vec<&str> = self.columns.iter().map(|(name, _)| &**name).collect();
            let known = known.join(", ");
            panic!("nothing called {column:?} was measured\nhelp: there are {known}")
        };
        values
    }
}

impl Source for Measured {
    fn rows(&self) -> DataFrame {
        self.frame()
    }

    fn settings(&self) -> Vec<plot::Setting> {
        self.runs.settings()
    }
}

impl Show for Measured {
    fn bundle(&self) -> Bundle {
        self.frame().bundle()
    }
}

/// Several numbers of each of some runs, of ranks or of epochs: a frame that knows its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    runs: Named,
    frame: DataFrame,
}

impl Listed {
    pub(super) fn new(runs: Named, frame: DataFrame) -> Listed {
        Listed { runs, frame }
    }
}

impl Source for Listed {
    fn rows(&self) -> DataFrame {
        self.frame.clone()
    }

    fn settings(&self) -> Vec<plot::Setting> {
        self.runs.settings()
    }
}

impl Show for Listed {
    fn bundle(&self) -> Bundle {
        self.frame.bundle()
    }
}
