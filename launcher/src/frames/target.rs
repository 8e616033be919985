//! How long training took to be good enough.

use super::rows::Rows;
use gnn_core::record::rows::Score;

/// The part of the best validation score that has to be reached where no score is asked for.
pub const OF_BEST: f64 = 0.99;

/// The score until which training is timed: the one asked for, or where that is 0, 99 % of the best.
pub(super) fn of(asked: f64, best: Option<Score>) -> Option<f64> {
    let own = best.and_then(|score| score.val).map(|best| OF_BEST * best);
    (asked > 0.0).then_some(asked).or(own)
}

/// Milliseconds of training until an evaluation has first reached the validation score `target`, the
/// slowest rank's of every epoch, warm-up included; none where no evaluation did.
pub(super) fn reached(rows: &Rows, target: f64) -> Option<f64> {
    let good = |val: Option<f64>| val.is_some_and(|val| val >= target);
    let at = rows
        .metrics
        .iter()
        .position(|row| good(row.score().and_then(|s| s.val)))?;
    let epochs = rows.ranks.chunk_by(|a, b| a.epoch == b.epoch);
    let walls = epochs.map(|ranks| ranks.iter().map(|r| r.wall_ms).fold(0.0, f64::max));
    Some(walls.take(at + 1).sum())
}
