//! Fennel: one pass between cut edges and balance.

use crate::Result;
use crate::knobs::Knob;
use crate::partition::stream::{self, ORDER, SLACK, Score, capacity, stream};
use crate::partition::undirected::undirected;
use crate::partition::{Partitioner, PartitionerEntry, Request};

/// A vertex goes to the part `p` with the highest `|N(v) ∩ P_p| − α·γ·|P_p|^(γ−1)`, where
/// `α = m · parts^(γ−1) / n^γ` for `m` undirected edges: with `γ = 1.5` the paper's
/// `√parts · m / n^1.5`. No part has more than `⌈(1 + slack) · n / parts⌉` vertices (the paper's
/// `ν = 1.1`).
///
/// # Paper
/// Tsourakakis, Gkantsidis, Radunovic, Vojnovic, "FENNEL: Streaming Graph Partitioning for Massive
/// Scale Graphs", WSDM 2014, <https://doi.org/10.1145/2556195.2556213>.
pub struct Fennel;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "fennel",
    about: "one pass, neighbours less a price for a part's size (Fennel)",
    knobs: &[
        ORDER,
        SLACK,
        Knob {
            name: "gamma",
            default: "1.5",
            doc: "exponent of the price, above 1 and at most 2",
            check: |v| v.as_f64().is_some_and(|x| x > 1.0 && x <= 2.0),
        },
    ],
    partitioner: &Fennel,
};

impl Partitioner for Fennel {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let edges = undirected(request.graph)?.n_edges();
        stream(request, most(request), score(request, edges))
    }
}

/// Nanoseconds an edge, of a sample.
pub(super) fn ns_an_edge(request: &Request) -> f64 {
    let edges = request.graph.n_edges();
    stream::ns_an_edge(request, most(request), score(request, edges))
}

/// Vertices of a part at most.
fn most(request: &Request) -> usize {
    capacity(request.graph.n(), request.parts, request.number("slack"))
}

/// For `edges` edges, each in both directions.
fn score(request: &Request, edges: usize) -> impl Score {
    let (n, parts) = (request.graph.n() as f64, request.parts as f64);
    let gamma = request.number("gamma");
    let alpha = edges as f64 / 2.0 * parts.powf(gamma - 1.0) / n.max(1.0).powf(gamma);
    move |near: f64, size: f64| near - alpha * gamma * size.powf(gamma - 1.0)
}
