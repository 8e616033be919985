//! What the meter counted in one epoch.

use super::Times;
use super::frame::Noted;
use super::meter::{Blocked, Lane, Meter, Traffic, Work};
use super::phase::{Direction, Op};
use super::recorder::PredictedLane;
use super::rows::{SpanRow, TracedRow};
use std::collections::BTreeMap;

/// What the meter counted in one epoch.
pub struct Counters {
    pub(super) times: Times,
    pub(super) work: Work,
    /// Traffic by lane.
    pub traffic: BTreeMap<Lane, Traffic>,
    pub(super) blocked: BTreeMap<(u16, Direction, Op), Blocked>,
    pub(super) predicted: BTreeMap<PredictedLane, u64>,
    /// Rows of the strategy's own frames.
    pub(super) noted: Vec<Noted>,
    pub(super) spans: Option<(Vec<SpanRow>, TracedRow)>,
    /// Bytes of rows that are kept, on the host and on a device of its own.
    pub(super) cached: [u64; 2],
    /// Bytes received, filled in by who knows what the others sent.
    pub rx: u64,
}

impl Counters {
    /// Takes those of epoch `index` of `rank`, and starts anew.
    pub(super) fn take(meter: &Meter, index: u32, rank: u32) -> Counters {
        let (times, work) = meter.take_times();
        Counters {
            times,
            work,
            traffic: meter.take_traffic(),
            blocked: meter.take_blocked(),
            predicted: meter.take_predicted(),
            noted: meter.take_noted(),
            spans: meter.trace().map(|trace| trace.take(index, rank)),
            cached: meter.cached(),
            rx: 0,
        }
    }

    /// Bytes sent to each of `size` ranks.
    pub fn sent_to(&self, size: usize) -> Vec<u64> {
        let mut to = vec![0; size];
        for (lane, traffic) in &self.traffic {
            to[lane.3 as usize] += traffic.bytes;
        }
        to
    }

    /// How long the sender was blocked in each lane's operation. Blocked time belongs to an operation, not
    /// to a peer; it is shared by bytes.
    pub(super) fn blocked_in(&self, lane: &Lane) -> [f64; 2] {
        let of = |k: &Lane| (k.0, k.1, k.2);
        let same = self.traffic.iter().filter(|(k, _)| of(k) == of(lane));
        let total: u64 = same.map(|(_, t)| t.bytes).sum();
        let own = self.traffic.get(lane).map_or(0, |t| t.bytes);
        let share = own as f64 / total.max(1) as f64;
        let waits = self.blocked.get(&of(lane)).copied().unwrap_or_default();
        [waits.moving, waits.waiting].map(|ns| ns as f64 / 1e6 * share)
    }
}
