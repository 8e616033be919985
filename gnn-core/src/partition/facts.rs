//! What a cut costs, known before any training.

use crate::graph::Block;

/// Facts of one part; the columns of the `partition` frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PartFacts {
    /// Part, equal to the rank that owns it.
    pub part: u32,
    /// Vertices owned.
    pub nodes: u64,
    /// In-edges of owned vertices.
    pub edges: u64,
    /// Remote vertices read.
    pub halo_nodes: u64,
    /// `halo_nodes / (nodes + halo_nodes)`, 0 for an empty part.
    pub halo_share: f64,
    /// In-edges whose source is remote.
    pub cut_edges: u64,
    /// Training vertices owned.
    pub train_nodes: u64,
    /// Bytes of the owned feature rows.
    pub feature_bytes: u64,
    /// Parts from which rows are read.
    pub peers: u32,
}

/// Facts of every part. `full` is the full-graph block that is trained on, `owner: [n]`,
/// `train: [n]`, and `row_bytes` the bytes of one feature row.
pub fn facts(
    full: &Block,
    owner: &[u32],
    parts: usize,
    train: &[bool],
    row_bytes: u64,
) -> Vec<PartFacts> {
    let mut all: Vec<PartFacts> = (0..parts)
        .map(|p| PartFacts {
            part: p as u32,
            ..PartFacts::default()
        })
        .collect();
    let order = by_owner(owner, parts);
    // The part (plus one) that saw a vertex, or read from a part, last.
    let mut seen = vec![0u32; owner.len()];
    let mut read = vec![0u32; parts];
    for &v in &order {
        let v = v as usize;
        let p = owner[v];
        let f = &mut all[p as usize];
        f.nodes += 1;
        f.train_nodes += u64::from(train[v]);
        let span = full.csr().span(v);
        f.edges += span.len() as u64;
        for &s in full.csr().indices[span]
            .iter()
            .filter(|&&s| owner[s as usize] != p)
        {
            f.cut_edges += 1;
            if std::mem::replace(&mut seen[s as usize], p + 1) != p + 1 {
                f.halo_nodes += 1;
            }
            if std::mem::replace(&mut read[owner[s as usize] as usize], p + 1) != p + 1 {
                f.peers += 1;
            }
        }
    }
    for f in &mut all {
        f.feature_bytes = f.nodes * row_bytes;
        f.halo_share = f.halo_nodes as f64 / (f.nodes + f.halo_nodes).max(1) as f64;
    }
    all
}

/// Vertices ordered by owner, then by id.
pub(super) fn by_owner(owner: &[u32], parts: usize) -> Vec<u32> {
    let mut start = vec![0usize; parts + 1];
    owner.iter().for_each(|&p| start[p as usize + 1] += 1);
    (0..parts).for_each(|p| start[p + 1] += start[p]);
    let mut order = vec![0u32; owner.len()];
    for (v, &p) in owner.iter().enumerate() {
        order[start[p as usize]] = v as u32;
        start[p as usize] += 1;
    }
    order
}
