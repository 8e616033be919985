//! Bytes that a rank of mini-batch training holds at its fullest moment, by formula.
//!
//! With `n` vertices, `o` owned by the rank, `h` remote ones that they read, `E` in-edges of the owned,
//! `T` training vertices of the rank, `W` threads that make batches and `P` batches made ahead, as far as
//! they are bounded; with
//! `r`, `c`, `m` rows, columns and edges of a batch's layer ([`Expected`]):
//!
//! | part | bytes | |
//! |---|---|---|
//! | graph | block `8·(o + 1) + 8·E`, ids and numbers of its columns `8·(o + h)`, numbers of vertices whose rows evaluation keeps, ids, labels and masks `15·o`, seeds `(15 + 4·W)·T` | exact |
//! | numbering | `4·n` ids of all numbers, `8·n` a thread that makes batches and for evaluation, a bit a vertex and layer | exact |
//! | features | `4·d·o` | exact |
//! | history | what a strategy with historical caches adds | |
//! | cache | `4·d` a row, and its place in a table of 9 bytes an entry | exact |
//! | parameters | weights, gradients and the optimiser's moments | exact |
//! | batches | `P + 1` of them, and beside each that is being made the first hop once more, and the rows on their way to others | of expected sizes |
//! | buffers | matrices of a step, and of evaluation, which begins when a batch is done with, as the pool keeps them | of expected sizes |
//!
//! A batch is, by layer, a block `8·r + 8·m` with its transposed `8·c + 8·m` and ids `4·c`. A first layer
//! whose features are summed where they lie is instead `8·r` for each place where they can lie, `8·m`, the
//! rows that are fetched, and for GraphSAGE those of the destinations; otherwise features are `4·d·c`.
//!
//! Nothing here is measured; the program itself is not in it. Until as many batches as asked for are ahead,
//! less is held.
//!
//! # Measured
//! Peaks beside what was foreseen, at most 15 % above it with evaluation: `notebooks/measured/plans.md`.
//! # Not done
//! The rows that are kept are fetched all at once, and exist twice while they are. Sparse features, and data
//! that is not in the mapped form, are read whole by every rank before it keeps its part; nothing of that
//! is foreseen.

use super::Base;
use super::buffers::{IdleBuffers, Sizes};
use crate::ctx::Ctx;
use crate::dataset::Task;
use crate::feed::{Draws, Expected};
use crate::record::Holds;
use crate::spec::OptimiserKind;
use crate::strategy::Setup;

/// Bytes at the fullest moment, by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::strategy) struct Foreseen {
    /// The rank's part of the graph, with what is known of its vertices.
    pub(in crate::strategy) graph: usize,
    /// Tables of all vertices.
    pub(in crate::strategy) numbering: usize,
    /// Features of its vertices.
    pub(in crate::strategy) features: usize,
    /// Copies of others' features.
    pub(in crate::strategy) cache: usize,
    /// Rows of earlier steps, with what is on its way.
    pub(in crate::strategy) history: usize,
    /// Weights, their gradients and the optimiser's state.
    pub(in crate::strategy) parameters: usize,
    /// Batches made ahead and in the making.
    pub(in crate::strategy) batches: usize,
    /// Matrices of a step, and what evaluation needs beside those and in the place of the batch that is
    /// trained on.
    pub(in crate::strategy) step: usize,
    pub(in crate::strategy) evaluation: usize,
}

impl From<Foreseen> for Holds {
    fn from(f: Foreseen) -> Holds {
        Holds {
            graph: f.graph + f.numbering,
            features: f.features,
            activations: f.batches + f.step + f.evaluation,
            history: f.history,
            offloaded: 0,
            halo: f.cache,
            parameters: f.parameters,
        }
    }
}

