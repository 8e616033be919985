//! Embeddings of vertices: one rank's are what plain gradient descent makes of them, and synchronous
//! ones are the same on any number of ranks.

use super::{EPOCHS, Trained, assert_same, random_owner, spec, train};
use crate::checkpoint::Snapshot;
use crate::dataset::{Dataset, Features};
use crate::model::ModelKind;
use crate::record::{Direction, now_ns};
use crate::rng::{self, Purpose};
use crate::spec::{RunSpec, Value};
use crate::strategy::{Determinism, Setup, Strategy, find, single};
use crate::testing::{random_dataset, world};
use kernels::Mat;
use kernels::sparse_optim::{AdagradParams, RowGradients, naive};
use ndarray::{Array2, Axis, concatenate, s};
use std::sync::Arc;

const WIDTH: usize = 4;

fn with(model: ModelKind, dropout: f64, extra: &[(&str, Value)]) -> RunSpec {
    let entry = find("distdgl").expect("registered");
    let mut pairs = spec(entry, model, 2, 8).to_pairs();
    pairs.retain(|(key, _)| key != "dropout" && !extra.iter().any(|(k, _)| k == key));
    pairs.push(("dropout".into(), Value::Float(dropout)));
    pairs.push(("vertex_embedding".into(), Value::Int(WIDTH as i64)));
    pairs.push(("embedding_lr".into(), Value::Float(0.05)));
    pairs.extend(extra.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    RunSpec::from_pairs(pairs).expect("valid pairs")
}

fn trained(spec: &RunSpec, data: &Arc<Dataset>, ranks: usize) -> Vec<Trained> {
    let owner = (ranks > 1).then(|| random_owner(data.n(), ranks, true, 3));
    train(
        find("distdgl").expect("registered"),
        spec,
        data,
        owner,
        ranks,
    )
}

/// The same data with these columns beside its dense features.
fn widened(data: &Dataset, learnt: &Mat) -> Dataset {
    let Features::Dense(x) = &data.features else {
        unreachable!("made dense")
    };
    let sides = [x.view(), learnt.view()];
    let x = concatenate(Axis(1), &sides).expect("as many rows");
    Dataset {
        features: Features::Dense(x.as_standard_layout().into_owned()),
        ..data.clone()
    }
}

/// What each epoch's loss must be, and the last one's weight gradients: full-graph training of the model
/// on features that are changed between epochs, by AdaGrad in double precision, as the gradient of the
/// input says.
fn by_hand(spec: &RunSpec, data: &Dataset) -> (Vec<f64>, Vec<Vec<f32>>) {
    let key = rng::key(spec.seed, 0, Purpose::Embedding, 0);
    let bound = (3.0 / WIDTH as f64).sqrt();
    let mut rows = Array2::from_shape_fn((data.n(), WIDTH), |(v, c)| {
        let u = rng::uniform_f64(key, (v * WIDTH + c) as u64);
        (2.0 * u - 1.0) * bound
    });
    let mut squares = Array2::zeros(rows.dim());
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    let mut weights: Option<Snapshot> = None;
    for epoch in 0..EPOCHS {
        let data = Arc::new(widened(data, &rows.mapv(|x| x as f32)));
        let mut steps = world(spec, 1, |cx, _| {
            let setup = Setup::of(Arc::clone(&data), None);
            let (mut full, rows) = single::reference(setup, cx).expect("builds");
            if let Some(before) = &weights {
                full.restore(cx, &mut before.clone())
                    .expect("the same model");
            }
            full.model_mut().input_gradient = true;
            cx.epoch = epoch;
            let at = full.evaluate(cx).expect("evaluates");
            let loss = full.epoch(cx).expect("trains");
            let mut after = Snapshot::default();
            full.save(cx, &mut after).expect("saves");
            (loss, at, after, rows.ids.to_vec())
        });
        let (loss, at, after, ids) = steps.remove(0);
        losses.push(loss);
        let flat = |g: &Mat| g.iter().copied().collect();
        gradients = at.gradients.iter().flatten().map(flat).collect();
        weights = Some(after);
        let gx = at.input.expect("asked for");
        let grads = gx.slice(s![.., gx.ncols() - WIDTH..]);
        let params = AdagradParams {
            lr: 0.05,
            ..AdagradParams::default()
        };
        let of = RowGradients {
            rows: &ids,
            grads: &grads.as_standard_layout().into_owned(),
        };
        naive::adagrad(params, of, &mut rows, &mut squares);
    }
    (losses, gradients)
}

/// Whole neighbourhoods of all training vertices in one step, on one rank: what is learnt of vertices is
/// what descent on a wider input makes of it.
#[test]
fn embeddings_follow_the_gradient_of_the_input() {
    let data = Arc::new(random_dataset(60, 300, 5, 3, false, 12));
    for (model, dropout) in [
        (ModelKind::Gcn, 0.0),
        (ModelKind::Sage, 0.4),
        (ModelKind::Gat, 0.4),
    ] {
        let spec = with(model, dropout, &[]);
        let (losses, gradients) = by_hand(&spec, &data);
        let got = trained(&spec, &data, 1).remove(0);
        for (a, b) in got.losses.iter().zip(&losses) {
            assert!((a - b).abs() < 1e-5 * b, "{model}: loss {b}, got {a}");
        }
        let largest = gradients.iter().flatten().fold(0f32, |m, g| m.max(g.abs()));
        let pairs = got
            .gradients
            .iter()
            .flatten()
            .zip(gradients.iter().flatten());
        for (a, b) in pairs {
            assert!(
                (a - b).abs() < 1e-4 * largest,
                "{model}: gradient {b}, got {a}"
            );
        }
    }
}

/// Synchronous embeddings are the same on any number of ranks, beside dense or sparse features or
/// alone, with either optimiser.
#[test]
fn synchronous_embeddings_do_not_depend_on_ranks() {
    let dense = Arc::new(random_dataset(80, 500, 6, 3, false, 12));
    let sparse = Arc::new(random_dataset(80, 500, 6, 3, true, 12));
    let word = |w: &str| Value::Str(w.into());
    for (data, model, alone, optimiser) in [
        (&dense, ModelKind::Sage, false, "adagrad"),
        (&sparse, ModelKind::Gcn, false, "adam"),
        (&dense, ModelKind::Gat, true, "adagrad"),
        (&sparse, ModelKind::Sage, true, "adam"),
    ] {
        let knobs = [
            ("embedding_sync", Value::Bool(true)),
            ("embedding_alone", Value::Bool(alone)),
            ("embedding_optimizer", word(optimiser)),
        ];
        let spec = with(model, 0.4, &knobs);
        let reference = trained(&spec, data, 1).remove(0);
        for ranks in 2..=4 {
            let what = format!("{model} with {optimiser} on {ranks} ranks, alone: {alone}");
            assert_same(&what, model, &reference, &trained(&spec, data, ranks));
        }
    }
}

/// In batches, too, a synchronous run repeats bit by bit, however far ahead batches are made.
#[test]
fn synchronous_runs_repeat_bit_by_bit() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let run = |ranks: usize, prefetch: i64| {
        let knobs = [
            ("embedding_sync", Value::Bool(true)),
            ("fanout", Value::Str("3,4".into())),
            ("batch", Value::Int(7)),
            ("prefetch", Value::Int(prefetch)),
        ];
        let all = trained(&with(ModelKind::Sage, 0.4, &knobs), &data, ranks).into_iter();
        all.map(|r| (r.losses, r.gradients, r.logits))
            .collect::<Vec<_>>()
    };
    for ranks in 1..=4 {
        let first = run(ranks, 0);
        assert_eq!(run(ranks, 3), first, "{ranks} ranks");
    }
}

