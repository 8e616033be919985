//! What passes between stages, chunk after chunk.

use crate::backend::Mat;
use crate::comm::{Label, Message, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::Flow;
use crate::record::Direction;
use std::collections::VecDeque;
use std::rc::Rc;

/// Messages that are asked for at once: while one chunk is computed, the next one's rows travel.
const AHEAD: usize = 2;

/// The name of what crosses into a layer forward, or back from it.
pub(super) fn label(layer: usize, direction: Direction) -> Label {
    Label {
        layer: layer as u16,
        direction,
    }
}

/// Messages that come from one rank in an order that is known.
pub(super) struct Coming {
    peer: usize,
    /// Names and lengths of those not asked for yet.
    left: VecDeque<(Label, usize)>,
    /// Those asked for; none where nothing is sent.
    asked: VecDeque<Option<Ticket>>,
}

impl Coming {
    /// Messages of so many floats from `peer`; the first are asked for.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn new(cx: &mut Ctx, peer: usize, messages: Vec<(Label, usize)>) -> Result<Coming> {
        let mut coming = Coming {
            peer,
            left: messages.into(),
            asked: VecDeque::new(),
        };
        coming.ask(cx)?;
        Ok(coming)
    }

    fn ask(&mut self, cx: &mut Ctx) -> Result<()> {
        while self.asked.len() < AHEAD
            && let Some((label, len)) = self.left.pop_front()
        {
            self.asked.push_back(match len {
                0 => None,
                _ => Some(cx.comm.post_recv(label, self.peer, len)?),
            });
        }
        Ok(())
    }

    /// The next one. The one behind it is on its way when this returns.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    ///
    /// # Panics
    /// When all have come.
    pub(super) fn next(&mut self, cx: &mut Ctx) -> Result<Message> {
        let ticket = self.asked.pop_front().expect("as many as there are chunks");
        let message = match ticket {
            Some(ticket) => cx.comm.finish(ticket)?.swap_remove(0),
            None => Message::default(),
        };
        self.ask(cx)?;
        Ok(message)
    }
}

/// Sends a chunk's message; nothing for a chunk without rows.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn send(cx: &mut Ctx, label: Label, peer: usize, message: Message) -> Result<()> {
    match message.is_empty() {
        true => Ok(()),
        false => cx.comm.post_send(label, peer, message),
    }
}

/// Rows of several flows below each other.
pub(super) fn below_each_other(cx: &Ctx, flows: &[Flow]) -> Flow {
    let stacked = |parts: Vec<&Rc<Mat>>| {
        let parts: Vec<&Mat> = parts.into_iter().map(|part| &**part).collect();
        cx.backend.stacked(&parts)
    };
    let x: Option<Vec<_>> = flows.iter().map(|flow| flow.x.dense()).collect();
    let h0: Option<Vec<_>> = flows.iter().map(|flow| flow.h0.as_ref()).collect();
    let mut all = Flow::from(stacked(x.expect("layers' outputs are dense")));
    all.h0 = h0.map(|parts| Rc::new(stacked(parts)));
    all
}
