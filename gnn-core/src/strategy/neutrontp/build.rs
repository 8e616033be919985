//! From a request to a rank's strategy: chunks, owners, and the bytes that will travel.

use super::attention::Attention;
use super::chunks::{Count, Owners, Pipeline, Way, bounds, portions, share_out};
use super::cuts::{Growing, cuts};
use super::layout::{Columns, Turns};
use super::rounds::TensorParallel;
use super::schedule::Schedule;
use super::traffic::{Traffic, Trip};
use crate::backend::Sparse;
use crate::ctx::Ctx;
use crate::device::{self, BudgetedDevice, Stores};
use crate::error::Result;
use crate::graph::Block;
use crate::model::{AggregateFirst, Aggregation, Model, Round, Shape};
use crate::record::Direction;
use crate::spec::RunSpec;
use crate::strategy::full_graph::{Prepared, aggregations, input_of, shape_of};
use crate::strategy::ordered::Ordered;
use crate::strategy::{Built, Rows, Setup};

/// Chunks of a pipeline for which nobody chose a number or a budget.
const PIPELINED: usize = 8;

/// The device that chunks run on, where a request gives it a budget. Everything else is on the host then.
///
/// # Errors
/// As [`BudgetedDevice::open`].
pub(super) fn device(cx: &mut Ctx) -> Result<Option<BudgetedDevice>> {
    let budget = device::budget(&cx.plan.spec.knobs);
    let open = (budget > 0).then(|| BudgetedDevice::open(cx, budget));
    open.transpose()
}

/// Bounds of the chunks that a request asks for, over vertices that have so many rows in each of
/// `matrices`. A device, which keeps things as `stores` says, holds `width` columns of every row that
/// a chunk reads, and of the chunk's own; edges carry values where the matrix has them, or `weighted`.
///
/// # Errors
/// [`crate::Error::Spec`] when a chunk does not fit into the device.
pub(super) fn chunk_bounds(
    spec: &RunSpec,
    stores: Option<Stores>,
    matrices: &[(&Sparse, usize)],
    width: usize,
    weighted: bool,
) -> Result<Vec<usize>> {
    let budget = device::budget(&spec.knobs);
    let count = match spec.knobs.word("chunks") {
        "auto" if budget == 0 && spec.knobs.flag("pipeline") => Count::Of(PIPELINED),
        "auto" => Count::Auto,
        _ => Count::Of(spec.knobs.count("chunks")),
    };
    let mut need = stores.map(|stores| Growing::new(stores, matrices, width, weighted));
    let mut grow = |v, begins| need.as_mut().map_or(0, |need| need.add(v, begins));
    let (a, group) = matrices[0];
    let starts = a.view().indptr.iter().step_by(group);
    let starts: Vec<u64> = starts.copied().collect();
    bounds(&starts, count, budget, &mut grow)
}

/// What a request's model asks of the cut and of the messages.
struct Asked {
    decoupled: bool,
    /// Rows of a vertex before the first round.
    group: usize,
    /// Columns of what travels, where it is decoupled.
    d_out: usize,
    /// Layers before the first round, and the last of the rounds.
    ends: [u16; 2],
    /// What each round does, where it is decoupled.
    rounds: Vec<Round>,
    /// Heads whose coefficients are made before the first round; 0 where edges have none.
    heads: usize,
    /// Aggregations of an epoch, where it is naive.
    aggregations: Vec<Aggregation>,
}

impl Asked {
    fn of(model: &Model, shape: Shape, sparse: bool, cx: &Ctx) -> Asked {
        let spec = &cx.plan.spec;
        let rounds = model.rounds(cx.backend.as_ref());
        let dense = model.layers() - rounds.len();
        let heads = |round: &Round| match round {
            Round::Attention { heads, .. } => *heads,
            _ => 0,
        };
        Asked {
            decoupled: spec.decoupled,
            group: match rounds.first() {
                Some(Round::Relations { count, .. }) => *count,
                _ => 1,
            },
            d_out: shape.d_out,
            ends: [dense as u16, model.layers() as u16 - 1],
            heads: rounds.first().map_or(0, heads),
            rounds,
            aggregations: aggregations(model, sparse && !spec.decoupled, cx),
        }
    }

    /// How messages are cut. By sources where the first round is not the last too, on edges that are
    /// the graph's own, with room for its whole result.
    fn pipeline(&self, spec: &RunSpec) -> Pipeline {
        if !spec.knobs.flag("pipeline") {
            return Pipeline::Off;
        }
        let plain = |round: &Round| matches!(round, Round::Sum { .. });
        let several = self.rounds.len() > 1 && self.rounds.iter().all(plain);
        if several && device::budget(&spec.knobs) == 0 {
            Pipeline::BySource
        } else {
            Pipeline::ByNeed
        }
    }

    /// Columns of the widest slice.
    fn width(&self, ranks: usize) -> usize {
        let widest = if self.decoupled {
            self.d_out
        } else {
            self.aggregations.iter().map(|a| a.width).max().unwrap_or(0)
        };
        Columns::new(widest, ranks, 0).widest()
    }

    /// Whose columns are one more. What keeps slices for backward needs the same both ways: a model with
    /// coefficients, and one that learns the weight of a vertex's own row.
    fn turns(&self) -> Turns {
        let learns = |round: &Round| matches!(round, Round::Sum { learns: true, .. });
        if self.heads > 0 || self.rounds.iter().any(learns) {
            Turns::Epoch
        } else {
            Turns::Direction
        }
    }

