//! Which limit of the machine binds a kernel, and what share of it was reached.

use super::clock::Clock;
use super::flops::peak;
use super::memory::{Bandwidth, bandwidth};
use crate::Par;
use crate::engine::Engine;

/// What this machine reached with a number of threads.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Threads that were measured.
    pub threads: usize,
    /// Bandwidth by working set, ascending.
    pub bandwidth: Vec<Bandwidth>,
    /// GFLOP/s by engine, slowest first.
    pub flops: Vec<(Engine, f64)>,
}

/// The limit that a kernel runs into first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Moving its bytes.
    Memory,
    /// Computing.
    Compute,
}

impl Bound {
    /// The word in tables.
    pub fn label(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Compute => "compute",
        }
    }
}

impl Limits {
    /// Measures the bandwidth at each working set (ascending) and the peak of each engine;
    /// `told` hears what comes next.
    pub fn measure(
        par: &Par,
        clock: Clock,
        working_sets: &[usize],
        told: &mut dyn FnMut(&str),
    ) -> Limits {
        let mut sets = Vec::with_capacity(working_sets.len());
        for &bytes in working_sets {
            told(&format!("copy, triad and update, {} MiB", bytes >> 20));
            sets.push(bandwidth(par, clock, bytes));
        }
        let mut flops = Vec::new();
        for engine in Engine::available() {
            told(&format!("multiply-adds, {}", engine.label()));
            flops.push((engine, peak(par, clock, engine)));
        }
        Limits {
            threads: par.threads(),
            bandwidth: sets,
            flops,
        }
    }

    /// GB/s for data of so many bytes: the best of copy, triad and update at the
    /// smallest measured working set that is not smaller, or at the largest. 0 when nothing was measured.
    pub fn gb_per_s(&self, bytes: f64) -> f64 {
        let fits = |b: &&Bandwidth| b.working_set as f64 >= bytes;
        let found = self.bandwidth.iter().find(fits).or(self.bandwidth.last());
        found.map_or(0.0, Bandwidth::best)
    }

    /// The highest GFLOP/s of any engine.
    pub fn gflops(&self) -> f64 {
        self.flops.iter().map(|f| f.1).fold(0.0, f64::max)
    }

    /// Milliseconds that it takes at least to move so many bytes of operands of `footprint` bytes
    /// and to compute so many operations, and which of the two says so.
    pub fn least_ms(&self, bytes: f64, footprint: f64, flops: f64) -> (f64, Bound) {
        let moving = bytes / self.gb_per_s(footprint).max(1e-9) / 1e6;
        let computing = flops / self.gflops().max(1e-9) / 1e6;
        if moving >= computing {
            (moving, Bound::Memory)
        } else {
            (computing, Bound::Compute)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Spread;

    fn at(working_set: usize, copy: f64) -> Bandwidth {
        let spread = Spread::of(&[1.0]).expect("one value");
        Bandwidth {
            working_set,
            copy,
            triad: copy - 1.0,
            update: copy - 2.0,
            update_ms: spread,
            copy_ms: spread,
            triad_ms: spread,
        }
    }

    #[test]
    fn the_tighter_limit_binds() {
        let limits = Limits {
            threads: 1,
            bandwidth: vec![at(1 << 20, 50.0), at(1 << 24, 10.0)],
            flops: vec![(Engine::available()[0], 100.0)],
        };
        assert_eq!(limits.gb_per_s(1000.0), 50.0);
        assert_eq!(limits.gb_per_s(2e6), 10.0);
        assert_eq!(limits.gb_per_s(1e12), 10.0);
        assert_eq!(limits.least_ms(1e7, 1e7, 1e6), (1.0, Bound::Memory));
        assert_eq!(limits.least_ms(1e7, 1e7, 1e9), (10.0, Bound::Compute));
    }
}
