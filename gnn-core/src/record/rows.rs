//! One struct for each frame that every run may have. A column's name, unit and type are declared here and
//! nowhere else; what strategies add is declared with them ([`frame`](super::frame)).
//!
//! Durations are milliseconds (`f64`), sizes bytes (`u64`), and the unit is part of the name.

pub use super::frame::{Cell, Column, ColumnDef, FrameDef};
use super::phase::{Direction, Op};
use serde::{Deserialize, Serialize};

/// A row type of a frame that every run may have.
pub trait Row: Serialize {
    /// The frame, columns in the order of the fields. Who builds it sorts it.
    const FRAME: FrameDef;
}

/// Declares the struct of a row of a frame that every run may have: columns are the fields, as written, and
/// what is written above a field says what the column is.
#[macro_export]
macro_rules! row_struct {
    ($(#[$($meta:tt)*])* $name:ident in $frame:literal { $($(#[$($about:tt)*])* $field:ident: $ty:ty,)* }) => {
        $(#[$($meta)*])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[$($about)*])* pub $field: $ty,)* }

        impl $crate::record::rows::Row for $name {
            const FRAME: $crate::record::frame::FrameDef = $crate::record::frame::FrameDef {
                name: $frame,
                doc: concat!("" $(, $crate::frame!(@words $($meta)*))*).trim_ascii(),
                columns: &[$($crate::record::frame::ColumnDef::new::<$ty>(
                    stringify!($field),
                    concat!("" $(, $crate::frame!(@words $($about)*))*),
                )),*],
                sort: &[],
            };
        }
    };
}

mod spans;

pub use spans::{SpanRow, TracedRow};

row_struct! {
    /// One rank in one epoch. `wall_ms = compute_ms + copy_ms + xfer_exposed_ms + wait_ms + other_ms`.
    RankRow in "ranks" {
        /// Epoch, from 0.
        epoch: u32,
        /// Rank, from 0.
        rank: u32,
        /// Host name.
        host: String,
        /// Device name.
        device: String,
        /// Wall time of the epoch on this rank, evaluation excluded.
        wall_ms: f64,
        /// Time in kernels and in sampling: the sum of the six times below that are not about
        /// communication.
        compute_ms: f64,
        /// Of that, time which was added on purpose (`slow`).
        #[serde(default)]
        injected_ms: f64,
        /// Time packing and unpacking rows.
        copy_ms: f64,
        /// Time blocked while data moves.
        xfer_exposed_ms: f64,
        /// Time blocked before the peer had sent.
        wait_ms: f64,
        /// The rest.
        other_ms: f64,
        /// `comm_hidden_ms + xfer_exposed_ms`.
        comm_ms: f64,
        /// Time in which data moved while this rank computed; never part of wall time.
        comm_hidden_ms: f64,
        /// `100 · comm_hidden_ms / comm_ms`; none without communication.
        overlap_pct: Option<f64>,
        /// Processor time of the rank's process. Where several ranks share a process, of the rank's
        /// own thread: its further compute threads are not in it.
        cpu_ms: f64,
        /// Arrival at the epoch's start after the first rank.
        late_ms: f64,
        /// Time to draw what is trained on, such as pairs without an edge.
        #[serde(default)]
        sample_ms: f64,
        /// Kernel time in the model's forward pass.
        forward_ms: f64,
        /// Kernel time from the model's output to scores and back, where a head has more than a
        /// loss: for links.
        #[serde(default)]
        classify_ms: f64,
        /// Kernel time of the loss and its gradient.
        #[serde(default)]
        loss_ms: f64,
        /// Kernel time in the model's backward pass.
        backward_ms: f64,
        /// Kernel time in the optimiser.
        optim_ms: f64,
        /// Payload bytes sent.
        bytes_tx: u64,
        /// Payload bytes received.
        bytes_rx: u64,
        /// Messages sent.
        msgs_tx: u64,
        /// Collective operations on rows and their gradients; weights' are not counted.
        #[serde(default)]
        rounds: u64,
        /// Edges multiplied in aggregation, forward and backward.
        edges: u64,
        /// Of those, edges that another rank multiplies as well.
        edges_redundant: u64,
        /// All of them, each times the columns of the rows that were added along it: what compares
        /// ranks that have all columns of some vertices with ranks that have some of all.
        #[serde(default)]
        edge_elements: u64,
        /// Vertices whose rows this rank owns.
        owned_nodes: u64,
        /// Remote vertices whose rows it reads.
        halo_nodes: u64,
        /// Training vertices it owns.
        train_nodes: u64,
        /// Rows of other ranks that its forward pass read and that travelled for it in this epoch,
        /// over all layers; in mini-batches, input rows fetched.
        #[serde(default)]
        halo_fresh: u64,
        /// Rows of other ranks that its forward pass read and had: from an earlier epoch, or from a
        /// cache.
        #[serde(default)]
        halo_reused: u64,
        /// Bytes of rows that are kept over epochs, in the host's memory.
        cache_bytes: u64,
        /// The same on a device of its own.
        dev_cache_bytes: u64,
        /// Peak resident memory of the rank's process.
        mem_peak_bytes: u64,
        /// Peak memory of a device with a budget; none where there is no budget.
        dev_mem_peak_bytes: Option<u64>,
        /// Memory in use on a device of its own when the epoch ended; none without such a device.
        #[serde(default)]
        dev_mem_used_bytes: Option<u64>,
        /// Memory of it that nobody used then and that is kept for later: given back when it is needed.
        #[serde(default)]
        dev_mem_idle_bytes: Option<u64>,
        /// What a plan said of it before the run; without one, what training needs by formula and
        /// what the process held before. None where there is neither. A rank writes what training
        /// needs; frames have the rest too, where every rank has a process of its own.
        predicted_mem_bytes: Option<u64>,
        /// What a plan said of `wall_ms`.
        #[serde(default)]
        predicted_wall_ms: Option<f64>,
    }
}

row_struct! {
    /// What the model achieved after one epoch; written by rank 0.
    MetricsRow in "metrics" {
        /// Epoch, from 0.
        epoch: u32,
        /// Whether the epoch is flagged as warm-up.
        is_warmup: bool,
        /// Mean loss over the training vertices, at the epoch's start weights.
        train_loss: f64,
        /// Mean loss over the validation vertices without dropout, when evaluated.
        val_loss: Option<f64>,
        /// Accuracy on the training vertices, when evaluated.
        train_acc: Option<f64>,
        /// Accuracy on the validation vertices, when evaluated.
        val_acc: Option<f64>,
        /// Accuracy on the test vertices, when evaluated.
        test_acc: Option<f64>,
        /// Micro-averaged F1 on the training vertices, where a vertex may have several classes.
        train_f1: Option<f64>,
        /// The same on the validation vertices.
        val_f1: Option<f64>,
        /// The same on the test vertices.
        test_f1: Option<f64>,
        /// Area under the ROC curve on the validation links, where links are predicted.
        val_auc: Option<f64>,
        /// The same on the test links.
        test_auc: Option<f64>,
        /// Average precision on the test links.
        test_ap: Option<f64>,
        /// Mean reciprocal rank of the test links, each among all test pairs without an edge.
        test_mrr: Option<f64>,
        /// Time of the evaluation, outside the epoch's wall time.
        eval_ms: f64,
    }
}

row_struct! {
    /// Why a run ended before its last epoch without being asked to; written by rank 0.
    EndedRow in "ended" {
        /// The last epoch, from 0.
        epoch: u32,
        /// The run key that ended it: `patience` or `stop_on_nan`.
        by: String,
        /// The first layer, from 0, whose output has an element that is no finite number, if one has.
        layer: Option<u32>,
        /// The last layer whose weight gradients had one, if they were looked at and had.
        gradient: Option<u32>,
        /// The largest Euclidean norm of a vertex's row before that layer, or in any.
        norm: Option<f64>,
        /// The layer that it is the output of; none for the features.
        norm_layer: Option<u32>,
    }
}

/// The number by which the epochs of a run are compared, and the runs of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Accuracy, where a vertex has one class.
    Acc,
    /// Micro-averaged F1, where it may have several.
    F1,
    /// Area under the ROC curve, where links are predicted.
    Auc,
}

impl Metric {
    /// Its name in columns: `val_acc`, `val_f1`, `val_auc`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Acc => "acc",
            Metric::F1 => "f1",
            Metric::Auc => "auc",
        }
    }

    /// Its name in sentences.
    pub fn label(self) -> &'static str {
        match self {
            Metric::Acc => "acc",
            Metric::F1 => "F1",
            Metric::Auc => "AUC",
        }
    }
}

