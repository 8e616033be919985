//! What tensor parallelism owes beyond the proofs over the registry: rounds, bytes in closed form, no
//! whole matrix on any rank, the same numbers for any chunks, pipelined or not, and the ladder. Cannot
//! catch: time, and what the transport does with posted messages.

mod device;
mod heads;

use super::*;
use crate::dataset::Dataset;
use crate::model::ModelKind;
use crate::record::Direction;
use crate::strategy::tests::{Trained, assert_same, train, train_epochs};
use crate::strategy::{STRATEGIES, find};
use crate::testing::{random_dataset, with_relations};
use proptest::prelude::*;
use std::sync::Arc;

/// A request with `model` and settings in words.
fn request(strategy: &str, model: ModelKind, pairs: &[(&str, String)]) -> RunSpec {
    let word = |text: &str| Value::from_word(text);
    let fixed = [
        ("strategy", word(strategy)),
        ("model", word(model.name())),
        ("dropout", word("0.4")),
        ("seed", word("9")),
        ("optimizer", word("sgd")),
    ];
    let more = pairs.iter().map(|(k, v)| (*k, word(v)));
    RunSpec::from_pairs(fixed.into_iter().chain(more)).expect("valid pairs")
}

fn trained(spec: &RunSpec, data: &Arc<Dataset>, ranks: usize) -> Vec<Trained> {
    let entry = find(&spec.strategy).expect("registered");
    entry.check(spec).expect("not refused");
    train(entry, spec, data, None, ranks)
}

fn numbers(ranks: &[Trained]) -> Vec<(&[f64], &[Vec<f32>])> {
    ranks
        .iter()
        .map(|r| (&r.losses[..], &r.gradients[..]))
        .collect()
}

fn total(ranks: &[Trained]) -> u64 {
    ranks.iter().flat_map(|r| r.sent[0].values()).sum()
}

/// Bytes of the weight gradients' all-reduce, all ranks together.
fn of_weights(ranks: &[Trained]) -> u64 {
    let lanes = ranks.iter().flat_map(|r| &r.sent[0]);
    lanes
        .filter(|(l, _)| l.1 == Direction::Grad)
        .map(|(_, b)| b)
        .sum()
}

/// `4 · (V · D − Σ_r V_r · D_r)`. Rows that do not divide go to the first ranks, columns to those from
/// `first` on.
fn one_way(n: usize, d: usize, ranks: usize, first: usize) -> u64 {
    let rows = |r: usize| n / ranks + usize::from(r < n % ranks);
    let size = |r: usize| d / ranks + usize::from((r + ranks - first) % ranks < d % ranks);
    let stays: usize = (0..ranks).map(|r| rows(r) * size(r)).sum();
    4 * (n * d - stays) as u64
}

/// Forward and backward of the first epoch.
fn both_ways(n: usize, d: usize, ranks: usize) -> u64 {
    one_way(n, d, ranks, 0) + one_way(n, d, ranks, ranks / 2)
}

#[test]
fn rounds_are_those_of_the_paper() {
    let data = Arc::new(random_dataset(40, 160, 6, 3, false, 8));
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gin] {
        for layers in 2..=6u64 {
            for decoupled in [false, true] {
                let pairs = [
                    ("layers", layers.to_string()),
                    ("decoupled", decoupled.to_string()),
                ];
                let spec = request("neutrontp", model, &pairs);
                let expected = if decoupled { 4 } else { 4 * layers - 2 };
                for ranks in 2..=4 {
                    for rank in trained(&spec, &data, ranks) {
                        assert_eq!(
                            rank.work.rounds, expected,
                            "{model}, {layers} layers, decoupled {decoupled}"
                        );
                    }
                }
            }
        }
    }
}

/// Features wider than the hidden layer, widths and vertices that no number of ranks divides.
#[test]
fn bytes_are_the_closed_form_also_where_nothing_divides() {
    let (n, d, hidden, classes) = (53, 11, 7, 5);
    let data = Arc::new(random_dataset(n, 200, d, classes, false, 8));
    for ranks in 1..=4 {
        for layers in 1..=4 {
            let pairs = [
                ("layers", layers.to_string()),
                ("hidden", hidden.to_string()),
            ];
            let naive = trained(&request("neutrontp", ModelKind::Gcn, &pairs), &data, ranks);
            // The first layer's features, a split and a gather, forward only; then the narrower side
            // both ways.
            let mut expected = 2 * one_way(n, d, ranks, 0);
            for l in 1..layers {
                let width = if l + 1 == layers {
                    hidden.min(classes)
                } else {
                    hidden
                };
                expected += 2 * both_ways(n, width, ranks);
            }
            assert_eq!(
                total(&naive) - of_weights(&naive),
                expected,
                "{layers} layers on {ranks}"
            );
            let mut pairs = pairs.to_vec();
            pairs.push(("decoupled", "true".into()));
            let dt = trained(&request("neutrontp", ModelKind::Gcn, &pairs), &data, ranks);
            let expected = 2 * both_ways(n, classes, ranks);
            assert_eq!(
                total(&dt) - of_weights(&dt),
                expected,
                "decoupled, {layers} layers on {ranks}"
            );
        }
    }
}

