//! Rows of a frame become panels, series and places.

use super::columns::{distinct, is_number, labels, numbers};
use super::{Chart, Mark, Spread};
use crate::plot::PlotError;
use crate::plot::ink::Ink;

/// Most panels of a chart.
const PANELS: usize = 12;

/// The values of one place of one series: rows that repeat each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub values: Vec<f64>,
    /// Half widths that a column gives, a value each.
    half: Vec<f64>,
}

impl Place {
    /// Low end, middle, high end; none where there is no value.
    pub(super) fn spread(&self, spread: &Spread) -> Option<[f64; 3]> {
        (!self.values.is_empty()).then(|| spread.of(&self.values, &self.half))
    }
}

/// A series by the places of the x axis.
pub(super) type Series = Vec<Place>;

/// All that a chart draws.
pub(super) struct Data {
    /// Names of the panels; one without a name where nothing tells them apart.
    pub panels: Vec<String>,
    /// Names of the series; one without a name where nothing tells them apart.
    pub series: Vec<String>,
    /// Places of the x axis in their order, as labels.
    pub places: Vec<String>,
    /// The same as numbers, where they are and the mark has an axis of numbers.
    pub xs: Option<Vec<f64>>,
    /// Places by panel and series.
    pub values: Vec<Vec<Series>>,
}

/// Reads what `chart` draws: `y`, or for a histogram `x`, at each place of `x`.
pub(super) fn gather(chart: &Chart) -> Result<Data, PlotError> {
    let frame = &chart.frame;
    let one = || vec![String::new(); frame.height()];
    let split = |column: &Option<String>| match column {
        Some(column) => labels(frame, column),
        None => Ok(one()),
    };
    let (facet, by) = (split(&chart.facet)?, split(&chart.by)?);
    let (panels, series) = (known(distinct(&facet)), known(distinct(&by)));
    if series.len() > Ink::LINES {
        return Err(PlotError::Run(format!(
            "{} series are more than the {} that can be told apart\nhelp: filter the frame, or split it by facet",
            series.len(),
            Ink::LINES
        )));
    }
    if panels.len() > PANELS {
        return Err(PlotError::Run(format!(
            "{} panels are more than there is room for, {PANELS}\nhelp: filter the frame, or tell series apart by it",
            panels.len()
        )));
    }
    let (y, at) = match chart.mark {
        // All values of a histogram are at one place.
        Mark::Hist => (numbers(frame, &chart.x)?, one()),
        _ => (numbers(frame, &chart.y)?, labels(frame, &chart.x)?),
    };
    let half = match &chart.spread {
        Spread::Column(column) => numbers(frame, column)?,
        _ => vec![f64::NAN; y.len()],
    };
    let places = distinct(&at);
    let axis = matches!(chart.mark, Mark::Line | Mark::Scatter);
    if chart.mark == Mark::Scatter {
        numbers(frame, &chart.x)?;
    }
    let xs: Option<Vec<f64>> = match axis && is_number(frame, &chart.x)? {
        true => places.iter().map(|x| x.parse().ok()).collect(),
        false => None,
    };
    let index = |names: &[String], labels: &[String]| -> Vec<usize> {
        let at: std::collections::HashMap<&String, usize> = names
            .iter()
            .enumerate()
            .map(|(k, name)| (name, k))
            .collect();
        labels
            .iter()
            .map(|label| at.get(label).copied().unwrap_or(0))
            .collect()
    };
    let (of_panel, of_series, of_place) = (
        index(&panels, &facet),
        index(&series, &by),
        index(&places, &at),
    );
    let mut values = vec![vec![vec![Place::default(); places.len()]; series.len()]; panels.len()];
    for row in 0..y.len() {
        if y[row].is_finite() {
            let place = &mut values[of_panel[row]][of_series[row]][of_place[row]];
            place.values.push(y[row]);
            place.half.push(half[row]);
        }
    }
    Ok(Data {
        panels,
        series,
        places,
        xs,
        values,
    })
}

/// An empty frame has one panel and one series as well.
fn known(names: Vec<String>) -> Vec<String> {
    if names.is_empty() {
        vec![String::new()]
    } else {
        names
    }
}

impl Data {
    /// All places of all series and panels.
    pub(super) fn all(&self) -> impl Iterator<Item = &Place> {
        self.values.iter().flatten().flatten()
    }

    /// All values.
    pub(super) fn flat(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.values
            .iter()
            .flatten()
            .flatten()
            .flat_map(|place| place.values.iter().copied())
    }

    /// How many rows the fullest place has.
    pub(super) fn repeats(&self) -> usize {
        self.all()
            .map(|place| place.values.len())
            .max()
            .unwrap_or(0)
    }
}
