//! `manifest.json`: one run in one page, rewritten atomically by its supervisor.

use crate::error::{Error, Result};
use crate::frames::rows::Rows;
use crate::{store, sys};
use gnn_core::record::rows::Score;
use gnn_core::spec::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Ranks are at work.
    Running,
    /// All epochs finished.
    Ok,
    /// Ended by request; finished epochs are whole.
    Interrupted,
    /// A rank failed, or the run took longer than it may.
    Failed,
    /// No rank made progress.
    Stalled,
}

impl Status {
    /// The word used in files and frames.
    pub fn label(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Ok => "ok",
            Status::Interrupted => "interrupted",
            Status::Failed => "failed",
            Status::Stalled => "stalled",
        }
    }

    /// Exit status of a command that ends with this.
    pub fn exit_code(self) -> i32 {
        match self {
            Status::Ok | Status::Running => 0,
            Status::Failed | Status::Stalled => 1,
            Status::Interrupted => 130,
        }
    }
}

/// What a finished (or ended) run achieved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// Training loss of the last epoch.
    pub train_loss: Option<f64>,
    /// Training accuracy at the last evaluation.
    pub train_acc: Option<f64>,
    /// Best validation accuracy of all epochs.
    pub val_acc: Option<f64>,
    /// Test accuracy at the (first) epoch of best validation accuracy.
    pub test_acc: Option<f64>,
    /// The epoch with the best validation score: accuracy, or what stands in for it.
    pub best_epoch: Option<u32>,
    /// The validation score until which training was timed: the key `target`, or 99 % of the best.
    #[serde(default)]
    pub target: Option<f64>,
    /// Training time until an evaluation first reached it, evaluation excluded; none where it never did.
    #[serde(default)]
    pub time_to_target_ms: Option<f64>,
    /// The best validation score and the scores of its epoch, in the metric of the run's task.
    #[serde(default)]
    pub score: Option<Score>,
    /// Average precision on the test links at that epoch, where links are predicted.
    #[serde(default)]
    pub test_ap: Option<f64>,
    /// Mean reciprocal rank of the test links at that epoch, where links are predicted.
    #[serde(default)]
    pub test_mrr: Option<f64>,
}

/// What one rank was waiting for when a run stalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The rank.
    pub rank: u32,
    /// Where it was.
    pub phase: String,
    /// Operation it waited in, if it waited.
    pub op: Option<String>,
    /// Peer it waited for, if one.
    pub peer: Option<u32>,
    /// Its epoch.
    pub epoch: u64,
    /// Seconds since that began.
    pub waiting_s: f64,
}

/// Why a run did not finish.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// `HaloRankFailed`, `HaloStalled`, `HaloTimeout`, `HaloInterrupted`.
    pub name: String,
    /// First rank to fail.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Where it was.
    pub phase: Option<String>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// The signal that ended it, in words.
    pub signal: Option<String>,
    /// What happened, one line.
    pub message: String,
    /// The end of its log.
    pub log_tail: Vec<String>,
    /// Ranks that failed or were ended as a consequence.
    pub others: Vec<u32>,
    /// Who waits for whom, when the run stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
}

/// The run that another one goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Its name.
    pub run_id: String,
    /// How many of its epochs are kept.
    pub epochs: u32,
}

