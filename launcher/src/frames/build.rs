//! Columns out of row structs, with the types that the rows declare.

use super::rows::Rows;
use gnn_core::record::rows::{
    BatchRow, Column as Kind, CommRow, HopRow, PartRow, PlanRow, RankRow, Row, SpanRow, StaleRow,
    TracedRow,
};
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};
use serde_json::Value;

/// Rows that are objects at one time: they take twenty times the memory of the columns.
const AT_ONCE: usize = 1 << 14;

/// A text column with one value throughout.
pub(crate) fn constant(name: &str, value: &str, height: usize) -> Column {
    Series::new(name.into(), vec![value; height]).into()
}

/// A frame with the columns that `R` declares, `run_id` first.
fn frame<R: Row>(rows: &[R], run_id: &str) -> PolarsResult<DataFrame> {
    let mut columns = vec![constant("run_id", run_id, rows.len())];
    columns.extend(declared(rows)?);
    DataFrame::new(rows.len(), columns)
}

/// The columns that `R` declares.
fn declared<R: Row>(rows: &[R]) -> PolarsResult<Vec<Column>> {
    let (first, rest) = rows.split_at(rows.len().min(AT_ONCE));
    let mut columns = converted(first);
    for rows in rest.chunks(AT_ONCE) {
        for (column, more) in columns.iter_mut().zip(converted(rows)) {
            column.append(&more)?;
        }
    }
    Ok(columns)
}

/// Their part in these rows.
fn converted<R: Row>(rows: &[R]) -> Vec<Column> {
    let objects: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::to_value(row).expect("a row struct is plain data with text keys"))
        .collect();
    let declared = R::COLUMNS.iter();
    declared
        .map(|&(name, kind)| column(name, kind, &objects))
        .collect()
}

/// One column of the objects, typed; null where a value is missing.
fn column(name: &str, kind: Kind, objects: &[Value]) -> Column {
    let cells = || objects.iter().map(|o| o.get(name).unwrap_or(&Value::Null));
    let name = name.into();
    let series = match kind {
        Kind::Bool => Series::new(name, cells().map(Value::as_bool).collect::<Vec<_>>()),
        Kind::U16 => {
            let narrow = |v: &Value| v.as_u64().and_then(|x| u16::try_from(x).ok());
            Series::new(name, cells().map(narrow).collect::<Vec<_>>())
        }
        Kind::U32 => {
            let narrow = |v: &Value| v.as_u64().and_then(|x| u32::try_from(x).ok());
            Series::new(name, cells().map(narrow).collect::<Vec<_>>())
        }
        Kind::U64 => Series::new(name, cells().map(Value::as_u64).collect::<Vec<_>>()),
        Kind::I64 => Series::new(name, cells().map(Value::as_i64).collect::<Vec<_>>()),
        Kind::F64 => Series::new(name, cells().map(Value::as_f64).collect::<Vec<_>>()),
        Kind::Str => Series::new(name, cells().map(Value::as_str).collect::<Vec<_>>()),
    };
    series.into()
}

/// The `ranks` frame.
pub(crate) fn ranks(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<RankRow>(&rows.ranks, run_id)
}

/// The `comm` frame: every sender's rows.
pub(crate) fn comm(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<CommRow>(&rows.comm, run_id)
}

/// The `stale` frame: every owner's rows; none of a strategy that reuses nothing.
pub(crate) fn stale(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<StaleRow>(&rows.stale, run_id)
}

/// The `batches` frame: every rank's rows; none of a strategy that trains on the whole graph.
pub(crate) fn batches(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<BatchRow>(&rows.batches, run_id)
}

/// The `hops` frame: every rank's rows; none of a strategy that trains on the whole graph.
pub(crate) fn hops(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<HopRow>(&rows.hops, run_id)
}

/// The `spans` frame: every rank's rows; none of a run that keeps no spans.
pub(crate) fn spans(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<SpanRow>(&rows.spans, run_id)
}

/// The `traced` frame: every rank's rows; none of a run that keeps no spans.
pub(crate) fn traced(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<TracedRow>(&rows.traced, run_id)
}

/// The `partition` frame.
pub(crate) fn partition(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<PartRow>(&rows.partition, run_id)
}

/// The `partition` frame of a cut without a run.
pub(crate) fn partition_alone(rows: &[PartRow]) -> PolarsResult<DataFrame> {
    DataFrame::new(rows.len(), declared(rows)?)
}

/// The `plan` frame.
pub(crate) fn plan(rows: &[PlanRow]) -> PolarsResult<DataFrame> {
    DataFrame::new(rows.len(), declared(rows)?)
}
