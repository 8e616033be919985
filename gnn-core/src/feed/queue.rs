//! Batches made ahead, by threads beside the one that trains, and handed over in order.
//!
//! Threads begin batches as a [`Launcher`] says, several at once if they may, and finish them in any order;
//! one that is finished early waits in a buffer until those before it have been taken.

use super::launch::{BatchRange, Flight, Launcher};
use super::make::{MadeBatch, Maker};
use super::making::Making;
use crate::comm::Post;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Batches in order.
pub(crate) enum Queue {
    /// Made when they are asked for.
    Inline(Box<Maker>),
    /// Made ahead.
    Ahead(Ahead),
}

/// Threads that make batches ahead.
pub(crate) struct Ahead {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
    range: BatchRange,
    post: Option<Post>,
}

/// How threads make batches ahead.
pub(crate) struct Crew {
    /// One a thread.
    pub(crate) makers: Vec<Maker>,
    pub(crate) launcher: Box<dyn Launcher>,
    /// Batches that a thread may be making at once: it goes on with another while it waits for one's answers.
    pub(crate) abreast: usize,
    pub(crate) range: BatchRange,
    /// What the makers' letters come from.
    pub(crate) post: Option<Post>,
}

/// What the threads and the one that trains know of each other.
struct Board {
    state: Mutex<BoardState>,
    changed: Condvar,
}

struct BoardState {
    launcher: Box<dyn Launcher>,
    flight: Flight,
    /// Finished batches that have not been taken, by number.
    made: BTreeMap<u64, Result<MadeBatch>>,
    /// Threads that may still finish one; whether one ended without finishing what it had begun.
    alive: usize,
    broken: bool,
    closed: bool,
}

impl Queue {
    /// Batches that `maker` makes when they are asked for.
    pub(crate) fn inline(maker: Maker) -> Queue {
        Queue::Inline(Box::new(maker))
    }

    /// Begins to make batches ahead.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had.
    pub(crate) fn ahead(crew: Crew) -> Result<Queue> {
        let state = BoardState {
            launcher: crew.launcher,
            flight: Flight::default(),
            made: BTreeMap::new(),
            alive: crew.makers.len(),
            broken: false,
            closed: false,
        };
        let mut queue = Ahead {
            board: Arc::new(Board {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            threads: Vec::with_capacity(crew.makers.len()),
            range: crew.range,
            post: crew.post,
        };
        for maker in crew.makers {
            let name = format!("rank-{}", maker.collector.reach.shard.rank);
            let mut worker = Worker {
                maker,
                board: Arc::clone(&queue.board),
                range: crew.range,
                abreast: crew.abreast.max(1),
                flying: Vec::new(),
            };
            let thread = std::thread::Builder::new().name(name);
            let thread = thread.spawn(move || worker.work());
            queue
                .threads
                .push(thread.map_err(|e| Error::io("thread", e))?);
        }
        Ok(Queue::Ahead(queue))
    }

    /// Batch `step` of `epoch`; all are asked for in order.
    ///
    /// # Errors
    /// What its maker met.
    pub(crate) fn take(&mut self, epoch: u64, step: u64) -> Result<MadeBatch> {
        match self {
            Queue::Inline(maker) => maker.make(epoch, step),
            Queue::Ahead(queue) => queue.board.take(queue.range.number(epoch, step)),
        }
    }
}

impl Board {
    fn state(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for batch `number`, which leaves room for another.
    fn take(&self, number: u64) -> Result<MadeBatch> {
        let mut state = self.state();
        loop {
            if let Some(made) = state.made.remove(&number) {
                state.flight.taken += 1;
                self.changed.notify_all();
                return made;
            }
            if state.broken || state.alive == 0 {
                return Err(Error::Comm {
                    op: "batch".into(),
                    peer: None,
                    reason: "the thread that makes batches has ended".into(),
                });
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next batch to begin. Waits for one where nothing else is to be done; none once there will be none.
    fn begin(&self, idle: bool) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let flight = state.flight;
            if let Some(number) = state.launcher.next(flight) {
                state.flight.begun += 1;
                return Some(number);
            }
            if !idle {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, number: u64, made: Result<MadeBatch>) {
        self.state().made.insert(number, made);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

/// A thread that makes batches.
struct Worker {
    maker: Maker,
    board: Arc<Board>,
    range: BatchRange,
    abreast: usize,
    /// What it has begun, oldest first.
    flying: Vec<(u64, Making)>,
}

impl Worker {
    /// Makes batches until nobody wants any, or one fails.
    fn work(&mut self) {
        loop {
            while self.flying.len() < self.abreast {
                let Some(number) = self.board.begin(self.flying.is_empty()) else {
                    break;
                };
                let (epoch, step) = self.range.at(number);
                match self.maker.start(epoch, step) {
                    Ok(making) => self.flying.push((number, making)),
                    Err(e) => return self.board.put(number, Err(e)),
                }
            }
            if self.flying.is_empty() {
                return;
            }
            if !self.go_on() {
                return;
            }
        }
    }

    /// Goes on with what it has begun, and waits for an answer where nothing is finished by that; whether
    /// that went well.
    fn go_on(&mut self) -> bool {
        let before = self.flying.len();
        let mut k = 0;
        while k < self.flying.len() {
            let (number, making) = &mut self.flying[k];
            let number = *number;
            let made = self.maker.go_on(making);
            match made.transpose() {
                None => k += 1,
                Some(made) => {
                    let failed = made.is_err();
                    self.flying.remove(k);
                    self.board.put(number, made);
                    if failed {
                        return false;
                    }
                }
            }
        }
        if self.flying.len() < before {
            return true;
        }
        let (number, oldest) = &mut self.flying[0];
        let (number, waited) = (*number, self.maker.wait(oldest));
        match waited {
            Ok(()) => true,
            Err(e) => {
                self.flying.remove(0);
                self.board.put(number, Err(e));
                false
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.board.state();
        state.alive -= 1;
        state.broken |= !self.flying.is_empty() || std::thread::panicking();
        drop(state);
        self.board.changed.notify_all();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Threads that wait for room or for a letter must not wait any more.
        self.board.close();
        if let Some(post) = &self.post {
            post.close();
        }
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
