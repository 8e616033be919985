//! Frames as Parquet files, each with the hash of its bytes beside it: a reader of damaged Parquet may panic, or see
//! other numbers.

use crate::error::{Error, Result};
use polars::prelude::{DataFrame, ParquetReader, ParquetWriter, SerReader};
use sha2::{Digest, Sha256};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a writer may take between a frame and its hash.
const BETWEEN: Duration = Duration::from_millis(50);

/// Where the hash of a frame's file lies.
fn sum_of(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `made` to `path`, so that readers see the old or the new one, and its hash beside it.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, frame: &str, made: &mut DataFrame) -> Result<()> {
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .finish(made)
        .map_err(Error::frame(frame))?;
    let place = |path: &Path, bytes: &[u8]| {
        let temporary = path.with_extension("tmp");
        let written = std::fs::write(&temporary, bytes).map_err(Error::io(&temporary));
        let placed =
            written.and_then(|()| std::fs::rename(&temporary, path).map_err(Error::io(path)));
        placed.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
    };
    place(path, &bytes)?;
    place(&sum_of(path), hash(&bytes).as_bytes())
}

/// Whether a frame's file has its hash beside it; those of older versions have none.
pub fn is_hashed(path: &Path) -> bool {
    sum_of(path).is_file()
}

/// Reads the frame `frame` from `path`.
///
/// # Errors
/// When it cannot be read, or is not what was written.
pub fn read(path: &Path, frame: &str) -> Result<DataFrame> {
    let bytes = match sound(path, frame) {
        Err(Error::Refused { .. }) => {
            // It may just be written anew.
            std::thread::sleep(BETWEEN);
            sound(path, frame)
        }
        found => found,
    }?;
    let read = || ParquetReader::new(Cursor::new(bytes)).finish();
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(Error::frame(frame)),
        Err(_) => Err(damaged(path, frame)),
    }
}

/// The bytes of a file, if they are those that were written. Frames of older versions have no hash.
fn sound(path: &Path, frame: &str) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    match std::fs::read_to_string(sum_of(path)) {
        Ok(sum) if sum.trim() != hash(&bytes) => Err(damaged(path, frame)),
        _ => Ok(bytes),
    }
}

fn damaged(path: &Path, frame: &str) -> Error {
    Error::refused(
        format!("frame {frame}: {} is damaged", path.display()),
        "delete the file, and the frame is made anew from the run's rows, or the run with `halobook rm`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    fn frame() -> DataFrame {
        let values: Vec<f64> = (0..4000).map(|k| f64::from(k).sin()).collect();
        df!("epoch" => (0..4000_u32).collect::<Vec<_>>(), "loss" => values)
            .expect("columns have equal lengths")
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("epochs.parquet");
        write(&path, "epochs", &mut frame()).expect("written");
        assert_eq!(read(&path, "epochs").expect("whole"), frame());
        let whole = std::fs::read(&path).expect("there");
        for k in 0..40 {
            let mut bytes = whole.clone();
            let at = (k * 7919) % bytes.len();
            bytes[at] ^= 1 << (k % 8);
            std::fs::write(&path, &bytes).expect("written");
            let error = read(&path, "epochs").expect_err("damaged").to_string();
            assert!(error.contains("is damaged"), "{k}: {error}");
        }
        std::fs::write(&path, &whole[..500]).expect("written");
        assert!(read(&path, "epochs").is_err());
    }

    /// An older version's frame has no hash; what its reader makes of damage is an error all the same.
    #[test]
    fn damage_without_a_hash_is_no_panic() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("comm.parquet");
        write(&path, "comm", &mut frame()).expect("written");
        std::fs::remove_file(sum_of(&path)).expect("there");
        let whole = std::fs::read(&path).expect("there");
        for seed in 0..40_usize {
            let mut bytes = whole.clone();
            for flip in 0..8_usize {
                let at = (seed * 104_729 + flip * 15_485_863) % bytes.len();
                bytes[at] ^= 1 << (flip % 8);
            }
            std::fs::write(&path, &bytes).expect("written");
            // Whatever it is, it is said and not thrown.
            let _ = read(&path, "comm");
        }
    }
}