/// A matrix of all vertices with all columns is larger than what any rank holds.
#[test]
fn no_rank_holds_a_whole_matrix() {
    let (n, wide) = (400, 24);
    let data = Arc::new(random_dataset(n, 1600, wide, wide, false, 8));
    let models = [
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gin,
        ModelKind::Gcnii,
        ModelKind::Resgcn,
    ];
    for ranks in 2..=4usize {
        for model in models {
            for decoupled in [false, true] {
                if decoupled && !model.decouples() {
                    continue;
                }
                let pairs = [
                    ("hidden", wide.to_string()),
                    ("decoupled", decoupled.to_string()),
                ];
                let rows = 4 * n.div_ceil(ranks) * wide;
                let slices = 4 * n * wide.div_ceil(ranks);
                for rank in trained(&request("neutrontp", model, &pairs), &data, ranks) {
                    let most = rows.max(slices) as u64;
                    assert!(
                        rank.largest <= most,
                        "{model} on {ranks}: {} of {most}",
                        rank.largest
                    );
                    assert!(rank.largest < (4 * n * wide) as u64, "{model} on {ranks}");
                }
            }
        }
    }
}

/// Every rank has the same work and sends the same bytes, whatever the degrees are.
#[test]
fn ranks_have_equal_loads() {
    let data = crate::dataset::load("rmat:scale=9,edge-factor=8,feat=24,classes=12", 3)
        .expect("a built-in");
    let data = Arc::new(data);
    for decoupled in ["false", "true"] {
        let pairs = [("hidden", "24".into()), ("decoupled", decoupled.into())];
        let ranks = trained(&request("neutrontp", ModelKind::Gcn, &pairs), &data, 4);
        let even = |of: &dyn Fn(&Trained) -> u64| {
            let (most, sum) = ranks
                .iter()
                .map(of)
                .fold((0, 0), |(m, s), x| (m.max(x), s + x));
            most as f64 * 4.0 / sum as f64
        };
        assert!(even(&|r| r.work.edge_elements) <= 1.02);
        assert!(even(&|r| r.sent[0].values().sum()) <= 1.02);
    }
}

