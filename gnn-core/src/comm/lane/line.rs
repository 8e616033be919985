//! Messages from one rank to one other, in their order and beside everything else.
//!
//! Each line has a communicator of two and a stream of its own: on one stream a message that nobody takes
//! yet would hold up those behind it, to whomever they go.

use super::{Given, Lane, broken};
use crate::comm::members::Members;
use crate::comm::message::Message;
use crate::error::Result;
use crate::record::{Label, Op, now_ns};
use kernels::cuda::Queue;
use kernels::cuda::nccl::{Comm, Id};
use std::sync::Arc;

/// A rank's end of a line.
pub(super) struct Line {
    from: usize,
    to: usize,
    // Before the communicator: nothing is on a stream that is gone.
    queue: Queue,
    comm: Arc<Comm>,
}

impl Line {
    pub(super) fn into_comm(self) -> Arc<Comm> {
        self.comm
    }
}

impl Lane {
    /// Opens the line from a rank to another, of which this is one, with an id that both have.
    pub(in crate::comm) fn line(
        &mut self,
        me: usize,
        (from, to): (usize, usize),
        id: Id,
    ) -> Result<()> {
        let failed = |e| broken("NCCL", e);
        let queue = Queue::of(&self.shared.device).map_err(failed)?;
        let comm = Comm::join(queue.side(), id, usize::from(me == to), 2).map_err(failed)?;
        let comm = Arc::new(comm);
        self.shared.watch.add(&comm);
        self.lines.push(Line {
            from,
            to,
            queue,
            comm,
        });
        Ok(())
    }

    /// Whether there is a line from a rank to another.
    pub(in crate::comm) fn has_line(&self, from: usize, to: usize) -> bool {
        self.find(from, to).is_some()
    }

    fn find(&self, from: usize, to: usize) -> Option<&Line> {
        self.lines.iter().find(|l| (l.from, l.to) == (from, to))
    }

    /// Sends along a line that there is.
    pub(in crate::comm) fn send(
        &self,
        members: &Members,
        label: Label,
        to: usize,
        message: Message,
    ) -> Result<()> {
        let of = (label, Op::P2p);
        self.failure(of.1)?;
        let line = self.find(members.me(), to);
        let line = line.ok_or_else(|| broken("send", "there is no line"))?;
        self.sent(members, of, to, message.len());
        let flight = line
            .queue
            .exchange(&line.comm, vec![(1, self.here(message))], &[]);
        let flight = flight.map_err(|e| broken(of.1.label(), e))?;
        let mut leaving = self.shared.leaving.borrow_mut();
        // What has left needs its memory no more.
        leaving.retain(|flight| !flight.is_done().unwrap_or(true));
        leaving.push(flight);
        Ok(())
    }

    /// Expects so many floats along a line that there is.
    pub(in crate::comm) fn receive(
        &self,
        members: &Members,
        label: Label,
        from: usize,
        len: usize,
    ) -> Result<usize> {
        let line = self.find(from, members.me());
        let line = line.ok_or_else(|| broken("receive", "there is no line"))?;
        let flight = line.queue.exchange(&line.comm, Vec::new(), &[(0, len)]);
        self.park((label, Op::P2p), now_ns(), flight, vec![Given::Came])
    }

    /// Lets the device go on only when everything that was sent has left.
    pub(in crate::comm) fn drain(&self) {
        self.shared.leaving.borrow_mut().clear();
    }
}
