//! Runs that are under way: `%jobs`, `%wait`, `%attach` and their twins on the command line.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
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

/// A run under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Name of its folder.
    pub run_id: String,
    /// Free name.
    pub name: String,
    /// `running`, or `stopping` once it was asked to end.
    pub status: &'static str,
    /// Epochs finished.
    pub epoch: u32,
    /// Epochs asked for.
    pub epochs: u32,
    /// How long the rest takes at the present speed; unknown before the first epoch.
    pub eta: Option<Duration>,
    /// Since its start.
    pub elapsed: Duration,
    /// Number of ranks.
    pub ranks: u32,
    /// Strategy.
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
            run_id: manifest.run_id.clone(),
            name: manifest.name.clone(),
            status: if stopping { "stopping" } else { "running" },
            epoch,
            epochs,
            eta,
            elapsed,
            ranks: manifest.ranks,
            strategy: manifest.strategy.clone(),
        }
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

/// All runs of the store that are under way, whoever started them, the oldest first.
///
/// # Errors
/// When the store cannot be listed.
pub fn jobs() -> Result<Vec<Job>> {
    let running = store::list()?;
    let running = running.iter().filter(|m| m.status == Status::Running);
    let job = |m: &Manifest| Job::of(m, stop::is_asked(&store::runs_dir().join(&m.run_id)));
    Ok(running.map(job).collect())
}

/// They as a frame:
///
/// | column | |
/// |---|---|
/// | `run_id`, `name`, `status` | `running` or `stopping` |
/// | `epoch`, `epochs` | finished, and asked for |
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

/// Folders of the runs that `names` name, or of all that are under way where there is none.
///
/// # Errors
/// [`Error::Refused`] for a name that is no run; when the store cannot be listed.
pub fn named(names: &[String]) -> Result<Vec<PathBuf>> {
    if !names.is_empty() {
        return names.iter().map(|name| store::run_dir(name)).collect();
    }
    let runs = jobs()?.into_iter();
    Ok(runs.map(|job| store::runs_dir().join(job.run_id)).collect())
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
        assert_eq!((one.height(), one.width()), (1, 9));
        assert_eq!(one.column("eta_s").expect("a column").null_count(), 1);
        assert_eq!(frame(&[]).expect("a frame").width(), 9);
    }
}
