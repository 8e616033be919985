//! Communities of a graph, and the order of vertices that keeps each together: what a destination gathers
//! is then near what those before it gathered, and in a cache.
//!
//! Label propagation: every vertex starts as a community of its own. In the order of ids, each joins
//! the one that most of its in-neighbours are in, while that has room, for a few passes over the edges.
//!
//! # Measured
//! What it takes, and what aggregation gains: `notebooks/measured/kernels.md`.
//!
//! # Paper
//! Raghavan, Albert, Kumara, "Near linear time algorithm to detect community structures in large-scale
//! networks", Phys. Rev. E 76, 2007, <https://doi.org/10.1103/PhysRevE.76.036106>. Communities have a largest
//! size, as in Meyerhenke, Sanders, Schulz, "Partitioning Complex Networks via Size-Constrained Clustering", SEA
//! 2014, <https://doi.org/10.1007/978-3-319-07959-2_30>; without one, a community may become most of the graph.

use super::Graph;
use super::order::{LOCAL, SMALL};
use rayon::prelude::*;
use std::ops::Range;

/// Vertices of a community at most: 128 columns of so many rows are a megabyte.
const ROOM: u32 = 2048;

/// Passes over the edges at most.
const PASSES: usize = 4;

/// A pass in which fewer than one vertex of so many moves is the last.
const SETTLED: usize = 20;

/// Share of the edges within communities from which aggregation gains.
const INSIDE: f64 = 0.3;

/// What each vertex belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Communities {
    /// The community of each vertex, numbered by their first vertices: `[n]`.
    pub of: Vec<u32>,
    /// How many there are.
    pub count: usize,
    /// The share of edges within one.
    pub inside: f64,
}

impl Graph {
    /// Groups of vertices, of at most 2 048 each, that many edges stay within.
    pub fn communities(&self) -> Communities {
        let mut label: Vec<u32> = (0..self.n() as u32).collect();
        let mut size = vec![1; self.n()];
        let mut votes = Votes::new(self.n());
        for _ in 0..PASSES {
            let moved = self.pass(&mut label, &mut size, &mut votes);
            if moved * SETTLED < self.n() {
                break;
            }
        }
        drop((size, votes));
        let count = number_by_first(&mut label);
        let inside = self.share(|d, s| label[d as usize] == label[s as usize]);
        Communities {
            of: label,
            count,
            inside,
        }
    }

    /// Vertices community by community, and in each by degree ascending: where aggregation gains from
    /// it. None for small graphs, where few edges are within communities, and where the given order has locality.
    pub fn by_community(&self) -> Option<Vec<u32>> {
        if self.n() < SMALL || self.local_share() > LOCAL {
            return None;
        }
        let communities = self.communities();
        (communities.inside >= INSIDE).then(|| self.sorted_by(&communities))
    }

    /// Vertices community by community, and in each by degree ascending, and by id where it is equal.
    pub fn sorted_by(&self, communities: &Communities) -> Vec<u32> {
        let (mut ids, _) = self.sorted_by_degree();
        ids.sort_by_key(|&v| communities.of[v as usize]);
        ids
    }

    /// Lets every vertex join the community of most of its in-neighbours; how many did.
    fn pass(&self, label: &mut [u32], size: &mut [u32], votes: &mut Votes) -> usize {
        let mut moved = 0;
        for piece in self.pieces() {
            for v in piece.clone() {
                let own = label[v];
                let others = self.neighbours(v).iter().filter(|&&s| s as usize != v);
                others.for_each(|&s| votes.add(label[s as usize]));
                let to = votes.winner(own, |l| size[l as usize] < ROOM);
                if to != own {
                    size[own as usize] -= 1;
                    size[to as usize] += 1;
                    label[v] = to;
                    moved += 1;
                }
            }
            self.release(piece);
        }
        moved
    }

    /// The share of edges, destination and source, of which `is` holds.
    pub(super) fn share(&self, is: impl Fn(u32, u32) -> bool + Sync) -> f64 {
        let of = |piece: Range<usize>| -> usize {
            let among = |v: usize| {
                let sources = self.neighbours(v).iter();
                sources.filter(|&&s| is(v as u32, s)).count()
            };
            let count = piece.clone().map(among).sum();
            self.release(piece);
            count
        };
        let count: usize = self.pieces().into_par_iter().map(of).sum();
        count as f64 / self.n_edges().max(1) as f64
    }
}

