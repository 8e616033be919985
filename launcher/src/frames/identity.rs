//! The wall-time identity: the parts of every row add up.

use crate::error::{Error, Result};
use gnn_core::record::rows::RankRow;

/// Share of wall time above which unaccounted time is worth a note.
pub const OTHER_SHARE: f64 = 0.05;

const ABSOLUTE_MS: f64 = 1e-6;
const RELATIVE: f64 = 1e-9;

/// Checks `wall = compute + copy + exposed transfer + wait + other` on every row, and that no
/// part is negative.
///
/// # Errors
/// [`Error::Identity`] naming the first row that does not add up.
pub fn check(rows: &[RankRow]) -> Result<()> {
    for row in rows {
        let parts = [
            row.compute_ms,
            row.copy_ms,
            row.xfer_exposed_ms,
            row.wait_ms,
            row.other_ms,
        ];
        let sum: f64 = parts.iter().sum();
        let tolerance = ABSOLUTE_MS + RELATIVE * row.wall_ms.abs();
        let adds_up = (sum - row.wall_ms).abs() <= tolerance;
        // A negative rest would hide time that was counted twice.
        if !adds_up || parts.iter().any(|part| *part < -tolerance) {
            return Err(Error::Identity {
                rank: row.rank,
                epoch: row.epoch,
                wall_ms: row.wall_ms,
                sum_ms: if adds_up { sum - row.other_ms } else { sum },
            });
        }
    }
    Ok(())
}

/// What a reader should know when much of the time of some rows is unaccounted for.
pub(crate) fn note(rows: &[RankRow]) -> Option<String> {
    let share = |row: &RankRow| row.other_ms / row.wall_ms.max(f64::MIN_POSITIVE);
    let over = rows.iter().filter(|row| share(row) > OTHER_SHARE).count();
    let worst = rows.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    (over > 0).then(|| {
        format!(
            "unaccounted time (other_ms) is above {:.0} % of wall time in {over} of {} rank rows; \
             most: {:.0} % of {:.3} ms on rank {} in epoch {}",
            100.0 * OTHER_SHARE,
            rows.len(),
            100.0 * share(worst),
            worst.wall_ms,
            worst.rank,
            worst.epoch,
        )
    })
}
