//! A thread's requests to other ranks, and their answers in whatever order those come.
//!
//! Every request has a number, and its answer comes with the same one: so a thread may have asked for many
//! things, for several batches, before the first answer is there.

use super::table::Answer;
use super::wire::{Query, What};
use crate::comm::{Address, Mailbox, Words, unreadable};
use crate::error::Result;
use crate::record::now_ns;
use std::collections::HashMap;

/// A request that will be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u32);

/// Where one thread's answers come.
pub(crate) struct Desk {
    mailbox: Mailbox,
    next: u32,
    /// By request that has not been answered, who was asked.
    asked: HashMap<Ticket, usize>,
    /// Answers that nobody has taken yet.
    answers: HashMap<Ticket, Words>,
    /// Time spent waiting for answers.
    waited_ns: u64,
}

impl Desk {
    /// One whose answers come to `mailbox`.
    pub(crate) fn new(mailbox: Mailbox) -> Desk {
        Desk {
            mailbox,
            next: 0,
            asked: HashMap::new(),
            answers: HashMap::new(),
            waited_ns: 0,
        }
    }

    /// Gives the mailbox to somebody else, while nothing is open.
    pub(super) fn into_mailbox(self) -> Mailbox {
        debug_assert!(self.asked.is_empty(), "answers would come to another");
        self.mailbox
    }

    /// Sends a request that `owner`'s server answers.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(super) fn ask(&mut self, owner: usize, query: &Query<'_>) -> Result<Ticket> {
        let ticket = Ticket(self.next);
        self.next = self.next.wrapping_add(1);
        self.send(owner, ticket, query)?;
        self.asked.insert(ticket, owner);
        Ok(ticket)
    }

    /// Sends a request that nobody answers.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(super) fn tell(&self, owner: usize, query: &Query<'_>) -> Result<()> {
        self.send(owner, Ticket(self.next), query)
    }

    fn send(&self, owner: usize, ticket: Ticket, query: &Query<'_>) -> Result<()> {
        let to = Address {
            rank: owner,
            mailbox: super::SERVER,
            request: ticket.0,
        };
        let label = (query.head.what.label(), query.head.counted);
        self.mailbox.send(label, to, query.words())
    }

    /// Sends an answer that another thread's work has made possible.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(super) fn answer(&self, (asked, words): Answer) -> Result<()> {
        let label = (What::Learnt.label(), asked.epoch);
        self.mailbox.send(label, asked.to, words)
    }

    /// The answer to a request, if it has come.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Words> {
        self.answers.remove(&ticket)
    }

    /// Waits for one more answer, to whichever request.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending or a peer is gone, and for a letter that answers
    /// nothing that was asked of its sender.
    pub(super) fn wait(&mut self) -> Result<()> {
        let start = now_ns();
        let letter = self.mailbox.recv()?;
        self.waited_ns += now_ns() - start;
        let ticket = Ticket(letter.request);
        if self.asked.remove(&ticket) != Some(letter.from) {
            return Err(unreadable(letter.from, "an answer"));
        }
        self.answers.insert(ticket, letter.words);
        Ok(())
    }

    /// Adds time spent waiting for what no letter brings.
    pub(super) fn also_waited(&mut self, ns: u64) {
        self.waited_ns += ns;
    }

    /// Time spent waiting since the last call.
    pub(super) fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited_ns)
    }
}
