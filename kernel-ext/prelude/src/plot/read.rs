//! Columns out of a frame as plain vectors, whatever integer or float type they have.

use polars::prelude::{DataFrame, DataType};

use super::PlotError;

/// A numeric column as `f64`, a missing value as NaN; `None` when the frame lacks the column.
pub(crate) fn maybe(frame: &DataFrame, column: &str) -> Option<Vec<f64>> {
    let series = frame.column(column).ok()?.as_materialized_series().clone();
    let series = series.cast(&DataType::Float64).ok()?;
    let values = series.f64().ok()?;
    Some(values.iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// Like [`maybe`], for a column a plot cannot do without.
pub(crate) fn need(frame: &DataFrame, name: &str, column: &str) -> Result<Vec<f64>, PlotError> {
    maybe(frame, column).ok_or_else(|| PlotError::Column {
        frame: name.to_owned(),
        column: column.to_owned(),
    })
}

/// `is_warmup`; all false when the frame lacks it.
pub(crate) fn warmup(frame: &DataFrame) -> Vec<bool> {
    let flags = frame.column("is_warmup").ok().and_then(|c| {
        let flags = c.as_materialized_series().bool().ok()?;
        Some(flags.iter().map(|v| v.unwrap_or(false)).collect())
    });
    flags.unwrap_or_else(|| vec![false; frame.height()])
}

/// A text column, enums included; `None` when the frame lacks it.
pub(crate) fn words(frame: &DataFrame, column: &str) -> Option<Vec<String>> {
    let series = frame.column(column).ok()?.as_materialized_series().clone();
    let series = series.cast(&DataType::String).ok()?;
    let values = series.str().ok()?;
    Some(
        values
            .iter()
            .map(|v| v.unwrap_or_default().to_owned())
            .collect(),
    )
}
