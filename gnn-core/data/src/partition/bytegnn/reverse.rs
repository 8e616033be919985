//! The other ends of edges.

use crate::graph::{EdgeOptions, Graph};

/// Destinations of the out-edges of each vertex; nothing for a symmetric graph, whose in-edges
/// say the same.
pub(super) struct Reverse {
    indptr: Vec<u64>,
    indices: Vec<u32>,
}

impl Reverse {
    pub(super) fn of(graph: &Graph) -> Reverse {
        let mut indptr = vec![0u64; graph.n() + 1];
        if graph.is_already(EdgeOptions::SIMPLE) {
            return Reverse {
                indptr,
                indices: Vec::new(),
            };
        }
        graph
            .indices()
            .iter()
            .for_each(|&s| indptr[s as usize + 1] += 1);
        (0..graph.n()).for_each(|v| indptr[v + 1] += indptr[v]);
        let mut next = indptr.clone();
        let mut indices = vec![0; graph.n_edges()];
        for v in 0..graph.n() {
            for &s in graph.neighbours(v) {
                indices[next[s as usize] as usize] = v as u32;
                next[s as usize] += 1;
            }
        }
        Reverse { indptr, indices }
    }

    fn of_vertex(&self, v: u32) -> &[u32] {
        let v = v as usize;
        &self.indices[self.indptr[v] as usize..self.indptr[v + 1] as usize]
    }

    /// The other ends of a vertex' edges, both ways.
    pub(super) fn both<'a>(&'a self, graph: &'a Graph, v: u32) -> impl Iterator<Item = u32> + 'a {
        let near = graph.neighbours(v as usize).iter();
        near.chain(self.of_vertex(v)).copied()
    }
}
