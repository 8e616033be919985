//! Bytes that a rank of mini-batch training holds at its fullest moment, by formula.
//!
//! With `n` vertices, `o` owned by the rank, `h` remote ones that they read, `E` in-edges of the owned,
//! `T` training vertices of the rank, `W` threads that make batches and `P` batches made ahead; with
//! `r`, `c`, `m` rows, columns and edges of a batch's layer ([`Expected`]):
//!
//! | part | bytes | |
//! |---|---|---|
//! | graph | block `8·(o + 1) + 8·E`, ids and numbers of its columns `8·(o + h)`, numbers of vertices whose rows evaluation keeps, ids, labels and masks `15·o`, seeds `(15 + 4·W)·T` | exact |
//! | numbering | `4·n` ids of all numbers, `8·n` a thread that makes batches and for evaluation, a bit a vertex and layer | exact |
//! | features | `4·d·o` | exact |
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

use super::Settings;
use super::buffers::{Pool, Sizes};
use super::part::Part;
use crate::ctx::Ctx;
use crate::dataset::Task;
use crate::feed::{Draws, Expected, Pieces, Seeds, Wants};
use crate::model::{Model, ModelKind};
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
    /// Weights, their gradients and the optimiser's state.
    pub(in crate::strategy) parameters: usize,
    /// Batches made ahead and in the making.
    pub(in crate::strategy) batches: usize,
    /// Matrices of a step, and what evaluation needs beside those and in the place of the batch that is
    /// trained on.
    pub(in crate::strategy) step: usize,
    pub(in crate::strategy) evaluation: usize,
}

/// What is known of a rank before its first batch.
pub(in crate::strategy) struct Known<'a> {
    pub(in crate::strategy) part: &'a Part,
    /// Of its rows, for evaluation.
    pub(in crate::strategy) pieces: &'a Pieces,
    pub(in crate::strategy) seeds: &'a Seeds,
    pub(in crate::strategy) settings: &'a Settings,
    pub(in crate::strategy) wants: Wants,
    pub(in crate::strategy) model: &'a Model,
    /// Bytes of its own rows.
    pub(in crate::strategy) features: usize,
    /// Rows of others that are kept, and those that are wanted most, by number, if they are known.
    pub(in crate::strategy) hot: usize,
    pub(in crate::strategy) wanted: Option<&'a [u32]>,
}

impl From<Foreseen> for Holds {
    fn from(f: Foreseen) -> Holds {
        Holds {
            graph: f.graph + f.numbering,
            features: f.features,
            activations: f.batches + f.step + f.evaluation,
            halo: f.cache,
            parameters: f.parameters,
        }
    }
}

