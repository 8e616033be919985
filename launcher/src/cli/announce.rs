//! A run in the background whose data takes a while to be read and cut: it is under way from the start.
//!
//! Whoever asked for it is kept for a moment, in which most mistakes show and are refused as ever. After
//! that the run has its folder, its process is on its own, and `jobs`, `wait` and the run's card say what
//! became of reading.

use super::background;
use crate::manifest::{Manifest, Status};
use crate::resolve::Resolved;
use crate::{Error, Result, stop, store, train};
use gnn_core::dataset::catalogue;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::Entry;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long whoever asked is kept.
const MOMENT: Duration = Duration::from_millis(120);
/// How often a request to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What came of resolving.
pub enum Told {
    /// In time, or by a process that somebody waits for.
    Now(Box<Resolved>),
    /// After the run had got its folder and this process had been let go.
    Later(Box<Resolved>, Box<Manifest>),
    /// Nothing, after that: the run is closed, and this is the exit status.
    Closed(i32),
}

/// Does `resolve` beside this thread, and lets go of this process when that takes longer than a moment.
/// Call it from the main thread, in a process that is detached.
///
/// # Errors
/// What `resolve` refuses in that moment; when the store cannot be written.
pub fn announced(
    id: &str,
    entry: &Entry,
    spec: RunSpec,
    resolve: impl FnOnce(RunSpec) -> Result<Resolved> + Send + 'static,
) -> Result<Told> {
    // What is wrong without reading anything is said at once, however slow the machine is.
    entry.check(&spec)?;
    if !exists(&spec.data) {
        return Ok(Told::Now(Box::new(resolve(spec)?)));
    }
    let (send, done) = channel();
    let asked = spec.clone();
    let beside = std::thread::Builder::new().name("resolve".into());
    let started = Instant::now();
    beside
        .spawn(move || {
            // Nobody hears it who has given up.
            let _ = send.send(resolve(asked).map(Box::new));
        })
        .map_err(Error::io(Path::new("thread")))?;
    match done.recv_timeout(MOMENT) {
        Ok(resolved) => return resolved.map(Told::Now),
        Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        Err(RecvTimeoutError::Timeout) => {}
    }
    let run_dir = store::create(id)?;
    let manifest = train::announced(id, entry, &spec);
    manifest.write(&run_dir)?;
    background::let_go(&run_dir.join("logs/supervisor.log"))?;
    Waiting {
        run_dir,
        manifest,
        started,
    }
    .wait(&done)
}

/// Whether there may be a data set of that name.
fn exists(data: &str) -> bool {
    let kind = |name: &str| name.split(':').next().unwrap_or_default().trim().to_owned();
    let mut known = catalogue().iter();
    known.any(|entry| kind(entry.name) == kind(data)) || Path::new(data.trim()).exists()
}

fn panicked() -> Error {
    Error::refused(
        "the data could not be read: the reader ended without a word",
        "`halobook train` without --bg shows what it said",
    )
}

/// A run that has its folder and not its data.
struct Waiting {
    run_dir: PathBuf,
    manifest: Manifest,
    started: Instant,
}

impl Waiting {
    fn wait(self, done: &Receiver<Result<Box<Resolved>>>) -> Result<Told> {
        loop {
            match done.recv_timeout(LOOK) {
                Ok(Ok(resolved)) => return Ok(Told::Later(resolved, Box::new(self.manifest))),
                Ok(Err(error)) => return self.failed(&error),
                Err(RecvTimeoutError::Disconnected) => return self.failed(&panicked()),
                Err(RecvTimeoutError::Timeout) if stop::is_asked(&self.run_dir) => {
                    let mut manifest = self.manifest.clone();
                    manifest.status = Status::Interrupted;
                    return self.close(manifest, 130);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn failed(&self, error: &Error) -> Result<Told> {
        // Also in the run's log, where errors are looked for.
        eprintln!("error: {error}\nhelp: {}", error.help());
        self.close(self.manifest.failed_to_start(error), 2)
    }

    fn close(&self, mut manifest: Manifest, code: i32) -> Result<Told> {
        manifest.wall_ms = self.started.elapsed().as_secs_f64() * 1e3;
        manifest.write(&self.run_dir)?;
        Ok(Told::Closed(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_data_are_known_without_reading_it() {
        let here = env!("CARGO_MANIFEST_DIR");
        for known in ["karate", "sbm:nodes=9", "like:flickr,scale=0.1", here] {
            assert!(exists(known), "{known}");
        }
        assert!(!exists("karat") && !exists("/nowhere/at/all"));
    }
}
