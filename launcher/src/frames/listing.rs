//! What frames there are and what their columns are, for listings.

use super::epochs::EpochRow;
use super::summary::RunRow;
use super::{of_run, of_strategies};
use crate::error::Result;
use gnn_core::record::frame::{FrameDef, Schema};
use gnn_core::record::rows::{CommRow, PartRow, RankRow, Row, SpanRow, TracedRow};
use std::fmt::Write;
use std::path::Path;

/// The frames of a run, or without one all that there are, in the order of their names' list.
///
/// # Errors
/// When the run folder's list of its strategy's frames cannot be read.
pub fn schemas(run_dir: Option<&Path>) -> Result<Vec<Schema>> {
    let before = [
        RunRow::FRAME,
        EpochRow::FRAME,
        RankRow::FRAME,
        CommRow::FRAME,
    ];
    let after = [SpanRow::FRAME, TracedRow::FRAME, PartRow::FRAME];
    let own = match run_dir {
        Some(run_dir) => of_run(run_dir)?,
        None => of_strategies(),
    };
    let before = before.iter().map(FrameDef::schema);
    let after = after.iter().map(FrameDef::schema);
    Ok(before.chain(own).chain(after).collect())
}

/// Frames with their columns, each with its type, its unit and a line of words.
pub fn listed(schemas: &[Schema]) -> String {
    let mut text = String::new();
    for schema in schemas {
        let _ = writeln!(text, "{}: {}", schema.name, schema.doc);
        let wide = |len: usize| len.max(12);
        let names = schema.columns.iter().map(|c| c.name.len());
        let width = wide(names.max().unwrap_or(0));
        for column in &schema.columns {
            let (kind, unit) = (column.kind.label(), &column.unit);
            let line = format!(
                "  {:<width$}  {kind:<4}  {unit:<6}  {}",
                column.name, column.doc
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}
