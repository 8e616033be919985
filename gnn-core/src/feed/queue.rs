//! Batches made ahead, by threads beside the one that trains.

use super::make::{Made, Maker};
use crate::comm::Post;
use crate::error::{Error, Result};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Batches in order.
pub(crate) enum Queue {
    /// Made when they are asked for.
    Inline(Box<Maker>),
    /// Made ahead by several threads in turns.
    Ahead(Ahead),
}

/// Threads that make batches ahead.
pub(crate) struct Ahead {
    /// By thread, its batches.
    made: Vec<Receiver<Result<Made>>>,
    threads: Vec<JoinHandle<()>>,
    batches: u64,
    first: u64,
    post: Option<Post>,
}

/// Which batches a run has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// Batches of an epoch.
    pub(crate) batches: u64,
    /// First epoch.
    pub(crate) first: u64,
    /// The epoch after the last.
    pub(crate) end: u64,
}

impl Queue {
    /// Begins to make the batches of `span`, each thread with a maker of its own, `ahead` of them
    /// together; none ahead are made when they are asked for. `post` is what their letters come from.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had.
    pub(crate) fn start(
        mut makers: Vec<Maker>,
        ahead: usize,
        span: Span,
        post: Option<Post>,
    ) -> Result<Queue> {
        if ahead == 0
            && let Some(maker) = makers.pop()
        {
            return Ok(Queue::Inline(Box::new(maker)));
        }
        let workers = makers.len();
        let mut queue = Ahead {
            made: Vec::with_capacity(workers),
            threads: Vec::with_capacity(workers),
            batches: span.batches,
            first: span.first,
            post,
        };
        for (k, mut maker) in makers.into_iter().enumerate() {
            // Beside what the channel holds, the thread holds one.
            let (to, from) = sync_channel((ahead / workers).saturating_sub(1));
            let name = format!("rank-{}", maker.collector.reach.shard.rank);
            let work = move || {
                let of_run = span.first * span.batches..span.end * span.batches;
                for batch in of_run.skip(k).step_by(workers) {
                    let made = maker.make(batch / span.batches, batch % span.batches);
                    let failed = made.is_err();
                    // Nobody asks any more once the run has ended.
                    if to.send(made).is_err() || failed {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(name).spawn(work);
            queue
                .threads
                .push(thread.map_err(|e| Error::io("thread", e))?);
            queue.made.push(from);
        }
        Ok(Queue::Ahead(queue))
    }

    /// Batch `step` of `epoch`; all are asked for in order.
    ///
    /// # Errors
    /// What its maker met.
    pub(crate) fn take(&mut self, epoch: u64, step: u64) -> Result<Made> {
        match self {
            Queue::Inline(maker) => maker.make(epoch, step),
            Queue::Ahead(queue) => {
                let batch = (epoch - queue.first) * queue.batches + step;
                let worker = (batch % queue.made.len() as u64) as usize;
                queue.made[worker].recv().unwrap_or_else(|_| {
                    Err(Error::Comm {
                        op: "batch".into(),
                        peer: None,
                        reason: "the thread that makes batches has ended".into(),
                    })
                })
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Threads that wait for room or for a letter must not wait any more.
        self.made.clear();
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
