//! One row a run.

use super::rows::Rows;
use super::target;
use crate::manifest::{Final, Manifest};
use crate::time::Utc;
use gnn_core::record::rows::Score;
use polars::prelude::{Column, DataFrame, DataType, NamedFrom, PolarsResult, Series, TimeUnit};

/// What the finished epochs achieved, timed until the validation score `target` (0: 99 % of the best);
/// nothing when there is none.
pub(crate) fn result(rows: &Rows, target: f64) -> Option<Final> {
    let last = rows.metrics.last()?;
    let mut result = Final {
        train_loss: Some(last.train_loss).filter(|loss| loss.is_finite()),
        train_acc: rows.metrics.iter().rev().find_map(|m| m.train_acc),
        ..Final::default()
    };
    for row in &rows.metrics {
        let Some(score) = row.score() else { continue };
        let best = result.score.and_then(|best| best.val);
        if score.val.is_some() && score.val > best {
            result.score = Some(score);
            result.best_epoch = Some(row.epoch);
            (result.val_acc, result.test_acc) = (row.val_acc, row.test_acc);
            (result.test_ap, result.test_mrr) = (row.test_ap, row.test_mrr);
        }
    }
    result.target = target::of(target, result.score);
    result.time_to_target_ms = result.target.and_then(|score| target::reached(rows, score));
    Some(result)
}

fn score(run: &Manifest) -> Option<Score> {
    run.result.as_ref().and_then(|result| result.score)
}

/// The `runs` frame of some runs.
pub(crate) fn runs(runs: &[Manifest]) -> PolarsResult<DataFrame> {
    let text = |name: &str, of: &dyn Fn(&Manifest) -> &str| -> Column {
        Series::new(name.into(), runs.iter().map(of).collect::<Vec<_>>()).into()
    };
    let small = |name: &str, of: &dyn Fn(&Manifest) -> u32| -> Column {
        Series::new(name.into(), runs.iter().map(of).collect::<Vec<_>>()).into()
    };
    let count = |name: &str, of: &dyn Fn(&Manifest) -> u64| -> Column {
        Series::new(name.into(), runs.iter().map(of).collect::<Vec<_>>()).into()
    };
    let maybe = |name: &str, of: &dyn Fn(&Manifest) -> Option<f64>| -> Column {
        Series::new(name.into(), runs.iter().map(of).collect::<Vec<_>>()).into()
    };
    let started: Vec<Option<i64>> = runs
        .iter()
        .map(|m| Utc::parse(&m.started).map(|t| t.ms))
        .collect();
    let started = Series::new("started".into(), started)
        .cast(&DataType::Datetime(TimeUnit::Milliseconds, None))?;
    let over: Vec<bool> = runs.iter().map(|m| m.oversubscribed).collect();
    let synthetic: Vec<bool> = runs.iter().map(|m| m.synthetic).collect();
    let links: Vec<Option<&str>> = runs.iter().map(Manifest::link).collect();
    let slow: Vec<Option<&str>> = runs.iter().map(Manifest::slow).collect();
    let errors: Vec<Option<&str>> = runs
        .iter()
        .map(|m| m.error.as_ref().map(|e| e.message.as_str()))
        .collect();
    let metrics: Vec<Option<&str>> = runs
        .iter()
        .map(|m| score(m).map(|s| s.metric.name()))
        .collect();
    let best = |m: &Manifest| m.result.as_ref().and_then(|r| r.val_acc);
    let test = |m: &Manifest| m.result.as_ref().and_then(|r| r.test_acc);
    let columns = vec![
        text("run_id", &|m| &m.run_id),
        text("name", &|m| &m.name),
        started.into(),
        text("status", &|m| m.status.label()),
        text("data", &|m| &m.data),
        text("model", &|m| &m.model),
        text("strategy", &|m| &m.strategy),
        text("strategy_hash", &|m| &m.strategy_hash),
        small("ranks", &|m| m.ranks),
        text("backend", &|m| &m.backend),
        count("seed", &|m| m.seed),
        text("determinism", &|m| &m.determinism),
        small("epochs_done", &|m| m.epochs_done),
        maybe("wall_ms", &|m| Some(m.wall_ms)),
        maybe("best_val_acc", &best),
        maybe("test_acc", &test),
        Series::new("metric".into(), metrics).into(),
        maybe("best_val", &|m| score(m).and_then(|s| s.val)),
        maybe("test", &|m| score(m).and_then(|s| s.test)),
        maybe("target", &|m| m.result.as_ref().and_then(|r| r.target)),
        maybe("time_to_target_ms", &|m| {
            m.result.as_ref().and_then(|r| r.time_to_target_ms)
        }),
        count("bytes_total", &|m| m.bytes_total),
        count("mem_peak_bytes", &|m| m.mem_peak_bytes),
        Series::new("oversubscribed".into(), over).into(),
        text("host_class", &|m| &m.host_class),
        Series::new("synthetic".into(), synthetic).into(),
        Series::new("link".into(), links).into(),
        Series::new("slow".into(), slow).into(),
        Series::new("error".into(), errors).into(),
    ];
    DataFrame::new(runs.len(), columns)
}
