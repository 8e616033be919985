//! Collectives on point-to-point messages, metered.
//!
//! Every operation exists as `post_*`, which returns a [`Ticket`], and blocking, which posts and
//! finishes. All ranks of a communicator call its collectives in the same order; between two matched
//! collectives no rank may return early. Bytes are payload bytes handed to a peer: what a rank keeps for
//! itself, and a world of one, counts as zero.
//!
//! Sums add in rank order, so they are the same on every rank, transport and run.
//!
//! A [`Communicator::group`] is a communicator of some of the ranks, which need not be in step with the
//! others.

use super::members::Members;
use super::operation::{Chain, Part, Posted, Then};
use super::route::Route;
use super::tags::Tags;
use super::transport::{Transport, Words};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::record::{Label, Meter, Op, now_ns};
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// Why a rank stopped waiting that was told to.
pub const GIVEN_UP: &str = "given up on request";

/// A posted operation that somebody must finish, on whichever communicator of its rank.
#[must_use = "a posted operation must be finished on every rank"]
#[derive(Debug)]
pub struct Ticket {
    pub(super) slot: usize,
}

/// The ranks of a run, or of a group of them, as one of them sees them.
pub struct Communicator {
    wire: Rc<RefCell<Wire>>,
    members: Rc<Members>,
    tags: Tags,
}

impl Communicator {
    /// Wraps a transport. `give_way`: ranks outnumber cores, so waiting ranks sleep.
    pub fn new(transport: Box<dyn Transport>, meter: Rc<Meter>, give_way: bool) -> Communicator {
        let members = Members::world_of(transport.as_ref());
        let wire = Wire::new(transport, meter, give_way);
        Communicator::over(Rc::new(RefCell::new(wire)), members, 0)
    }

    /// These members over a wire that they have in common with other groups, each with a number of its
    /// own.
    pub(super) fn over(wire: Rc<RefCell<Wire>>, members: Members, group: u16) -> Communicator {
        Communicator {
            wire,
            tags: Tags::of(group, members.len()),
            members: Rc::new(members),
        }
    }

    pub(super) fn wire(&self) -> RefMut<'_, Wire> {
        self.wire.borrow_mut()
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The wire, for another communicator of this rank.
    pub(super) fn shared_wire(&self) -> Rc<RefCell<Wire>> {
        Rc::clone(&self.wire)
    }

    /// From now on a rank that waits asks `cancel` now and then, and gives up with [`GIVEN_UP`] when it
    /// says so. What was posted then is lost: use [`Settle::settle`](super::Settle) before another
    /// communicator on the same transport.
    pub fn cancel_when(&mut self, cancel: impl Fn() -> bool + 'static) {
        self.wire().cancel = Some(Box::new(cancel));
    }

    /// From now on gradients that are added up have no values: nothing is computed, and nobody reads them.
    pub(crate) fn add_nothing(&mut self) {
        self.wire().hollow = true;
    }

    /// From now on each collective is finished where it is posted, and no message moves beside other
    /// work. Ranks post collectives in one order, so none waits for ever that did not before; messages
    /// between two ranks are still finished where they are waited for, as their order is not fixed, and
    /// so is everything once there is a group.
    pub fn finish_at_once(&mut self) {
        self.wire().at_once = true;
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.members.me()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// What one of these ranks is called in the world of all.
    pub fn world_rank(&self, rank: usize) -> usize {
        self.members.world(rank)
    }

    fn send(&self, to: usize, tag: u16, of: (Label, Op), words: Words) -> Result<()> {
        self.wire().send(self.members.world(to), tag, of, words)
    }

    /// What is to come from a rank of a collective: nothing of this one, and nothing that is empty.
    fn part(&self, from: usize, tag: u16, len: usize) -> Result<Part> {
        let peer = self.members.world(from);
        if from == self.rank() || len == 0 {
            return Ok(Part::here(peer, Words::new()));
        }
        self.wire().expect(peer, tag, len)
    }

    /// Hands over a collective whose messages have left since `start`.
    fn park(
        &self,
        start: u64,
        of: (Label, Op),
        tag: u16,
        parts: Vec<Part>,
        then: Then,
    ) -> Result<Ticket> {
        self.wire().meter.moved(of.0, of.1, start..now_ns());
        self.charge(of, tag, parts, then)
    }

    fn charge(
        &self,
        (label, op): (Label, Op),
        tag: u16,
        parts: Vec<Part>,
        then: Then,
    ) -> Result<Ticket> {
        let members = Rc::clone(&self.members);
        self.wire().park(Posted {
            label,
            op,
            tag,
            members,
            parts,
            then,
        })
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
        let (of, tag, me) = ((label, Op::Alltoall), self.tags.collective(), self.rank());
        let mut parts = Vec::with_capacity(self.size());
        for (rank, &len) in recv_len.iter().enumerate() {
            parts.push(self.part(rank, tag, len)?);
        }
        for (rank, floats) in send.into_iter().enumerate() {
            let words: Words = bytemuck::cast_vec(floats);
            if rank == me {
                parts[me].words = words;
            } else if !words.is_empty() {
                self.send(rank, tag, of, words)?;
            }
        }
        self.park(start, of, tag, parts, Then::Finish)
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
        let (of, tag) = ((label, Op::Gather), self.tags.collective());
        let words = bytemuck::cast_vec(mine);
        let parts = self.wire().spread(&self.members, tag, of, words, lens)?;
        self.park(start, of, tag, parts, Then::Finish)
    }

    /// Gives `root`'s `data`, of length `len`, to every rank; other ranks pass anything.
    ///
    /// Up to 8 kB goes from the root to each other rank. More goes in segments along the chain root,
    /// root + 1, …, around the ring of ranks: each rank but the last hands on what comes, one message a
    /// segment, whenever it waits or polls. Either way every rank but the root receives `4 · len` bytes;
    /// [`Communicator::broadcast_to`] says who sends them.
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
        let (of, tag, me) = ((label, Op::Broadcast), self.tags.collective(), self.rank());
        let route = Route::of(me, root, self.size(), len);
        let segment = route.segment.unwrap_or(len.max(1));
        if me == root {
            let words: Words = bytemuck::cast_vec(data);
            if words.len() != len {
                return Err(Error::Comm {
                    op: Op::Broadcast.label().into(),
                    peer: None,
                    reason: format!("expected {len} words, got {}", words.len()),
                });
            }
            for to in route.to() {
                for piece in words.chunks(segment) {
                    self.send(to, tag, of, piece.to_vec())?;
                }
            }
            let part = Part::here(self.members.world(me), words);
            return self.park(start, of, tag, vec![part], Then::Finish);
        }
        let mut chain = Chain {
            from: self.members.world(route.from()),
            to: route.to().first().map(|&to| self.members.world(to)),
            segment,
            left: len,
        };
        let part = self.part(route.from(), tag, chain.ask().unwrap_or(0))?;
        self.park(start, of, tag, vec![part], Then::Forward(chain))
    }

