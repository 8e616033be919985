//! Columns that rows are added to one by one, typed as a frame declares them.

use gnn_core::record::rows::Column as Kind;
use polars::prelude::{Column, NamedFrom, Series};
use serde_json::Value;
use std::cmp::Ordering;

/// Columns of one height.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(String, Cells)>,
    height: usize,
}

/// What is in a column; none where a row has nothing there.
#[derive(Debug)]
enum Cells {
    Bool(Vec<Option<bool>>),
    U16(Vec<Option<u16>>),
    U32(Vec<Option<u32>>),
    U64(Vec<Option<u64>>),
    I64(Vec<Option<i64>>),
    F64(Vec<Option<f64>>),
    Str(Vec<Option<String>>),
}

/// Does the same with the vector of any type.
macro_rules! each {
    ($cells:expr, $values:ident => $done:expr) => {
        match $cells {
            Cells::Bool($values) => $done,
            Cells::U16($values) => $done,
            Cells::U32($values) => $done,
            Cells::U64($values) => $done,
            Cells::I64($values) => $done,
            Cells::F64($values) => $done,
            Cells::Str($values) => $done,
        }
    };
}

impl Cells {
    fn new(kind: Kind) -> Cells {
        match kind {
            Kind::Bool => Cells::Bool(Vec::new()),
            Kind::U16 => Cells::U16(Vec::new()),
            Kind::U32 => Cells::U32(Vec::new()),
            Kind::U64 => Cells::U64(Vec::new()),
            Kind::I64 => Cells::I64(Vec::new()),
            Kind::F64 => Cells::F64(Vec::new()),
            Kind::Str => Cells::Str(Vec::new()),
        }
    }

    /// Adds a cell; what is of another type becomes nothing. Whether it is what was written.
    fn push(&mut self, cell: &Value) -> bool {
        fn narrow<T: TryFrom<u64>>(cell: &Value) -> Option<T> {
            cell.as_u64().and_then(|x| T::try_from(x).ok())
        }
        match self {
            Cells::Bool(values) => values.push(cell.as_bool()),
            Cells::U16(values) => values.push(narrow(cell)),
            Cells::U32(values) => values.push(narrow(cell)),
            Cells::U64(values) => values.push(cell.as_u64()),
            Cells::I64(values) => values.push(cell.as_i64()),
            Cells::F64(values) => values.push(cell.as_f64()),
            Cells::Str(values) => values.push(cell.as_str().map(str::to_owned)),
        }
        let known = each!(self, values => values.last().is_some_and(Option::is_some));
        known || cell.is_null()
    }

    /// How two rows compare here; what is nothing comes first.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Cells::F64(values) => match (values[a], values[b]) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            },
            Cells::Bool(values) => values[a].cmp(&values[b]),
            Cells::U16(values) => values[a].cmp(&values[b]),
            Cells::U32(values) => values[a].cmp(&values[b]),
            Cells::U64(values) => values[a].cmp(&values[b]),
            Cells::I64(values) => values[a].cmp(&values[b]),
            Cells::Str(values) => values[a].cmp(&values[b]),
        }
    }

    /// Some of its rows.
    fn pick(&self, name: &str, rows: &[usize]) -> Column {
        let name = name.into();
        let series = match self {
            Cells::Str(values) => {
                let words: Vec<Option<&str>> = rows.iter().map(|&k| values[k].as_deref()).collect();
                Series::new(name, words)
            }
            Cells::Bool(values) => Series::new(name, picked(values, rows)),
            Cells::U16(values) => Series::new(name, picked(values, rows)),
            Cells::U32(values) => Series::new(name, picked(values, rows)),
            Cells::U64(values) => Series::new(name, picked(values, rows)),
            Cells::I64(values) => Series::new(name, picked(values, rows)),
            Cells::F64(values) => Series::new(name, picked(values, rows)),
        };
        series.into()
    }
}

fn picked<T: Copy>(values: &[Option<T>], rows: &[usize]) -> Vec<Option<T>> {
    rows.iter().map(|&k| values[k]).collect()
}

impl Table {
    /// No rows yet, of these columns.
    pub(super) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> Table {
        let column = |(name, kind): (&str, Kind)| (name.to_owned(), Cells::new(kind));
        Table {
            columns: columns.into_iter().map(column).collect(),
            height: 0,
        }
    }

    /// Adds an object's cells; the first column, if any, whose cell is of another type.
    pub(super) fn push(&mut self, row: &Value) -> Option<&str> {
        self.height += 1;
        let mut wrong = None;
        for (name, cells) in &mut self.columns {
            let cell = row.get(name.as_str()).unwrap_or(&Value::Null);
            if !cells.push(cell) && wrong.is_none() {
                wrong = Some(name.as_str());
            }
        }
        wrong
    }

    /// The numbers of its rows, sorted by some columns; alike ones stay in their order.
    pub(super) fn sorted(&self, by: &[String]) -> Vec<usize> {
        let cells = |key: &String| self.columns.iter().find(|(name, _)| name == key);
        let keys: Vec<&Cells> = by
            .iter()
            .filter_map(cells)
            .map(|(_, cells)| cells)
            .collect();
        let mut rows: Vec<usize> = (0..self.height).collect();
        rows.sort_by(|&a, &b| {
            let compared = keys.iter().map(|cells| cells.compare(a, b));
            compared.fold(Ordering::Equal, Ordering::then)
        });
        rows
    }

    /// Some of its rows.
    pub(super) fn pick(&self, rows: &[usize]) -> Vec<Column> {
        let columns = self.columns.iter();
        columns
            .map(|(name, cells)| cells.pick(name, rows))
            .collect()
    }

    /// All of its rows.
    pub(super) fn all(&self) -> Vec<Column> {
        self.pick(&(0..self.height).collect::<Vec<_>>())
    }
}
