//! LDG: linear deterministic greedy, one pass.

use crate::Result;
use crate::partition::stream::{self, ORDER, SLACK, Score, capacity, stream};
use crate::partition::{Partitioner, PartitionerEntry, Request};

/// A vertex goes where most of its neighbours are already, less so the fuller that part is: the
/// part `p` with the highest `|N(v) ∩ P_p| · (1 − |P_p| / C)`, `C = ⌈(1 + slack) · n / parts⌉`. No
/// part has more than `C` vertices.
///
/// # Paper
/// Stanton, Kliot, "Streaming Graph Partitioning for Large Distributed Graphs", KDD 2012,
/// <https://doi.org/10.1145/2339530.2339722>.
pub struct Ldg;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "ldg",
    about: "one pass, to the part with most neighbours weighted by its room (LDG)",
    knobs: &[ORDER, SLACK],
    partitioner: &Ldg,
};

impl Partitioner for Ldg {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let most = most(request);
        stream(request, most, score(most))
    }
}

/// Nanoseconds an edge, of a sample.
pub(super) fn ns_an_edge(request: &Request) -> f64 {
    let most = most(request);
    stream::ns_an_edge(request, most, score(most))
}

/// Vertices of a part at most.
fn most(request: &Request) -> usize {
    capacity(request.graph.n(), request.parts, request.number("slack"))
}

fn score(most: usize) -> impl Score {
    move |near: f64, size: f64| near * (1.0 - size / most as f64)
}
