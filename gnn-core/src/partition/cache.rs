//! Cuts that were made before, by the content of what was cut.
//!
//! A cut lies in `<folder>/<32 hex digits>.cut`, named by a digest of everything that decides it:
//! the graph's edges, masks and types, the method with its knobs, parts, seed and the version of
//! this crate. The file holds a header, four bytes a vertex and a checksum.
//!
//! Safe under any number of processes: a file appears by rename only when it is whole, so a killed
//! writer leaves at most a temporary file (removed a day later); length, key and checksum are
//! verified at every read, and a file that fails is made again. Who makes a cut holds an advisory
//! lock, which the system releases when a process dies; others wait for it and then read. A cache
//! that cannot be used (full disk, no rights) costs time, never the run.
//!
//! # Not done
//! Nothing is ever removed but leftovers: delete the folder to be rid of old cuts.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::partition::digest::Digest;

/// Begins every file; the number is the layout's version.
const MAGIC: [u8; 8] = *b"HBCUT01\n";
const HEADER: usize = 56;
const CHECKSUM: usize = 16;
/// Locks are files too, this many for all cuts.
const LOCKS: u8 = 64;
/// After this time a temporary file has no writer any more.
const LEFTOVER: Duration = Duration::from_secs(24 * 3600);

/// A cut as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// Part of each vertex: `[n]`.
    pub owner: Vec<u32>,
    /// Milliseconds that it took.
    pub ms: f64,
    /// Memory that it took.
    pub peak_bytes: u64,
}

/// A folder of cuts.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in a folder, which is made when the first cut is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache {
            folder: folder.into(),
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: Digest) -> PathBuf {
        self.folder.join(format!("{}.cut", key.hex()))
    }

    /// The cut of that name, if there is a sound one for `n` vertices and `parts` parts.
    pub(super) fn get(&self, key: Digest, n: usize, parts: usize) -> Option<Kept> {
        decode(&fs::read(self.path(key)).ok()?, key, n, parts)
    }

    /// Waits until nobody else makes the cut of that name; the guard is the right to make it.
    pub(super) fn lock(&self, key: Digest) -> std::io::Result<File> {
        let locks = self.folder.join("locks");
        fs::create_dir_all(&locks)?;
        let name = format!("{:02x}", key.to_bytes()[0] % LOCKS);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(locks.join(name))?;
        file.lock()?;
        Ok(file)
    }

    /// Keeps a cut.
    pub(super) fn put(&self, key: Digest, parts: usize, kept: &Kept) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.sweep();
        let temporary = self
            .folder
            .join(format!("{}.{}.tmp", key.hex(), std::process::id()));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&encode(key, parts, kept))?;
            file.sync_all()?;
            fs::rename(&temporary, self.path(key))
        };
        write().inspect_err(|_| {
            // The error to report is the write's.
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Removes what killed writers left.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let is_temporary = entry.path().extension().is_some_and(|e| e == "tmp");
            let age = entry.metadata().and_then(|m| m.modified()).ok();
            let age = age.and_then(|t| SystemTime::now().duration_since(t).ok());
            if is_temporary && age.is_some_and(|a| a > LEFTOVER) {
                // Somebody else may have removed it just now.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn encode(key: Digest, parts: usize, kept: &Kept) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 4 * kept.owner.len() + CHECKSUM);
    bytes.extend(MAGIC);
    bytes.extend(key.to_bytes());
    bytes.extend((kept.owner.len() as u64).to_le_bytes());
    bytes.extend((parts as u64).to_le_bytes());
    bytes.extend(kept.ms.to_le_bytes());
    bytes.extend(kept.peak_bytes.to_le_bytes());
    kept.owner
        .iter()
        .for_each(|p| bytes.extend(p.to_le_bytes()));
    let checksum = Digest::new().bytes(&bytes).to_bytes();
    bytes.extend(checksum);
    bytes
}

fn decode(bytes: &[u8], key: Digest, n: usize, parts: usize) -> Option<Kept> {
    if bytes.len() != HEADER + 4 * n + CHECKSUM {
        return None;
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    let word = |at: usize| -> [u8; 8] { body[at..at + 8].try_into().expect("eight bytes") };
    let sound = body[..8] == MAGIC
        && body[8..24] == key.to_bytes()
        && u64::from_le_bytes(word(24)) == n as u64
        && u64::from_le_bytes(word(32)) == parts as u64
        && Digest::new().bytes(body).to_bytes() == *checksum;
    let owner: Vec<u32> = body[HEADER..]
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().expect("chunks of four")))
        .collect();
    (sound && owner.iter().all(|&p| (p as usize) < parts)).then(|| Kept {
        owner,
        ms: f64::from_le_bytes(word(40)),
        peak_bytes: u64::from_le_bytes(word(48)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damage_to_a_file_is_seen() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::new(dir.path().join("cuts"));
        let key = Digest::new().word(7);
        let kept = Kept {
            owner: (0..50).map(|v| v % 3).collect(),
            ms: 1.5,
            peak_bytes: 99,
        };
        assert_eq!(cache.get(key, 50, 3), None, "no folder yet");
        cache.put(key, 3, &kept).expect("writes");
        assert_eq!(cache.get(key, 50, 3), Some(kept.clone()));
        assert_eq!(cache.get(key, 50, 2), None, "other parts");
        assert_eq!(cache.get(Digest::new().word(8), 50, 3), None, "another key");
        let whole = fs::read(cache.path(key)).expect("reads");
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at] ^= 0x10;
            fs::write(cache.path(key), &torn).expect("writes");
            assert_eq!(cache.get(key, 50, 3), None, "a bit of byte {at}");
            fs::write(cache.path(key), &whole[..at]).expect("writes");
            assert_eq!(cache.get(key, 50, 3), None, "cut off at {at}");
        }
        cache.put(key, 3, &kept).expect("writes again");
        assert_eq!(cache.get(key, 50, 3), Some(kept));
    }

    #[test]
    fn leftovers_of_killed_writers_are_removed_and_others_are_not() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::new(dir.path());
        let (old, new) = (dir.path().join("a.1.tmp"), dir.path().join("b.2.tmp"));
        for path in [&old, &new] {
            fs::write(path, "half").expect("writes");
        }
        let past = SystemTime::now() - 2 * LEFTOVER;
        let file = File::options().write(true).open(&old).expect("opens");
        file.set_modified(past).expect("sets its time");
        let kept = Kept {
            owner: vec![0],
            ms: 0.0,
            peak_bytes: 0,
        };
        cache.put(Digest::new(), 1, &kept).expect("writes");
        assert!(!old.exists() && new.exists());
    }
}
