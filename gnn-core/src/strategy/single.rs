//! One rank holds everything: the exact reference that every other strategy is compared with.
//!
//! # Paper
//! None; this is the baseline.
//! # Idea
//! The whole graph is one block without remote sources.
//! # Exact when
//! Always: it defines what exact means.

use super::full_graph::OverBlock;
use super::full_graph::{FullGraph, input_of, model_of};
use super::ordered::Ordered;
use super::{Built, Determinism, Entry, Exact, Rows, Setup};
use crate::backend::Mat;
use crate::ctx::Ctx;
#[cfg(test)]
use crate::dataset::Dataset;
use crate::error::Result;
use crate::model::{Aggregate, At, Memory, Neighbours};
use crate::record::{Holds, RankFacts};

/// Nobody else owns anything.
pub(super) struct Alone;

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
#[cfg(test)]
pub(crate) fn over_whole_graph(data: &Dataset, cx: &Ctx) -> impl Aggregate + use<> {
    let n = data.graph.n();
    let block = data.graph.propagation(cx.plan.spec.model.propagation());
    OverBlock::new(Alone, block, n, (0..n as u32).collect::<Vec<_>>())
}

/// Training on the whole graph, on one rank.
#[cfg(test)]
pub(crate) fn reference(
    setup: Setup,
    cx: &mut Ctx,
) -> Result<(FullGraph<impl Aggregate + use<>>, Rows)> {
    let (strategy, rows, _) = on_all_rows(setup, cx)?;
    Ok((strategy, rows))
}

/// Training on the whole graph, and the bytes that it needs.
fn on_all_rows(
    setup: Setup,
    cx: &mut Ctx,
) -> Result<(FullGraph<impl Aggregate + use<>>, Rows, Option<Memory>)> {
    let ordered = Ordered::of(&setup, cx);
    let ids = ordered.ids().to_vec();
    let rows = Rows::of(&setup.data, &ids);
    let block = ordered.whole;
    let memory = Memory::of(&cx.plan.spec, &setup.data, &block);
    let aggregate = OverBlock::new(Alone, block, ids.len(), rows.ids.clone());
    let model = model_of(&setup, cx);
    let input = input_of(setup.data, cx, &ids);
    let strategy = FullGraph::new(aggregate, model, input, rows.clone(), cx)?;
    Ok((strategy, rows, memory))
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let (strategy, rows, memory) = on_all_rows(setup, cx)?;
    let facts = RankFacts {
        rank: 0,
        owned_nodes: rows.ids.len() as u64,
        train_nodes: rows.train_count() as u64,
        memory: memory.map(Holds::from),
        ..RankFacts::default()
    };
    Ok(Built {
        strategy: Box::new(strategy),
        rows,
        facts,
        predicted: Vec::new(),
        part: None,
    })
}

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "single",
    summary: "one rank holds everything; the exact reference",
    ranks: (1, 1),
    exact: Exact::Always,
    determinism: |_| Determinism::Bitwise,
    resumes: true,
    build,
    ..Entry::BASE
};
