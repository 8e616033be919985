//! The order in which a run holds its vertices, and what the caches make of it.

use super::profile::{Profiled, fetches};
use gnn_core::graph::Graph;
use gnn_core::spec::{RunSpec, VertexOrder};
use gnn_core::strategy::vertex_order;
use serde::Serialize;
use std::time::Instant;

/// Vertices in another order than the data set's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// Which order.
    pub by: VertexOrder,
    /// Milliseconds of finding it and renumbering the graph, once a run.
    pub found_ms: f64,
    /// Milliseconds of fetching the rows that an epoch's edges read, in the given order.
    pub given_ms: f64,
    /// Likewise in this one.
    pub fetch_ms: f64,
}

impl Held {
    /// How a request holds the vertices of `graph`, beside an epoch of it; none where their order is the data set's.
    pub fn of(spec: &RunSpec, graph: &Graph, made: &Profiled) -> Option<Held> {
        let start = Instant::now();
        let (by, ids) = vertex_order(graph, spec)?;
        let there = graph.renumbered(&ids);
        let found_ms = start.elapsed().as_secs_f64() * 1e3;
        Some(Held {
            by,
            found_ms,
            given_ms: fetches(made, graph, None).iter().sum(),
            fetch_ms: fetches(made, &there, None).iter().sum(),
        })
    }

    /// The epoch after which what it took has been gained, as far as fetching is what an epoch gains; none if never.
    pub fn repaid_after(&self) -> Option<usize> {
        let gain = self.given_ms - self.fetch_ms;
        (gain > 0.0).then(|| (self.found_ms / gain).ceil() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_repaid_by_what_fetching_gains() {
        let held = |found_ms, given_ms, fetch_ms| Held {
            by: VertexOrder::Community,
            found_ms,
            given_ms,
            fetch_ms,
        };
        assert_eq!(held(45.0, 30.0, 20.0).repaid_after(), Some(5));
        assert_eq!(held(45.0, 20.0, 20.0).repaid_after(), None);
        assert_eq!(held(45.0, 20.0, 21.0).repaid_after(), None);
    }
}
