//! How METIS will coarsen a graph, foreseen: vertices and edges of every level.
//!
//! METIS holds all levels at once and works through each, so their sum decides its memory and most of
//! its time; and how fast edges disappear differs from graph to graph. Here vertices are matched as
//! METIS matches them, but each looks at few of its edges only, no coarse graph is built, and the
//! edges of a level are counted in a sample.
//!
//! # Paper
//! Matching and levels as in METIS 5.2 (`coarsen.c`): Karypis, Kumar, "A Fast and High Quality
//! Multilevel Scheme for Partitioning Irregular Graphs", SIAM J. Sci. Comput. 20(1), 1998,
//! <https://doi.org/10.1137/S1064827595287997>; pairs at distance two as in LaSalle et al., IPDPS 2015.

use super::border::{Sampled, parted};
use kernels::hash::mix64;
use rayon::prelude::*;

use crate::graph::Graph;

/// Vertices and directed edges of the graph and of each coarser one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Levels {
    pub nodes: Vec<f64>,
    pub edges: Vec<f64>,
    /// Other parts that a level's vertices have neighbours in, summed over them.
    pub near: Vec<f64>,
    /// A level's vertices that have a neighbour in another part.
    pub border: Vec<f64>,
}

/// Edges that a cluster looks at to find its mate.
const LOOKED: usize = 48;

/// Edges of a level that are counted, about; then every power of two of them stands for more.
pub(super) const COUNTED: usize = 1 << 17;

/// METIS ends when a level has more than this share of the vertices of the one before.
const SLOW: f64 = 0.85;

/// Above this share of vertices without a mate, those at distance two are paired; above one and a
/// half times, and twice, as many those of more edges as well.
const ALONE: f64 = 0.10;

const NONE: u32 = u32::MAX;

/// What METIS makes of `graph` on its way to `parts`. Every vertex weighs one, or with `by_edges` its
/// edges and their mean.
pub(super) fn levels(graph: &Graph, parts: usize, by_edges: bool) -> Levels {
    let (n, edges) = (graph.n(), graph.n_edges());
    let mut levels = Levels {
        nodes: vec![n as f64],
        edges: vec![edges as f64],
        near: Vec::new(),
        border: Vec::new(),
    };
    let enough = n / (40 * parts.max(2).ilog2() as usize);
    let enough = enough.max(30 * parts);
    let mut clusters = Clusters::single(graph, by_edges);
    let total: u64 = clusters.weight.iter().sum();
    let heaviest = 1.5 * total as f64 / enough as f64;
    let mut sampled = vec![Sampled::of(&clusters)];
    while clusters.count() > enough {
        let before = clusters.count();
        let mates = clusters.mates(heaviest, levels.nodes.len() as u64);
        clusters.join(&mates);
        let edges = clusters.edges();
        levels.nodes.push(clusters.count() as f64);
        levels.edges.push(edges);
        sampled.push(Sampled::of(&clusters));
        let now = clusters.count() as f64;
        if now >= SLOW * before as f64 || edges <= now / 2.0 {
            break;
        }
    }
    let owner = parted(&clusters, parts);
    for level in &sampled {
        let (near, border) = level.count(graph, &owner, parts);
        levels.near.push(near);
        levels.border.push(border);
    }
    levels
}

/// Vertices that are one at some level.
pub(super) struct Clusters<'a> {
    pub graph: &'a Graph,
    /// The cluster of each vertex: `[n]`.
    pub of: Vec<u32>,
    /// Where each cluster's vertices start: `[clusters + 1]`.
    starts: Vec<u32>,
    /// Vertices cluster by cluster: `[n]`.
    members: Vec<u32>,
    /// By cluster.
    pub weight: Vec<u64>,
    /// Neighbours by cluster; at most, where they were not all counted.
    degree: Vec<u32>,
}

