//! Frames that a strategy adds: read by what a run folder says of them, whatever strategy it was.

use super::build::constant;
use super::table::Table;
use crate::error::{Error, Result};
use crate::strategies;
use gnn_core::record::frame::{self, FrameDef, Schema};
use gnn_core::strategy::STRATEGIES;
use polars::prelude::{DataFrame, PolarsResult};
use serde::de::Error as _;
use serde_json::Value;
use std::path::Path;

/// The frames of built-in strategies, in the order of the registry.
fn built_in() -> Vec<Schema> {
    let mut all: Vec<Schema> = Vec::new();
    for def in STRATEGIES.iter().flat_map(|entry| entry.frames) {
        if !all.iter().any(|known| known.name == def.name) {
            all.push(FrameDef::schema(def));
        }
    }
    all
}

/// The frames of all strategies that are known here: built-in ones, and those written in cells.
pub fn of_strategies() -> Vec<Schema> {
    let mut all = built_in();
    for schema in strategies::all().into_iter().flat_map(|about| about.frames) {
        if !all.iter().any(|known| known.name == schema.name) {
            all.push(schema);
        }
    }
    all
}

/// The frames that the strategy of a run adds. A run of a version that did not write them down may have
/// any of the built-in ones.
///
/// # Errors
/// When the run folder's list of them cannot be read.
pub fn of_run(run_dir: &Path) -> Result<Vec<Schema>> {
    let written = frame::read(run_dir).map_err(Error::Core)?;
    Ok(written.unwrap_or_else(built_in))
}

/// A frame, and whether rows of it can be in the run.
pub(super) fn find(run_dir: &Path, name: &str) -> Result<Option<(Schema, bool)>> {
    let named = |all: Vec<Schema>| all.into_iter().find(|schema| schema.name == name);
    Ok(match named(of_run(run_dir)?) {
        Some(schema) => Some((schema, true)),
        None => named(of_strategies()).map(|schema| (schema, false)),
    })
}

/// The rows of one such frame.
#[derive(Debug)]
pub(crate) struct Own {
    schema: Schema,
    /// The epoch of each row.
    epochs: Vec<u32>,
    table: Table,
}

impl Own {
    /// No rows yet.
    pub fn new(schema: Schema) -> Own {
        let columns = schema.columns.iter().map(|c| (c.name.as_str(), c.kind));
        Own {
            table: Table::new(columns),
            epochs: Vec::new(),
            schema,
        }
    }

    /// Name of the frame.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Adds a row as it was written.
    ///
    /// # Errors
    /// When it is none, or a cell is not of its column's type.
    pub fn add(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let row: Value = serde_json::from_slice(line)?;
        let epoch = row["epoch"].as_u64().and_then(|e| u32::try_from(e).ok());
        let epoch = epoch.ok_or_else(|| serde_json::Error::custom("a row without an epoch"))?;
        if let Some(column) = self.table.push(&row) {
            let said = format!(
                "column {column} of frame {}: {}",
                self.schema.name, row[column]
            );
            return Err(serde_json::Error::custom(said));
        }
        self.epochs.push(epoch);
        Ok(())
    }

    /// The frame of the epochs in `whole`, which ascends, with `run_id` before the declared columns.
    pub fn frame(&self, run_id: &str, whole: &[u32]) -> PolarsResult<DataFrame> {
        let mut rows = self.table.sorted(&self.schema.sort);
        rows.retain(|&k| whole.binary_search(&self.epochs[k]).is_ok());
        let mut columns = vec![constant("run_id", run_id, rows.len())];
        columns.extend(self.table.pick(&rows));
        DataFrame::new(rows.len(), columns)
    }
}
