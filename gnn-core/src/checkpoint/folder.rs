//! The checkpoints of a run folder.

use super::file::{self, Header, SHARED};
use super::{Snapshot, State};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// How many are kept.
const KEPT: usize = 2;

/// The checkpoints of a run.
pub struct Checkpoints {
    folder: PathBuf,
    digest: u64,
}

/// A whole checkpoint that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Epochs that are finished.
    pub epochs: u64,
    /// [`super::digest()`] of its run.
    pub digest: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// Why later ones are not taken.
    pub passed_over: Vec<String>,
}

/// The name under which rank 0 says that a rank has a state of its own.
fn own(rank: usize) -> String {
    format!("own/{rank}")
}

fn of_rank(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}

/// The folder of a run's checkpoint after so many epochs.
fn of_epoch(checkpoints: &Path, epochs: u64) -> PathBuf {
    checkpoints.join(format!("epoch-{epochs:08}"))
}

/// Checkpoints, whole or not, oldest first.
fn list(checkpoints: &Path) -> Vec<(u64, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(checkpoints) else {
        return Vec::new();
    };
    let named = |path: PathBuf| {
        let epochs = path.file_name()?.to_str()?.strip_prefix("epoch-")?;
        Some((epochs.parse().ok()?, path))
    };
    let mut all: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| named(entry.ok()?.path()))
        .collect();
    all.sort();
    all
}

/// The last whole checkpoint of a run, all its files read and found undamaged.
pub fn find(run_folder: &Path) -> Option<Found> {
    let mut passed_over = Vec::new();
    for (epochs, folder) in list(&run_folder.join("checkpoints")).into_iter().rev() {
        if !folder.join("shared").exists() {
            // The run ended while it was written.
            continue;
        }
        match whole(&folder, epochs) {
            Ok(digest) => {
                return Some(Found {
                    epochs,
                    digest,
                    folder,
                    passed_over,
                });
            }
            Err(e) => passed_over.push(e.to_string()),
        }
    }
    None
}

/// Reads every file of a checkpoint; gives the digest of its run.
fn whole(folder: &Path, epochs: u64) -> Result<u64> {
    let (header, shared) = read(&folder.join("shared"), SHARED, epochs, None)?;
    let ranks = shared.numbers.keys();
    let ranks = ranks.filter_map(|name| name.strip_prefix("own/")?.parse::<u32>().ok());
    for rank in ranks {
        let path = of_rank(folder, rank as usize);
        read(&path, rank, epochs, Some(header.digest))?;
    }
    Ok(header.digest)
}

/// Reads a file that must be this rank's, of this epoch and of this run.
fn read(path: &Path, rank: u32, epochs: u64, digest: Option<u64>) -> Result<(Header, State)> {
    let (header, state) = file::read(path)?;
    let wanted = Header {
        rank,
        epochs,
        digest: digest.unwrap_or(header.digest),
    };
    if header == wanted {
        return Ok((header, state));
    }
    Err(Error::Data {
        file: path.display().to_string(),
        place: "header".into(),
        reason: format!("expected {wanted:?}, got {header:?}"),
        help: "this checkpoint is of another run; start the run anew".into(),
    })
}

impl Checkpoints {
    /// Those of the run in `run_folder`, which has this [`super::digest()`].
    pub fn of(run_folder: &Path, digest: u64) -> Checkpoints {
        Checkpoints {
            folder: run_folder.join("checkpoints"),
            digest,
        }
    }

    fn header(&self, rank: u32, epochs: u64) -> Header {
        let digest = self.digest;
        Header {
            rank,
            epochs,
            digest,
        }
    }

    /// Writes what this rank knows after so many epochs; when it returns on rank 0, the checkpoint is
    /// whole. Collective.
    ///
    /// # Errors
    /// [`Error::Io`]; whatever the communicator meets.
    pub fn write(&self, cx: &mut Ctx, epochs: u64, snapshot: Snapshot) -> Result<()> {
        let Snapshot {
            mut shared,
            own: mine,
        } = snapshot;
        let folder = of_epoch(&self.folder, epochs);
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        file::sync_folder(&folder).map_err(|e| Error::io(&self.folder, e))?;
        if !mine.is_empty() {
            let header = self.header(cx.rank() as u32, epochs);
            file::write(&of_rank(&folder, cx.rank()), header, &mine)?;
        }
        let all = cx.comm.agree(&[f64::from(u8::from(!mine.is_empty()))])?;
        if cx.rank() > 0 {
            return Ok(());
        }
        for rank in (0..all.len()).filter(|&r| all[r][0] > 0.0) {
            shared.put_number(own(rank), 1);
        }
        file::write(&folder.join("shared"), self.header(SHARED, epochs), &shared)?;
        self.forget_old();
        Ok(())
    }

    /// What a rank knew after so many epochs.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Data`] when it is not there, is damaged or of another run.
    pub fn read(&self, rank: usize, epochs: u64) -> Result<Snapshot> {
        let folder = of_epoch(&self.folder, epochs);
        let digest = Some(self.digest);
        let (_, shared) = read(&folder.join("shared"), SHARED, epochs, digest)?;
        let mine = if shared.numbers.contains_key(&own(rank)) {
            read(&of_rank(&folder, rank), rank as u32, epochs, digest)?.1
        } else {
            State::default()
        };
        Ok(Snapshot { shared, own: mine })
    }

    fn forget_old(&self) {
        let all = list(&self.folder);
        for (_, folder) in &all[..all.len().saturating_sub(KEPT)] {
            // What cannot be removed takes room and harms nobody; `shared` goes first, so that what
            // is left is not taken for a whole one.
            let _ = std::fs::remove_file(folder.join("shared"));
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