impl<'a> Clusters<'a> {
    /// Every vertex by itself.
    fn single(graph: &'a Graph, by_edges: bool) -> Clusters<'a> {
        let n = graph.n() as u32;
        let degree: Vec<u32> = (0..n).map(|v| graph.in_degree(v as usize) as u32).collect();
        let mean = graph.n_edges() as u64 / u64::from(n).max(1) + 1;
        let weight = |&d: &u32| if by_edges { u64::from(d) + mean } else { 1 };
        Clusters {
            graph,
            of: (0..n).collect(),
            starts: (0..=n).collect(),
            members: (0..n).collect(),
            weight: degree.iter().map(weight).collect(),
            degree,
        }
    }

    pub fn count(&self) -> usize {
        self.weight.len()
    }

    pub fn members(&self, a: u32) -> &[u32] {
        &self.members[self.starts[a as usize] as usize..self.starts[a as usize + 1] as usize]
    }

    /// Few edges first, those of about as many in a random order.
    fn order(&self, level: u64) -> Vec<u32> {
        let all: u64 = self.degree.iter().map(|&d| u64::from(d)).sum();
        let most = (0.7 * all as f64 / self.count() as f64) as u32 + 1;
        let key = |a: u32| {
            let bucket = f64::from(self.degree[a as usize].min(most) + 1).sqrt();
            (bucket as u32, mix64(u64::from(a) ^ level << 40) as u32, a)
        };
        let mut keys: Vec<_> = (0..self.count() as u32).into_par_iter().map(key).collect();
        keys.par_sort_unstable();
        keys.into_iter().map(|(_, _, a)| a).collect()
    }

    /// The mate of each cluster, itself where it has none.
    fn mates(&self, heaviest: f64, level: u64) -> Vec<u32> {
        let mut mate = vec![NONE; self.count()];
        let mut seen: Vec<(u32, u32)> = Vec::with_capacity(LOOKED);
        for a in self.order(level) {
            if mate[a as usize] != NONE {
                continue;
            }
            let own = self.weight[a as usize];
            if own as f64 >= heaviest {
                mate[a as usize] = a;
                continue;
            }
            let fits = |b: u32| {
                let both = own + self.weight[b as usize];
                b != a && mate[b as usize] == NONE && both as f64 <= heaviest
            };
            seen.clear();
            let all = self.looked(a, level).filter(|&b| fits(b));
            // At first all edges weigh the same.
            let best = if level == 1 {
                let mut all = all;
                all.next()
            } else {
                all.for_each(|b| match seen.iter_mut().find(|s| s.0 == b) {
                    Some(s) => s.1 += 1,
                    None => seen.push((b, 1)),
                });
                seen.iter().max_by_key(|s| s.1).map(|s| s.0)
            };
            if let Some(b) = best {
                (mate[a as usize], mate[b as usize]) = (b, a);
            }
        }
        self.distant(&mut mate);
        (0..).zip(&mut mate).for_each(|(a, mate)| {
            if *mate == NONE {
                *mate = a;
            }
        });
        mate
    }

    /// Clusters that some of the edges of `a` lead to, edges spread over its vertices.
    fn looked(&self, a: u32, level: u64) -> impl Iterator<Item = u32> {
        let members = self.members(a);
        let each = (LOOKED / members.len().max(1)).max(1);
        let some = members
            .iter()
            .step_by(members.len().div_ceil(LOOKED).max(1));
        some.flat_map(move |&v| {
            let row = self.graph.neighbours(v as usize);
            let first = mix64(u64::from(v) ^ level << 32) as usize;
            let at = move |k: usize| row[(first.wrapping_add(k)) % row.len()];
            (0..row.len().min(each)).map(move |k| self.of[at(k) as usize])
        })
    }

    /// Pairs clusters without a mate: those without edges with each other, and where many are left
    /// those that share a neighbour.
    fn distant(&self, mate: &mut [u32]) {
        let count = mate.len();
        let pair = |mate: &mut [u32], a: u32, b: u32| {
            (mate[a as usize], mate[b as usize]) = (b, a);
        };
        let mut island = None;
        for a in (0..count as u32).filter(|&a| self.degree[a as usize] == 0) {
            match island.take() {
                _ if mate[a as usize] != NONE => {}
                Some(b) => pair(mate, a, b),
                None => island = Some(a),
            }
        }
        let mut waiting = vec![NONE; count];
        for (share, below) in [(1.0, 2), (1.5, 3), (2.0, u32::MAX)] {
            let alone = mate.iter().filter(|&&m| m == NONE).count();
            if alone as f64 <= share * ALONE * count as f64 {
                return;
            }
            waiting.fill(NONE);
            for a in 0..count as u32 {
                if mate[a as usize] != NONE || self.degree[a as usize] >= below {
                    continue;
                }
                for hub in self.looked(a, 0).filter(|&hub| hub != a).take(LOOKED) {
                    let b = waiting[hub as usize];
                    if b != NONE && b != a && mate[b as usize] == NONE {
                        pair(mate, a, b);
                        break;
                    }
                    waiting[hub as usize] = a;
                }
            }
        }
    }

    /// Makes one of each pair.
    fn join(&mut self, mate: &[u32]) {
        let mut new = vec![0; mate.len()];
        let mut weight = Vec::new();
        let (mut starts, mut members) = (vec![0], Vec::with_capacity(self.members.len()));
        for (a, &b) in (0..).zip(mate) {
            if b < a {
                continue;
            }
            let mut sum = 0;
            let both = [a, b];
            for &c in &both[..1 + usize::from(a != b)] {
                new[c as usize] = weight.len() as u32;
                sum += self.weight[c as usize];
                members.extend_from_slice(self.members(c));
            }
            starts.push(members.len() as u32);
            weight.push(sum);
        }
        let of = self.of.par_iter_mut();
        of.for_each(|cluster| *cluster = new[*cluster as usize]);
        (self.starts, self.members, self.weight) = (starts, members, weight);
    }

    /// Directed edges between clusters, repeats once; sets how many each cluster has.
    fn edges(&mut self) -> f64 {
        let graph = self.graph;
        let bits = (graph.n_edges() / COUNTED).max(1).ilog2();
        let counted = |a: u32, b: u32| {
            let key = u64::from(a) << 32 | u64::from(b);
            let drawn = bits == 0 || mix64(key) >> (64 - bits) == 0;
            (a < b && drawn).then_some(key)
        };
        let row = |v: usize| {
            let a = self.of[v];
            let ends = graph.neighbours(v).iter().map(|&s| self.of[s as usize]);
            ends.filter_map(move |b| counted(a, b))
        };
        let mut pairs: Vec<u64> = (0..graph.n()).into_par_iter().flat_map_iter(row).collect();
        pairs.par_sort_unstable();
        pairs.dedup();
        if bits == 0 {
            self.degree = vec![0; self.count()];
            let ends = pairs
                .iter()
                .flat_map(|&p| [(p >> 32) as usize, p as u32 as usize]);
            ends.for_each(|a| self.degree[a] += 1);
        } else {
            let all = |a: u32| {
                let members = self.members(a).iter();
                let sum: usize = members.map(|&v| graph.in_degree(v as usize)).sum();
                sum.min(u32::MAX as usize) as u32
            };
            self.degree = (0..self.count() as u32).map(all).collect();
        }
        2.0 * pairs.len() as f64 * f64::from(1u32 << bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeOptions;

    #[test]
    fn a_ring_halves_and_keeps_an_edge_a_vertex_in_each_direction() {
        let n = 4096u32;
        let src: Vec<u32> = (0..n).collect();
        let dst: Vec<u32> = (0..n).map(|v| (v + 1) % n).collect();
        let ring = Graph::from_edges(n as usize, &src, &dst, EdgeOptions::SIMPLE).expect("valid");
        let levels = levels(&ring, 4, false);
        assert_eq!((levels.nodes[0], levels.edges[0]), (4096.0, 8192.0));
        for (n, e) in levels.nodes.iter().zip(&levels.edges) {
            assert_eq!(*e, 2.0 * n, "a contracted ring is a ring");
        }
        for pair in levels.nodes.windows(2) {
            let share = pair[1] / pair[0];
            // Three of four at the end, where no vertex may become heavier.
            assert!((0.5..=0.8).contains(&share), "{levels:?}");
        }
        // METIS stops at thirty vertices a part.
        assert!(
            levels
                .nodes
                .last()
                .is_some_and(|n| (60.0..=120.0).contains(n))
        );
    }

    #[test]
    fn leaves_of_one_hub_are_paired() {
        let n = 10_000u32;
        let leaves: Vec<u32> = (1..n).collect();
        let hub = vec![0; leaves.len()];
        let star = Graph::from_edges(n as usize, &leaves, &hub, EdgeOptions::SIMPLE);
        let levels = levels(&star.expect("valid"), 2, false);
        let share = levels.nodes[1] / levels.nodes[0];
        assert!((0.5..0.52).contains(&share), "{levels:?}");
    }
}
