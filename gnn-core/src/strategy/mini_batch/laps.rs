//! Where the time of a rank's steps goes, by the clock: making batches, forward, backward, and the sum of
//! gradients.
//!
//! # Paper
//! DistGNN-MB § 4.4: MBC, FWD, BWD and ARed; the same of every strategy that trains on mini-batches, so that
//! they stand in one frame.

use crate::frame;
use crate::record::now_ns;
use serde::Deserialize;

frame! {
    /// Where the time of one rank's steps went in one epoch, by the clock, under a strategy that samples. What
    /// is left of `ranks.wall_ms` is between steps.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    StepRow in "steps" {
        /// Steps: batches, unless a step has several of them.
        steps: u64,
        /// Time until a batch is there: making it, or waiting for whoever does (the paper's MBC).
        mbc_ms: f64,
        /// Forward with the loss, and what it reads of other ranks (FWD).
        fwd_ms: f64,
        /// Backward (BWD).
        bwd_ms: f64,
        /// Waiting for the sum of all ranks' gradients, and the step of the weights (ARed).
        ared_ms: f64,
        /// The longest step.
        longest_ms: f64,
    }
}

/// A part of a step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Mbc,
    Fwd,
    Bwd,
    Ared,
}

/// A clock that is read between the parts of a step.
#[derive(Debug, Default)]
pub(super) struct Laps {
    at: u64,
    spent: [u64; 4],
    step: u64,
    longest: u64,
    steps: u64,
}

impl Laps {
    /// The clock runs from now on.
    pub(super) fn start(&mut self) {
        self.at = now_ns();
    }

    /// What was done since the clock was read last.
    pub(super) fn lap(&mut self, part: Part) {
        let now = now_ns();
        let took = now - std::mem::replace(&mut self.at, now);
        self.spent[part as usize] += took;
        self.step += took;
    }

    /// A step is over.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        self.longest = self.longest.max(std::mem::take(&mut self.step));
    }

    /// The epoch's row; the next epoch begins with nothing.
    pub(super) fn row(&mut self) -> StepRow {
        let ms = |ns: u64| ns as f64 / 1e6;
        let of = std::mem::take(self);
        let [mbc, fwd, bwd, ared] = of.spent.map(ms);
        StepRow {
            steps: of.steps,
            mbc_ms: mbc,
            fwd_ms: fwd,
            bwd_ms: bwd,
            ared_ms: ared,
            longest_ms: ms(of.longest),
        }
    }
}
