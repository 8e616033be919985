//! Contiguous runs of vertex ids, of equal count or of equal work.

use crate::Result;
use crate::knobs::{Knob, Value};
use crate::partition::{Partitioner, PartitionerEntry, Request};

/// Contiguous vertex ids. Keeps locality that the ids have.
///
/// By vertices, part `p` owns `⌊p·n/parts⌋ .. ⌊(p+1)·n/parts⌋`: counts differ by at most one. By
/// edges, cuts are put where the in-edges so far pass a whole share: no part has more than its
/// share and the largest in-degree.
pub struct Chunk;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "chunk",
    about: "contiguous vertex ids, equal vertices or equal in-edges",
    knobs: &[Knob {
        name: "by",
        default: "vertices",
        doc: "what parts have equally many of: vertices or edges (in-edges)",
        check: |v| matches!(v, Value::Str(s) if s == "vertices" || s == "edges"),
    }],
    partitioner: &Chunk,
};

impl Partitioner for Chunk {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let n = request.graph.n();
        let bounds = if request.word("by") == "edges" {
            equal_edges(request.graph.indptr(), request.parts)
        } else {
            kernels::par::split_rows(n, request.parts)
        };
        let mut owner = vec![0; n];
        for (p, b) in bounds.windows(2).enumerate() {
            owner[b[0]..b[1]].fill(p as u32);
        }
        Ok(owner)
    }
}

/// Bounds of runs of rows with about equal numbers of entries: `[parts + 1]`. `indptr: [rows + 1]`
/// are the entries before each row.
pub(super) fn equal_edges(indptr: &[u64], parts: usize) -> Vec<usize> {
    let rows = indptr.len() - 1;
    let total = u128::from(indptr[rows] - indptr[0]);
    let at = |p: usize| {
        let share = indptr[0] + (total * p as u128 / parts as u128) as u64;
        indptr.partition_point(|&e| e < share).min(rows)
    };
    let mut bounds: Vec<usize> = (0..parts).map(at).collect();
    bounds[0] = 0;
    bounds.push(rows);
    bounds
}
