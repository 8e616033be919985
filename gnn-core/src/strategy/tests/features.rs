//! What may be done with features without another training.

use super::*;
use crate::dataset::Features;

/// Two layers of eight columns, without dropout, whose features are aggregated `when`; by rank, of three where it can.
fn trained(entry: &Entry, model: ModelKind, data: &Arc<Dataset>, when: &str) -> Vec<Trained> {
    let mut pairs = spec(entry, model, 2, 8).to_pairs();
    pairs.push(("dropout".into(), Value::Float(0.0)));
    pairs.push(("first_aggregate".into(), Value::Str(when.into())));
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    let ranks = entry.ranks.1.min(3);
    let owner = random_owner(70, ranks, false, 3);
    train(entry, &spec, data, Some(owner), ranks)
}

/// Aggregating the features once, before the first epoch, changes nothing but the bytes.
#[test]
fn features_aggregated_once_give_the_same_training() {
    let data = Arc::new(random_dataset(70, 300, 4, 3, false, 8));
    for name in ["single", "halo", "sancus"] {
        let entry = crate::strategy::find(name).expect("registered");
        for &model in entry.models {
            let run = |when: &str| trained(entry, model, &data, when);
            let (every, once) = (run("every-epoch"), run("once"));
            for (a, b) in every.iter().zip(&once) {
                assert_eq!(
                    (&a.losses, &a.gradients),
                    (&b.losses, &b.gradients),
                    "{name} {model}"
                );
                assert_eq!(b.sent, b.predicted);
            }
        }
    }
}

/// Wider features than the layer's output, which would else be multiplied first, are aggregated once as well: an epoch has no
/// aggregation of the first layer then, and rounds differently.
#[test]
fn wide_features_aggregated_once_leave_the_first_layer_nothing_to_aggregate() {
    let data = Arc::new(random_dataset(70, 300, 20, 3, false, 8));
    for name in ["single", "halo"] {
        let entry = crate::strategy::find(name).expect("registered");
        for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gin] {
            let run = |when: &str| trained(entry, model, &data, when);
            let (every, once) = (run("every-epoch"), run("once"));
            for (a, b) in every.iter().zip(&once) {
                for (a, b) in a.losses.iter().zip(&b.losses) {
                    assert!(close(*a, *b, 0.0, 1e-5), "{name} {model}: {a} and {b}");
                }
                assert_eq!(b.sent, b.predicted);
                let of_first = |lanes: &Vec<BTreeMap<PredictedLane, u64>>| {
                    let rows = [Direction::Forward, Direction::Backward];
                    let of = |lane: &PredictedLane| lane.0 == 0 && rows.contains(&lane.1);
                    lanes.iter().any(|lanes| lanes.keys().any(of))
                };
                assert_eq!(of_first(&a.sent), name == "halo", "{model}: {:?}", a.sent);
                assert!(!of_first(&b.sent), "{name} {model}: {:?}", b.sent);
            }
        }
    }
}

/// Features stored in 16 bits are rounded once; everything behind them is as with `f32`.
#[test]
fn features_in_16_bits_train_like_features_that_were_rounded_before() {
    let full = random_dataset(70, 300, 7, 3, false, 8);
    let mut rounded = full.clone();
    match &mut rounded.features {
        Features::Dense(x) => kernels::spmm_bf16::round_in_place(&kernels::Par::new(1), x),
        other => panic!("{other:?}: not dense"),
    }
    let (full, rounded) = (Arc::new(full), Arc::new(rounded));
    for entry in STRATEGIES.iter().filter(|e| e.exact == Exact::Always) {
        for model in coupled(entry).filter(|m| *m != ModelKind::Rgcn) {
            let run = |storage: &str, data: &Arc<Dataset>| {
                let mut pairs = spec(entry, model, 2, 8).to_pairs();
                pairs.push(("dropout".into(), Value::Float(0.0)));
                pairs.push(("feature_storage".into(), Value::Str(storage.into())));
                let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
                let ranks = entry.ranks.1.min(3);
                let owner = random_owner(70, ranks, false, 3);
                train(entry, &spec, data, Some(owner), ranks).swap_remove(0)
            };
            let (small, before) = (run("bf16", &full), run("f32", &rounded));
            assert_ne!(
                small.losses,
                run("f32", &full).losses,
                "{} {model}",
                entry.name
            );
            for (a, b) in small.losses.iter().zip(&before.losses) {
                assert!(
                    close(*a, *b, 0.0, 1e-6),
                    "{} {model}: {a} and {b}",
                    entry.name
                );
            }
        }
    }
}
