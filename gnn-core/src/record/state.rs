//! One status page a rank: what it is doing now, readable by others and kept after a kill.
//!
//! The page is a small memory-mapped file of atomics, so that an update costs a store and a reader
//! in another process sees it at once. A rank that is killed cannot say where it was; its page can.
#![allow(unsafe_code)] // a memory map is foreign memory; the two blocks below name their facts

use super::clock::{now_ns, peak_memory_bytes};
use super::phase::{Op, Phase};
use crate::error::{Error, Result};
use memmap2::MmapMut;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = 0x4841_4c4f_0000_0001;
const WORDS: usize = 11;
const NOBODY: u64 = u64::MAX;

#[derive(Clone, Copy)]
enum Word {
    Magic,
    Pid,
    Phase,
    Epoch,
    Op,
    Peer,
    SinceNs,
    HeartbeatNs,
    Bytes,
    Layer,
    Program,
}

/// The writing side, held by a rank.
pub struct StatePage {
    map: MmapMut,
}

/// What a page says.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Process of the rank.
    pub pid: u32,
    /// Where it is.
    pub phase: Phase,
    /// Epoch it is in.
    pub epoch: u64,
    /// Layer it is in.
    pub layer: u64,
    /// Operation of the communicator it waits in, if it waits.
    pub op: Option<Op>,
    /// Peer it waits for, if it waits for one.
    pub peer: Option<u32>,
    /// When the current operation or phase began, nanoseconds of the machine's monotonic clock.
    pub since_ns: u64,
    /// Last sign of life on the same clock.
    pub heartbeat_ns: u64,
    /// Bytes of the message it last waited for.
    pub bytes: u64,
    /// Peak memory of its process when the page was made: the program's own, where the process does
    /// nothing else before.
    pub program: u64,
}

impl StatePage {
    /// Creates the page of a rank at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be made or mapped.
    pub fn create(path: &Path) -> Result<StatePage> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(io)?;
        file.set_len((WORDS * 8) as u64).map_err(io)?;
        // SAFETY: the file was just created at this length and is only ever shrunk by deleting the
        // run folder, which unlinks it and leaves the mapping whole.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(io)?;
        let page = StatePage { map };
        page.put(Word::Pid, u64::from(std::process::id()));
        page.put(Word::Op, NOBODY);
        page.put(Word::Peer, NOBODY);
        page.put(Word::SinceNs, now_ns());
        page.put(Word::HeartbeatNs, now_ns());
        page.put(Word::Program, peak_memory_bytes());
        page.put(Word::Magic, MAGIC);
        Ok(page)
    }

    fn put(&self, word: Word, value: u64) {
        // SAFETY: the mapping is page aligned and WORDS * 8 bytes long (set in `create`), so every
        // word is an aligned u64 inside it; AtomicU64 has the layout of u64.
        let cell = unsafe { &*self.map.as_ptr().cast::<AtomicU64>().add(word as usize) };
        cell.store(value, Ordering::Relaxed);
    }

    /// Enters a phase.
    pub fn phase(&self, phase: Phase) {
        self.put(Word::Phase, phase as u64);
        self.put(Word::HeartbeatNs, now_ns());
    }

    /// Enters an epoch.
    pub fn epoch(&self, epoch: u64) {
        self.put(Word::Epoch, epoch);
        self.put(Word::SinceNs, now_ns());
        self.put(Word::HeartbeatNs, now_ns());
    }

    /// Enters a layer.
    pub fn layer(&self, layer: u64) {
        self.put(Word::Layer, layer);
    }

    /// Begins to wait for `peer` in `op`.
    pub fn waiting(&self, op: Op, peer: u32, bytes: u64) {
        self.put(Word::Op, op as u64);
        self.put(Word::Peer, u64::from(peer));
        self.put(Word::Bytes, bytes);
        self.put(Word::SinceNs, now_ns());
    }

    /// Stops waiting.
    pub fn resumed(&self) {
        self.put(Word::Op, NOBODY);
        self.put(Word::Peer, NOBODY);
        let now = now_ns();
        self.put(Word::SinceNs, now);
        self.put(Word::HeartbeatNs, now);
    }
}

/// Reads a page; `None` when there is none yet or it is not one.
pub fn read(path: &Path) -> Option<State> {
    let bytes = std::fs::read(path).ok()?;
    if bytes.len() < WORDS * 8 {
        return None;
    }
    let word = |w: Word| {
        let at = w as usize * 8;
        let eight: [u8; 8] = bytes[at..at + 8]
            .try_into()
            .expect("eight bytes, length checked");
        u64::from_ne_bytes(eight)
    };
    if word(Word::Magic) != MAGIC {
        return None;
    }
    Some(State {
        pid: word(Word::Pid) as u32,
        phase: Phase::from_u8(word(Word::Phase) as u8).unwrap_or(Phase::Other),
        epoch: word(Word::Epoch),
        layer: word(Word::Layer),
        op: Op::from_u8(word(Word::Op).min(255) as u8),
        peer: u32::try_from(word(Word::Peer)).ok(),
        since_ns: word(Word::SinceNs),
        heartbeat_ns: word(Word::HeartbeatNs),
        bytes: word(Word::Bytes),
        program: word(Word::Program),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back_what_was_written() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("rank-0");
        let page = StatePage::create(&path).expect("page");
        page.epoch(7);
        page.phase(Phase::Aggregate);
        page.waiting(Op::Alltoall, 2, 4096);
        let state = read(&path).expect("a page");
        assert_eq!((state.epoch, state.phase), (7, Phase::Aggregate));
        assert_eq!(
            (state.op, state.peer, state.bytes),
            (Some(Op::Alltoall), Some(2), 4096)
        );
        page.resumed();
        let state = read(&path).expect("a page");
        assert_eq!((state.op, state.peer), (None, None));
        assert_eq!(state.pid, std::process::id());
    }

    #[test]
    fn a_file_that_is_no_page_reads_as_none() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("x");
        assert_eq!(read(&path), None);
        std::fs::write(&path, vec![1u8; 200]).expect("write");
        assert_eq!(read(&path), None);
    }
}