    /// The ranks to which this one hands all of a broadcast of `len` floats from `root`.
    pub fn broadcast_to(&self, root: usize, len: usize) -> Vec<usize> {
        if len == 0 {
            return Vec::new();
        }
        Route::of(self.rank(), root, self.size(), len).to()
    }

    /// Sums `data` over ranks. Each rank sums one chunk in rank order and gives it to the others:
    /// `2·(N−1)/N` of the vector leaves every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_all_reduce(&mut self, label: Label, data: Vec<f32>) -> Result<Ticket> {
        let start = now_ns();
        let (of, tag, me) = ((label, Op::Allreduce), self.tags.collective(), self.rank());
        let bounds = kernels::par::split_rows(data.len(), self.size());
        let chunk =
            |rank: usize| -> &[u32] { bytemuck::cast_slice(&data[bounds[rank]..bounds[rank + 1]]) };
        let mut parts = Vec::with_capacity(self.size());
        for rank in 0..self.size() {
            parts.push(self.part(rank, tag, chunk(me).len())?);
        }
        let sum = self.wire().sum(label);
        parts[me].words = sum.copy(chunk(me));
        for rank in (0..self.size()).filter(|&r| r != me && !chunk(r).is_empty()) {
            self.send(rank, tag, of, sum.copy(chunk(rank)))?;
        }
        self.park(start, of, tag, parts, Then::Share(bounds))
    }

    /// Tells every rank that this one has come; finished when all have.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn post_barrier(&mut self, label: Label) -> Result<Ticket> {
        let start = now_ns();
        let (of, tag, lens) = (
            (label, Op::Barrier),
            self.tags.collective(),
            vec![1; self.size()],
        );
        let parts = self.wire().spread(&self.members, tag, of, vec![0], &lens)?;
        self.park(start, of, tag, parts, Then::Finish)
    }

    /// Sends floats to one rank. Nothing to finish.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone.
    pub fn post_send(&mut self, label: Label, to: usize, data: Vec<f32>) -> Result<()> {
        let start = now_ns();
        let tag = self.tags.to(to);
        self.send(to, tag, (label, Op::P2p), bytemuck::cast_vec(data))?;
        self.wire().meter.moved(label, Op::P2p, start..now_ns());
        Ok(())
    }

    /// Receives `len` floats from one rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone or sends another length.
    pub fn post_recv(&mut self, label: Label, from: usize, len: usize) -> Result<Ticket> {
        let tag = self.tags.from(from);
        let peer = self.members.world(from);
        let part = self.wire().expect(peer, tag, len)?;
        self.charge((label, Op::P2p), tag, vec![part], Then::Finish)
    }

    /// Lets posted operations progress, those of other communicators of this rank too. Cheap; call it
    /// between pieces of work.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sent another length.
    pub fn poll(&mut self) -> Result<()> {
        self.wire().poll()
    }

    /// Waits for a posted operation. The result has one entry a rank for all-to-all and gather,
    /// and one entry for broadcast, receive and all-reduce.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sent another length.
    pub fn finish(&mut self, ticket: Ticket) -> Result<Vec<Vec<f32>>> {
        self.wire().finish(ticket)
    }

    /// Waits until everything this rank sent has left it.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn drain(&mut self) -> Result<()> {
        self.wire().transport.drain()
    }

    /// Ends every rank of the world. May not return.
    pub fn abort(&mut self, code: i32) {
        self.wire().transport.abort(code);
    }
}
