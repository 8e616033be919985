//! Epochs on one to all GPUs, with rows from GPU to GPU and through the host.

use super::spec_of;
use crate::bench::ours::Runner;
use gnn_core::spec::TransportKind;
use kernels::bench::Spread;
use std::path::Path;

/// Whole-graph training that differs in what it sends: halos, all rows, slices.
const STRATEGIES: [&str; 3] = ["halo", "broadcast", "neutrontp"];

/// GPUs at most; with more, powers of two.
const EACH: usize = 4;

/// One training.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    /// The strategy.
    pub strategy: &'static str,
    /// GPUs, a rank each.
    pub gpus: usize,
    /// How rows pass.
    pub transport: TransportKind,
    /// Milliseconds of an epoch; or why there are none.
    pub ms: Result<Spread, String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Case {
    strategy: &'static str,
    gpus: usize,
    transport: TransportKind,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = word(self.transport);
        write!(f, "{}, {} GPU(s), by {by}", self.strategy, self.gpus)
    }
}

/// The word of tables.
pub(crate) fn word(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Nccl => "NCCL",
        _ => "the host",
    }
}

/// What is trained; nothing where there is one GPU, and by NCCL where that is there.
pub(super) fn cases(gpus: usize, nccl: bool) -> Vec<Case> {
    if gpus < 2 {
        return Vec::new();
    }
    let counts = (1..=gpus).filter(|&n| n <= EACH || n.is_power_of_two() || n == gpus);
    let counts: Vec<usize> = counts.collect();
    let of = |strategy: &'static str| {
        counts.iter().flat_map(move |&gpus| {
            let ways: &[TransportKind] = match nccl && gpus > 1 {
                false => &[TransportKind::Host],
                true => &[TransportKind::Nccl, TransportKind::Host],
            };
            ways.iter().map(move |&transport| Case {
                strategy,
                gpus,
                transport,
            })
        })
    };
    STRATEGIES.into_iter().flat_map(of).collect()
}

impl Case {
    /// Trains it.
    pub(super) fn train(self, body: &str, worker: &Path) -> Scaled {
        let by = self.transport.name();
        let body = format!(
            "{body}; strategy = {}; ranks = {}; transport = {by}",
            self.strategy, self.gpus
        );
        let ms = || -> Result<Spread, String> {
            let spec = spec_of(&body).map_err(|e| e.to_string())?;
            let runner = Runner::new(spec, worker).map_err(|e| e.to_string())?;
            let epochs = runner.run().map_err(|e| e.to_string())?;
            let epochs = epochs.ok_or("interrupted")?;
            Spread::of(&epochs.ms).ok_or_else(|| "no epoch was timed".into())
        };
        Scaled {
            strategy: self.strategy,
            gpus: self.gpus,
            transport: self.transport,
            ms: ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_gpus_is_trained_both_ways() {
        assert!(cases(1, true).is_empty());
        let of = |gpus| -> Vec<usize> {
            let halo = cases(gpus, true)
                .into_iter()
                .filter(|c| c.strategy == "halo");
            let nccl = halo.filter(|c| c.transport == TransportKind::Nccl || c.gpus == 1);
            nccl.map(|c| c.gpus).collect()
        };
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(6), [1, 2, 3, 4, 6]);
        assert_eq!(of(8), [1, 2, 3, 4, 8]);
        assert_eq!((cases(2, true).len(), cases(2, false).len()), (9, 6));
    }
}
