//! Sorting more keys than memory holds: sorted runs in a file, then one merge.
//!
//! The file has no name while it is used, so that nothing stays when the process is killed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytemuck::Pod;
use rayon::prelude::*;

use crate::{Error, Result};

/// An edge as one number, ordered by destination, then source.
pub(super) trait Key: Pod + Ord + Send + Sync {
    /// The largest id.
    const MOST: u64;
    /// The edge `src → dst`, neither above [`Key::MOST`].
    fn new(src: u64, dst: u64) -> Self;
    /// Its source and its destination.
    fn ends(self) -> [u64; 2];
}

impl Key for u64 {
    // One less than fits, so that the number of vertices fits as well.
    const MOST: u64 = u32::MAX as u64 - 1;

    fn new(src: u64, dst: u64) -> u64 {
        dst << 32 | src
    }

    fn ends(self) -> [u64; 2] {
        [self & 0xffff_ffff, self >> 32]
    }
}

impl Key for u128 {
    const MOST: u64 = u64::MAX - 1;

    fn new(src: u64, dst: u64) -> u128 {
        u128::from(dst) << 64 | u128::from(src)
    }

    fn ends(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }
}

/// Keys of a block that a merge hands on.
const BLOCK: usize = 1 << 15;

/// Bytes that a run's reader holds at least.
const READER: usize = 64 << 10;

/// Takes keys in any order and gives them back in theirs, within a number of bytes.
pub(super) struct Sorter<K> {
    /// Keys that are not in a run yet; at most `limit`.
    waiting: Vec<K>,
    limit: usize,
    bytes: usize,
    /// Whether equal keys are given back once.
    dedup: bool,
    folder: PathBuf,
    spilled: Option<Spilled>,
}

/// Runs one after another in a file.
struct Spilled {
    file: Arc<File>,
    /// Where each run starts and ends, in keys.
    runs: Vec<(u64, u64)>,
}

impl<K: Pod + Ord + Send + Sync> Sorter<K> {
    /// A sorter that holds at most about `bytes` bytes of memory and writes to `folder` when that is
    /// not enough.
    pub(super) fn new(bytes: usize, dedup: bool, folder: &Path) -> Sorter<K> {
        Sorter {
            waiting: Vec::new(),
            limit: (bytes / size_of::<K>()).max(BLOCK),
            bytes,
            dedup,
            folder: folder.to_owned(),
            spilled: None,
        }
    }

    /// Adds a key.
    #[inline]
    pub(super) fn push(&mut self, key: K) -> Result<()> {
        if self.waiting.len() == self.limit {
            self.spill()?;
        }
        if self.waiting.len() == self.waiting.capacity() {
            self.grow();
        }
        self.waiting.push(key);
        Ok(())
    }

    /// Makes room for more keys. An allocator may copy and keep what it copied from, so that growing step by
    /// step would hold more than twice the limit: beyond a sixteenth of it, all is asked for at once. Pages that
    /// nothing is written to are not memory.
    fn grow(&mut self) {
        let held = self.waiting.len();
        let more = if held < self.limit / 16 {
            held.max(BLOCK).min(self.limit - held)
        } else {
            self.limit - held
        };
        self.waiting.reserve_exact(more);
    }

    fn sort(&mut self) {
        self.waiting.par_sort_unstable();
        if self.dedup {
            self.waiting.dedup();
        }
    }

