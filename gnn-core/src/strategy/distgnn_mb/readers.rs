//! `db_halo`: who reads which of this rank's vertices, and which rows of a batch leave for whom.
//!
//! # Paper
//! DistGNN-MB § 3.2, Algorithm 1, and Map and Sample of Algorithm 2. The paper looks every vertex up for every
//! peer; here the peers are listed by vertex, so that a batch is gone through once for any number of ranks.

use super::exchange::At;
use crate::rng::{self, Purpose};

/// Who reads which of this rank's vertices.
#[derive(Debug)]
pub(super) struct Readers {
    /// By row of this rank's, where its peers begin.
    first: Vec<u32>,
    peers: Vec<u16>,
    ranks: usize,
    /// By row, its in-degree in this part.
    degrees: Vec<u32>,
    seed: u64,
}

impl Readers {
    /// Of rows with these in-degrees; by peer, which of them it reads.
    pub(super) fn new(degrees: Vec<u32>, wanted: &[Vec<u32>], seed: u64) -> Readers {
        let mut first = vec![0u32; degrees.len() + 1];
        for &row in wanted.iter().flatten() {
            first[row as usize + 1] += 1;
        }
        for row in 0..degrees.len() {
            first[row + 1] += first[row];
        }
        let (mut next, mut peers) = (first.clone(), vec![0; wanted.iter().map(Vec::len).sum()]);
        for (rows, peer) in wanted.iter().zip(0..) {
            for &row in rows {
                let slot = &mut next[row as usize];
                peers[*slot as usize] = peer;
                *slot += 1;
            }
        }
        Readers {
            first,
            peers,
            ranks: wanted.len(),
            degrees,
            seed,
        }
    }

    /// Map: by peer, the places in `rows` of those that it reads, in their order.
    pub(super) fn map(&self, rows: &[u32]) -> Vec<Vec<u32>> {
        let mut places = vec![Vec::new(); self.ranks];
        for (&row, place) in rows.iter().zip(0..) {
            let span = self.first[row as usize] as usize..self.first[row as usize + 1] as usize;
            for &peer in &self.peers[span] {
                places[usize::from(peer)].push(place);
            }
        }
        places
    }

    /// Sample: of more than `most` places in `rows` for `peer`, some, drawn one after the other in proportion to
    /// their degree, in their order.
    pub(super) fn sample(
        &self,
        (peer, at): (usize, At),
        rows: &[u32],
        most: usize,
        places: &mut Vec<u32>,
    ) {
        if places.len() <= most {
            return;
        }
        if most > 0 {
            let key = rng::key(self.seed, at.epoch, Purpose::Push, at.layer as u64);
            let key = rng::at(rng::at(key, at.step), peer as u64);
            // An exponential of rate d comes before others as often as d is its share of the rates.
            let arrives = |&k: &u32| {
                let row = rows[k as usize];
                let drawn = rng::uniform_f32(key, u64::from(row));
                let degree = self.degrees[row as usize].max(1);
                // Not negative, so that its bits are in its order.
                let when = (-(1.0 - drawn).ln() / degree as f32).max(0.0);
                u64::from(when.to_bits()) << 32 | u64::from(k)
            };
            let drawn: Vec<u64> = places.iter().map(arrives).collect();
            let mut sooner = drawn.clone();
            let (_, &mut last, _) = sooner.select_nth_unstable(most - 1);
            let mut drawn = drawn.into_iter();
            places.retain(|_| drawn.next().is_some_and(|when| when <= last));
        }
        places.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn at(step: u64, layer: usize) -> At {
        let epoch = 1;
        At { epoch, step, layer }
    }

    fn of(readers: &Readers, peer: usize, rows: &[u32], most: usize, at: At) -> Vec<u32> {
        let mut places = readers.map(rows).swap_remove(peer);
        readers.sample((peer, at), rows, most, &mut places);
        places
    }

    #[test]
    fn peers_get_what_they_read_and_no_more_than_is_allowed() {
        let wanted = [vec![], vec![1, 3, 70, 5], vec![2, 5]];
        let readers = Readers::new(vec![4; 100], &wanted, 7);
        let rows = [70, 2, 5, 9, 1];
        assert_eq!(of(&readers, 1, &rows, 10, at(0, 0)), [0, 2, 4]);
        assert_eq!(of(&readers, 2, &rows, 10, at(0, 0)), [1, 2]);
        assert!(of(&readers, 1, &rows, 0, at(0, 0)).is_empty());
        let two = of(&readers, 1, &rows, 2, at(3, 1));
        assert!(two.len() == 2 && two.iter().all(|k| [0, 2, 4].contains(k)));
        assert_eq!(of(&readers, 1, &rows, 2, at(3, 1)), two);
        let steps = (0..20).map(|step| of(&readers, 1, &rows, 2, at(step, 1)));
        assert!(steps.collect::<BTreeSet<_>>().len() > 1);
    }

    /// One of four rows, of degrees 1, 2, 3 and 4.
    #[test]
    fn rows_are_drawn_in_proportion_to_their_degree() {
        let all = vec![0, 1, 2, 3];
        let readers = Readers::new(vec![1, 2, 3, 4], std::slice::from_ref(&all), 7);
        let mut counts = [0.0f64; 4];
        const STEPS: u64 = 20_000;
        for step in 0..STEPS {
            for k in of(&readers, 0, &all, 1, at(step, 0)) {
                counts[k as usize] += 1.0 / STEPS as f64;
            }
        }
        for (k, share) in counts.into_iter().enumerate() {
            let expected = (k + 1) as f64 / 10.0;
            assert!((share - expected).abs() < 0.015, "{k}: {share}");
        }
    }
}
