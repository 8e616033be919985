//! What the user wrote: one flat set of `key = value` pairs.
//!
//! Command-line flags, TOML keys and the body of a `%%gnn` cell are the same names and are parsed
//! by [`RunSpec::from_pairs`], which lies beside the strategies that it asks. [`KEYS`] is the only
//! list of them: listing, completion, help and "did you mean" all read it. Keys that are not in the
//! table are a strategy's own knobs and are checked against its entry.

mod keys;
mod link;
mod model;
mod size;
mod slow;
mod time;
mod words;

pub use gnn_data::dataset::{FeatureNorm, FeatureStorage, Pairing, TaskKind};
pub use gnn_data::knobs::{Knob, Knobs, Value};
pub use keys::{KEYS, Key, KeyType, Registry, Role, find_key, normalise};
pub use link::Link;
pub use model::ModelKind;
pub use size::bytes;
pub use slow::Slow;
pub use time::seconds;

use crate::dataset::DataSpec;
use serde::{Deserialize, Serialize};

/// The devices that a request can name.
pub const DEVICES: &[&str] = &["cpu", "cuda"];

/// When the first layer aggregates the input features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstAggregate {
    /// In every epoch, as every layer does.
    EveryEpoch,
    /// Once, before the first epoch: exact when nothing is dropped from the features. It has an
    /// effect where the first layer aggregates its input (dense features no wider than its output).
    Once,
}

/// Which side of a layer's product its aggregation reads, for layers that may aggregate on either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AggregateWidth {
    /// The narrower.
    Narrower,
    /// The one of the hidden width, in every layer: what some papers count.
    Hidden,
}

/// In which order ranks keep vertices in memory; results do not depend on it but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VertexOrder {
    /// By community or degree where aggregation gains from it ([`crate::graph::Graph::by_community`],
    /// [`crate::graph::Graph::by_degree`]).
    Auto,
    /// By id.
    Given,
    /// By community, and in each by degree.
    Community,
    /// By degree.
    Degree,
}

/// How two vertices' embeddings become the score of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scorer {
    /// Their dot product.
    Dot,
    /// Two dense layers on their elementwise product.
    Mlp,
}

/// How weights follow their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserKind {
    /// Adam; weight decay is L2 in the gradient.
    Adam,
    /// Adam; weight decay beside the gradient.
    Adamw,
    /// Gradient descent, with momentum if asked.
    Sgd,
}

/// Which layers' weights decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// Every layer's.
    All,
    /// The first layer's only, as Kipf & Welling have it.
    First,
}

/// Where ranks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// MPI when it is found and more than one rank is asked for, else threads.
    Auto,
    /// Ranks are threads of one worker process.
    Threads,
    /// One MPI process a rank.
    Mpi,
    /// `srun` inside a Slurm allocation.
    Slurm,
}

/// How rows pass between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// From device to device where each rank has one of its own and NCCL is there, else through the host.
    Auto,
    /// Through the host's memory, by MPI or between threads.
    Host,
    /// From device to device, by NCCL.
    Nccl,
}

/// In which order sums over ranks are added up where they pass from device to device. Through the host it is
/// always that of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SumOrder {
    /// That of the ranks where the run promises the same bits again, else any.
    Auto,
    /// That of the ranks.
    Ordered,
    /// NCCL's own, which depends on the machine and promises no bits.
    Any,
}

