//! Who asked for what comes in: one box for the answers to all threads.

use super::super::SERVER;
use super::super::wire::Query;
use super::dag::Dag;
use super::lock;
use super::logical::Place;
use crate::comm::{Address, Letter, Outbox, unreadable};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What was asked for.
pub(super) struct Asked {
    pub(super) dag: Arc<Dag>,
    /// The operator, and the number of the instance.
    pub(super) what: (Place, usize),
}

/// Requests without an answer.
pub(super) struct Answers {
    outbox: Outbox,
    requests: Mutex<Requests>,
    open: AtomicUsize,
}

#[derive(Default)]
struct Requests {
    /// The number of the next one.
    next: u32,
    /// By number, who was asked for what.
    asked: HashMap<u32, (usize, Asked)>,
}

impl Answers {
    /// None yet; requests leave by `outbox`.
    pub(super) fn new(outbox: &Outbox) -> Answers {
        Answers {
            outbox: outbox.clone(),
            requests: Mutex::default(),
            open: AtomicUsize::new(0),
        }
    }

    /// How many have not been answered.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Sends a request to `owner`'s server; `fine`: those of later batches may wait for it.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(super) fn ask(
        &self,
        owner: usize,
        (query, fine): (&Query<'_>, bool),
        of: Asked,
    ) -> Result<()> {
        let request = {
            let mut requests = lock(&self.requests);
            let request = requests.next;
            requests.next = request.wrapping_add(1);
            requests.asked.insert(request, (owner, of));
            request
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        self.outbox.awaits();
        let to = Address {
            rank: owner,
            mailbox: SERVER,
            request,
        };
        let label = (query.head.what.label(), query.head.counted);
        let (epoch, step) = query.head.at;
        let precedence = if fine { [epoch, step, 0] } else { [0; 3] };
        let words = query.words();
        self.outbox.send_in_turn(precedence, label, to, words)
    }

    /// What a letter answers.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] for one that answers nothing that was asked of its sender.
    pub(super) fn find(&self, letter: &Letter) -> Result<Asked> {
        let found = lock(&self.requests).asked.remove(&letter.request);
        match found {
            Some((owner, asked)) if owner == letter.from => {
                self.open.fetch_sub(1, Ordering::Relaxed);
                self.outbox.answered();
                Ok(asked)
            }
            _ => Err(unreadable(letter.from, "an answer")),
        }
    }

    /// The oldest batch that waits for an answer.
    pub(super) fn oldest(&self) -> Option<u64> {
        let requests = lock(&self.requests);
        let open = requests.asked.values();
        open.map(|(_, of)| of.dag.number).min()
    }
}
