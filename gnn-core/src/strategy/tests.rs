//! The proofs that every strategy owes, driven by the registry: adding an entry adds its tests.
//!
//! Exact strategies give the loss, the logits and every weight gradient of `single`, every epoch,
//! for every model they run, on random directed graphs with repeated edges, self loops, isolated
//! vertices, ragged and empty parts; bytes sent equal bytes predicted; the same run twice gives
//! the same bits. What this cannot catch: an error that `single` has too (`model/tests.rs` does).

mod bytes;
mod decoupled;
mod features;
pub(crate) mod feeds;
mod frames;
mod lanes;
mod learnt;
mod order;
mod parts;
mod same;
mod sampled;
mod seams;
pub(crate) mod stages;
mod written;

pub(super) use same::assert_same;
use same::{close, largest};

use super::full_graph::model_of;
use super::{Entry, Exact, STRATEGIES, Setup};
use crate::backend::{Backend, Cpu, Metered};
use crate::dataset::Dataset;
use crate::device;
use crate::model::ModelKind;
use crate::partition::Parts;
use crate::record::frame::{FrameRow, Noted, Value as Json};
use crate::record::{Copies, Direction, Meter, Pass, PredictedLane, Work};
use crate::rng;
use crate::spec::{RunSpec, Value, VertexOrder};
use crate::testing::{
    Of, bytes_predicted, bytes_sent, random_dataset, rows_of, with_relations, world_on,
};
use kernels::Mat;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const EPOCHS: u64 = 3;

/// One rank's view of a short training.
pub(super) struct Trained {
    pub(super) ids: Vec<u32>,
    pub(super) losses: Vec<f64>,
    /// By tensor; of tensors that other ranks have, nothing.
    pub(super) gradients: Vec<Vec<f32>>,
    /// Names of the model's tensors, in the order of gradients.
    pub(super) tensors: Vec<&'static str>,
    pub(super) logits: Mat,
    pub(super) sent: Vec<BTreeMap<PredictedLane, u64>>,
    /// What was predicted of each epoch.
    pub(super) predicted: Vec<BTreeMap<PredictedLane, u64>>,
    /// Rows of the strategy's own frames, as they are written.
    pub(super) noted: Vec<Json>,
    /// Bytes of rows that are kept over epochs.
    pub(super) cached: u64,
    /// Of the last epoch.
    pub(super) work: Work,
    /// Bytes of the largest matrix.
    pub(super) largest: u64,
    /// Most bytes on a device with a budget.
    pub(super) on_device: Option<u64>,
    /// What was copied to and from such a device in the last epoch.
    pub(super) copies: Copies,
}

impl Trained {
    /// The rows of one of the strategy's own frames.
    pub(super) fn rows<R: FrameRow + DeserializeOwned>(&self) -> Vec<Of<R>> {
        rows_of(&self.noted)
    }

    /// Asserts that each epoch sent what was predicted.
    pub(super) fn assert_predicted(&self, what: &str) {
        assert_eq!(self.sent, self.predicted, "{what}");
    }
}

pub(super) fn spec(entry: &Entry, model: ModelKind, layers: usize, hidden: usize) -> RunSpec {
    // LayerNorm of two numbers is little more than a sign: its gradient is what rounding leaves.
    let hidden = if model == ModelKind::Resgcn {
        hidden.max(5)
    } else {
        hidden
    };
    let mut pairs = vec![
        ("model".to_owned(), Value::Str(model.name().into())),
        ("strategy".to_owned(), Value::Str(entry.name.into())),
        ("layers".to_owned(), Value::Int(layers as i64)),
        ("hidden".to_owned(), Value::Int(hidden as i64)),
        ("dropout".to_owned(), Value::Float(0.4)),
        ("seed".to_owned(), Value::Int(9)),
    ];
    if model == ModelKind::Rgcn && hidden.is_multiple_of(3) {
        pairs.push(("bases".to_owned(), Value::Int(2)));
    }
    if !matches!(model, ModelKind::Gcn | ModelKind::Sage) {
        // The gradient of a score cancels where attention has one edge or all scores one slope.
        // A unit that is off for every vertex has none. Adam would make a whole step of the
        // rounding that is left.
        pairs.push(("optimizer".to_owned(), Value::Str("sgd".into())));
    }
    if model == ModelKind::Gin {
        // Sums over neighbours of neighbours are large, and steps of the default length lead further
        // and further away: each then multiplies the rounding of the weights it starts from tenfold.
        pairs.push(("lr".to_owned(), Value::Float(1e-5)));
    }
    if let Exact::With(knobs) = entry.exact {
        pairs.extend(
            knobs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), Value::from_word(v))),
        );
    }
    RunSpec::from_pairs_in(std::slice::from_ref(entry), pairs).expect("valid pairs")
}

pub(super) fn train(
    entry: &Entry,
    spec: &RunSpec,
    data: &Arc<Dataset>,
    owner: Option<Vec<u32>>,
    ranks: usize,
) -> Vec<Trained> {
    train_epochs(entry, spec, data, owner, ranks, EPOCHS)
}

