//! A cut as a whole, for people: its facts in a few numbers, who reads from whom, and the graph
//! itself where it is small enough to be drawn.

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
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
