//! A cut as a whole, for people: its facts in a few numbers, who reads from whom, and the graph
//! itself where it is small enough to be drawn.

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::partition::facts::by_owner;
use crate::partition::{Cut, Facts, TypeFacts, types};

/// Most vertices of a graph that is drawn.
const DRAWN_NODES: usize = 250;
/// Most undirected edges of a graph that is drawn.
const DRAWN_EDGES: usize = 1500;

/// What a cut of a data set is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The data as the user wrote it.
    pub data: String,
    /// Whether the data was generated.
    pub synthetic: bool,
    /// The partitioner, with knobs that are not default.
    pub method: String,
    /// Number of parts.
    pub parts: u32,
    /// Seed.
    pub seed: u64,
    /// Vertices.
    pub nodes: u64,
    /// In-edges.
    pub edges: u64,
    /// Share of edges that are cut.
    pub cut_share: f64,
    /// Copies of a vertex on other parts than its own, a mean.
    pub alpha: f64,
    /// Vertices of the largest part over an equal share.
    pub node_balance: f64,
    /// In-edges of the largest part over an equal share.
    pub edge_balance: f64,
    /// Training vertices of the largest part over an equal share.
    pub train_balance: f64,
    /// `cut_share` when vertices are hashed, where it is known.
    pub hash_cut_share: Option<f64>,
    /// `alpha` when vertices are hashed, where it is known.
    pub hash_alpha: Option<f64>,
    /// Milliseconds that the partitioner took, now or when the cut was first made.
    pub ms: f64,
    /// Memory that it took beside the data set.
    pub peak_bytes: u64,
    /// Memory that was foreseen.
    pub predicted_bytes: u64,
    /// Milliseconds of one processor that were foreseen.
    #[serde(default)]
    pub predicted_ms: f64,
    /// Types of vertices and edges by part, where the data has any.
    #[serde(default)]
    pub types: Vec<TypeFacts>,
    /// Whether the cut came out of the cache.
    pub cached: bool,
    /// In-edges from part to part: `[destination][source]`, the diagonal those that stay.
    pub matrix: Vec<Vec<u64>>,
    /// The graph, where it is small.
    pub picture: Option<Picture>,
    /// The second level, where parts are cut again.
    #[serde(default)]
    pub nested: Option<Second>,
}

/// What the second level of a cut is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Into how many each part is cut.
    pub each: u32,
    /// Copies of a vertex on other parts of its own part, a mean over all vertices (α_h of GNNPipe's
    /// hybrid).
    pub alpha: f64,
    /// Share of the edges within parts that are cut.
    pub cut_share: f64,
    /// Vertices of the largest part of a part over an equal share of all.
    pub node_balance: f64,
}

impl Second {
    /// Of a cut into `parts` parts; none where it has one level.
    fn of(data: &Dataset, cut: &Cut, parts: usize) -> Option<Second> {
        let (place, each) = (cut.nested.as_ref()?, cut.each);
        let n = cut.owner.len();
        let label = |v: usize| cut.owner[v] * each as u32 + place[v];
        let labels: Vec<u32> = (0..n).map(label).collect();
        let (mut copies, mut within, mut across) = (0u64, 0u64, 0u64);
        // The part (plus one) that saw a vertex last; parts come one after the other.
        let mut seen = vec![0; n];
        for v in by_owner(&labels, parts * each) {
            let v = v as usize;
            let near = data.graph.neighbours(v).iter().map(|&s| s as usize);
            for s in near.filter(|&s| cut.owner[s] == cut.owner[v]) {
                within += 1;
                if labels[s] != labels[v] {
                    across += 1;
                    let new = std::mem::replace(&mut seen[s], labels[v] + 1) != labels[v] + 1;
                    copies += u64::from(new);
                }
            }
        }
        let mut nodes = vec![0u64; parts * each];
        labels.iter().for_each(|&l| nodes[l as usize] += 1);
        let largest = nodes.iter().copied().max().unwrap_or(0) as f64;
        Some(Second {
            each: each as u32,
            alpha: copies as f64 / n.max(1) as f64,
            cut_share: across as f64 / within.max(1) as f64,
            node_balance: largest * nodes.len() as f64 / n.max(1) as f64,
        })
    }
}

/// A small graph with its owners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Part of each vertex: `[n]`.
    pub owner: Vec<u32>,
    /// Training vertices: `[n]`.
    pub train: Vec<bool>,
    /// Vertices that some other part reads: `[n]`.
    pub boundary: Vec<bool>,
    /// Pairs of vertices with an edge in either direction, the lower first.
    pub edges: Vec<(u32, u32)>,
}

impl Report {
    /// Of a cut of `data`, which the user calls `name`. `hashed` are the facts of as many parts by
    /// hash, where they are known.
    pub fn of(
        name: &str,
        data: &Dataset,
        cut: &Cut,
        facts: &Facts,
        hashed: Option<&Facts>,
        seed: u64,
    ) -> Report {
        Report {
            data: name.to_owned(),
            synthetic: data.synthetic,
            method: cut.method.clone(),
            parts: facts.parts.len() as u32,
            seed,
            nodes: data.n() as u64,
            edges: data.graph.n_edges() as u64,
            cut_share: facts.cut_share(),
            alpha: facts.alpha(),
            node_balance: facts.balance(|f| f.nodes),
            edge_balance: facts.balance(|f| f.edges),
            train_balance: facts.balance(|f| f.train_nodes),
            hash_cut_share: hashed.map(Facts::cut_share),
            hash_alpha: hashed.map(Facts::alpha),
            ms: cut.ms,
            peak_bytes: cut.peak_bytes,
            predicted_bytes: cut.need.bytes,
            predicted_ms: cut.need.ms,
            types: types(data, &cut.owner, facts.parts.len()),
            cached: cut.cached,
            matrix: facts.cut.clone(),
            picture: Picture::of(data, &cut.owner),
            nested: Second::of(data, cut, facts.parts.len()),
        }
    }
}

impl Picture {
    /// The picture of a data set's graph; none where it would be a hairball.
    fn of(data: &Dataset, owner: &[u32]) -> Option<Picture> {
        let graph = &data.graph;
        if graph.n() > DRAWN_NODES || graph.n_edges() > 2 * DRAWN_EDGES {
            return None;
        }
        let mut boundary = vec![false; graph.n()];
        let mut edges = Vec::new();
        for v in 0..graph.n() as u32 {
            for &s in graph.neighbours(v as usize) {
                boundary[s as usize] |= owner[s as usize] != owner[v as usize];
                if s != v {
                    edges.push((v.min(s), v.max(s)));
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        (edges.len() <= DRAWN_EDGES).then(|| Picture {
            owner: owner.to_vec(),
            train: data.train.clone(),
            boundary,
            edges,
        })
    }
}