pub(super) fn train_epochs(
    entry: &Entry,
    spec: &RunSpec,
    data: &Arc<Dataset>,
    owner: Option<Vec<u32>>,
    ranks: usize,
    epochs: u64,
) -> Vec<Trained> {
    let cpu = |meter| Box::new(Metered::new(Cpu::new(1), meter)) as Box<dyn Backend>;
    train_on(entry, spec, data, owner, (ranks, epochs), cpu)
}

/// [`train_epochs`], each rank on a device of its own that `open` makes.
pub(super) fn train_on(
    entry: &Entry,
    spec: &RunSpec,
    data: &Arc<Dataset>,
    owner: Option<Vec<u32>>,
    (ranks, epochs): (usize, u64),
    open: impl Fn(Rc<Meter>) -> Box<dyn Backend> + Sync,
) -> Vec<Trained> {
    let spec = &RunSpec {
        ranks,
        ..spec.clone()
    };
    let parts = (entry.parts)(spec);
    let (owner, nested) = (
        owner.map(Arc::new),
        random_nested(data.n(), parts).map(Arc::new),
    );
    world_on(spec, ranks, open, |cx, meter| {
        let setup = Setup {
            nested: nested.clone(),
            ..Setup::of(Arc::clone(data), owner.clone())
        };
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        let model = model_of(&setup, cx);
        let tensors = (0..model.layers()).flat_map(|l| model.layer(l).tensors());
        let tensors = tensors.map(|t| t.name).collect();
        let (mut losses, mut gradients) = (Vec::new(), Vec::new());
        let (mut sent, mut predicted) = (Vec::new(), Vec::new());
        let (mut work, mut copies) = (Work::default(), Copies::default());
        for epoch in 0..epochs {
            cx.epoch = epoch;
            bytes_sent(meter);
            meter.take_times();
            losses.push(built.strategy.epoch(cx).expect("trains"));
            sent.push(bytes_sent(meter));
            predicted.push(bytes_predicted(&built, meter));
            work = meter.take_times().1;
            copies = meter.take_copies();
            device::note(cx, copies);
            gradients = built
                .strategy
                .gradients()
                .iter()
                .map(|g| cx.backend.download(g).iter().copied().collect())
                .collect();
        }
        cx.pass(Pass::Eval);
        Trained {
            ids: built.rows.ids.to_vec(),
            losses,
            gradients,
            tensors,
            logits: built.strategy.logits(cx).expect("evaluates"),
            sent,
            predicted,
            noted: meter
                .take_noted()
                .into_iter()
                .map(Noted::into_json)
                .collect(),
            cached: meter.cached().iter().sum(),
            work,
            largest: meter.largest(),
            on_device: meter.most_on_device(),
            copies,
        }
    })
}

/// Owners drawn at random; with `empty`, the last rank owns nothing.
pub(super) fn random_owner(n: usize, ranks: usize, empty: bool, seed: u64) -> Vec<u32> {
    let parts = if empty && ranks > 1 { ranks - 1 } else { ranks };
    (0..n)
        .map(|v| rng::below(seed ^ 77, v as u64, parts as u64) as u32)
        .collect()
}

/// Parts of parts drawn at random, where parts are cut again.
fn random_nested(n: usize, parts: Parts) -> Option<Vec<u32>> {
    let count = parts.nested.count() as u64;
    let part = |v: usize| rng::below(0x4e57, v as u64, count) as u32;
    (count > 1).then(|| (0..n).map(part).collect())
}

/// Small graphs are sorted only where that is asked for.
fn order(sorted: bool) -> VertexOrder {
    if sorted {
        VertexOrder::Degree
    } else {
        VertexOrder::Auto
    }
}

/// The models that a strategy runs as they are, not decoupled.
fn coupled(entry: &Entry) -> impl Iterator<Item = ModelKind> + use<'_> {
    let runs = |model: &ModelKind| entry.check(&spec(entry, *model, 2, 4)).is_ok();
    entry.models.iter().copied().filter(runs)
}

