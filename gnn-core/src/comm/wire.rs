//! A rank's one way to the others, which its communicators share: what is posted on any of them moves
//! whichever waits, and each moment of it is counted once.

use super::Label;
use super::covered::covered;
use super::members::Members;
use super::operation::{Part, Posted, Then, send};
use super::sum::Sum;
use super::transport::{Transport, Words};
use crate::error::{Error, Result};
use crate::record::{Direction, Meter, Op, Phase, now_ns};
use std::rc::Rc;

/// Transport, meter and everything posted.
pub(super) struct Wire {
    pub(super) transport: Box<dyn Transport>,
    pub(super) meter: Rc<Meter>,
    posted: Vec<Option<Posted>>,
    /// Groups that this rank has been in or has made way for.
    pub(super) groups: u16,
    pub(super) give_way: bool,
    /// Whether collectives are finished where they are posted.
    pub(super) at_once: bool,
    /// Whether gradients that are added up have no values, and nobody reads them.
    pub(super) hollow: bool,
    /// Asked while this rank waits: whether it shall give up.
    pub(super) cancel: Option<Box<dyn Fn() -> bool>>,
    /// Up to when movement beside other work has been counted.
    counted_ns: u64,
}

impl Wire {
    pub(super) fn new(transport: Box<dyn Transport>, meter: Rc<Meter>, give_way: bool) -> Wire {
        Wire {
            transport,
            meter,
            posted: Vec::new(),
            groups: 0,
            give_way,
            at_once: false,
            hollow: false,
            cancel: None,
            counted_ns: now_ns(),
        }
    }

    /// How words of this name are added up.
    pub(super) fn sum(&self, label: Label) -> Sum {
        match self.hollow && label.direction == Direction::Grad {
            true => Sum::Zeros,
            false => Sum::Numbers,
        }
    }

    /// Hands words to a rank of the world.
    pub(super) fn send(
        &mut self,
        to: usize,
        tag: u16,
        of: (Label, Op),
        words: Words,
    ) -> Result<()> {
        let transport = self.transport.as_mut();
        send(transport, &self.meter, of, (to, tag), (words, None))
    }

    /// Expects words from a rank of the world.
    pub(super) fn expect(&mut self, from: usize, tag: u16, len: usize) -> Result<Part> {
        let handle = self.transport.post_recv(from, tag, len)?;
        Ok(Part {
            handle: Some(handle),
            ..Part::here(from, Words::new())
        })
    }

    /// Gives `words` to every member and expects `lens[r]` words from each.
    pub(super) fn spread(
        &mut self,
        members: &Members,
        tag: u16,
        of: (Label, Op),
        words: Words,
        lens: &[usize],
    ) -> Result<Vec<Part>> {
        let me = members.me();
        let mut parts = Vec::with_capacity(lens.len());
        for (rank, &len) in lens.iter().enumerate() {
            let peer = members.world(rank);
            parts.push(if rank == me || len == 0 {
                Part::here(peer, Words::new())
            } else {
                self.expect(peer, tag, len)?
            });
        }
        let sum = self.sum(of.0);
        for rank in (0..lens.len()).filter(|&r| r != me && !words.is_empty()) {
            self.send(members.world(rank), tag, of, sum.copy(&words))?;
        }
        parts[me].words = words;
        Ok(parts)
    }

    /// Takes charge of what was posted; the number of it.
    pub(super) fn park(&mut self, mut posted: Posted) -> Result<usize> {
        if posted.op != Op::P2p {
            self.meter.collective(posted.label.direction);
            // Ranks of several groups need not post in one order.
            if self.at_once && self.groups == 0 {
                self.complete(&mut posted)?;
            }
        }
        let free = self.posted.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.posted.push(None);
            self.posted.len() - 1
        });
        self.posted[slot] = Some(posted);
        Ok(slot)
    }

    /// Lets what is posted progress.
    pub(super) fn poll(&mut self) -> Result<()> {
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
            if posted.poll(transport, &mut moved, &self.meter)?.is_none() {
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

    /// Waits for a posted operation.
    pub(super) fn finish(&mut self, slot: usize) -> Result<Vec<Vec<f32>>> {
        // What moved until here did so beside other work.
        self.poll()?;
        let mut posted = self.posted[slot].take().ok_or_else(|| Error::Comm {
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
        if matches!(posted.then, Then::Join | Then::Forward(_)) && parts.len() != 1 {
            parts = vec![self.sum(posted.label).join(&parts)];
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

    /// Second stage of an all-reduce, and nothing of anything else. The caller meters it.
    fn advance(&mut self, posted: &mut Posted) -> Result<()> {
        let Then::Share(bounds) = &mut posted.then else {
            return Ok(());
        };
        let bounds = std::mem::take(bounds);
        posted.then = Then::Join;
        let parts = std::mem::take(&mut posted.parts).into_iter();
        let sum = self.sum(posted.label).of(parts.map(|part| part.words));
        let lens: Vec<usize> = bounds.windows(2).map(|b| b[1] - b[0]).collect();
        let (members, of) = (Rc::clone(&posted.members), (posted.label, posted.op));
        posted.parts = self.spread(&members, posted.tag, of, sum, &lens)?;
        Ok(())
    }

    /// Second stages of what is posted, and segments to be handed on, while this rank waits for something
    /// else: a peer that needs them may be what it waits for, since ranks of several groups are not in
    /// step. The time is the wait's.
    pub(super) fn advance_others(&mut self) -> Result<()> {
        for slot in 0..self.posted.len() {
            let Some(mut posted) = self.posted[slot].take_if(|p| p.is_awaited()) else {
                continue;
            };
            let transport = self.transport.as_mut();
            if posted
                .poll(transport, &mut Vec::new(), &self.meter)?
                .is_none()
            {
                self.advance(&mut posted)?;
            }
            self.posted[slot] = Some(posted);
        }
        Ok(())
    }
}
