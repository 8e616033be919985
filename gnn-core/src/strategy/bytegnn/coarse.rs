//! When a batch is begun: Algorithm 1.
//!
//! ```text
//! balance = T_sample / (T_train · Q)          f(C) = 101 − e^(C/c),  c = 100 / ln 101
//! score   = T_gap · f(C) · balance            begin a batch when score ≥ σ
//! ```
//!
//! # Paper
//! ByteGNN § 4.2.2. It leaves open what follows.
//! # Differs
//! | | here |
//! |---|---|
//! | T_sample, T_train | means over the last eight batches: from a batch's beginning to its end, and from when training takes one until it asks for the next of the epoch |
//! | T_gap | since the last launch, in units of T_train, so that σ means the same for every model |
//! | Q | finished batches that training can take one after the other; no less than [`LEAST_QUEUE`], so that an empty queue makes the score large and not infinite |
//! | C | processor time of the rank's process over its share of the cores, per cent, over the last [`UTILISATION_NS`] or longer; of ranks that are threads of one process, that of all of them |
//! | σ | 10 unless the request says otherwise (`sigma`): at half of its cores and with one batch in the queue, a rank whose sampling takes as long as its training begins one every 0.11 T_train; at nine tenths, every 0.27 |
//! | few on their way and in the queue | one more, whatever the score, up to as many as there are threads that make them and one: with fewer, threads wait for answers and training for them, and a rank that is busy (f near 0) would begin none |
//! | bounds | at most `dags` batches, and `in_flight` bytes if those on their way are as large as the largest so far; a run that knows none yet begins with one |
//!
//! A rank that is busy all the time has f near 0: it holds no more batches than that, as nothing is to be gained.

use crate::feed::{BatchRange, Flight, LaunchRow, Launcher};
use crate::record::clock::process_cpu_ns;
use crate::record::now_ns;
use std::collections::VecDeque;
use std::time::Duration;

/// Q counts as this where it is less.
const LEAST_QUEUE: f64 = 0.25;

/// The least time over which utilisation is measured.
const UTILISATION_NS: u64 = 20_000_000;

/// What the request says of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CoarseSettings {
    pub(super) sigma: f64,
    pub(super) poll: Duration,
    pub(super) bounds: Bounds,
    /// Threads that make batches.
    pub(super) threads: u64,
    /// Cores that the process has: its share where ranks outnumber them, and all ranks' where they are its threads.
    pub(super) cores: f64,
    /// Whether the score decides; otherwise the bounds alone do.
    pub(super) scored: bool,
}

/// How much may be begun and not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Batches.
    pub(super) dags: u64,
    /// Bytes; none for any number.
    pub(super) bytes: Option<u64>,
}

/// What a launch is decided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measures {
    pub(super) flight: Flight,
    /// Since the last launch; none before the first.
    pub(super) gap_ns: Option<u64>,
    /// Per cent.
    pub(super) utilisation: f64,
}

/// Whether to begin a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decision {
    /// Not now.
    Wait,
    /// No batch has been trained on yet.
    Cold,
    /// No more are on their way and in the queue than there are threads that make them.
    Idle,
    /// The score is enough.
    Score,
}

/// Algorithm 1.
pub(super) struct Coarse {
    settings: CoarseSettings,
    count: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    polls: u64,
    used: Utilisation,
    noted: Vec<LaunchRow>,
}

impl Measures {
    /// The launch score; none before there are times to make it of.
    pub(super) fn score(&self) -> Option<f64> {
        let (sample, train) = (self.flight.sample_ns?, self.flight.train_ns?.max(1));
        let balance = sample as f64 / train as f64 / (self.flight.ready as f64).max(LEAST_QUEUE);
        let gap = self.gap_ns? as f64 / train as f64;
        Some(gap * f(self.utilisation) * balance)
    }

    /// Bytes of what is finished, and of what is on its way if that is as large as the largest so far.
    pub(super) fn bytes(&self) -> u64 {
        let Flight { bytes, largest, .. } = self.flight;
        bytes + self.flight.flying() * largest
    }

    /// Whether one more batch is within `bounds`.
    fn has_room(&self, bounds: Bounds) -> bool {
        let flight = &self.flight;
        let held = flight.begun - flight.taken;
        let known = flight.finished > 0;
        let room = match (bounds.bytes, known) {
            (None, _) => true,
            // How large a batch is is known when one is finished.
            (Some(_), false) => held == 0,
            (Some(most), true) => self.bytes() + flight.largest <= most,
        };
        held < bounds.dags && room
    }