fn rank_counts(entry: &Entry) -> impl Iterator<Item = usize> + use<> {
    let (least, most) = entry.ranks;
    (1..=4).filter(move |r| (least..=most).contains(r))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn exact_strategies_equal_single(
        n in 1usize..60, degree in 0usize..6, d in 1usize..12, hidden in 1usize..12,
        layers in 1usize..4, sparse: bool, empty: bool, sorted: bool, seed: u64,
    ) {
        let plain = Arc::new(random_dataset(n, n * degree, d, 4, sparse, seed));
        let typed = random_dataset(n, n * degree, d, 4, sparse, seed);
        let typed = Arc::new(with_relations(typed, 3, seed));
        for entry in STRATEGIES {
            for model in coupled(entry) {
                let data = if model == ModelKind::Rgcn { &typed } else { &plain };
                let reference = &STRATEGIES[0];
                let mut alone = spec(reference, model, layers, hidden);
                alone.vertex_order = order(sorted);
                let expected = train(reference, &alone, data, None, 1);
                for ranks in rank_counts(entry) {
                    let owner = random_owner(n, ranks, empty, seed);
                    let mut spec = spec(entry, model, layers, hidden);
                    spec.vertex_order = order(sorted);
                    let got = train(entry, &spec, data, Some(owner), ranks);
                    let what = format!("{} {model} on {ranks} ranks, sorted {sorted}", entry.name);
                    assert_same(&what, model, &expected[0], &got);
                }
            }
        }
    }

    #[test]
    fn bytes_sent_are_bytes_predicted(n in 1usize..60, degree in 0usize..6, hidden in 1usize..9, sparse: bool, seed: u64) {
        let data = Arc::new(random_dataset(n, n * degree, 5, 3, sparse, seed));
        for entry in STRATEGIES {
            for model in coupled(entry) {
                for ranks in rank_counts(entry) {
                    let owner = random_owner(n, ranks, false, seed);
                    let what = format!("{} {model} on {ranks}", entry.name);
                    let trained = train(entry, &spec(entry, model, 2, hidden), &data, Some(owner), ranks);
                    trained.iter().for_each(|rank| rank.assert_predicted(&what));
                }
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bits() {
    let data = Arc::new(random_dataset(70, 300, 6, 3, false, 8));
    for entry in STRATEGIES {
        for ranks in rank_counts(entry) {
            let owner = random_owner(70, ranks, false, 3);
            let run = || {
                let trained = train(
                    entry,
                    &spec(entry, ModelKind::Gcn, 2, 8),
                    &data,
                    Some(owner.clone()),
                    ranks,
                );
                trained
                    .into_iter()
                    .map(|r| (r.losses, r.gradients))
                    .collect::<Vec<_>>()
            };
            assert_eq!(run(), run(), "{} on {ranks} ranks", entry.name);
        }
    }
}

#[test]
fn a_world_of_one_sends_no_bytes() {
    let data = Arc::new(random_dataset(40, 160, 6, 3, false, 8));
    for entry in STRATEGIES.iter().filter(|e| e.ranks.0 == 1) {
        let trained = train(
            entry,
            &spec(entry, ModelKind::Gcn, 2, 8),
            &data,
            Some(vec![0; 40]),
            1,
        );
        assert!(
            trained[0].sent.iter().all(BTreeMap::is_empty),
            "{}",
            entry.name
        );
    }
}

#[test]
fn entries_are_complete() {
    let mut names: Vec<_> = STRATEGIES.iter().map(|e| e.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), STRATEGIES.len(), "names are unique");
    for entry in STRATEGIES {
        assert!(
            entry.paper == "baseline" || entry.paper.contains("http"),
            "{}",
            entry.name
        );
        assert!(
            !entry.models.is_empty() && entry.ranks.0 <= entry.ranks.1,
            "{}",
            entry.name
        );
        for knob in entry.knobs {
            assert!(
                (knob.check)(&Value::from_word(knob.default)),
                "{} {}",
                entry.name,
                knob.name
            );
        }
        entry.parse_knobs(Vec::new()).expect("defaults are allowed");
    }
}

/// Waiting for rows before or after local work changes no bit.
#[test]
fn overlap_changes_no_bit() {
    let data = with_relations(random_dataset(70, 300, 6, 3, false, 8), 3, 8);
    let data = Arc::new(data);
    let entry = super::find("halo").expect("registered");
    let rgcn = ModelKind::Rgcn;
    // Into the second of R-GCN's layers inputs travel, then products of relations, then of bases.
    for (model, hidden) in [(ModelKind::Sage, 8), (rgcn, 8), (rgcn, 10), (rgcn, 12)] {
        let run = |overlap: bool| {
            let mut pairs = spec(entry, model, 2, hidden).to_pairs();
            pairs.push(("overlap".into(), Value::Bool(overlap)));
            let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
            let trained = train(entry, &spec, &data, Some(random_owner(70, 3, false, 3)), 3);
            trained
                .into_iter()
                .map(|r| (r.losses, r.gradients))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(true), run(false), "{model}");
    }
}

#[test]
fn a_knob_of_another_strategy_says_whose_it_is() {
    let halo = super::find("halo").expect("built in");
    let given = |key: &str| vec![(key.to_owned(), Value::Int(4))];
    let refused = halo
        .parse_knobs(given("chunks"))
        .expect_err("none of halo's")
        .to_string();
    let owners = STRATEGIES
        .iter()
        .filter(|e| e.knobs.iter().any(|k| k.name == "chunks"));
    for owner in owners {
        assert!(refused.contains(owner.name), "{refused}");
    }
    assert!(
        refused.starts_with("chunks: is a knob of ") && refused.ends_with("this is halo"),
        "{refused}"
    );
    let unknown = halo
        .parse_knobs(given("chnks"))
        .expect_err("nobody's")
        .to_string();
    assert!(unknown.starts_with("unknown key 'chnks'"), "{unknown}");
}
