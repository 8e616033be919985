//! Answers other ranks: in-edges drawn of this rank's vertices, their feature rows, what layers have made of
//! them and what is learnt of them.
//!
//! The owner computes: what a rank draws for another is what it would draw for itself. One thread
//! answers letter by letter: in the order in which they come, or of those that are there the one for the
//! oldest batch first and then the cheapest ([`Turn`]). Every request says for which epoch and step it is and
//! what it is expected to cost. What is learnt changes with every push, so its requests keep their order.

use super::hidden::Hidden;
use super::rows::RowData;
use super::shard::Shard;
use super::table::{AskedRows, Pushed, Table};
use super::wire::{Head, Query, What, pack};
use crate::comm::{Letter, Mailbox, Post, Precedence, Words, unreadable};
use crate::error::{Error, Result};
use crate::sample::Without;
use kernels::Mat;
use kernels::par::Par;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The mailbox of a rank's server.
pub(crate) const SERVER: u32 = 0;

/// What a rank answers for.
pub(crate) struct Served {
    pub(crate) shard: Arc<Shard>,
    /// Feature rows of its vertices.
    pub(crate) rows: RowData,
    /// What layers have made of them.
    pub(crate) hidden: Arc<Hidden>,
    /// What is learnt of them.
    pub(crate) table: Option<Arc<Table>>,
    /// What random waits before answers are made of.
    #[cfg(test)]
    pub(crate) delays: Option<u64>,
}

impl Drop for Served {
    /// However its thread ends, nobody waits for a push that it would have taken.
    fn drop(&mut self) {
        if let Some(table) = &self.table {
            table.close();
        }
    }
}

/// Who is answered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Who came first.
    Arrival,
    /// Who asks for the oldest batch, and of those for what is cheapest.
    Cost,
}

impl Turn {
    /// Which answer leaves first where the way out is slow.
    fn precedence(self, head: &Head, words: usize) -> Precedence {
        match self {
            Turn::Cost if head.what.in_any_order() => [head.at.0, head.at.1, words as u64],
            _ => Precedence::default(),
        }
    }
}

/// Whether it may wait, the epoch and the step that it is for, its cost, and when it came.
type Place = (bool, u64, u64, u32, usize);

/// Letters that have come and were not answered, the first one to answer on top.
#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<Place>>,
    letters: HashMap<usize, Letter>,
    count: usize,
}

impl Waiting {
    /// Takes a letter in. One that cannot be read comes first: it ends the rank.
    fn push(&mut self, letter: Letter) {
        let query = Query::read(letter.from, &letter.words);
        let place = match query.map(|query| query.head) {
            Ok(Head { what, at, cost, .. }) if what.in_any_order() => {
                (true, at.0, at.1, cost, self.count)
            }
            _ => (false, 0, 0, 0, self.count),
        };
        self.heap.push(Reverse(place));
        self.letters.insert(self.count, letter);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Letter> {
        let Reverse((.., number)) = self.heap.pop()?;
        self.letters.remove(&number)
    }
}

/// The next letter to answer; none once there will be none.
fn next(mailbox: &Mailbox, waiting: &mut Waiting, turn: Turn) -> Option<Letter> {
    if turn == Turn::Arrival {
        return mailbox.recv_idle().ok();
    }
    if waiting.heap.is_empty() {
        waiting.push(mailbox.recv_idle().ok()?);
    }
    while let Some(letter) = mailbox.try_recv() {
        waiting.push(letter);
    }
    waiting.pop()
}

/// The thread that answers.
pub(crate) struct Server {
    thread: Option<JoinHandle<()>>,
    post: Post,
}

/// Ends the rank's waiting threads if the one that answers panics: nobody else would.
struct Closes(Post);

impl Drop for Closes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

impl Server {
    /// Begins to answer for `of`.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending, [`Error::Io`] when there is no thread to be had.
    pub(crate) fn start(post: &Post, of: Served, turn: Turn) -> Result<Server> {
        let mailbox = post.open(SERVER)?;
        let name = format!("rank-{}", mailbox.rank());
        let closes = Closes(post.clone());
        let serve = move || {
            let (par, mut waiting) = (Par::new(1), Waiting::default());
            // Ends when letters do; one that cannot be read ends the rank's waiting threads as well.
            while let Some(letter) = next(&mailbox, &mut waiting, turn) {
                #[cfg(test)]
                super::tests::delay(of.delays);
                if let Err(e) = of.answer((&mailbox, turn), &par, &letter) {
                    eprintln!("error: {e}");
                    closes.0.close();
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(serve);
        Ok(Server {
            thread: Some(thread.map_err(|e| Error::io("thread", e))?),
            post: post.clone(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.post.close();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Served {
    /// Answers a letter.
    fn answer(&self, (mailbox, turn): (&Mailbox, Turn), par: &Par, letter: &Letter) -> Result<()> {
        let bad = || unreadable(letter.from, "a request");
        let query = Query::read(letter.from, &letter.words)?;
        let owned = self.shard.numbers.of(self.shard.rank).len() as u32;
        if query.rows.iter().any(|&r| r >= owned) {
            return Err(bad());
        }
        let words = match query.head.what {
            What::Draw(layer) => self.draw(layer, &query, par),
            What::Rows => self.rows.pack(query.rows),
            What::Hidden(layer) => {
                let made = self.hidden.get(layer).ok_or_else(bad)?;
                made.pack(query.rows)
            }
            What::Learnt => {
                let asked = AskedRows {
                    step: query.head.at.1,
                    rows: query.rows.to_vec(),
                    to: letter.asker(),
                    epoch: query.head.counted,
                };
                match self.table().ok_or_else(bad)?.ask(asked) {
                    Some((_, words)) => words,
                    // A push will answer it.
                    None => return Ok(()),
                }
            }
            What::Push => return self.push(mailbox, &query, (letter.from, par)),
            What::Settle => Words::new(),
        };
        let label = (query.head.what.label(), query.head.counted);
        let precedence = turn.precedence(&query.head, words.len());
        mailbox
            .outbox()
            .send_in_turn(precedence, label, letter.asker(), words)
    }

    fn table(&self) -> Option<&Table> {
        self.table.as_deref()
    }

    fn draw(&self, layer: usize, query: &Query<'_>, par: &Par) -> Words {
        let edges = query.data.chunks_exact(2).map(|e| [e[0], e[1]]);
        let edges: Vec<[u32; 2]> = edges.collect();
        let left_out = (!edges.is_empty()).then(|| Without::of_rows(edges));
        let (at, rows) = (query.head.at, query.rows);
        pack(&self.shard.draw(layer, at, rows, left_out.as_ref(), par))
    }

    /// Takes gradients in, and answers whoever has waited for them.
    fn push(&self, mailbox: &Mailbox, query: &Query<'_>, (from, par): (usize, &Par)) -> Result<()> {
        let bad = || unreadable(from, "a request");
        let table = self.table().ok_or_else(bad)?;
        let grads = bytemuck::cast_slice(query.data).to_vec();
        let grads = Mat::from_shape_vec((query.rows.len(), table.learning().width), grads);
        let pushed = Pushed {
            rank: from,
            step: query.head.at.1,
            rows: query.rows.to_vec(),
            grads: grads.map_err(|_| bad())?,
        };
        for (asked, words) in table.push(pushed, par) {
            mailbox.send((What::Learnt.label(), asked.epoch), asked.to, words)?;
        }
        Ok(())
    }
}
