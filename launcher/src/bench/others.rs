//! How much of the machine somebody else used meanwhile.
//!
//! A timing on a busy machine says little, and libraries whose threads wait by spinning suffer most.
//! So every measurement carries the cores that other processes used during it.

use crate::sys;
use std::time::{Duration, Instant};

/// Cores in use by others from which a measurement is not called quiet.
pub const QUIET: f64 = 0.15;

/// The machine's and this process's processor time from some moment on.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    busy: Option<f64>,
    own: f64,
}

impl Watch {
    /// Starts watching.
    pub fn start() -> Watch {
        Watch {
            start: Instant::now(),
            busy: busy_seconds(),
            own: sys::cpu_seconds(),
        }
    }

    /// Cores that neither this process nor its ended children used, on average since the start;
    /// `None` where the system does not tell.
    pub fn others(&self) -> Option<f64> {
        let busy = busy_seconds()? - self.busy?;
        let own = sys::cpu_seconds() - self.own;
        let wall = self.start.elapsed().as_secs_f64().max(1e-3);
        Some(((busy - own) / wall).max(0.0))
    }
}

/// Waits until others use less than [`QUIET`] cores, at most `patience`.
pub fn wait_for_quiet(patience: Duration) {
    let end = Instant::now() + patience;
    while Instant::now() < end && sys::interrupts() == 0 {
        let watch = Watch::start();
        std::thread::sleep(Duration::from_millis(500).min(patience));
        if watch.others().is_none_or(|cores| cores < QUIET) {
            return;
        }
    }
}

fn busy_seconds() -> Option<f64> {
    busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?).map(|t| t / sys::ticks_per_second())
}

/// All but idle and waiting time of the line of all processors.
fn busy_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .take(8)
        .filter_map(|t| t.parse().ok())
        .collect();
    (ticks.len() == 8).then(|| ticks.iter().sum::<f64>() - ticks[3] - ticks[4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting() {
        assert_eq!(
            busy_ticks("cpu  1 2 4 800 1600 8 16 32 0 0\ncpu0 0\n"),
            Some(63.0)
        );
        assert_eq!(busy_ticks("something else"), None);
    }

    #[test]
    fn a_watch_never_reports_less_than_nothing() {
        let watch = Watch::start();
        std::thread::sleep(Duration::from_millis(20));
        assert!(watch.others().is_none_or(|cores| cores >= 0.0));
    }
}
