//! When batches are begun.

/// What a launcher may go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flight {
    /// Batches that were begun, and those of them that training has taken.
    pub(crate) begun: u64,
    pub(crate) taken: u64,
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
    fn next(&mut self, flight: Flight) -> Option<u64>;
}

/// How batches are made ahead, once it is known which a run has.
pub(crate) struct Launching {
    pub(crate) launcher: Box<dyn FnOnce(BatchRange) -> Box<dyn Launcher>>,
    /// Batches that a thread may be making at once.
    pub(crate) abreast: usize,
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
            abreast: 1,
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
    fn next(&mut self, flight: Flight) -> Option<u64> {
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
            while let Some(k) = launcher.next(flight) {
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
