//! What a cell returns on each rank, as rows of one frame.

use launcher::frames;
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};
use serde::Serialize;
use serde_json::{Map, Value};

/// A row: named values. [`row!`](crate::row) makes one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row(Map<String, Value>);

impl Row {
    /// Adds a column. What cannot be serialised is null.
    pub fn push(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.0.insert(name.to_owned(), value);
    }
}

/// Makes a row of variables and named values: `row! { mine, halo, host = ctx.host() }`.
#[macro_export]
macro_rules! row {
    (@value $name:ident) => { &$name };
    (@value $name:ident = $value:expr) => { &$value };
    ($($name:ident $(= $value:expr)?),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut row = $crate::ranks::Row::default();
        $( row.push(stringify!($name), $crate::row!(@value $name $(= $value)?)); )*
        row
    }};
}

/// What may end a `%%ranks` cell.
pub trait IntoRows {
    /// Its rows; a single value is a column `value`.
    fn into_rows(self) -> Vec<Map<String, Value>>;
}

impl IntoRows for () {
    fn into_rows(self) -> Vec<Map<String, Value>> {
        Vec::new()
    }
}

impl IntoRows for Row {
    fn into_rows(self) -> Vec<Map<String, Value>> {
        vec![self.0]
    }
}

impl IntoRows for Vec<Row> {
    fn into_rows(self) -> Vec<Map<String, Value>> {
        self.into_iter().map(|row| row.0).collect()
    }
}

impl IntoRows for DataFrame {
    fn into_rows(self) -> Vec<Map<String, Value>> {
        let rows = frames::json_lines(&self);
        let object = |line: &String| serde_json::from_str(line).ok();
        rows.iter().filter_map(object).collect()
    }
}

/// An error ends the cell on its rank, in its words.
impl<T: IntoRows, E: std::fmt::Display> IntoRows for Result<T, E> {
    #[track_caller]
    fn into_rows(self) -> Vec<Map<String, Value>> {
        match self {
            Ok(value) => value.into_rows(),
            Err(error) => panic!("{error}"),
        }
    }
}

macro_rules! values {
    ($($kind:ty)*) => {$(
        impl IntoRows for $kind {
            fn into_rows(self) -> Vec<Map<String, Value>> {
                let mut row = Row::default();
                row.push("value", self);
                row.into_rows()
            }
        }
    )*};
}
values!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 String &str);

/// One frame of every rank's rows, with a column `rank` before the others. A column is of whole numbers,
/// numbers, booleans or text, whichever holds all its values.
///
/// # Errors
/// What Polars says.
pub fn frame(rows: &[(u32, Map<String, Value>)]) -> PolarsResult<DataFrame> {
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(|(_, row)| row.keys()) {
        if !names.contains(&name) && name != "rank" {
            names.push(name);
        }
    }
    let ranks: Vec<u32> = rows.iter().map(|(rank, _)| *rank).collect();
    let mut columns: Vec<Column> = vec![Series::new("rank".into(), ranks).into()];
    for name in names {
        let values: Vec<&Value> = rows
            .iter()
            .map(|(_, row)| row.get(name).unwrap_or(&Value::Null))
            .collect();
        columns.push(column(name, &values));
    }
    DataFrame::new(rows.len(), columns)
}

fn column(name: &str, values: &[&Value]) -> Column {
    let name = name.into();
    let all = |fits: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || fits(v));
    let series = if all(Value::is_boolean) {
        let values: Vec<Option<bool>> = values.iter().map(|v| v.as_bool()).collect();
        Series::new(name, values)
    } else if all(Value::is_i64) {
        let values: Vec<Option<i64>> = values.iter().map(|v| v.as_i64()).collect();
        Series::new(name, values)
    } else if all(Value::is_number) {
        let values: Vec<Option<f64>> = values.iter().map(|v| v.as_f64()).collect();
        Series::new(name, values)
    } else {
        let text = |v: &&Value| match v {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let values: Vec<Option<String>> = values.iter().map(text).collect();
        Series::new(name, values)
    };
    series.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_typed_columns() {
        let (mine, halo) = (3usize, 1.5);
        let first = row! { mine, halo, host = "a" };
        let second = row! { mine, other = vec![1, 2] };
        let rows: Vec<(u32, Map<String, Value>)> = [first.into_rows(), second.into_rows()]
            .into_iter()
            .zip(0..)
            .flat_map(|(rows, rank)| rows.into_iter().map(move |row| (rank, row)))
            .collect();
        let frame = frame(&rows).expect("a frame");
        let names: Vec<String> = frame
            .columns()
            .iter()
            .map(|column| column.name().to_string())
            .collect();
        assert_eq!(names, ["rank", "mine", "halo", "host", "other"]);
        let mine = frame.column("mine").expect("there");
        let mine: Vec<Option<i64>> = mine.i64().expect("whole").iter().collect();
        assert_eq!(mine, [Some(3), Some(3)]);
        assert_eq!(frame.column("halo").expect("there").null_count(), 1);
        let other = frame.column("other").expect("there");
        assert_eq!(other.str().expect("text").get(1), Some("[1,2]"));
    }

    #[test]
    fn single_values_and_nothing() {
        assert_eq!(7u32.into_rows()[0]["value"], 7);
        assert!(().into_rows().is_empty());
        let ok: Result<f64, String> = Ok(0.5);
        assert_eq!(ok.into_rows()[0]["value"], 0.5);
    }
}