/// Pushes that are applied as they come: nothing is promised about bits, but gradients travel to their
/// owners, and the loss falls.
#[test]
fn asynchronous_embeddings_learn() {
    let data = Arc::new(random_dataset(90, 700, 6, 3, false, 21));
    let entry = find("distdgl").expect("registered");
    let spec = with(
        ModelKind::Sage,
        0.0,
        &[("embedding_alone", Value::Bool(true))],
    );
    let owner = Arc::new(random_owner(90, 3, false, 3));
    let ranks = world(&spec, 3, |cx, meter| {
        let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
        let mut built = (entry.build)(setup, cx).expect("builds");
        cx.comm.agree(&[0.0]).expect("in step");
        let mut losses = Vec::new();
        for epoch in 0..30 {
            cx.epoch = epoch;
            losses.push(built.strategy.epoch(cx).expect("trains"));
        }
        let sent = meter.take_traffic();
        let pushed = sent.iter().filter(|(lane, _)| lane.1 == Direction::Push);
        let pushed: u64 = pushed.map(|(_, t)| t.bytes).sum();
        built.strategy.logits(cx).expect("evaluates");
        (losses, pushed)
    });
    let loss = |epoch: usize| ranks.iter().map(|r| r.0[epoch]).sum::<f64>();
    assert!(loss(29) < 0.7 * loss(0), "{} after {}", loss(29), loss(0));
    assert!(ranks.iter().all(|r| r.1 > 0));
}

