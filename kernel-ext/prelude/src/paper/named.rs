//! Runs by name.

use launcher::Error;
use polars::prelude::{Column, DataFrame, NamedFrom, Series};

use super::measured::{Listed, Measured};
use crate::display::Bundle;
use crate::in_words::or_end;
use crate::plot::{self, Plot, PlotError};
use crate::run::{Run, try_compare};
use crate::show::Show;

/// Runs, each with a label or two: its method, or its shape and its method. Where there are several seeds,
/// several have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    axes: Vec<String>,
    /// Labels, one an axis, and their run.
    pub(super) rows: Vec<(Vec<String>, Run)>,
}

impl Named {
    /// None yet; `axes` say what labels are: `method`, or `shape` and `method`.
    pub fn new(axes: &[&str]) -> Named {
        Named {
            axes: axes.iter().map(|axis| (*axis).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a run with as many labels as there are axes.
    ///
    /// # Panics
    /// On another number of labels.
    pub fn push(&mut self, labels: &[&str], run: Run) {
        assert_eq!(labels.len(), self.axes.len(), "labels for {:?}", self.axes);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.rows.push((labels, run));
    }

    /// The first run of that last label.
    ///
    /// # Panics
    /// When there is none, naming those there are.
    pub fn of(&self, name: &str) -> &Run {
        self.find(
            |labels| labels.last().is_some_and(|last| last == name),
            name,
        )
    }

    /// The first run of two labels: a shape and a method.
    ///
    /// # Panics
    /// When there is none, naming those there are.
    pub fn at(&self, shape: &str, method: &str) -> &Run {
        let what = format!("{shape}, {method}");
        self.find(|labels| labels == [shape, method], &what)
    }

    fn find(&self, is: impl Fn(&[String]) -> bool, what: &str) -> &Run {
        let found = self.rows.iter().find(|(labels, _)| is(labels));
        found.map(|(_, run)| run).unwrap_or_else(|| {
            let known: Vec<String> = self.rows.iter().map(|(l, _)| l.join(", ")).collect();
            panic!(
                "there is no run {what:?}\nhelp: there are {}",
                known.join("; ")
            )
        })
    }

    /// The runs, with their labels.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], &Run)> {
        self.rows.iter().map(|(labels, run)| (&**labels, run))
    }

    /// The runs alone.
    pub fn each(&self) -> Vec<&Run> {
        self.rows.iter().map(|(_, run)| run).collect()
    }

    /// Only the runs of these last labels, in this order.
    ///
    /// # Panics
    /// When there is none of a label.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Named {
        let mut some = Named {
            axes: self.axes.clone(),
            rows: Vec::new(),
        };
        for name in names {
            self.of(name);
            let same = self
                .rows
                .iter()
                .filter(|(labels, _)| labels.last().is_some_and(|l| l == name));
            some.rows.extend(same.cloned());
        }
        some
    }

    /// All of both.
    ///
    /// # Panics
    /// When labels of the two are of different things.
    #[must_use]
    pub fn and(&self, other: &Named) -> Named {
        assert_eq!(self.axes, other.axes, "both have the same labels");
        let mut both = self.clone();
        both.rows.extend(other.rows.iter().cloned());
        both
    }

    /// A number of each run, as the column `name` behind the labels: one row a run.
    pub fn measure(&self, name: &str, of: impl Fn(&Run) -> f64) -> Measured {
        Measured::new(self.clone()).measure(name, of)
    }

    /// A number of each rank of each run: one row a rank, behind the labels and the column `rank`.
    pub fn by_rank(&self, name: &str, of: impl Fn(&Run) -> Vec<f64>) -> Listed {
        let each = self.each_of(of);
        let ranks = each
            .iter()
            .flat_map(|v| (0..v.len()).map(|r| format!("rank {r}")));
        let ranks = text("rank", ranks.collect());
        self.listed(&each, [ranks, numbers(name, each.concat())])
    }

    /// Several numbers of each run, as many as there are: one row a number, behind the labels.
    pub fn list(&self, name: &str, of: impl Fn(&Run) -> Vec<f64>) -> Listed {
        let each = self.each_of(of);
        self.listed(&each, [numbers(name, each.concat())])
    }

    fn each_of(&self, of: impl Fn(&Run) -> Vec<f64>) -> Vec<Vec<f64>> {
        self.rows.iter().map(|(_, run)| of(run)).collect()
    }

    /// Labels of the runs, each as often as it has numbers, and the columns.
    fn listed(&self, each: &[Vec<f64>], columns: impl IntoIterator<Item = Column>) -> Listed {
        let label = |a: usize| {
            let rows = self.rows.iter().zip(each);
            rows.flat_map(|((labels, _), values)| vec![labels[a].clone(); values.len()])
                .collect()
        };
        let labels = self
            .axes
            .iter()
            .enumerate()
            .map(|(a, axis)| text(axis, label(a)));
        Listed::new(self.clone(), frame(labels.chain(columns).collect()))
    }

    /// A plot of all of them: `curve`, `stack` or `plan`.
    ///
    /// # Panics
    /// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
    #[track_caller]
    pub fn plot(&self, kind: &str) -> Plot {
        or_end(self.try_plot(kind))
    }

    /// Like [`Named::plot`].
    ///
    /// # Errors
    /// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
    pub fn try_plot(&self, kind: &str) -> Result<Plot, PlotError> {
        try_compare(&self.each(), kind)
    }

    /// The labels, as columns.
    pub(super) fn labels(&self) -> Vec<Column> {
        let axes = self.axes.iter().enumerate();
        let column = |a: usize| self.rows.iter().map(move |(labels, _)| labels[a].clone());
        axes.map(|(a, axis)| text(axis, column(a).collect()))
            .collect()
    }

    /// What figures of them are stamped with.
    pub(super) fn settings(&self) -> Vec<plot::Setting> {
        let settings = self.rows.iter().filter_map(|(_, run)| run.setting().ok());
        settings.collect()
    }
}

impl Show for Named {
    fn bundle(&self) -> Bundle {
        let ids = self
            .rows
            .iter()
            .map(|(_, run)| run.id().to_owned())
            .collect();
        let mut columns = self.labels();
        columns.push(text("run_id", ids));
        frame(columns).bundle()
    }
}

pub(super) fn text(name: &str, values: Vec<String>) -> Column {
    Series::new(name.into(), values).into()
}

pub(super) fn numbers(name: &str, values: Vec<f64>) -> Column {
    Series::new(name.into(), values).into()
}

#[track_caller]
pub(super) fn frame(columns: Vec<Column>) -> DataFrame {
    let height = columns.first().map_or(0, Column::len);
    or_end(DataFrame::new(height, columns).map_err(Error::frame("measured")))
}
