//! Replication: every rank holds the in-closure of its vertices and computes all it needs itself.
//!
//! # Paper
//! Baseline; "DepCache" in NeutronStar (SIGMOD 2022) and NeutronTP. The idea is that of mini-batch
//! systems taken to whole neighbourhoods.
//! # Idea
//! The rows of the last layer read their in-neighbours' rows of the layer before, and so on: with
//! `L` layers that read neighbours, what is `L` hops up from a rank's vertices is all it ever needs.
//! A rank holds those vertices' features and edges from the start. No vertex's rows travel, forward
//! or backward; only weight gradients are summed. A vertex in several closures is computed by each.
//! # Bytes
//! None but the weight gradients'.
//! # Work
//! Layer by layer the closure narrows: where `h` more layers follow, only rows up to `h` hops away
//! are aggregated. What exceeds a rank's own edges is `edges_redundant` in the `ranks` frame.
//! # Exact when
//! Always. Rows that nobody needs are zero, and so is their gradient.
//! # Not done
//! Dense layers run on all rows of the closure, also where aggregation has narrowed; attention and
//! relations do not narrow at all. Links are not predicted: a pair's ends need not be on one rank.

use super::full_graph::{FullGraph, aggregations, input_of, model_of};
use super::ordered::Ordered;
use super::single::Alone;
use super::{Built, Entry, Exact, Rows, Setup, Strategy};
use crate::backend::{Kept, Mat, Write};
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::model::{Aggregate, Aggregation, At, Edges, Model};
use crate::partition::Closure;
use crate::record::{Direction, RankFacts};
use crate::spec::{RunSpec, TaskKind};

/// Aggregation within a closure, over the rows that later layers still need.
struct Within {
    closure: Closure,
    ids: Kept<u32>,
    /// By layer, how many layers that read neighbours follow it.
    follow: Vec<usize>,
    alone: Alone,
}

impl Within {
    fn new(closure: Closure, model: &Model) -> Within {
        let after = |l: usize| (l + 1..model.layers()).filter(|&l| reads(model, l)).count();
        Within {
            ids: closure.ids.clone().into(),
            closure,
            follow: (0..model.layers()).map(after).collect(),
            alone: Alone,
        }
    }

    /// How many rows are computed of an aggregation: forward those that are needed, backward those
    /// that were read.
    fn rows(&self, layer: usize, direction: Direction) -> usize {
        let hops = self.follow[layer] + usize::from(direction == Direction::Backward);
        self.closure.within[hops]
    }

    /// Edges multiplied in an epoch beyond those into the rank's own vertices.
    fn redundant(&self, aggregations: &[Aggregation], narrows: bool) -> u64 {
        let block = &self.closure.block;
        let into_own = block.csr().indptr[self.closure.within[0]];
        let edges = |a: &Aggregation| {
            let by = match a.direction {
                Direction::Backward => block.edges_t().view(),
                _ => block.csr(),
            };
            let rows = if narrows {
                self.rows(a.layer, a.direction)
            } else {
                block.n_dst
            };
            by.indptr[rows] - into_own
        };
        aggregations.iter().map(edges).sum()
    }
}

/// Whether a layer reads neighbours.
fn reads(model: &Model, layer: usize) -> bool {
    model.layer(layer).facts().is_some()
}

