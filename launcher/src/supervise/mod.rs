//! Watching a run from its launch to its end.
//!
//! One loop reads status pages, rows, the stop file and the starter's fate; whatever ends the loop
//! ends the whole run, and only then are frames made and the manifest closed. Nothing here is told
//! anything: everything is read from the run folder, so whatever a killed rank left is enough.

mod events;
mod failure;
mod progress;
mod reserve;
mod stall;
mod watch;

use crate::error::Result;
use crate::launch::Scratch;
use crate::manifest::{Manifest, RunError, Status};
use crate::resolve::{Resolved, Starter};
use crate::{frames, host, stop, sys};
use events::Events;
use failure::Evidence;
use progress::Progress;
use reserve::{FULL_DISK, Reserve, unwritten};
use serde_json::json;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use watch::Watch;

/// How often everything is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long the starter may take to say which rank failed and why, before it is ended.
const VERDICT: Duration = Duration::from_millis(900);
/// How long ranks may take to finish their epoch once they are asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How often the manifest is rewritten while ranks are at work.
const MANIFEST: Duration = Duration::from_millis(250);

/// What ended the loop.
enum Ending {
    /// The started process ended by itself.
    Exited(ExitStatus),
    /// A rank failed and the starter has not ended yet.
    Failed,
    /// No progress for so long.
    Stalled(Duration),
    /// Longer than the request allows.
    TimedOut,
    /// Asked to end at once, or too slow to end when asked.
    Killed,
}

/// A run under supervision.
pub(crate) struct Supervisor<'a> {
    run_dir: &'a Path,
    resolved: &'a Resolved,
    manifest: Manifest,
    child: Child,
    /// Removed when the run has ended, after its processes.
    _scratch: Scratch,
    start: Instant,
    events: Events,
    watch: Watch,
    progress: Progress,
    stopping: Option<Instant>,
    oom_before: u64,
    reserve: Reserve,
}

