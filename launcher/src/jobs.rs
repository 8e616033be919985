//! Runs and sweeps that are under way: `%jobs`, `%wait`, `%attach` and their twins on the command line.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use crate::sweep::{self, Standing};
use crate::time::Utc;
use crate::{stop, store};
use gnn_core::spec::Value;
use polars::prelude::{Column, DataFrame};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is said where none is.
pub const NONE: &str = "no run is under way";

/// How often a run that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A run or a sweep under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// `run` or `sweep`.
    pub kind: &'static str,
    /// Name of its folder.
    pub run_id: String,
    /// Free name.
    pub name: String,
    /// `loading` until its ranks are started, then `running`, or `stopping` once it was asked to end; `unwatched`
    /// while the process that should notice its end is stopped.
    pub status: &'static str,
    /// Epochs finished; of a sweep settings.
    pub epoch: u32,
    /// Epochs asked for; of a sweep settings.
    pub epochs: u32,
    /// How long the rest takes at the present speed; unknown before the first epoch.
    pub eta: Option<Duration>,
    /// Since its start.
    pub elapsed: Duration,
    /// Number of ranks; 0 for a sweep.
    pub ranks: u32,
    /// Strategy; nothing for a sweep.
    pub strategy: String,
}

impl Job {
    /// What a manifest says of a run under way.
    fn of(manifest: &Manifest, stopping: bool) -> Job {
        let epochs = match manifest.spec.get("epochs") {
            Some(Value::Int(epochs)) => u32::try_from(*epochs).unwrap_or(u32::MAX),
            _ => 0,
        };
        let before = manifest.resumed.as_ref().map_or(0, |from| from.epochs);
        let (elapsed, epoch) = (elapsed(manifest), manifest.epochs_done.max(before));
        let (done, left) = (epoch - before, epochs.saturating_sub(epoch));
        let eta =
            (done > 0 && !stopping).then(|| elapsed.mul_f64(f64::from(left) / f64::from(done)));
        Job {
            kind: "run",
            run_id: manifest.run_id.clone(),
            name: manifest.name.clone(),
            status: match (stopping, manifest.is_loading()) {
                _ if manifest.unwatched().is_some() => "unwatched",
                (true, _) => "stopping",
                (false, true) => "loading",
                (false, false) => "running",
            },
            epoch,
            epochs,
            eta,
            elapsed,
            ranks: manifest.ranks,
            strategy: manifest.strategy.clone(),
        }
    }
}

impl From<&Standing> for Job {
    fn from(sweep: &Standing) -> Job {
        let (done, all) = (sweep.rows.len(), sweep.settings);
        let left = all.saturating_sub(done) as f64;
        let knows = done > 0 && !sweep.stopping;
        Job {
            kind: "sweep",
            run_id: sweep.id.clone(),
            name: String::new(),
            status: if sweep.stopping {
                "stopping"
            } else {
                "running"
            },
            epoch: done as u32,
            epochs: all as u32,
            eta: knows.then(|| sweep.elapsed.mul_f64(left / done as f64)),
            elapsed: sweep.elapsed,
            ranks: 0,
            strategy: String::new(),
        }
    }
}

/// Something to wait for, by its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A run.
    Run(PathBuf),
    /// A sweep.
    Sweep(PathBuf),
}

impl Target {
    /// What `name` names: a run, or a sweep by its id.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is neither.
    pub fn of(name: &str) -> Result<Target> {
        store::run_dir(name).map(Target::Run).or_else(|error| {
            let sweep = sweep::dir(name).ok().filter(|_| name != "latest");
            sweep.map(Target::Sweep).ok_or(error)
        })
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        match self {
            Target::Run(dir) | Target::Sweep(dir) => dir,
        }
    }

