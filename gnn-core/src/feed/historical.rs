//! Rows of other ranks' vertices that are there from earlier steps, so that nobody computes or fetches them.

use super::collect::{Collector, Reading};
use super::rows::RowData;
use super::stats::Stats;
use crate::sample::Hop;
use kernels::Par;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who has such rows, while batches are made. Vertices go by their numbers.
pub(crate) trait Historical: Send {
    /// Looks for what `layer` would read of others: drops the edges of `hop` to those that are neither there
    /// nor to be computed by their owners.
    fn keep(&mut self, layer: usize, hop: &mut Hop);

    /// Whether there is a row of `number`, which others own, for `layer`.
    fn has(&self, layer: usize, number: u32) -> bool;

    /// `layer` reads `below`, rows that are computed or its input, and of `leaves` those that are there.
    fn reads(&mut self, layer: usize, below: &[u32], leaves: &[u32]);

    /// The feature rows of `numbers`, all of which are there, in their order.
    fn features(&mut self, numbers: &[u32], par: &Par) -> RowData;
}

/// What has them, for the thread that makes batches and the one that trains.
pub(crate) type SharedHistory = Arc<Mutex<dyn Historical>>;

pub(super) fn lock<'a>(
    history: &'a Mutex<dyn Historical + 'static>,
) -> MutexGuard<'a, dyn Historical + 'static> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows to be fetched of which some are there already.
pub(super) struct There {
    rows: RowData,
    /// By row that is wanted, whether it is one of those.
    is: Vec<bool>,
}

impl There {
    /// All that are wanted, in their order, now that the others have come.
    pub(super) fn joined(self, fetched: RowData, par: &Par) -> RowData {
        if self.rows.len() == 0 {
            return fetched;
        }
        if fetched.len() == 0 {
            return self.rows;
        }
        let mut next = [0u32; 2];
        let places = self.is.iter().map(|&there| {
            let row = &mut next[usize::from(there)];
            *row += 1;
            (u32::from(there), *row - 1)
        });
        let places: Vec<(u32, u32)> = places.collect();
        fetched.pick(&[&fetched, &self.rows], &places, par)
    }
}

impl Collector {
    /// A hop without what nobody has or computes.
    pub(super) fn kept(&self, layer: usize, mut hop: Hop) -> Hop {
        if let Some(history) = &self.history {
            lock(history).keep(layer, &mut hop);
        }
        hop
    }

    /// Says what a layer reads.
    pub(super) fn say_reads(&self, layer: usize, below: &[u32], leaves: &[u32]) {
        if let Some(history) = &self.history {
            lock(history).reads(layer, below, leaves);
        }
    }

    /// Says which of this rank's vertices a first layer in place reads, which have been
    /// [counted](Collector::count_local).
    pub(super) fn say_touched(&self) {
        if self.history.is_none() {
            return;
        }
        let own = self.reach.shard.numbers.of(self.reach.shard.rank);
        let mut below = Vec::new();
        for (k, &word) in self.touched.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let row = 64 * k as u32 + word.trailing_zeros();
                if row < own.end - own.start {
                    below.push(own.start + row);
                }
                word &= word - 1;
            }
        }
        self.say_reads(0, &below, &[]);
    }

    /// Counts those of a reading's missing rows that are there for copies.
    pub(super) fn count_there(&self, missing: &[u32], stats: &mut Stats) {
        if let Some(history) = &self.history {
            let history = lock(history);
            let there = missing.iter().filter(|&&v| history.has(0, v)).count() as u64;
            stats.rows_remote -= there;
            stats.rows_cached += there;
        }
    }

    /// Those of a reading's missing rows that are there; what is left to fetch stays in it.
    pub(super) fn there(&self, reading: &mut Reading) -> Option<There> {
        let history = self.history.as_ref()?;
        let mut history = lock(history);
        let is: Vec<bool> = reading.missing.iter().map(|&v| history.has(0, v)).collect();
        let of = |wanted: bool| {
            let each = reading.missing.iter().zip(&is);
            each.filter(move |(_, there)| **there == wanted)
                .map(|(&v, _)| v)
        };
        let (there, others): (Vec<u32>, Vec<u32>) = (of(true).collect(), of(false).collect());
        let rows = history.features(&there, &self.reach.par);
        reading.missing = others;
        Some(There { rows, is })
    }
}
