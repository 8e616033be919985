//! The simple undirected graph under a directed one, without a copy where it is one already.

use std::borrow::Cow;

use crate::Result;
use crate::graph::{EdgeOptions, Graph};

/// Both directions of every edge, no repeats, no self loops; borrowed where `graph` is so.
pub(super) fn undirected(graph: &Graph) -> Result<Cow<'_, Graph>> {
    if is_simple(graph) {
        return Ok(Cow::Borrowed(graph));
    }
    let dst: Vec<u32> = (0..graph.n())
        .flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v)))
        .collect();
    Graph::from_edges(graph.n(), graph.indices(), &dst, EdgeOptions::SIMPLE).map(Cow::Owned)
}

/// Whether the graph is simple and undirected already. Rows ascend, so reading the vertices in
/// order meets every row's sources in order: each must be the next unread one of its own row.
pub(super) fn is_simple(graph: &Graph) -> bool {
    let mut next: Vec<u64> = graph.indptr()[..graph.n()].to_vec();
    (0..graph.n()).all(|v| {
        let row = graph.neighbours(v);
        let repeats = row.windows(2).any(|pair| pair[0] == pair[1]);
        !repeats
            && row.iter().all(|&s| {
                let slot = &mut next[s as usize];
                let end = graph.indptr()[s as usize + 1];
                let unread = (*slot < end).then(|| graph.indices()[*slot as usize] as usize);
                *slot += 1;
                s as usize != v && unread == Some(v)
            })
    })
}
