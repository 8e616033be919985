//! NeutronTP: features are cut, not the graph.
//!
//! # Paper
//! Ai, Yuan, Ling, Wang, Zhang, Fu, Chen, Gu & Yu, "NeutronTP: Load-Balanced Distributed Full-Graph
//! GNN Training with Tensor Parallelism", PVLDB 18(2), 2024, <https://doi.org/10.14778/3705829.3705837>.
//! # Idea
//! Every rank holds the whole topology and, for graph operations, a slice of the columns of every
//! vertex; for dense operations, all columns of an equal share of the vertices. *Split* and *gather*
//! change between the two ([`layout`]). No vertex is remote, and the load is equal whatever the graph
//! looks like.
//!
//! | | module | |
//! |---|---|---|
//! | naive | [`rounds`], `aggregate` | each layer: split, aggregate on slices, gather, dense |
//! | decoupled (`decoupled = true`) | [`rounds`], `Rounds` | all dense layers, one split, all rounds on slices, one gather |
//! | generalised | [`attention`] | attention coefficients of all heads made before the rounds, data-parallel, and averaged in each; relations propagate apart |
//! | chunks (`chunks`, `device_mem`) | [`chunks`], [`cuts`] | runs of destinations with their in-edges; with a budget, rows stay on the host and a [device](crate::device) gets the in-neighbours of one chunk at a time |
//! | pipelining (`pipeline`) | [`schedule`], [`chunks`] | a message for each chunk, no row twice, beside the chunks' work |
//! | `ladder` | [`ladder`] | the paper's Figure 11: what each of these adds to a data-parallel baseline |
//!
//! # Rounds
//! Collective operations on rows each epoch: naive `4L − 2`, of which the first layer has a split and
//! a gather forward and nothing backward, since nobody asks for the features' gradient (the paper's
//! features begin in slices, and its first layer has a gather forward and a split backward); decoupled
//! 4 whatever `L` is. With attention, decoupled has two more each way, of a number a vertex and of one an edge,
//! each by head. Models whose first layer is
//! dense (GCNII, ResGCN+) and sparse features, which are multiplied before they are aggregated, have
//! `4L` where it is naive. Pipelined, every chunk's message counts.
//! # Bytes
//! A split or gather of width `D`: `4 · (V · D − Σ_r V_r · D_r)`, all ranks together: what does not stay
//! on its rank. That is `4 · V · D · (N − 1) / N` where slices or shares are even. Columns that ranks do not
//! divide go round: in each direction of each epoch other ranks have one more (in each epoch, where
//! backward reads slices that forward kept), so that loads are even over a run.
//! # Measured
//! Epochs and the ladder: `notebooks/measured/neutrontp.md`.
//! # Differs
//! Every rank owns a share, equal but for remainders, of what each chunk needs first, as in the paper, and within it of every
//! run of ids. Pipelined without a budget, a decoupled model's first round goes by chunks of sources, and a
//! row travels with its chunk: the paper's chunks of destinations hide nothing of the split where the
//! first of them needs nearly every vertex. Layers behind the first aggregate the narrower side of their product, as everywhere here.
//! # Not done
//! Coefficients of all heads travel also where none is dropped, and their average would do.
//! Naive GAT and R-GCN: softmax over neighbours cannot run on slices. The gradient of attention
//! coefficients is computed outside the device's budget.
//! Of a device with a budget, a vertex whose in-neighbours alone do not fit is refused.
//! # Exact when
//! Always, compared with `single` on the same model: the decoupled model is another model.

mod attention;
mod build;
mod chunks;
mod cuts;
mod ladder;
mod layout;
mod rounds;
mod schedule;
mod traffic;

use self::ladder::{RUNGS, Rung};
use super::{Built, Entry, Exact, Knob, Setup};
use crate::ctx::Ctx;
use crate::device::{self, CopiesRow};
use crate::error::{Error, Result};
use crate::record::frame::FrameRow;
use crate::spec::{RunSpec, Value};

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    match ladder::rung(&cx.plan.spec) {
        Some(rung @ (Rung::Base | Rung::Cs)) => ladder::build(setup, cx, rung),
        _ => build::build(setup, cx),
    }
}

fn refuse(spec: &RunSpec) -> Result<()> {
    if spec.model.has_edge_parameters() && !spec.decoupled {
        return Err(Error::Unsupported {
            what: format!("model {} with strategy neutrontp", spec.model),
            reason: "its layers need whole rows of neighbours, which slices are not".into(),
            help: "set decoupled = true, or choose gcn, sage or gin".into(),
        });
    }
    Ok(())
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "chunks",
        default: "auto",
        doc: "runs of destinations that are aggregated one after the other: a number, or auto for as few as fit into device_mem, and 8 of a pipeline without it",
        check: |v| match v {
            Value::Str(word) => word == "auto",
            Value::Int(n) => *n > 0,
            _ => false,
        },
    },
    device::device_mem(
        "bytes of the device that chunks must fit into, as in 512MB, dense layers and rows on the host; 0 is no limit",
    ),
    Knob {
        name: "pipeline",
        default: "false",
        doc: "each chunk's rows travel while other chunks are aggregated",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: "ladder",
        default: "none",
        doc: "a rung of the paper's Figure 11, which sets the others: base, +cs, +tp, +dt or +ip; base has one chunk whatever chunks says",
        check: |v| match v {
            Value::Str(word) => word == "none" || RUNGS.iter().any(|r| r.0 == word),
            _ => false,
        },
    },
];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "neutrontp",
    paper: "https://doi.org/10.14778/3705829.3705837",
    summary: "NeutronTP: ranks have slices of the features of all vertices, and nobody a remote one",
    knobs: KNOBS,
    frames: &[CopiesRow::FRAME],
    exact: Exact::Always,
    cut: false,
    resumes: true,
    settle: ladder::settle,
    refuse,
    build,
    ..Entry::BASE
};

#[cfg(test)]
mod tests;
