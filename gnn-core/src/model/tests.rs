//! Every weight's and the features' gradient against central differences of [`Reference`], which
//! computes every model's loss in `f64` and shares nothing with the models but the formulas.
//!
//! Weights are random, biases and gains too, so that no activation sits on a kink and nothing is
//! zero by chance. Graphs have repeated edges, self loops and isolated vertices; dropout is on.

use super::reference::{M, Reference, features, wide};
use super::{Aggregate, AggregateFirst, Flow, Grad, Input, Model, ModelKind, Shape, Weights};
use crate::backend::{Backend, Kept};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::rng;
use crate::spec::{RunSpec, Value};
use crate::strategy::{Setup, single};
use crate::testing::{random_dataset, with_relations, world};
use std::rc::Rc;
use std::sync::Arc;

const STEP: f64 = 1e-6;

fn spec(model: ModelKind, pairs: &[(&str, Value)]) -> RunSpec {
    let own = [
        ("model", Value::Str(model.name().into())),
        ("dropout", Value::Float(0.3)),
        ("seed", Value::Int(5)),
    ];
    RunSpec::from_pairs(own.into_iter().chain(pairs.iter().cloned())).expect("valid pairs")
}

/// Other weights, none of them zero.
fn randomise(model: &mut Model, backend: &dyn Backend, seed: u64) -> Vec<Vec<M>> {
    let mut all = Vec::new();
    for (l, layer) in model.weights.iter_mut().enumerate() {
        let mut of_layer = Vec::new();
        for (t, w) in layer.iter_mut().enumerate() {
            let key = rng::key(seed, t as u64, rng::Purpose::Weights, l as u64);
            let cols = w.ncols();
            let host = kernels::Mat::from_shape_fn(w.dim(), |(r, c)| {
                rng::normal(key, (r * cols + c) as u64) * 0.7
            });
            of_layer.push(wide(&host));
            *w = backend.upload(host);
        }
        all.push(of_layer);
    }
    all
}

/// `rounding` is what the cancelling terms of a small gradient leave.
fn close(what: &str, got: &kernels::Mat, want: &M, rounding: f64) {
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for ((at, got), want) in got.indexed_iter().zip(want) {
        let error = (f64::from(*got) - want).abs();
        assert!(
            error <= rounding + 1e-4 * largest,
            "{what}, element {at:?}: differences {want}, backward {got}"
        );
    }
}

/// Central differences of `loss` in every element of `x`.
fn differences(x: &mut M, mut loss: impl FnMut(&M) -> f64) -> M {
    let mut g = M::zeros(x.raw_dim());
    for i in 0..x.len() {
        let at = (i / x.ncols(), i % x.ncols());
        let value = x[at];
        x[at] = value + STEP;
        let above = loss(x);
        x[at] = value - STEP;
        g[at] = (above - loss(x)) / (2.0 * STEP);
        x[at] = value;
    }
    g
}

fn check(spec: &RunSpec, data: &Arc<Dataset>, seed: u64) {
    let what = format!(
        "{} layers {} hidden {} decoupled {} seed {seed}",
        spec.model, spec.layers, spec.hidden, spec.decoupled
    );
    world(spec, 1, |cx, _| {
        let setup = Setup::of(Arc::clone(data), None);
        let (mut training, _) = single::reference(setup.clone(), cx).expect("builds");
        let mut weights = randomise(training.model_mut(), cx.backend.as_ref(), seed);
        let dense = matches!(data.features, Features::Dense(_));
        training.model_mut().input_gradient = dense;
        let got = training.evaluate(cx).expect("runs");
        let all = got.gradients.iter().flatten().flatten();
        let rounding = 1e-6 * all.fold(1.0, |m, g| f64::max(m, g.abs().into()));
        let reference = Reference { spec, data };
        let mut x = features(data);
        let want = reference.loss(&x, &weights);
        let error = (got.loss - want).abs();
        assert!(
            error <= 1e-5 * want.abs(),
            "{what}: loss {want}, got {}",
            got.loss
        );
        for l in 0..weights.len() {
            for t in 0..weights[l].len() {
                let mut w = weights[l][t].clone();
                let g = differences(&mut w, |w| {
                    weights[l][t].assign(w);
                    reference.loss(&x, &weights)
                });
                weights[l][t].assign(&w);
                let name = training.model_mut().layer(l).tensors()[t].name;
                close(
                    &format!("{what}: {name} of layer {l}"),
                    &got.gradients[l][t],
                    &g,
                    rounding,
                );
            }
        }
        if dense {
            let g = differences(&mut x, |x| reference.loss(x, &weights));
            close(
                &format!("{what}: features"),
                &got.input.expect("asked for"),
                &g,
                rounding,
            );
        }
    });
}

/// Settings of its own that a model is tried with.
fn variants(model: ModelKind) -> Vec<Vec<(&'static str, Value)>> {
    let int = |key, value| (key, Value::Int(value));
    match model {
        ModelKind::Gat => vec![
            vec![int("heads", 3)],
            vec![int("heads", 2), int("out_heads", 3)],
        ],
        ModelKind::Rgcn => vec![vec![int("bases", 0)], vec![int("bases", 2)]],
        ModelKind::Resgcn => vec![vec![], vec![int("block_layers", 2)]],
        ModelKind::Gcn | ModelKind::Sage | ModelKind::Gin => {
            let hidden = Value::Str("hidden".into());
            vec![vec![], vec![("aggregate_width", hidden)]]
        }
        _ => vec![vec![]],
    }
}