/// Waiting for rows while embeddings are collected for an evaluation is in no epoch: it was once counted
/// for the next one, which then had more time in its parts than it took.
#[test]
fn waits_between_epochs_are_in_none_of_them() {
    let data = Arc::new(random_dataset(90, 500, 6, 3, false, 4));
    let entry = find("distdgl").expect("registered");
    let spec = with(ModelKind::Sage, 0.0, &[]);
    let owner = Arc::new(random_owner(90, 2, false, 3));
    world(&spec, 2, |cx, meter| {
        let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
        let mut built = (entry.build)(setup, cx).expect("builds");
        for epoch in 0..3 {
            cx.epoch = epoch;
            meter.take_times();
            let begun = now_ns();
            built.strategy.epoch(cx).expect("trains");
            let wall = now_ns() - begun;
            let times = meter.take_times().0;
            assert!(
                times.wait + times.xfer <= wall,
                "epoch {epoch}: waited {} and moved {} of {wall} ns",
                times.wait,
                times.xfer
            );
            // Often enough that what they wait is more than an epoch takes.
            for _ in 0..60 {
                built.strategy.logits(cx).expect("evaluates");
            }
        }
    });
}

/// What is promised about repeating a run depends on how embeddings are learnt.
#[test]
fn only_synchronous_embeddings_promise_bits() {
    let entry = find("distdgl").expect("registered");
    let promise = |sync: bool, ranks: i64| {
        let knobs = [
            ("embedding_sync", Value::Bool(sync)),
            ("ranks", Value::Int(ranks)),
        ];
        (entry.determinism)(&with(ModelKind::Sage, 0.0, &knobs))
    };
    assert_eq!(promise(false, 2), Determinism::Statistical);
    assert_eq!(promise(false, 1), Determinism::SameRanks);
    assert_eq!(promise(true, 2), Determinism::SameRanks);
}

/// A run that goes on from what was saved has the bits of one that was never interrupted.
#[test]
fn what_was_learnt_is_saved() {
    let data = Arc::new(random_dataset(70, 400, 6, 3, false, 4));
    let entry = find("distdgl").expect("registered");
    for optimiser in ["adagrad", "adam"] {
        let knobs = [
            ("embedding_sync", Value::Bool(true)),
            ("embedding_optimizer", Value::Str(optimiser.into())),
            ("fanout", Value::Str("3,4".into())),
            ("batch", Value::Int(7)),
            ("epochs", Value::Int(4)),
        ];
        let spec = with(ModelKind::Sage, 0.4, &knobs);
        let owner = Arc::new(random_owner(70, 3, false, 3));
        let run = |epochs: std::ops::Range<u64>, from: Option<&[Snapshot]>| {
            world(&spec, 3, |cx, _| {
                let setup = Setup::of(Arc::clone(&data), Some(Arc::clone(&owner)));
                let mut built = (entry.build)(setup, cx).expect("builds");
                if let Some(from) = from {
                    let mut mine = from[cx.rank()].clone();
                    mine.shared = from[0].shared.clone();
                    built.strategy.restore(cx, &mut mine).expect("whole");
                }
                cx.comm.agree(&[0.0]).expect("in step");
                for epoch in epochs.clone() {
                    cx.epoch = epoch;
                    built.strategy.epoch(cx).expect("trains");
                }
                let mut snapshot = Snapshot::default();
                built.strategy.save(cx, &mut snapshot).expect("saves");
                (snapshot, built.strategy.logits(cx).expect("evaluates"))
            })
        };
        let whole = run(0..4, None);
        let half: Vec<Snapshot> = run(0..2, None).into_iter().map(|r| r.0).collect();
        assert!(run(2..4, Some(&half)) == whole, "{optimiser}");
    }
}
