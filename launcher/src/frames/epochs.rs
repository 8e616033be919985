//! The `epochs` frame: what rank 0 measured of the model, joined with the slowest rank's times.

use super::build::constant;
use super::rows::Rows;
use gnn_core::record::rows::{MetricsRow, RankRow};
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};

/// One finished epoch: its metrics and its rank rows (never empty).
struct Group<'a> {
    metrics: &'a MetricsRow,
    ranks: &'a [RankRow],
}

impl Group<'_> {
    /// The rank that took longest; the lowest of several.
    fn slowest(&self) -> &RankRow {
        let mut slowest = &self.ranks[0];
        for row in &self.ranks[1..] {
            if row.wall_ms > slowest.wall_ms {
                slowest = row;
            }
        }
        slowest
    }

    /// Largest over mean compute time; 1 when no time was measured.
    fn imbalance(&self) -> f64 {
        let max = self.ranks.iter().map(|r| r.compute_ms).fold(0.0, f64::max);
        let mean = self.ranks.iter().map(|r| r.compute_ms).sum::<f64>() / self.ranks.len() as f64;
        if mean > 0.0 { max / mean } else { 1.0 }
    }

    fn sum(&self, of: impl Fn(&RankRow) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    /// How many of something a second of the epoch's wall time.
    fn rate(&self, of: impl Fn(&RankRow) -> u64) -> f64 {
        let seconds = self.slowest().wall_ms / 1e3;
        if seconds > 0.0 {
            self.sum(of) as f64 / seconds
        } else {
            0.0
        }
    }
}

/// The `epochs` frame. `rows` has whole epochs only, sorted by epoch, then rank.
pub(crate) fn epochs(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    let groups: Vec<Group> = rows
        .ranks
        .chunk_by(|a, b| a.epoch == b.epoch)
        .zip(&rows.metrics)
        .map(|(ranks, metrics)| Group { metrics, ranks })
        .collect();
    let float = |name: &str, of: &dyn Fn(&Group) -> f64| -> Column {
        Series::new(name.into(), groups.iter().map(of).collect::<Vec<_>>()).into()
    };
    let maybe = |name: &str, of: &dyn Fn(&Group) -> Option<f64>| -> Column {
        Series::new(name.into(), groups.iter().map(of).collect::<Vec<_>>()).into()
    };
    let count = |name: &str, of: &dyn Fn(&Group) -> u64| -> Column {
        Series::new(name.into(), groups.iter().map(of).collect::<Vec<_>>()).into()
    };
    let small = |name: &str, of: &dyn Fn(&Group) -> u32| -> Column {
        Series::new(name.into(), groups.iter().map(of).collect::<Vec<_>>()).into()
    };
    let warm: Vec<bool> = groups.iter().map(|g| g.metrics.is_warmup).collect();
    let columns = vec![
        constant("run_id", run_id, groups.len()),
        small("epoch", &|g| g.metrics.epoch),
        Series::new("is_warmup".into(), warm).into(),
        float("wall_ms", &|g| g.slowest().wall_ms),
        float("eval_ms", &|g| g.metrics.eval_ms),
        float("train_loss", &|g| g.metrics.train_loss),
        maybe("val_acc", &|g| g.metrics.val_acc),
        maybe("test_acc", &|g| g.metrics.test_acc),
        maybe("val_f1", &|g| g.metrics.val_f1),
        maybe("test_f1", &|g| g.metrics.test_f1),
        maybe("val_auc", &|g| g.metrics.val_auc),
        maybe("test_auc", &|g| g.metrics.test_auc),
        maybe("test_ap", &|g| g.metrics.test_ap),
        maybe("test_mrr", &|g| g.metrics.test_mrr),
        float("compute_ms", &|g| g.slowest().compute_ms),
        float("copy_ms", &|g| g.slowest().copy_ms),
        float("xfer_exposed_ms", &|g| g.slowest().xfer_exposed_ms),
        float("wait_ms", &|g| g.slowest().wait_ms),
        float("other_ms", &|g| g.slowest().other_ms),
        float("comm_ms", &|g| g.slowest().comm_ms),
        float("comm_hidden_ms", &|g| g.slowest().comm_hidden_ms),
        maybe("overlap_pct", &|g| g.slowest().overlap_pct),
        float("imbalance", &|g| g.imbalance()),
        small("slowest_rank", &|g| g.slowest().rank),
        count("bytes", &|g| g.sum(|r| r.bytes_tx)),
        count("messages", &|g| g.sum(|r| r.msgs_tx)),
        float("edges_per_s", &|g| g.rate(|r| r.edges)),
        float("nodes_per_s", &|g| g.rate(|r| r.owned_nodes)),
        count("mem_peak_bytes", &|g| {
            g.ranks.iter().map(|r| r.mem_peak_bytes).max().unwrap_or(0)
        }),
    ];
    DataFrame::new(groups.len(), columns)
}
