//! DistDGL: mini-batches whose neighbourhoods their owners draw.
//!
//! # Paper
//! Zheng et al., "DistDGL: Distributed Graph Neural Network Training for Billion-Scale Graphs", IA³
//! 2020, <https://arxiv.org/abs/2010.05337>; §§ 3.2 to 3.5.
//! # Idea
//! Vertices are cut so that few edges cross, every rank stores the features and in-edges of its own, and
//! whoever owns a vertex draws its neighbours. A rank trains on seeds of its own: it asks the owners
//! hop by hop, pulls the features it has not, and steps with the sum of all ranks' gradients. Batches
//! are made ahead, beside the training.
//!
//! With `vertex_embedding = D`, D columns of every vertex's input are learnt: they lie at the owner,
//! are pulled as a batch begins, and their gradients are pushed back, where the owner's optimiser
//! takes them (`feed/table.rs`). By default pushes are applied as they come, and a pull reads what is there;
//! such a run on several ranks promises nothing about bits (`statistical`). With `embedding_sync` a step
//! reads what all ranks' pushes of the step before have made, summed in the order of the ranks.
//! # Differs
//! A rank's server, its makers of batches and its trainer are threads of one process, not processes
//! that share memory. Draws depend on seed, epoch, step, layer and vertex alone, so that any number
//! of ranks draws the same. A first layer that reads aggregates of dense features, without dropout, sums
//! them where they lie: of the rank's own rows only those of destinations are copied, for GraphSAGE.
//! # Measured
//! Epochs beside DistDGL, GraphBolt and PyG, and accuracy: `notebooks/measured/distdgl.md`.
//! # Not done
//! Tensors of edges beyond weights and types, which owners hand out with what they draw: no model reads
//! any. Embeddings are not cached. Every rank keeps the data set's id of every vertex, and two words a
//! vertex for numbering batches. Evaluation is layer by layer, a piece of a rank's vertices at a time
//! (`feed/layerwise.rs`), but holds what a layer makes of all of them, which training does not
//! (`foreseen.rs`).
//! # Exact when
//! `fanout = all` and `batch = 0`: every step reads whole neighbourhoods of all training vertices. For
//! links also `exclude = false`, the default: full-graph training reads the edges it asks about. With
//! embeddings there is nothing to compare with but full-graph training on a wider input that is
//! changed by hand, which is what the tests do.

use super::mini_batch::{self, Settings};
use super::{Built, Determinism, Entry, Exact, Knob, Setup};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::feed::{BatchRow, HopRow, LEAST, Learning, Room, RowOptimiser};
use crate::model::ModelKind;
use crate::record::frame::FrameRow;
use crate::sample::FanOut;
use crate::spec::{RunSpec, Value};

/// What the knobs say, read.
pub(super) fn settings(spec: &RunSpec) -> Result<Settings> {
    let knobs = &spec.knobs;
    let wrong = |reason: String| Error::Spec {
        key: "fanout".into(),
        reason,
        help: "write one number for all layers, or one a layer in the order in which they run, as \
               in fanout = \"10,25\"; all takes every in-neighbour, and 5/0/10 so many by type of \
               edges"
            .into(),
    };
    let written = knobs.written("fanout");
    let one = |word: &str| fan_out(word).ok_or_else(|| wrong(format!("'{word}' is no number")));
    let mut fan_outs = written.split(',').map(one).collect::<Result<Vec<_>>>()?;
    if fan_outs.len() == 1 {
        fan_outs = vec![fan_outs[0].clone(); spec.layers];
    }
    if fan_outs.len() != spec.layers {
        let (has, layers) = (fan_outs.len(), spec.layers);
        return Err(wrong(format!("{has} fan-outs for {layers} layers")));
    }
    let prefetch = knobs.count("prefetch");
    Ok(Settings {
        fan_outs,
        batch: knobs.count("batch"),
        prefetch,
        workers: knobs.count("workers").clamp(1, prefetch.max(1)),
        cache: Room::read(&knobs.written("cache"))?,
        presampled: knobs.word("cache_by") == "presample",
        by_degree: knobs.word("bias") == "degree",
        replace: knobs.flag("replace"),
        in_batch: knobs.word("negative") == "in-batch",
        exclude: knobs.flag("exclude"),
        learning: learning(spec),
        least: LEAST,
    })
}

