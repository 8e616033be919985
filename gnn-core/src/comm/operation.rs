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
    /// One entry a rank; a part without a handle is complete.
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

impl Posted {
    /// Asks the transport about every open part, and adds when each moved to `moved`; `meter` is told
    /// of each that is complete. Returns, if
    /// not all are complete, one that is waited for.
    pub(super) fn poll(
        &mut self,
        transport: &mut dyn Transport,
        moved: &mut Vec<Range<u64>>,
        meter: &Meter,
    ) -> Result<Option<Open>> {
        let mut open = None;
        for part in &mut self.parts {
            let Some(handle) = part.handle else { continue };
            let progress = transport.poll(handle)?;
            let peer = part.peer;
            if progress == Progress::Absent {
                open = open.or(Some(Open {
                    peer,
                    moving: false,
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
                meter.comm_span((self.label, self.op), SpanPhase::Receive, message, at);
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
}
