//! How a rank waits for what it has posted, and what that is counted as.

use super::communicator::GIVEN_UP;
use super::operation::{Open, Posted};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::record::trace::Stretch;
use crate::record::{SpanPhase, now_ns};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Polls before a waiting rank gives its core away.
const SPINS: u32 = 64;
/// Tries between two questions whether to give up.
const ASK_EVERY: u32 = 64;
/// How long a rank sleeps that is woken when there is news.
const ASLEEP: Duration = Duration::from_millis(1);
/// More than the longest sleep takes.
const SLEEP_NS: u64 = 300_000;
/// What the system may add to a sleep.
#[cfg(target_os = "linux")]
const SLACK_NS: u64 = 1_000;

/// Lets this thread and those that it starts sleep for as short as they say. By default the system may add
/// 50 us, more than the longest wait for a message that is there.
pub(crate) fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    // A system that refuses lets threads sleep longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(SLACK_NS));
}

impl Wire {
    /// Waits until every part of an operation is there.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone, or when this rank is to give up.
    pub(super) fn block_on(&mut self, posted: &mut Posted) -> Result<()> {
        let (op, meter) = (posted.op, Rc::clone(&self.meter));
        let traced = |label, (moving, peer, at): (bool, usize, Range<u64>)| {
            let phase = if moving {
                SpanPhase::Transfer
            } else {
                SpanPhase::Wait
            };
            meter.comm_span((label, op), phase, (Some(peer), None), at);
        };
        let (mut moving, mut waiting) = (0, 0);
        let mut last = now_ns();
        let mut stretch = Stretch::new(last);
        let mut tries = 0u32;
        let mut shown = None;
        // Whatever moves meanwhile is exposed.
        while let Some(open) = posted.poll(self.transport.as_mut(), &mut Vec::new(), &self.meter)? {
            let Open {
                peer,
                moving: is_moving,
                arrives,
            } = open;
            if shown != Some(peer) && tries > SPINS {
                self.meter.page(|page| page.waiting(op, peer as u32, 0));
                shown = Some(peer);
            }
            if tries > SPINS && tries.is_multiple_of(ASK_EVERY) && self.is_cancelled() {
                self.meter.page(crate::record::state::StatePage::resumed);
                return Err(Error::Comm {
                    op: op.label().into(),
                    peer: Some(peer as u32),
                    reason: GIVEN_UP.into(),
                });
            }
            if tries >= SPINS {
                self.advance_others()?;
            }
            self.rest(tries, arrives);
            tries = tries.saturating_add(1);
            let now = now_ns();
            *(if is_moving { &mut moving } else { &mut waiting }) += now - last;
            if let Some(ended) = stretch.turn(last, (is_moving, peer)) {
                traced(posted.label, ended);
            }
            last = now;
        }
        let now = now_ns();
        moving += now - last;
        if let Some(ended) = stretch.end(last) {
            traced(posted.label, ended);
        }
        meter.comm_span(
            (posted.label, op),
            SpanPhase::Transfer,
            (None, None),
            last..now,
        );
        if shown.is_some() {
            self.meter.page(crate::record::state::StatePage::resumed);
        }
        self.meter.blocked(posted.label, op, moving, waiting);
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel())
    }

    /// Waits a little: less, the sooner something `arrives`, where that is known.
    fn rest(&mut self, tries: u32, arrives: Option<u64>) {
        let awake = if self.give_way { 0 } else { SPINS };
        if tries >= awake && self.transport.wait(ASLEEP) {
            return;
        }
        let soon = arrives.is_some_and(|at| at < now_ns() + SLEEP_NS);
        if soon && tries >= SPINS {
            std::thread::yield_now();
        } else if tries < SPINS && !self.give_way {
            std::hint::spin_loop();
        } else if tries < 4 * SPINS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(if tries < 4096 { 20 } else { 200 }));
        }
    }
}
