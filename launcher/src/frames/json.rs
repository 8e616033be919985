//! A frame as JSON lines, for the command line.

use polars::prelude::{AnyValue, DataFrame};
use serde_json::{Map, Value};

/// One JSON object a row, columns in order. Numbers that are not finite become null, times of the
/// day RFC 3339.
pub fn json_lines(frame: &DataFrame) -> Vec<String> {
    let columns = frame.columns();
    (0..frame.height())
        .map(|row| {
            let object: Map<String, Value> = columns
                .iter()
                .map(|c| (c.name().to_string(), c.get(row).map_or(Value::Null, cell)))
                .collect();
            Value::Object(object).to_string()
        })
        .collect()
}

fn cell(value: AnyValue) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(b) => b.into(),
        AnyValue::String(s) => s.into(),
        AnyValue::StringOwned(s) => s.as_str().into(),
        AnyValue::UInt8(x) => x.into(),
        AnyValue::UInt16(x) => x.into(),
        AnyValue::UInt32(x) => x.into(),
        AnyValue::UInt64(x) => x.into(),
        AnyValue::Int32(x) => x.into(),
        AnyValue::Int64(x) => x.into(),
        AnyValue::Float32(x) => x.into(),
        AnyValue::Float64(x) => x.into(),
        AnyValue::Datetime(ms, ..) | AnyValue::DatetimeOwned(ms, ..) => {
            crate::time::Utc { ms }.rfc3339().into()
        }
        other => other.to_string().into(),
    }
}
