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
//! Whoever keeps a cut removes those that nobody used for [`UNUSED`] and, beyond [`MOST_BYTES`] of
//! cuts, those that were used longest ago. A cut that is removed while it is read is read to its
//! end; one that is removed before is made again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::partition::Need;
use crate::partition::digest::Digest;

/// Begins every file; the number is the layout's version.
const MAGIC: [u8; 8] = *b"HBCUT02\n";
const HEADER: usize = 72;
const CHECKSUM: usize = 16;
/// Locks are files too, this many for all cuts.
const LOCKS: u8 = 64;
/// After this time a temporary file has no writer any more.
const LEFTOVER: Duration = Duration::from_secs(24 * 3600);
/// Bytes of cuts that are kept.
const MOST_BYTES: u64 = 4 << 30;
/// After this time a cut that nobody used is removed.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 3600);

/// A cut as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeptCut {
    /// Part of each vertex, that of the second level within it as the lower digit: `[n]`.
    pub labels: Vec<u32>,
    /// Milliseconds that it took.
    pub ms: f64,
    /// Memory that it took.
    pub peak_bytes: u64,
    /// What was foreseen.
    pub need: Need,
}

/// A folder of cuts.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    most_bytes: u64,
}

impl Cache {
    /// The cache in a folder, which is made when the first cut is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache {
            folder: folder.into(),
            most_bytes: MOST_BYTES,
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
    pub(super) fn get(&self, key: Digest, n: usize, parts: usize) -> Option<KeptCut> {
        let path = self.path(key);
        let kept = decode(&fs::read(&path).ok()?, key, n, parts)?;
        // Its time says when it was used last; where it cannot be set, it counts as unused.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(kept)
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
    pub(super) fn put(&self, key: Digest, parts: usize, kept: &KeptCut) -> std::io::Result<()> {
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
        })?;
        self.bound(&self.path(key));
        Ok(())
    }

    /// Files of an ending: how long ago they were written or used, their bytes, their paths.
    fn files(&self, ending: &str) -> Vec<(Duration, u64, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let now = SystemTime::now();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|e| e == ending))
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                // A time ahead of this machine's clock is now.
                let age = now
                    .duration_since(about.modified().ok()?)
                    .unwrap_or_default();
                Some((age, about.len(), entry.path()))
            })
            .collect()
    }

    /// Removes what killed writers left.
    fn sweep(&self) {
        for (age, _, path) in self.files("tmp") {
            if age > LEFTOVER {
                // Somebody else may have removed it just now.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Removes cuts that are old or too much, but not `new`.
    fn bound(&self, new: &Path) {
        let mut cuts = self.files("cut");
        cuts.sort_unstable();
        let mut bytes = 0;
        for (age, size, path) in cuts {
            bytes += size;
            if path != new && (age > UNUSED || bytes > self.most_bytes) {
                // Somebody else may have removed it just now.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn encode(key: Digest, parts: usize, kept: &KeptCut) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 4 * kept.labels.len() + CHECKSUM);
    bytes.extend(MAGIC);
    bytes.extend(key.to_bytes());
    bytes.extend((kept.labels.len() as u64).to_le_bytes());
    bytes.extend((parts as u64).to_le_bytes());
    bytes.extend(kept.ms.to_le_bytes());
    bytes.extend(kept.peak_bytes.to_le_bytes());
    bytes.extend(kept.need.ms.to_le_bytes());
    bytes.extend(kept.need.bytes.to_le_bytes());
    kept.labels
        .iter()
        .for_each(|p| bytes.extend(p.to_le_bytes()));
    let checksum = Digest::new().bytes(&bytes).to_bytes();
    bytes.extend(checksum);
    bytes
}

fn decode(bytes: &[u8], key: Digest, n: usize, parts: usize) -> Option<KeptCut> {
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
    let labels: Vec<u32> = body[HEADER..]
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().expect("chunks of four")))
        .collect();
    (sound && labels.iter().all(|&p| (p as usize) < parts)).then(|| KeptCut {
        labels,
        ms: f64::from_le_bytes(word(40)),
        peak_bytes: u64::from_le_bytes(word(48)),
        need: Need {
            ms: f64::from_le_bytes(word(56)),
            bytes: u64::from_le_bytes(word(64)),
        },
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
        let kept = KeptCut {
            labels: (0..50).map(|v| v % 3).collect(),
            ms: 1.5,
            peak_bytes: 99,
            need: Need { bytes: 7, ms: 2.5 },
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
        let kept = KeptCut {
            labels: vec![0],
            ms: 0.0,
            peak_bytes: 0,
            need: Need::default(),
        };
        cache.put(Digest::new(), 1, &kept).expect("writes");
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn cuts_beyond_the_bound_go_those_used_longest_ago_first() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let kept = KeptCut {
            labels: vec![0; 1000],
            ms: 0.0,
            peak_bytes: 0,
            need: Need::default(),
        };
        let size = (HEADER + 4 * kept.labels.len() + CHECKSUM) as u64;
        let cache = Cache {
            most_bytes: 3 * size,
            ..Cache::new(dir.path())
        };
        let key = |k: u64| Digest::new().word(k);
        let made = |k: u64, days: u64| {
            cache.put(key(k), 1, &kept).expect("writes");
            let file = File::options().append(true).open(cache.path(key(k)));
            let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            file.and_then(|f| f.set_modified(then)).expect("ours");
        };
        made(1, 3);
        made(2, 2);
        made(3, 1);
        // The oldest was used just now, so the second goes.
        assert!(cache.get(key(1), 1000, 1).is_some());
        made(4, 0);
        let there = |k: u64| cache.path(key(k)).exists();
        assert_eq!([1, 2, 3, 4].map(there), [true, false, true, true]);
        // Nobody used this one for a hundred days; nothing else has to go then.
        made(3, 100);
        cache.put(key(5), 1, &kept).expect("writes");
        assert_eq!([1, 3, 4, 5].map(there), [true, false, true, true]);
    }
}
