//! One row a run.

use super::build;
use super::rows::Rows;
use super::target;
use crate::manifest::{Final, Manifest};
use crate::time::Utc;
use gnn_core::record::rows::Score;
use polars::prelude::{DataFrame, DataType, PolarsResult, TimeUnit};

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

gnn_core::row_struct! {
    /// A run: what was asked for, what it came to, and where it ran.
    RunRow in "runs" {
        /// Id in the store.
        run_id: String,
        /// The name that it was given.
        name: String,
        /// When it was started, in UTC.
        started: Option<i64>,
        /// `running`, `ok`, `interrupted`, `failed` or `stalled`.
        status: String,
        /// Data set.
        data: String,
        /// Model.
        model: String,
        /// Strategy.
        strategy: String,
        /// Of the strategy's source and of what it was compiled against.
        strategy_hash: String,
        /// Number of ranks.
        ranks: u32,
        /// Device of the ranks.
        backend: String,
        /// Seed of every random choice.
        seed: u64,
        /// What is promised about repeating it.
        determinism: String,
        /// Epochs finished.
        epochs_done: u32,
        /// Time from the start of its ranks to their end.
        wall_ms: Option<f64>,
        /// Best accuracy on the validation vertices.
        best_val_acc: Option<f64>,
        /// Accuracy on the test vertices in that epoch.
        test_acc: Option<f64>,
        /// What its scores are: `acc`, `f1` or `auc`.
        metric: Option<String>,
        /// Best validation score.
        best_val: Option<f64>,
        /// Test score in that epoch.
        test: Option<f64>,
        /// The validation score until which training is timed.
        target: Option<f64>,
        /// Time of training until then.
        time_to_target_ms: Option<f64>,
        /// Payload bytes sent by all ranks.
        bytes_total: u64,
        /// Peak resident memory of the process that has most.
        mem_peak_bytes: u64,
        /// Whether ranks outnumbered cores.
        oversubscribed: bool,
        /// Kind of machine.
        host_class: String,
        /// Whether the data was generated.
        synthetic: bool,
        /// The link that was modelled.
        link: Option<String>,
        /// The rank that was slowed down, and by how much.
        slow: Option<String>,
        /// Why it failed.
        error: Option<String>,
    }
}

impl RunRow {
    fn of(run: &Manifest) -> RunRow {
        let result = run.result.as_ref();
        let score = score(run);
        RunRow {
            run_id: run.run_id.clone(),
            name: run.name.clone(),
            started: Utc::parse(&run.started).map(|t| t.ms),
            status: run.status.label().to_owned(),
            data: run.data.clone(),
            model: run.model.clone(),
            strategy: run.strategy.clone(),
            strategy_hash: run.strategy_hash.clone(),
            ranks: run.ranks,
            backend: run.backend.clone(),
            seed: run.seed,
            determinism: run.determinism.clone(),
            epochs_done: run.epochs_done,
            wall_ms: Some(run.wall_ms),
            best_val_acc: result.and_then(|r| r.val_acc),
            test_acc: result.and_then(|r| r.test_acc),
            metric: score.map(|s| s.metric.name().to_owned()),
            best_val: score.and_then(|s| s.val),
            test: score.and_then(|s| s.test),
            target: result.and_then(|r| r.target),
            time_to_target_ms: result.and_then(|r| r.time_to_target_ms),
            bytes_total: run.bytes_total,
            mem_peak_bytes: run.mem_peak_bytes,
            oversubscribed: run.oversubscribed,
            host_class: run.host_class.clone(),
            synthetic: run.synthetic,
            link: run.link().map(str::to_owned),
            slow: run.slow().map(str::to_owned),
            error: run.error.as_ref().map(|e| e.message.clone()),
        }
    }
}

/// The `runs` frame of some runs.
pub(super) fn runs(runs: &[Manifest]) -> PolarsResult<DataFrame> {
    let rows: Vec<RunRow> = runs.iter().map(RunRow::of).collect();
    let mut made = DataFrame::new(rows.len(), build::declared(&rows))?;
    let started = made.column("started")?;
    let started = started.cast(&DataType::Datetime(TimeUnit::Milliseconds, None))?;
    made.with_column(started)?;
    Ok(made)
}
