//! Learnt rows of vertices at their owner: what batches read, and what their gradients change.
//!
//! # Paper
//! DistDGL § 4.1.3: sparse embeddings lie in the key-value store, and their owner runs the optimiser
//! on the gradients that are pushed to it.
//! # Differs
//! The paper's servers update rows without locks (Hogwild). Here a push is applied as a whole, in the
//! order of arrival: by default at once, or, where steps are synchronous, when the pushes of all ranks
//! for the step are there, as one step on their sum in the order of the ranks. A synchronous pull for
//! a step waits for that of the step before.

use super::rows::dense_words;
use crate::checkpoint::State;
use crate::comm::{Address, Words};
use crate::error::{Error, Result};
use crate::rng::{self, Purpose};
use kernels::Mat;
use kernels::adam::AdamParams;
use kernels::par::Par;
use kernels::sparse_optim::{AdagradParams, RowGradients, sparse_adagrad, sparse_adam};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Which optimiser changes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOptimiser {
    Adagrad,
    Adam,
}

/// How rows are learnt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Learning {
    /// Columns.
    pub(crate) width: usize,
    /// Instead of features, or beside them.
    pub(crate) alone: bool,
    pub(crate) optimiser: RowOptimiser,
    pub(crate) lr: f32,
    /// Whether a step reads what all ranks' pushes of the step before have made.
    pub(crate) synchronous: bool,
}

/// Gradients of some of the table's rows, from one rank and step.
pub(crate) struct Pushed {
    pub(crate) rank: usize,
    /// Counted over the run.
    pub(crate) step: u64,
    /// Rows of the table, each once.
    pub(crate) rows: Vec<u32>,
    /// `[rows, width]`.
    pub(crate) grads: Mat,
}

/// Another rank's pull.
pub(crate) struct AskedRows {
    pub(crate) step: u64,
    pub(crate) rows: Vec<u32>,
    /// Where the answer goes, and the epoch that it counts for.
    pub(crate) to: Address,
    pub(crate) epoch: u64,
}

/// A pull and the rows that answer it.
pub(crate) type Answer = (AskedRows, Words);

/// One rank's learnt rows, for all of its threads.
pub(crate) struct Table {
    learning: Learning,
    ranks: usize,
    held: Mutex<TableState>,
    changed: Condvar,
}

/// What threads change in turns.
struct TableState {
    /// `[owned, width]`.
    rows: Mat,
    /// The optimiser's, of the same shape.
    moments: Vec<Mat>,
    /// Where steps are synchronous, how many have been applied.
    done: u64,
    /// By step, the pushes that have come, by rank.
    pushed: BTreeMap<u64, Vec<Option<Pushed>>>,
    waiting: Vec<AskedRows>,
    closed: bool,
}

