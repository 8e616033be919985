//! When batches are begun.

use super::pool::PoolSettings;
use super::stats::LaunchRow;
use std::time::Duration;

/// What a launcher may go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flight {
    /// Batches that were begun, and those of them that are finished and that training has taken.
    pub(crate) begun: u64,
    pub(crate) finished: u64,
    pub(crate) taken: u64,
    /// Finished batches that training can take one after the other, from the next one on.
    pub(crate) ready: u64,
    /// Bytes of finished batches that were not taken, and of the largest one so far.
    pub(crate) bytes: u64,
    pub(crate) largest: u64,
    /// Mean time from the beginning of a batch to its end, of the last [`WINDOW`] of them; none before the
    /// first.
    pub(crate) sample_ns: Option<u64>,
    /// Mean time that training takes for one, likewise: until it asks for the next one of the epoch.
    pub(crate) train_ns: Option<u64>,
}

/// Batches that means are over.
pub(crate) const WINDOW: usize = 8;

impl Flight {
    /// Batches that were begun and are not finished.
    pub(crate) fn flying(&self) -> u64 {
        // One that fails may be told of twice.
        self.begun.saturating_sub(self.finished)
    }
}

/// Which batches a run has, numbered over its epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchRange {
    /// Batches of an epoch.
    pub(crate) batches: u64,
    /// First epoch.
    pub(crate) first: u64,
    /// The epoch after the last.
    pub(crate) end: u64,
}

impl BatchRange {
    /// How many there are.
    pub(crate) fn len(self) -> u64 {
        (self.end - self.first) * self.batches
    }

    /// Epoch and step of the `k`-th.
    pub(crate) fn at(self, k: u64) -> (u64, u64) {
        (self.first + k / self.batches, k % self.batches)
    }

    /// Which one batch `step` of `epoch` is.
    pub(crate) fn number(self, epoch: u64, step: u64) -> u64 {
        (epoch - self.first) * self.batches + step
    }
}

/// Says which batch to begin next. Asked whenever a thread is free; training takes batches in order, so that
/// one that is begun early waits.
pub(crate) trait Launcher: Send {
    /// The batch to begin now, each once, by its number in the run; none for not yet, or for no more. The
    /// batch that training waits for must not be held back for ever.
    fn next(&mut self, flight: &Flight) -> Option<u64>;

    /// How soon it wants to be asked again though nothing has happened; none for never.
    fn again(&self) -> Option<Duration> {
        None
    }

    /// What it has noted since it was last asked.
    fn noted(&mut self) -> Vec<LaunchRow> {
        Vec::new()
    }
}

/// How batches are made ahead, once it is known which a run has.
pub(crate) struct Launching {
    pub(crate) launcher: Box<dyn FnOnce(BatchRange) -> Box<dyn Launcher>>,
    pub(crate) how: How,
}

/// How threads share batches that are being made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    /// Each makes batches of its own, so many at once: it goes on with another while it waits for one's
    /// answers.
    Each(usize),
    /// Every thread works on every batch.
    Pool(PoolSettings),
}

/// In order, a fixed number ahead of the one that is trained on.
#[derive(Debug)]
pub(crate) struct FixedAhead {
    ahead: u64,
    count: u64,
}

impl Launching {
    /// In order, `ahead` of the one that is trained on, one at a time by each of `workers` threads.
    pub(crate) fn fixed(ahead: usize, workers: usize) -> Launching {
        Launching {
            launcher: Box::new(move |range| Box::new(FixedAhead::new(ahead, workers, range))),
            how: How::Each(1),
        }
    }
}

impl FixedAhead {
    /// `ahead` of the batches of `range`, in equal numbers by each of `workers` threads.
    pub(crate) fn new(ahead: usize, workers: usize, range: BatchRange) -> FixedAhead {
        let even = ahead - ahead % workers;
        FixedAhead {
            ahead: even.max(workers) as u64,
            count: range.len(),
        }
    }
}

impl Launcher for FixedAhead {
    fn next(&mut self, flight: &Flight) -> Option<u64> {
        let room = flight.begun < flight.taken + self.ahead;
        (room && flight.begun < self.count).then_some(flight.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_begun_in_order_as_far_ahead_as_there_is_room() {
        let range = BatchRange {
            batches: 3,
            first: 2,
            end: 4,
        };
        let mut launcher = FixedAhead::new(5, 2, range);
        let mut flight = Flight::default();
        let mut begun = Vec::new();
        for taken in 0..=6 {
            flight.taken = taken;
            while let Some(k) = launcher.next(&flight) {
                begun.push((taken, range.at(k)));
                assert_eq!(range.number(range.at(k).0, range.at(k).1), k);
                flight.begun += 1;
            }
        }
        let expected = [
            (0, (2, 0)),
            (0, (2, 1)),
            (0, (2, 2)),
            (0, (3, 0)),
            (1, (3, 1)),
            (2, (3, 2)),
        ];
        assert_eq!(begun, expected);
    }
}