impl Aggregate for Within {
    fn edges(&mut self, _at: At) -> Option<Edges<'_>> {
        Some(Edges {
            block: &self.closure.block,
            n_interior: self.closure.block.n_dst,
            ids: &self.ids,
            neighbours: Some(&mut self.alone),
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let block = &self.closure.block;
        let a = match at.direction {
            Direction::Backward => block.edges_t(),
            _ => block.edges(),
        };
        let rows = self.rows(at.layer, at.direction);
        let mut out = if rows == x.nrows() {
            cx.backend.fresh(rows, x.ncols())
        } else {
            cx.backend.zeros(x.nrows(), x.ncols())
        };
        cx.backend.spmm(a, 0..rows, x, Write::Set, &mut out);
        Ok(out)
    }
}

/// Training on a closure, of which the first `own` rows are this rank's.
struct DepCache {
    training: FullGraph<Within>,
    own: usize,
}

impl Strategy for DepCache {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        self.training.epoch(cx)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let all = self.training.logits(cx)?;
        Ok(all.slice_move(ndarray::s![..self.own, ..]))
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.training.gradients()
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        self.training.save(cx, snapshot)
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        self.training.restore(cx, snapshot)
    }
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let (data, me) = (&setup.data, cx.rank());
    let ordered = Ordered::of(&setup, cx);
    let mine = |&k: &u32| ordered.owner[k as usize] as usize == me;
    let own: Vec<u32> = (0..data.graph.n() as u32).filter(mine).collect();
    let row = ordered.part_row(&setup, cx);
    let rows = Rows::of(data, &ordered.vertices(&own));
    let model = model_of(&setup, cx);
    let hops = (0..model.layers()).filter(|&l| reads(&model, l)).count();
    let mut closure = Closure::new(&ordered.whole, own, hops)?;
    closure.ids = ordered.vertices(&closure.ids);
    drop(ordered);
    let own = rows.ids.len();
    let of_closure = trained_here(Rows::of(data, &closure.ids), own);
    let halo = closure.ids.len() - own;
    let input = input_of(setup.data, cx, &closure.ids);
    let narrows = !model.facts().edge_parameters;
    let aggregations = aggregations(&model, input.is_sparse(), cx);
    let within = Within::new(closure, &model);
    let facts = RankFacts {
        rank: me as u32,
        owned_nodes: own as u64,
        halo_nodes: halo as u64,
        train_nodes: rows.train_count() as u64,
        edges_redundant: within.redundant(&aggregations, narrows),
        ..RankFacts::default()
    };
    let training = FullGraph::new(within, model, input, of_closure, cx)?;
    let predicted = training.predict(cx);
    Ok(Built {
        strategy: Box::new(DepCache { training, own }),
        rows,
        facts,
        predicted,
        part: Some(row),
    })
}

/// Rows of which only the first `own` are trained on: the others are somebody else's.
fn trained_here(rows: Rows, own: usize) -> Rows {
    let train = rows.train.iter().enumerate().map(|(k, &t)| t && k < own);
    Rows {
        train: train.collect::<Vec<_>>().into(),
        ..rows
    }
}

fn refuse(spec: &RunSpec) -> Result<()> {
    if spec.task != TaskKind::Node {
        return Err(Error::Unsupported {
            what: "links with strategy depcache".into(),
            reason: "the two ends of a pair need not be in one rank's closure".into(),
            help: "choose another strategy, for example halo".into(),
        });
    }
    Ok(())
}

/// Its entry.
pub const ENTRY: Entry = Entry {
    name: "depcache",
    summary: "every rank holds and computes the in-closure of its vertices; no rows travel",
    exact: Exact::Always,
    resumes: true,
    refuse,
    build,
    ..Entry::BASE
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Pass;
    use crate::spec::Value;
    use crate::testing::{random_dataset, world};
    use std::sync::Arc;

    /// What the ranks multiply is the graph's edges and the redundant ones, where layers narrow.
    #[test]
    fn redundant_edges_are_what_is_multiplied_beyond_the_graphs_own() {
        let data = Arc::new(random_dataset(60, 150, 12, 3, false, 5));
        let owner = Arc::new((0..60).map(|v| v % 3).collect::<Vec<u32>>());
        for model in ["gcn", "gcnii"] {
            let pairs = [("strategy", "depcache"), ("model", model), ("hidden", "8")];
            let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let all = world(&spec, 3, |cx, meter| {
                let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
                let mut built = build(setup, cx).expect("builds");
                cx.pass(Pass::Forward);
                meter.take_times();
                built.strategy.epoch(cx).expect("trains");
                (
                    meter.take_times().1.edges,
                    built.facts.edges_redundant,
                    meter.take_traffic(),
                )
            });
            let whole = data.graph.propagation(spec.model.propagation());
            // Two layers, forward and backward.
            let own = 4 * whole.csr().indices.len() as u64;
            let (multiplied, redundant) = all.iter().fold((0, 0), |s, r| (s.0 + r.0, s.1 + r.1));
            assert_eq!(multiplied, own + redundant, "{model}");
            assert!(redundant > 0);
            let grads = |r: &crate::record::Lane| r.1 == Direction::Grad;
            assert!(all.iter().all(|r| r.2.keys().all(grads)), "no rows travel");
        }
    }
}
