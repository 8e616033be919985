//! Facts of a cut as rows of the `partition` frame.

use crate::partition::{Facts, PartFacts};
use crate::record::rows::PartRow;

/// One row a part. `hashed` are the facts of the same graph with its vertices hashed into as many
/// parts, where they are known; `ms` and `peak_bytes` are what `method` took.
pub fn part_rows(
    cut: &Facts,
    hashed: Option<&Facts>,
    method: &str,
    ms: f64,
    peak_bytes: u64,
) -> Vec<PartRow> {
    let alpha = cut.alpha();
    let share = |of: fn(&PartFacts) -> u64| {
        let sum = cut.sum(of) as f64;
        let parts = cut.parts.len() as f64;
        move |f: &PartFacts| match sum {
            0.0 => 1.0,
            _ => of(f) as f64 * parts / sum,
        }
    };
    let nodes = share(|f| f.nodes);
    let edges = share(|f| f.edges);
    let train = share(|f| f.train_nodes);
    let row = |f: &PartFacts| {
        let base = hashed.map(|h| h.parts[f.part as usize]);
        PartRow {
            part: f.part,
            nodes: f.nodes,
            edges: f.edges,
            halo_nodes: f.halo_nodes,
            halo_share: f.halo_share,
            cut_edges: f.cut_edges,
            train_nodes: f.train_nodes,
            val_nodes: f.val_nodes,
            test_nodes: f.test_nodes,
            feature_bytes: f.feature_bytes,
            peers: f.peers,
            node_balance: nodes(f),
            edge_balance: edges(f),
            train_balance: train(f),
            alpha,
            hash_cut_edges: base.map(|b| b.cut_edges),
            hash_halo_nodes: base.map(|b| b.halo_nodes),
            method: method.to_owned(),
            partition_ms: ms,
            partition_peak_bytes: peak_bytes,
        }
    };
    cut.parts.iter().map(row).collect()
}
