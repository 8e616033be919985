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
//! | generalised | [`attention`] | attention coefficients made before the rounds, data-parallel; relations propagate apart |
//! | chunks (`chunks`, `device_mem`) | [`chunks`], [`arena`] | runs of destinations with their in-edges, within a device's memory |
//! | pipelining (`pipeline`) | [`schedule`] | a message for each chunk, no row twice, beside the chunks' work |
//! | `ladder` | [`ladder`] | the paper's Figure 11: what each of these adds to a data-parallel baseline |
//!
//! # Rounds
//! Collective operations on rows each epoch: naive `4L − 2`, of which the first layer has a split and
//! a gather forward and nothing backward, since nobody asks for the features' gradient (the paper's
//! features begin in slices, and its first layer has a gather forward and a split backward); decoupled
//! 4 whatever `L` is. With attention, decoupled has two more each way. Models whose first layer is
//! dense (GCNII, ResGCN+) and sparse features, which are multiplied before they are aggregated, have
//! `4L` where it is naive. Pipelined, every chunk's message counts.
//! # Bytes
//! A split or gather of width `D`: `4 · (V · D − Σ_r V_r · D_r)`, all ranks together: what does not stay
//! on its rank. That is `4 · V · D · (N − 1) / N` where slices or shares are even.
//! # Differs
//! Vertices are owned by runs of what each chunk needs first, as in the paper, with one chunk by runs
//! of ids. Layers behind the first aggregate the narrower side of their product, as everywhere here.
//! # Not done
//! Naive GAT and R-GCN: softmax over neighbours cannot run on slices. The gradient of attention
//! coefficients is computed outside the device's budget.
//! # Exact when
//! Always, compared with `single` on the same model: the decoupled model is another model.

mod arena;
mod attention;
mod chunks;
mod ladder;
mod layout;
mod rounds;
mod schedule;

use self::arena::{Arena, chunk_bytes, slice_bytes};
use self::attention::Attention;
use self::chunks::{Count, Owners, Way, bounds, first_needs, share_out};
use self::ladder::{RUNGS, Rung};
use self::layout::{Columns, split_bytes};
use self::rounds::TensorParallel;
use self::schedule::Schedule;
use super::full_graph::{FullGraph, aggregations, input_of, shape_of};
use super::{Built, Determinism, Entry, Exact, Knob, Rows, Setup};
use crate::backend::Sparse;
use crate::ctx::Ctx;
use crate::dataset::Features;
use crate::error::{Error, Result};
use crate::graph::Block;
use crate::model::{Model, ModelKind, Shape};
use crate::record::{Direction, PredictedLane, RankFacts};
use crate::spec::{RunSpec, Value};
use std::collections::BTreeMap;

/// Runs steps within the device's budget, where it has one.
fn schedule(spec: &RunSpec) -> Schedule {
    let budget = spec.knobs.count("device_mem") as u64;
    let arena = (budget > 0).then(|| Arena::new(budget));
    Schedule { arena }
}

/// Bounds of the chunks that a request asks for, over vertices that have so many rows in each of
/// `matrices`. A device holds `width` columns of every source, and of the chunk's rows; edges carry
/// values where the matrix has them, or `weighted`.
///
/// # Errors
/// [`Error::Spec`] when a chunk does not fit into the device.
fn chunk_bounds(
    spec: &RunSpec,
    matrices: &[(&Sparse, usize)],
    width: usize,
    weighted: bool,
) -> Result<Vec<usize>> {
    let count = match spec.knobs.word("chunks") {
        "auto" => Count::Auto,
        _ => Count::Of(spec.knobs.count("chunks")),
    };
    let budget = spec.knobs.count("device_mem") as u64;
    let cost = |rows: std::ops::Range<usize>| {
        let of = |&(a, group): &(&Sparse, usize)| {
            let rows = rows.start * group..rows.end * group;
            let csr = a.view();
            let topology = chunk_bytes(csr, weighted || csr.weights.is_some(), &rows, width);
            topology + slice_bytes(a.n_cols(), width)
        };
        matrices.iter().map(of).max().unwrap_or(0)
    };
    let (a, group) = matrices[0];
    let starts = a.view().indptr.iter().step_by(group);
    bounds(&starts.copied().collect::<Vec<_>>(), count, budget, cost)
}

