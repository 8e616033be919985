//! Executing a notebook with the kernel that was just installed.

use crate::compile::clean;
use crate::flow::{Step, Stop};
use crate::places::Places;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No cell of ours needs longer; a hanging one is named after this many seconds.
const SECONDS_PER_CELL: &str = "600";

/// Executes `source` from clean into `out`: notebook, HTML and plots. Runs go to the store `home`
/// when given, else to the user's own.
///
/// # Errors
/// When a cell fails or takes too long; its traceback has been printed then.
pub fn execute(
    step: &mut Step,
    places: &Places,
    source: &Path,
    out: &Path,
    home: Option<&Path>,
) -> Result<(), Stop> {
    step.run(&mut command(places, source, out, home))
        .map(|_| ())
}

/// A notebook to execute, and how.
pub struct Job {
    /// The notebook.
    pub source: PathBuf,
    /// Where its runs go.
    pub home: PathBuf,
    /// Whether its runs are short ones on small graphs, and its claims fail nothing.
    pub draft: bool,
}

/// Executes notebooks two at a time, since most of their time one core compiles cells. One outcome each.
pub fn beside(step: &Step, places: &Places, jobs: &[Job], out: &Path) -> Vec<Result<(), Stop>> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut outcomes = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut python = command(places, &job.source, out, Some(&job.home));
            if job.draft {
                python.env("HALOBOOK_DRAFT", "1");
            }
            outcomes.push(step.beside(&name(&job.source), &mut python));
        }
        outcomes
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(lane);
        let mut outcomes = lane();
        outcomes.extend(other.join().expect("a lane reports what fails"));
        outcomes
    })
}

/// A notebook's name with its ending.
pub fn name(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn command(places: &Places, source: &Path, out: &Path, home: Option<&Path>) -> Command {
    let mut python = python(places);
    if let Some(home) = home {
        python.env("HALOBOOK_HOME", home);
    }
    python
        .arg(places.root.join("launcher/setup/src/notebook.py"))
        .arg(source)
        .arg(out)
        .arg(SECONDS_PER_CELL);
    python
}

/// The environment's Python, which finds the kernel that is installed there, whatever else the user has.
pub fn python(places: &Places) -> Command {
    let mut python = Command::new(places.venv().join("bin/python"));
    clean(&mut python);
    python
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .env("PYTHONUNBUFFERED", "1");
    python
}

/// The project's notebooks in order, those in folders included.
pub fn all(places: &Places) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let (folders, mut found): (Vec<PathBuf>, Vec<PathBuf>) = list(&places.root.join("notebooks"))
        .into_iter()
        .partition(|path| path.is_dir());
    found.extend(folders.iter().flat_map(|folder| list(folder)));
    found.retain(|path| path.extension().is_some_and(|end| end == "ipynb"));
    found.sort();
    found
}
