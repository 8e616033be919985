//! What a cut costs, known before any training.

use kernels::Csr;

/// Facts of one part; columns of the `partition` frame.
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
    /// Validation vertices owned.
    pub val_nodes: u64,
    /// Test vertices owned.
    pub test_nodes: u64,
    /// Bytes of the owned feature rows.
    pub feature_bytes: u64,
    /// Parts from which rows are read.
    pub peers: u32,
}

/// Facts of a whole cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Of each part.
    pub parts: Vec<PartFacts>,
    /// In-edges from part to part: `cut[dst][src]`, the diagonal those that stay: `[parts][parts]`.
    pub cut: Vec<Vec<u64>>,
}

impl Facts {
    /// Facts of every part from what a pass over the edges found: edges from part to part, `cut[dst][src]`,
    /// and how many remote vertices each part reads, `[parts]`.
    pub fn new(
        cut: Vec<Vec<u64>>,
        halos: &[u64],
        owner: &[u32],
        masks: Masks,
        row_bytes: u64,
    ) -> Facts {
        let mut all = vec![PartFacts::default(); cut.len()];
        for (v, &p) in owner.iter().enumerate() {
            let f = &mut all[p as usize];
            f.nodes += 1;
            f.train_nodes += u64::from(masks.train[v]);
            f.val_nodes += u64::from(masks.val[v]);
            f.test_nodes += u64::from(masks.test[v]);
        }
        for (p, (f, row)) in all.iter_mut().zip(&cut).enumerate() {
            f.part = p as u32;
            f.edges = row.iter().sum();
            f.cut_edges = f.edges - row[p];
            f.halo_nodes = halos[p];
            let read = |(q, &edges): (usize, &u64)| q != p && edges > 0;
            f.peers = row.iter().enumerate().filter(|&e| read(e)).count() as u32;
            f.feature_bytes = f.nodes * row_bytes;
            f.halo_share = f.halo_nodes as f64 / (f.nodes + f.halo_nodes).max(1) as f64;
        }
        Facts { parts: all, cut }
    }

    /// Mean copies of a vertex on other parts than its own: halo vertices of all parts over
    /// vertices (GNNPipe's α; the mean number of parts a vertex is on is one more).
    pub fn alpha(&self) -> f64 {
        self.sum(|f| f.halo_nodes) as f64 / self.sum(|f| f.nodes).max(1) as f64
    }

    /// Share of edges that are cut.
    pub fn cut_share(&self) -> f64 {
        self.sum(|f| f.cut_edges) as f64 / self.sum(|f| f.edges).max(1) as f64
    }

    /// Share of the largest part over an equal share of a column: 1 is perfect balance, and what
    /// there is none of is balanced.
    pub fn balance(&self, of: impl Fn(&PartFacts) -> u64) -> f64 {
        let largest = self.parts.iter().map(&of).max().unwrap_or(0);
        match self.sum(of) {
            0 => 1.0,
            sum => largest as f64 * self.parts.len() as f64 / sum as f64,
        }
    }

    /// Sum of a column.
    pub fn sum(&self, of: impl Fn(&PartFacts) -> u64) -> u64 {
        self.parts.iter().map(of).sum()
    }
}

/// Which vertices are labelled: `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct Masks<'a> {
    /// Training vertices.
    pub train: &'a [bool],
    /// Validation vertices.
    pub val: &'a [bool],
    /// Test vertices.
    pub test: &'a [bool],
}

/// Facts of every part. `full: [n, n]` are the in-edges that count, those of the full-graph block
/// that is trained on or of the graph itself, `owner: [n]`, and `row_bytes` the bytes of one feature
/// row.
pub fn facts(full: Csr<'_>, owner: &[u32], parts: usize, masks: Masks, row_bytes: u64) -> Facts {
    let (mut halos, mut cut) = (vec![0u64; parts], vec![vec![0u64; parts]; parts]);
    // The part (plus one) that saw a vertex last; parts come one after the other.
    let mut seen = vec![0u32; owner.len()];
    for v in by_owner(owner, parts) {
        let v = v as usize;
        let p = owner[v];
        for &s in &full.indices[full.span(v)] {
            let from = owner[s as usize];
            cut[p as usize][from as usize] += 1;
            if from != p && std::mem::replace(&mut seen[s as usize], p + 1) != p + 1 {
                halos[p as usize] += 1;
            }
        }
    }
    Facts::new(cut, &halos, owner, masks, row_bytes)
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