/// Neighbours by community, of one vertex at a time.
struct Votes {
    /// By community; zero where there are none.
    count: Vec<u32>,
    /// The communities that have any.
    seen: Vec<u32>,
}

impl Votes {
    fn new(communities: usize) -> Votes {
        Votes {
            count: vec![0; communities],
            seen: Vec::new(),
        }
    }

    fn add(&mut self, community: u32) {
        let count = &mut self.count[community as usize];
        if *count == 0 {
            self.seen.push(community);
        }
        *count += 1;
    }

    /// The community with most votes among those that have room, and the first of several; `own`, unless it
    /// has fewer. No votes are left.
    fn winner(&mut self, own: u32, has_room: impl Fn(u32) -> bool) -> u32 {
        let (mut best, mut most) = (own, self.count[own as usize]);
        for &community in &self.seen {
            let votes = self.count[community as usize];
            if votes > most && has_room(community) {
                (best, most) = (community, votes);
            }
        }
        for community in self.seen.drain(..) {
            self.count[community as usize] = 0;
        }
        best
    }
}

/// Numbers communities from zero on in the order of their first vertices; how many there are.
fn number_by_first(label: &mut [u32]) -> usize {
    let mut number = vec![u32::MAX; label.len()];
    let mut count = 0;
    for l in label {
        let number = &mut number[*l as usize];
        if *number == u32::MAX {
            *number = count;
            count += 1;
        }
        *l = *number;
    }
    count as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeOptions;
    use crate::load::load;

    /// Cliques of `size`, each joined to the next by one edge; vertex `v` is of clique `v % cliques`.
    fn cliques(cliques: u32, size: u32) -> Graph {
        let id = |clique: u32, k: u32| k * cliques + clique;
        let within = (0..cliques)
            .flat_map(|c| (0..size).flat_map(move |a| (0..a).map(move |b| (id(c, a), id(c, b)))));
        let between = (1..cliques).map(|c| (id(c - 1, size - 1), id(c, size - 1)));
        let (src, dst): (Vec<u32>, Vec<u32>) = within.chain(between).unzip();
        let n = (cliques * size) as usize;
        Graph::from_edges(n, &src, &dst, EdgeOptions::SIMPLE).expect("a graph")
    }

    #[test]
    fn cliques_are_communities() {
        let graph = cliques(5, 8);
        let found = graph.communities();
        assert_eq!(found.count, 5);
        assert!((0..40).all(|v| found.of[v] == found.of[v % 5]));
        assert_eq!(found.inside, 280.0 / 288.0);
        let ids = graph.sorted_by(&found);
        for clique in ids.chunks(8) {
            assert!(clique.iter().all(|v| v % 5 == clique[0] % 5), "{clique:?}");
            let degree = |v: &u32| graph.in_degree(*v as usize);
            assert!(clique.is_sorted_by_key(degree));
        }
    }

    #[test]
    fn a_community_has_room_for_so_many() {
        // A star: all would join its centre.
        let n = 3 * ROOM;
        let (src, dst): (Vec<u32>, Vec<u32>) = (1..n).map(|v| (0, v)).unzip();
        let star = Graph::from_edges(n as usize, &src, &dst, EdgeOptions::SIMPLE);
        let found = star.expect("a graph").communities();
        let mut size = vec![0; found.count];
        found.of.iter().for_each(|&c| size[c as usize] += 1);
        assert_eq!(size.iter().max(), Some(&ROOM));
        assert_eq!(size.iter().sum::<u32>(), n);
    }

    #[test]
    fn only_large_graphs_that_have_communities_and_no_locality_are_sorted() {
        let sorted = |text: &str| {
            let data = load(text, 1).expect("a built-in");
            data.graph
                .by_community()
                .map(|ids| data.graph.renumbered(&ids))
        };
        let there = sorted("like:ogbn-products,scale=0.007").expect("communities");
        assert!(there.by_community().is_none(), "sorted once");
        assert!(sorted("like:ogbn-products,scale=0.006").is_none(), "small");
        assert!(sorted("rmat:scale=14,feat=1").is_none(), "no communities");
    }

    #[test]
    fn no_vertices_and_no_edges_are_no_communities() {
        let graph = |n| Graph::from_edges(n, &[], &[], EdgeOptions::AS_IS).expect("a graph");
        assert_eq!(graph(0).communities().count, 0);
        let found = graph(3).communities();
        assert_eq!((found.of, found.inside), (vec![0, 1, 2], 0.0));
    }
}
