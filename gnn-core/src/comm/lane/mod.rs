//! Messages that never leave the devices: NCCL's, where each rank has a device of its own.
//!
//! A [`Communicator`](super::Communicator) with a lane sends what its caller gives it as
//! [`Message`]s over the lane, and everything else over the wire, which the lane does not replace: ids,
//! agreements, letters of background threads. Bytes are counted as over the wire, lane by lane.
//!
//! Nothing waits on the host. Posting a collective hands it to a stream beside the one that works; finishing
//! it lets the device go on behind it. How long the device waited, and how long the messages took, is asked
//! of its events when the epoch closes ([`Lane::settle`]). NCCL does not tell a peer that is late from data
//! that moves: both count as transfer.
//!
//! Sums are in the order of ranks, as everywhere, where a run promises bits: each rank adds its part on its own
//! device and gives it to the others. Where it promises none they are NCCL's own, and counted like the others:
//! as many bytes as its ring moves, though not to whom.

mod line;
mod watch;

use self::line::Line;
use self::watch::Watch;
use super::Label;
use super::members::Members;
use super::message::Message;
use super::route::Route;
use crate::error::{Error, Result};
use crate::record::{Meter, Op, Pass, now_ns};
use kernels::cuda::nccl::{Comm, Id};
use kernels::cuda::{Buf, Device, Flight, Mark, Queue};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what is waited for.
const ASKED_EVERY: Duration = Duration::from_micros(50);

fn broken(op: &str, reason: impl ToString) -> Error {
    Error::Comm {
        op: op.into(),
        peer: None,
        reason: reason.to_string(),
    }
}

/// What came of one operation, by the rank it is from.
enum Given {
    /// This rank's own, or nothing.
    Here(Message),
    /// The next of those that came.
    Came,
}

/// An operation under way.
struct Flying {
    /// Number of the lane.
    lane: usize,
    of: (Label, Op),
    flight: Flight,
    given: Vec<Given>,
    posted_ns: u64,
}

/// One that the device goes on behind, whose times are not known yet.
struct Landed {
    of: (Label, Op),
    pass: Pass,
    posted_ns: u64,
    /// Of the device's stream, before and behind.
    waited: [Mark; 2],
    /// Of the messages.
    moved: [Mark; 2],
}

/// How collectives are done.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// They are waited for where they are posted, as long as there are no groups.
    pub(super) at_once: bool,
    /// Sums are in the order of ranks.
    pub(super) ordered: bool,
}

/// What all lanes of a rank have in common.
struct Shared {
    /// Lanes that were opened.
    lanes: Cell<usize>,
    manner: Manner,
    device: Arc<Device>,
    meter: Rc<Meter>,
    watch: Watch,
    flying: RefCell<Vec<Option<Flying>>>,
    landed: RefCell<Vec<Landed>>,
    /// Messages to one rank that have not been seen to leave.
    leaving: RefCell<Vec<Flight>>,
}

/// A rank's way to the other devices of a communicator.
pub(super) struct Lane {
    number: usize,
    // Before the communicator: nothing is on a stream that is gone.
    queue: Queue,
    comm: Option<Arc<Comm>>,
    /// To and from one other rank each.
    lines: Vec<Line>,
    shared: Rc<Shared>,
}

impl Lane {
    /// Joins the others, with an id that all have.
    pub(super) fn join(
        device: &Arc<Device>,
        meter: Rc<Meter>,
        members: &Members,
        id: Id,
        manner: Manner,
    ) -> Result<Lane> {
        let failed = |e| broken("NCCL", e);
        let queue = Queue::of(device).map_err(failed)?;
        let comm = Comm::join(queue.side(), id, members.me(), members.len()).map_err(failed)?;
        let watch = Watch::over(id);
        let shared = Rc::new(Shared {
            lanes: Cell::new(0),
            manner,
            device: Arc::clone(device),
            meter,
            watch,
            flying: RefCell::default(),
            landed: RefCell::default(),
            leaving: RefCell::default(),
        });
        Ok(Lane::over(queue, comm, shared))
    }

    fn over(queue: Queue, comm: Comm, shared: Rc<Shared>) -> Lane {
        let comm = Arc::new(comm);
        shared.watch.add(&comm);
        let number = shared.lanes.replace(shared.lanes.get() + 1);
        Lane {
            number,
            queue,
            comm: Some(comm),
            lines: Vec::new(),
            shared,
        }
    }