    /// Whether to begin one.
    pub(super) fn decide(&self, settings: &CoarseSettings) -> Decision {
        let flight = &self.flight;
        if flight.begun == flight.taken {
            return Decision::Idle;
        }
        if !self.has_room(settings.bounds) {
            return Decision::Wait;
        }
        let few = flight.flying() + flight.ready <= settings.threads;
        match self.score() {
            _ if !settings.scored => Decision::Score,
            None if few => Decision::Cold,
            Some(score) if score >= settings.sigma => Decision::Score,
            Some(_) if few => Decision::Idle,
            _ => Decision::Wait,
        }
    }
}

/// 100 for a rank that does nothing, 0 for one that is always busy.
fn f(utilisation: f64) -> f64 {
    let c = 100.0 / 101f64.ln();
    // Rounding must not make it negative.
    (101.0 - (utilisation.clamp(0.0, 100.0) / c).exp()).max(0.0)
}

impl Coarse {
    /// For the batches of `range`.
    pub(super) fn new(settings: CoarseSettings, range: BatchRange) -> Coarse {
        Coarse {
            settings,
            count: range.len(),
            first_ns: None,
            last_ns: None,
            polls: 0,
            used: Utilisation::default(),
            noted: Vec::new(),
        }
    }

    fn note(&mut self, now: u64, decision: Decision, of: &Measures) {
        let ms = |ns: u64| ns as f64 / 1e6;
        let first = *self.first_ns.get_or_insert(now);
        self.noted.push(LaunchRow {
            launch: of.flight.begun,
            at_ms: ms(now - first),
            reason: decision.label().into(),
            score: of.score(),
            threshold: self.settings.sigma,
            queue: of.flight.ready,
            flying: of.flight.flying(),
            in_flight_bytes: of.bytes(),
            utilisation_pct: of.utilisation,
            gap_ms: of.gap_ns.map_or(0.0, ms),
            sample_ms: of.flight.sample_ns.map(ms),
            train_ms: of.flight.train_ns.map(ms),
            polls: std::mem::take(&mut self.polls),
        });
    }
}

impl Decision {
    fn label(self) -> &'static str {
        match self {
            Decision::Wait => "wait",
            Decision::Cold => "cold",
            Decision::Idle => "idle",
            Decision::Score => "score",
        }
    }
}

impl Launcher for Coarse {
    fn next(&mut self, flight: &Flight) -> Option<u64> {
        if flight.begun >= self.count {
            return None;
        }
        let now = now_ns();
        let utilisation = self
            .used
            .percent((now, process_cpu_ns()), self.settings.cores);
        let of = Measures {
            flight: *flight,
            gap_ns: self.last_ns.map(|last| now - last),
            utilisation,
        };
        self.polls += 1;
        let decision = of.decide(&self.settings);
        if decision == Decision::Wait {
            return None;
        }
        self.note(now, decision, &of);
        self.last_ns = Some(now);
        Some(flight.begun)
    }

    fn again(&self) -> Option<Duration> {
        self.settings.scored.then_some(self.settings.poll)
    }

    fn noted(&mut self) -> Vec<LaunchRow> {
        std::mem::take(&mut self.noted)
    }
}

/// Readings of the clock and of the process's processor time, oldest first.
#[derive(Debug, Default)]
struct Utilisation(VecDeque<(u64, u64)>);

impl Utilisation {
    /// Processor time over the time of `cores` cores since a reading that is [`UTILISATION_NS`] old, or since
    /// the oldest.
    fn percent(&mut self, now: (u64, u64), cores: f64) -> f64 {
        let old = |at: &(u64, u64)| now.0.saturating_sub(at.0) >= UTILISATION_NS;
        while self.0.get(1).is_some_and(old) {
            self.0.pop_front();
        }
        let since = *self.0.front().unwrap_or(&now);
        if self.0.back().is_none_or(|last| now.0 > last.0) {
            self.0.push_back(now);
        }
        let wall = now.0.saturating_sub(since.0) as f64 * cores;
        match wall > 0.0 {
            true => (100.0 * (now.1.saturating_sub(since.1)) as f64 / wall).min(100.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
