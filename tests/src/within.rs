//! How long a machine may take that others use as well.

use std::time::Duration;

/// More runnable threads a core than this, and the machine is crowded.
const CROWDED: f64 = 2.0;

/// What is promised in so many seconds; five times that where the last minute's load says that others
/// wanted the machine as well. A bound that is about the project is then not about its neighbours.
pub fn seconds(promised: u64) -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = load.split_whitespace().next();
    let load: f64 = first.and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crowded = load > CROWDED * cores as f64;
    Duration::from_secs(if crowded { 5 * promised } else { promised })
}
