//! What every row of a frame must satisfy.

use crate::Outcome;
use anyhow::{Context as _, ensure};
use serde_json::Value;

/// A number out of a row.
///
/// # Errors
/// When the row has no such column, or it holds no number.
pub fn number(row: &Value, column: &str) -> anyhow::Result<f64> {
    row[column]
        .as_f64()
        .with_context(|| format!("no `{column}` in {row}"))
}

/// That the parts of a row's time are its wall time, and the parts of communication all of that.
///
/// # Errors
/// When they are not.
pub fn adds_up(row: &Value) -> Outcome {
    let parts = [
        "compute_ms",
        "copy_ms",
        "xfer_exposed_ms",
        "wait_ms",
        "other_ms",
    ];
    let wall = number(row, "wall_ms")?;
    let mut sum = 0.0;
    for part in parts {
        let value = number(row, part)?;
        ensure!(value >= -1e-6, "{part} is negative: {row}");
        sum += value;
    }
    ensure!(
        (sum - wall).abs() <= 1e-6 + 1e-6 * wall,
        "parts sum to {sum}: {row}"
    );
    let (hidden, exposed) = (
        number(row, "comm_hidden_ms")?,
        number(row, "xfer_exposed_ms")?,
    );
    let comm = number(row, "comm_ms")?;
    ensure!(
        (hidden + exposed - comm).abs() <= 1e-6 + 1e-6 * comm,
        "comm_ms: {row}"
    );
    Ok(())
}
