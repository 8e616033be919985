//! The first two rungs of the paper's Figure 11, before tensor parallelism: vertices cut into runs of
//! ids, each rank's whole rows, remote rows fetched each layer, nothing overlapped.
//!
//! `base` multiplies a rank's edges in one piece, `+cs` chunk by chunk. The rungs above are the
//! strategy itself.

use super::super::full_graph::{Prepared, aggregations, input_of, shape_of};
use super::super::halo::{Halo, predict};
use super::super::ordered::Ordered;
use super::super::{Built, Rows, Setup};
use super::build::{chunk_bounds, device};
use super::cuts::{Cut, cuts};
use super::layout::Turns;
use super::schedule::{Schedule, Step};
use crate::backend::{Mat, Sparse};
use crate::ctx::Ctx;
use crate::device::BudgetedDevice;
use crate::error::{Error, Result};
use crate::graph::Block;
use crate::model::{Aggregate, AggregateFirst, At, Model, Neighbours, Shape, with_room};
use crate::partition::LocalPart;
use crate::record::Direction;
use crate::spec::{RunSpec, Value};
use kernels::par::split_rows;

/// A rung of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    /// Data-parallel.
    Base,
    /// Chunk scheduling.
    Cs,
    /// Tensor parallelism.
    Tp,
    /// Decoupled training.
    Dt,
    /// Inter-chunk pipelining.
    Ip,
}

/// Names of the rungs, from the lowest.
pub(super) const RUNGS: &[(&str, Rung)] = &[
    ("base", Rung::Base),
    ("+cs", Rung::Cs),
    ("+tp", Rung::Tp),
    ("+dt", Rung::Dt),
    ("+ip", Rung::Ip),
];

/// The rung that a request names, if it names one.
pub(super) fn rung(spec: &RunSpec) -> Option<Rung> {
    let name = spec.knobs.word("ladder");
    RUNGS.iter().find(|r| r.0 == name).map(|r| r.1)
}

/// Sets what a rung stands for.
///
/// # Errors
/// [`Error::Spec`] when the request asks for more than its rung.
pub(super) fn settle(spec: &mut RunSpec) -> Result<()> {
    let Some(rung) = rung(spec) else {
        return Ok(());
    };
    let above = [
        ("decoupled", spec.decoupled && rung < Rung::Dt),
        ("pipeline", spec.knobs.flag("pipeline") && rung < Rung::Ip),
    ];
    if let Some((key, _)) = above.iter().find(|(_, above)| *above) {
        let name = spec.knobs.word("ladder");
        return Err(Error::Spec {
            key: "ladder".into(),
            reason: format!("{name} is below {key} = true"),
            help: format!("leave {key} out: ladder sets it, or choose a higher rung"),
        });
    }
    spec.decoupled = rung >= Rung::Dt;
    spec.knobs.set("pipeline", Value::Bool(rung >= Rung::Ip));
    Ok(())
}

/// A rank's vertices with all their in-edges.
struct DataParallel {
    halo: Halo,
    /// `[n_local, n_local + n_remote]`.
    block: Block,
    /// Bounds of the chunks of destinations, and of sources backward.
    bounds: [Vec<usize>; 2],
    /// What a device is given of each chunk; none without a device.
    cuts: [Vec<Cut>; 2],
    schedule: Schedule,
}

impl Aggregate for DataParallel {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (n, width) = x.dim();
        if at.direction == Direction::Backward {
            let a = self.block.edges_t();
            let mut g = cx.backend.fresh(a.rows(), width);
            let step = Step {
                cuts: &self.cuts[1],
                ..Step::plain(a)
            };
            self.schedule.sweep(cx, &step, &self.bounds[1], x, &mut g)?;
            self.halo.push(cx, at, &mut g, &mut |_, _| Ok(()))?;
            return Ok(g.truncate(n));
        }
        let a = self.block.edges();
        let mut sources = with_room(cx, x, a.n_cols());
        self.halo.pull(cx, at, &mut sources, &mut |_, _| Ok(()))?;
        let mut y = cx.backend.fresh(n, width);
        let step = Step {
            cuts: &self.cuts[0],
            ..Step::plain(a)
        };
        self.schedule
            .sweep(cx, &step, &self.bounds[0], &sources, &mut y)?;
        Ok(y)
    }
}

/// Builds `base` or `+cs`.
pub(super) fn build(setup: Setup, cx: &mut Ctx, rung: Rung) -> Result<Built> {
    let device = device(cx)?;
    let stores = device.as_ref().map(BudgetedDevice::stores);
    let (me, ranks, n) = (cx.rank(), cx.size(), setup.data.graph.n());
    let runs = split_rows(n, ranks);
    let of_run = |rank: usize| std::iter::repeat_n(rank as u32, runs[rank + 1] - runs[rank]);
    let owner: Vec<u32> = (0..ranks).flat_map(of_run).collect();
    let setup = Setup {
        owner: Some(owner.into()),
        ..setup
    };
    let ordered = Ordered::of(&setup, cx);
    let part = LocalPart::new(&ordered.whole, &ordered.owner, me, ranks)?;
    let row = ordered.part_row(&setup, cx);
    let own = ordered.vertices(&part.own);
    drop(ordered);
    let shape = Shape {
        aggregate_first: AggregateFirst::Features,
        ..shape_of(&setup, cx)
    };
    let model = Model::new(&cx.plan.spec, cx.backend.as_ref(), shape);
    let rows = Rows::of(&setup.data, &own);
    let input = input_of(setup.data, cx, &own);
    let aggregations = aggregations(&model, input.is_sparse(), cx);
    let read = part.recv_counts();
    let sends: Vec<usize> = part.send.iter().map(Vec::len).collect();
    let predicted = predict(&aggregations, &sends, &read);
    let halo_nodes = part.halo.len();
    let width = aggregations.iter().map(|a| a.width).max().unwrap_or(0);
    let block = part.block;
    let bounds = if rung == Rung::Base {
        [vec![0, block.n_dst], vec![0, block.n_src]]
    } else {
        let both = [block.edges(), block.edges_t()];
        let [forward, backward] =
            both.map(|a| chunk_bounds(&cx.plan.spec, stores, &[(a, 1)], width, false));
        [forward?, backward?]
    };
    let cut = |a: &Sparse, bounds| match device {
        Some(_) => cuts(a.view(), bounds, 1),
        None => Vec::new(),
    };
    let cuts = [
        cut(block.edges(), &bounds[0]),
        cut(block.edges_t(), &bounds[1]),
    ];
    let aggregate = DataParallel {
        halo: Halo::new(part.send, read, false),
        block,
        bounds,
        cuts,
        schedule: Schedule {
            device,
            turns: Turns::Direction,
        },
    };
    let prepared = Prepared {
        aggregate,
        model,
        input,
        rows,
        halo_nodes,
        predicted,
        part: Some(row),
    };
    prepared.build(cx)
}
