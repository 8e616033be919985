//! Tags of messages: every communicator that two ranks share has its own, so that it need not be in step
//! with the others.
//!
//! | tags | |
//! |---|---|
//! | 0 | what transports say to each other |
//! | 1 to 8191 | collectives of the world, in turn |
//! | 8192 to 16383 | messages between two ranks of the world, in turn for each pair and direction |
//! | 16384 to 31743 | of 15 groups, 512 for collectives and 512 for pairs each |
//! | the last two | letters |
//!
//! MPI promises 15 bits. Operations in flight on one communicator have tags of their own as long as they
//! are fewer than its tags.

use super::outgoing::HEAD_TAG;
use std::ops::Range;

/// Where the world's tags for pairs begin, and where groups' do.
const PAIRS: u16 = 1 << 13;
const GROUPS: u16 = 1 << 14;
/// Tags of a group, half of them for collectives.
const OF_GROUP: u16 = 1 << 10;
/// Most groups that a rank can be in or make way for.
pub(super) const MOST_GROUPS: u16 = (HEAD_TAG - GROUPS) / OF_GROUP;

/// The tags of one communicator.
#[derive(Debug)]
pub(super) struct Tags {
    collectives: Range<u16>,
    pairs: Range<u16>,
    next: u16,
    /// By rank, to it and from it.
    counts: Vec<[u16; 2]>,
}

/// The next of some tags in turn.
fn turn(tags: &Range<u16>, next: &mut u16) -> u16 {
    *next = (*next + 1) % (tags.end - tags.start);
    tags.start + *next
}

impl Tags {
    /// Of a group by its number, from 1, or of the world, which has none: 0; it has `size` ranks.
    pub(super) fn of(group: u16, size: usize) -> Tags {
        let (collectives, pairs) = match group {
            0 => (1..PAIRS, PAIRS..GROUPS),
            _ => {
                let first = GROUPS + (group - 1) * OF_GROUP;
                let half = first + OF_GROUP / 2;
                (first..half, half..first + OF_GROUP)
            }
        };
        Tags {
            collectives,
            pairs,
            next: 0,
            counts: vec![[0; 2]; size],
        }
    }

    /// Of the next collective.
    pub(super) fn collective(&mut self) -> u16 {
        turn(&self.collectives, &mut self.next)
    }

    /// Of the next message to a rank.
    pub(super) fn to(&mut self, rank: usize) -> u16 {
        turn(&self.pairs, &mut self.counts[rank][0])
    }

    /// Of the next message from a rank.
    pub(super) fn from(&mut self, rank: usize) -> u16 {
        turn(&self.pairs, &mut self.counts[rank][1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::NOTICE_TAG;

    #[test]
    fn no_two_communicators_share_a_tag() {
        let mut ranges: Vec<Range<u16>> = (0..=MOST_GROUPS)
            .flat_map(|group| {
                let tags = Tags::of(group, 2);
                [tags.collectives, tags.pairs]
            })
            .collect();
        ranges.extend([NOTICE_TAG..NOTICE_TAG + 1, HEAD_TAG..HEAD_TAG + 2]);
        ranges.sort_by_key(|r| r.start);
        assert!(
            ranges.windows(2).all(|w| w[0].end <= w[1].start),
            "{ranges:?}"
        );
        assert!(ranges.iter().all(|r| r.end <= 1 << 15));
    }

    #[test]
    fn tags_come_in_turn_and_both_ends_of_a_pair_count_alike() {
        let (mut here, mut there) = (Tags::of(3, 2), Tags::of(3, 2));
        let all: Vec<u16> = (0..OF_GROUP).map(|_| here.collective()).collect();
        assert_eq!(all[..512], all[512..]);
        for _ in 0..600 {
            assert_eq!(here.to(1), there.from(0));
        }
        assert_ne!(here.to(1), here.from(1));
    }
}
