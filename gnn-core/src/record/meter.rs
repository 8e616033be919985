//! Where time and bytes are counted. Wraps nothing itself: the communicator and the metered
//! backend report to it, so no strategy times itself.

use super::clock::Times;
use super::phase::{Direction, Op, Pass, Phase};
use super::state::StatePage;
use crate::comm::Label;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Traffic key: layer, direction, operation, peer.
pub type Lane = (u16, Direction, Op, u32);

/// Traffic of one lane in one epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Payload bytes sent.
    pub bytes: u64,
    /// Messages sent.
    pub messages: u64,
}

/// Blocked nanoseconds of one operation kind: moving, waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Blocked {
    /// Blocked while data moved.
    pub moving: u64,
    /// Blocked before the peer had sent.
    pub waiting: u64,
}

/// The counters of one rank.
#[derive(Default)]
pub struct Meter {
    page: Option<StatePage>,
    phase: Cell<Option<Phase>>,
    pass: Cell<Option<Pass>>,
    times: Cell<Times>,
    edges: Cell<u64>,
    traffic: RefCell<BTreeMap<Lane, Traffic>>,
    blocked: RefCell<BTreeMap<(u16, Direction, Op), Blocked>>,
    held: Cell<u64>,
    most_held: Cell<u64>,
}

impl Meter {
    /// A meter that shows its phase on a status page.
    pub fn new(page: Option<StatePage>) -> Meter {
        Meter {
            page,
            ..Meter::default()
        }
    }

    /// Does something with the status page, if there is one.
    pub fn page(&self, f: impl FnOnce(&StatePage)) {
        if let Some(page) = &self.page {
            f(page);
        }
    }

    /// Enters a phase; returns the one before.
    pub fn enter(&self, phase: Phase) -> Phase {
        self.page(|page| page.phase(phase));
        self.phase.replace(Some(phase)).unwrap_or(Phase::Other)
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase.get().unwrap_or(Phase::Other)
    }

    /// Enters a pass; compute time from now on belongs to it.
    pub fn set_pass(&self, pass: Pass) {
        self.pass.set(Some(pass));
    }

    /// The current pass.
    pub fn pass(&self) -> Pass {
        self.pass.get().unwrap_or(Pass::Setup)
    }

    fn counts(&self) -> bool {
        !matches!(self.pass(), Pass::Eval | Pass::Setup)
    }

    fn times(&self, change: impl FnOnce(&mut Times)) {
        if self.counts() {
            let mut times = self.times.get();
            change(&mut times);
            self.times.set(times);
        }
    }

    /// Kernel time in a phase.
    pub fn computed(&self, phase: Phase, ns: u64) {
        let pass = self.pass();
        self.times(|t| match phase {
            Phase::Copy => t.copy += ns,
            _ => t.add_compute(pass, ns),
        });
    }

    /// Edges multiplied.
    pub fn edges(&self, edges: u64) {
        if self.counts() {
            self.edges.set(self.edges.get() + edges);
        }
    }

    /// A message handed to a peer.
    pub fn sent(&self, layer: u16, direction: Direction, op: Op, peer: usize, bytes: u64) {
        let mut traffic = self.traffic.borrow_mut();
        let lane = traffic
            .entry((layer, direction, op, peer as u32))
            .or_default();
        lane.bytes += bytes;
        lane.messages += 1;
    }

    /// Nanoseconds blocked in an operation.
    pub fn moved(&self, label: Label, op: Op, moving: u64, waiting: u64) {
        self.times(|t| {
            t.xfer += moving;
            t.wait += waiting;
        });
        let mut blocked = self.blocked.borrow_mut();
        let lane = blocked
            .entry((label.layer, label.direction, op))
            .or_default();
        lane.moving += moving;
        lane.waiting += waiting;
    }

    /// Nanoseconds in which data moved while the rank was not blocked. A lower bound: movement
    /// counts from the moment it was first seen.
    pub fn hidden(&self, ns: u64) {
        self.times(|t| t.hidden += ns);
    }

    /// Matrices of so many bytes were made.
    pub fn made(&self, bytes: u64) {
        self.held.set(self.held.get() + bytes);
        self.most_held
            .set(self.most_held.get().max(self.held.get()));
    }

    /// Matrices of so many bytes are gone.
    pub fn freed(&self, bytes: u64) {
        self.held.set(self.held.get() - bytes);
    }

    /// The most bytes that the device's matrices had at one moment.
    pub fn most_held(&self) -> u64 {
        self.most_held.get()
    }

    /// Takes the epoch's times and edges, and starts anew.
    pub fn take_times(&self) -> (Times, u64) {
        (self.times.take(), self.edges.take())
    }

    /// Takes the traffic since the last call.
    pub fn take_traffic(&self) -> BTreeMap<Lane, Traffic> {
        self.traffic.take()
    }

    /// Takes the blocked times since the last call.
    pub fn take_blocked(&self) -> BTreeMap<(u16, Direction, Op), Blocked> {
        self.blocked.take()
    }
}
