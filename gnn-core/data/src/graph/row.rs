//! Rows of the weighted graph, one at a time and in another order of vertices, without a copy of the whole.

use super::{Graph, Propagation};
use rayon::prelude::*;
use std::ops::Range;

/// Edges after which a pass over a graph in a mapped file says that it is done with them.
const PIECE: u64 = 1 << 20;

/// The rows that `graph.renumbered(ids).propagation(how)` has, with sources by their ids in `graph`.
pub struct WeightedRows<'a> {
    /// The graph whose rows they are.
    pub graph: &'a Graph,
    how: Propagation,
    /// The vertex at each place of the order, and the place of each vertex; none for the given order.
    order: Option<(&'a [u32], Vec<u32>)>,
    /// By vertex, one over the root of its in-degree with its loop, where weights are made of those.
    scale: Vec<f32>,
}

/// One row, to be filled: as many sources as [`WeightedRows::len`] says, and as many weights and types
/// where [`WeightedRows::has_weights`] and [`WeightedRows::relations`] say that there are any.
pub struct RowMut<'a> {
    /// Sources of its in-edges.
    pub sources: &'a mut [u32],
    /// Their weights.
    pub weights: Option<&'a mut [f32]>,
    /// Their relations.
    pub types: Option<&'a mut [u16]>,
}

impl<'a> WeightedRows<'a> {
    /// Rows whose sources follow each other as in `ids`, which has every vertex once; ascending without
    /// it. Reads the graph once where weights depend on the degrees of sources.
    pub fn new(graph: &'a Graph, ids: Option<&'a [u32]>, how: Propagation) -> Self {
        let place = |ids: &'a [u32]| {
            let mut places = vec![0u32; ids.len()];
            for (k, &v) in ids.iter().enumerate() {
                places[v as usize] = k as u32;
            }
            (ids, places)
        };
        let mut rows = WeightedRows {
            graph,
            how,
            order: ids.map(place),
            scale: Vec::new(),
        };
        if how == Propagation::GcnSym {
            let of = |v| 1.0 / (rows.len(v) as f64).sqrt() as f32;
            let scale = |piece: Range<usize>| -> Vec<f32> {
                let scale = piece.clone().map(of).collect();
                graph.release(piece);
                scale
            };
            let pieces: Vec<Vec<f32>> = graph.pieces().into_par_iter().map(scale).collect();
            rows.scale = pieces.concat();
        }
        rows
    }

    /// Where a vertex is in the order.
    #[inline]
    pub fn place(&self, v: u32) -> u32 {
        match &self.order {
            Some((_, places)) => places[v as usize],
            None => v,
        }
    }

    /// Whether every row has a loop of its own, whatever loops the graph has.
    #[inline]
    pub fn loops(&self) -> bool {
        self.how.adds_loops()
    }

    /// Edges of the row of `v`.
    #[inline]
    pub fn len(&self, v: usize) -> usize {
        match self.loops() {
            false => self.graph.in_degree(v),
            true => {
                let others = self.graph.neighbours(v).iter();
                1 + others.filter(|&&s| s as usize != v).count()
            }
        }
    }

    /// Whether edges have weights.
    #[inline]
    pub fn has_weights(&self) -> bool {
        !matches!(self.how, Propagation::Sum | Propagation::Loops)
    }

    /// Number of types of edges; none where rows have no types.
    #[inline]
    pub fn relations(&self) -> Option<usize> {
        let relations = self.graph.relations().map_or(1, |r| r.count());
        (self.how == Propagation::RelationMean).then_some(relations)
    }

    /// Writes the row of `v`.
    #[inline]
    pub fn fill(&self, v: usize, row: RowMut<'_>) {
        let RowMut {
            sources,
            weights,
            types,
        } = row;
        if let Some(types) = types {
            self.fill_typed(v, sources, types, weights);
            return;
        }
        let own = v as u32;
        let given = self.graph.neighbours(v);
        if self.loops() {
            let at = given.partition_point(|&s| s < own);
            let others = |part: &'a [u32]| part.iter().copied().filter(move |&s| s != own);
            let all = others(&given[..at])
                .chain([own])
                .chain(others(&given[at..]));
            sources.iter_mut().zip(all).for_each(|(to, s)| *to = s);
        } else {
            sources.copy_from_slice(given);
        }
        if let Some((ids, places)) = &self.order {
            sources.iter_mut().for_each(|s| *s = places[*s as usize]);
            sources.sort_unstable();
            sources.iter_mut().for_each(|k| *k = ids[*k as usize]);
        }
        let Some(weights) = weights else { return };
        if self.how == Propagation::GcnSym {
            for (w, &s) in weights.iter_mut().zip(&*sources) {
                *w = self.scale[v] * self.scale[s as usize];
            }
        } else {
            weights.fill(1.0 / sources.len() as f32);
        }
    }

    fn fill_typed(
        &self,
        v: usize,
        sources: &mut [u32],
        types: &mut [u16],
        weights: Option<&mut [f32]>,
    ) {
        let start = self.graph.indptr()[v] as usize;
        let of = |e: usize| self.graph.relations().map_or(0, |r| r.types()[start + e]);
        let edge = |(e, &s): (usize, &u32)| (self.place(s), of(e), s);
        let given = self.graph.neighbours(v).iter().enumerate();
        let mut edges: Vec<(u32, u16, u32)> = given.map(edge).collect();
        if self.order.is_some() {
            edges.sort_unstable();
        }
        for ((to, t), edge) in sources.iter_mut().zip(types.iter_mut()).zip(&edges) {
            (*t, *to) = (edge.1, edge.2);
        }
        let Some(weights) = weights else { return };
        let mut degree = std::collections::HashMap::<u16, u32>::new();
        types
            .iter()
            .for_each(|t| *degree.entry(*t).or_default() += 1);
        for (w, t) in weights.iter_mut().zip(types.iter()) {
            *w = 1.0 / degree[t] as f32;
        }
    }
}

