//! Interrupts of a plain Rust cell, from the kernel's side.
//!
//! While the cell is being compiled an interrupt stops rustc. Once it runs, the first interrupt leaves the
//! token that the prelude's calls look for (`halobook::interrupt`); a second one means it, and ends the
//! process that holds the variables.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::scratch::Scratch;
use crate::front::CellOutput;

/// A cell that has not ended this long after an interrupt is told how to go on.
const PATIENCE: Duration = Duration::from_secs(1);

const HINT: &str = "interrupted: this cell ends at its next loop or call into the halobook library. A second interrupt \
                    ends its process: runs and frames are bound again, other variables are lost.\n";

/// What an interrupt comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The cell has been asked to end.
    Ask,
    /// Its process shall be killed.
    Kill,
}

/// The interrupts of the evaluation that is under way, if any.
pub struct Stop {
    scratch: Scratch,
    evaluating: AtomicBool,
    /// Interrupts of this evaluation.
    asked: AtomicU64,
    /// One came for a cell whose evaluation has not begun.
    early: AtomicBool,
    /// What is being evaluated now: its number, its process, and where it prints.
    now: Mutex<(u64, u32, Option<CellOutput>)>,
}

impl Stop {
    /// For the cells compiled in `scratch`.
    pub fn new(scratch: &Scratch) -> Arc<Stop> {
        Arc::new(Stop {
            scratch: scratch.clone(),
            evaluating: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            early: AtomicBool::new(false),
            now: Mutex::default(),
        })
    }

    /// Whether something is being evaluated.
    pub fn is_evaluating(&self) -> bool {
        self.evaluating.load(Ordering::Acquire)
    }

    /// A cell has come: what was interrupted before it is over.
    pub fn forget(&self) {
        self.early.store(false, Ordering::Release);
    }

    /// An evaluation begins in the process `pid`.
    pub fn begin(self: &Arc<Self>, pid: u32, output: &CellOutput) {
        let mut now = self.now();
        *now = (now.0 + 1, pid, Some(output.clone()));
        self.clear(pid);
        let _ = fs::remove_file(self.scratch.flags().compiled());
        self.asked.store(0, Ordering::Release);
        self.evaluating.store(true, Ordering::Release);
        drop(now);
        if self.early.swap(false, Ordering::AcqRel) {
            self.ask();
        }
    }

    /// It has ended; returns whether somebody had interrupted it.
    pub fn end(&self) -> bool {
        let mut now = self.now();
        self.evaluating.store(false, Ordering::Release);
        now.2 = None;
        self.clear(now.1);
        self.asked.load(Ordering::Acquire) > 0
    }

    /// An interrupt has come.
    pub fn ask(self: &Arc<Self>) -> Option<Means> {
        let now = self.now();
        if !self.is_evaluating() {
            self.early.store(true, Ordering::Release);
            return None;
        }
        let earlier = self.asked.fetch_add(1, Ordering::AcqRel);
        if self.scratch.facts.is_none() {
            // Without the prelude nothing in the cell would look.
            return Some(Means::Kill);
        }
        // The token too while rustc works: the cell may start in this very moment.
        let token = halobook::interrupt::token(&self.scratch.dir, now.1);
        let left = fs::write(self.scratch.flags().cancel(), "").and_then(|()| fs::write(token, ""));
        if left.is_err() || (earlier > 0 && self.scratch.flags().compiled().exists()) {
            return Some(Means::Kill);
        }
        if earlier == 0 {
            let (stop, number) = (Arc::clone(self), now.0);
            std::thread::spawn(move || stop.hint_later(number));
        }
        Some(Means::Ask)
    }

    fn hint_later(&self, number: u64) {
        std::thread::sleep(PATIENCE);
        let now = self.now();
        if now.0 == number
            && self.scratch.flags().compiled().exists()
            && let Some(output) = &now.2
        {
            output.stderr(HINT);
        }
    }

    fn clear(&self, pid: u32) {
        let _ = fs::remove_file(self.scratch.flags().cancel());
        let _ = fs::remove_file(halobook::interrupt::token(&self.scratch.dir, pid));
    }

    fn now(&self) -> std::sync::MutexGuard<'_, (u64, u32, Option<CellOutput>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
