//! Batches made by threads that share every batch: a graph of small operations, run in the order of the
//! batches and, within one, of what they cost.
//!
//! ```text
//! seeds ─▶ one hop of some rows (here, or at their owner) ─▶ one hop of what it found ─▶ … ─▶ end
//!                 └─▶ features of what it found              └─▶ features …                ▲
//!                        └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! | module | one idea |
//! |---|---|
//! | `operator` | what is done for an instance: seed, positive, negative, neighbourhood, features |
//! | `logical` | which operators a batch has, and what they read |
//! | `operation` | what there is to do, and in which order |
//! | `found` | rows of a layer, or of the features, as they are found |
//! | `dag` | one batch: what has been found, what is open, what may be done next |
//! | `run` | a thread that does it |
//! | `answers` | who asked for what comes in |
//! | `cores` | which cores threads are kept on |
//!
//! # Paper
//! ByteGNN (Zheng et al., PVLDB 15(6), 2022, § 4.2): operators are split into one-hop operations of some
//! vertices, which run as soon as what they read is there, those of the oldest batch first and the cheapest
//! of these first.
//! # Differs
//! Instances of a batch share what they find: a row that two of them reach is drawn once and fetched once, as
//! if the batch had not been split. What is drawn of a row depends on nothing but seed, epoch, batch, layer
//! and vertex, so the end can put everything into the order of the unsplit batch: its bits are the same.

mod answers;
mod cores;
mod dag;
mod found;
mod logical;
mod operation;
mod operator;
mod run;
#[cfg(test)]
mod tests;

use super::board::Board;
use super::collect::Collector;
use super::launch::BatchRange;
use super::make::Maker;
use super::queue::thread;
use super::reach::Reach;
use crate::error::Result;
use crate::record::now_ns;
use crate::record::trace::Span;
use answers::{Answers, Asked};
pub(crate) use cores::{Cores, Split};
use dag::{Dag, Plan, Todo};
use logical::Logical;
use operation::{Operation, Operations};
use run::Worker;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How batches are split and what is done first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSettings {
    /// Seeds of an instance; layers below have as many more as they are expected to.
    pub(crate) grain: usize,
    /// Cores that its threads are kept on; none: wherever the system likes.
    pub(crate) cores: Option<Cores>,
    /// Oldest batch first, and cheapest operation first; otherwise in the order in which they come up.
    pub(crate) fine: bool,
    /// What random waits before operations are made of.
    #[cfg(test)]
    pub(crate) delays: Option<u64>,
}

/// The threads of a rank that make batches.
pub(crate) struct Pool {
    settings: PoolSettings,
    plan: Arc<Plan>,
    operations: Mutex<Operations>,
    changed: Condvar,
    answers: Option<Answers>,
    board: Arc<Board>,
    range: BatchRange,
    /// Time in which threads had nothing to do and answers were open.
    waited_ns: AtomicU64,
    spans: Option<Mutex<Vec<Span>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the board when its thread ends.
struct Leaves(Arc<Board>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave(std::thread::panicking());
    }
}

impl Pool {
    /// How many threads there are with `makers` makers.
    pub(super) fn threads(makers: &[Maker]) -> usize {
        let asks = makers[0].collector.reach.desk.is_some();
        makers.len() + 1 + usize::from(asks)
    }

    /// A thread for each of `makers`, one that begins batches as the launcher of `board` says, and one that
    /// takes answers in. `traced`: what they do is kept as spans.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when there is no thread to be had.
    pub(super) fn start(
        (settings, traced): (PoolSettings, bool),
        mut makers: Vec<Maker>,
        (board, range): (Arc<Board>, BatchRange),
    ) -> Result<(Arc<Pool>, Vec<JoinHandle<()>>)> {
        let Collector { wants, reach, .. } = &makers[0].collector;
        let (rank, pairs) = (reach.shard.rank, makers[0].links.is_some());
        let plan = Plan::new(*wants, pairs, settings.grain, &reach.shard);
        // One box for the answers to all of them.
        let desk = makers[0].collector.reach.desk.take();
        let mailbox = desk.map(super::Desk::into_mailbox);
        let pool = Arc::new(Pool {
            settings,
            plan: Arc::new(plan),
            operations: Mutex::default(),
            changed: Condvar::new(),
            answers: mailbox.as_ref().map(|m| Answers::new(m.outbox())),
            board,
            range,
            waited_ns: AtomicU64::new(0),
            spans: traced.then(Mutex::default),
        });
        let mut threads = Vec::new();
        let mut spawn = |work: Box<dyn FnOnce(Arc<Pool>) + Send>| -> Result<()> {
            let (pool, leaves) = (Arc::clone(&pool), Leaves(Arc::clone(&pool.board)));
            threads.push(thread(rank, move || {
                if let Some(cores) = pool.settings.cores {
                    cores.keep_here();
                }
                work(pool);
                drop(leaves);
            })?);
            Ok(())
        };
        for maker in makers {
            spawn(Box::new(move |pool| Worker { maker, pool }.work()))?;
        }
        spawn(Box::new(|pool| pool.launch()))?;
        if let Some(mailbox) = mailbox {
            spawn(Box::new(move |pool| pool.take_in(&mailbox)))?;
        }
        Ok((pool, threads))
    }