/// What an evaluation found, in the metric of its task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The metric.
    pub metric: Metric,
    /// On the training vertices; none for links.
    pub train: Option<f64>,
    /// On the validation vertices or links.
    pub val: Option<f64>,
    /// On the test vertices or links.
    pub test: Option<f64>,
}

impl MetricsRow {
    /// What the evaluation after this epoch found; none where there was none.
    pub fn score(&self) -> Option<Score> {
        let all = [
            (Metric::Acc, self.train_acc, self.val_acc, self.test_acc),
            (Metric::F1, self.train_f1, self.val_f1, self.test_f1),
            (Metric::Auc, None, self.val_auc, self.test_auc),
        ];
        let mut known = all.into_iter();
        known
            .find(|&(_, train, val, test)| train.or(val).or(test).is_some())
            .map(|(metric, train, val, test)| Score {
                metric,
                train,
                val,
                test,
            })
    }
}

row_struct! {
    /// Traffic from one rank to another in one layer and direction of one epoch.
    CommRow in "comm" {
        /// Epoch, from 0.
        epoch: u32,
        /// Layer, from 0; for weight gradients 0.
        layer: u16,
        /// What the data was.
        direction: Direction,
        /// Sender.
        src: u32,
        /// Receiver.
        dst: u32,
        /// Operation asked for.
        op: Op,
        /// Payload bytes.
        bytes: u64,
        /// Messages.
        messages: u64,
        /// Time the sender's operation moved data while it was blocked.
        xfer_ms: f64,
        /// Time the sender's operation waited for its peer.
        wait_ms: f64,
        /// What the plan predicted for this row.
        predicted_bytes: Option<u64>,
    }
}

