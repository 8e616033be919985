//! Contiguous runs of vertex ids of equal count.

use crate::Result;
use crate::graph::Graph;
use crate::partition::{Partitioner, PartitionerEntry, check_parts};

/// Part `p` owns the vertices `⌊p·n/parts⌋ .. ⌊(p+1)·n/parts⌋`. Keeps locality that the ids have.
pub struct Chunk;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "chunk",
    about: "contiguous vertex ids, equal counts",
    partitioner: &Chunk,
};

impl Partitioner for Chunk {
    fn assign(&self, graph: &Graph, parts: usize, _seed: u64) -> Result<Vec<u32>> {
        check_parts(parts)?;
        let bounds = kernels::par::split_rows(graph.n(), parts);
        let mut owner = vec![0; graph.n()];
        for (p, b) in bounds.windows(2).enumerate() {
            owner[b[0]..b[1]].fill(p as u32);
        }
        Ok(owner)
    }
}