#[test]
fn gradients_match_central_differences() {
    for &model in ModelKind::ALL {
        // Widths that make layers aggregate first or last, sparse features, one layer.
        let cases = [(2, 4, false), (3, 9, false), (2, 5, true), (1, 4, false)];
        for (k, (layers, hidden, sparse)) in cases.into_iter().enumerate() {
            let seed = 11 + k as u64;
            let mut data = random_dataset(19, 60, 6, 3, sparse, seed);
            if model == ModelKind::Rgcn {
                data = with_relations(data, 3, seed);
            }
            let data = Arc::new(data);
            for mut pairs in variants(model) {
                pairs.push(("layers", Value::Int(layers)));
                pairs.push(("hidden", Value::Int(hidden)));
                check(&spec(model, &pairs), &data, seed);
            }
        }
    }
}

#[test]
fn gradients_of_decoupled_forms_match_central_differences() {
    for &model in ModelKind::ALL.iter().filter(|m| m.decouples()) {
        for (layers, sparse) in [(1, false), (2, true), (3, false)] {
            let mut data = random_dataset(19, 60, 6, 3, sparse, layers as u64);
            if model == ModelKind::Rgcn {
                data = with_relations(data, 3, 1);
            }
            let data = Arc::new(data);
            let shape = [
                ("layers", Value::Int(layers)),
                ("hidden", Value::Int(5)),
                ("decoupled", Value::Bool(true)),
                // One, three and five of GAT, over three columns.
                ("heads", Value::Int(2 * layers - 1)),
            ];
            check(&spec(model, &shape), &data, 3);
        }
    }
}

type Run = (kernels::Mat, Vec<Vec<kernels::Mat>>);

/// Weight gradients that were made later; only where the first two layers' are otherwise made in one go
/// may their sums be in another order.
fn assert_same_bits_but_merged(spec: &RunSpec, late: &Run, whole: &Run) {
    assert_eq!(late.0, whole.0);
    for (l, (got, want)) in late.1.iter().zip(&whole.1).enumerate() {
        for (got, want) in got.iter().zip(want) {
            let what = format!("{}, layer {l}", spec.model);
            assert_eq!(got.dim(), want.dim(), "{what}");
            if l >= 2 {
                assert_eq!(got, want, "{what}");
            }
            let largest = want.iter().fold(1e-3f32, |m, g| m.max(g.abs()));
            let close = got
                .iter()
                .zip(want)
                .all(|(a, b)| (a - b).abs() <= 1e-5 * largest);
            assert!(close, "{what}");
        }
    }
}

/// Layers run in two parts, as on two ranks, give the bits of one: logits, weight gradients and
/// what passes between the parts.
#[test]
fn layers_may_run_in_parts() {
    let data = random_dataset(23, 80, 6, 3, false, 2);
    for &model in ModelKind::ALL {
        let pairs = [("layers", Value::Int(3)), ("hidden", Value::Int(5))];
        let spec = spec(model, &pairs);
        world(&spec, 1, |cx, _| {
            let shape = Shape {
                d_in: 6,
                d_out: 3,
                relations: 1,
                aggregate_first: AggregateFirst::Narrower,
            };
            let model = Model::new(&spec, cx.backend.as_ref(), shape);
            let ids: Vec<u32> = (0..23).collect();
            let mut agg = single::over_whole_graph(&data, cx);
            let Features::Dense(x) = &data.features else {
                panic!("made dense above")
            };
            let x = Input::Dense(Rc::new(cx.backend.upload(x.clone())));
            let ids = Kept::from(ids);
            let g = kernels::Mat::from_shape_fn((23, 3), |(r, c)| (r + 2 * c) as f32 - 11.0);

            let run = |cx: &mut Ctx, agg: &mut dyn Aggregate, cut: usize, late: bool| {
                let mut flow = Flow::from(x.clone());
                let mut tapes = Vec::new();
                for layers in [0..cut, cut..model.layers()] {
                    let part = model.forward_layers(cx, agg, layers.clone(), flow, &ids, true);
                    let (next, tape) = part.expect("runs");
                    flow = next;
                    tapes.push((layers, tape));
                }
                let logits = cx.backend.take(flow.x.into_mat());
                let mut grads = vec![Vec::new(); model.layers()];
                let mut grad = Some(Grad::from(cx.backend.upload(g.clone())));
                for (layers, tape) in tapes.into_iter().rev() {
                    let mut ready = |cx: &mut Ctx, l: usize, w: Weights| {
                        grads[l] = w.into_iter().map(|w| cx.backend.take(w)).collect();
                        Ok(())
                    };
                    let given = grad.take().expect("later layers gave it");
                    if late {
                        let passed = model.backward_of_inputs(cx, agg, layers, tape, &ids, given);
                        let (passed, owed) = passed.expect("runs");
                        grad = passed;
                        owed.pay(cx, &mut ready).expect("runs");
                        continue;
                    }
                    let passed =
                        model.backward_layers(cx, agg, layers, tape, &ids, given, &mut ready);
                    grad = passed.expect("runs");
                }
                (logits, grads)
            };
            let whole = run(cx, &mut agg, model.layers(), false);
            for cut in 1..model.layers() {
                let parts = run(cx, &mut agg, cut, false);
                assert_eq!(parts, whole, "{} cut at {cut}", spec.model);
                let late = run(cx, &mut agg, cut, true);
                assert_same_bits_but_merged(&spec, &late, &whole);
            }
        });
    }
}
