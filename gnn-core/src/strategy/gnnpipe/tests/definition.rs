//! That the oracle is right by itself: its gradients are the differences of its loss while history is
//! held constant, and with one chunk it is `single`. Cannot catch a wrong reading of the paper.

use super::oracle::{Oracle, Rules};
use super::vertex::M;
use super::{MODELS, first_weights, pairs, random_chunks, with_several_classes};
use crate::dataset::Dataset;
use crate::model::ModelKind;
use crate::rng;
use crate::spec::RunSpec;
use crate::strategy::single;
use crate::strategy::tests::train;
use crate::testing::random_dataset;
use std::sync::Arc;

const STEP: f64 = 1e-6;

fn order(epoch: u64, chunks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chunks).collect();
    rng::shuffle(epoch ^ 0x0d, &mut order);
    order
}

/// The largest error of the oracle's gradients against central differences, relative to the largest
/// gradient, after two epochs; weights, biases among them, are random, so that nothing is on a kink.
fn error_of_gradients(spec: &RunSpec, data: &Arc<Dataset>, chunks: usize, rules: Rules) -> f64 {
    let mut weights = first_weights(spec, data);
    for (t, w) in weights.iter_mut().flatten().enumerate() {
        let cols = w.ncols();
        let draw = |(r, c): (usize, usize)| f64::from(rng::normal(t as u64, (r * cols + c) as u64));
        *w = M::from_shape_fn(w.dim(), |at| 0.7 * draw(at));
    }
    let chunk = random_chunks(data.n(), chunks, 3);
    let mut oracle = Oracle::new(spec, data, chunk, rules, weights);
    for epoch in 0..2 {
        oracle.epoch(epoch, &order(epoch, chunks));
    }
    let order = order(2, chunks);
    let forward = oracle.forward(Some(2), &order);
    let got = oracle.backward(2, &order, &forward);
    let terms = data.train.iter().filter(|&&t| t).count();
    let terms = terms * data.multi_labels.as_ref().map_or(1, |_| data.n_classes);
    let (mut error, mut largest) = (0.0f64, 0.0f64);
    for (l, layer) in got.iter().enumerate() {
        for (t, g) in layer.iter().enumerate() {
            for (at, g) in g.indexed_iter() {
                let value = oracle.weights[l][t][at];
                let mut loss = |w: f64| {
                    oracle.weights[l][t][at] = w;
                    oracle.forward(Some(2), &order).loss / terms as f64
                };
                let difference = (loss(value + STEP) - loss(value - STEP)) / (2.0 * STEP);
                loss(value);
                error = error.max((difference - g).abs());
                largest = largest.max(g.abs());
            }
        }
    }
    error / largest
}

#[test]
fn gradients_are_the_differences_of_the_loss_at_constant_history() {
    let data = random_dataset(24, 90, 4, 3, false, 6);
    let several = Arc::new(with_several_classes(data.clone(), 5));
    let data = Arc::new(data);
    for model in MODELS {
        let spec = RunSpec::from_pairs(pairs("single", model, 3, 5)).expect("valid pairs");
        for chunks in [1, 4] {
            for data in [&data, &several] {
                let error = error_of_gradients(&spec, data, chunks, Rules::frozen_for(2));
                assert!(error < 1e-6, "{model}, {chunks} chunks: {error}");
            }
        }
    }
}

/// What the specification says of a backward pass in the order of the forward pass: it is far off.
#[test]
fn a_backward_pass_in_forward_order_gives_no_gradient() {
    let data = Arc::new(random_dataset(24, 90, 4, 3, false, 6));
    for model in [ModelKind::Gcn, ModelKind::Gcnii] {
        let spec = RunSpec::from_pairs(pairs("single", model, 3, 5)).expect("valid pairs");
        let rules = Rules {
            backward_in_order: true,
            ..Rules::frozen_for(2)
        };
        let error = error_of_gradients(&spec, &data, 4, rules);
        assert!(error > 0.05, "{model}: {error}");
    }
}

#[test]
fn with_one_chunk_it_is_single() {
    for (sparse, several) in [(false, false), (true, false), (false, true)] {
        let mut data = random_dataset(30, 120, 4, 3, sparse, 7);
        if several {
            data = with_several_classes(data, 5);
        }
        let data = Arc::new(data);
        for model in MODELS {
            let spec = RunSpec::from_pairs(pairs("single", model, 3, 5)).expect("valid pairs");
            let got = train(&single::ENTRY, &spec, &data, None, 1).swap_remove(0);
            let rules = Rules::frozen_for(10);
            let weights = first_weights(&spec, &data);
            let mut oracle = Oracle::new(&spec, &data, vec![0; data.n()], rules, weights);
            let mut gradients = Vec::new();
            for (epoch, got) in got.losses.iter().enumerate() {
                let (loss, g) = oracle.epoch(epoch as u64, &[0]);
                assert!(
                    (loss - got).abs() < 1e-5 * loss,
                    "{model}: {loss}, got {got}"
                );
                gradients = g.into_iter().flatten().collect();
            }
            assert_eq!(gradients.len(), got.gradients.len(), "{model}");
            for (want, got) in gradients.iter().zip(&got.gradients) {
                let largest = want.iter().fold(1e-3f64, |m, g| m.max(g.abs()));
                for (want, got) in want.iter().zip(got) {
                    let error = (want - f64::from(*got)).abs();
                    assert!(error < 2e-5 * largest, "{model}: {want}, got {got}");
                }
            }
            for (row, &v) in got.ids.iter().enumerate() {
                for (want, got) in oracle.logits()[v as usize].iter().zip(got.logits.row(row)) {
                    let error = (want - f64::from(*got)).abs();
                    assert!(
                        error < 2e-5 * want.abs().max(1.0),
                        "{model}: {want}, got {got}"
                    );
                }
            }
        }
    }
}
