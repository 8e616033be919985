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
    /// Of kernels and copies, those of a device that works while its rank does something else.
    pub device: u64,
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

    /// The same within `wall`: a device of its own computes on while its rank waits for others, so its time
    /// and the rank's can be more than there was. What is too much was waiting that cost nothing, then
    /// transfer, which is hidden then.
    pub fn within(mut self, wall: u64) -> Times {
        let mut over = self.accounted().saturating_sub(wall).min(self.device);
        let waited = over.min(self.wait);
        self.wait -= waited;
        over -= waited;
        let moved = over.min(self.xfer);
        self.xfer -= moved;
        self.hidden += moved;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_meanwhile_takes_from_waiting_then_from_transfers() {
        let mut times = Times {
            copy: 10,
            xfer: 20,
            wait: 30,
            device: 50,
            ..Times::default()
        };
        times.add_compute(Pass::Forward, 40);
        assert_eq!(times.within(100), times);
        assert_eq!(times.within(200), times);
        let less = times.within(90);
        assert_eq!((less.wait, less.xfer, less.hidden), (20, 20, 0));
        let less = times.within(65);
        assert_eq!((less.wait, less.xfer, less.hidden), (0, 15, 5));
        // Kernels and copies alone that exceed wall time are a mistake, and stay one.
        let less = times.within(45);
        assert_eq!((less.accounted(), less.hidden), (50, 20));
        // So are a rank's own that do.
        times.device = 0;
        assert_eq!(times.within(90), times);
    }
}