impl Foreseen {
    /// What a rank will hold. None where there is no formula: for other models than GCN and GraphSAGE, for
    /// links, sparse features, draws in proportion to degrees, and what is learnt of vertices.
    pub(in crate::strategy) fn of(setup: &Setup, cx: &Ctx, known: &Known<'_>) -> Option<Foreseen> {
        let (data, spec) = (&setup.data, &cx.plan.spec);
        let (part, settings) = (known.part, known.settings);
        let fixed = matches!(spec.model, ModelKind::Gcn | ModelKind::Sage);
        let sparse = data.features.is_sparse();
        let special = settings.by_degree || settings.learning.is_some();
        if !fixed || sparse || special || data.task == Task::LinkPrediction {
            return None;
        }
        let n = data.n();
        let ids = &part.numbers.ids;
        let mine = known.seeds.mine();
        let trained: Vec<u32> = mine.iter().map(|&k| ids[k as usize]).collect();
        let draws = Draws {
            graph: &data.graph,
            loops: spec.model == ModelKind::Gcn,
            fan_outs: &settings.fan_outs,
            replace: settings.replace,
        };
        let batch = mine.len() as f64 / known.seeds.batches() as f64;
        let expected = draws.expected(&trained, batch)?;
        let widths = (0..known.wants.layers).map(|l| match l {
            0 => data.features.dim(),
            _ => spec.hidden,
        });
        let widths: Vec<usize> = widths.chain([data.n_classes]).collect();
        let fetched = fetched(&expected, part, cx.rank(), known);
        let row = 4 * widths[0];
        let sizes = Sizes {
            expected: &expected,
            widths: &widths,
            wants: known.wants,
            fetched,
            places: match (cx.size() > 1, known.hot > 0) {
                (false, _) => 1,
                (true, false) => 2,
                (true, true) => 3,
            },
        };
        let workers = settings.workers;
        // A run has no more batches than its epochs.
        let left = (spec.epochs - cx.plan.start.min(spec.epochs)) as u64;
        let run = left * known.seeds.batches();
        let ahead = settings.prefetch.min(run.saturating_sub(1) as usize);
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
        let mut pool = Pool::default();
        sizes.step(&mut pool, spec.model == ModelKind::Sage, spec.dropout > 0.0);
        let step = pool.most;
        sizes.evaluation(&mut pool, o, known.pieces);
        let (trained, waiting) = sizes.batches(ahead, workers);
        Some(Foreseen {
            graph: part.block.bytes()
                + same * part.column_ids.len()
                + 4 * known.pieces.kept.len()
                + (15 + classes) * o
                + of_seeds,
            numbering: 4 * n + 8 * n * (workers + 1) + known.wants.layers * n / 8,
            features: known.features,
            cache: known.hot * row + table(known.hot),
            parameters: 4 * (2 + moments) * known.model.parameters(),
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
fn fetched(expected: &Expected, part: &Part, me: usize, known: &Known<'_>) -> f64 {
    let numbers = &part.numbers;
    let own = numbers.of(me);
    let chance = |number: u32| f64::from(expected.inputs[numbers.ids[number as usize] as usize]);
    let others = (0..numbers.ids.len() as u32).filter(|number| !own.contains(number));
    let all: f64 = others.clone().map(chance).sum();
    let kept: f64 = match known.wanted {
        Some(wanted) => wanted.iter().take(known.hot).map(|&v| chance(v)).sum(),
        None if known.hot > 0 => {
            let mut chances: Vec<f64> = others.map(chance).collect();
            chances.sort_unstable_by(|a, b| b.total_cmp(a));
            chances.iter().take(known.hot).sum()
        }
        None => 0.0,
    };
    all - kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::{Cache, RowData};
    use crate::model::{AggregateFirst, Shape};
    use crate::sample::FanOut;
    use crate::spec::{RunSpec, Value};
    use crate::strategy::full_graph::shape_of;
    use crate::testing::{random_dataset, world};
    use std::sync::Arc;

    fn settings(workers: usize) -> Settings {
        Settings {
            fan_outs: vec![FanOut::Of(3), FanOut::Of(4)],
            batch: 20,
            prefetch: 4,
            workers,
            cache: crate::feed::Room::Rows(0),
            presampled: false,
            by_degree: false,
            replace: false,
            in_batch: false,
            exclude: false,
            learning: None,
            least: 8,
        }
    }

    #[test]
    fn what_is_exact_is_what_lists_and_tables_hold() {
        let data = Arc::new(random_dataset(300, 1500, 6, 3, false, 5));
        for (model, ranks) in [("gcn", 1), ("sage", 1), ("gcn", 3), ("sage", 2)] {
            let pairs = [("strategy", "distdgl"), ("model", model), ("dropout", "0")];
            let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let owner: Vec<u32> = (0..300).map(|v| v * 7 % ranks).collect();
            let all = world(&spec, ranks as usize, |cx, _| {
                let setup = Setup::of(
                    Arc::clone(&data),
                    (ranks > 1).then(|| Arc::new(owner.clone())),
                );
                let part = Part::of(&setup, cx).expect("a valid cut");
                let (first, me) = (&part.numbers.first, cx.rank());
                let train = part.numbers.ids.iter().zip(0u32..);
                let train = train.filter(|&(&v, _)| data.train[v as usize]);
                let train: Vec<u32> = train.map(|(_, number)| number).collect();
                let settings = settings(2);
                let seeds = Seeds::new(&train, first, me, settings.batch, 1);
                let shape = Shape {
                    aggregate_first: AggregateFirst::Always,
                    ..shape_of(&setup, cx)
                };
                let model = Model::new(&spec, cx.backend.as_ref(), shape);
                let pieces = Pieces::of(&part.block, &part.columns, 8);
                let known = Known {
                    part: &part,
                    pieces: &pieces,
                    seeds: &seeds,
                    settings: &settings,
                    wants: Wants {
                        layers: 2,
                        in_place: true,
                        own: spec.model == ModelKind::Sage,
                        trains: true,
                        edge_places: false,
                        features: true,
                        learnt: false,
                    },
                    model: &model,
                    features: 4 * 6 * part.own.len(),
                    hot: 50,
                    wanted: None,
                };
                let foreseen = Foreseen::of(&setup, cx, &known).expect("has a formula");
                let lists = part.block.bytes()
                    + 4 * part.column_ids.len()
                    + if ranks > 1 { 4 * part.columns.len() } else { 0 }
                    + 4 * pieces.kept.len()
                    + (4 + 4 + 4 + 3) * part.own.len()
                    + (4 + 4 + 4 + 3 + 2 * 4) * seeds.mine().len();
                assert_eq!(foreseen.graph, lists, "{model:?}", model = spec.model);
                assert_eq!(foreseen.numbering, 300 * (4 + 3 * 8) + 2 * 300 / 8);
                let parameters: usize = model.weights.iter().flatten().map(|w| w.len()).sum();
                assert_eq!(foreseen.parameters, 4 * 4 * parameters);
                let x = kernels::Mat::zeros((50, 6));
                let kept = RowData::Dense(Arc::new(x));
                let cache = Cache::of(&(0..50).collect::<Vec<_>>(), kept);
                assert_eq!(foreseen.cache, cache.bytes());
                let numbers = part.block.n_edges() * 8 + (part.own.len() + 1) * 8;
                assert_eq!(part.block.bytes(), numbers, "an index and a weight an edge");
                (part.own.len(), part.block.n_edges(), foreseen.features)
            });
            let sum = all
                .iter()
                .fold((0, 0, 0), |s, r| (s.0 + r.0, s.1 + r.1, s.2 + r.2));
            let whole = data.graph.propagation(spec.model.propagation());
            assert_eq!(sum, (300, whole.n_edges(), data.features.bytes()));
        }
    }

    #[test]
    fn what_has_no_formula_is_not_guessed() {
        let sparse = random_dataset(40, 100, 6, 3, true, 5);
        let dense = random_dataset(40, 100, 6, 3, false, 5);
        for (model, data) in [("gat", dense.clone()), ("rgcn", dense), ("gcn", sparse)] {
            let data = Arc::new(data);
            let pairs = [("strategy", "distdgl"), ("model", model)];
            let pairs = pairs.map(|(k, v)| (k, Value::from_word(v)));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let said = world(&spec, 1, |cx, _| {
                let data = Arc::clone(&data);
                let build = crate::strategy::find("distdgl").expect("registered").build;
                let built = build(Setup::of(data, None), cx).expect("builds");
                built.facts.memory
            });
            assert_eq!(said, [None], "{model}");
        }
    }
}
