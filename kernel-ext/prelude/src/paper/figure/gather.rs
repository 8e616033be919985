//! Rows become groups and series.

use polars::prelude::DataFrame;

use super::{Figure, Kind};
use crate::paper::numbers::word;
use crate::plot::{PlotError, digits, median, need};

/// What a figure draws.
pub(super) struct Data {
    /// Labels of the groups, or x values as words, in their order.
    pub groups: Vec<String>,
    /// x values of the groups, where they are all numbers.
    pub xs: Option<Vec<f64>>,
    /// Series, each with a place for every group.
    pub series: Vec<Series>,
}

/// One series.
pub(super) struct Series {
    /// Its name.
    pub name: String,
    /// Its values by group; several are repeats, none is a gap.
    pub values: Vec<Vec<f64>>,
}

impl Series {
    /// Median, least and most of a group; NaN where there is none.
    pub fn spread(&self, group: usize) -> [f64; 3] {
        let values = &self.values[group];
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        [median(values.iter().copied()), least, most]
    }

    /// The same in words.
    pub fn cell(&self, group: usize) -> String {
        let [middle, least, most] = self.spread(group);
        match self.values[group].len() {
            0 => "-".into(),
            1 => digits(middle),
            _ => format!("{} [{} to {}]", digits(middle), digits(least), digits(most)),
        }
    }
}

impl Data {
    pub fn is_empty(&self) -> bool {
        self.series
            .iter()
            .all(|s| s.values.iter().all(Vec::is_empty))
    }

    /// How many values the largest group of a series has.
    pub fn repeats(&self) -> usize {
        let counts = self
            .series
            .iter()
            .flat_map(|s| s.values.iter().map(Vec::len));
        counts.max().unwrap_or(0)
    }
}

/// Reads what `figure` draws.
pub(super) fn gather(figure: &Figure<'_>) -> Result<Data, PlotError> {
    let frame = figure.source.rows();
    let labels = labels(&frame, &figure.x)?;
    let mut groups: Vec<String> = Vec::new();
    if figure.kind == Kind::Scatter {
        // Dots have their place; in order they also read as a list.
        groups = labels.clone();
        groups.sort_by(|a, b| order(a).total_cmp(&order(b)));
        groups.dedup();
    }
    let mut at: Vec<usize> = Vec::new();
    for label in &labels {
        let known = groups.iter().position(|known| known == label);
        at.push(known.unwrap_or_else(|| {
            groups.push(label.clone());
            groups.len() - 1
        }));
    }
    let mut series: Vec<Series> = Vec::new();
    for (k, column) in figure.columns.iter().enumerate() {
        let values = need(&frame, "given", column)?;
        let name = figure.names.get(k).unwrap_or(column);
        let of = match &figure.by {
            None => vec![name.clone(); values.len()],
            Some(by) if figure.columns.len() == 1 => self::labels(&frame, by)?,
            Some(by) => {
                let by = self::labels(&frame, by)?;
                by.iter().map(|by| format!("{by}, {name}")).collect()
            }
        };
        for ((value, name), group) in values.into_iter().zip(of).zip(&at) {
            let values = add(&mut series, name, groups.len());
            if value.is_finite() {
                values[*group].push(value);
            }
        }
    }
    if let (true, Some(by)) = (figure.columns.is_empty(), &figure.by) {
        for (name, group) in self::labels(&frame, by)?.into_iter().zip(&at) {
            add(&mut series, name, groups.len())[*group].push(1.0);
        }
    }
    let xs: Option<Vec<f64>> = groups.iter().map(|x| x.parse().ok()).collect();
    if figure.kind == Kind::Scatter && xs.is_none() {
        return Err(PlotError::Run(format!(
            "a scatter needs numbers, and {} has words\nhelp: bars and lines take labels",
            figure.x
        )));
    }
    Ok(Data { groups, xs, series })
}

/// The number that a label is; what is none comes last.
fn order(label: &str) -> f64 {
    label.parse().unwrap_or(f64::INFINITY)
}

/// The values of the series of that name, which is added where there is none.
fn add(series: &mut Vec<Series>, name: String, groups: usize) -> &mut Vec<Vec<f64>> {
    let known = series.iter().position(|known| known.name == name);
    let at = known.unwrap_or_else(|| {
        let values = vec![Vec::new(); groups];
        series.push(Series { name, values });
        series.len() - 1
    });
    &mut series[at].values
}

/// A column as words.
fn labels(frame: &DataFrame, column: &str) -> Result<Vec<String>, PlotError> {
    let missing = || PlotError::Column {
        frame: "given".into(),
        column: column.to_owned(),
    };
    let cells = frame.column(column).map_err(|_| missing())?;
    let cell = |row| cells.get(row).map(|value| word(&value));
    (0..frame.height())
        .map(cell)
        .collect::<Result<_, _>>()
        .map_err(|_| missing())
}
