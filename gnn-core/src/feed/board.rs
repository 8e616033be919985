//! What the threads that make batches and the one that trains know of each other.

use super::launch::{Flight, Launcher, WINDOW};
use super::make::MadeBatch;
use super::stats::LaunchRow;
use crate::error::{Error, Result};
use crate::record::now_ns;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Who begins batches when, and those that wait for their turn.
pub(crate) struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    launcher: Box<dyn Launcher>,
    flight: Flight,
    /// Finished batches that have not been taken, by number, with their bytes.
    made: BTreeMap<u64, (Result<MadeBatch>, u64)>,
    /// When those that are not finished were begun, by number.
    began: BTreeMap<u64, u64>,
    sampling: Recent,
    training: Recent,
    /// When training took its last batch.
    took: Option<u64>,
    /// The number that training takes next.
    next: u64,
    /// Threads that may still finish one; whether one ended without finishing what it had begun.
    alive: usize,
    broken: bool,
    closed: bool,
}

/// The last few of some times.
#[derive(Debug, Default)]
struct Recent(VecDeque<u64>);

impl Recent {
    fn add(&mut self, ns: u64) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(ns);
    }

    fn mean(&self) -> Option<u64> {
        let sum: u64 = self.0.iter().sum();
        sum.checked_div(self.0.len() as u64)
    }
}

impl Board {
    /// Of `threads` threads that begin batches as `launcher` says.
    pub(super) fn new(launcher: Box<dyn Launcher>, threads: usize) -> Board {
        Board {
            state: Mutex::new(State {
                launcher,
                flight: Flight::default(),
                made: BTreeMap::new(),
                began: BTreeMap::new(),
                sampling: Recent::default(),
                training: Recent::default(),
                took: None,
                next: 0,
                alive: threads,
                broken: false,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for batch `number`, which leaves room for another; `first` of an epoch or not.
    pub(super) fn take(&self, number: u64, first: bool) -> Result<MadeBatch> {
        let mut state = self.state();
        // What lies between two epochs is no training.
        if let Some(took) = state.took.take().filter(|_| !first) {
            state.training.add(now_ns() - took);
            state.flight.train_ns = state.training.mean();
        }
        loop {
            if let Some((made, bytes)) = state.made.remove(&number) {
                state.flight.taken += 1;
                state.flight.bytes -= bytes;
                state.next = number + 1;
                state.count_ready();
                state.took = Some(now_ns());
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
    pub(super) fn begin(&self, idle: bool) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.closed || state.broken {
                return None;
            }
            let flight = state.flight;
            if let Some(number) = state.launcher.next(&flight) {
                state.flight.begun += 1;
                state.began.insert(number, now_ns());
                return Some(number);
            }
            if !idle {
                return None;
            }
            state = match state.launcher.again() {
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
                Some(soon) => {
                    let waited = self.changed.wait_timeout(state, soon);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Batch `number` is finished, or has failed.
    pub(super) fn put(&self, number: u64, made: Result<MadeBatch>) {
        let bytes = made.as_ref().map_or(0, MadeBatch::bytes) as u64;
        let mut state = self.state();
        if let Some(began) = state.began.remove(&number) {
            state.sampling.add(now_ns() - began);
            state.flight.sample_ns = state.sampling.mean();
        }
        state.flight.finished += 1;
        state.flight.bytes += bytes;
        state.flight.largest = state.flight.largest.max(bytes);
        state.made.insert(number, (made, bytes));
        state.count_ready();
        drop(state);
        self.changed.notify_all();
    }

    /// A thread ends, and leaves something unfinished if it is `broken`.
    pub(super) fn leave(&self, broken: bool) {
        let mut state = self.state();
        state.alive -= 1;
        state.broken |= broken;
        drop(state);
        self.changed.notify_all();
    }

    /// No more batches are wanted.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// What the launcher has noted since the last call.
    pub(super) fn noted(&self) -> Vec<LaunchRow> {
        self.state().launcher.noted()
    }
}

impl State {
    /// Counts the finished batches that follow each other from the next one on.
    fn count_ready(&mut self) {
        let from = self.made.range(self.next..).zip(self.next..);
        let ready = from.take_while(|((number, _), next)| **number == *next);
        self.flight.ready = ready.count() as u64;
    }
}
