//! One rank holds everything: the exact reference that every other strategy is compared with.
//!
//! # Paper
//! None; this is the baseline.
//! # Idea
//! The whole graph is one block without remote sources. With `rows = needed`, training leaves out
//! the rows that no training vertex depends on: the loss and the gradients stay the same.
//! # Exact when
//! Always: it defines what exact means.

use super::full_graph::{FullGraph, input_of, model_of};
use super::needed::{Needed, OverNeeded};
use super::neighbours::OverBlock;
use super::{Built, Determinism, Entry, Exact, Knob, Rows, Setup, Strategy};
use crate::backend::Mat;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::error::{Error, Result};
use crate::model::{Aggregate, At, ModelKind, Neighbours};
use crate::record::RankFacts;
use crate::spec::{RunSpec, TaskKind, Value};

/// Nobody else owns anything.
struct Alone;

impl Neighbours for Alone {
    fn pull(
        &mut self,
        cx: &mut Ctx,
        _at: At,
        x: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &Mat) -> Result<()>,
    ) -> Result<()> {
        meanwhile(cx, x)
    }

    fn push(
        &mut self,
        cx: &mut Ctx,
        _at: At,
        g: &mut Mat,
        meanwhile: &mut dyn FnMut(&mut Ctx, &mut Mat) -> Result<()>,
    ) -> Result<()> {
        meanwhile(cx, g)
    }
}

/// Aggregation over the whole graph, as the request's model wants its edges.
pub(crate) fn over_whole_graph(data: &Dataset, cx: &Ctx) -> impl Aggregate + use<> {
    let n = data.graph.n();
    let block = data.graph.propagation(cx.plan.spec.model.propagation());
    OverBlock::new(Alone, block, n, (0..n as u32).collect())
}

/// Training on the whole graph, on one rank.
pub(crate) fn reference(
    setup: &Setup,
    cx: &mut Ctx,
) -> Result<(FullGraph<impl Aggregate + use<>>, Rows)> {
    let data = &setup.data;
    let ids: Vec<u32> = (0..data.graph.n() as u32).collect();
    let rows = Rows::of(data, &ids);
    let aggregate = over_whole_graph(data, cx);
    let model = model_of(setup, cx);
    let input = input_of(data, cx, &ids);
    let strategy = FullGraph::new(aggregate, model, input, rows.clone(), cx)?;
    Ok((strategy, rows))
}

/// The same training on the rows that the loss depends on.
fn on_needed_rows(
    setup: &Setup,
    cx: &mut Ctx,
) -> Result<(FullGraph<impl Aggregate + use<>>, Rows)> {
    let data = &setup.data;
    let block = data.graph.propagation(cx.plan.spec.model.propagation());
    let model = model_of(setup, cx);
    let mut needed = Needed::of(&block, &data.train, model.layers());
    if matches!(data.features, Features::Sparse(_)) {
        // The first layer multiplies all sparse rows before it aggregates them.
        needed.rows[1] = needed.order.len();
    }
    let aggregate = OverNeeded::new(&block, &needed)?;
    drop(block);
    let rows = Rows::of(data, &needed.order);
    let trained = Rows::of(data, &needed.order[..needed.rows[model.layers()]]);
    let input = input_of(data, cx, &needed.order);
    let strategy = FullGraph::new(aggregate, model, input, rows.clone(), cx)?;
    Ok((strategy.with_loss_on(trained, cx)?, rows))
}

fn build(setup: &Setup, cx: &mut Ctx) -> Result<Built> {
    let (strategy, rows): (Box<dyn Strategy>, Rows) = if needs_rows_only(&cx.plan.spec) {
        let (strategy, rows) = on_needed_rows(setup, cx)?;
        (Box::new(strategy), rows)
    } else {
        let (strategy, rows) = reference(setup, cx)?;
        (Box::new(strategy), rows)
    };
    let facts = RankFacts {
        rank: 0,
        owned_nodes: rows.ids.len() as u64,
        train_nodes: rows.train_count() as u64,
        ..RankFacts::default()
    };
    Ok(Built {
        strategy,
        rows,
        facts,
        predicted: Vec::new(),
        part: None,
    })
}

fn needs_rows_only(spec: &RunSpec) -> bool {
    spec.knobs.text("rows") == "needed"
}

/// Models whose layers compute fewer rows than they read.
const ON_NEEDED_ROWS: &[ModelKind] = &[ModelKind::Gcn, ModelKind::Sage];

fn refuse(spec: &RunSpec) -> Result<()> {
    let plain = ON_NEEDED_ROWS.contains(&spec.model) && !spec.decoupled;
    if !needs_rows_only(spec) || (plain && spec.task == TaskKind::Node) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "rows = needed".into(),
        reason: "only node classification with gcn or sage, not decoupled, leaves rows out".into(),
        help: "leave the key out, or set rows = \"all\"".into(),
    })
}

const KNOBS: &[Knob] = &[Knob {
    name: "rows",
    default: "all",
    doc: "rows that training computes: all, or needed (those that the loss depends on)",
    check: |v| matches!(v, Value::Str(s) if s == "all" || s == "needed"),
}];

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "single",
    paper: "baseline",
    summary: "one rank holds everything; the exact reference",
    models: ModelKind::ALL,
    ranks: (1, 1),
    knobs: KNOBS,
    exact: Exact::Always,
    determinism: Determinism::Bitwise,
    refuse,
    build,
};