    /// Its id.
    pub fn id(&self) -> String {
        let name = self.dir().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// How long a run has been going on, or took.
pub fn elapsed(manifest: &Manifest) -> Duration {
    if manifest.status != Status::Running {
        return Duration::try_from_secs_f64(manifest.wall_ms / 1e3).unwrap_or_default();
    }
    let since = Utc::parse(&manifest.started).map(|started| Utc::now().ms - started.ms);
    Duration::from_millis(since.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0))
}

/// All runs of the store that are under way, whoever started them, the oldest first; then all sweeps.
///
/// # Errors
/// When the store cannot be listed.
pub fn jobs() -> Result<Vec<Job>> {
    let running = store::list()?;
    let running = running.iter().filter(|m| m.status == Status::Running);
    let job = |m: &Manifest| Job::of(m, stop::is_asked(&store::runs_dir().join(&m.run_id)));
    let sweeps = sweep::going();
    Ok(running
        .map(job)
        .chain(sweeps.iter().map(Job::from))
        .collect())
}

/// They as a frame:
///
/// | column | |
/// |---|---|
/// | `kind` | `run` or `sweep` |
/// | `run_id`, `name`, `status` | `loading`, `running` or `stopping` |
/// | `epoch`, `epochs` | finished, and asked for; of a sweep settings |
/// | `eta_s`, `elapsed_s` | seconds to go at the present speed, and since the start |
/// | `ranks`, `strategy` | |
///
/// # Errors
/// Those of Polars.
pub fn frame(jobs: &[Job]) -> Result<DataFrame> {
    let text = |name: &str, of: fn(&Job) -> &str| {
        Column::new(name.into(), jobs.iter().map(of).collect::<Vec<_>>())
    };
    let number = |name: &str, of: fn(&Job) -> u32| {
        Column::new(name.into(), jobs.iter().map(of).collect::<Vec<_>>())
    };
    let seconds = |name: &str, of: fn(&Job) -> Option<Duration>| {
        let tenths = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
        let all = jobs.iter().map(|job| of(job).map(tenths));
        Column::new(name.into(), all.collect::<Vec<Option<f64>>>())
    };
    let columns = vec![
        text("kind", |j| j.kind),
        text("run_id", |j| &j.run_id),
        text("name", |j| &j.name),
        text("status", |j| j.status),
        number("epoch", |j| j.epoch),
        number("epochs", |j| j.epochs),
        seconds("eta_s", |j| j.eta),
        seconds("elapsed_s", |j| Some(j.elapsed)),
        number("ranks", |j| j.ranks),
        text("strategy", |j| &j.strategy),
    ];
    DataFrame::new(jobs.len(), columns).map_err(Error::frame("jobs"))
}

/// What `names` name, or all that is under way where there is none; a sweep's runs are part of it.
///
/// # Errors
/// [`Error::Refused`] for a name that is neither run nor sweep; when the store cannot be listed.
pub fn named(names: &[String]) -> Result<Vec<Target>> {
    if !names.is_empty() {
        return names.iter().map(|name| Target::of(name)).collect();
    }
    let sweeps = sweep::going();
    let in_sweeps: Vec<&String> = sweeps.iter().flat_map(|sweep| &sweep.runs).collect();
    let jobs = jobs()?.into_iter();
    let apart = jobs.filter(|job| !in_sweeps.contains(&&job.run_id));
    let target = |job: Job| match job.kind {
        "sweep" => Target::Sweep(sweep::sweeps_dir().join(job.run_id)),
        _ => Target::Run(store::runs_dir().join(job.run_id)),
    };
    Ok(apart.map(target).collect())
}

/// Waits until a run has ended; its manifest then.
///
/// # Errors
/// When the run folder cannot be read.
pub fn wait(run_dir: &Path) -> Result<Manifest> {
    loop {
        let manifest = Manifest::read(run_dir)?;
        if manifest.status != Status::Running {
            return Ok(manifest);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Resumed;
    use crate::manifest::tests::sample;

    fn running(seconds: i64, done: u32) -> Manifest {
        let started = Utc {
            ms: Utc::now().ms - 1000 * seconds,
        };
        Manifest {
            status: Status::Running,
            started: started.rfc3339(),
            epochs_done: done,
            spec: [("epochs".to_owned(), Value::Int(30))].into(),
            ..sample("20260102-030405-abcd")
        }
    }

    #[test]
    fn the_rest_takes_as_long_an_epoch_as_what_is_done() {
        let job = Job::of(&running(100, 10), false);
        assert_eq!((job.epoch, job.epochs, job.status), (10, 30, "running"));
        let eta = job.eta.expect("ten epochs are done").as_secs_f64();
        assert!((199.0..215.0).contains(&eta), "{eta}");
        assert_eq!(Job::of(&running(100, 0), false).eta, None);
        let mut loading = running(1, 0);
        loading.launch.clear();
        assert_eq!(Job::of(&loading, false).status, "loading");
        let stopping = Job::of(&running(100, 10), true);
        assert_eq!((stopping.eta, stopping.status), (None, "stopping"));
    }

    #[test]
    fn epochs_of_the_run_that_it_goes_on_from_took_no_time() {
        let mut manifest = running(100, 20);
        manifest.resumed = Some(Resumed {
            run_id: "old".into(),
            epochs: 10,
        });
        let eta = Job::of(&manifest, false).eta.expect("ten epochs are done");
        assert!((99.0..110.0).contains(&eta.as_secs_f64()), "{eta:?}");
    }

    #[test]
    fn a_frame_has_a_row_a_job_and_may_be_empty() {
        let job = Job::of(&running(100, 0), false);
        let one = frame(&[job]).expect("a frame");
        assert_eq!((one.height(), one.width()), (1, 10));
        assert_eq!(one.column("eta_s").expect("a column").null_count(), 1);
        assert_eq!(frame(&[]).expect("a frame").width(), 10);
    }
}
