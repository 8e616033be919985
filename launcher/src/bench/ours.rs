//! Epochs of a real worker, on the ordinary run path: resolved, launched, supervised, recorded.

use crate::error::{Error, Result};
use crate::frames::rows::Rows;
use crate::manifest::Status;
use crate::resolve::{Resolved, resolve};
use crate::{Options, prepare};
use gnn_core::record::rows::RankRow;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::STRATEGIES;
use serde::Serialize;
use std::path::Path;

/// Where an epoch's time goes, in the order of [`Epochs::phases`].
pub const PHASES: [&str; 8] = [
    "forward",
    "head",
    "backward",
    "optimiser",
    "copy",
    "transfer",
    "wait",
    "other",
];

/// What one run measured.
#[derive(Debug, Clone, Serialize)]
pub struct Epochs {
    /// Milliseconds of each epoch after the warm-up, of its slowest rank.
    pub ms: Vec<f64>,
    /// Milliseconds of each phase in each of these epochs.
    pub phases: Vec<[f64; PHASES.len()]>,
    /// Training loss of the first and the last epoch.
    pub losses: (f64, f64),
    /// Peak resident memory of the largest worker.
    pub peak_bytes: u64,
}

/// A request that is resolved once and run as often as one likes.
pub struct Runner<'a> {
    resolved: Resolved,
    worker: &'a Path,
}

impl<'a> Runner<'a> {
    /// Resolves a request; `worker` is the `halobook` program.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn new(spec: RunSpec, worker: &'a Path) -> Result<Runner<'a>> {
        let resolved = resolve(STRATEGIES, spec)?;
        Ok(Runner { resolved, worker })
    }

    /// Compute threads of a rank.
    pub fn threads(&self) -> usize {
        self.resolved.plan.threads
    }

    /// Trains once; `None` when the user interrupted it. The run's folder goes when it finished;
    /// that of a failed run stays, for its logs.
    ///
    /// # Errors
    /// When the run cannot be started or read, or it failed.
    pub fn run(&self) -> Result<Option<Epochs>> {
        let from = &self.resolved;
        let copy = Resolved {
            plan: from.plan.clone(),
            owner: from.owner.clone(),
            nested: from.nested.clone(),
            report: from.report.clone(),
            starter: from.starter.clone(),
            entry: from.entry,
            data: from.data.clone(),
            data_name: from.data_name.clone(),
            host: from.host.clone(),
            notes: from.notes.clone(),
            digest: from.digest,
            from: None,
            foreseen: Vec::new(),
            slow_link: None,
        };
        let options = Options {
            run_id: None,
            worker: self.worker.to_owned(),
            replays: None,
            announced: None,
        };
        let prepared = prepare(copy, options)?;
        let dir = prepared.run_dir.clone();
        let manifest = prepared.run()?;
        match manifest.status {
            Status::Ok => {}
            Status::Interrupted => return Ok(None),
            _ => {
                let error = manifest.error.map(|e| format!("{}: {}", e.name, e.message));
                return Err(Error::refused(
                    format!("bench: the run failed: {}", error.unwrap_or_default()),
                    format!("see halobook log {}", manifest.run_id),
                ));
            }
        }
        let epochs = read(
            &Rows::read(&dir, manifest.ranks)?,
            self.resolved.plan.spec.warmup,
        );
        // A folder that cannot be removed is one run more in the list of runs.
        let _ = std::fs::remove_dir_all(&dir);
        Ok(Some(epochs))
    }
}

fn read(rows: &Rows, warmup: usize) -> Epochs {
    let slowest: Vec<&RankRow> = rows
        .ranks
        .chunk_by(|a, b| a.epoch == b.epoch)
        .filter(|group| group[0].epoch as usize >= warmup)
        .filter_map(|group| group.iter().max_by(|a, b| a.wall_ms.total_cmp(&b.wall_ms)))
        .collect();
    let phases = |r: &&RankRow| {
        [
            r.forward_ms,
            r.sample_ms + r.classify_ms + r.loss_ms,
            r.backward_ms,
            r.optim_ms,
            r.copy_ms,
            r.xfer_exposed_ms,
            r.wait_ms,
            r.other_ms,
        ]
    };
    let loss =
        |m: Option<&gnn_core::record::rows::MetricsRow>| m.map_or(f64::NAN, |m| m.train_loss);
    Epochs {
        ms: slowest.iter().map(|r| r.wall_ms).collect(),
        phases: slowest.iter().map(phases).collect(),
        losses: (loss(rows.metrics.first()), loss(rows.metrics.last())),
        peak_bytes: rows
            .ranks
            .iter()
            .map(|r| r.mem_peak_bytes)
            .max()
            .unwrap_or(0),
    }
}