impl Foreseen {
    /// What a rank will hold. None where there is no formula: for other models than GCN and GraphSAGE, for
    /// links, sparse features, draws in proportion to degrees or by rules of others, and what is learnt of vertices.
    pub(in crate::strategy) fn of(setup: &Setup, cx: &Ctx, base: &Base) -> Option<Foreseen> {
        let (data, spec) = (&setup.data, &cx.plan.spec);
        let (part, settings) = (&base.part, &base.settings);
        let fixed = !base.model.facts().edge_parameters;
        let sparse = data.features.is_sparse();
        let drawn = &settings.neighbours;
        let special = drawn.by_degree || drawn.rule.is_some() || settings.learning.is_some();
        if !fixed || sparse || special || data.task == Task::LinkPrediction {
            return None;
        }
        let n = data.n();
        let ids = &part.numbers.ids;
        let mine = base.training.seeds.mine();
        let trained: Vec<u32> = mine.iter().map(|&k| ids[k as usize]).collect();
        let by = part.drawing(settings.halo);
        let draws = Draws {
            graph: &data.graph,
            loops: spec.model.propagation().adds_loops(),
            fan_outs: &settings.neighbours.fan_outs,
            replace: settings.neighbours.replace,
            by: by.as_deref(),
        };
        let batch = mine.len() as f64 / base.training.seeds.batches() as f64;
        let expected = draws.expected(&trained, batch)?;
        let widths = (0..base.wants.layers).map(|l| match l {
            0 => data.features.dim(),
            _ => spec.hidden,
        });
        let widths: Vec<usize> = widths.chain([data.n_classes]).collect();
        let fetched = fetched(&expected, cx.rank(), base);
        let row = 4 * widths[0];
        let sizes = Sizes {
            expected: &expected,
            widths: &widths,
            wants: base.wants,
            fetched,
            places: match (cx.size() > 1, base.hot > 0) {
                (false, _) => 1,
                (true, false) => 2,
                (true, true) => 3,
            },
        };
        let workers = settings.workers;
        // A run has no more batches than its epochs.
        let left = (spec.epochs - cx.plan.start.min(spec.epochs)) as u64;
        let run = left * base.training.seeds.batches();
        let fit = settings
            .room
            .map(|room| room as f64 / sizes.batch().max(1.0));
        // One is begun however large it is.
        let fit = fit.map_or(settings.ahead, |fit| (fit as usize).max(1));
        let ahead = settings.ahead.min(fit).min(run.saturating_sub(1) as usize);
        let moments = match spec.optimizer {
            OptimiserKind::Adam | OptimiserKind::Adamw => 2,
            OptimiserKind::Sgd => usize::from(spec.momentum > 0.0),
        };
        let (o, classes) = (
            part.own.len(),
            data.multi_labels.as_ref().map_or(0, |_| data.n_classes),
        );
        let same = if cx.size() > 1 { 8 } else { 4 };
        let of_seeds = (15 + classes + 4 * workers) * mine.len();
        let mut pool = IdleBuffers::default();
        sizes.step(&mut pool, spec.dropout > 0.0);
        let step = pool.most;
        sizes.evaluation(&mut pool, o, &base.pieces);
        let (trained, waiting) = sizes.batches(ahead, workers);
        Some(Foreseen {
            graph: part.block.bytes()
                + same * part.column_ids.len()
                + 4 * base.pieces.kept.len()
                + (15 + classes) * o
                + of_seeds,
            numbering: 4 * n + 8 * n * (workers + 1) + base.wants.layers * n / 8,
            features: base.data.bytes(),
            cache: base.hot * row + table(base.hot),
            history: 0,
            // What the batches of a step have added beside the next one's.
            parameters: 4
                * (2 + moments + usize::from(settings.trainers > 1))
                * base.model.parameters(),
            batches: trained,
            step: 4 * step,
            evaluation: (4 * (pool.most - step) + waiting).saturating_sub(trained),
        })
    }
}

/// Bytes of a hash table from one word to another.
fn table(entries: usize) -> usize {
    match entries {
        0 => 0,
        n => 9 * (n * 8 / 7).next_power_of_two(),
    }
}

/// Rows that a batch is expected to fetch: those that it reads, and neither are this rank's nor kept.
fn fetched(expected: &Expected, me: usize, base: &Base) -> f64 {
    let numbers = &base.part.numbers;
    let own = numbers.of(me);
    let chance = |number: u32| f64::from(expected.inputs[numbers.ids[number as usize] as usize]);
    let others = (0..numbers.ids.len() as u32).filter(|number| !own.contains(number));
    let all: f64 = others.clone().map(chance).sum();
    let kept: f64 = match &base.wanted {
        Some(wanted) => wanted.iter().take(base.hot).map(|&v| chance(v)).sum(),
        None if base.hot > 0 => {
            let mut chances: Vec<f64> = others.map(chance).collect();
            chances.sort_unstable_by(|a, b| b.total_cmp(a));
            chances.iter().take(base.hot).sum()
        }
        None => 0.0,
    };
    all - kept
}

#[cfg(test)]
mod tests;