/// What a run's model asks of the cut.
struct Asked {
    /// Rows of a vertex before the first round.
    group: usize,
    /// Columns of the widest slice.
    width: usize,
    /// Whether edges have coefficients.
    attends: bool,
}

/// The matrices that rounds multiply by, forward and backward, with the rows that a vertex has in each
/// one's result.
type Matrices<'a> = [Vec<(&'a Sparse, usize)>; 2];

fn matrices<'a>(spec: &RunSpec, block: &'a Block, group: usize) -> Result<Matrices<'a>> {
    let plain = |a| vec![(a, 1)];
    if !(spec.decoupled && spec.model == ModelKind::Rgcn) {
        return Ok([plain(block.edges()), plain(block.edges_t())]);
    }
    let [a, t] = block.by_relation()?;
    let (mut forward, mut backward) = (vec![(a, 1)], vec![(t, group)]);
    if spec.layers > 1 {
        let [a, t] = block.within_relations()?;
        forward.insert(0, (a, group));
        backward.insert(0, (t, group));
    }
    Ok([forward, backward])
}

/// Bytes that a rank sends each epoch for rows; `rows[r]` belong to rank `r`.
fn predict(
    travels: impl Iterator<Item = (u16, Direction, Vec<usize>, usize, bool)>,
    me: usize,
) -> BTreeMap<PredictedLane, u64> {
    let mut lanes = BTreeMap::new();
    for (layer, direction, rows, width, gathers) in travels {
        for dst in (0..rows.len()).filter(|&r| r != me) {
            let bytes = if gathers {
                split_bytes(&rows, width, dst, me)
            } else {
                split_bytes(&rows, width, me, dst)
            };
            *lanes.entry((layer, direction, dst as u32)).or_default() += bytes;
        }
    }
    lanes
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    match ladder::rung(&cx.plan.spec) {
        Some(rung @ (Rung::Base | Rung::Cs)) => ladder::build(setup, cx, rung),
        _ => build_sliced(setup, cx),
    }
}

