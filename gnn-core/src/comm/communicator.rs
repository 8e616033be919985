//! Collectives on point-to-point messages, metered.
//!
//! Every operation exists as `post_*`, which returns a [`Ticket`], and blocking, which posts and
//! finishes. All ranks call collectives in the same order; between two matched collectives no rank
//! may return early. Bytes are payload bytes handed to a peer: what a rank keeps for itself, and a
//! world of one, counts as zero.
//!
//! Sums add in rank order, so they are the same on every rank, transport and run.

use super::covered::covered;
use super::hub::HEAD_TAG;
use super::operation::{Part, Posted, Then};
use super::transport::{Transport, Words};
use crate::error::{Error, Result};
use crate::record::{Label, Meter, Op, Phase, SpanPhase, now_ns};
use std::rc::Rc;

/// Collective tags count up below this, point-to-point tags above (MPI promises 15 bits).
const TAGS: u16 = 1 << 14;
/// Point-to-point tags; those of letters follow.
const PAIR_TAGS: u16 = HEAD_TAG - TAGS;
/// Why a rank stopped waiting that was told to.
pub const GIVEN_UP: &str = "given up on request";

/// A posted operation that somebody must finish.
#[must_use = "a posted operation must be finished on every rank"]
#[derive(Debug)]
pub struct Ticket {
    slot: usize,
}

/// The ranks of a run, as one of them sees them.
pub struct Communicator {
    pub(super) transport: Box<dyn Transport>,
    pub(super) meter: Rc<Meter>,
    posted: Vec<Option<Posted>>,
    collectives: u16,
    pairs: Vec<[u16; 2]>,
    pub(super) give_way: bool,
    /// Whether collectives are finished where they are posted.
    pub(super) at_once: bool,
    /// Asked while this rank waits: whether it shall give up.
    pub(super) cancel: Option<Box<dyn Fn() -> bool>>,
    /// Up to when movement beside other work has been counted.
    counted_ns: u64,
}

impl Communicator {
    /// Wraps a transport. `give_way`: ranks outnumber cores, so waiting ranks sleep.
    pub fn new(transport: Box<dyn Transport>, meter: Rc<Meter>, give_way: bool) -> Communicator {
        let size = transport.size();
        Communicator {
            transport,
            meter,
            posted: Vec::new(),
            collectives: 0,
            pairs: vec![[0; 2]; size],
            give_way,
            at_once: false,
            cancel: None,
            counted_ns: now_ns(),
        }
    }

    /// From now on a rank that waits asks `cancel` now and then, and gives up with [`GIVEN_UP`] when it
    /// says so. What was posted then is lost: use [`Settle::settle`](super::Settle) before another
    /// communicator on the same transport.
    pub fn cancel_when(&mut self, cancel: impl Fn() -> bool + 'static) {
        self.cancel = Some(Box::new(cancel));
    }

    /// From now on each collective is finished where it is posted, and no message moves beside other
    /// work. Ranks post collectives in one order, so none waits for ever that did not before; messages
    /// between two ranks are still finished where they are waited for, as their order is not fixed.
    pub fn finish_at_once(&mut self) {
        self.at_once = true;
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.transport.size()
    }

    fn next_tag(&mut self) -> u16 {
        // Tag 0 is the transports' own.
        self.collectives = self.collectives % (TAGS - 1) + 1;
        self.collectives
    }

    fn send(&mut self, to: usize, tag: u16, label: Label, op: Op, words: Words) -> Result<()> {
        let bytes = (words.len() * 4) as u64;
        self.meter.sent(label.layer, label.direction, op, to, bytes);
        let start = now_ns();
        self.transport.post_send(to, tag, words)?;
        self.meter.comm_span(
            (label, op),
            SpanPhase::Send,
            (Some(to), Some(bytes)),
            start..now_ns(),
        );
        Ok(())
    }

    fn expect(&mut self, from: usize, tag: u16, len: usize) -> Result<Part> {
        let handle = self.transport.post_recv(from, tag, len)?;
        Ok(Part {
            peer: from,
            handle: Some(handle),
            words: Vec::new(),
            seen_ns: None,
        })
    }

    fn keep(&self, peer: usize, words: Words) -> Part {
        Part {
            peer,
            handle: None,
            words,
            seen_ns: None,
        }
    }

