//! What one setting came to, and the frame of all of them.

use crate::error::{Error, Result};
use crate::frames;
use crate::manifest::Manifest;
use crate::request::Pair;
use gnn_core::record::rows::Metric;
use gnn_core::spec::Value;
use polars::prelude::{Column, DataFrame, NamedFrom, Series};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The place in which it was run, from 0.
    pub order: u32,
    /// The swept keys and their values.
    pub set: Vec<Pair>,
    /// The whole request, as text that is equal for equal requests.
    pub request: String,
    /// Its run; none where the request was refused.
    pub run_id: Option<String>,
    /// As of a run, or `refused`.
    pub status: String,
    /// Whether the run is another sweep's.
    pub reused: bool,
    /// Why it did not finish.
    pub error: Option<String>,
    /// Everything that is a number, by column.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// The metric of `best_val` and `test`.
    pub metric: Option<String>,
    /// Whether the data was generated.
    pub synthetic: Option<bool>,
    /// Whether ranks outnumbered cores.
    pub oversubscribed: Option<bool>,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The numbers of a setting; none where there is no such thing.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Numbers { $($(#[$doc])* pub $name: Option<f64>),* }

        impl Numbers {
            /// Their names, in the order of the frame.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The one of that name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => self.$name,)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    /// Epochs finished.
    epochs_done,
    /// Median over epochs behind warm-up of the slowest rank's time, in ms; its parts follow.
    epoch_ms,
    /// Of those, in kernels.
    compute_ms,
    /// Packing and unpacking.
    copy_ms,
    /// Blocked while data moved.
    xfer_exposed_ms,
    /// Waiting for others.
    wait_ms,
    /// The rest.
    other_ms,
    /// Bytes sent by all ranks in an epoch, a mean over those behind warm-up: they add up, and strategies alternate.
    epoch_bytes,
    /// The whole run, in ms.
    wall_ms,
    /// Bytes sent by all ranks in the run.
    bytes_total,
    /// Of the fullest rank.
    mem_peak_bytes,
    /// Of the last epoch.
    train_loss,
    /// Best validation score.
    best_val,
    /// Test score at that epoch.
    test,
    /// Training until the validation score first reached the key `target`, or 99 % of its best.
    time_to_target_ms,
}

impl Row {
    /// Fills in what a run came to.
    pub fn take(&mut self, run_dir: &Path, run: &Manifest) {
        self.run_id = Some(run.run_id.clone());
        self.status = run.status.label().into();
        self.error = run.error.as_ref().map(|e| e.message.clone());
        self.synthetic = Some(run.synthetic);
        self.oversubscribed = Some(run.oversubscribed);
        let result = run.result.clone().unwrap_or_default();
        self.metric = result.score.map(|s| Metric::name(s.metric).to_owned());
        // Epochs whose times do not add up are told where the run's frames are read.
        let epochs = frames::load(run_dir, "epochs").ok();
        let settled = |column: &str| epochs.as_ref().and_then(|e| settled(e, column));
        let median = |column: &str| settled(column)?.median();
        self.numbers = Numbers {
            epochs_done: Some(f64::from(run.epochs_done)),
            epoch_ms: median("wall_ms"),
            compute_ms: median("compute_ms"),
            copy_ms: median("copy_ms"),
            xfer_exposed_ms: median("xfer_exposed_ms"),
            wait_ms: median("wait_ms"),
            other_ms: median("other_ms"),
            epoch_bytes: settled("bytes").and_then(|bytes| bytes.mean()),
            wall_ms: Some(run.wall_ms),
            bytes_total: Some(run.bytes_total as f64),
            mem_peak_bytes: Some(run.mem_peak_bytes as f64),
            train_loss: result.train_loss,
            best_val: result.score.and_then(|s| s.val),
            test: result.score.and_then(|s| s.test),
            time_to_target_ms: result.time_to_target_ms,
        };
    }

    /// The swept pairs as words.
    pub fn words(&self) -> String {
        let word = |(key, value): &Pair| format!("{key} = {value}");
        self.set.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

/// A column over the epochs behind warm-up.
fn settled(epochs: &DataFrame, column: &str) -> Option<Series> {
    let warm = epochs.column("is_warmup").ok()?.bool().ok()?.clone();
    let settled = epochs.filter(&!&warm).ok()?;
    Some(
        settled
            .column(column)
            .ok()?
            .as_materialized_series()
            .clone(),
    )
}

/// One row a setting, in the order in which they were run: the swept keys, each with the type of its
/// values, then what they came to.
///
/// # Errors
/// [`Error::Frame`] when Polars refuses.
pub fn frame(rows: &[Row]) -> Result<DataFrame> {
    let series = |name: &str, values: Series| -> Column { values.with_name(name.into()).into() };
    let texts = |of: &dyn Fn(&Row) -> Option<String>| {
        Series::new("".into(), rows.iter().map(of).collect::<Vec<_>>())
    };
    let order: Vec<u32> = rows.iter().map(|r| r.order).collect();
    let mut columns = vec![series("order", Series::new("".into(), order))];
    let keys = rows.first().map_or(&[][..], |row| &row.set);
    for (key, _) in keys {
        let values: Vec<Option<&Value>> = rows
            .iter()
            .map(|row| row.set.iter().find(|(k, _)| k == key).map(|(_, v)| v))
            .collect();
        columns.push(series(key, typed(&values)));
    }
    columns.push(series("status", texts(&|r| Some(r.status.clone()))));
    columns.push(series("metric", texts(&|r| r.metric.clone())));
    for name in ["test", "best_val"].iter().chain(Numbers::NAMES) {
        if columns.iter().any(|c| c.name() == name) {
            continue;
        }
        let values: Vec<Option<f64>> = rows.iter().map(|r| r.numbers.get(name)).collect();
        columns.push(series(name, Series::new("".into(), values)));
    }
    let bools = |of: &dyn Fn(&Row) -> Option<bool>| {
        Series::new("".into(), rows.iter().map(of).collect::<Vec<_>>())
    };
    columns.push(series("run_id", texts(&|r| r.run_id.clone())));
    columns.push(series("reused", bools(&|r| Some(r.reused))));
    columns.push(series("synthetic", bools(&|r| r.synthetic)));
    columns.push(series("oversubscribed", bools(&|r| r.oversubscribed)));
    columns.push(series("error", texts(&|r| r.error.clone())));
    DataFrame::new(rows.len(), columns).map_err(Error::frame("sweep"))
}

/// Whole numbers, numbers, truths or else texts.
fn typed(values: &[Option<&Value>]) -> Series {
    let all = |is: fn(&Value) -> bool| values.iter().flatten().all(|v| is(v));
    let name = || "".into();
    if all(|v| matches!(v, Value::Int(_))) {
        let of = |v: &Option<&Value>| v.and_then(Value::as_f64).map(|x| x as i64);
        return Series::new(name(), values.iter().map(of).collect::<Vec<_>>());
    }
    if all(|v| v.as_f64().is_some()) {
        let of = |v: &Option<&Value>| v.and_then(Value::as_f64);
        return Series::new(name(), values.iter().map(of).collect::<Vec<_>>());
    }
    if all(|v| matches!(v, Value::Bool(_))) {
        let of = |v: &Option<&Value>| v.map(|v| *v == Value::Bool(true));
        return Series::new(name(), values.iter().map(of).collect::<Vec<_>>());
    }
    let of = |v: &Option<&Value>| v.map(Value::to_string);
    Series::new(name(), values.iter().map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swept_keys_come_first_with_the_types_of_their_values() {
        let row = |order, ranks: i64, lr: Value, fanout: Value, test| Row {
            order,
            set: vec![
                ("ranks".into(), Value::Int(ranks)),
                ("lr".into(), lr),
                ("fanout".into(), fanout),
            ],
            status: "ok".into(),
            numbers: Numbers {
                test,
                ..Numbers::default()
            },
            ..Row::default()
        };
        let rows = [
            row(0, 2, Value::Int(1), Value::Str("5,5".into()), Some(0.5)),
            row(1, 4, Value::Float(0.5), Value::Int(3), None),
        ];
        let frame = frame(&rows).expect("a frame");
        let names: Vec<&str> = frame
            .get_column_names()
            .into_iter()
            .map(|n| n.as_str())
            .collect();
        assert_eq!(
            names[..7],
            ["order", "ranks", "lr", "fanout", "status", "metric", "test"]
        );
        let kind = |name: &str| frame.column(name).expect("a column").dtype().to_string();
        assert_eq!(
            [kind("ranks"), kind("lr"), kind("fanout")],
            ["i64", "f64", "str"]
        );
        assert_eq!(frame.column("test").expect("a column").null_count(), 1);
    }
}
