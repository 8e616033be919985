//! METIS k-way edge cut.

use std::sync::{Mutex, PoisonError};

use metis::Idx;
use metis::option::Seed;

use crate::graph::{EdgeOptions, Graph};
use crate::partition::{Partitioner, PartitionerEntry, check_parts};
use crate::{Error, Result};

/// Few cut edges between parts of about equal work, on the undirected graph without self loops.
/// A vertex weighs its incident edges plus the mean of them, so that parts balance vertices and
/// edges together.
///
/// # Paper
/// Karypis, Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs",
/// SIAM J. Sci. Comput. 20(1), 1998, <https://doi.org/10.1137/S1064827595287997>.
///
/// # Not done
/// Balance of training vertices and of vertex types (multi-constraint).
pub struct Metis;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "metis",
    about: "METIS k-way: few cut edges, balanced by vertices and edges",
    partitioner: &Metis,
};

/// METIS draws from one generator of the process, so two cuts at the same time would disturb each
/// other's numbers and the result would depend on timing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Partitioner for Metis {
    fn assign(&self, graph: &Graph, parts: usize, seed: u64) -> Result<Vec<u32>> {
        check_parts(parts)?;
        let n = graph.n();
        if parts == 1 {
            return Ok(vec![0; n]);
        }
        // METIS divides by the vertices of a part; here every vertex has a part of its own.
        if parts >= n {
            return Ok((0..n as u32).collect());
        }
        let simple = undirected(graph)?;
        let fail = |reason: String| Error::Partition {
            method: "metis".into(),
            reason,
        };
        let edges = Idx::try_from(simple.n_edges()).map_err(|_| {
            fail(format!(
                "{} edges are more than 32-bit METIS takes",
                simple.n_edges()
            ))
        })?;
        let (xadj, adjncy) = arrays(&simple);
        let weights = weights(&simple, edges);
        let mut part = vec![0 as Idx; n];
        let parts_idx =
            Idx::try_from(parts).map_err(|_| fail(format!("{parts} parts are too many")))?;
        let seed = (seed & 0x7fff_ffff) as Idx;
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        metis::Graph::new(1, parts_idx, &xadj, &adjncy)
            .map_err(|e| fail(e.to_string()))?
            .set_vwgt(&weights)
            .set_option(Seed(seed))
            .part_kway(&mut part)
            .map_err(|e| fail(e.to_string()))?;
        Ok(part.into_iter().map(|p| p as u32).collect())
    }
}

/// The simple undirected graph under `graph`.
fn undirected(graph: &Graph) -> Result<Graph> {
    let src = graph.indices();
    let dst: Vec<u32> = (0..graph.n())
        .flat_map(|v| std::iter::repeat_n(v as u32, graph.in_degree(v)))
        .collect();
    Graph::from_edges(graph.n(), src, &dst, EdgeOptions::SIMPLE)
}

/// METIS's own arrays; the caller has checked that the edges fit.
fn arrays(graph: &Graph) -> (Vec<Idx>, Vec<Idx>) {
    let xadj = graph.indptr().iter().map(|&e| e as Idx).collect();
    let adjncy = graph.indices().iter().map(|&v| v as Idx).collect();
    (xadj, adjncy)
}

/// Incident edges plus their mean, scaled down where the sum would not fit into METIS's integers.
fn weights(graph: &Graph, edges: Idx) -> Vec<Idx> {
    let n = graph.n();
    let mean = edges as usize / n + 1;
    let total = (edges as usize + n * mean) as f64;
    let scale = (f64::from(Idx::MAX) / 4.0 / total).min(1.0);
    (0..n)
        .map(|v| (((graph.in_degree(v) + mean) as f64 * scale) as Idx).max(1))
        .collect()
}
