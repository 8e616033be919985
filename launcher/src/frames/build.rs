//! Columns out of row structs, with the types that the rows declare.

use super::rows::Rows;
use super::table::Table;
use gnn_core::record::rows::{CommRow, PartRow, PlanRow, RankRow, Row, SpanRow, TracedRow};
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};

/// A text column with one value throughout.
pub(super) fn constant(name: &str, value: &str, height: usize) -> Column {
    Series::new(name.into(), vec![value; height]).into()
}

/// A frame with the columns that `R` declares, `run_id` first.
pub(super) fn frame<R: Row>(rows: &[R], run_id: &str) -> PolarsResult<DataFrame> {
    let mut columns = vec![constant("run_id", run_id, rows.len())];
    columns.extend(declared(rows));
    DataFrame::new(rows.len(), columns)
}

/// The columns that `R` declares.
pub(super) fn declared<R: Row>(rows: &[R]) -> Vec<Column> {
    let columns = R::FRAME.columns.iter();
    let mut table = Table::new(columns.map(|column| (column.name, column.kind)));
    for row in rows {
        let object = serde_json::to_value(row);
        table.push(&object.expect("a row struct is plain data with text keys"));
    }
    table.all()
}

/// The `ranks` frame.
pub(crate) fn ranks(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<RankRow>(&rows.ranks, run_id)
}

/// The `comm` frame: every sender's rows.
pub(crate) fn comm(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    frame::<CommRow>(&rows.comm, run_id)
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
    DataFrame::new(rows.len(), declared(rows))
}

/// The `plan` frame.
pub(crate) fn plan(rows: &[PlanRow]) -> PolarsResult<DataFrame> {
    DataFrame::new(rows.len(), declared(rows))
}