/// Columns that no number of ranks divides go round: two epochs of 41 classes have four turns, and then
/// everybody has sent as much and added up as much.
#[test]
fn loads_are_equal_also_where_columns_do_not_divide() {
    let data = random_dataset(160, 1600, 6, 41, false, 3);
    let data = Arc::new(data);
    let pairs = [("decoupled", "true".into())];
    let spec = request("neutrontp", ModelKind::Gcn, &pairs);
    let entry = find("neutrontp").expect("registered");
    let run = |epochs| train_epochs(entry, &spec, &data, None, 4, epochs);
    let (first, second) = (run(1), run(2));
    // All-reducing what weights have is not the strategy's.
    let of_rows = |r: &Trained| -> u64 {
        let lanes = r.sent.iter().flatten();
        let rows = lanes.filter(|(lane, _)| lane.1 != Direction::Grad);
        rows.map(|(_, bytes)| bytes).sum()
    };
    let sent: Vec<u64> = second.iter().map(of_rows).collect();
    assert_eq!(sent, vec![sent[0]; 4]);
    let both = first.iter().zip(&second);
    let added = both.map(|(a, b)| a.work.edge_elements + b.work.edge_elements);
    let added: Vec<u64> = added.collect();
    assert_eq!(added, vec![added[0]; 4]);
    assert_ne!(first[0].work.edge_elements, first[1].work.edge_elements);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// For any chunks the training of one rank, in the bytes of one chunk; and pipelined, the very
    /// bits of the same chunks one after the other.
    #[test]
    fn chunks_and_pipelining_change_nothing(
        n in 1usize..60, degree in 0usize..6, d in 1usize..9, hidden in 5usize..9, layers in 1usize..4,
        chunks in 1usize..7, ranks in 1usize..5, seed: u64,
    ) {
        let data = random_dataset(n, n * degree, d, 4, false, seed);
        let data = with_relations(data, 2, seed);
        let data = Arc::new(data);
        for &model in ModelKind::ALL {
            for decoupled in [false, true] {
                let naive = !decoupled && matches!(model, ModelKind::Gat | ModelKind::Rgcn);
                if naive || decoupled && !model.decouples() {
                    continue;
                }
                let base = vec![
                    ("layers", layers.to_string()), ("hidden", hidden.to_string()),
                    ("decoupled", decoupled.to_string()),
                ];
                let with = |more: &[(&'static str, String)]| {
                    let pairs: Vec<_> = base.iter().chain(more).cloned().collect();
                    trained(&request("neutrontp", model, &pairs), &data, ranks)
                };
                let single = train(&STRATEGIES[0], &request("single", model, &base), &data, None, 1);
                let one = with(&[]);
                let cut = with(&[("chunks", chunks.to_string())]);
                let piped = with(&[("chunks", chunks.to_string()), ("pipeline", "true".into())]);
                let arena = with(&[("chunks", chunks.to_string()), ("device_mem", "10000000".into())]);
                let what = format!("{model}, decoupled {decoupled}, {chunks} chunks on {ranks} ranks");
                for run in [&one, &cut, &piped, &arena] {
                    assert_same(&what, model, &single[0], run);
                    run.iter().for_each(|rank| rank.assert_predicted(&what));
                    prop_assert_eq!(total(run), total(&one), "{}", what);
                }
                prop_assert_eq!(numbers(&cut), numbers(&piped), "{}", what);
                // A chunk on the device is not aggregated by segments of wide rows.
                prop_assert_eq!(numbers(&cut), numbers(&arena), "{}", what);
                prop_assert!(arena.iter().all(|r| r.on_device.is_some_and(|b| b <= 10_000_000)));
                prop_assert!(cut.iter().all(|r| r.on_device.is_none()));
            }
        }
    }

    /// Ranks without vertices and ranks without columns take part.
    #[test]
    fn more_ranks_than_vertices_or_columns(n in 1usize..4, edges in 0usize..6, d in 1usize..4, seed: u64) {
        let data = Arc::new(random_dataset(n, edges, d, 2, false, seed));
        for (model, decoupled) in [(ModelKind::Sage, "false"), (ModelKind::Gin, "true"), (ModelKind::Gat, "true")] {
            let pairs = [("hidden", "3".into()), ("decoupled", decoupled.into()), ("chunks", "2".into()), ("pipeline", "true".into())];
            let single = train(&STRATEGIES[0], &request("single", model, &[pairs[0].clone(), pairs[1].clone()]), &data, None, 1);
            for ranks in 4..=6 {
                let got = trained(&request("neutrontp", model, &pairs), &data, ranks);
                assert_same(&format!("{model} on {ranks} ranks"), model, &single[0], &got);
            }
        }
    }
}

#[test]
fn every_rung_of_the_ladder_trains_the_same_model() {
    // Undirected: the matrix is its own transposed.
    let data = crate::dataset::load("sbm:nodes=50,classes=4,feat=9,degree=6", 8);
    let data = Arc::new(data.expect("a built-in"));
    let mut loads = Vec::new();
    for (name, rung) in RUNGS {
        let pairs = [
            ("ladder", (*name).to_owned()),
            ("chunks", "3".into()),
            ("layers", "3".into()),
        ];
        let spec = request("neutrontp", ModelKind::Gcn, &pairs);
        assert_eq!(spec.decoupled, *rung >= Rung::Dt, "{name}");
        assert_eq!(
            RunSpec::from_pairs(spec.to_pairs()).expect("own pairs"),
            spec
        );
        let alone = [
            ("decoupled", spec.decoupled.to_string()),
            ("layers", "3".into()),
        ];
        let single = train(
            &STRATEGIES[0],
            &request("single", ModelKind::Gcn, &alone),
            &data,
            None,
            1,
        );
        for ranks in 1..=4 {
            let got = trained(&spec, &data, ranks);
            assert_same(name, ModelKind::Gcn, &single[0], &got);
            got.iter().for_each(|rank| rank.assert_predicted(name));
            if ranks == 4 {
                loads.push((total(&got), got[0].work.rounds));
            }
        }
    }
    // Chunks and pipelining move no byte more; decoupling moves fewer.
    assert_eq!(loads[0].0, loads[1].0);
    assert!(loads[3].0 < loads[2].0);
    assert_eq!(loads[3].0, loads[4].0);
    assert_eq!((loads[2].1, loads[3].1), (10, 4));
}

#[test]
fn what_cannot_run_is_refused_with_words() {
    let entry = find("neutrontp").expect("registered");
    for model in [ModelKind::Gat, ModelKind::Rgcn] {
        let e = entry
            .check(&request("neutrontp", model, &[]))
            .expect_err("naive");
        assert!(e.help().contains("decoupled = true"), "{e}");
    }
    let base = |more: (&str, Value)| {
        let pairs = [
            ("strategy", Value::Str("neutrontp".into())),
            ("ladder", Value::Str("base".into())),
        ];
        RunSpec::from_pairs(pairs.into_iter().chain([more]))
            .expect_err("above the rung")
            .to_string()
    };
    assert!(base(("decoupled", Value::Bool(true))).contains("base is below decoupled"));
    assert!(base(("pipeline", Value::Bool(true))).contains("base is below pipeline"));
}
