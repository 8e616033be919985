//! Runs that are to be kept, and runs that are not: `%pin`, `%rm` and their twins.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, Status};
use std::path::Path;

/// Beside a run's manifest: it is not to be deleted.
const PINNED: &str = "pinned";

/// Whether a run is pinned.
pub fn is_pinned(run_dir: &Path) -> bool {
    run_dir.join(PINNED).exists()
}

/// Pins a run, or lets it be deleted again.
///
/// # Errors
/// When the run folder cannot be written.
pub fn pin(run_dir: &Path, pinned: bool) -> Result<()> {
    let path = run_dir.join(PINNED);
    match (pinned, path.exists()) {
        (true, _) => std::fs::write(&path, ""),
        (false, true) => std::fs::remove_file(&path),
        (false, false) => Ok(()),
    }
    .map_err(Error::io(&path))
}

/// Deletes a run with its frames, logs and checkpoints.
///
/// # Errors
/// [`Error::Refused`] for one that is pinned or still runs; when the folder cannot be deleted.
pub fn remove(run_dir: &Path) -> Result<()> {
    let manifest = Manifest::read(run_dir)?;
    let id = &manifest.run_id;
    if is_pinned(run_dir) {
        return Err(Error::refused(
            format!("run {id} is pinned"),
            format!("halobook pin {id} --off, or %pin {id} --off, lets it be deleted"),
        ));
    }
    if manifest.status == Status::Running {
        return Err(Error::refused(
            format!("run {id} is running"),
            format!("halobook stop {id}, or %stop {id}, ends it"),
        ));
    }
    std::fs::remove_dir_all(run_dir).map_err(Error::io(run_dir))
}
