//! One run from request to result: resolve, launch, supervise.

use crate::error::Result;
use crate::manifest::{Manifest, Status};
use crate::resolve::{Resolved, Starter, determinism, lock_hash, partition_hash, strategy_hash};
use crate::supervise::Supervisor;
use crate::{host, launch, resume, store, sys};
use gnn_core::spec::RunSpec;
use gnn_core::strategy::Entry;
use std::path::PathBuf;
use std::process::Child;
use std::time::Instant;

/// What a run needs beside its plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the run folder; a fresh one when there is none.
    pub run_id: Option<String>,
    /// The `halobook` program, which is also what a rank executes.
    pub worker: PathBuf,
    /// The run that this one repeats, if it does.
    pub replays: Option<String>,
    /// The manifest of a run that has its folder already.
    pub announced: Option<Manifest>,
}

/// A run whose folder exists and whose ranks have not been started.
pub struct Prepared {
    /// The run folder.
    pub run_dir: PathBuf,
    resolved: Resolved,
    manifest: Manifest,
    worker: PathBuf,
    /// Whether somebody has been told that the run is under way.
    announced: bool,
}

/// Makes the run folder and writes into it what ranks read.
///
/// # Errors
/// When the id is taken, or the store cannot be written.
pub fn prepare(resolved: Resolved, options: Options) -> Result<Prepared> {
    let was_announced = options.announced.is_some();
    let (run_dir, mut manifest) = match options.announced {
        Some(announced) => {
            let run_dir = store::runs_dir().join(&announced.run_id);
            (run_dir, manifest(announced, &resolved))
        }
        None => {
            let id = options.run_id.unwrap_or_else(store::new_id);
            let begun = announced(&id, resolved.entry, &resolved.plan.spec);
            (store::create(&id)?, manifest(begun, &resolved))
        }
    };
    manifest.replays = options.replays;
    launch::write_plan(&run_dir, &resolved)?;
    if let Some(from) = &resolved.from {
        resume::bring(from, &run_dir, resolved.plan.spec.ranks)?;
    }
    manifest.write(&run_dir)?;
    Ok(Prepared {
        run_dir,
        resolved,
        manifest,
        worker: options.worker,
        announced: was_announced,
    })
}

/// A run whose ranks are at work. Nobody watches them until [`Started::watch`] is called.
pub struct Started {
    prepared: Prepared,
    child: (Child, launch::Scratch),
    start: Instant,
    oom_before: u64,
}

impl Prepared {
    /// Starts the ranks. Call it from the main thread: ranks end when the thread that started them
    /// does.
    ///
    /// # Errors
    /// When the ranks cannot be started; nothing of the run is kept then, unless it was announced.
    pub fn start(self) -> Result<Started> {
        let (start, oom_before) = (Instant::now(), host::oom_kills());
        match launch::start(&self.run_dir, &self.resolved, &self.worker) {
            Ok(child) => Ok(Started {
                prepared: self,
                child,
                start,
                oom_before,
            }),
            Err(error) => {
                if self.announced {
                    let failed = self.manifest.failed_to_start(&error);
                    failed.write(&self.run_dir)?;
                } else {
                    // Nothing was started, so nothing of the run is kept.
                    let _ = std::fs::remove_dir_all(&self.run_dir);
                }
                Err(error)
            }
        }
    }

    /// Starts the ranks and watches them to the end.
    ///
    /// # Errors
    /// As [`Prepared::start`] and [`Started::watch`].
    pub fn run(self) -> Result<Manifest> {
        self.start()?.watch()
    }
}

impl Started {
    /// Watches the ranks to the end and closes the run.
    ///
    /// # Errors
    /// When the run folder cannot be written. A rank that fails is no error here: the manifest says
    /// so.
    pub fn watch(self) -> Result<Manifest> {
        let Prepared {
            run_dir,
            resolved,
            manifest,
            ..
        } = &self.prepared;
        Supervisor::new(
            run_dir,
            resolved,
            manifest.clone(),
            self.child,
            self.start,
            self.oom_before,
        )?
        .run()
    }
}

/// Trains what was resolved and returns the closed manifest.
///
/// # Errors
/// As [`prepare`] and [`Prepared::run`].
pub fn train(resolved: Resolved, options: Options) -> Result<Manifest> {
    prepare(resolved, options)?.run()
}

/// The manifest of a run of which nothing but the request is known, as that of this process.
pub(crate) fn announced(id: &str, entry: &Entry, spec: &RunSpec) -> Manifest {
    let pid = std::process::id();
    Manifest {
        run_id: id.to_owned(),
        name: spec.name.clone(),
        started: crate::time::Utc::now().rfc3339(),
        status: Status::Running,
        pid,
        pid_start: sys::start_ticks(pid),
        spec: spec.to_pairs().into_iter().collect(),
        ranks: spec.ranks as u32,
        strategy: spec.strategy.clone(),
        strategy_hash: strategy_hash(entry, spec),
        model: spec.model.name().to_owned(),
        data: spec.data.clone(),
        synthetic: false,
        backend: spec.backend.clone(),
        seed: spec.seed,
        determinism: determinism(entry, spec).to_owned(),
        launch: String::new(),
        threads_per_rank: 0,
        oversubscribed: false,
        host_class: host::Host::this().class(),
        mpi: None,
        partition_hash: None,
        driver: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lock_hash: lock_hash(),
        resumed: None,
        replays: None,
        epochs_done: 0,
        stopped_early: false,
        wall_ms: 0.0,
        bytes_total: 0,
        mem_peak_bytes: 0,
        result: None,
        error: None,
        notes: Vec::new(),
    }
}

/// The manifest of a run once everything is decided.
fn manifest(announced: Manifest, resolved: &Resolved) -> Manifest {
    let (plan, spec) = (&resolved.plan, &resolved.plan.spec);
    let mut pairs = spec.to_pairs();
    for (_, value) in pairs.iter_mut().filter(|(key, _)| key == "data") {
        *value = gnn_core::spec::Value::Str(resolved.data_name.clone());
    }
    Manifest {
        spec: pairs.into_iter().collect(),
        data: resolved.data_name.clone(),
        synthetic: resolved.data.synthetic,
        determinism: determinism(resolved.entry, spec).to_owned(),
        launch: resolved.starter.label().to_owned(),
        threads_per_rank: plan.threads as u32,
        oversubscribed: plan.oversubscribed,
        partition_hash: partition_hash(resolved),
        driver: (spec.backend != "cpu").then(host::driver).flatten(),
        host_class: resolved.host.class(),
        mpi: match &resolved.starter {
            Starter::Mpi(mpi) => Some(mpi.to_string()),
            _ => None,
        },
        resumed: resolved.from.as_ref().map(|from| from.resumed.clone()),
        notes: resolved.notes.clone(),
        ..announced
    }
}
