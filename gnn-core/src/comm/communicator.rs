//! Collectives on point-to-point messages, metered.
//!
//! Every operation exists as `post_*`, which returns a [`Ticket`], and blocking, which posts and
//! finishes. All ranks of a communicator call its collectives in the same order; between two matched
//! collectives no rank may return early. Bytes are payload bytes handed to a peer: what a rank keeps for
//! itself, and a world of one, counts as zero.
//!
//! Sums add in rank order, so they are the same on every rank, transport and run.
//!
//! What is posted is a [`Payload`]: messages of rows stay on the device where ranks have a way between their
//! devices ([`Communicator::between_devices`]), and numbers pass through the host.
//!
//! A [`Communicator::group`] is a communicator of some of the ranks, which need not be in step with the
//! others.

use super::lane::Lane;
use super::members::Members;
use super::message::{Message, Payload, Place, Ticket};
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

/// The ranks of a run, or of a group of them, as one of them sees them.
pub struct Communicator {
    wire: Rc<RefCell<Wire>>,
    members: Rc<Members>,
    tags: Tags,
    /// The way between devices, where there is one.
    lane: Option<Lane>,
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
            lane: None,
        }
    }

    pub(super) fn lane(&self) -> Option<&Lane> {
        self.lane.as_ref()
    }

    pub(super) fn set_lane(&mut self, lane: Option<Lane>) -> Option<Lane> {
        std::mem::replace(&mut self.lane, lane)
    }

    pub(super) fn with_lane(mut self, lane: Option<Lane>) -> Communicator {
        self.lane = lane;
        self
    }

    /// The lane, for what stays on the device.
    fn lane_for<P: Payload>(&self) -> Option<&Lane> {
        self.lane.as_ref().filter(|_| P::STAYS)
    }

    /// The lane, for what stays on the device on its way from a rank to another.
    fn line_for<P: Payload>(&self, from: usize, to: usize) -> Option<&Lane> {
        self.lane_for::<P>().filter(|lane| lane.has_line(from, to))
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
    ) -> Result<usize> {
        self.wire().meter.moved(of.0, of.1, start..now_ns());
        self.charge(of, tag, parts, then)
    }

    fn charge(
        &self,
        (label, op): (Label, Op),
        tag: u16,
        parts: Vec<Part>,
        then: Then,
    ) -> Result<usize> {
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
    pub fn post_all_to_all_v<P: Payload>(
        &mut self,
        label: Label,
        send: Vec<P>,
        recv_len: &[usize],
    ) -> Result<Ticket<P>> {
        let send = send.into_iter().map(P::into);
        if let Some(lane) = self.lane_for::<P>() {
            let slot = lane.all_to_all(&self.members, label, send.collect(), recv_len)?;
            return Ok(Ticket::of(Place::Lane(slot)));
        }
        let start = now_ns();
        let (of, tag, me) = ((label, Op::Alltoall), self.tags.collective(), self.rank());
        let mut parts = Vec::with_capacity(self.size());
        for (rank, &len) in recv_len.iter().enumerate() {
            parts.push(self.part(rank, tag, len)?);
        }
        for (rank, message) in send.enumerate() {
            let words: Words = bytemuck::cast_vec(message.floats());
            if rank == me {
                parts[me].words = words;
            } else if !words.is_empty() {
                self.send(rank, tag, of, words)?;
            }
        }
        self.park(start, of, tag, parts, Then::Finish).map(on_wire)
    }

    /// Gives every rank's `mine`, of lengths `lens`, to every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn post_all_gather_v<P: Payload>(
        &mut self,
        label: Label,
        mine: P,
        lens: &[usize],
    ) -> Result<Ticket<P>> {
        let mine: Message = mine.into();
        if let Some(lane) = self.lane_for::<P>() {
            let slot = lane.all_gather(&self.members, label, mine, lens)?;
            return Ok(Ticket::of(Place::Lane(slot)));
        }
        let start = now_ns();
        let (of, tag) = ((label, Op::Gather), self.tags.collective());
        let words = bytemuck::cast_vec(mine.floats());
        let parts = self.wire().spread(&self.members, tag, of, words, lens)?;
        self.park(start, of, tag, parts, Then::Finish).map(on_wire)
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
    pub fn post_broadcast<P: Payload>(
        &mut self,
        label: Label,
        root: usize,
        data: P,
        len: usize,
    ) -> Result<Ticket<P>> {
        let data: Message = data.into();
        if let Some(lane) = self.lane_for::<P>() {
            let slot = lane.broadcast(&self.members, label, root, data, len)?;
            return Ok(Ticket::of(Place::Lane(slot)));
        }
        let start = now_ns();
        let (of, tag, me) = ((label, Op::Broadcast), self.tags.collective(), self.rank());
        let route = Route::of(me, root, self.size(), len);
        let segment = route.segment.unwrap_or(len.max(1));
        if me == root {
            let words: Words = bytemuck::cast_vec(data.floats());
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
            let parked = self.park(start, of, tag, vec![part], Then::Finish);
            return parked.map(on_wire);
        }
        let mut chain = Chain {
            from: self.members.world(route.from()),
            to: route.to().first().map(|&to| self.members.world(to)),
            segment,
            left: len,
        };
        let part = self.part(route.from(), tag, chain.ask().unwrap_or(0))?;
        self.park(start, of, tag, vec![part], Then::Forward(chain))
            .map(on_wire)
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
    pub fn post_all_reduce<P: Payload>(&mut self, label: Label, data: P) -> Result<Ticket<P>> {
        let data: Message = data.into();
        if let Some(lane) = self.lane_for::<P>() {
            let slot = lane.all_reduce(&self.members, label, data)?;
            return Ok(Ticket::of(Place::Lane(slot)));
        }
        let data = data.floats();
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
            .map(on_wire)
    }

    /// Tells every rank that this one has come; finished when all have.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn post_barrier(&mut self, label: Label) -> Result<Ticket<Vec<f32>>> {
        let start = now_ns();
        let (of, tag, lens) = (
            (label, Op::Barrier),
            self.tags.collective(),
            vec![1; self.size()],
        );
        let parts = self.wire().spread(&self.members, tag, of, vec![0], &lens)?;
        self.park(start, of, tag, parts, Then::Finish).map(on_wire)
    }

    /// Sends floats to one rank. Nothing to finish.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone.
    pub fn post_send<P: Payload>(&mut self, label: Label, to: usize, data: P) -> Result<()> {
        let data: Message = data.into();
        if let Some(lane) = self.line_for::<P>(self.rank(), to) {
            return lane.send(&self.members, label, to, data);
        }
        let start = now_ns();
        let tag = self.tags.to(to);
        self.send(to, tag, (label, Op::P2p), bytemuck::cast_vec(data.floats()))?;
        self.wire().meter.moved(label, Op::P2p, start..now_ns());
        Ok(())
    }

    /// Receives `len` floats from one rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone or sends another length.
    pub fn post_recv<P: Payload>(
        &mut self,
        label: Label,
        from: usize,
        len: usize,
    ) -> Result<Ticket<P>> {
        if let Some(lane) = self.line_for::<P>(from, self.rank()) {
            let slot = lane.receive(&self.members, label, from, len)?;
            return Ok(Ticket::of(Place::Lane(slot)));
        }
        let tag = self.tags.from(from);
        let peer = self.members.world(from);
        let part = self.wire().expect(peer, tag, len)?;
        self.charge((label, Op::P2p), tag, vec![part], Then::Finish)
            .map(on_wire)
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
    pub fn finish<P: Payload>(&mut self, ticket: Ticket<P>) -> Result<Vec<P>> {
        let given = match ticket.at {
            Place::Wire(slot) => return self.given(slot),
            Place::Lane(slot) => self.lane.as_ref().map(|lane| lane.finish(slot)),
        };
        let left = || Error::Comm {
            op: "finish".into(),
            peer: None,
            reason: "the way between devices was left".into(),
        };
        let given = given.ok_or_else(left)??;
        Ok(given.into_iter().map(P::came).collect())
    }

    fn given<P: Payload>(&mut self, slot: usize) -> Result<Vec<P>> {
        let parts = self.wire().finish(slot)?;
        Ok(parts.into_iter().map(P::from).collect())
    }

    /// Waits until everything this rank sent has left it.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn drain(&mut self) -> Result<()> {
        if let Some(lane) = &self.lane {
            lane.drain();
        }
        self.wire().transport.drain()
    }

    /// Ends every rank of the world. May not return.
    pub fn abort(&mut self, code: i32) {
        if let Some(lane) = &self.lane {
            lane.abort();
        }
        self.wire().transport.abort(code);
    }
}

fn on_wire<P>(slot: usize) -> Ticket<P> {
    Ticket::of(Place::Wire(slot))
}
