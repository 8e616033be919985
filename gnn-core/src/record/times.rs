//! The times of one epoch.

use super::phase::Pass;

/// Nanoseconds spent in one epoch, by what they were spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Kernels and sampling, by [`Pass`]; those of an epoch come first.
    pub compute: [u64; Pass::Eval as usize],
    /// Packing and unpacking.
    pub copy: u64,
    /// Blocked while data moved.
    pub xfer: u64,
    /// Blocked before the peer had sent.
    pub wait: u64,
    /// Of the kernel time, what was added on purpose.
    pub injected: u64,
    /// Data moving while the rank did something else.
    pub hidden: u64,
}

impl Times {
    /// Kernel time of a pass of an epoch.
    pub fn of(&self, pass: Pass) -> u64 {
        self.compute[pass as usize]
    }

    /// Adds kernel time of a pass; evaluation and set-up are not part of an epoch.
    pub fn add_compute(&mut self, pass: Pass, ns: u64) {
        if let Some(slot) = self.compute.get_mut(pass as usize) {
            *slot += ns;
        }
    }

    /// Kernel time of all passes.
    pub fn compute_total(&self) -> u64 {
        self.compute.iter().sum()
    }

    /// Everything that is part of wall time.
    pub fn accounted(&self) -> u64 {
        self.compute_total() + self.copy + self.xfer + self.wait
    }
}
