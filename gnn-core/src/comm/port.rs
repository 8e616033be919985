//! What other threads say to a rank's hub and hear from it, and the transport that the training thread
//! has.

use super::mail::{Delivery, Letter};
use super::transport::{Handle, Progress, Transport, Words};
use crate::error::{Error, Result};
use crate::record::now_ns;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What other threads ask of the hub.
pub(super) enum Command {
    Send(usize, u16, Words),
    Recv(Handle, usize, u16, usize),
    Forget(Handle),
    /// Answered when everything has left.
    Drain(Sender<()>),
    Abort(i32),
    Open(u32, Sender<Letter>),
    /// From, to, and a letter.
    Letter(u32, Delivery),
    /// No letter is read any more.
    Close,
}

/// How far a receive of the port has come.
pub(super) struct Slot {
    pub(super) progress: Progress,
    pub(super) travelled: Option<Range<u64>>,
    pub(super) words: Words,
}

/// The receives of the port.
#[derive(Default)]
pub(super) struct Slots {
    open: HashMap<Handle, Slot>,
    /// Grows with everything that the port has not heard of.
    news: u64,
}

/// What the hub tells the other threads.
#[derive(Default)]
pub(super) struct Board {
    slots: Mutex<Slots>,
    /// There is news.
    changed: Condvar,
    failure: Mutex<Option<(Option<u32>, String)>>,
    /// When the port was asked last.
    pub(super) asked_ns: AtomicU64,
    /// Threads that wait for letters.
    pub(super) waiting: AtomicUsize,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// Says how far a receive of the port has come.
    pub(super) fn tell(&self, handle: Handle, of: Slot) {
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.open.get_mut(&handle) else {
            return;
        };
        let is_news = slot.progress != of.progress;
        *slot = of;
        if is_news {
            slots.news += 1;
            self.changed.notify_all();
        }
    }

    /// Keeps the first failure.
    pub(super) fn fail(&self, told: (Option<u32>, String)) {
        lock(&self.failure).get_or_insert(told);
        lock(&self.slots).news += 1;
        self.changed.notify_all();
    }

    /// What ended the hub's work.
    pub(super) fn failure(&self, op: &str) -> Option<Error> {
        let failure = lock(&self.failure);
        failure.as_ref().map(|(peer, reason)| Error::Comm {
            op: op.into(),
            peer: *peer,
            reason: reason.clone(),
        })
    }

    /// The hub's failure, or that it is gone.
    pub(super) fn gone(&self, op: &str) -> Error {
        self.failure(op).unwrap_or_else(|| Error::Comm {
            op: op.into(),
            peer: None,
            reason: "this rank is ending".into(),
        })
    }
}

/// The transport of the thread that trains.
pub(crate) struct Port {
    rank: usize,
    size: usize,
    out: Sender<Command>,
    board: Arc<Board>,
    next: u64,
    /// What it has heard of.
    heard: u64,
}

impl Port {
    /// Rank and size of the hub's transport, and the way to the hub.
    pub(super) fn new([rank, size]: [usize; 2], out: Sender<Command>, board: Arc<Board>) -> Port {
        Port {
            rank,
            size,
            out,
            board,
            next: 0,
            heard: 0,
        }
    }

    fn tell(&self, command: Command) -> Result<()> {
        let sent = self.out.send(command);
        sent.map_err(|_| self.board.gone("hub"))
    }
}

impl Transport for Port {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
        self.tell(Command::Send(to, tag, words))
    }

    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
        let handle = Handle(self.next);
        self.next += 1;
        let slot = Slot {
            progress: Progress::Absent,
            travelled: None,
            words: Words::new(),
        };
        lock(&self.board.slots).open.insert(handle, slot);
        self.tell(Command::Recv(handle, from, tag, len))?;
        Ok(handle)
    }

    fn poll(&mut self, handle: Handle) -> Result<Progress> {
        self.board.asked_ns.store(now_ns(), Ordering::Relaxed);
        let progress = {
            let slots = lock(&self.board.slots);
            self.heard = slots.news;
            slots.open.get(&handle).map(|s| s.progress)
        };
        match (progress, self.board.failure("receive")) {
            (Some(Progress::Done), _) => Ok(Progress::Done),
            (_, Some(failure)) => Err(failure),
            (Some(progress), None) => Ok(progress),
            (None, None) => Err(self.board.gone("poll")),
        }
    }

    fn travelled(&self, handle: Handle) -> Option<Range<u64>> {
        let slots = lock(&self.board.slots);
        slots.open.get(&handle)?.travelled.clone()
    }

    fn wait(&mut self, at_most: Duration) -> bool {
        let slots = lock(&self.board.slots);
        if slots.news != self.heard {
            return true;
        }
        self.board.waiting.fetch_add(1, Ordering::Relaxed);
        let news = self.board.changed.wait_timeout(slots, at_most);
        drop(news);
        self.board.waiting.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn take(&mut self, handle: Handle) -> Result<Words> {
        let slot = lock(&self.board.slots).open.remove(&handle);
        match slot {
            Some(slot) if slot.progress == Progress::Done => Ok(slot.words),
            _ => Err(Error::Comm {
                op: "take".into(),
                peer: None,
                reason: "the message is not complete".into(),
            }),
        }
    }

    fn forget(&mut self, handle: Handle) {
        lock(&self.board.slots).open.remove(&handle);
        // Where the hub is gone there is nothing to forget.
        let _ = self.tell(Command::Forget(handle));
    }

    fn drain(&mut self) -> Result<()> {
        let (done, wait) = channel();
        self.tell(Command::Drain(done))?;
        wait.recv().map_err(|_| self.board.gone("drain"))
    }

    fn abort(&mut self, code: i32) {
        let _ = self.tell(Command::Abort(code));
    }
}
