//! The wall-time identity: the parts of every row add up.

use crate::error::{Error, Result};
use gnn_core::record::rows::RankRow;
use std::collections::BTreeMap;

/// Share of wall time above which unaccounted time is worth a note, ...
pub const OTHER_SHARE: f64 = 0.05;

/// ... where it is so much an epoch: less is what any clock and any system takes.
const OTHER_MS: f64 = 0.2;

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

/// What a reader should know when much of the time of a rank is unaccounted for, over all its epochs but the first,
/// in which memory is touched for the first time; over that one where there is no other.
pub(crate) fn note(rows: &[RankRow]) -> Option<String> {
    let epochs = || rows.iter().map(|row| row.epoch);
    let first = epochs().min()?;
    let more = epochs().any(|epoch| epoch > first);
    let mut ranks: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
    for row in rows.iter().filter(|row| !more || row.epoch > first) {
        let [wall, other, epochs] = ranks.entry(row.rank).or_default();
        *wall += row.wall_ms;
        *other += row.other_ms;
        *epochs += 1.0;
    }
    let share = |[wall, other, _]: &[f64; 3]| other / wall.max(f64::MIN_POSITIVE);
    let much = |sums: &[f64; 3]| share(sums) > OTHER_SHARE && sums[1] / sums[2] > OTHER_MS;
    let over = ranks.iter().filter(|(_, sums)| much(sums));
    let (rank, worst) = over.max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    Some(format!(
        "{:.0} % of the time of rank {rank} is unaccounted for (other_ms), {:.2} ms an epoch: something else \
         may use this machine, or many small operations take it between them",
        100.0 * share(worst),
        worst[1] / worst[2],
    ))
}
