//! Charts of any frame: a mark, the columns it is drawn from, and what tells its series and panels apart.
//!
//! | mark | from | shows |
//! |---|---|---|
//! | [`line`](Drawable::line) | x, y | a line for each series, repeats of a place with their spread |
//! | [`scatter`](Drawable::scatter) | x, y, numbers | a dot a row |
//! | [`bar`](Drawable::bar) | x, y | a group of bars for each x, repeats with their spread |
//! | [`hist`](Drawable::hist) | x, numbers | how often values are in each of some intervals of equal width |
//! | [`boxes`](Drawable::boxes) | x, y | quartiles, whiskers to the last value within 1.5 quartile ranges, dots beyond |
//! | [`heat`](Drawable::heat) | x, y, value | a cell for each pair, by the median of its values |
//!
//! Rows of one place, series and panel are repeats. Nothing here is of runs: that is [`crate::plot`].

mod bars;
mod boxes;
mod columns;
mod gather;
mod heat;
mod hist;
mod layout;
mod points;
mod spread;

use polars::prelude::DataFrame;

use crate::display::Bundle;
use crate::in_words::or_end;
use crate::paper::Source;
use crate::plot::{self, Plot, PlotError};
use crate::show::Show;

pub use spread::Spread;
pub(crate) use spread::{half_ci, mean_std};

/// What is drawn for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Line,
    Scatter,
    Bar,
    Hist,
    Box,
    Heat,
}

/// The marks by the names that `%plot` knows, and the columns that each needs.
pub const MARKS: [(&str, &[&str]); 6] = [
    ("line", &["x", "y"]),
    ("scatter", &["x", "y"]),
    ("bar", &["x", "y"]),
    ("hist", &["x"]),
    ("box", &["x", "y"]),
    ("heat", &["x", "y", "value"]),
];

/// A frame of which something is to be drawn.
#[derive(Clone, Debug)]
pub struct Drawable {
    frame: DataFrame,
    /// What is known of the runs behind it.
    settings: Vec<plot::Setting>,
}

/// Begins a chart of a frame, or of what else has rows.
///
/// ```
/// use halobook::prelude::*;
/// let t = df!("ranks" => [1, 2, 1, 2], "epoch_ms" => [8.0, 5.0, 9.0, 4.0], "strategy" => ["halo", "halo", "broadcast", "broadcast"])?;
/// plot(&t).line("ranks", "epoch_ms").by("strategy").title("What a second rank brings");
/// # Ok::<(), PolarsError>(())
/// ```
pub fn plot(source: &(impl Source + ?Sized)) -> Drawable {
    Drawable {
        frame: source.rows(),
        settings: source.settings(),
    }
}

impl Drawable {
    /// A line over `x`: numbers, or labels in their order.
    pub fn line(&self, x: &str, y: &str) -> Chart {
        self.chart(Mark::Line, x, y, "")
    }

    /// A dot for each row.
    pub fn scatter(&self, x: &str, y: &str) -> Chart {
        self.chart(Mark::Scatter, x, y, "")
    }

    /// Bars from zero for each value of `x`.
    pub fn bar(&self, x: &str, y: &str) -> Chart {
        self.chart(Mark::Bar, x, y, "")
    }

    /// How the values of `x` are distributed.
    pub fn hist(&self, x: &str) -> Chart {
        self.chart(Mark::Hist, x, "", "")
    }

    /// The quartiles of `y` for each value of `x`.
    pub fn boxes(&self, x: &str, y: &str) -> Chart {
        self.chart(Mark::Box, x, y, "")
    }

    /// A cell for each pair of `x` and `y`, coloured by the median of `value`.
    pub fn heat(&self, x: &str, y: &str, value: &str) -> Chart {
        self.chart(Mark::Heat, x, y, value)
    }

    fn chart(&self, mark: Mark, x: &str, y: &str, value: &str) -> Chart {
        Chart {
            frame: self.frame.clone(),
            settings: self.settings.clone(),
            mark,
            x: x.to_owned(),
            y: y.to_owned(),
            value: value.to_owned(),
            by: None,
            facet: None,
            spread: Spread::default(),
            title: None,
            bins: None,
        }
    }
}

/// A chart that is still being described; the last value of a cell, it is drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    frame: DataFrame,
    settings: Vec<plot::Setting>,
    mark: Mark,
    x: String,
    y: String,
    value: String,
    by: Option<String>,
    facet: Option<String>,
    spread: Spread,
    title: Option<String>,
    bins: Option<usize>,
}

impl Chart {
    /// A series for each value of a column; six at most.
    #[must_use]
    pub fn by(mut self, column: &str) -> Chart {
        self.by = Some(column.to_owned());
        self
    }

    /// A panel for each value of a column, with common axes; twelve at most.
    #[must_use]
    pub fn facet(mut self, column: &str) -> Chart {
        self.facet = Some(column.to_owned());
        self
    }

    /// What repeats are drawn as: `std`, `ci` (95 %), `range`, `none`, or a column that holds the half width.
    #[must_use]
    pub fn err(mut self, spread: &str) -> Chart {
        self.spread = Spread::named(spread);
        self
    }

    /// What it shows.
    #[must_use]
    pub fn title(mut self, words: &str) -> Chart {
        self.title = Some(words.to_owned());
        self
    }

    /// Of a histogram: about how many intervals.
    #[must_use]
    pub fn bins(mut self, count: usize) -> Chart {
        self.bins = Some(count.max(1));
        self
    }

    /// The chart, drawn.
    ///
    /// # Panics
    /// As [`Chart::try_plot`] refuses.
    #[track_caller]
    pub fn plot(&self) -> Plot {
        or_end(self.try_plot())
    }

    /// Like [`Chart::plot`].
    ///
    /// # Errors
    /// A column that is not there or holds no numbers where numbers are drawn, more series than can be told apart,
    /// or more panels than there is room for.
    pub fn try_plot(&self) -> Result<Plot, PlotError> {
        layout::draw(self)
    }

    /// Writes it to `path`, as [`Plot::save`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Chart::plot`].
    #[track_caller]
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> std::io::Result<()> {
        self.plot().save(path)
    }

    /// Lines at its foot: how many rows, and of which runs and data.
    fn foot(&self) -> Vec<String> {
        let mut lines = plot::setting::stamp(&self.settings.iter().collect::<Vec<_>>());
        lines.retain(|line| !line.is_empty());
        let mut said = vec![plot::units::plural(self.frame.height(), "row")];
        if let (true, Ok(data)) = (
            self.settings.is_empty(),
            columns::labels(&self.frame, "data"),
        ) {
            let names = columns::distinct(&data).into_iter().take(4).map(|data| {
                let of = plot::Setting {
                    data,
                    ..plot::Setting::default()
                };
                of.data_label()
            });
            said.push(names.collect::<Vec<_>>().join(", "));
        }
        lines.push(said.join(" · "));
        lines
    }

    fn title_or_own(&self) -> String {
        self.title.clone().unwrap_or_else(|| {
            let what = match self.mark {
                Mark::Hist => format!("Distribution of {}", self.x),
                Mark::Heat => format!("{} by {} and {}", self.value, self.x, self.y),
                _ => format!("{} by {}", self.y, self.x),
            };
            match &self.by {
                Some(by) => format!("{what} and {by}"),
                None => what,
            }
        })
    }
}

impl Show for Chart {
    fn bundle(&self) -> Bundle {
        self.plot().bundle()
    }
}
