//! Every weight's gradient against central differences. The loss is evaluated in `f32`, so the
//! step is large and the tolerance wide; errors of sign, transposition or a missing term are far
//! outside it. What this cannot catch: an error that is the same in forward and backward.

use super::ModelKind;
use crate::spec::{RunSpec, Value};
use crate::strategy::{Setup, single};
use crate::testing::{random_dataset, world};
use std::sync::Arc;

fn spec(model: ModelKind, layers: i64, hidden: i64) -> RunSpec {
    RunSpec::from_pairs([
        ("model", Value::Str(model.name().into())),
        ("layers", Value::Int(layers)),
        ("hidden", Value::Int(hidden)),
        ("dropout", Value::Float(0.3)),
        ("seed", Value::Int(5)),
    ])
    .expect("valid pairs")
}

#[test]
fn gradients_match_central_differences() {
    for &model in ModelKind::ALL {
        // Widths that make some layers aggregate first and others last.
        for (layers, hidden, sparse) in [(2, 4, false), (3, 9, false), (2, 5, true), (1, 4, false)]
        {
            let data = Arc::new(random_dataset(23, 70, 6, 3, sparse, 11));
            let spec = spec(model, layers, hidden);
            world(&spec, 1, |cx, _| {
                let setup = Setup {
                    data: Arc::clone(&data),
                    owner: None,
                };
                let (mut reference, _) = single::reference(&setup, cx).expect("builds");
                let (_, grads) = reference.loss_and_gradients(cx).expect("runs");
                for (l, layer) in grads.iter().enumerate() {
                    for (t, g) in layer.iter().enumerate() {
                        for (i, &exact) in g.iter().enumerate() {
                            let step = 1e-3f32;
                            let mut at = |delta: f32, cx: &mut crate::ctx::Ctx| {
                                let w = &mut reference.model_mut().weights[l][t];
                                let w = w.as_slice_mut().expect("standard layout");
                                w[i] += delta;
                                let loss = reference.loss_and_gradients(cx).expect("runs").0;
                                let w = &mut reference.model_mut().weights[l][t];
                                w.as_slice_mut().expect("standard layout")[i] -= delta;
                                loss
                            };
                            let numeric = (at(step, cx) - at(-step, cx)) / (2.0 * f64::from(step));
                            let error = (numeric - f64::from(exact)).abs();
                            assert!(
                                error < 1e-3 + 0.02 * f64::from(exact.abs()),
                                "{model} layers {layers} sparse {sparse}: layer {l} tensor {t} element {i}: \
                                 backward {exact}, differences {numeric}"
                            );
                        }
                    }
                }
            });
        }
    }
}