impl<'a> Supervisor<'a> {
    /// Takes over a child that was just started; `start` is the run's time zero and `oom_before`
    /// the count of [`host::oom_kills`] then.
    pub fn new(
        run_dir: &'a Path,
        resolved: &'a Resolved,
        manifest: Manifest,
        (child, scratch): (Child, Scratch),
        start: Instant,
        oom_before: u64,
    ) -> Result<Supervisor<'a>> {
        let spec = &resolved.plan.spec;
        let mut events = Events::create(run_dir, start)?;
        events.put(
            "launched",
            json!({
                "ranks": spec.ranks,
                "launch": resolved.starter.label(),
                "strategy": spec.strategy,
                "data": resolved.data_name,
                "model": spec.model.name(),
                "epochs": spec.epochs,
            }),
        )?;
        for text in &manifest.notes {
            events.put("note", json!({ "text": text }))?;
        }
        let local = resolved.starter != Starter::Slurm;
        let starter = (!resolved.plan.in_process).then(|| child.id());
        Ok(Supervisor {
            run_dir,
            resolved,
            manifest,
            child,
            _scratch: scratch,
            start,
            events,
            watch: Watch::new(run_dir, spec.ranks, local, starter),
            progress: Progress::new(run_dir, spec.epochs),
            stopping: None,
            oom_before,
            reserve: Reserve::take(run_dir),
        })
    }

    /// Watches the run to its end and closes it.
    ///
    /// # Errors
    /// When the run folder cannot be written even with what was kept free for that. The ranks have been ended
    /// all the same.
    pub fn run(mut self) -> Result<Manifest> {
        let ending = self.watch_ranks();
        // The verdict is read before anything is ended, so that it never names our own victims.
        let error = match &ending {
            Ok(Ending::Stalled(idle)) => Some(stall::explain(&self.watch, *idle)),
            Ok(Ending::Exited(status)) => self.explain_exit(*status),
            Ok(Ending::Failed) => Some(self.evidence(None).explain()),
            Ok(Ending::TimedOut) => Some(self.explain_timeout()),
            Ok(Ending::Killed) | Err(_) => None,
        };
        stop::end_processes(self.run_dir, &mut self.child);
        self.manifest.wall_ms = self.start.elapsed().as_secs_f64() * 1e3;
        let error = error.map(|error| self.reserve.explain(error));
        self.reserve.give();
        let (ending, error) = match ending {
            Ok(ending) => (ending, error),
            Err(problem) => (Ending::Failed, Some(unwritten(&problem))),
        };
        match self.follow() {
            Err(problem) if error.is_none() => self.close(&ending, Some(unwritten(&problem))),
            _ => self.close(&ending, error),
        }
    }

    fn watch_ranks(&mut self) -> Result<Ending> {
        let spec = &self.resolved.plan.spec;
        let (stall, timeout) = (seconds(spec.stall), seconds(spec.timeout));
        let mut failing: Option<Instant> = None;
        let mut written = Instant::now();
        loop {
            self.follow()?;
            if let Some(status) = self
                .child
                .try_wait()
                .map_err(crate::Error::io(self.run_dir))?
            {
                return Ok(Ending::Exited(status));
            }
            if self.must_end_now()? {
                return Ok(Ending::Killed);
            }
            if failing.is_none() && self.watch.has_failure() {
                failing = Some(Instant::now());
            }
            if failing.is_some_and(|since| since.elapsed() > VERDICT) {
                return Ok(Ending::Failed);
            }
            let idle = self.watch.idle();
            if idle > stall && failing.is_none() {
                return Ok(Ending::Stalled(idle));
            }
            if timeout > Duration::ZERO && self.start.elapsed() > timeout {
                return Ok(Ending::TimedOut);
            }
            if written.elapsed() > MANIFEST && self.manifest.epochs_done != self.progress.done {
                self.manifest.epochs_done = self.progress.done;
                self.manifest.wall_ms = self.start.elapsed().as_secs_f64() * 1e3;
                self.manifest.write(self.run_dir)?;
                written = Instant::now();
            }
            std::thread::sleep(POLL);
        }
    }

    /// Turns what is new in the run folder into events.
    fn follow(&mut self) -> Result<()> {
        for (rank, pid) in self.watch.poll() {
            let host = host::name();
            self.events
                .put("rank_up", json!({ "rank": rank, "pid": pid, "host": host }))?;
        }
        for epoch in self.progress.poll() {
            self.events.put("epoch", epoch)?;
        }
        Ok(())
    }

    /// Passes on a wish to stop; true when the ranks must be ended at once.
    fn must_end_now(&mut self) -> Result<bool> {
        let signals = sys::interrupts();
        if signals > 0 && !stop::is_asked(self.run_dir) {
            stop::ask(self.run_dir, false)?;
        }
        if self.stopping.is_none() && stop::is_asked(self.run_dir) {
            let by = if signals > 0 { "signal" } else { "stop" };
            self.events.put("stopping", json!({ "by": by }))?;
            self.stopping = Some(Instant::now());
        }
        let overdue = self.stopping.is_some_and(|since| since.elapsed() > GRACE);
        Ok(signals > 1 || overdue || stop::is_asked_now(self.run_dir))
    }

    fn evidence(&self, child: Option<ExitStatus>) -> Evidence<'_> {
        Evidence {
            run_dir: self.run_dir,
            watch: &self.watch,
            child,
            in_process: self.resolved.plan.in_process,
            out_of_memory: host::oom_kills() > self.oom_before,
        }
    }

    fn explain_exit(&mut self, status: ExitStatus) -> Option<RunError> {
        // Status pages and errors written since the last look.
        self.watch.poll();
        let failed = !status.success() || self.watch.has_failure();
        failed.then(|| self.evidence(Some(status)).explain())
    }

    fn explain_timeout(&self) -> RunError {
        RunError {
            name: "HaloTimeout".into(),
            host: host::name(),
            message: format!(
                "the run took longer than its timeout of {} s; {} of {} epochs are finished",
                self.resolved.plan.spec.timeout, self.progress.done, self.resolved.plan.spec.epochs
            ),
            epoch: Some(u64::from(self.progress.done)),
            ..RunError::default()
        }
    }

    /// Makes the frames, closes the manifest, and says so.
    fn close(mut self, ending: &Ending, error: Option<RunError>) -> Result<Manifest> {
        let (mut error, told) = (error, self.manifest.notes.len());
        if error.as_ref().is_some_and(|error| error.name == FULL_DISK) {
            // First of all, while there is room for it. Other ends are said once, when all is known.
            self.manifest.status = Status::Failed;
            self.manifest.error.clone_from(&error);
            self.manifest.write(self.run_dir)?;
            self.manifest.error = None;
        }
        if let Err(problem) = frames::write_all(self.run_dir, &mut self.manifest) {
            self.manifest
                .note(format!("frames were not written: {problem}"));
            error.get_or_insert_with(|| unwritten(&problem));
            // They are made from the rows whenever they are asked for.
            frames::remove(self.run_dir);
        }
        for text in &self.manifest.notes[told..] {
            self.events.put("note", json!({ "text": text }))?;
        }
        // What the rows say of the run's end.
        error = error.or_else(|| self.manifest.error.take());
        let all_done = self.manifest.epochs_done as usize == self.resolved.plan.spec.epochs;
        self.manifest.status = match ending {
            Ending::Killed => Status::Interrupted,
            Ending::Stalled(_) => Status::Stalled,
            _ if error.is_some() => Status::Failed,
            _ if all_done || self.manifest.stopped_early => Status::Ok,
            // Quick ranks see a request and are gone before the loop above has seen it.
            _ if stop::is_asked(self.run_dir) => Status::Interrupted,
            _ => {
                error = Some(RunError {
                    name: "HaloRankFailed".into(),
                    host: host::name(),
                    message: format!(
                        "the ranks ended after {} of {} epochs without saying why",
                        self.manifest.epochs_done, self.resolved.plan.spec.epochs
                    ),
                    ..RunError::default()
                });
                Status::Failed
            }
        };
        self.manifest.error = error;
        // The frame of the run itself shows how it ended.
        if let Err(problem) = frames::write_run(self.run_dir, &self.manifest) {
            self.manifest
                .note(format!("frame runs was not written: {problem}"));
        }
        self.manifest.write(self.run_dir)?;
        if let Some(error) = &self.manifest.error {
            self.events.put("failed", json!({ "error": error }))?;
        }
        self.events.put(
            "finished",
            json!({
                "status": self.manifest.status,
                "epochs_done": self.manifest.epochs_done,
                "stopped_early": self.manifest.stopped_early,
                "wall_ms": self.manifest.wall_ms,
                "final": self.manifest.result,
            }),
        )?;
        Ok(self.manifest)
    }
}

/// A number of seconds as a duration; what is too long for one is forever.
fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}
