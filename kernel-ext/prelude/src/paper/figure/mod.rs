//! Figures over any frame: grouped or stacked bars, lines, scatter.
//!
//! A figure is rows of a [`Source`](super::Source), the column that its groups or its x axis are, and the
//! columns of its values. Rows of the same group are repeats: what is drawn is their median, with a whisker
//! from the smallest to the largest.

mod bars;
mod gather;
mod points;

use crate::display::Bundle;
use crate::in_words::or_end;
use crate::plot::setting::stamp;
use crate::plot::sheet::{Head, Key, fit, sheet};
use crate::plot::text::table;
use crate::plot::{Plot, PlotError, blank, digits, ink::Ink, twin};
use crate::show::Show;

use super::source::Source;
use gather::{Data, gather};

/// Width of a figure and height of its drawing, px.
const WIDTH: i32 = 880;
const HEIGHT: i32 = 330;

/// What is drawn for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bars,
    Stacked,
    Lines,
    Scatter,
}

/// A figure that is still being described; the last value of a cell, it is drawn.
pub struct Figure<'a> {
    source: &'a dyn Source,
    kind: Kind,
    x: String,
    columns: Vec<String>,
    by: Option<String>,
    place: Option<String>,
    title: String,
    subtitle: String,
    unit: String,
    names: Vec<String>,
    marks: Vec<(String, f64)>,
}

/// Grouped bars: a group for each value of the column `group`, a bar for each of `columns`.
///
/// ```no_run
/// # use halobook::prelude::*;
/// let table = Setting::new("data = karate").runs(&[("halo", "strategy = halo"), ("CAGNET", "strategy = broadcast")])
///     .measure("compute", |r| r.epoch_ms("compute_ms"))
///     .measure("communicate", |r| r.communicate_ms());
/// bars(&table, "method", &["compute", "communicate"]).stacked().title("Figure 21").unit("ms an epoch");
/// ```
pub fn bars<'a>(source: &'a dyn Source, group: &str, columns: &[&str]) -> Figure<'a> {
    Figure::new(Kind::Bars, source, group, columns)
}

/// Lines over the column `x`: numbers, or labels in their order; a line for each of `columns`.
pub fn lines<'a>(source: &'a dyn Source, x: &str, columns: &[&str]) -> Figure<'a> {
    Figure::new(Kind::Lines, source, x, columns)
}

/// Dots over the numbers of the column `x`, one a row: repeats are not gathered. Without `columns`, a lane
/// for each value of [`Figure::by`], which has a dot wherever it has a row.
pub fn scatter<'a>(source: &'a dyn Source, x: &str, columns: &[&str]) -> Figure<'a> {
    Figure::new(Kind::Scatter, source, x, columns)
}

impl<'a> Figure<'a> {
    fn new(kind: Kind, source: &'a dyn Source, x: &str, columns: &[&str]) -> Figure<'a> {
        Figure {
            source,
            kind,
            x: x.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            by: None,
            place: None,
            title: columns.join(", "),
            subtitle: String::new(),
            unit: String::new(),
            names: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// One series for each value of another column, of the one column of values.
    #[must_use]
    pub fn by(mut self, column: &str) -> Figure<'a> {
        self.by = Some(column.to_owned());
        self
    }

    /// Bars on top of each other: parts of a whole.
    #[must_use]
    pub fn stacked(mut self) -> Figure<'a> {
        self.kind = Kind::Stacked;
        self
    }

    /// What it shows, as the paper's caption begins.
    #[must_use]
    pub fn title(mut self, words: &str) -> Figure<'a> {
        self.title = words.to_owned();
        self
    }

