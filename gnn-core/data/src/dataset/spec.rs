//! What a run asks of its data.

use serde::{Deserialize, Serialize};

use crate::dataset::STANDARD;
use crate::words;

/// How feature rows are scaled before training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureNorm {
    /// As they are.
    None,
    /// Each row divided by its sum (rows that sum to zero stay).
    Row,
}

words!(FeatureNorm { None "none", Row "row" });

/// How dense features are stored while a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureStorage {
    /// As `f32`.
    F32,
    /// Rounded to bfloat16, the nearest number with 8 significant bits: half the bytes that the first
    /// layer's aggregation reads. Sums are `f32`, and everything after the features is as before, so
    /// strategies agree as exactly as with `f32`. For dense features only. It can pay where the
    /// first layer aggregates its input without dropout: GCN on R-MAT scale 16, width 128, took 0.87 to
    /// 0.95 of the epoch with `f32`; other models were not measured. What else reads the features widens
    /// them first.
    Bf16,
}

words!(FeatureStorage { F32 "f32", Bf16 "bf16" });

/// What is to be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// The classes of vertices: one each, or several where the data has several.
    Node,
    /// Which vertices are joined by an edge.
    Link,
    /// Embeddings in which a vertex is nearer to its neighbours than to others, without labels.
    Unsupervised,
}

words!(TaskKind { Node "node", Link "link", Unsupervised "unsupervised" });

/// What unsupervised training draws for a vertex: others that it is near to, on walks from it, and for each of
/// them others that it is not joined with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairing {
    /// Walks from a vertex.
    pub walks: usize,
    /// Steps of a walk.
    pub length: usize,
    /// First steps of a walk that count, at most its length. Of walks of one step these are direct neighbours.
    pub window: usize,
    /// Others are drawn in proportion to their degree to the power of this.
    pub power: f64,
}

impl Default for Pairing {
    fn default() -> Self {
        Pairing {
            walks: 1,
            length: 1,
            window: 1,
            power: 0.0,
        }
    }
}

impl Pairing {
    /// How many vertices a vertex is near to.
    pub fn positives(&self) -> usize {
        self.walks * self.window.min(self.length)
    }
}

/// All that decides which data a run trains on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DataSpec<'a> {
    /// Catalogue name, built-in (`karate`, `sbm:…`, `rmat:…`) or path.
    pub data: &'a str,
    /// Which of the data set's splits: `standard`, a number or a name.
    pub split: &'a str,
    /// Decides everything that is generated or drawn.
    pub seed: u64,
    /// What is to be learned.
    pub task: TaskKind,
    /// Feature scaling.
    pub feature_norm: FeatureNorm,
    /// How dense features are stored.
    pub feature_storage: FeatureStorage,
    /// Pairs without an edge drawn for each one that is trained on.
    pub negatives: usize,
    /// What a vertex is near to, and what it is far from ([`TaskKind::Unsupervised`]).
    pub pairing: Pairing,
}

impl Default for DataSpec<'_> {
    fn default() -> Self {
        DataSpec {
            data: "karate",
            split: STANDARD,
            seed: 0,
            task: TaskKind::Node,
            feature_norm: FeatureNorm::None,
            feature_storage: FeatureStorage::F32,
            negatives: 1,
            pairing: Pairing::default(),
        }
    }
}
