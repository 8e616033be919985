//! The simple undirected graph under a directed one, without a copy where it is one already.

use std::borrow::Cow;

use crate::Result;
use crate::graph::{EdgeOptions, Graph};

/// Both directions of every edge, no repeats, no self loops; borrowed where `graph` is so.
pub(super) fn undirected(graph: &Graph) -> Result<Cow<'_, Graph>> {
    if graph.is_already(EdgeOptions::SIMPLE) {
        return Ok(Cow::Borrowed(graph));
    }
    let dst: Vec<u32> = (0..graph.n())
        .flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v)))
        .collect();
    Graph::from_edges(graph.n(), graph.indices(), &dst, EdgeOptions::SIMPLE).map(Cow::Owned)
}