    /// What a reader must know to read it, in a line below the title.
    #[must_use]
    pub fn note(mut self, words: &str) -> Figure<'a> {
        self.subtitle = words.to_owned();
        self
    }

    /// What its values are, and in which unit.
    #[must_use]
    pub fn unit(mut self, words: &str) -> Figure<'a> {
        self.unit = words.to_owned();
        self
    }

    /// What its x axis is, where the column's name does not say it.
    #[must_use]
    pub fn x(mut self, words: &str) -> Figure<'a> {
        self.place = Some(words.to_owned());
        self
    }

    fn x_name(&self) -> &str {
        self.place.as_ref().unwrap_or(&self.x)
    }

    /// Other names for its columns of values, in their order.
    #[must_use]
    pub fn names(mut self, names: &[&str]) -> Figure<'a> {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// A line across at a value, such as what the paper says.
    #[must_use]
    pub fn mark(mut self, words: &str, value: f64) -> Figure<'a> {
        self.marks.push((words.to_owned(), value));
        self
    }

    /// The figure, drawn.
    ///
    /// # Panics
    /// On a column that is not there, or too many series to tell apart.
    #[track_caller]
    pub fn plot(&self) -> Plot {
        or_end(self.try_plot())
    }

    /// Writes it as SVG.
    ///
    /// # Errors
    /// What the file system says.
    ///
    /// # Panics
    /// As [`Figure::plot`].
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> std::io::Result<()> {
        self.plot().save(path)
    }

    /// Like [`Figure::plot`].
    ///
    /// # Errors
    /// [`PlotError`] on a column that is not there, or too many series to tell apart.
    pub fn try_plot(&self) -> Result<Plot, PlotError> {
        let settings = self.source.settings();
        let settings: Vec<_> = settings.iter().collect();
        let data = gather(self)?;
        // Lanes have their names beside them.
        let lanes = self.columns.is_empty();
        if data.series.len() > Ink::LINES && !lanes {
            return Err(PlotError::Run(format!(
                "{} series are more than the {} that can be told apart\nhelp: draw some of them",
                data.series.len(),
                Ink::LINES
            )));
        }
        if data.is_empty() {
            return blank(&self.title, "There is no number to draw.", &settings);
        }
        let mut foot = stamp(&settings);
        foot.extend(self.source.origin());
        let mut notes: Vec<String> = Vec::new();
        notes.extend((!self.subtitle.is_empty()).then(|| self.subtitle.clone()));
        let repeats = data.repeats();
        if repeats > 1 && self.kind != Kind::Scatter {
            notes.push(format!(
                "median of {repeats}, from the smallest to the largest"
            ));
        }
        let head = Head {
            title: self.title.clone(),
            subtitle: notes.join(" · "),
            desc: format!("{} by {}", self.title, self.x_name()),
            legend: if lanes {
                Vec::new()
            } else {
                self.legend(&data)
            },
            foot: foot.clone(),
        };
        let height = if lanes {
            points::lanes_height(&data)
        } else {
            HEIGHT
        };
        let svg = sheet(&head, (WIDTH, height), |area| match self.kind {
            _ if lanes => points::lanes(area, self, &data),
            Kind::Bars => bars::draw(area, self, &data, false),
            Kind::Stacked => bars::draw(area, self, &data, true),
            Kind::Lines | Kind::Scatter => points::draw(area, self, &data),
        })?;
        notes.extend((!self.unit.is_empty()).then(|| self.unit.clone()));
        let text = twin(&self.title, &notes, &self.numbers(&data), &foot);
        Ok(Plot { svg, text })
    }

    fn legend(&self, data: &Data) -> Vec<(Key, String)> {
        if data.series.len() < 2 {
            return Vec::new();
        }
        let key = |k: usize| match self.kind {
            Kind::Bars | Kind::Stacked => Key::Box(bars::fill(k, data.series.len())),
            Kind::Lines => Key::Line(Ink::line(k)),
            Kind::Scatter => Key::Dot(Ink::line(k)),
        };
        let series = data.series.iter().enumerate();
        series
            .map(|(k, series)| (key(k), fit(&series.name, 12.0, 240.0)))
            .collect()
    }

    fn numbers(&self, data: &Data) -> String {
        if self.columns.is_empty() {
            let rows = data.series.iter().map(|series| {
                let places = data.groups.iter().zip(&series.values);
                let places = places.filter(|(_, values)| !values.is_empty());
                let places: Vec<&str> = places.map(|(x, _)| x.trim_end_matches(".0")).collect();
                format!("{}: {}\n", series.name, places.join(" "))
            });
            return format!("{}\n{}", self.x_name(), rows.collect::<String>());
        }
        let head: Vec<&str> = [self.x_name()]
            .into_iter()
            .chain(data.series.iter().map(|s| &*s.name))
            .collect();
        let rows: Vec<Vec<String>> = data
            .groups
            .iter()
            .enumerate()
            .map(|(g, group)| {
                let cells = data.series.iter().map(|series| series.cell(g));
                [group.clone()].into_iter().chain(cells).collect()
            })
            .collect();
        let mut text = table(&head, &rows);
        for (words, value) in &self.marks {
            text += &format!("{words}: {}\n", digits(*value));
        }
        text
    }
}

impl Show for Figure<'_> {
    fn bundle(&self) -> Bundle {
        self.plot().bundle()
    }
}
