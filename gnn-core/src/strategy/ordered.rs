//! The graph as ranks hold it: its vertices in the order that is kind to caches.
//!
//! Every rank works this out alike from the graph alone, before anything is cut; what it computes by
//! vertex id (masks of dropout, labels) goes by the data set's ids.

use super::Setup;
use crate::ctx::Ctx;
use crate::dataset::Dataset;
use crate::graph::{Block, Graph};
use crate::partition::{self, Facts};
use crate::record::part_rows;
use crate::record::rows::PartRow;
use crate::spec::{RunSpec, VertexOrder};
use std::borrow::Cow;

/// A data set's vertices in another order: number `k` is vertex `ids[k]`.
pub(super) struct Ordered {
    /// The whole graph, with weights as the request's model wants them.
    pub(super) whole: Block,
    /// By number, the rank that owns it; without a cut, the first.
    pub(super) owner: Vec<u32>,
    ids: Vec<u32>,
}

impl Ordered {
    /// The data set of a request, in its order.
    pub(super) fn of(setup: &Setup, cx: &Ctx) -> Ordered {
        let (graph, spec) = (&setup.data.graph, &cx.plan.spec);
        let (graph, ids) = match order(graph, spec) {
            None => (Cow::Borrowed(graph), (0..graph.n() as u32).collect()),
            Some((_, ids)) => (Cow::<Graph>::Owned(graph.renumbered(&ids)), ids),
        };
        let owner = match &setup.owner {
            None => vec![0; ids.len()],
            Some(owner) => ids.iter().map(|&v| owner[v as usize]).collect(),
        };
        Ordered {
            whole: graph.propagation(spec.model.propagation()),
            owner,
            ids,
        }
    }

    /// The vertices that have these numbers.
    pub(super) fn vertices(&self, numbers: &[u32]) -> Vec<u32> {
        numbers.iter().map(|&k| self.ids[k as usize]).collect()
    }

    /// All vertices, by number.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// This rank's row of the `partition` frame.
    pub(super) fn part_row(&self, setup: &Setup, cx: &Ctx) -> PartRow {
        let data = &setup.data;
        let by_number = |mask: &Vec<bool>| -> Vec<bool> {
            self.ids.iter().map(|&v| mask[v as usize]).collect()
        };
        let [train, val, test] = [&data.train, &data.val, &data.test].map(by_number);
        let masks = partition::Masks {
            train: &train,
            val: &val,
            test: &test,
        };
        let row_bytes = row_bytes(data);
        let cut = partition::facts(self.whole.csr(), &self.owner, cx.size(), masks, row_bytes);
        row_of(&cut, cx)
    }
}

/// The order in which ranks hold the vertices for a request, and the vertices in it; none for the data set's.
pub fn order(graph: &Graph, spec: &RunSpec) -> Option<(VertexOrder, Vec<u32>)> {
    let by_community = |ids| (VertexOrder::Community, ids);
    let by_degree = |ids| (VertexOrder::Degree, ids);
    match spec.vertex_order {
        VertexOrder::Given => None,
        VertexOrder::Auto => {
            let ids = graph.by_community().map(by_community);
            ids.or_else(|| graph.by_degree().map(by_degree))
        }
        VertexOrder::Community => Some(by_community(graph.sorted_by(&graph.communities()))),
        VertexOrder::Degree => Some(by_degree(graph.sorted_by_degree().0)),
    }
}

/// Whether ranks hold a request's vertices in another order than the data set's.
pub(crate) fn reorders(graph: &Graph, spec: &RunSpec) -> bool {
    order(graph, spec).is_some()
}

/// Bytes of one vertex's features, a mean.
pub(super) fn row_bytes(data: &Dataset) -> u64 {
    (data.features.bytes() / data.n().max(1)) as u64
}

/// This rank's row of the `partition` frame.
pub(super) fn row_of(cut: &Facts, cx: &Ctx) -> PartRow {
    let plan = &cx.plan;
    let (ms, peak) = (plan.partition_ms, plan.partition_peak_bytes);
    part_rows(cut, None, &plan.partition_method, ms, peak).swap_remove(cx.rank())
}
