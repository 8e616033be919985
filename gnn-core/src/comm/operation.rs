//! The state of one posted operation.

use super::members::Members;
use super::transport::{Handle, Transport, Words};
use super::{Label, Progress};
use crate::error::Result;
use crate::record::{Meter, Op, SpanPhase, now_ns};
use std::ops::Range;
use std::rc::Rc;

/// What to do once the messages of a stage are complete.
pub(super) enum Then {
    /// Nothing: hand the parts to the caller.
    Finish,
    /// All-reduce: sum the parts of my chunk in rank order, send the sum to everybody. Holds the
    /// bounds of every rank's chunk.
    Share(Vec<usize>),
    /// All-reduce, second stage: put the summed chunks together.
    Join,
    /// Broadcast: hand on each segment that comes and expect the one after it, then put them together.
    Forward(Chain),
}

/// A rank's place in a chain of segments.
pub(super) struct Chain {
    /// Whom segments come from and go to, by their names in the world.
    pub(super) from: usize,
    pub(super) to: Option<usize>,
    /// Words of a segment, of which the last may have fewer.
    pub(super) segment: usize,
    /// Words that have not been asked for.
    pub(super) left: usize,
}

impl Chain {
    /// Words of the next segment to ask for; none after the last.
    pub(super) fn ask(&mut self) -> Option<usize> {
        let len = self.segment.min(self.left);
        self.left -= len;
        (len > 0).then_some(len)
    }
}

/// One message that the operation still expects, or has.
pub(super) struct Part {
    /// By its name in the world.
    pub(super) peer: usize,
    pub(super) handle: Option<Handle>,
    pub(super) words: Words,
    pub(super) seen_ns: Option<u64>,
}

impl Part {
    /// Words that are there.
    pub(super) fn here(peer: usize, words: Words) -> Part {
        Part {
            peer,
            handle: None,
            words,
            seen_ns: None,
        }
    }
}

/// A posted operation.
pub(super) struct Posted {
    pub(super) label: Label,
    pub(super) op: Op,
    pub(super) tag: u16,
    /// Who takes part.
    pub(super) members: Rc<Members>,
    /// One entry a rank, or a segment; a part without a handle is complete.
    pub(super) parts: Vec<Part>,
    pub(super) then: Then,
}

/// A part that is not complete.
pub(super) struct Open {
    pub(super) peer: usize,
    /// Whether its data is moving, or its sender has not sent.
    pub(super) moving: bool,
    /// When it will be there, if that is known.
    pub(super) arrives: Option<u64>,
}

/// Hands words to a rank of the world; those that came from another, with the time when they came.
pub(super) fn send(
    transport: &mut dyn Transport,
    meter: &Meter,
    (label, op): (Label, Op),
    (to, tag): (usize, u16),
    (words, came_ns): (Words, Option<u64>),
) -> Result<()> {
    let bytes = (words.len() * 4) as u64;
    meter.sent(label.layer, label.direction, op, to, bytes);
    let start = now_ns();
    match came_ns {
        Some(at) => transport.post_on(to, tag, words, at)?,
        None => transport.post_send(to, tag, words)?,
    }
    let message = (Some(to), Some(bytes));
    meter.comm_span((label, op), SpanPhase::Send, message, start..now_ns());
    Ok(())
}

impl Posted {
    /// Asks the transport about every open part, and adds when each moved to `moved`; `meter` is told
    /// of each that is complete. Segments are handed on. Returns, if not all are complete, one that is
    /// waited for.
    pub(super) fn poll(
        &mut self,
        transport: &mut dyn Transport,
        moved: &mut Vec<Range<u64>>,
        meter: &Meter,
    ) -> Result<Option<Open>> {
        let mut open = None;
        let mut next = 0;
        while next < self.parts.len() {
            let begun = next > 0 && matches!(self.then, Then::Forward(_));
            let part = &mut self.parts[next];
            next += 1;
            let Some(handle) = part.handle else { continue };
            let progress = transport.poll(handle)?;
            let peer = part.peer;
            if progress == Progress::Absent {
                open = open.or(Some(Open {
                    peer,
                    // Between two segments, the broadcast is on its way.
                    moving: begun,
                    arrives: None,
                }));
                continue;
            }
            let now = now_ns();
            let travelled = transport.travelled(handle);
            // A transport that knows nothing shows when its data was first seen moving.
            let seen = *part.seen_ns.get_or_insert(now);
            let at = travelled.clone().unwrap_or(seen..now);
            moved.push(at.clone());
            if progress == Progress::Done {
                part.words = transport.take(handle)?;
                part.handle = None;
                let message = (Some(peer), Some(4 * part.words.len() as u64));
                let came_ns = at.end.min(now);
                meter.comm_span((self.label, self.op), SpanPhase::Receive, message, at);
                self.hand_on(next - 1, came_ns, transport, meter)?;
            } else {
                open = Some(Open {
                    peer,
                    moving: true,
                    arrives: travelled.map(|t| t.end).filter(|&end| end < u64::MAX),
                });
            }
        }
        Ok(open)
    }

    /// Sends the segment `k`, which came at `came_ns`, to the next rank of a chain, and expects the one after it. One receive is
    /// open at a time: those of one tag are matched in the order in which they are looked for.
    fn hand_on(
        &mut self,
        k: usize,
        came_ns: u64,
        transport: &mut dyn Transport,
        meter: &Meter,
    ) -> Result<()> {
        let Then::Forward(chain) = &mut self.then else {
            return Ok(());
        };
        let of = (self.label, self.op);
        if let Some(to) = chain.to {
            let words = self.parts[k].words.clone();
            send(transport, meter, of, (to, self.tag), (words, Some(came_ns)))?;
        }
        if let Some(len) = chain.ask() {
            let handle = transport.post_recv(chain.from, self.tag, len)?;
            self.parts.push(Part {
                handle: Some(handle),
                ..Part::here(chain.from, Words::new())
            });
        }
        Ok(())
    }

    /// Whether others may wait for what this rank does with what comes.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.then, Then::Share(_) | Then::Forward(_))
    }
}
