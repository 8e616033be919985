//! Pairs without an edge, drawn anew every epoch.

use crate::dataset::{Pair, random_pair};
use crate::rng::{self, Purpose};
use std::ops::Range;

/// Draws of one pair at most; on a graph so dense that all are edges the last one is taken.
const ATTEMPTS: u64 = 16;

/// The edges that are trained on, and pairs drawn beside them.
///
/// Both ends are uniform. The pair for the edge at hand depends on seed, epoch and edge alone; one
/// that is an edge to train on, or twice the same vertex, is drawn again. Edges that are held out
/// are not known here, so they may be drawn.
pub struct Negatives {
    seed: u64,
    /// Where each smaller end's edges start: `[n + 1]`.
    start: Vec<u64>,
    /// Larger ends, ascending for each smaller one.
    ends: Vec<u32>,
}

impl Negatives {
    /// For the edges `train` of a graph of `n` vertices.
    pub fn new(n: usize, train: &[Pair], seed: u64) -> Negatives {
        let mut sorted: Vec<Pair> = train.iter().map(|&[u, v]| [u.min(v), u.max(v)]).collect();
        sorted.sort_unstable();
        let mut start = vec![0u64; n + 1];
        sorted.iter().for_each(|p| start[p[0] as usize + 1] += 1);
        (0..n).for_each(|v| start[v + 1] += start[v]);
        Negatives {
            seed,
            start,
            ends: sorted.into_iter().map(|p| p[1]).collect(),
        }
    }

    /// Whether a pair is an edge to train on, in either direction.
    pub(crate) fn known(&self, [u, v]: Pair) -> bool {
        let low = u.min(v) as usize;
        let row = self.start[low] as usize..self.start[low + 1] as usize;
        self.ends[row].binary_search(&u.max(v)).is_ok()
    }

    /// The pairs of some edges for this epoch.
    pub fn draw(&self, epoch: u64, edges: Range<usize>) -> Vec<Pair> {
        let key = rng::key(self.seed, epoch, Purpose::Negative, 0);
        let n = self.start.len() - 1;
        edges
            .map(|e| {
                let e = e as u64;
                let mut pair = [0, 0];
                for k in 0..ATTEMPTS {
                    pair = random_pair(key, e * ATTEMPTS + k, n);
                    if pair[0] != pair[1] && !self.known(pair) {
                        break;
                    }
                }
                pair
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negatives_are_no_edges_and_depend_on_seed_epoch_and_edge() {
        let n = 50;
        let train: Vec<Pair> = (0..n as u32)
            .flat_map(|u| [[u, (u + 1) % 50], [(u + 7) % 50, u]])
            .collect();
        let source = Negatives::new(n, &train, 4);
        let drawn = source.draw(2, 0..500);
        let joined = |p: &Pair| train.contains(p) || train.contains(&[p[1], p[0]]);
        assert!(drawn.iter().all(|p| p[0] != p[1] && !joined(p)));
        // They do not depend on which others are drawn.
        assert_eq!(source.draw(2, 7..10)[..], drawn[7..10]);
        assert_ne!(source.draw(3, 0..500), drawn);
        assert_ne!(Negatives::new(n, &train, 5).draw(2, 0..500), drawn);
        // Every vertex can be drawn on both sides.
        for side in 0..2 {
            let mut seen: Vec<u32> = drawn.iter().map(|p| p[side]).collect();
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() > 45, "{} of 50", seen.len());
        }
    }

    #[test]
    fn a_complete_graph_still_gives_pairs() {
        let train: Vec<Pair> = (0..4)
            .flat_map(|u| (u + 1..4).map(move |v| [u, v]))
            .collect();
        assert_eq!(Negatives::new(4, &train, 0).draw(0, 0..9).len(), 9);
    }
}