/// What the knobs say about embeddings of vertices.
fn learning(spec: &RunSpec) -> Option<Learning> {
    let knobs = &spec.knobs;
    let width = knobs.count("vertex_embedding");
    (width > 0).then(|| Learning {
        width,
        alone: knobs.flag("embedding_alone"),
        optimiser: match knobs.word("embedding_optimizer") {
            "adam" => RowOptimiser::Adam,
            _ => RowOptimiser::Adagrad,
        },
        lr: knobs.number("embedding_lr") as f32,
        synchronous: knobs.flag("embedding_sync"),
    })
}

/// Batches are the same for the same ranks; pushes that are applied as they come are not.
fn determinism(spec: &RunSpec) -> Determinism {
    match learning(spec) {
        Some(learning) if !learning.synchronous && spec.ranks > 1 => Determinism::Statistical,
        _ => Determinism::SameRanks,
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let settings = settings(&cx.plan.spec)?;
    mini_batch::build(setup, cx, settings)
}

fn is_count(v: &Value) -> bool {
    matches!(v, Value::Int(i) if *i >= 0)
}

fn is_flag(v: &Value) -> bool {
    matches!(v, Value::Bool(_))
}

/// `all`, a number, or numbers by type of edges as in `5/0/10`.
fn fan_out(word: &str) -> Option<FanOut> {
    let number = |word: &str| word.trim().parse().ok();
    match word.trim() {
        "all" => Some(FanOut::All),
        word if word.contains('/') => {
            let each = word.split('/').map(number).collect::<Option<_>>();
            each.map(FanOut::PerType)
        }
        word => number(word).map(FanOut::Of),
    }
}

fn is_fan_out(v: &Value) -> bool {
    match v {
        Value::Int(_) => is_count(v),
        Value::Str(text) => text.split(',').all(|word| fan_out(word).is_some()),
        _ => false,
    }
}

const KNOBS: &[Knob] = &[
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
        doc: "seeds of a rank in one step; 0 for all of them",
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
    Knob {
        name: "prefetch",
        default: "2",
        doc: "batches made ahead in the background; 0 makes each when it is needed, with all threads",
        check: is_count,
    },
    Knob {
        name: "cache",
        default: "0",
        doc: "feature rows of other ranks that a rank keeps copies of: rows, or megabytes as in 64MB",
        check: Room::is_one,
    },
    Knob {
        name: "cache_by",
        default: "degree",
        doc: "which rows are kept: those of the highest degree, or with presample those that an epoch \
              drawn before the first one reads most often",
        check: |v| matches!(v, Value::Str(s) if s == "degree" || s == "presample"),
    },
    Knob {
        name: "workers",
        default: "1",
        doc: "threads of a rank that make batches in turns, at most as many as prefetch",
        check: |v| matches!(v, Value::Int(i) if *i >= 1),
    },
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

fn refuse(spec: &RunSpec) -> Result<()> {
    let unsupported = |what: &str, reason: &str, help: &str| {
        Err(Error::Unsupported {
            what: format!("{what} with strategy distdgl"),
            reason: reason.into(),
            help: help.into(),
        })
    };
    if spec.decoupled {
        return unsupported(
            "decoupled = true",
            "it draws a neighbourhood for every layer, and dense layers read none",
            "set decoupled = false, or use neutrontp",
        );
    }
    if spec.knobs.flag("embedding_alone") && learning(spec).is_none() {
        return unsupported(
            "embedding_alone = true",
            "nothing is learnt of vertices, so they would have no input",
            "set vertex_embedding to a width, for example 64",
        );
    }
    settings(spec).map(|_| ())
}

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "distdgl",
    paper: "https://arxiv.org/abs/2010.05337",
    summary: "mini-batches; neighbours drawn by their owners, features pulled, made ahead",
    models: &[
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gat,
        ModelKind::Rgcn,
    ],
    knobs: KNOBS,
    exact: Exact::With(&[("fanout", "all"), ("batch", "0"), ("exclude", "false")]),
    frames: &[BatchRow::FRAME, HopRow::FRAME],
    determinism,
    background: true,
    resumes: true,
    refuse,
    build,
    ..Entry::BASE
};
