//! The order of vertices in memory: frequent sources next to each other.
//!
//! Aggregation gathers rows in the order of edges. In a graph with skewed degrees most edges lead from
//! few vertices; if those follow each other, their rows share cache lines and pages and stay in the
//! second-level cache. Vertices are sorted by degree, ascending: so that the first runs of
//! destinations read few sources, and have many rows ready to be sent, which is what pipelines want.
//!
//! # Measured
//! Aggregation of narrow rows gains, wide rows and epochs do not: `notebooks/measured/kernels.md`.
//!
//! # Paper
//! Balaji & Lucia, "When is Graph Reordering an Optimization?", IISWC 2018,
//! <https://doi.org/10.1109/IISWC.2018.8573478>: sorting by degree pays for skewed degrees, and harms an
//! order that has locality. Both are looked at before ([`Graph::by_degree`]).

use super::{Graph, Relations, rows_mut};
use rayon::prelude::*;

/// Vertices below which all rows of a few columns lie in the second-level cache anyway.
pub(super) const SMALL: usize = 1 << 14;

/// One of so many vertices counts as frequent.
const FEW: usize = 16;

/// Share of the edges from which the frequent vertices' say that degrees are skewed; if all were alike
/// it were a sixteenth.
const SKEWED: f64 = 0.25;

/// Edges between vertices this share of all ids apart, or closer, are local.
const NEAR: usize = 64;

/// Share of local edges from which the given order is worth keeping; in a random order it is a
/// thirty-second.
pub(super) const LOCAL: f64 = 0.25;

impl Graph {
    /// The vertices by degree, in- and out-edges together, ascending, and by id where it is equal: where
    /// aggregation gains from it. None for small graphs, for even degrees, and where the given order
    /// has locality.
    pub fn by_degree(&self) -> Option<Vec<u32>> {
        if self.n() < SMALL || self.local_share() > LOCAL {
            return None;
        }
        let (ids, degrees) = self.sorted_by_degree();
        let frequent = &ids[ids.len() - ids.len() / FEW..];
        let of: u64 = frequent
            .iter()
            .map(|&v| u64::from(degrees[v as usize]))
            .sum();
        (of as f64 > SKEWED * 2.0 * self.n_edges() as f64).then_some(ids)
    }

    /// The vertices by degree ascending, and by id where it is equal; and the degree of each.
    pub fn sorted_by_degree(&self) -> (Vec<u32>, Vec<u32>) {
        let mut degrees: Vec<u32> = (0..self.n()).map(|v| self.in_degree(v) as u32).collect();
        for piece in self.pieces() {
            for v in piece.clone() {
                for &s in self.neighbours(v) {
                    degrees[s as usize] += 1;
                }
            }
            self.release(piece);
        }
        let mut ids: Vec<u32> = (0..self.n() as u32).collect();
        ids.sort_by_key(|&v| degrees[v as usize]);
        (ids, degrees)
    }

    /// The share of edges that join vertices with ids close to each other.
    pub(super) fn local_share(&self) -> f64 {
        let near = (self.n() / NEAR) as u32;
        self.share(|d, s| s.abs_diff(d) <= near)
    }

    /// The graph whose vertex `k` is `ids[k]` of this one.
    ///
    /// # Panics
    /// When `ids` does not have every vertex once.
    pub fn renumbered(&self, ids: &[u32]) -> Graph {
        assert_eq!(ids.len(), self.n(), "renumbered: a number for each vertex");
        let mut number = vec![u32::MAX; self.n()];
        for (k, &v) in ids.iter().enumerate() {
            number[v as usize] = k as u32;
        }
        assert!(!number.contains(&u32::MAX), "renumbered: each vertex once");
        let mut indptr = Vec::with_capacity(self.n() + 1);
        indptr.push(0);
        let mut edges = 0;
        for &v in ids {
            edges += self.in_degree(v as usize) as u64;
            indptr.push(edges);
        }
        let mut indices = vec![0u32; self.n_edges()];
        let span = |v: u32| self.indptr[v as usize] as usize..self.indptr[v as usize + 1] as usize;
        let relations = match &self.relations {
            None => {
                let rows = rows_mut(&indptr, &mut indices).into_par_iter();
                rows.zip(ids).for_each(|(row, &v)| {
                    for (to, &s) in row.iter_mut().zip(self.neighbours(v as usize)) {
                        *to = number[s as usize];
                    }
                    row.sort_unstable();
                });
                None
            }
            Some(relations) => {
                let mut types = vec![0u16; self.n_edges()];
                let rows = rows_mut(&indptr, &mut indices).into_par_iter();
                let rows = rows.zip(rows_mut(&indptr, &mut types));
                rows.zip(ids).for_each(|((row, types), &v)| {
                    let edge = |e: usize| (number[self.indices[e] as usize], relations.types()[e]);
                    let mut edges: Vec<(u32, u16)> = span(v).map(edge).collect();
                    edges.sort_unstable();
                    for ((to, kind), edge) in row.iter_mut().zip(types).zip(edges) {
                        (*to, *kind) = edge;
                    }
                });
                Some(Relations::new(types, relations.count()).expect("types as before"))
            }
        };
        Graph {
            n: self.n,
            indptr: indptr.into(),
            indices: indices.into(),
            relations,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load::load;
    use crate::testing::{random_dataset, with_relations};

    #[test]
    fn renumbering_keeps_every_edge_and_its_type() {
        for typed in [false, true] {
            let mut data = random_dataset(40, 150, 2, 2, false, 3);
            if typed {
                data = with_relations(data, 3, 1);
            }
            let (ids, degrees) = data.graph.sorted_by_degree();
            assert!(
                ids.windows(2)
                    .all(|w| degrees[w[0] as usize] <= degrees[w[1] as usize])
            );
            let there = data.graph.renumbered(&ids);
            let mut back = vec![0u32; 40];
            for (k, &v) in ids.iter().enumerate() {
                back[v as usize] = k as u32;
            }
            assert_eq!(there.is_symmetric(), data.graph.is_symmetric());
            assert_eq!(there.renumbered(&back), data.graph, "typed {typed}");
            assert!(
                ids.iter()
                    .enumerate()
                    .all(|(k, &v)| { there.in_degree(k) == data.graph.in_degree(v as usize) })
            );
        }
    }

    #[test]
    fn only_large_skewed_graphs_without_locality_are_sorted() {
        let skewed = |text: &str| {
            let data = load(text, 1).expect("a built-in");
            data.graph.by_degree().is_some()
        };
        assert!(skewed("rmat:scale=14,feat=1"));
        assert!(!skewed("rmat:scale=13,feat=1"), "small");
        assert!(!skewed("sbm:nodes=20000,degree=8,feat=1"), "even degrees");
        // By degree itself, neighbours in a community are close: sorted once is not sorted twice.
        let data = load("rmat:scale=14,feat=1", 1).expect("a built-in");
        let n = data.graph.n() as u32;
        let chain: Vec<(u32, u32)> = (1..n)
            .flat_map(|v| [(v - 1, v), (v, v / 64 * 64)])
            .collect();
        let (src, dst): (Vec<u32>, Vec<u32>) = chain.into_iter().unzip();
        let options = crate::graph::EdgeOptions::SIMPLE;
        let local = crate::graph::Graph::from_edges(n as usize, &src, &dst, options);
        assert!(local.expect("a graph").by_degree().is_none(), "locality");
    }
}