/// A run in one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the run folder.
    pub run_id: String,
    /// Free name.
    pub name: String,
    /// When it started (RFC 3339, UTC).
    pub started: String,
    /// How it stands.
    pub status: Status,
    /// Process of the supervisor.
    pub pid: u32,
    /// When that process started, in the kernel's ticks.
    #[serde(default)]
    pub pid_start: Option<u64>,
    /// The request, flat, every key.
    pub spec: BTreeMap<String, Value>,
    /// Number of ranks.
    pub ranks: u32,
    /// Strategy.
    pub strategy: String,
    /// Hash of what the strategy is.
    pub strategy_hash: String,
    /// Model.
    pub model: String,
    /// Data set, as requested.
    pub data: String,
    /// Whether the data was generated; older manifests do not say.
    #[serde(default)]
    pub synthetic: bool,
    /// Device.
    pub backend: String,
    /// Seed.
    pub seed: u64,
    /// `bitwise`, `same_ranks` or `statistical`.
    pub determinism: String,
    /// `threads`, `mpi` or `slurm`.
    pub launch: String,
    /// Compute threads of each rank.
    pub threads_per_rank: u32,
    /// Whether ranks outnumber cores.
    pub oversubscribed: bool,
    /// The machine, roughly.
    pub host_class: String,
    /// MPI library and version, when one was used.
    pub mpi: Option<String>,
    /// Hash of who owns which vertex; none where no partitioner was asked.
    #[serde(default)]
    pub partition_hash: Option<String>,
    /// Version of the device's driver, where there is a device.
    #[serde(default)]
    pub driver: Option<String>,
    /// Halobook's version.
    pub version: String,
    /// Hash of the lock file that it was built with; older manifests do not say.
    #[serde(default)]
    pub lock_hash: String,
    /// The run from whose checkpoint it goes on, if it does.
    #[serde(default)]
    pub resumed: Option<Resumed>,
    /// The run that it repeats, if it does.
    #[serde(default)]
    pub replays: Option<String>,
    /// Epochs finished, those of the run that it goes on from included.
    pub epochs_done: u32,
    /// Whether it ended early because the validation score no longer improved (`patience`).
    #[serde(default)]
    pub stopped_early: bool,
    /// Time since the start, until the end.
    pub wall_ms: f64,
    /// Payload bytes that all ranks sent in finished epochs.
    #[serde(default)]
    pub bytes_total: u64,
    /// Largest memory of a rank.
    #[serde(default)]
    pub mem_peak_bytes: u64,
    /// What was achieved.
    #[serde(rename = "final")]
    pub result: Option<Final>,
    /// Why it did not finish.
    pub error: Option<RunError>,
    /// What a reader of the numbers should know.
    pub notes: Vec<String>,
}

impl Manifest {
    /// The modelled link that its messages travelled by, as `1gbit,50us`; none where there was none.
    pub fn link(&self) -> Option<&str> {
        self.text("link").filter(|link| *link != "none")
    }

    /// The rank that was slowed down on purpose, as `2:3x`; none where there was none.
    pub fn slow(&self) -> Option<&str> {
        self.text("slow").filter(|slow| *slow != "none")
    }

    /// A key of the request that is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.spec.get(key) {
            Some(Value::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// A key of the request that is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.spec.get(key).and_then(Value::as_f64)
    }

    /// Reads the manifest of a run folder. A run whose supervisor is gone without having closed
    /// it reads as failed.
    ///
    /// # Errors
    /// When the file is missing or is not a manifest.
    pub fn read(run_dir: &Path) -> Result<Manifest> {
        let manifest = Manifest::written(run_dir)?;
        if manifest.status != Status::Running || manifest.is_supervised() {
            return Ok(manifest);
        }
        // Its supervisor may have closed it since it was read, and then ended: what it wrote last counts.
        let mut manifest = Manifest::written(run_dir)?;
        if manifest.status == Status::Running {
            manifest.status = Status::Failed;
            // Its ranks may have finished epochs that it did not note any more, and frames have them.
            if let Ok(rows) = Rows::read(run_dir, manifest.ranks) {
                manifest.epochs_done = manifest.epochs_done.max(rows.epochs.len() as u32);
            }
            manifest.error = Some(RunError {
                name: "HaloRankFailed".into(),
                message: "the supervisor of this run ended without closing it".into(),
                ..RunError::default()
            });
        }
        Ok(manifest)
    }

