//! Settings that strategies of this family share: blocks of knobs that an entry takes into its list as
//! they are.

use super::settings::fan_out;
use crate::feed::Room;
use crate::spec::{Knob, Value};

fn is_count(v: &Value) -> bool {
    matches!(v, Value::Int(i) if *i >= 0)
}

/// Whether a setting is true or false.
pub(in crate::strategy) fn is_flag(v: &Value) -> bool {
    matches!(v, Value::Bool(_))
}

fn is_fan_out(v: &Value) -> bool {
    match v {
        Value::Int(_) => is_count(v),
        Value::Str(text) => text.split(',').all(|word| fan_out(word).is_some()),
        _ => false,
    }
}

/// How many in-neighbours are drawn, of how many seeds.
pub(in crate::strategy) const NEIGHBOURS: [Knob; 4] = [
    Knob {
        name: "fanout",
        default: "10,25",
        doc: "in-neighbours drawn of a vertex: a number for all layers, or one a layer in the order in \
              which they run (the last is of the seeds), or all; for edges of several types also numbers \
              by type, as in 5/0/10",
        check: is_fan_out,
    },
    Knob {
        name: "batch",
        default: "1000",
        doc: "seeds of a trainer in one step; 0 for all of them",
        check: is_count,
    },
    Knob {
        name: "replace",
        default: "false",
        doc: "draw with replacement: the same in-neighbour may be drawn several times",
        check: is_flag,
    },
    Knob {
        name: "bias",
        default: "uniform",
        doc: "how likely an in-neighbour is drawn: uniform, or degree for in proportion to its in-degree",
        check: |v| matches!(v, Value::Str(s) if s == "uniform" || s == "degree"),
    },
];

/// Batches of edges, where links are to be predicted.
pub(in crate::strategy) const LINKS: [Knob; 2] = [
    Knob {
        name: "negative",
        default: "uniform",
        doc: "for links, pairs without an edge beside each: uniform, both ends anywhere, or in-batch, with \
              ends of other edges of the batch",
        check: |v| matches!(v, Value::Str(s) if s == "uniform" || s == "in-batch"),
    },
    Knob {
        name: "exclude",
        default: "false",
        doc: "for links, draw as if the graph did not have the edges that a batch asks about",
        check: is_flag,
    },
];

/// How many batches are made ahead.
pub(in crate::strategy) const PREFETCH: [Knob; 1] = [Knob {
    name: "prefetch",
    default: "2",
    doc: "batches made ahead in the background; 0 makes each when it is needed, with all threads",
    check: is_count,
}];

/// Copies of others' rows.
pub(in crate::strategy) const CACHE: [Knob; 2] = [
    Knob {
        name: "cache",
        default: "0",
        doc: "feature rows of other ranks that a rank keeps copies of: rows, or megabytes as in 64MB",
        check: Room::is_one,
    },
    Knob {
        name: "cache_by",
        default: "degree",
        doc: "which rows are kept: those of the highest degree, with presample those that an epoch \
              drawn before the first one reads most often, or with inclusion those that a batch most \
              likely reads, by fan-outs and graph alone (SALIENT++)",
        check: |v| matches!(v, Value::Str(s) if ["degree", "presample", "inclusion"].contains(&s.as_str())),
    },
];

/// What a device of its own does and holds, with `backend = cuda`.
pub(in crate::strategy) const DEVICE: [Knob; 2] = [
    Knob {
        name: "draw_on",
        default: "host",
        doc: "who draws neighbours: host, or device for uniform draws on the rank's GPU (backend = cuda), which \
              gives the same batches",
        check: |v| matches!(v, Value::Str(s) if s == "host" || s == "device"),
    },
    Knob {
        name: "features_on",
        default: "auto",
        doc: "where a rank's features lie with backend = cuda: device, or host for rows that its kernels gather from \
              the host's memory; auto is device where they take no more than three quarters of what is free there",
        check: |v| matches!(v, Value::Str(s) if ["auto", "device", "host"].contains(&s.as_str())),
    },
];

/// The second level of the split.
pub(in crate::strategy) const TRAINERS: [Knob; 1] = [Knob {
    name: "trainers",
    default: "1",
    doc: "trainers of a rank, which share what it stores: a step has a batch of each",
    check: |v| matches!(v, Value::Int(1..=1024)),
}];

/// How many threads make batches.
pub(in crate::strategy) const WORKERS: [Knob; 1] = [Knob {
    name: "workers",
    default: "1",
    doc: "threads of a rank that make batches in turns, at most as many as prefetch",
    check: |v| matches!(v, Value::Int(i) if *i >= 1),
}];

/// How gradients are summed.
pub(in crate::strategy) const GRADIENTS: [Knob; 1] = [Knob {
    name: "gradients",
    default: "allreduce",
    doc: "how gradients of all ranks become a step: allreduce (every rank has the sums, and makes it), ps (each \
          rank is the parameter server of a part of the weights, makes its step and gives it back); weights are \
          the same bit by bit",
    check: |v| matches!(v, Value::Str(s) if s == "allreduce" || s == "ps"),
}];

/// What is learnt of vertices.
pub(in crate::strategy) const EMBEDDINGS: [Knob; 5] = [
    Knob {
        name: "vertex_embedding",
        default: "0",
        doc: "columns that are learnt of every vertex, beside its features; 0 for none",
        check: is_count,
    },
    Knob {
        name: "embedding_alone",
        default: "false",
        doc: "what is learnt of a vertex is in the place of its features",
        check: is_flag,
    },
    Knob {
        name: "embedding_optimizer",
        default: "adagrad",
        doc: "how embeddings of vertices follow their gradients, at the owner: adagrad or adam, without \
              decay",
        check: |v| matches!(v, Value::Str(s) if s == "adagrad" || s == "adam"),
    },
    Knob {
        name: "embedding_lr",
        default: "0.01",
        doc: "learning rate of embeddings of vertices",
        check: |v| v.as_f64().is_some_and(|lr| lr.is_finite() && lr >= 0.0),
    },
    Knob {
        name: "embedding_sync",
        default: "false",
        doc: "a step reads embeddings that all ranks' gradients of the step before have changed; false \
              applies gradients as they come, so that runs on several ranks do not repeat bit by bit",
        check: is_flag,
    },
];

/// Blocks of knobs as one list.
///
/// # Panics
/// At compile time, for another number of knobs.
pub(in crate::strategy) const fn splice<const N: usize>(blocks: &[&[Knob]]) -> [Knob; N] {
    let mut all = [blocks[0][0]; N];
    let (mut count, mut b) = (0, 0);
    while b < blocks.len() {
        let mut k = 0;
        while k < blocks[b].len() {
            all[count] = blocks[b][k];
            count += 1;
            k += 1;
        }
        b += 1;
    }
    assert!(count == N, "as many knobs as the list says");
    all
}
