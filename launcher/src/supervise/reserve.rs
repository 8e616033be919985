//! Room on the disk that a run keeps for its own end: a full disk must not keep it from saying that it is full.

use crate::error::Error;
use crate::host;
use crate::manifest::RunError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Enough for a manifest, its copy while it is replaced, and the last events.
const BYTES: usize = 128 << 10;

/// What the system calls it, in English.
pub(super) const FULL: &str = "No space left on device";

/// The error of a run whose disk is full.
pub(super) const FULL_DISK: &str = "HaloDiskFull";

/// A file of nothing, until the room is needed.
pub(super) struct Reserve(PathBuf);

impl Reserve {
    /// Takes the room; where there is none, the run will notice soon enough.
    pub(super) fn take(run_dir: &Path) -> Reserve {
        let path = run_dir.join("reserve");
        // Not of zeros, for which some file systems take no room.
        let bytes: Vec<u8> = (0..BYTES).map(|k| ((k * 167) >> 3) as u8 | 1).collect();
        let _ = std::fs::write(&path, bytes);
        Reserve(path)
    }

    /// The error of a run that failed, which is the disk's where that is full: then a rank could not even say
    /// what it had met.
    pub(super) fn explain(&self, error: RunError) -> RunError {
        let more = self.0.with_extension("more");
        let tried = std::fs::write(&more, [1; 16 << 10]);
        let _ = std::fs::remove_file(&more);
        if !tried.is_err_and(|problem| problem.kind() == ErrorKind::StorageFull) {
            return error;
        }
        let message = match error.message {
            said if said.contains(FULL) => said,
            said => format!("{said}: {FULL}"),
        };
        RunError {
            name: FULL_DISK.into(),
            message,
            ..error
        }
    }

    /// Gives the room to what is written next.
    pub(super) fn give(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give();
    }
}

/// The error of a run whose folder could not be written.
pub(super) fn unwritten(problem: &Error) -> RunError {
    let message = problem.to_string();
    let name = if message.contains(FULL) {
        FULL_DISK
    } else {
        "HaloRecordError"
    };
    RunError {
        name: name.into(),
        host: host::name(),
        message,
        ..RunError::default()
    }
}
