//! Batches made ahead, by threads beside the one that trains, and handed over in order.
//!
//! Threads begin batches as a [`Launcher`] says, and finish them in any order; one that is finished early
//! waits on the [`Board`] until those before it have been taken. How threads share the work is for them to
//! say: each its own batches ([`Worker`]), or all of them every batch ([`Pool`]).

use super::board::Board;
use super::launch::{BatchRange, How, Launcher};
use super::make::{MadeBatch, Maker};
use super::making::Making;
use super::pool::Pool;
use super::stats::LaunchRow;
use crate::comm::Post;
use crate::error::{Error, Result};
use crate::record::trace::Span;
use std::sync::Arc;
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
    pool: Option<Arc<Pool>>,
    threads: Vec<JoinHandle<()>>,
    range: BatchRange,
    post: Option<Post>,
}

/// How threads make batches ahead.
pub(crate) struct Crew {
    /// One a thread.
    pub(crate) makers: Vec<Maker>,
    pub(crate) launcher: Box<dyn Launcher>,
    pub(crate) how: How,
    pub(crate) range: BatchRange,
    /// What the makers' letters come from.
    pub(crate) post: Option<Post>,
    /// Whether what threads do is to be seen in a trace.
    pub(crate) traced: bool,
}

impl Queue {
    /// Batches that `maker` makes when they are asked for.
    pub(crate) fn inline(maker: Maker) -> Queue {
        Queue::Inline(Box::new(maker))
    }

    /// Begins to make batches ahead.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had, [`Error::Comm`] when the rank is ending.
    pub(crate) fn ahead(crew: Crew) -> Result<Queue> {
        let threads = match crew.how {
            How::Each(_) => crew.makers.len(),
            How::Pool(_) => Pool::threads(&crew.makers),
        };
        let board = Arc::new(Board::new(crew.launcher, threads));
        let mut queue = Ahead {
            board: Arc::clone(&board),
            pool: None,
            threads: Vec::new(),
            range: crew.range,
            post: crew.post,
        };
        match crew.how {
            How::Each(abreast) => {
                for maker in crew.makers {
                    let mut worker = Worker {
                        maker,
                        board: Arc::clone(&board),
                        range: crew.range,
                        abreast: abreast.max(1),
                        flying: Vec::new(),
                    };
                    let rank = worker.maker.collector.reach.shard.rank;
                    queue.threads.push(thread(rank, move || worker.work())?);
                }
            }
            How::Pool(settings) => {
                let with = (settings, crew.traced);
                let (pool, threads) = Pool::start(with, crew.makers, (board, crew.range))?;
                queue.pool = Some(pool);
                queue.threads = threads;
            }
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
            Queue::Ahead(queue) => {
                let number = queue.range.number(epoch, step);
                queue.board.take(number, step == 0)
            }
        }
    }

    /// What launches have been noted since the last call, and what threads have done.
    pub(crate) fn noted(&self) -> (Vec<LaunchRow>, Vec<Span>) {
        match self {
            Queue::Inline(_) => Default::default(),
            Queue::Ahead(queue) => {
                let spans = queue.pool.as_ref().map(|pool| pool.take_spans());
                (queue.board.noted(), spans.unwrap_or_default())
            }
        }
    }
}

/// A thread of a rank.
///
/// # Errors
/// [`Error::Io`] when there is none to be had.
pub(super) fn thread(rank: usize, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(format!("rank-{rank}"));
    thread.spawn(work).map_err(|e| Error::io("thread", e))
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
        let broken = !self.flying.is_empty() || std::thread::panicking();
        self.board.leave(broken);
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Threads that wait for room or for a letter must not wait any more.
        self.board.close();
        if let Some(pool) = &self.pool {
            pool.close();
        }
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