    /// That of the group `members`, which this rank is in; all ranks of this lane call it.
    pub(super) fn group(&self, members: &[usize]) -> Result<Lane> {
        let failed = |e| broken("NCCL", e);
        let queue = Queue::of(&self.shared.device).map_err(failed)?;
        let comm = self.comm()?.split(queue.side(), Some(members));
        let comm = comm.map_err(failed)?.expect("this rank is a member");
        Ok(Lane::over(queue, comm, Rc::clone(&self.shared)))
    }

    fn comm(&self) -> Result<&Arc<Comm>> {
        let gone = || broken("NCCL", "the lane was closed");
        self.comm.as_ref().ok_or_else(gone)
    }

    fn failure(&self, op: Op) -> Result<()> {
        let failure = self.shared.watch.failure(op.label());
        failure.map_or(Ok(()), Err)
    }

    /// What is given, on this device.
    fn here(&self, message: Message) -> Arc<Buf<f32>> {
        match message {
            Message::Device(floats) => floats,
            Message::Host(floats) => Arc::new(self.shared.device.upload(&floats)),
        }
    }

    fn sent(&self, members: &Members, (label, op): (Label, Op), to: usize, floats: usize) {
        let (peer, bytes) = (members.world(to), 4 * floats as u64);
        let meter = &self.shared.meter;
        meter.sent(label.layer, label.direction, op, peer, bytes);
    }

    /// Keeps what was posted; the number of it.
    fn park(
        &self,
        of: (Label, Op),
        posted_ns: u64,
        flight: std::result::Result<Flight, kernels::cuda::Error>,
        given: Vec<Given>,
    ) -> Result<usize> {
        // What the watch saw says more than a call that was refused for it.
        let flight = match flight {
            Ok(flight) => flight,
            Err(e) => {
                self.failure(of.1)?;
                return Err(broken(of.1.label(), e));
            }
        };
        if of.1 != Op::P2p {
            self.shared.meter.collective(of.0.direction);
            let at_once = self.shared.manner.at_once && self.shared.lanes.get() == 1;
            while at_once && !flight.is_done().map_err(|e| broken(of.1.label(), e))? {
                self.failure(of.1)?;
                std::thread::sleep(ASKED_EVERY);
            }
        }
        let flying = Flying {
            lane: self.number,
            of,
            flight,
            given,
            posted_ns,
        };
        let mut all = self.shared.flying.borrow_mut();
        let slot = all.iter().position(Option::is_none).unwrap_or_else(|| {
            all.push(None);
            all.len() - 1
        });
        all[slot] = Some(flying);
        Ok(slot)
    }

    /// `send[r]` to every rank `r`, and `lens[r]` floats from it.
    pub(super) fn all_to_all(
        &self,
        members: &Members,
        label: Label,
        send: Vec<Message>,
        lens: &[usize],
    ) -> Result<usize> {
        let (start, me, of) = (now_ns(), members.me(), (label, Op::Alltoall));
        let (mut out, mut own) = (Vec::new(), Message::default());
        for (rank, message) in send.into_iter().enumerate() {
            if rank == me {
                own = message;
            } else if !message.is_empty() {
                self.sent(members, of, rank, message.len());
                out.push((rank, self.here(message)));
            }
        }
        self.exchange(of, start, out, (me, own), lens)
    }

    /// Every rank's `mine`, of lengths `lens`, to every rank.
    pub(super) fn all_gather(
        &self,
        members: &Members,
        label: Label,
        mine: Message,
        lens: &[usize],
    ) -> Result<usize> {
        let (start, me, of) = (now_ns(), members.me(), (label, Op::Gather));
        let mine = self.here(mine);
        let mut out = Vec::new();
        for to in (0..lens.len()).filter(|&r| r != me && !mine.is_empty()) {
            self.sent(members, of, to, mine.len());
            out.push((to, Arc::clone(&mine)));
        }
        self.exchange(of, start, out, (me, Message::Device(mine)), lens)
    }

    fn exchange(
        &self,
        of: (Label, Op),
        start: u64,
        out: Vec<(usize, Arc<Buf<f32>>)>,
        (me, own): (usize, Message),
        lens: &[usize],
    ) -> Result<usize> {
        let others = || (0..lens.len()).filter(|&r| r != me && lens[r] > 0);
        let from: Vec<(usize, usize)> = others().map(|r| (r, lens[r])).collect();
        let mut given: Vec<Given> = lens
            .iter()
            .map(|_| Given::Here(Message::default()))
            .collect();
        others().for_each(|r| given[r] = Given::Came);
        if let Some(mine) = given.get_mut(me) {
            *mine = Given::Here(own);
        }
        let flight = self.queue.exchange(self.comm()?, out, &from);
        self.park(of, start, flight, given)
    }

