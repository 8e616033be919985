//! The `epochs` frame: what rank 0 measured of the model, joined with the slowest rank's times.

use super::build;
use super::rows::Rows;
use gnn_core::record::rows::{MetricsRow, RankRow};
use polars::prelude::{DataFrame, NamedFrom, PolarsResult, Series};

gnn_core::row_struct! {
    /// What an epoch came to, and where its time went: times are the slowest rank's.
    EpochRow in "epochs" {
        /// Epoch, from 0.
        epoch: u32,
        /// Whether the epoch is flagged as warm-up.
        is_warmup: bool,
        /// Wall time of the slowest rank, evaluation excluded.
        wall_ms: f64,
        /// Time of the evaluation, outside the epoch's wall time.
        eval_ms: f64,
        /// Mean loss over the training vertices, at the epoch's start weights.
        train_loss: f64,
        /// Accuracy on the validation vertices, when evaluated.
        val_acc: Option<f64>,
        /// Accuracy on the test vertices, when evaluated.
        test_acc: Option<f64>,
        /// Micro-averaged F1 on the validation vertices, where a vertex may have several classes.
        val_f1: Option<f64>,
        /// The same on the test vertices.
        test_f1: Option<f64>,
        /// Area under the ROC curve on the validation links, where links are predicted.
        val_auc: Option<f64>,
        /// The same on the test links.
        test_auc: Option<f64>,
        /// Average precision on the test links.
        test_ap: Option<f64>,
        /// Mean reciprocal rank of the test links, each among all test pairs without an edge.
        test_mrr: Option<f64>,
        /// Time in kernels and in sampling.
        compute_ms: f64,
        /// Time packing and unpacking rows.
        copy_ms: f64,
        /// Time blocked while data moves.
        xfer_exposed_ms: f64,
        /// Time blocked before the peer had sent.
        wait_ms: f64,
        /// The rest.
        other_ms: f64,
        /// `comm_hidden_ms + xfer_exposed_ms`.
        comm_ms: f64,
        /// Time in which data moved while the rank computed; never part of wall time.
        comm_hidden_ms: f64,
        /// `100 · comm_hidden_ms / comm_ms`; none without communication.
        overlap_pct: Option<f64>,
        /// Largest over mean compute time of the ranks; 1 when no time was measured.
        imbalance: f64,
        /// The rank that took longest; the lowest of several.
        slowest_rank: u32,
        /// Payload bytes sent by all ranks.
        bytes: u64,
        /// Messages sent by all ranks.
        messages: u64,
        /// Edges multiplied by all ranks, a second of wall time.
        edges_per_s: f64,
        /// Vertices of all ranks, a second of wall time.
        nodes_per_s: f64,
        /// Peak resident memory of the process that has most.
        mem_peak_bytes: u64,
    }
}

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

    fn row(&self) -> EpochRow {
        let (metrics, slowest) = (self.metrics, self.slowest());
        EpochRow {
            epoch: metrics.epoch,
            is_warmup: metrics.is_warmup,
            wall_ms: slowest.wall_ms,
            eval_ms: metrics.eval_ms,
            train_loss: metrics.train_loss,
            val_acc: metrics.val_acc,
            test_acc: metrics.test_acc,
            val_f1: metrics.val_f1,
            test_f1: metrics.test_f1,
            val_auc: metrics.val_auc,
            test_auc: metrics.test_auc,
            test_ap: metrics.test_ap,
            test_mrr: metrics.test_mrr,
            compute_ms: slowest.compute_ms,
            copy_ms: slowest.copy_ms,
            xfer_exposed_ms: slowest.xfer_exposed_ms,
            wait_ms: slowest.wait_ms,
            other_ms: slowest.other_ms,
            comm_ms: slowest.comm_ms,
            comm_hidden_ms: slowest.comm_hidden_ms,
            overlap_pct: slowest.overlap_pct,
            imbalance: self.imbalance(),
            slowest_rank: slowest.rank,
            bytes: self.sum(|r| r.bytes_tx),
            messages: self.sum(|r| r.msgs_tx),
            edges_per_s: self.rate(|r| r.edges),
            nodes_per_s: self.rate(|r| r.owned_nodes),
            mem_peak_bytes: self
                .ranks
                .iter()
                .map(|r| r.mem_peak_bytes)
                .max()
                .unwrap_or(0),
        }
    }
}

/// The `epochs` frame. `rows` has whole epochs only, sorted by epoch, then rank.
pub(super) fn epochs(rows: &Rows, run_id: &str) -> PolarsResult<DataFrame> {
    let epochs = rows.ranks.chunk_by(|a, b| a.epoch == b.epoch);
    let epochs: Vec<EpochRow> = epochs
        .zip(&rows.metrics)
        .map(|(ranks, metrics)| Group { metrics, ranks }.row())
        .collect();
    let mut made = build::frame(&epochs, run_id)?;
    // A loss that is not a number stays one; a cell of a row would be nothing.
    let losses: Vec<f64> = epochs.iter().map(|row| row.train_loss).collect();
    made.with_column(Series::new("train_loss".into(), losses).into())?;
    Ok(made)
}
