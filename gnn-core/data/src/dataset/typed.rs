//! Graphs whose edges belong to relations, as all readers make them.

use crate::Result;
use crate::graph::{Graph, Relations};

/// The edges `src[e] → dst[e]` of relation `types[e]`, below `count`. Inverse relations are added,
/// `r + count` for `r`, unless every edge already has its reverse or the data is `directed`.
///
/// # Errors
/// [`crate::Error::Shape`] when an edge leaves the graph or a relation its number.
pub(super) fn graph(
    n: usize,
    [src, dst]: [Vec<u32>; 2],
    types: Vec<u16>,
    count: usize,
    directed: bool,
) -> Result<Graph> {
    let relations = Relations::new(types, count)?;
    let given = Graph::from_typed_edges(n, &src, &dst, &relations)?;
    if directed || given.is_symmetric() {
        return Ok(given);
    }
    drop(given);
    let relations = relations.with_inverses()?;
    let both = |a: &[u32], b: &[u32]| [a, b].concat();
    Graph::from_typed_edges(n, &both(&src, &dst), &both(&dst, &src), &relations)
}
