//! Heads on little graphs: gradients of links against central differences (the loss is evaluated in
//! `f32`, so the step is large and the tolerance wide), and that every task can be learned.

use super::*;
use crate::dataset::load_for;
use crate::evaluation::{Evaluation, evaluate};
use crate::spec::Value;
use crate::strategy::{Setup, find, single};
use crate::testing::{bytes_predicted, bytes_sent, world};
use std::collections::BTreeMap;
use std::sync::Arc;

fn spec(pairs: &[(&str, &str)]) -> RunSpec {
    let pairs = pairs.iter().map(|&(k, v)| (k, Value::from_word(v)));
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

fn setup(spec: &RunSpec) -> Setup {
    Setup::of(
        Arc::new(load_for(spec.data_spec(), &crate::store::Verdicts::none()).expect("generated")),
        None,
    )
}

/// Evaluations before the first and after the last epoch, and the losses.
fn train(spec: &RunSpec, epochs: u64) -> (Evaluation, Evaluation, Vec<f64>) {
    let setup = setup(spec);
    let run = world(spec, 1, |cx, _| {
        let entry = find(&spec.strategy).expect("registered");
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        let first = evaluate(cx, built.strategy.as_mut(), &built.rows).expect("evaluates");
        let mut losses = Vec::new();
        for epoch in 0..epochs {
            cx.epoch = epoch;
            let sum = built.strategy.epoch(cx).expect("trains");
            losses.push(sum / built.rows.train_total as f64);
        }
        let last = evaluate(cx, built.strategy.as_mut(), &built.rows).expect("evaluates");
        (first, last, losses)
    });
    run.into_iter().next().expect("one rank")
}

#[test]
fn gradients_of_links_match_central_differences() {
    for scorer in ["dot", "mlp"] {
        let spec = spec(&[
            ("data", "sbm:nodes=40,degree=6,feat=5"),
            ("task", "link"),
            ("scorer", scorer),
            ("embedding", "3"),
            ("hidden", "4"),
            ("negatives", "2"),
            ("dropout", "0"),
        ]);
        let setup = setup(&spec);
        world(&spec, 1, |cx, _| {
            let (mut reference, _) = single::reference(setup.clone(), cx).expect("builds");
            let gradients = reference.evaluate(cx).expect("runs").gradients;
            let layers = if scorer == "mlp" { 3 } else { 2 };
            assert_eq!(gradients.len(), layers);
            for (l, tensors) in gradients.iter().enumerate() {
                for (t, g) in tensors.iter().enumerate() {
                    for (i, &exact) in g.iter().enumerate() {
                        let step = 1e-3f32;
                        let mut at = |delta: f32, cx: &mut Ctx| {
                            let w = &mut reference.model_mut().weights[l][t];
                            w.as_slice_mut()[i] += delta;
                            let loss = reference.evaluate(cx).expect("runs").loss;
                            reference.model_mut().weights[l][t].as_slice_mut()[i] -= delta;
                            loss
                        };
                        let numeric = (at(step, cx) - at(-step, cx)) / (2.0 * f64::from(step));
                        let error = (numeric - f64::from(exact)).abs();
                        assert!(
                            error < 1e-3 + 0.02 * f64::from(exact.abs()),
                            "{scorer}: layer {l} tensor {t} element {i}: backward {exact}, differences {numeric}"
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn links_can_be_learned_and_the_same_run_gives_the_same_bits() {
    for scorer in ["dot", "mlp"] {
        for strategy in ["single", "halo"] {
            let spec = spec(&[
                (
                    "data",
                    "sbm:nodes=300,degree=12,feat=16,signal=3,homophily=0.95",
                ),
                ("task", "link"),
                ("scorer", scorer),
                ("strategy", strategy),
                ("dropout", "0"),
            ]);
            let (first, last, losses) = train(&spec, 60);
            let auc = |e: &Evaluation| e.rankings[1].expect("test links").auc;
            assert!(
                auc(&last) > 0.75 && auc(&last) > auc(&first),
                "{scorer} on {strategy}: test AUC from {} to {}",
                auc(&first),
                auc(&last)
            );
            assert!(losses[59] < 0.65 && losses[59] < losses[0], "{losses:?}");
            assert_eq!(train(&spec, 60), (first, last, losses));
        }
    }
}

#[test]
fn several_classes_a_vertex_can_be_learned_on_any_number_of_ranks() {
    let base = [
        (
            "data",
            "sbm:nodes=400,degree=16,feat=32,signal=4,homophily=0.9,multilabel=true",
        ),
        ("lr", "0.05"),
        ("dropout", "0"),
    ];
    let f1 = |e: &Evaluation| e.counts[4] / e.counts[5];
    let (first, last, alone) = train(&spec(&base), 80);
    assert!(
        f1(&last) > 0.8 && f1(&last) > f1(&first),
        "test F1 from {} to {}",
        f1(&first),
        f1(&last)
    );
    let mut halo = base.to_vec();
    halo.extend([("strategy", "halo"), ("ranks", "3")]);
    let (halo, mut setup) = (spec(&halo), setup(&spec(&base)));
    setup.owner = Some(Arc::new((0..400).map(|v| v % 3).collect()));
    let losses = world(&halo, 3, |cx, _| {
        let entry = find("halo").expect("registered");
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        (0..5)
            .map(|epoch| {
                cx.epoch = epoch;
                built.strategy.epoch(cx).expect("trains") / built.rows.train_total as f64
            })
            .collect::<Vec<f64>>()
    });
    for epoch in 0..5 {
        let sum: f64 = losses.iter().map(|l| l[epoch]).sum();
        assert!(
            (sum - alone[epoch]).abs() < 1e-5 * sum,
            "{sum} {}",
            alone[epoch]
        );
    }
}

/// One rank's view of a training on links: losses, the last weight gradients, the last rankings, and
/// bytes of every epoch beside the predicted ones.
type LinkRun = (
    Vec<f64>,
    Vec<kernels::Mat>,
    [Option<Ranking>; 2],
    Vec<[BTreeMap<PredictedLane, u64>; 2]>,
);

fn train_links(spec: &RunSpec, owner: Option<Vec<u32>>) -> Vec<LinkRun> {
    let mut setup = setup(spec);
    setup.owner = owner.map(Arc::new);
    world(spec, spec.ranks, |cx, meter| {
        let entry = find(&spec.strategy).expect("registered");
        let mut built = (entry.build)(setup.clone(), cx).expect("builds");
        let (mut losses, mut bytes) = (Vec::new(), Vec::new());
        for epoch in 0..4 {
            cx.epoch = epoch;
            bytes_sent(meter);
            losses.push(built.strategy.epoch(cx).expect("trains"));
            bytes.push([bytes_sent(meter), bytes_predicted(&built, meter)]);
        }
        let gradients = built.strategy.gradients();
        let gradients = gradients
            .into_iter()
            .map(|g| cx.backend.download(g))
            .collect();
        let last = evaluate(cx, built.strategy.as_mut(), &built.rows).expect("evaluates");
        (losses, gradients, last.rankings, bytes)
    })
}

#[test]
fn links_on_any_number_of_ranks_are_those_of_one() {
    for (task, scorer, decoupled) in [
        ("link", "dot", "false"),
        ("link", "mlp", "false"),
        ("link", "mlp", "true"),
        ("unsupervised", "dot", "false"),
    ] {
        let base = [
            ("decoupled", decoupled),
            ("data", "sbm:nodes=60,degree=5,feat=7"),
            ("task", task),
            ("walks", "2"),
            ("walk_length", "3"),
            ("window", "2"),
            ("negative_power", "0.75"),
            ("scorer", scorer),
            ("negatives", "2"),
            ("embedding", "5"),
            ("dropout", "0.3"),
        ];
        let (losses, gradients, rankings, _) = train_links(&spec(&base), None).remove(0);
        let mut strategies = vec!["halo", "neutrontp"];
        if decoupled == "false" {
            strategies.extend(["distdgl", "bytegnn"]);
        }
        let several = (2..=4usize).flat_map(|r| strategies.iter().map(move |&s| (r, s)));
        for (ranks, strategy) in several.chain([(1, "single")]) {
            let words = ranks.to_string();
            let mut several = base.to_vec();
            several.extend([("strategy", strategy), ("ranks", &words)]);
            several.push(("vertex_order", "degree"));
            if ["distdgl", "bytegnn"].contains(&strategy) {
                several.extend([("fanout", "all"), ("batch", "0"), ("exclude", "false")]);
            }
            // The last of four ranks owns nothing.
            let owners = ranks.min(3) as u32;
            let owner = (0..60u32).map(|v| v * 7 % 11 % owners).collect();
            let all = train_links(&spec(&several), Some(owner));
            for (epoch, want) in losses.iter().enumerate() {
                let sum: f64 = all.iter().map(|rank| rank.0[epoch]).sum();
                let what = format!("{task}, {scorer}, {strategy} on {ranks} ranks");
                assert!((sum - want).abs() <= 1e-5 * want, "{what}: {want} {sum}");
            }
            for (_, got, ranked, bytes) in &all {
                for (g, want) in got.iter().zip(&gradients) {
                    let scale = want.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
                    let mut pairs = g.iter().zip(want);
                    assert!(
                        pairs.all(|(a, b)| (a - b).abs() <= 1e-4 * scale),
                        "{g} {want}"
                    );
                }
                for (got, want) in ranked.iter().zip(&rankings) {
                    let (got, want) = (got.expect("pairs"), want.expect("pairs"));
                    assert!((got.auc - want.auc).abs() < 1e-3, "{got:?} {want:?}");
                    assert!((got.mrr - want.mrr).abs() < 1e-2, "{got:?} {want:?}");
                }
                assert_eq!(ranked, &all[0].2, "every rank has the same rankings");
                for [sent, predicted] in bytes {
                    assert_eq!(sent, predicted, "{scorer}, {strategy} on {ranks} ranks");
                }
            }
        }
    }
}

/// Batches of edges with their ends' neighbourhoods drawn: the same however far ahead they are made, and
/// links are learnt.
#[test]
fn links_are_learnt_from_mini_batches() {
    for (task, negative, scorer) in [
        ("link", "uniform", "dot"),
        ("link", "in-batch", "mlp"),
        ("unsupervised", "uniform", "dot"),
    ] {
        let run_as = |strategy: &[(&str, &str)], ranks: &str| {
            let pairs = [
                (
                    "data",
                    "sbm:nodes=200,classes=4,degree=8,feat=8,homophily=0.9",
                ),
                ("ranks", ranks),
                ("task", task),
                ("scorer", scorer),
                ("embedding", "8"),
                ("dropout", "0"),
                ("lr", "0.02"),
                ("fanout", "5"),
                ("batch", "60"),
                ("negative", negative),
            ];
            let n = ranks.parse::<u32>().expect("a number");
            let owner = (0..200u32).map(|v| v * 7 % 11 % n).collect();
            train_links(&spec(&[&pairs[..], strategy].concat()), Some(owner))
        };
        for (ranks, exclude) in [("1", "true"), ("3", "true"), ("3", "false")] {
            let distdgl = |prefetch| {
                let knobs = [("strategy", "distdgl"), ("exclude", exclude)];
                run_as(&[&knobs[..], &[("prefetch", prefetch)]].concat(), ranks)
            };
            let (now, ahead) = (distdgl("0"), distdgl("3"));
            // Instances of seven seeds, whose pairs are drawn one by one.
            let knobs = [("strategy", "bytegnn"), ("exclude", exclude)];
            let more = [("grain", "7"), ("sample_threads", "2")];
            let split = run_as(&[knobs, more].concat(), ranks);
            for other in [ahead, split] {
                for (a, b) in now.iter().zip(&other) {
                    assert_eq!((&a.0, &a.1), (&b.0, &b.1), "{negative} on {ranks}");
                }
            }
            let sum = |epoch: usize| -> f64 { now.iter().map(|rank| rank.0[epoch]).sum() };
            assert!(
                sum(3) < sum(0),
                "{negative} on {ranks}: {} {}",
                sum(0),
                sum(3)
            );
            let auc = now[0].2[1].expect("test links").auc;
            assert!(auc > 0.55, "{negative} on {ranks}: {auc}");
        }
    }
}

/// Sampling, classifier and loss have times of their own, where there are such things.
#[test]
fn time_is_told_apart_by_what_it_was_spent_on() {
    let base = [("data", "sbm:nodes=400,degree=5,feat=7"), ("scorer", "mlp")];
    for task in ["node", "link"] {
        let spec = spec(&[&base[..], &[("task", task)]].concat());
        let setup = setup(&spec);
        let times = world(&spec, 1, |cx, meter| {
            let mut built = (find("single").expect("registered").build)(setup.clone(), cx);
            let strategy = &mut built.as_mut().expect("builds").strategy;
            cx.pass(Pass::Setup);
            meter.take_times();
            strategy.epoch(cx).expect("trains");
            meter.take_times().0
        });
        let times = times[0];
        for pass in [Pass::Forward, Pass::Loss, Pass::Backward, Pass::Optim] {
            assert!(times.of(pass) > 0, "{task}: {pass}");
        }
        for pass in [Pass::Sample, Pass::Classify] {
            assert_eq!(times.of(pass) > 0, task == "link", "{task}: {pass}");
        }
    }
}