    /// Every split and gather of an epoch; `rows[r]` vertices belong to rank `r`.
    fn trips(&self, rows: &[usize]) -> Vec<Trip> {
        let trip = |layer, direction, group: usize, width, gathers| Trip {
            layer,
            direction,
            rows: rows.iter().map(|r| r * group).collect(),
            width,
            gathers,
        };
        if !self.decoupled {
            let both = |a: &Aggregation| {
                [false, true].map(|gathers| trip(a.layer as u16, a.direction, 1, a.width, gathers))
            };
            return self.aggregations.iter().flat_map(both).collect();
        }
        let ([first, last], d, group) = (self.ends, self.d_out, self.group);
        vec![
            trip(first, Direction::Forward, group, d, false),
            trip(last, Direction::Forward, 1, d, true),
            trip(last, Direction::Backward, 1, d, false),
            trip(first, Direction::Backward, group, d, true),
        ]
    }
}

/// The matrices that rounds multiply by, forward and backward, with the rows that a vertex has in each
/// one's result.
type Matrices<'a> = [Vec<(&'a Sparse, usize)>; 2];

fn matrices<'a>(asked: &Asked, block: &'a Block) -> Result<Matrices<'a>> {
    let plain = |a| vec![(a, 1)];
    let Some(Round::Relations { count: group, .. }) = asked.rounds.first().copied() else {
        return Ok([plain(block.edges()), plain(block.edges_t())]);
    };
    let [a, t] = block.by_relation()?;
    let (mut forward, mut backward) = (vec![(a, 1)], vec![(t, group)]);
    if asked.rounds.len() > 1 {
        let [a, t] = block.within_relations()?;
        forward.insert(0, (a, group));
        backward.insert(0, (t, group));
    }
    Ok([forward, backward])
}

/// A rank's part of a graph that is whole on every rank, and the numbers of each rank's vertices.
fn cut(
    ordered: Ordered,
    asked: &Asked,
    spec: &RunSpec,
    device: Option<BudgetedDevice>,
    (me, ranks): (usize, usize),
) -> Result<(TensorParallel, Vec<Vec<u32>>)> {
    let stores = device.as_ref().map(BudgetedDevice::stores);
    let (ids, block) = (ordered.ids().to_vec().into(), ordered.whole);
    let n = block.n_dst;
    let [over_in, over_out] = matrices(asked, &block)?;
    let width = asked.width(ranks);
    let chunks = |m: &[(&Sparse, usize)]| chunk_bounds(spec, stores, m, width, asked.heads > 0);
    let (forward, mut backward) = (chunks(&over_in)?, chunks(&over_out)?);
    let pipeline = asked.pipeline(spec);
    if pipeline == Pipeline::BySource {
        // Portions of both ways are those that owners share evenly.
        backward.clone_from(&forward);
    }
    let owner = share_out(&portions(block.csr(), &forward), n, ranks);
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
    let way = |a: &Sparse, bounds, groups| Way::new(a.view(), bounds, owners, groups, pipeline);
    let mut forward = way(block.edges(), forward, (asked.group, 1));
    let mut backward = way(block.edges_t(), backward, (1, asked.group));
    if stores.is_some() {
        let both = [(&mut forward, over_in), (&mut backward, over_out)];
        for (way, matrices) in both {
            let cut = |&(a, group): &(&Sparse, usize)| cuts(a.view(), &way.bounds, group);
            way.cuts = matrices.iter().map(cut).collect();
        }
    }
    let make = || Attention::new(block.csr(), owners, asked.heads);
    let attention = (asked.heads > 0).then(make);
    let attention = attention.transpose()?;
    let turns = asked.turns();
    let counts: Vec<usize> = members.iter().map(Vec::len).collect();
    let parallel = TensorParallel {
        block,
        ids,
        forward,
        backward,
        schedule: Schedule { device, turns },
        traffic: Traffic {
            trips: asked.trips(&counts),
            turns,
            said: None,
        },
        attention,
    };
    Ok((parallel, members))
}

/// Tensor parallelism, naive or decoupled.
pub(super) fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let device = device(cx)?;
    let (data, spec) = (&setup.data, cx.plan.spec.clone());
    let (me, ranks) = (cx.rank(), cx.size());
    let shape = Shape {
        aggregate_first: AggregateFirst::Features,
        ..shape_of(&setup, cx)
    };
    let model = Model::new(&spec, cx.backend.as_ref(), shape);
    let sparse = data.features.is_sparse();
    let asked = Asked::of(&model, shape, sparse, cx);
    let ordered = Ordered::of(&setup, cx);
    let (parallel, members) = cut(ordered, &asked, &spec, device, (me, ranks))?;
    // What splits and gathers send differs from epoch to epoch and is said in each.
    let made = parallel.attention.iter();
    let predicted = made.flat_map(|a| a.predict(me, asked.ends[0])).collect();
    let own: Vec<u32> = members[me]
        .iter()
        .map(|&k| parallel.ids[k as usize])
        .collect();
    let rows = Rows::of(data, &own);
    let prepared = Prepared {
        aggregate: parallel,
        model,
        input: input_of(setup.data, cx, &own),
        rows,
        halo_nodes: 0,
        predicted,
        part: None,
    };
    prepared.build(cx)
}