    /// Makes a run of what is waiting.
    fn spill(&mut self) -> Result<()> {
        self.sort();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled {
                file: Arc::new(nameless(&self.folder)?),
                runs: Vec::new(),
            }),
        };
        let start = spilled.runs.last().map_or(0, |r| r.1);
        write_at(&spilled.file, &self.folder, &self.waiting, start)?;
        let end = start + self.waiting.len() as u64;
        spilled.runs.push((start, end));
        self.waiting.clear();
        Ok(())
    }

    /// Number of runs that there will be to merge; none when memory holds all keys.
    pub(super) fn runs(&self) -> usize {
        let written = |s: &Spilled| s.runs.len() + usize::from(!self.waiting.is_empty());
        self.spilled.as_ref().map_or(0, written)
    }

    /// All keys in order, block by block; `each` is called on this thread while the next block is
    /// made on another.
    ///
    /// # Errors
    /// [`Error::Io`] when the runs cannot be read, or the first of `each`.
    pub(super) fn drain(mut self, mut each: impl FnMut(&[K]) -> Result<()>) -> Result<()> {
        if self.spilled.is_none() {
            self.sort();
            return self.waiting.chunks(BLOCK).try_for_each(each);
        }
        if !self.waiting.is_empty() {
            self.spill()?;
        }
        self.waiting = Vec::new();
        let most = (self.bytes / READER).max(2);
        while self.runs() > most {
            self.merge_some(most)?;
        }
        let spilled = self.spilled.take().expect("seen above");
        let (dedup, folder) = (self.dedup, self.folder.clone());
        let mut merge = Merge::new(&spilled, &spilled.runs, self.bytes, dedup, &folder)?;
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel::<Vec<K>>(2);
            let made = scope.spawn(move || -> Result<()> {
                loop {
                    let mut block = Vec::with_capacity(BLOCK);
                    merge.fill(&mut block)?;
                    // Whoever listened has failed, and says so.
                    if block.is_empty() || send.send(block).is_err() {
                        return Ok(());
                    }
                }
            });
            let used = receive.iter().try_for_each(|block| each(&block));
            drop(receive);
            let made = made.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
            used.and(made)
        })
    }

    /// Merges the first `most` runs to one, at the end of the file.
    fn merge_some(&mut self, most: usize) -> Result<()> {
        let spilled = self.spilled.as_mut().expect("there are runs to merge");
        let first: Vec<(u64, u64)> = spilled.runs.drain(..most).collect();
        let start = spilled.runs.last().map_or(first[most - 1].1, |r| r.1);
        let start = start.max(first[most - 1].1);
        let mut end = start;
        let mut merge = Merge::new(spilled, &first, self.bytes, self.dedup, &self.folder)?;
        let mut block: Vec<K> = Vec::with_capacity(BLOCK);
        loop {
            block.clear();
            merge.fill(&mut block)?;
            if block.is_empty() {
                break;
            }
            write_at(&spilled.file, &self.folder, &block, end)?;
            end += block.len() as u64;
        }
        spilled.runs.push((start, end));
        Ok(())
    }
}

/// A merge of runs.
struct Merge<K> {
    readers: Vec<Reader<K>>,
    /// The next key of each run that has one.
    heads: BinaryHeap<Reverse<(K, usize)>>,
    dedup: bool,
    last: Option<K>,
}

impl<K: Pod + Ord> Merge<K> {
    fn new(
        spilled: &Spilled,
        runs: &[(u64, u64)],
        bytes: usize,
        dedup: bool,
        folder: &Path,
    ) -> Result<Merge<K>> {
        let each = (bytes / runs.len()).clamp(READER, 4 << 20);
        let mut merge = Merge {
            readers: Vec::with_capacity(runs.len()),
            heads: BinaryHeap::with_capacity(runs.len()),
            dedup,
            last: None,
        };
        for (k, &(start, end)) in runs.iter().enumerate() {
            let mut reader = Reader {
                file: Arc::clone(&spilled.file),
                folder: folder.to_owned(),
                at: start,
                end,
                keys: vec![K::zeroed(); each / size_of::<K>()],
                next: 0,
                filled: 0,
            };
            if let Some(key) = reader.next()? {
                merge.heads.push(Reverse((key, k)));
            }
            merge.readers.push(reader);
        }
        Ok(merge)
    }

