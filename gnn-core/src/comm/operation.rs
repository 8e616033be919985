//! The state of one posted operation.

use super::transport::{Handle, Transport, Words};
use super::{Label, Progress};
use crate::error::Result;
use crate::record::{Op, now_ns};

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
    pub(super) peer: usize,
    pub(super) handle: Option<Handle>,
    pub(super) words: Words,
    pub(super) seen_ns: Option<u64>,
}

/// A posted operation.
pub(super) struct Posted {
    pub(super) label: Label,
    pub(super) op: Op,
    pub(super) tag: u16,
    /// One entry a rank; a part without a handle is complete.
    pub(super) parts: Vec<Part>,
    pub(super) then: Then,
    /// Nanoseconds in which data moved outside a blocking wait.
    pub(super) hidden: u64,
}

impl Posted {
    /// Asks the transport about every open part. Returns whether all are complete, and, if not,
    /// one peer that is waited for and whether its data is already moving.
    pub(super) fn poll(
        &mut self,
        transport: &mut dyn Transport,
        blocked: bool,
    ) -> Result<Option<(usize, bool)>> {
        let mut open = None;
        for part in &mut self.parts {
            let Some(handle) = part.handle else { continue };
            match transport.poll(handle)? {
                Progress::Done => {
                    part.words = transport.take(handle)?;
                    part.handle = None;
                    if let (Some(seen), false) = (part.seen_ns, blocked) {
                        self.hidden += now_ns().saturating_sub(seen);
                    }
                }
                Progress::Moving => {
                    part.seen_ns.get_or_insert_with(now_ns);
                    open = Some((part.peer, true));
                }
                Progress::Absent => {
                    open = open.or(Some((part.peer, false)));
                }
            }
        }
        Ok(open)
    }
}
