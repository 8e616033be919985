//! The other view of a cut: edges have owners, and a vertex has a replica in every part that has
//! one of its edges.

use crate::Result;
use crate::graph::Graph;
use crate::partition::Request;
use crate::rng::{self, Purpose};

/// Edges assigned to parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VertexCut {
    /// Part of each in-edge, in the graph's order: `[edges]`.
    pub part: Vec<u32>,
    /// Number of parts.
    pub parts: usize,
}

impl VertexCut {
    /// The vertex cut that an edge cut implies: an edge lies where its destination is owned.
    /// `owner: [n]`.
    pub fn by_destination(graph: &Graph, owner: &[u32], parts: usize) -> VertexCut {
        let each = (0..graph.n()).map(|v| (owner[v], graph.in_degree(v)));
        VertexCut {
            part: each.flat_map(|(p, d)| std::iter::repeat_n(p, d)).collect(),
            parts,
        }
    }

    /// Edges streamed in a random order (by the seed) to the part with the highest score: 1 for
    /// each end that has a replica there, more for the end with fewer edges, and at most 1 for
    /// having fewer edges than the fullest part. No part has more than `⌈1.05 · edges / parts⌉`.
    ///
    /// # Paper
    /// HDRF: Petroni, Querzoni, Daudjee, Kamali, Iacoboni, "HDRF: Stream-Based Partitioning for
    /// Power-Law Graphs", CIKM 2015, <https://doi.org/10.1145/2806416.2806424>; λ = 1. It counts
    /// degrees as they come; here they are known.
    ///
    /// # Errors
    /// As [`Request::assign`].
    pub fn streamed(request: &Request) -> Result<VertexCut> {
        request.check()?;
        let (graph, parts) = (request.graph, request.parts);
        let (n, edges) = (graph.n(), graph.n_edges());
        let mut degree: Vec<u32> = (0..n).map(|v| graph.in_degree(v) as u32).collect();
        graph
            .indices()
            .iter()
            .for_each(|&s| degree[s as usize] += 1);
        let dst: Vec<u32> = (0..n)
            .flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v)))
            .collect();
        let mut order: Vec<u64> = (0..edges as u64).collect();
        rng::shuffle(rng::key(request.seed, 0, Purpose::Partition, 4), &mut order);
        let most = (1.05 * edges as f64 / parts as f64).ceil() as u64;
        let mut load = vec![0u64; parts];
        let mut held = Replicas::new(n, parts);
        let mut part = vec![0u32; edges];
        for e in order {
            let (s, d) = (graph.indices()[e as usize], dst[e as usize]);
            let (ds, dd) = (f64::from(degree[s as usize]), f64::from(degree[d as usize]));
            let full = load.iter().copied().max().unwrap_or(0);
            let empty = load.iter().copied().min().unwrap_or(0);
            let score = |p: usize| {
                let has = |v: u32, share: f64| f64::from(u8::from(held.has(v, p))) * (2.0 - share);
                let room = (full - load[p]) as f64 / (1 + full - empty) as f64;
                has(s, ds / (ds + dd)) + has(d, dd / (ds + dd)) + room
            };
            let best = (0..parts)
                .filter(|&p| load[p] < most)
                .map(|p| (score(p), p))
                .max_by(|x, y| {
                    x.0.total_cmp(&y.0)
                        .then(load[y.1].cmp(&load[x.1]))
                        .then(y.1.cmp(&x.1))
                })
                .map(|(_, p)| p)
                .expect("parts · most is at least the edges, so some part has room");
            load[best] += 1;
            held.insert(s, best);
            held.insert(d, best);
            part[e as usize] = best as u32;
        }
        Ok(VertexCut { part, parts })
    }

    /// In how many parts each vertex has an edge, in or out; 1 for a vertex without any: `[n]`.
    pub fn replicas(&self, graph: &Graph) -> Vec<u32> {
        let mut held = Replicas::new(graph.n(), self.parts);
        for v in 0..graph.n() {
            let span = graph.indptr()[v] as usize..graph.indptr()[v + 1] as usize;
            for e in span {
                held.insert(graph.indices()[e], self.part[e] as usize);
                held.insert(v as u32, self.part[e] as usize);
            }
        }
        held.counts()
    }

    /// Mean replicas of a vertex; 0 for a graph without vertices.
    pub fn replication_factor(&self, graph: &Graph) -> f64 {
        let all: u64 = self.replicas(graph).iter().map(|&r| u64::from(r)).sum();
        all as f64 / graph.n().max(1) as f64
    }
}

/// A bit a vertex and part.
struct Replicas {
    words: usize,
    bits: Vec<u64>,
}

impl Replicas {
    fn new(n: usize, parts: usize) -> Replicas {
        let words = parts.div_ceil(64).max(1);
        Replicas {
            words,
            bits: vec![0; n * words],
        }
    }

    fn insert(&mut self, v: u32, part: usize) {
        self.bits[v as usize * self.words + part / 64] |= 1 << (part % 64);
    }

    fn has(&self, v: u32, part: usize) -> bool {
        self.bits[v as usize * self.words + part / 64] >> (part % 64) & 1 == 1
    }

    fn counts(&self) -> Vec<u32> {
        let count = |b: &[u64]| b.iter().map(|w| w.count_ones()).sum::<u32>().max(1);
        self.bits.chunks(self.words).map(count).collect()
    }
}
