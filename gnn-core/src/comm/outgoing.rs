//! Letters on their way out of a rank.
//!
//! Where messages leave one after the other, a letter that was handed over whole would hold up whatever comes
//! after it: gradients, which training waits for, would stand behind features of batches to come. So letters
//! are handed over in pieces, a few at a time, and the others wait here in their order. Both ends know a
//! letter's length and how long a piece is, so pieces have no envelopes of their own.

use super::mail::Delivery;
use super::transport::{WayOut, Words};
use std::collections::BTreeMap;
use std::ops::Range;

/// The tag of the line that announces a letter, and that of its words. Point-to-point tags end before.
pub(super) const HEAD_TAG: u16 = (1 << 15) - 2;
pub(super) const BODY_TAG: u16 = (1 << 15) - 1;

/// How far ahead of the port pieces are handed over, so that it is never without one: the hub does not look
/// more often than its thread is given a core.
const AHEAD_NS: u64 = 4 * WayOut::PIECE_NS;

/// Which letter leaves first where several wait: that of the lowest one, and of equal ones the first. Letters
/// that have to keep their order have the same.
pub type Precedence = [u64; 3];

/// Receiver, tag and words of a message.
pub(super) type Message = (usize, u16, Words);

/// Letters that wait.
#[derive(Default)]
pub(super) struct Outgoing {
    /// With the mailbox that each is from.
    waiting: BTreeMap<(Precedence, u64), (u32, Delivery)>,
    count: u64,
    leaving: Option<Leaving>,
}

/// A letter that has been announced.
struct Leaving {
    to: usize,
    words: Words,
    /// Words that have been handed over.
    done: usize,
}

/// What announces a letter: which mailbox it is for, which it is from, what request it is about, and its
/// length in words.
pub(super) fn head(envelope: [u32; 3], len: usize) -> Words {
    let mut head = envelope.to_vec();
    head.extend([len as u32, (len as u64 >> 32) as u32]);
    head
}

/// The pieces that a letter of `len` words comes in.
pub(super) fn pieces(len: usize, way: Option<WayOut>) -> impl Iterator<Item = Range<usize>> {
    let piece = way.map_or(len, |w| w.piece).max(1);
    (0..len)
        .step_by(piece)
        .map(move |at| at..len.min(at + piece))
}

impl Outgoing {
    /// A letter from a mailbox.
    pub(super) fn push(&mut self, from: u32, delivery: Delivery) {
        let key = (delivery.precedence, self.count);
        self.count += 1;
        self.waiting.insert(key, (from, delivery));
    }

    /// Whether all have left.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.leaving.is_none()
    }

    /// How long what was handed over keeps the port busy enough.
    pub(super) fn pause_ns(way: Option<WayOut>, now_ns: u64) -> u64 {
        way.map_or(0, |w| w.free_ns.saturating_sub(now_ns + AHEAD_NS))
    }

    /// What to hand over now, if anything.
    pub(super) fn next(&mut self, way: Option<WayOut>, now_ns: u64) -> Option<Message> {
        if self.is_empty() || Outgoing::pause_ns(way, now_ns) > 0 {
            return None;
        }
        let Some(leaving) = &mut self.leaving else {
            let (_, (from, letter)) = self.waiting.pop_first()?;
            let Delivery { to, words, .. } = letter;
            let head = head([to.mailbox, from, to.request], words.len());
            let (to, done) = (to.rank, 0);
            self.leaving = (!words.is_empty()).then_some(Leaving { to, words, done });
            return Some((to, HEAD_TAG, head));
        };
        let len = leaving.words.len();
        let end = way.map_or(len, |w| len.min(leaving.done + w.piece.max(1)));
        let to = leaving.to;
        let words = match (leaving.done, end == len) {
            (0, true) => std::mem::take(&mut leaving.words),
            (done, _) => leaving.words[done..end].to_vec(),
        };
        leaving.done = end;
        if end == len {
            self.leaving = None;
        }
        Some((to, BODY_TAG, words))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mail::Address;
    use super::*;

    fn letter(request: u32, len: u32, precedence: Precedence) -> Delivery {
        let (rank, mailbox) = (1, 7);
        Delivery {
            to: Address {
                rank,
                mailbox,
                request,
            },
            precedence,
            words: (0..len).collect(),
        }
    }

    #[test]
    fn pieces_leave_as_the_port_has_room_and_letters_by_precedence() {
        let mut out = Outgoing::default();
        out.push(3, letter(0, 5, [0, 2, 0]));
        let way = |free_ns| Some(WayOut { free_ns, piece: 2 });
        let (to, tag, words) = out.next(way(0), 0).expect("a head");
        assert_eq!((to, tag, words), (1, HEAD_TAG, vec![7, 3, 0, 5, 0]));
        out.push(3, letter(1, 0, [0, 1, 0]));
        out.push(3, letter(2, 1, [0, 0, 9]));
        out.push(3, letter(3, 1, [0, 0, 9]));
        assert_eq!(out.next(way(AHEAD_NS + 11), 10), None);
        // What is leaving leaves first.
        let mut next = || out.next(way(AHEAD_NS + 10), 10);
        let sent: Vec<Message> = std::iter::from_fn(&mut next).collect();
        let bodies = |words: &[u32]| (1, BODY_TAG, words.to_vec());
        let heads = |request, len| (1, HEAD_TAG, vec![7, 3, request, len, 0]);
        let expected = [
            bodies(&[0, 1]),
            bodies(&[2, 3]),
            bodies(&[4]),
            heads(2, 1),
            bodies(&[0]),
            heads(3, 1),
            bodies(&[0]),
            heads(1, 0),
        ];
        assert_eq!(sent, expected);
        assert!(out.is_empty());
    }

    #[test]
    fn both_ends_cut_alike() {
        let way = WayOut {
            free_ns: 0,
            piece: 4,
        };
        for (len, way) in [(0, None), (9, None), (9, Some(way)), (8, Some(way))] {
            let mut out = Outgoing::default();
            out.push(0, letter(0, len, [0; 3]));
            let sent = std::iter::from_fn(|| out.next(way, 0)).skip(1);
            let sent: Vec<usize> = sent.map(|(_, _, words)| words.len()).collect();
            let expected = pieces(len as usize, way).map(|p| p.len());
            assert_eq!(sent, expected.collect::<Vec<_>>());
        }
    }
}
