//! When messages arrive: arithmetic on departures alone, without a clock.

use super::Link;
use crate::comm::WayOut;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// One direction of a rank's port: messages pass one after the other.
#[derive(Debug, Default)]
struct OneWay {
    free_ns: u64,
}

impl OneWay {
    /// When a message that is there at `ready_ns` begins to pass.
    fn pass(&mut self, ready_ns: u64, occupies_ns: u64) -> u64 {
        let begins = ready_ns.max(self.free_ns);
        self.free_ns = begins + occupies_ns;
        begins
    }
}

/// The port through which a rank sends.
#[derive(Debug)]
pub(super) struct Outbound {
    link: Link,
    port: OneWay,
}

impl Outbound {
    pub(super) fn new(link: Link) -> Outbound {
        let port = OneWay::default();
        Outbound { link, port }
    }

    /// When a message of so many bytes, handed over at `sent_ns`, begins to leave.
    pub(super) fn departs(&mut self, sent_ns: u64, bytes: u64) -> u64 {
        self.port.pass(sent_ns, self.link.occupies_ns(bytes))
    }

    /// When everything handed over so far has left, and how much passes at once.
    pub(super) fn way_out(&self) -> WayOut {
        WayOut {
            free_ns: self.port.free_ns,
            piece: self.link.words_in(WayOut::PIECE_NS).max(WayOut::LEAST),
        }
    }
}

/// What a sender says of a message ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notice {
    /// When it was handed over.
    pub(super) sent_ns: u64,
    /// When it began to leave.
    pub(super) departs_ns: u64,
    /// Its tag.
    pub(super) tag: u16,
    /// Its length.
    pub(super) bytes: u64,
}

/// A message on its way to this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Parcel(u64);

/// The port through which a rank receives.
///
/// Messages pass in the order in which their heads reach the port, whatever the order in which the
/// rank hears of them: one is let in only once its head is due, and by then every message with an
/// earlier head has been announced, since its notice was sent at least one latency before. Only what was
/// handed on late may be announced later; it passes after what was let in.
#[derive(Debug)]
pub(super) struct Inbound {
    link: Link,
    port: OneWay,
    next: u64,
    /// By the time of the head, the sender, and the order of announcement.
    ahead: BinaryHeap<Reverse<(u64, usize, Parcel)>>,
    /// Handed over and, once let in, arrived.
    times: HashMap<Parcel, (u64, Option<u64>)>,
    occupies: HashMap<Parcel, u64>,
}

impl Inbound {
    pub(super) fn new(link: Link) -> Inbound {
        Inbound {
            link,
            port: OneWay::default(),
            next: 0,
            ahead: BinaryHeap::new(),
            times: HashMap::new(),
            occupies: HashMap::new(),
        }
    }

    /// Hears of a message.
    pub(super) fn announce(&mut self, from: usize, notice: Notice) -> Parcel {
        let parcel = Parcel(self.next);
        self.next += 1;
        let head = notice.departs_ns + self.link.latency_ns;
        self.ahead.push(Reverse((head, from, parcel)));
        self.times.insert(parcel, (notice.sent_ns, None));
        let occupies = self.link.occupies_ns(notice.bytes);
        self.occupies.insert(parcel, occupies);
        parcel
    }

    /// Lets in what has reached the port.
    pub(super) fn admit(&mut self, now_ns: u64) {
        while let Some(&Reverse((head, _, parcel))) = self.ahead.peek() {
            if head > now_ns {
                break;
            }
            self.ahead.pop();
            let occupies = self.occupies.remove(&parcel).unwrap_or(0);
            let arrives = self.port.pass(head, occupies) + occupies;
            if let Some((_, arrived)) = self.times.get_mut(&parcel) {
                *arrived = Some(arrives);
            }
        }
    }

    /// When a message was handed over and, once its head is here, when all of it is.
    pub(super) fn times(&self, parcel: Parcel) -> Option<(u64, Option<u64>)> {
        self.times.get(&parcel).copied()
    }

    /// Forgets a message that was taken.
    pub(super) fn taken(&mut self, parcel: Parcel) {
        self.times.remove(&parcel);
    }
}
