//! Columns of a user's frame.

use gnn_core::error::nearest;
use polars::prelude::{Column, DataFrame, DataType};

use crate::paper::numbers::word;
use crate::plot::PlotError;

fn column<'f>(frame: &'f DataFrame, name: &str) -> Result<&'f Column, PlotError> {
    frame.column(name).map_err(|_| {
        let names: Vec<&str> = frame
            .get_column_names()
            .iter()
            .map(|n| n.as_str())
            .collect();
        let near = match nearest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean \"{near}\"?"),
            None => String::new(),
        };
        PlotError::Run(format!(
            "the frame has no column \"{name}\"{near}\nhelp: its columns are {}",
            names.join(", ")
        ))
    })
}

/// Whether a column holds numbers.
pub(super) fn is_number(frame: &DataFrame, name: &str) -> Result<bool, PlotError> {
    Ok(column(frame, name)?.dtype().is_primitive_numeric())
}

/// A column of numbers, a missing one as NaN.
pub(super) fn numbers(frame: &DataFrame, name: &str) -> Result<Vec<f64>, PlotError> {
    let column = column(frame, name)?;
    let refused = || {
        PlotError::Run(format!(
            "column \"{name}\" holds {}, and numbers are drawn\nhelp: name another column, or cast it",
            column.dtype()
        ))
    };
    if !(column.dtype().is_primitive_numeric()
        || column.dtype().is_bool()
        || column.dtype().is_temporal())
    {
        return Err(refused());
    }
    let series = column
        .as_materialized_series()
        .cast(&DataType::Float64)
        .map_err(|_| refused())?;
    let values = series.f64().map_err(|_| refused())?;
    Ok(values.iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// A column as labels.
pub(super) fn labels(frame: &DataFrame, name: &str) -> Result<Vec<String>, PlotError> {
    let column = column(frame, name)?;
    let cell = |row| column.get(row).map(|value| word(&value));
    let cells: Result<Vec<String>, _> = (0..frame.height()).map(cell).collect();
    cells.map_err(|error| PlotError::Run(error.to_string()))
}

/// Different labels: by size where all are numbers, else in the order in which they come.
pub(super) fn distinct(labels: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let mut found: Vec<String> = labels.iter().filter(|l| seen.insert(*l)).cloned().collect();
    let number = |label: &String| label.parse::<f64>();
    if found.iter().all(|label| number(label).is_ok()) {
        found.sort_by(|a, b| {
            number(a)
                .unwrap_or(0.0)
                .total_cmp(&number(b).unwrap_or(0.0))
        });
    }
    found
}
