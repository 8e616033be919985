//! Where each rank's clock is, seen from rank 0's.
//!
//! Ranks of one host have one clock, and nothing is to be compared. Every rank of another host in turn sends rank 0 a message and gets one back with rank 0's time. The answer was
//! written somewhere between the two, so the middle is off by at most half the round trip: of
//! [`ROUNDS`] trips the shortest is believed (Cristian's algorithm).
//!
//! # Paper
//! F. Cristian, *Probabilistic clock synchronization*, Distributed Computing 3, 1989, section 3:
//! <https://doi.org/10.1007/BF01784024>
//!
//! # Not done
//! Clocks of two hosts drift apart by microseconds a second; the offset is that of the start.

use super::Communicator;
use super::link::clock_id;
use crate::error::Result;
use crate::record::{Direction, Label, Skew, now_ns};

/// Round trips of each rank.
const ROUNDS: usize = 16;

const LABEL: Label = Label {
    layer: 0,
    direction: Direction::Eval,
};

impl Communicator {
    /// Compares clocks. Collective: every rank gets its own answer.
    ///
    /// # Errors
    /// [`Error::Comm`](crate::Error::Comm) when a peer is gone.
    pub fn align_clocks(&mut self) -> Result<Skew> {
        let id = clock_id();
        let mine = [now_ns(), u64::from(id[0]) | u64::from(id[1]) << 32];
        let all = self.agree(&mine.map(f64::from_bits))?;
        let (origin_ns, clock) = (all[0][0].to_bits(), all[0][1].to_bits());
        let mut best = Trip::default();
        for rank in (1..self.size()).filter(|&r| all[r][1].to_bits() != clock) {
            best = best.better(self.ping(rank)?);
        }
        Ok(Skew {
            offset_ns: best.offset_ns,
            uncertainty_ns: best.half_ns,
            origin_ns,
        })
    }

    /// The shortest of so many trips between `rank` and rank 0, on `rank`. Nothing on others.
    fn ping(&mut self, rank: usize) -> Result<Trip> {
        let mut best = Trip::default();
        for _ in 0..ROUNDS {
            if self.rank() == 0 {
                self.recv::<Vec<f32>>(LABEL, rank, 1)?;
                let now = now_ns();
                let words = vec![now as u32, (now >> 32) as u32];
                self.post_send(LABEL, rank, bytemuck::cast_vec(words))?;
            } else if self.rank() == rank {
                let left = now_ns();
                self.post_send(LABEL, 0, vec![0.0])?;
                let answer: Vec<u32> = bytemuck::cast_vec(self.recv::<Vec<f32>>(LABEL, 0, 2)?);
                let there = u64::from(answer[0]) | u64::from(answer[1]) << 32;
                best = best.better(Trip::of(left, there, now_ns()));
            }
        }
        Ok(best)
    }
}

/// One round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Trip {
    known: bool,
    offset_ns: i64,
    half_ns: u64,
}

impl Trip {
    /// It `left` and was `back` on this clock, and was `there` on the other.
    fn of(left: u64, there: u64, back: u64) -> Trip {
        let half_ns = back.saturating_sub(left).div_ceil(2);
        Trip {
            known: true,
            offset_ns: there as i64 - (left + half_ns) as i64,
            half_ns,
        }
    }

    fn better(self, other: Trip) -> Trip {
        if !other.known || self.known && self.half_ns <= other.half_ns {
            self
        } else {
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RunSpec;
    use crate::testing::world;

    #[test]
    fn the_shortest_trip_is_believed_and_is_right_within_half_of_it() {
        // The other clock is 1000 ahead; ways of 30 there and 10 back, then of 300 and 4.
        let (short, long) = (Trip::of(100, 1130, 140), Trip::of(200, 1500, 504));
        assert_eq!((short.offset_ns, short.half_ns), (1010, 20));
        assert_eq!(long.better(short), short);
        assert_eq!(Trip::default().better(long), long);
        for trip in [short, long] {
            assert!((trip.offset_ns - 1000).unsigned_abs() <= trip.half_ns);
        }
    }

    #[test]
    fn ranks_of_one_host_have_one_clock() {
        for ranks in 1..=3 {
            let all = world(&RunSpec::default(), ranks, |cx, _| {
                cx.comm.align_clocks().expect("peers are there")
            });
            for skew in &all {
                assert_eq!(skew.origin_ns, all[0].origin_ns);
                assert_eq!((skew.offset_ns, skew.uncertainty_ns), (0, 0));
            }
            assert_eq!(all[0].run_us(all[0].origin_ns + 1999), 1);
        }
    }

    #[test]
    fn trips_of_a_clock_to_itself_find_no_offset_beyond_their_uncertainty() {
        let trips = world(&RunSpec::default(), 3, |cx, _| {
            let first = cx.comm.ping(1).expect("peers are there");
            first.better(cx.comm.ping(2).expect("peers are there"))
        });
        assert!(!trips[0].known);
        for trip in &trips[1..] {
            assert!(
                trip.known && trip.offset_ns.unsigned_abs() <= trip.half_ns,
                "{trip:?}"
            );
        }
    }
}
