//! Power-law thinning: what may be forgotten of a graph while it is being cut.
//!
//! # Paper
//! Zheng et al., "DistDGL: Distributed Graph Neural Network Training for Billion-Scale Graphs",
//! IA3 2020, <https://arxiv.org/abs/2010.05337>; §4.1.2 of the article of 2024 that joins DistDGL,
//! ByteGNN and SANCUS. Coarse graphs of a power-law graph become ever denser; so each successive
//! graph keeps only as many edges of a vertex as its constituents had on average, those of the
//! highest weights, and METIS makes one initial partitioning and one pass of refinement a level.
//!
//! # Differs
//! METIS 5.2 has the rule for coarse graphs built in (its option `DROPEDGES`), which
//! `thin=coarse` asks for. `thin=input` applies it to the input as well, where all weights are
//! equal: there an edge weighs more the fewer edges its other end has, since an edge between two
//! hubs says least about where either belongs. The cut is always counted on the whole graph.

use crate::graph::Graph;
use crate::rng::{self, Purpose};

/// The graph without edges that are not among the `keep` heaviest of both their ends; the heaviest
/// of a vertex always stays, so that no vertex loses its last one. At most `n · (keep + 2)`
/// directed edges are left. `graph` is simple and undirected, and so is the result.
pub(super) fn thin(graph: &Graph, keep: usize) -> Graph {
    let n = graph.n();
    // The order of an edge at one of its ends: fewer edges at the other end first, then its id.
    let rank = |s: u32| (graph.in_degree(s as usize), s);
    // The last edge that each vertex keeps, and its first.
    let mut last = Vec::with_capacity(n);
    let mut first = Vec::with_capacity(n);
    let mut row: Vec<(usize, u32)> = Vec::new();
    for v in 0..n {
        row.clear();
        row.extend(graph.neighbours(v).iter().map(|&s| rank(s)));
        first.push(row.iter().min().copied());
        last.push(if row.len() <= keep {
            (usize::MAX, u32::MAX)
        } else if keep == 0 {
            (0, 0)
        } else {
            *row.select_nth_unstable(keep - 1).1
        });
    }
    graph.filtered(|s, d| {
        let (at_s, at_d) = (rank(d), rank(s));
        let among_both = at_s <= last[s as usize] && at_d <= last[d as usize];
        among_both || first[s as usize] == Some(at_s) || first[d as usize] == Some(at_d)
    })
}

/// Edges that [`left`] looks at, and entries of rows that it reads for them; at most.
const DRAWN: u64 = 1024;
const READ: usize = 1 << 20;

/// The share of the edges that [`thin`] leaves when it keeps the mean degree, of some of them.
pub(super) fn left(graph: &Graph) -> f64 {
    let (n, edges) = (graph.n(), graph.n_edges());
    let keep = edges.div_ceil(n.max(1));
    let rank = |s: u32| (graph.in_degree(s as usize), s);
    // How many edges of `v` come before that to `s`.
    let before = |v: u32, s: u32| {
        let row = graph.neighbours(v as usize).iter();
        row.filter(|&&other| rank(other) < rank(s)).count()
    };
    let key = rng::key(1, 0, Purpose::Partition, 8);
    let (mut seen, mut stay, mut read) = (0u64, 0u64, 0);
    while seen < DRAWN && read < READ && edges > 0 {
        let e = rng::below(key, seen, edges as u64);
        let v = graph.indptr().partition_point(|&start| start <= e) as u32 - 1;
        let s = graph.indices()[e as usize];
        let at = [before(v, s), before(s, v)];
        stay += u64::from(at.iter().all(|&k| k < keep) || at.contains(&0));
        read += graph.in_degree(v as usize) + graph.in_degree(s as usize);
        seen += 1;
    }
    stay as f64 / seen.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeOptions;

    #[test]
    fn hubs_lose_edges_among_themselves_and_leaves_keep_theirs() {
        // Four hubs, each with every other hub and five leaves of its own.
        let mut edges = Vec::new();
        for h in 0..4u32 {
            edges.extend((h + 1..4).map(|g| (h, g)));
            edges.extend((0..5).map(|l| (h, 4 + 5 * h + l)));
        }
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        let g = Graph::from_edges(24, &src, &dst, EdgeOptions::SIMPLE).expect("valid");
        let t = thin(&g, 2);
        assert!(t.is_symmetric() && t.n_edges() <= 24 * 4);
        assert!((4..24).all(|v| t.in_degree(v) == 1), "no leaf is cut off");
        assert!((0..4u32).all(|h| t.neighbours(h as usize).iter().all(|&s| s >= 4)));
        assert_eq!(thin(&g, 8), g, "nobody has more than eight");
    }
    #[test]
    fn what_is_left_is_foreseen_from_some_edges() {
        for data in ["rmat:scale=12,feat=1", "sbm:nodes=4000,degree=20,feat=1"] {
            let graph = crate::load::load(data, 1).expect("built in").graph;
            let kept = thin(&graph, graph.n_edges().div_ceil(graph.n())).n_edges();
            let share = kept as f64 / graph.n_edges() as f64;
            let foreseen = left(&graph);
            assert!(
                (foreseen - share).abs() < 0.06,
                "{data}: {foreseen} {share}"
            );
        }
        let none = Graph::from_edges(3, &[], &[], EdgeOptions::SIMPLE);
        assert_eq!(left(&none.expect("valid")), 0.0);
    }
}