row_struct! {
    /// One item of what is foreseen of one rank, on some number of ranks; `halobook plan` says what items
    /// there are.
    PlanRow in "plan" {
        /// Number of ranks.
        ranks: u32,
        /// Rank, from 0.
        rank: u32,
        /// What it is: `graph`, `features`, `activations` …
        item: String,
        /// How much.
        value: f64,
        /// Of what: `bytes` or `ms`.
        unit: String,
        /// `exact`: counted. `modelled`: by a formula or a rate. `forecast`: extended from small graphs of the
        /// same kind, the fullest rank's.
        basis: String,
        /// Bytes that the rank may need; none without a limit.
        limit: Option<f64>,
        /// Whether the rank's memory, as far as it is known, is within that.
        fits: bool,
    }
}

row_struct! {
    /// One part of a cut; of a run's, written by the part's rank.
    PartRow in "partition" {
        /// Part, equal to the rank that owns it.
        part: u32,
        /// Vertices owned.
        nodes: u64,
        /// In-edges of owned vertices.
        edges: u64,
        /// Remote vertices read.
        halo_nodes: u64,
        /// `halo_nodes / (nodes + halo_nodes)`.
        halo_share: f64,
        /// In-edges whose source is remote.
        cut_edges: u64,
        /// Training vertices owned.
        train_nodes: u64,
        /// Validation vertices owned.
        val_nodes: u64,
        /// Test vertices owned.
        test_nodes: u64,
        /// Bytes of the owned feature rows.
        feature_bytes: u64,
        /// Ranks from which rows are read.
        peers: u32,
        /// Vertices over an equal share of them; 1 where there are none.
        node_balance: f64,
        /// In-edges over an equal share of them.
        edge_balance: f64,
        /// Training vertices over an equal share of them.
        train_balance: f64,
        /// Copies of a vertex on other parts than its own, a mean over the whole cut.
        alpha: f64,
        /// Cut in-edges of the part of the same number when vertices are hashed; only where a cut
        /// is asked for by itself.
        hash_cut_edges: Option<u64>,
        /// Remote vertices that it reads.
        hash_halo_nodes: Option<u64>,
        /// Partitioner, with knobs that are not default.
        method: String,
        /// Time of the partitioner, now or when the cut was first made.
        partition_ms: f64,
        /// Memory of the partitioner beside the data set.
        partition_peak_bytes: u64,
    }
}

#[cfg(test)]
mod tests;