/// A whole request, every key with its default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// Catalogue name, built-in (`karate`, `sbm:…`, `rmat:…`) or path.
    pub data: String,
    /// Which of the data set's splits: `standard`, a number or a name.
    pub split: String,
    /// What is to be learned.
    pub task: TaskKind,
    /// How links are scored.
    pub scorer: Scorer,
    /// Width of the embeddings that links are scored with.
    pub embedding: usize,
    /// Pairs without an edge drawn for each training edge, every epoch.
    pub negatives: usize,
    /// Unsupervised: walks from each vertex, every epoch.
    pub walks: usize,
    /// Unsupervised: steps of a walk.
    pub walk_length: usize,
    /// Unsupervised: first steps of a walk that are near to its vertex.
    pub window: usize,
    /// Unsupervised: others are drawn in proportion to their degree to the power of this.
    pub negative_power: f64,
    /// Model to train.
    pub model: ModelKind,
    /// Number of layers (1–128).
    pub layers: usize,
    /// Hidden width.
    pub hidden: usize,
    /// Strategy name.
    pub strategy: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Dense layers first, then as many rounds of propagation.
    pub decoupled: bool,
    /// Attention heads of every layer but the last, `hidden` columns each; of a decoupled model, those that
    /// every round averages (GAT).
    pub heads: usize,
    /// Attention heads of the last layer, averaged (GAT).
    pub out_heads: usize,
    /// Probability that an attention coefficient is dropped (GAT).
    pub attention_dropout: f64,
    /// Bases that relations share; 0 gives each relation a weight of its own (R-GCN).
    pub bases: usize,
    /// Share of the initial residual (GCNII).
    pub alpha: f64,
    /// Strength of the identity mapping's decay with depth (GCNII).
    pub lambda: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Learning rate.
    pub lr: f64,
    /// How weights follow their gradients.
    pub optimizer: OptimiserKind,
    /// Momentum of SGD.
    pub momentum: f64,
    /// Weight decay: L2 in the gradient, or beside it with AdamW.
    pub weight_decay: f64,
    /// Weight decay of layers that read no other vertex; below 0, the same.
    pub weight_decay_dense: f64,
    /// Which layers' weights decay.
    pub decay: Decay,
    /// Probability that an input element of a layer is dropped.
    pub dropout: f64,
    /// Feature scaling.
    pub feature_norm: FeatureNorm,
    /// How dense features are stored.
    pub feature_storage: FeatureStorage,
    /// When the features are aggregated.
    pub first_aggregate: FirstAggregate,
    /// Which side of a layer's product its aggregation reads.
    pub aggregate_width: AggregateWidth,
    /// Dense layers of a ResGCN+ block.
    pub block_layers: usize,
    /// In which order ranks keep vertices in memory.
    pub vertex_order: VertexOrder,
    /// Seed of everything random.
    pub seed: u64,
    /// Compute threads a rank; 0 shares the machine's cores among the ranks.
    pub threads: usize,
    /// Where ranks run.
    pub launch: Launch,
    /// Device: `cpu` or `cuda`.
    pub backend: String,
    /// How rows pass between ranks.
    pub transport: TransportKind,
    /// In which order sums over ranks are added up from device to device.
    pub sums: SumOrder,
    /// Partitioner, with its knobs if any: `metis`, `metis:balance=train+edges`. A request that says
    /// `auto`, or nothing, has the strategy's own ([`Entry::partition`](crate::strategy::Entry::partition)).
    pub partition: String,
    /// Evaluate every this many epochs (and after the last).
    pub eval_every: usize,
    /// Evaluations without a better validation score after which the run ends; 0 is never.
    pub patience: usize,
    /// Whether a run ends, as failed, with the epoch whose training loss is no finite number.
    pub stop_on_nan: bool,
    /// Validation score until which training is timed; 0: 99 % of the run's own best.
    pub target: f64,
    /// Write a checkpoint every this many epochs (and after the last); 0 is never.
    pub checkpoint_every: usize,
    /// Epochs flagged as warm-up.
    pub warmup: usize,
    /// Seconds without progress after which a run counts as stalled.
    pub stall: f64,
    /// Seconds after which the run is ended; 0 is no limit.
    pub timeout: f64,
    /// Bytes that a rank may need by its plan, or the run is not started; 0 is no limit.
    pub limit: u64,
    /// A modelled link that messages travel by; none: as fast as they can.
    pub link: Option<Link>,
    /// A rank that is slowed down on purpose; none: all are as fast as they can.
    pub slow: Option<Slow>,
    /// Whether ranks keep spans: the frame `spans`.
    pub trace: bool,
    /// Whether what the model makes of every vertex in the end is kept: the frame `embeddings`.
    pub keep_embeddings: bool,
    /// Whether nothing goes on beside anything else: collectives end where they are posted, operations of
    /// a device where they are asked for.
    pub sync: bool,
    /// Free name of the run.
    pub name: String,
    /// The strategy's own knobs, as written.
    pub knobs: Knobs,
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            data: "karate".into(),
            split: crate::dataset::STANDARD.into(),
            task: TaskKind::Node,
            scorer: Scorer::Dot,
            embedding: 16,
            negatives: 1,
            walks: 1,
            walk_length: 1,
            window: 1,
            negative_power: 0.0,
            model: ModelKind::Gcn,
            layers: 2,
            hidden: 16,
            strategy: "single".into(),
            ranks: 1,
            decoupled: false,
            heads: 8,
            out_heads: 1,
            attention_dropout: 0.6,
            bases: 0,
            alpha: 0.1,
            lambda: 0.5,
            epochs: 200,
            lr: 0.01,
            optimizer: OptimiserKind::Adam,
            momentum: 0.0,
            weight_decay: 5e-4,
            weight_decay_dense: -1.0,
            decay: Decay::All,
            dropout: 0.5,
            feature_norm: FeatureNorm::None,
            feature_storage: FeatureStorage::F32,
            first_aggregate: FirstAggregate::EveryEpoch,
            aggregate_width: AggregateWidth::Narrower,
            block_layers: 1,
            vertex_order: VertexOrder::Auto,
            seed: 0,
            threads: 0,
            launch: Launch::Auto,
            backend: "cpu".into(),
            transport: TransportKind::Auto,
            sums: SumOrder::Auto,
            partition: "metis".into(),
            eval_every: 1,
            patience: 0,
            stop_on_nan: true,
            target: 0.0,
            checkpoint_every: 0,
            warmup: 1,
            stall: 30.0,
            timeout: 0.0,
            limit: 0,
            link: None,
            slow: None,
            trace: false,
            keep_embeddings: false,
            sync: false,
            name: String::new(),
            knobs: Knobs::default(),
        }
    }
}

impl RunSpec {
    /// What this run asks of its data.
    pub fn data_spec(&self) -> DataSpec<'_> {
        DataSpec {
            data: &self.data,
            split: &self.split,
            seed: self.seed,
            task: self.task,
            feature_norm: self.feature_norm,
            feature_storage: self.feature_storage,
            negatives: self.negatives,
            pairing: Pairing {
                walks: self.walks,
                length: self.walk_length,
                window: self.window,
                power: self.negative_power,
            },
        }
    }

    /// Every key with its value as pairs, so that `from_pairs(to_pairs())` is the identity.
    pub fn to_pairs(&self) -> Vec<(String, Value)> {
        let own = KEYS.iter().map(|k| (k.name.to_owned(), (k.get)(self)));
        own.chain(self.knobs.iter().map(|(k, v)| (k.clone(), v.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests;