impl Table {
    /// Rows of the vertices `ids` (the data set's), drawn by `seed`: elements uniform with mean 0, so that
    /// a row's squared norm is 1 on average, whoever owns it.
    pub(crate) fn new(learning: Learning, ids: &[u32], ranks: usize, seed: u64) -> Table {
        let d = learning.width;
        let key = rng::key(seed, 0, Purpose::Embedding, 0);
        let bound = (3.0 / d as f64).sqrt();
        let rows = Mat::from_shape_fn((ids.len(), d), |(k, c)| {
            let u = rng::uniform_f64(key, u64::from(ids[k]) * d as u64 + c as u64);
            ((2.0 * u - 1.0) * bound) as f32
        });
        let moments = match learning.optimiser {
            RowOptimiser::Adagrad => 1,
            RowOptimiser::Adam => 2,
        };
        Table {
            learning,
            ranks,
            held: Mutex::new(TableState {
                moments: vec![Mat::zeros(rows.dim()); moments],
                rows,
                done: 0,
                pushed: BTreeMap::new(),
                waiting: Vec::new(),
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// How it is learnt.
    pub(crate) fn learning(&self) -> Learning {
        self.learning
    }

    fn held(&self) -> MutexGuard<'_, TableState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ready(&self, held: &TableState, step: u64) -> bool {
        !self.learning.synchronous || held.done >= step
    }

    /// Some rows as step `step` reads them: `[rows, width]`. Waits for the steps before it.
    ///
    /// # Errors
    /// [`Error::Comm`] when what it waits for will not come.
    pub(crate) fn pull(&self, step: u64, rows: &[u32]) -> Result<Mat> {
        let mut held = self.held();
        while !self.is_ready(&held, step) {
            if held.closed {
                return Err(Error::Comm {
                    op: "pull".into(),
                    peer: None,
                    reason: "the gradients of the step before have not all come".into(),
                });
            }
            let waited = self.changed.wait(held);
            held = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(picked(&held.rows, rows))
    }

    /// The answer to another rank's pull, now or, from [`Table::push`], later.
    pub(crate) fn ask(&self, asked: AskedRows) -> Option<Answer> {
        let mut held = self.held();
        if !self.is_ready(&held, asked.step) {
            held.waiting.push(asked);
            return None;
        }
        let words = dense_words(&held.rows, &asked.rows);
        Some((asked, words))
    }

    /// Takes gradients in; the pulls that can be answered now, by the caller.
    pub(crate) fn push(&self, pushed: Pushed, par: &Par) -> Vec<Answer> {
        let mut held = self.held();
        if !self.learning.synchronous {
            let of = RowGradients {
                rows: &pushed.rows,
                grads: &pushed.grads,
            };
            self.step(&mut held, pushed.step, of, par);
            return Vec::new();
        }
        let (step, rank) = (pushed.step, pushed.rank);
        let none = || (0..self.ranks).map(|_| None).collect();
        held.pushed.entry(step).or_insert_with(none)[rank] = Some(pushed);
        // A rank may be a step ahead of another.
        loop {
            let next = held.done;
            let all = |of: &Vec<Option<Pushed>>| of.iter().all(Option::is_some);
            if !held.pushed.get(&next).is_some_and(all) {
                break;
            }
            let parts = held.pushed.remove(&next).unwrap_or_default();
            let parts: Vec<Pushed> = parts.into_iter().flatten().collect();
            let rows: Vec<u32> = parts.iter().flat_map(|p| &p.rows).copied().collect();
            let flat = parts.iter().flat_map(|p| p.grads.iter().copied());
            let grads = Mat::from_shape_vec((rows.len(), self.learning.width), flat.collect());
            let grads = grads.expect("a gradient a row");
            let of = RowGradients {
                rows: &rows,
                grads: &grads,
            };
            self.step(&mut held, next, of, par);
            held.done += 1;
        }
        self.changed.notify_all();
        let waiting = std::mem::take(&mut held.waiting);
        let (ready, waiting) = waiting
            .into_iter()
            .partition(|asked| self.is_ready(&held, asked.step));
        held.waiting = waiting;
        let ready: Vec<AskedRows> = ready;
        let answer = |asked: AskedRows| {
            let words = dense_words(&held.rows, &asked.rows);
            (asked, words)
        };
        ready.into_iter().map(answer).collect()
    }

    fn step(&self, held: &mut TableState, step: u64, of: RowGradients<'_>, par: &Par) {
        let lr = self.learning.lr;
        let TableState { rows, moments, .. } = held;
        match (self.learning.optimiser, &mut moments[..]) {
            (RowOptimiser::Adagrad, [squares]) => {
                let params = AdagradParams {
                    lr,
                    ..AdagradParams::default()
                };
                sparse_adagrad(par, params, of, rows, squares);
            }
            (RowOptimiser::Adam, [m, v]) => {
                let params = AdamParams {
                    lr,
                    ..AdamParams::default()
                };
                sparse_adam(par, params, step + 1, of, rows, m, v);
            }
            _ => unreachable!("made for its optimiser"),
        }
    }

    /// No push will come any more: whoever waits for one gets an error.
    pub(crate) fn close(&self) {
        self.held().closed = true;
        self.changed.notify_all();
    }

    /// A copy of all rows: `[owned, width]`.
    pub(crate) fn all(&self) -> Mat {
        self.held().rows.clone()
    }

    /// Adds rows and moments to `state`.
    pub(crate) fn save(&self, state: &mut State) {
        let held = self.held();
        let tensors = [&held.rows].into_iter().chain(&held.moments);
        for (k, x) in tensors.enumerate() {
            state.put_host(format!("learnt/{k}"), x.clone());
        }
        state.put_number("learnt/steps", held.done);
    }

    /// Takes them back.
    ///
    /// # Errors
    /// [`Error::Data`] when one is missing or of another shape.
    pub(crate) fn restore(&self, state: &mut State) -> Result<()> {
        let mut held = self.held();
        let TableState { rows, moments, .. } = &mut *held;
        for (k, x) in [rows].into_iter().chain(moments).enumerate() {
            *x = state.take_like(&format!("learnt/{k}"), x.dim())?;
        }
        held.done = state.number("learnt/steps")?;
        Ok(())
    }
}

fn picked(from: &Mat, rows: &[u32]) -> Mat {
    let mut out = Mat::zeros((rows.len(), from.ncols()));
    for (mut to, &r) in out.rows_mut().into_iter().zip(rows) {
        to.assign(&from.row(r as usize));
    }
    out
}

#[cfg(test)]
mod tests;