    /// Begins batches when the launcher says so.
    fn launch(&self) {
        while let Some(number) = self.board.begin(true) {
            let dag = Arc::new(Dag::new(number, self.range.at(number)));
            self.add([Operation {
                dag,
                cost: 0,
                what: (Logical::SEED, 0),
                came: None,
            }]);
        }
    }

    /// Takes answers in until there will be none.
    fn take_in(&self, mailbox: &crate::comm::Mailbox) {
        let Some(answers) = &self.answers else { return };
        loop {
            let letter = match mailbox.recv_idle() {
                Ok(letter) => letter,
                Err(e) => {
                    // Whoever waits for the oldest batch is told why it will not come.
                    if let Some(number) = answers.oldest() {
                        self.board.put(number, Err(e));
                    }
                    return;
                }
            };
            match answers.find(&letter) {
                Ok(Asked { dag, what }) => self.add([Operation {
                    dag,
                    cost: letter.words.len() as u64,
                    what,
                    came: Some(letter.words),
                }]),
                Err(e) => {
                    let number = answers.oldest().unwrap_or_default();
                    return self.board.put(number, Err(e));
                }
            }
        }
    }

    fn add(&self, operations: impl IntoIterator<Item = Operation>) {
        let mut all = lock(&self.operations);
        let mut count = 0;
        for operation in operations {
            all.push(operation, self.settings.fine);
            count += 1;
        }
        drop(all);
        match count {
            0 => {}
            1 => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }

    /// The next operation; none once no more batches are wanted.
    fn next(&self) -> Option<Operation> {
        let mut all = lock(&self.operations);
        loop {
            if all.closed {
                return None;
            }
            if let Some(operation) = all.pop() {
                return Some(operation);
            }
            let open = self.answers.as_ref().is_some_and(|a| a.open() > 0);
            let start = now_ns();
            let waited = self.changed.wait(all);
            all = waited.unwrap_or_else(PoisonError::into_inner);
            if open {
                let ns = now_ns() - start;
                self.waited_ns.fetch_add(ns, Ordering::Relaxed);
            }
        }
    }

    /// Does what a batch says may be done next: asks other ranks, and notes the rest for its threads.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    fn begin(&self, dag: &Arc<Dag>, todo: Vec<Todo>, reach: &Reach) -> Result<()> {
        let mut mine = Vec::new();
        for Todo { what, cost, ask } in todo {
            let Some((owner, rows)) = ask else {
                mine.push(Operation {
                    dag: Arc::clone(dag),
                    cost,
                    what,
                    came: None,
                });
                continue;
            };
            let of = self.plan.logical.operator(what.0).asks();
            let of = of.expect("others are asked for hops and rows alone");
            let first = reach.shard.numbers.first[owner];
            let rows: Vec<u32> = rows.iter().map(|v| v - first).collect();
            let left_out = reach.shard.left_out(owner, &rows, dag.without());
            let data = left_out.as_flattened();
            let mut query = reach.query((of, dag.at), (&rows, data));
            query.head.counted = dag.at.0;
            let answers = self.answers.as_ref();
            let answers = answers.expect("only several ranks have anything to ask");
            let asked = Asked {
                dag: Arc::clone(dag),
                what,
            };
            answers.ask(owner, (&query, self.settings.fine), asked)?;
        }
        self.add(mine);
        Ok(())
    }

    /// Wakes everybody, and lets them go.
    pub(super) fn close(&self) {
        lock(&self.operations).closed = true;
        self.changed.notify_all();
    }

    /// What threads have done since the last call.
    pub(super) fn take_spans(&self) -> Vec<Span> {
        let spans = self.spans.as_ref();
        spans.map_or(Vec::new(), |spans| std::mem::take(&mut *lock(spans)))
    }
}
