//! What unsupervised training draws for a vertex: others that it is near to, and others that it is not joined
//! with.
//!
//! # Paper
//! Hamilton, Ying & Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017, § 3.2,
//! <https://arxiv.org/abs/1706.02216>: a vertex is near to what fixed-length walks from it visit, and far from
//! others. ByteGNN (§ 4.2.1) takes direct neighbours, and excludes them from the others; that is a walk of one
//! step.
//! # Differs
//! Neighbours are those that an edge to train on joins in either direction, each once. A walk may come back to
//! where it began, so that a vertex may be near to itself. On a graph so dense that draws keep finding
//! neighbours the last one is taken.

use crate::dataset::{Links, Pair, Pairing};
use crate::rng::{self, Purpose};

/// Draws of one other vertex at most.
const ATTEMPTS: u64 = 16;

/// The neighbours of every vertex, and how pairs are drawn.
pub(crate) struct Nearby {
    /// Where each vertex's neighbours start: `[n + 1]`.
    start: Vec<u64>,
    /// Ascending for each vertex.
    ends: Vec<u32>,
    pairing: Pairing,
    negatives: usize,
    /// Sums of degrees to the power that is asked for, up to each vertex; none for a power of 0.
    weights: Option<Vec<f64>>,
    seed: u64,
}

impl Nearby {
    /// Of the edges to train on of a graph of `n` vertices.
    pub(crate) fn new(n: usize, links: &Links, pairing: Pairing, seed: u64) -> Nearby {
        let joins = links.train.iter().filter(|[u, v]| u != v);
        let mut both: Vec<Pair> = joins.flat_map(|&[u, v]| [[u, v], [v, u]]).collect();
        both.sort_unstable();
        both.dedup();
        let mut start = vec![0u64; n + 1];
        both.iter().for_each(|p| start[p[0] as usize + 1] += 1);
        (0..n).for_each(|v| start[v + 1] += start[v]);
        let weights = (pairing.power > 0.0).then(|| {
            let mut sum = 0.0;
            let degrees = start.windows(2).map(|w| (w[1] - w[0]) as f64);
            degrees
                .map(|degree| {
                    sum += degree.powf(pairing.power);
                    sum
                })
                .collect()
        });
        Nearby {
            start,
            ends: both.into_iter().map(|p| p[1]).collect(),
            pairing,
            negatives: links.negatives,
            weights,
            seed,
        }
    }

    fn neighbours(&self, v: u32) -> &[u32] {
        let v = v as usize;
        &self.ends[self.start[v] as usize..self.start[v + 1] as usize]
    }

    /// What some vertices, each of which has a neighbour, are near to in an epoch: a function of the epoch and
    /// the vertex alone.
    pub(crate) fn positives(&self, epoch: u64, vertices: &[u32]) -> Vec<Pair> {
        let key = rng::key(self.seed, epoch, Purpose::Walk, 0);
        let of = |&v: &u32| {
            let walks = self.walks(kernels::hash::row(key, v), v);
            walks.map(move |near| [v, near])
        };
        vertices.iter().flat_map(of).collect()
    }

    /// What is drawn beside all that some vertices are near to, likewise.
    pub(crate) fn negatives(&self, epoch: u64, vertices: &[u32]) -> Vec<Pair> {
        let key = rng::key(self.seed, epoch, Purpose::Negative, 2);
        let each = self.pairing.positives() * self.negatives;
        let of = |&v: &u32| {
            let key = kernels::hash::row(key, v);
            (0..each as u64).map(move |k| [v, self.far(key, v, k)])
        };
        vertices.iter().flat_map(of).collect()
    }

    /// What walks from `v` visit.
    fn walks(&self, key: u64, v: u32) -> impl Iterator<Item = u32> {
        let Pairing {
            walks,
            length,
            window,
            ..
        } = self.pairing;
        (0..walks).flat_map(move |walk| {
            let mut at = v;
            // Steps beyond the window are not seen.
            (0..window.min(length)).map(move |step| {
                let near = self.neighbours(at);
                let drawn = rng::below(key, (walk * length + step) as u64, near.len() as u64);
                at = near[drawn as usize];
                at
            })
        })
    }