impl Graph {
    /// Runs of rows with some million edges each, for passes over the graph that say when they are done
    /// with one ([`Graph::release`]).
    pub fn pieces(&self) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut first = 0;
        while first < self.n {
            let upto = self.indptr[first] + PIECE;
            let last = self.indptr.partition_point(|&edges| edges <= upto);
            let end = (last.max(first + 2) - 1)
                .min(self.n)
                .min(first + PIECE as usize);
            pieces.push(first..end);
            first = end;
        }
        self.indptr.release(0..self.n + 1);
        pieces
    }

    /// Says that these rows will not be read soon: where the graph lies in a mapped file, they no longer
    /// count as this process's memory. They may be read as before.
    pub fn release(&self, rows: Range<usize>) {
        let edges = self.indptr[rows.start] as usize..self.indptr[rows.end] as usize;
        self.indices.release(edges.clone());
        if let Some(relations) = &self.relations {
            relations.release(edges);
        }
        self.indptr.release(rows.start..rows.end + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random_dataset, with_relations};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_those_of_the_renumbered_block(
            n in 1usize..40, degree in 0usize..6, typed: bool, ordered: bool, seed: u64,
        ) {
            let mut data = random_dataset(n, n * degree, 2, 2, false, seed);
            if typed {
                data = with_relations(data, 3, seed);
            }
            let graph = &data.graph;
            let (ids, _) = graph.sorted_by_degree();
            let given: Vec<u32> = (0..n as u32).collect();
            let ids = if ordered { ids } else { given };
            use Propagation::{GcnSym, Loops, Mean, RelationMean, Sum};
            for how in [GcnSym, Loops, Mean, RelationMean, Sum] {
                let block = graph.renumbered(&ids).propagation(how);
                let rows = WeightedRows::new(graph, ordered.then_some(&ids[..]), how);
                prop_assert_eq!(rows.has_weights(), block.csr().weights.is_some());
                prop_assert_eq!(rows.relations().unwrap_or(0), block.n_relations());
                for (k, &v) in ids.iter().enumerate() {
                    let (a, span) = (block.csr(), block.csr().span(k));
                    let len = rows.len(v as usize);
                    prop_assert_eq!(len, span.len());
                    let (mut sources, mut weights, mut types) =
                        (vec![0; len], vec![0.0; len], vec![0; len]);
                    rows.fill(v as usize, RowMut {
                        sources: &mut sources,
                        weights: rows.has_weights().then_some(&mut weights[..]),
                        types: rows.relations().map(|_| &mut types[..]),
                    });
                    let places: Vec<u32> = sources.iter().map(|&s| rows.place(s)).collect();
                    prop_assert_eq!(&places[..], &a.indices[span.clone()]);
                    if let Some(all) = a.weights {
                        prop_assert_eq!(&weights[..], &all[span.clone()]);
                    }
                    if let Some(all) = block.types() {
                        prop_assert_eq!(&types[..], &all[span]);
                    }
                }
            }
        }

        #[test]
        fn pieces_are_all_rows_in_order(n in 1usize..50, degree in 0usize..5, seed: u64) {
            let graph = random_dataset(n, n * degree, 1, 2, false, seed).graph;
            let rows: Vec<usize> = graph.pieces().into_iter().flatten().collect();
            prop_assert_eq!(rows, (0..n).collect::<Vec<_>>());
        }
    }
}
