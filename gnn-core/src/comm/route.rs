//! By which way a broadcast reaches everybody.
//!
//! Whatever the way, every rank but the root receives each byte once: all ranks together send
//! `(N − 1)` times the payload. The way depends on the number of ranks and the length alone, not on the
//! transport or the link, so that bytes are known before a run.
//!
//! | length | way | time behind ports of rate `r` and latency `α` |
//! |---|---|---|
//! | up to [`SHORT`] | straight from the root to each | `α + (N − 1) · b / r` |
//! | above | a chain, root, root + 1, … around the ring, in segments of `s` | `(N − 2) · (α + s / r) + α + b / r` |
//!
//! Straight, the root's port carries the payload `N − 1` times while the others' idle. In the chain every
//! port carries it at most once, and a rank hands a segment on while the next one comes; so consecutive
//! broadcasts of all ranks also follow each other closely. The chain is the faster one from
//! `b = α · r + s` on, whatever `N`: some kilobytes.
//!
//! A segment costs every rank on the way something (a look, a copy, a message), about as long as a kilobyte
//! takes, and a long one is waited for at every rank. The sum of both is least for segments that grow with
//! the root of the payload: 8 kB of 64 kB, 32 kB of 1 MB, 320 kB of 100 MB.
//!
//! # Differs
//! NCCL and MPI libraries choose among chains, rings and trees by measurement. Between the two ways here, at
//! a few kilobytes, a binomial tree is faster by a fraction.

/// Words that go straight, at most: 8 kB. No segment is shorter.
pub(super) const SHORT: usize = 2048;

/// Words whose journey takes as long as handling one message.
const HANDLING: usize = 256;

/// The way of one broadcast, as one rank sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// Position on the way, from the root at 0.
    place: usize,
    me: usize,
    ranks: usize,
    /// Words of a segment; none where the payload goes straight.
    pub(super) segment: Option<usize>,
}

impl Route {
    /// Of `len` words from `root` among so many ranks.
    pub(super) fn of(me: usize, root: usize, ranks: usize, len: usize) -> Route {
        let chained = ranks > 2 && len > SHORT;
        Route {
            place: (me + ranks - root) % ranks,
            me,
            ranks,
            segment: chained.then(|| SHORT.max((len * HANDLING).isqrt())),
        }
    }

    /// Whom this rank sends all of it to.
    pub(super) fn to(self) -> Vec<usize> {
        match (self.segment, self.place) {
            (None, 0) => (0..self.ranks).filter(|&r| r != self.me).collect(),
            (Some(_), place) if place + 1 < self.ranks => vec![(self.me + 1) % self.ranks],
            _ => Vec::new(),
        }
    }

    /// Whom this rank, not the root, gets all of it from.
    pub(super) fn from(self) -> usize {
        let back = if self.segment.is_some() {
            1
        } else {
            self.place
        };
        (self.me + self.ranks - back) % self.ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_gets_it_once_and_can_hand_it_on() {
        for ranks in 1..7 {
            for root in 0..ranks {
                for len in [1, SHORT, SHORT + 1, 1 << 20] {
                    let route = |me| Route::of(me, root, ranks, len);
                    let mut came = vec![0; ranks];
                    for me in 0..ranks {
                        for to in route(me).to() {
                            came[to] += 1;
                            assert_eq!(route(to).from(), me);
                        }
                    }
                    let expected: Vec<i32> = (0..ranks).map(|r| i32::from(r != root)).collect();
                    assert_eq!(came, expected, "{ranks} ranks, root {root}, {len} words");
                    let most = (0..ranks).map(|me| route(me).to().len()).max();
                    if len > SHORT {
                        assert_eq!(most, Some(1.min(ranks - 1)), "no port carries it twice");
                    }
                }
            }
        }
    }

    #[test]
    fn segments_grow_with_the_root_of_the_payload() {
        let kilobytes = |len: usize| Route::of(0, 0, 4, len).segment.map(|s| s * 4 / 1024);
        assert_eq!(kilobytes(SHORT), None);
        assert_eq!(kilobytes(64 * 256), Some(8));
        assert_eq!(kilobytes(1024 * 256), Some(32));
        assert_eq!(kilobytes(100 * 1024 * 256), Some(320));
        assert_eq!(Route::of(0, 0, 2, 1 << 20).segment, None);
    }
}