    /// The root's `len` floats to every rank.
    pub(super) fn broadcast(
        &self,
        members: &Members,
        label: Label,
        root: usize,
        data: Message,
        len: usize,
    ) -> Result<usize> {
        let (start, me, of) = (now_ns(), members.me(), (label, Op::Broadcast));
        let room = match me == root {
            true => self.here(data),
            false => Arc::new(self.shared.device.fresh(len)),
        };
        if room.len() != len {
            let reason = format!("expected {len} floats, got {}", room.len());
            return Err(broken(of.1.label(), reason));
        }
        if len == 0 {
            // Nothing flies, but it is counted and finished as all are.
            let given = vec![Given::Here(Message::default())];
            let flight = self.queue.exchange(self.comm()?, Vec::new(), &[]);
            return self.park(of, start, flight, given);
        }
        for to in Route::of(me, root, members.len(), len).to() {
            self.sent(members, of, to, len);
        }
        let flight = self.queue.broadcast(self.comm()?, root, room);
        self.park(of, start, flight, vec![Given::Came])
    }

    /// The sum of all ranks' `data`.
    pub(super) fn all_reduce(
        &self,
        members: &Members,
        label: Label,
        data: Message,
    ) -> Result<usize> {
        let (start, me, of) = (now_ns(), members.me(), (label, Op::Allreduce));
        let x = self.here(data);
        let bounds = kernels::par::split_rows(x.len(), members.len());
        let part = |rank: usize| bounds[rank + 1] - bounds[rank];
        for to in (0..members.len()).filter(|&r| r != me) {
            for floats in [part(to), part(me)].into_iter().filter(|&n| n > 0) {
                self.sent(members, of, to, floats);
            }
        }
        let flight = match self.shared.manner.ordered {
            true => self.queue.sum(self.comm()?, x, &bounds),
            false => self.queue.sum_in_any_order(self.comm()?, x),
        };
        self.park(of, start, flight, vec![Given::Came])
    }

    /// Lets the device go on behind a posted operation; what it gave.
    pub(super) fn finish(&self, slot: usize) -> Result<Vec<Message>> {
        let shared = &self.shared;
        let flying = shared
            .flying
            .borrow_mut()
            .get_mut(slot)
            .and_then(Option::take);
        let Flying {
            lane: _,
            of,
            flight,
            given,
            posted_ns,
        } = flying.ok_or_else(|| broken("finish", "the operation was finished already"))?;
        self.failure(of.1)?;
        let before = shared.device.mark();
        let (came, moved) = flight.land().map_err(|e| broken(of.1.label(), e))?;
        shared.landed.borrow_mut().push(Landed {
            of,
            pass: shared.meter.pass(),
            posted_ns,
            waited: [before, shared.device.mark()],
            moved,
        });
        let mut came = came.into_iter();
        let given = given.into_iter().map(|given| match given {
            Given::Here(message) => message,
            Given::Came => Message::Device(came.next().expect("one for each that is named")),
        });
        Ok(given.collect())
    }

    /// Tells the meter how long the device waited for what has landed, and what moved beside its work.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub(super) fn settle(&self) -> Result<()> {
        let shared = &self.shared;
        let (meter, device) = (&shared.meter, &shared.device);
        let pass = meter.pass();
        for landed in shared.landed.take() {
            let [waited, moved] =
                [&landed.waited, &landed.moved].map(|[from, to]| device.between(from, to));
            meter.set_pass(landed.pass);
            let (label, op) = landed.of;
            meter.blocked(label, op, waited, 0);
            let hidden = moved.saturating_sub(waited);
            let beside = landed.posted_ns..landed.posted_ns + hidden;
            meter.hidden(landed.of, std::slice::from_ref(&beside));
        }
        meter.set_pass(pass);
        let failure = shared.watch.failure("messages");
        failure.map_or(Ok(()), Err)
    }

    /// Ends what this rank waits for.
    pub(super) fn abort(&self) {
        self.shared.watch.abort();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let failed = std::thread::panicking() || self.shared.watch.failure("drop").is_some();
        if failed {
            self.abort();
            return;
        }
        // Nobody takes these any more.
        for slot in self.shared.flying.borrow_mut().iter_mut() {
            slot.take_if(|flying| flying.lane == self.number);
        }
        self.drain();
        self.shared.device.finish();
        let lines = self.lines.drain(..).map(Line::into_comm);
        for comm in lines.chain(self.comm.take()) {
            // Errors are those of peers that end too.
            let _ = Arc::into_inner(comm).map(Comm::leave);
        }
    }
}
