//! Ranks as threads of one process: a message is a moved vector.

use super::transport::{Handle, Progress, Transport, Words};
use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

struct Envelope {
    from: usize,
    tag: u16,
    words: Words,
}

/// One rank's end of an in-process world.
pub struct ThreadTransport {
    rank: usize,
    peers: Vec<Sender<Envelope>>,
    inbox: Receiver<Envelope>,
    /// Arrived, but not asked for yet.
    arrived: HashMap<(usize, u16), VecDeque<Words>>,
    /// Asked for, in order, per sender and tag.
    expected: HashMap<Handle, (usize, u16, usize)>,
    queues: HashMap<(usize, u16), VecDeque<Handle>>,
    done: HashMap<Handle, Words>,
    next: u64,
    dead: Arc<AtomicBool>,
    on_abort: Arc<OnceLock<i32>>,
}

impl ThreadTransport {
    /// A world of `size` ranks.
    pub fn world(size: usize) -> Vec<ThreadTransport> {
        let dead = Arc::new(AtomicBool::new(false));
        let on_abort = Arc::new(OnceLock::new());
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
        inboxes
            .into_iter()
            .enumerate()
            .map(|(rank, inbox)| ThreadTransport {
                rank,
                peers: senders.clone(),
                inbox,
                arrived: HashMap::new(),
                expected: HashMap::new(),
                queues: HashMap::new(),
                done: HashMap::new(),
                next: 0,
                dead: Arc::clone(&dead),
                on_abort: Arc::clone(&on_abort),
            })
            .collect()
    }

    fn gone(&self, peer: usize) -> Error {
        Error::Comm {
            op: "threads".into(),
            peer: Some(peer as u32),
            reason: "another rank of this process has failed".into(),
        }
    }

    /// Takes what has arrived. A lost peer matters only if the letter from `peer` is not here: what
    /// a rank sent before it failed still counts.
    fn collect_letters(&mut self, peer: usize, tag: u16) -> Result<()> {
        // Read before the inbox is emptied, so that nothing sent before the failure is missed.
        let dead = self.dead.load(Ordering::Acquire);
        while let Ok(letter) = self.inbox.try_recv() {
            let queue = self.arrived.entry((letter.from, letter.tag)).or_default();
            queue.push_back(letter.words);
        }
        if dead && !self.arrived.contains_key(&(peer, tag)) {
            return Err(self.gone(peer));
        }
        Ok(())
    }
}

impl Transport for ThreadTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.peers.len()
    }

    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
        let letter = Envelope {
            from: self.rank,
            tag,
            words,
        };
        self.peers[to].send(letter).map_err(|_| self.gone(to))
    }

    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
        let handle = Handle(self.next);
        self.next += 1;
        self.expected.insert(handle, (from, tag, len));
        self.queues
            .entry((from, tag))
            .or_default()
            .push_back(handle);
        Ok(handle)
    }

    fn poll(&mut self, handle: Handle) -> Result<Progress> {
        if self.done.contains_key(&handle) {
            return Ok(Progress::Done);
        }
        let Some(&(from, tag, len)) = self.expected.get(&handle) else {
            return Err(Error::Comm {
                op: "poll".into(),
                peer: None,
                reason: "the message was taken already".into(),
            });
        };
        if !self.arrived.contains_key(&(from, tag)) {
            self.collect_letters(from, tag)?;
        }
        let (Some(letters), Some(waiting)) = (
            self.arrived.get_mut(&(from, tag)),
            self.queues.get_mut(&(from, tag)),
        ) else {
            return Ok(Progress::Absent);
        };
        while let (Some(words), Some(first)) = (letters.front(), waiting.front()) {
            let expected = self.expected.get(first).map_or(len, |e| e.2);
            if words.len() != expected {
                return Err(Error::Comm {
                    op: "receive".into(),
                    peer: Some(from as u32),
                    reason: format!("expected {expected} words, got {}", words.len()),
                });
            }
            if let (Some(words), Some(first)) = (letters.pop_front(), waiting.pop_front()) {
                self.expected.remove(&first);
                self.done.insert(first, words);
            }
        }
        if letters.is_empty() {
            self.arrived.remove(&(from, tag));
        }
        if waiting.is_empty() {
            self.queues.remove(&(from, tag));
        }
        Ok(if self.done.contains_key(&handle) {
            Progress::Done
        } else {
            Progress::Absent
        })
    }

    fn take(&mut self, handle: Handle) -> Result<Words> {
        self.done.remove(&handle).ok_or_else(|| Error::Comm {
            op: "take".into(),
            peer: None,
            reason: "the message is not complete".into(),
        })
    }

    fn forget(&mut self, handle: Handle) {
        if let Some((from, tag, _)) = self.expected.remove(&handle)
            && let Some(queue) = self.queues.get_mut(&(from, tag))
        {
            queue.retain(|h| *h != handle);
        }
    }

    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        let _ = self.on_abort.set(code);
        self.dead.store(true, Ordering::Release);
    }
}

impl Drop for ThreadTransport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dead.store(true, Ordering::Release);
        }
    }
}