fn build_sliced(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let data = &setup.data;
    let (me, ranks, n) = (cx.rank(), cx.size(), data.graph.n());
    let spec = cx.plan.spec.clone();
    let shape = Shape {
        features_first: true,
        ..shape_of(&setup, cx)
    };
    let model = Model::new(&spec, cx.backend.as_ref(), shape);
    let sparse = !spec.decoupled && matches!(data.features, Features::Sparse(_));
    let travelling = aggregations(&model, sparse, cx);
    let relations = spec.decoupled && spec.model == ModelKind::Rgcn;
    let widest = if spec.decoupled {
        shape.d_out
    } else {
        travelling.iter().map(|a| a.width).max().unwrap_or(0)
    };
    let asked = Asked {
        group: if relations { shape.relations } else { 1 },
        width: Columns::new(widest, ranks).widest(),
        attends: spec.model == ModelKind::Gat,
    };
    let block = data.graph.propagation(spec.model.propagation());
    let [over_in, over_out] = matrices(&spec, &block, asked.group)?;
    let cut = |m: &[(&Sparse, usize)]| chunk_bounds(&spec, m, asked.width, asked.attends);
    let (forward, backward) = (cut(&over_in)?, cut(&over_out)?);
    let owner = share_out(&first_needs(block.csr(), &forward), n, ranks);
    let mut members = vec![Vec::new(); ranks];
    let mut local = vec![0u32; n];
    for (v, &rank) in owner.iter().enumerate() {
        let rows: &mut Vec<u32> = &mut members[rank as usize];
        local[v] = rows.len() as u32;
        rows.push(v as u32);
    }
    let owners = Owners {
        owner: &owner,
        local: &local,
        me,
        ranks,
    };
    let pipeline = spec.knobs.flag("pipeline");
    let way = |a: &Sparse, bounds, groups| Way::new(a.view(), bounds, owners, groups, pipeline);
    let forward = way(block.edges(), forward, (asked.group, 1));
    let backward = way(block.edges_t(), backward, (1, asked.group));
    let attention = asked.attends.then(|| Attention::new(block.csr(), owners));
    let attention = attention.transpose()?;
    let rows: Vec<usize> = members.iter().map(Vec::len).collect();
    let dense = model.dense_layers(cx.backend.as_ref()) as u16;
    let predicted = if spec.decoupled {
        let last = model.layers() as u16 - 1;
        let grouped: Vec<usize> = rows.iter().map(|r| r * asked.group).collect();
        let travels = [
            (
                dense,
                Direction::Forward,
                grouped.clone(),
                shape.d_out,
                false,
            ),
            (last, Direction::Forward, rows.clone(), shape.d_out, true),
            (last, Direction::Backward, rows.clone(), shape.d_out, false),
            (dense, Direction::Backward, grouped, shape.d_out, true),
        ];
        predict(travels.into_iter(), me)
    } else {
        let both = |a: &crate::model::Aggregation| {
            let travel = |gathers| (a.layer as u16, a.direction, rows.clone(), a.width, gathers);
            [travel(false), travel(true)]
        };
        predict(travelling.iter().flat_map(both), me)
    };
    let mut predicted = predicted;
    for (lane, bytes) in attention.iter().flat_map(|a| a.predict(me, dense)) {
        *predicted.entry(lane).or_default() += bytes;
    }
    let own = std::mem::take(&mut members[me]);
    let rows = Rows::of(data, &own);
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: own.len() as u64,
        train_nodes: rows.train_count() as u64,
        ..RankFacts::default()
    };
    let input = input_of(setup.data, cx, &own);
    let parallel = TensorParallel {
        block,
        forward,
        backward,
        schedule: schedule(&spec),
        attention,
    };
    let strategy = FullGraph::new(parallel, model, input, rows.clone(), cx)?;
    let mut predicted: Vec<_> = predicted.into_iter().collect();
    predicted.extend(strategy.predict(cx));
    Ok(Built {
        strategy: Box::new(strategy),
        rows,
        facts,
        predicted,
        part: None,
    })
}

fn refuse(spec: &RunSpec) -> Result<()> {
    let attends = matches!(spec.model, ModelKind::Gat | ModelKind::Rgcn);
    if attends && !spec.decoupled {
        return Err(Error::Unsupported {
            what: format!("model {} with strategy neutrontp", spec.model),
            reason: "its layers need whole rows of neighbours, which slices are not".into(),
            help: "set decoupled = true, or choose gcn, sage or gin".into(),
        });
    }
    if spec.knobs.count("device_mem") > 0 && spec.backend != "cpu" {
        return Err(Error::Unsupported {
            what: format!("device_mem with backend {}", spec.backend),
            reason: "the budget is that of a device made of host memory".into(),
            help: "leave device_mem out, or set backend = cpu".into(),
        });
    }
    Ok(())
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "chunks",
        default: "auto",
        doc: "runs of destinations that are aggregated one after the other: a number, or auto for as few as fit into device_mem",
        check: |v| match v {
            Value::Str(word) => word == "auto",
            Value::Int(n) => *n > 0,
            _ => false,
        },
    },
    Knob {
        name: "device_mem",
        default: "0",
        doc: "bytes of the device that chunks must fit into; 0 is no limit",
        check: |v| matches!(v, Value::Int(n) if *n >= 0),
    },
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
    models: ModelKind::ALL,
    ranks: (1, usize::MAX),
    knobs: KNOBS,
    exact: Exact::Always,
    determinism: Determinism::SameRanks,
    cut: false,
    settle: ladder::settle,
    refuse,
    build,
};

#[cfg(test)]
mod tests;