    fn park(&mut self, mut posted: Posted) -> Result<Ticket> {
        if posted.op != Op::P2p {
            self.meter.collective(posted.label.direction);
            if self.at_once {
                self.complete(&mut posted)?;
            }
        }
        let free = self.posted.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.posted.push(None);
            self.posted.len() - 1
        });
        self.posted[slot] = Some(posted);
        Ok(Ticket { slot })
    }

    /// Sends `send[r]` to every rank `r` and receives `recv_len[r]` floats from it. Empty messages
    /// are not sent.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_all_to_all_v(
        &mut self,
        label: Label,
        send: Vec<Vec<f32>>,
        recv_len: &[usize],
    ) -> Result<Ticket> {
        let start = now_ns();
        let (tag, me) = (self.next_tag(), self.rank());
        let mut parts = Vec::with_capacity(self.size());
        for (peer, &len) in recv_len.iter().enumerate() {
            let absent = peer == me || len == 0;
            parts.push(if absent {
                self.keep(peer, Vec::new())
            } else {
                self.expect(peer, tag, len)?
            });
        }
        for (peer, floats) in send.into_iter().enumerate() {
            let words = bytemuck::cast_vec(floats);
            if peer == me {
                parts[me].words = words;
            } else if !words.is_empty() {
                self.send(peer, tag, label, Op::Alltoall, words)?;
            }
        }
        self.meter.moved(label, Op::Alltoall, start..now_ns());
        self.park(Posted {
            label,
            op: Op::Alltoall,
            tag,
            parts,
            then: Then::Finish,
        })
    }

    /// Gives every rank's `mine`, of lengths `lens`, to every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_all_gather_v(
        &mut self,
        label: Label,
        mine: Vec<f32>,
        lens: &[usize],
    ) -> Result<Ticket> {
        let start = now_ns();
        let (tag, me) = (self.next_tag(), self.rank());
        let words: Words = bytemuck::cast_vec(mine);
        let parts = self.spread(tag, label, Op::Gather, words, lens, me)?;
        self.meter.moved(label, Op::Gather, start..now_ns());
        self.park(Posted {
            label,
            op: Op::Gather,
            tag,
            parts,
            then: Then::Finish,
        })
    }

    fn spread(
        &mut self,
        tag: u16,
        label: Label,
        op: Op,
        words: Words,
        lens: &[usize],
        me: usize,
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(lens.len());
        for (peer, &len) in lens.iter().enumerate() {
            let absent = peer == me || len == 0;
            parts.push(if absent {
                self.keep(peer, Vec::new())
            } else {
                self.expect(peer, tag, len)?
            });
        }
        for peer in (0..lens.len()).filter(|&p| p != me && !words.is_empty()) {
            self.send(peer, tag, label, op, words.clone())?;
        }
        parts[me].words = words;
        Ok(parts)
    }

    /// Gives `root`'s `data`, of length `len`, to every rank; other ranks pass anything.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_broadcast(
        &mut self,
        label: Label,
        root: usize,
        data: Vec<f32>,
        len: usize,
    ) -> Result<Ticket> {
        let start = now_ns();
        let (tag, me) = (self.next_tag(), self.rank());
        let part = if me == root {
            let words: Words = bytemuck::cast_vec(data);
            for peer in (0..self.size()).filter(|&p| p != me && len > 0) {
                self.send(peer, tag, label, Op::Broadcast, words.clone())?;
            }
            self.keep(root, words)
        } else if len == 0 {
            self.keep(root, Vec::new())
        } else {
            self.expect(root, tag, len)?
        };
        self.meter.moved(label, Op::Broadcast, start..now_ns());
        self.park(Posted {
            label,
            op: Op::Broadcast,
            tag,
            parts: vec![part],
            then: Then::Finish,
        })
    }

    /// Sums `data` over ranks. Each rank sums one chunk in rank order and gives it to the others:
    /// `2·(N−1)/N` of the vector leaves every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_all_reduce(&mut self, label: Label, data: Vec<f32>) -> Result<Ticket> {
        let start = now_ns();
        let (tag, me, size) = (self.next_tag(), self.rank(), self.size());
        let bounds = kernels::par::split_rows(data.len(), size);
        let mine = bounds[me]..bounds[me + 1];
        let mut parts = Vec::with_capacity(size);
        for peer in 0..size {
            let part = if peer == me || mine.is_empty() {
                let own = if peer == me { &data[mine.clone()] } else { &[] };
                self.keep(peer, bytemuck::cast_slice(own).to_vec())
            } else {
                self.expect(peer, tag, mine.len())?
            };
            parts.push(part);
        }
        for peer in (0..size).filter(|&p| p != me) {
            let chunk: &[u32] = bytemuck::cast_slice(&data[bounds[peer]..bounds[peer + 1]]);
            if !chunk.is_empty() {
                self.send(peer, tag, label, Op::Allreduce, chunk.to_vec())?;
            }
        }
        self.meter.moved(label, Op::Allreduce, start..now_ns());
        self.park(Posted {
            label,
            op: Op::Allreduce,
            tag,
            parts,
            then: Then::Share(bounds),
        })
    }

    /// Tells every rank that this one has come; finished when all have.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn post_barrier(&mut self, label: Label) -> Result<Ticket> {
        let start = now_ns();
        let (tag, me, lens) = (self.next_tag(), self.rank(), vec![1; self.size()]);
        let parts = self.spread(tag, label, Op::Barrier, vec![0], &lens, me)?;
        self.meter.moved(label, Op::Barrier, start..now_ns());
        self.park(Posted {
            label,
            op: Op::Barrier,
            tag,
            parts,
            then: Then::Finish,
        })
    }

    /// Sends floats to one rank. Nothing to finish.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone.
    pub fn post_send(&mut self, label: Label, to: usize, data: Vec<f32>) -> Result<()> {
        let start = now_ns();
        let count = &mut self.pairs[to][0];
        *count = (*count + 1) % PAIR_TAGS;
        let tag = TAGS + *count;
        self.send(to, tag, label, Op::P2p, bytemuck::cast_vec(data))?;
        self.meter.moved(label, Op::P2p, start..now_ns());
        Ok(())
    }

    /// Receives `len` floats from one rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone or sends another length.
    pub fn post_recv(&mut self, label: Label, from: usize, len: usize) -> Result<Ticket> {
        let count = &mut self.pairs[from][1];
        *count = (*count + 1) % PAIR_TAGS;
        let tag = TAGS + *count;
        let part = self.expect(from, tag, len)?;
        self.park(Posted {
            label,
            op: Op::P2p,
            tag,
            parts: vec![part],
            then: Then::Finish,
        })
    }

    /// Lets posted operations progress. Cheap; call it between pieces of work.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sent another length.
    pub fn poll(&mut self) -> Result<()> {
        if self.at_once {
            return Ok(());
        }
        let start = now_ns();
        let (mut busy, mut moved) = (None, Vec::new());
        for slot in 0..self.posted.len() {
            let Some(mut posted) = self.posted[slot].take() else {
                continue;
            };
            busy = Some((posted.label, posted.op));
            let transport = self.transport.as_mut();
            let done = posted.poll(transport, &mut moved, &self.meter)?.is_none();
            if done && matches!(posted.then, Then::Share(_)) {
                self.advance(&mut posted)?;
            }
            self.posted[slot] = Some(posted);
        }
        let counted_ns = std::mem::replace(&mut self.counted_ns, now_ns());
        if let Some((label, op)) = busy {
            self.meter
                .hidden((label, op), &covered(moved, counted_ns..start));
            self.meter.moved(label, op, start..self.counted_ns);
        }
        Ok(())
    }

    /// Waits for a posted operation. The result has one entry a rank for all-to-all and gather,
    /// and one entry for broadcast, receive and all-reduce.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sent another length.
    pub fn finish(&mut self, ticket: Ticket) -> Result<Vec<Vec<f32>>> {
        // What moved until here did so beside other work.
        self.poll()?;
        let mut posted = self.posted[ticket.slot].take().ok_or_else(|| Error::Comm {
            op: "finish".into(),
            peer: None,
            reason: "the operation was finished already".into(),
        })?;
        self.complete(&mut posted)?;
        let mut parts: Vec<Vec<f32>> = posted
            .parts
            .into_iter()
            .map(|p| bytemuck::cast_vec(p.words))
            .collect();
        if matches!(posted.then, Then::Join) {
            parts = vec![parts.concat()];
        }
        Ok(parts)
    }

    /// Waits until nothing of an operation is open.
    fn complete(&mut self, posted: &mut Posted) -> Result<()> {
        let before = self.meter.enter(Phase::Comm);
        self.block_on(posted)?;
        while matches!(posted.then, Then::Share(_)) {
            let start = now_ns();
            self.advance(posted)?;
            self.meter.moved(posted.label, posted.op, start..now_ns());
            self.block_on(posted)?;
        }
        self.meter.enter(before);
        self.counted_ns = now_ns();
        Ok(())
    }

    /// Second stage of an all-reduce. The caller meters it.
    fn advance(&mut self, posted: &mut Posted) -> Result<()> {
        let Then::Share(bounds) = std::mem::replace(&mut posted.then, Then::Join) else {
            return Ok(());
        };
        let me = self.rank();
        let mut parts = posted.parts.iter();
        let mut sum: Vec<f32> = match parts.next() {
            Some(first) => bytemuck::cast_slice(&first.words).to_vec(),
            None => Vec::new(),
        };
        for part in parts {
            let floats: &[f32] = bytemuck::cast_slice(&part.words);
            sum.iter_mut().zip(floats).for_each(|(s, x)| *s += x);
        }
        let lens: Vec<usize> = bounds.windows(2).map(|b| b[1] - b[0]).collect();
        let words = bytemuck::cast_vec(sum);
        posted.parts = self.spread(posted.tag, posted.label, Op::Allreduce, words, &lens, me)?;
        Ok(())
    }

    /// Waits until everything this rank sent has left it.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn drain(&mut self) -> Result<()> {
        self.transport.drain()
    }

    /// Ends every rank of the world. May not return.
    pub fn abort(&mut self, code: i32) {
        self.transport.abort(code);
    }
}
