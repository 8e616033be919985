//! Letters: messages of any length between background threads of ranks, in no agreed order.
//!
//! Collectives are for ranks in step. A server answers whenever somebody asks, so its messages cannot
//! be matched by order: a letter says which mailbox it is for, which one waits for the answer, and which
//! request it makes or answers. That stands on its envelope, which is no payload and is not counted.
//! Letters of one pair of ranks and one precedence arrive in the order sent.

use super::Label;
use super::outgoing::Precedence;
use super::port::{Board, Command};
use super::transport::Words;
use crate::error::{Error, Result};
use crate::record::{Direction, Traffic};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A letter as its reader gets it.
pub struct Letter {
    /// Who sent it.
    pub from: usize,
    /// The sender's mailbox for an answer.
    pub reply_to: u32,
    /// The request that it makes or answers, by the number that the asker gave it.
    pub request: u32,
    /// What it says.
    pub words: Words,
}

impl Letter {
    /// Where an answer goes.
    pub fn asker(&self) -> Address {
        Address {
            rank: self.from,
            mailbox: self.reply_to,
            request: self.request,
        }
    }
}

/// Where a letter goes, and what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The rank.
    pub rank: usize,
    /// Its mailbox.
    pub mailbox: u32,
    /// The request that the letter makes or answers; numbers are the asker's own.
    pub request: u32,
}

/// A letter as its writer hands it over.
pub(super) struct Delivery {
    pub(super) to: Address,
    pub(super) precedence: Precedence,
    pub(super) words: Words,
}

/// Layer, direction and receiver of letters.
pub type MailLane = (u16, Direction, u32);

/// By the epoch that letters are for.
type Ledger = Arc<Mutex<BTreeMap<u64, BTreeMap<MailLane, Traffic>>>>;

/// Opens mailboxes on one rank.
#[derive(Clone)]
pub struct Post {
    world: [usize; 2],
    out: Sender<Command>,
    board: Arc<Board>,
    sent: Ledger,
}

impl Post {
    /// In the place of an epoch: before the first.
    pub const SETUP: u64 = u64::MAX;

    pub(super) fn new(world: [usize; 2], out: Sender<Command>, board: Arc<Board>) -> Post {
        Post {
            world,
            out,
            board,
            sent: Ledger::default(),
        }
    }

    /// The mailbox `number` of this rank; each may be opened once.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending.
    pub fn open(&self, number: u32) -> Result<Mailbox> {
        let (to, inbox) = channel();
        let sent = self.out.send(Command::Open(number, to));
        sent.map_err(|_| self.board.gone("mail"))?;
        Ok(Mailbox {
            outbox: Outbox {
                number,
                post: self.clone(),
            },
            inbox,
        })
    }

    /// Ends the reading of all mailboxes of this rank: whoever waits for a letter gets an error.
    pub fn close(&self) {
        // Where the hub is gone, nobody waits.
        let _ = self.out.send(Command::Close);
    }

    /// Traffic of an epoch, by layer, direction and receiver: also what was sent before the epoch began, by
    /// those who work ahead. What was sent for [`Post::SETUP`] is in no epoch.
    pub fn take_sent(&self, epoch: u64) -> BTreeMap<MailLane, Traffic> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.remove(&epoch).unwrap_or_default()
    }
}

/// One reader's letters.
pub struct Mailbox {
    outbox: Outbox,
    inbox: Receiver<Letter>,
}

/// Sends letters whose answers come to one mailbox, from any thread.
#[derive(Clone)]
pub struct Outbox {
    number: u32,
    post: Post,
}

impl Outbox {
    /// Sends a letter to an address on another rank; an answer comes to the mailbox. It counts for the epoch
    /// `epoch`.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending.
    pub fn send(&self, label: (Label, u64), to: Address, words: Words) -> Result<()> {
        self.send_in_turn(Precedence::default(), label, to, words)
    }

    /// [`Outbox::send`] of a letter that others may pass, and that may pass others: those that wait for a
    /// slow way out leave in the order of their precedence.
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn send_in_turn(
        &self,
        precedence: Precedence,
        (label, epoch): (Label, u64),
        to: Address,
        words: Words,
    ) -> Result<()> {
        let post = &self.post;
        let lane = (label.layer, label.direction, to.rank as u32);
        {
            let mut sent = post.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let lanes = sent.entry(epoch).or_default();
            let traffic = lanes.entry(lane).or_default();
            traffic.bytes += 4 * words.len() as u64;
            traffic.messages += 1;
        }
        let delivery = Delivery {
            to,
            precedence,
            words,
        };
        let sent = post.out.send(Command::Letter(self.number, delivery));
        sent.map_err(|_| post.board.gone("mail"))
    }

    /// Says that one more answer is waited for, by a reader that also waits when there is none.
    pub fn awaits(&self) {
        let waiting = &self.post.board.waiting;
        waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that it has come.
    pub fn answered(&self) {
        let waiting = &self.post.board.waiting;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mailbox {
    /// This rank.
    pub fn rank(&self) -> usize {
        self.outbox.post.world[0]
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.outbox.post.world[1]
    }

    /// What sends letters whose answers come here.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Sends a letter, as [`Outbox::send`].
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending.
    pub fn send(&self, label: (Label, u64), to: Address, words: Words) -> Result<()> {
        self.outbox.send(label, to, words)
    }

    /// A letter that has come already, if any.
    pub fn try_recv(&self) -> Option<Letter> {
        self.inbox.try_recv().ok()
    }

    /// Waits for the next letter.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending or a peer is gone.
    pub fn recv(&self) -> Result<Letter> {
        if let Ok(letter) = self.inbox.try_recv() {
            return Ok(letter);
        }
        self.outbox.awaits();
        let letter = self.inbox.recv();
        self.outbox.answered();
        letter.map_err(|_| self.outbox.post.board.gone("mail"))
    }

    /// [`Mailbox::recv`] of a reader that nobody waits for, such as a server without requests.
    ///
    /// # Errors
    /// As [`Mailbox::recv`].
    pub fn recv_idle(&self) -> Result<Letter> {
        let letter = self.inbox.recv();
        letter.map_err(|_| self.outbox.post.board.gone("mail"))
    }
}

/// What a letter was expected to say and did not.
pub fn unreadable(from: usize, what: &str) -> Error {
    Error::Comm {
        op: "letter".into(),
        peer: Some(from as u32),
        reason: format!("{what} cannot be read"),
    }
}