    /// A vertex that is neither `v` nor a neighbour of it, the `k`-th that is drawn.
    fn far(&self, key: u64, v: u32, k: u64) -> u32 {
        let n = self.start.len() - 1;
        let mut drawn = v;
        for attempt in 0..ATTEMPTS {
            let counter = k * ATTEMPTS + attempt;
            drawn = match &self.weights {
                None => rng::below(key, counter, n as u64) as u32,
                Some(sums) => {
                    let total = sums.last().copied().unwrap_or(0.0);
                    let at = rng::uniform_f64(key, counter) * total;
                    sums.partition_point(|&sum| sum <= at).min(n - 1) as u32
                }
            };
            if drawn != v && self.neighbours(v).binary_search(&drawn).is_err() {
                break;
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of `n` with a vertex 0 that is joined to every fourth.
    fn links(n: u32, negatives: usize) -> Links {
        let ring = (0..n).map(|v| [v, (v + 1) % n]);
        let spokes = (2..n - 1).step_by(4).map(|v| [0, v]);
        Links {
            train: ring.chain(spokes).collect(),
            negatives,
            ..Links::default()
        }
    }

    fn nearby(n: u32, negatives: usize, pairing: Pairing, seed: u64) -> Nearby {
        Nearby::new(n as usize, &links(n, negatives), pairing, seed)
    }

    #[test]
    fn direct_neighbours_are_near_and_others_are_far() {
        let n = 60;
        let drawn = nearby(n, 3, Pairing::default(), 4);
        let all: Vec<u32> = (0..n).collect();
        let (near, far) = (drawn.positives(2, &all), drawn.negatives(2, &all));
        assert_eq!((near.len(), far.len()), (60, 180));
        assert!(near.iter().all(|&[v, u]| drawn.neighbours(v).contains(&u)));
        for (k, &[v, u]) in far.iter().enumerate() {
            assert!(u != v && !drawn.neighbours(v).contains(&u));
            assert_eq!(near[k / 3][0], v);
        }
        // What others are drawn beside it changes nothing.
        assert_eq!(drawn.positives(2, &all[20..23]), near[20..23]);
        assert_eq!(drawn.negatives(2, &all[20..23]), far[60..69]);
        assert_ne!(drawn.positives(3, &all), near);
        let other = nearby(n, 3, Pairing::default(), 5);
        assert_ne!(other.positives(2, &all), near);
    }

    #[test]
    fn walks_step_from_neighbour_to_neighbour() {
        let pairing = Pairing {
            walks: 3,
            length: 5,
            window: 4,
            power: 0.0,
        };
        let drawn = nearby(60, 1, pairing, 4);
        let got = drawn.positives(0, &[7, 0]);
        assert_eq!(got.len(), 2 * pairing.positives());
        for walk in got.chunks(4) {
            let mut at = walk[0][0];
            for &[v, u] in walk {
                assert!(v == walk[0][0] && drawn.neighbours(at).contains(&u));
                at = u;
            }
        }
        assert_ne!(got[..4], got[4..8], "walks differ");
    }

    /// Vertex 0 has 17 neighbours, others 2 or 3: with a power of 1 it is drawn as many times as often.
    #[test]
    fn others_are_drawn_by_degree_where_that_is_asked_for() {
        let count = |power: f64| {
            let pairing = Pairing {
                power,
                ..Pairing::default()
            };
            let drawn = nearby(60, 20, pairing, 1);
            // Vertices that are not joined with it.
            let far: Vec<u32> = (3..58).filter(|v| v % 4 != 2).collect();
            let got = (0..60).flat_map(|epoch| drawn.negatives(epoch, &far));
            let (mut hub, mut all) = (0.0, 0.0);
            got.for_each(|[_, u]| {
                all += 1.0;
                hub += f64::from(u8::from(u == 0));
            });
            hub / all
        };
        let degrees = |power: f64| -> f64 {
            let drawn = nearby(60, 1, Pairing::default(), 1);
            let of = |v: u32| (drawn.neighbours(v).len() as f64).powf(power);
            // Itself and its neighbours, of which most have three, are never drawn.
            of(0) / ((0..60).map(of).sum::<f64>() - 3.0 * 2.5f64.powf(power))
        };
        for power in [0.0, 0.75, 1.0] {
            let (got, expected) = (count(power), degrees(power));
            assert!(
                (got / expected - 1.0).abs() < 0.05,
                "{power}: {got}, {expected}"
            );
        }
    }
}