    /// Appends the next keys, up to a block.
    fn fill(&mut self, block: &mut Vec<K>) -> Result<()> {
        while block.len() < BLOCK {
            let Some(mut head) = self.heads.peek_mut() else {
                return Ok(());
            };
            let (key, run) = head.0;
            match self.readers[run].next()? {
                Some(next) => head.0.0 = next,
                None => {
                    PeekMut::pop(head);
                }
            }
            if !self.dedup || self.last != Some(key) {
                block.push(key);
            }
            self.last = Some(key);
        }
        Ok(())
    }
}

/// The keys of one run in order.
struct Reader<K> {
    file: Arc<File>,
    folder: PathBuf,
    at: u64,
    end: u64,
    keys: Vec<K>,
    next: usize,
    filled: usize,
}

impl<K: Pod> Reader<K> {
    #[inline]
    fn next(&mut self) -> Result<Option<K>> {
        if self.next == self.filled {
            let count = (self.end - self.at).min(self.keys.len() as u64) as usize;
            if count == 0 {
                return Ok(None);
            }
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.keys[..count]);
            self.file
                .read_exact_at(bytes, self.at * size_of::<K>() as u64)
                .map_err(|e| Error::io(&self.folder, e))?;
            (self.next, self.filled) = (0, count);
            self.at += count as u64;
        }
        self.next += 1;
        Ok(Some(self.keys[self.next - 1]))
    }
}

/// A file in `folder` that has no name any more.
fn nameless(folder: &Path) -> Result<File> {
    let path = folder.join(format!(".halobook-sort-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).map_err(|e| Error::io(&path, e))?;
    std::fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
    Ok(file)
}

fn write_at<K: Pod>(file: &File, folder: &Path, keys: &[K], start: u64) -> Result<()> {
    let bytes: &[u8] = bytemuck::cast_slice(keys);
    file.write_all_at(bytes, start * size_of::<K>() as u64)
        .map_err(|e| Error::io(folder, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn keys_come_back_in_order_however_many_runs(count in 0usize..400_000, below in 1u64..1_000_000, dedup: bool, small: bool) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            // The small one needs several merges.
            let bytes = if small { 1 << 17 } else { 1 << 20 };
            let mut sorter = Sorter::<u64>::new(bytes, dedup, folder.path());
            let key = |k: u64| crate::rng::below(7, k, below);
            for k in 0..count as u64 {
                sorter.push(key(k)).expect("space");
            }
            prop_assert!(sorter.waiting.capacity() <= sorter.limit);
            let mut got = Vec::new();
            let drained = sorter.drain(|block| {
                got.extend_from_slice(block);
                Ok(())
            });
            prop_assert!(drained.is_ok());
            let mut want: Vec<u64> = (0..count as u64).map(key).collect();
            want.sort_unstable();
            if dedup {
                want.dedup();
            }
            prop_assert_eq!(got, want);
            let left = std::fs::read_dir(folder.path()).expect("a folder").count();
            prop_assert_eq!(left, 0);
        }
    }

    #[test]
    fn an_edge_survives_being_a_key() {
        for (s, d) in [(0, 0), (1, 2), (u64::from(u32::MAX) - 1, 7)] {
            assert_eq!(<u64 as Key>::new(s, d).ends(), [s, d]);
            assert_eq!(<u128 as Key>::new(s, d).ends(), [s, d]);
        }
        assert_eq!(<u128 as Key>::new(u64::MAX - 1, 3).ends()[0], u64::MAX - 1);
        assert!(<u64 as Key>::new(9, 1) < <u64 as Key>::new(0, 2));
    }

    #[test]
    fn what_fails_behind_the_merge_ends_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut sorter = Sorter::<u64>::new(1 << 17, false, folder.path());
        (0..200_000).for_each(|k| sorter.push(k).expect("space"));
        let full = || Error::io("disk", std::io::ErrorKind::StorageFull.into());
        assert!(sorter.drain(|_| Err(full())).is_err());
    }
}