    /// What the file in a run folder says.
    fn written(run_dir: &Path) -> Result<Manifest> {
        let path = run_dir.join("manifest.json");
        let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { path, source })
    }

    /// Writes the manifest into a run folder, atomically.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, run_dir: &Path) -> Result<()> {
        let path = run_dir.join("manifest.json");
        let text = serde_json::to_vec_pretty(self).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        store::write_atomic(&path, &text)
    }

    /// The same of a run that ended before its ranks were started.
    #[must_use]
    pub fn failed_to_start(&self, error: &Error) -> Manifest {
        let name = match error {
            Error::PlanRefused { .. } => "HaloPlanRefused",
            _ => "HaloConfigError",
        };
        Manifest {
            status: Status::Failed,
            error: Some(RunError {
                name: name.into(),
                message: error.to_string(),
                log_tail: vec![format!("help: {}", error.help())],
                ..RunError::default()
            }),
            ..self.clone()
        }
    }

    /// Whether its data is still being read: its ranks have not been started.
    pub fn is_loading(&self) -> bool {
        self.status == Status::Running && self.launch.is_empty()
    }

    /// Whether the process that started the run still exists.
    pub fn is_supervised(&self) -> bool {
        sys::is_alive(self.pid)
            && (self.pid_start.is_none() || self.pid_start == sys::start_ticks(self.pid))
    }

    /// Who should watch the ranks of a running run and does not: its supervisor, or what starts ranks for it, is
    /// stopped, so that neither an end nor a failure would be noticed.
    pub fn unwatched(&self) -> Option<String> {
        if self.status != Status::Running {
            return None;
        }
        let (who, pid) = if sys::is_stopped(self.pid) {
            ("its supervisor", self.pid)
        } else {
            let started = sys::children(self.pid);
            (
                "what starts its ranks",
                started.into_iter().find(|&pid| sys::is_stopped(pid))?,
            )
        };
        Some(format!(
            "nobody watches: {who}, process {pid}, is stopped (kill -CONT {pid} goes on)"
        ))
    }

    /// Adds a note once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A manifest of a finished run, for the tests of this crate.
    pub(crate) fn sample(run_id: &str) -> Manifest {
        Manifest {
            run_id: run_id.into(),
            name: String::new(),
            started: "2026-01-02T03:04:05.000Z".into(),
            status: Status::Ok,
            pid: std::process::id(),
            pid_start: sys::start_ticks(std::process::id()),
            spec: [("epochs".to_owned(), Value::Int(2))].into(),
            ranks: 2,
            strategy: "halo".into(),
            strategy_hash: "00".into(),
            model: "gcn".into(),
            data: "karate".into(),
            synthetic: false,
            backend: "cpu".into(),
            seed: 0,
            determinism: "bitwise".into(),
            launch: "threads".into(),
            threads_per_rank: 1,
            oversubscribed: false,
            host_class: "2 cores".into(),
            mpi: None,
            partition_hash: None,
            driver: None,
            version: "0".into(),
            lock_hash: "00".into(),
            resumed: None,
            replays: None,
            epochs_done: 2,
            stopped_early: false,
            wall_ms: 10.0,
            bytes_total: 0,
            mem_peak_bytes: 0,
            result: None,
            error: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_manifest_survives_a_round_trip() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let manifest = sample("20260102-030405-abcd");
        manifest.write(dir.path()).expect("writes");
        assert_eq!(Manifest::read(dir.path()).expect("reads"), manifest);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("lists").count(),
            1,
            "no temporary left"
        );
    }

    #[test]
    fn a_running_run_without_its_supervisor_reads_as_failed() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut manifest = sample("20260102-030405-abcd");
        manifest.status = Status::Running;
        manifest.write(dir.path()).expect("writes");
        assert_eq!(
            Manifest::read(dir.path()).expect("reads").status,
            Status::Running
        );
        manifest.pid_start = manifest.pid_start.map(|t| t + 1);
        manifest.write(dir.path()).expect("writes");
        let read = Manifest::read(dir.path()).expect("reads");
        if manifest.pid_start.is_some() {
            assert_eq!(read.status, Status::Failed);
            assert!(read.error.is_some());
        }
    }
}
