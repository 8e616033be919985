//! What will happen: a request with everything resolved, ready for a worker.

use crate::spec::RunSpec;
use crate::store::Verdicts;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A resolved run. Written to `plan.json` by the launcher and read by every rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The request.
    pub spec: RunSpec,
    /// Epochs that another run has finished: it goes on from the checkpoint after them, which lies
    /// in the run folder.
    #[serde(default)]
    pub start: usize,
    /// Compute threads of each rank.
    pub threads: usize,
    /// Whether ranks run as threads of one process.
    pub in_process: bool,
    /// Whether ranks outnumber cores, so that waiting ranks must give way.
    pub oversubscribed: bool,
    /// Milliseconds that the partitioner took (0 for one rank).
    pub partition_ms: f64,
    /// Memory that it took beside the data set.
    #[serde(default)]
    pub partition_peak_bytes: u64,
    /// The partitioner, with knobs that are not default, after limits have chosen.
    #[serde(default)]
    pub partition_method: String,
    /// Where it is kept which stored graphs were found sound.
    #[serde(default)]
    pub verdicts: Verdicts,
    /// Where cuts within a part are kept by the content of what was cut; none where nothing is kept.
    #[serde(default)]
    pub cuts: Option<PathBuf>,
}

impl Plan {
    /// The plan of ranks that are threads of this process and give way to each other, of one compute thread
    /// each; nothing is kept of it, and nothing taken from what was kept.
    pub fn in_threads(spec: RunSpec) -> Plan {
        Plan {
            spec,
            start: 0,
            threads: 1,
            in_process: true,
            oversubscribed: true,
            partition_ms: 0.0,
            partition_peak_bytes: 0,
            partition_method: String::new(),
            verdicts: Verdicts::none(),
            cuts: None,
        }
    }
}
