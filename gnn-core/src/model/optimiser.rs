//! Optimisers over a model's weights, with weight decay by group.
//!
//! # Paper
//! Adam: Kingma & Ba, ICLR 2015, <https://arxiv.org/abs/1412.6980>, decay as L2 in the gradient.
//! AdamW: Loshchilov & Hutter, ICLR 2019, <https://arxiv.org/abs/1711.05101>. SGD with momentum as
//! `torch.optim.SGD` has it.

use super::{Model, Weights};
use crate::backend::{Adam, Backend, Mat};
use crate::spec::{Decay, OptimiserKind, RunSpec};

/// An optimiser with its state. Every rank has the same.
pub struct Optimiser {
    kind: OptimiserKind,
    lr: f32,
    momentum: f32,
    step: u64,
    /// Weight decay by layer.
    decay: Vec<f32>,
    /// By layer and tensor: both moments of Adam, or the momentum of SGD.
    state: Vec<Vec<Vec<Mat>>>,
}

/// The weight decay of each layer that a request asks for; weights behind the last layer are a
/// head's, which reads no other vertex.
fn decays(spec: &RunSpec, model: &Model) -> Vec<f32> {
    let of = |l: usize| {
        let dense = l >= model.layers() || model.layer(l).facts().is_none();
        let own = dense && spec.weight_decay_dense >= 0.0;
        let decay = if own {
            spec.weight_decay_dense
        } else {
            spec.weight_decay
        };
        let spared = spec.decay == Decay::First && l > 0;
        if spared { 0.0 } else { decay as f32 }
    };
    (0..model.weights.len()).map(of).collect()
}

impl Optimiser {
    /// The optimiser of a request before its first step.
    pub fn new(spec: &RunSpec, model: &Model, backend: &dyn Backend) -> Optimiser {
        let kept = match spec.optimizer {
            OptimiserKind::Adam | OptimiserKind::Adamw => 2,
            OptimiserKind::Sgd => usize::from(spec.momentum > 0.0),
        };
        let zeros = |w: &Mat| {
            let state = (0..kept).map(|_| backend.zeros(w.nrows(), w.ncols()));
            state.collect()
        };
        let layers = model.weights.iter();
        Optimiser {
            kind: spec.optimizer,
            lr: spec.lr as f32,
            momentum: spec.momentum as f32,
            step: 0,
            decay: decays(spec, model),
            state: layers.map(|w| w.iter().map(zeros).collect()).collect(),
        }
    }

    /// One step of every weight with its gradient.
    pub fn step(&mut self, backend: &dyn Backend, weights: &mut [Weights], gradients: &[Weights]) {
        self.step += 1;
        for (l, (weights, gradients)) in weights.iter_mut().zip(gradients).enumerate() {
            let decay = self.decay[l];
            let mut adam = Adam {
                lr: self.lr,
                weight_decay: decay,
                step: self.step,
            };
            for ((w, g), state) in weights.iter_mut().zip(gradients).zip(&mut self.state[l]) {
                match (self.kind, &mut state[..]) {
                    (OptimiserKind::Sgd, state) => {
                        sgd(backend, (self.lr, self.momentum, decay), w, g, state);
                    }
                    (kind, [m, v]) => {
                        if kind == OptimiserKind::Adamw {
                            // w · (1 - lr · decay); the decay is not seen by the moments.
                            backend.axpby(0.0, g, 1.0 - self.lr * decay, w);
                            adam.weight_decay = 0.0;
                        }
                        backend.adam(adam, w, g, m, v);
                    }
                    _ => unreachable!("Adam keeps two moments"),
                }
            }
        }
    }
}

/// `b = momentum · b + g + decay · w`, `w -= lr · b`.
fn sgd(
    backend: &dyn Backend,
    (lr, momentum, decay): (f32, f32, f32),
    w: &mut Mat,
    g: &Mat,
    state: &mut [Mat],
) {
    let Some(b) = state.first_mut() else {
        return backend.axpby(-lr, g, 1.0 - lr * decay, w);
    };
    backend.axpby(1.0, g, momentum, b);
    backend.axpby(decay, w, 1.0, b);
    backend.axpby(-lr, b, 1.0, w);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelKind, Shape};
    use crate::spec::Value;
    use crate::testing::world;

    /// The rules in `f64`, by their papers' formulas.
    fn reference(spec: &RunSpec, decay: f64, w: &mut f64, g: f64, state: &mut [f64; 2], t: i32) {
        let (lr, momentum) = (spec.lr, spec.momentum);
        if spec.optimizer == OptimiserKind::Sgd {
            state[0] = momentum * state[0] + g + decay * *w;
            *w -= lr * state[0];
            return;
        }
        let mut g = g;
        if spec.optimizer == OptimiserKind::Adam {
            g += decay * *w;
        } else {
            *w -= lr * decay * *w;
        }
        state[0] = 0.9 * state[0] + 0.1 * g;
        state[1] = 0.999 * state[1] + 0.001 * g * g;
        let (m, v) = (
            state[0] / (1.0 - 0.9f64.powi(t)),
            state[1] / (1.0 - 0.999f64.powi(t)),
        );
        *w -= lr * m / (v.sqrt() + 1e-8);
    }

    fn check(pairs: &[(&str, Value)], model: ModelKind, decay_of: impl Fn(usize) -> f64 + Sync) {
        let own = [
            ("model", Value::Str(model.name().into())),
            ("weight_decay", Value::Float(0.1)),
            ("lr", Value::Float(0.05)),
        ];
        let spec = RunSpec::from_pairs(own.into_iter().chain(pairs.iter().cloned()));
        let spec = spec.expect("valid pairs");
        world(&spec, 1, |cx, _| {
            let shape = Shape {
                d_in: 3,
                d_out: 2,
                relations: 1,
            };
            let backend = cx.backend.as_ref();
            let mut model = Model::new(&spec, backend, shape);
            let mut optimiser = Optimiser::new(&spec, &model, backend);
            let value = |w: &Mat, i: usize| f64::from(w.as_slice()[i]);
            let mut want: Vec<(f64, [f64; 2])> = Vec::new();
            for layer in &model.weights {
                want.extend(layer.iter().map(|w| (value(w, 0), [0.0; 2])));
            }
            for t in 1..=5 {
                let gradient = |w: &Mat| {
                    let g = 0.3 - 0.1 * t as f32;
                    backend.upload(kernels::Mat::from_elem(w.dim(), g))
                };
                let gradients: Vec<Weights> = model
                    .weights
                    .iter()
                    .map(|layer| layer.iter().map(gradient).collect())
                    .collect();
                optimiser.step(backend, &mut model.weights, &gradients);
                let tensors = model.weights.iter().enumerate();
                let tensors = tensors.flat_map(|(l, layer)| layer.iter().map(move |w| (l, w)));
                for ((l, w), (want, state)) in tensors.zip(&mut want) {
                    let g = f64::from(0.3 - 0.1 * t as f32);
                    reference(&spec, decay_of(l), want, g, state, t);
                    let error = (value(w, 0) - *want).abs();
                    assert!(
                        error <= 1e-5 * want.abs().max(0.1),
                        "{pairs:?} step {t} layer {l}"
                    );
                }
            }
        });
    }

    #[test]
    fn optimisers_follow_their_papers_over_several_steps() {
        let word = |key, value: &str| (key, Value::Str(value.into()));
        for name in ["adam", "adamw", "sgd"] {
            check(&[word("optimizer", name)], ModelKind::Gcn, |_| 0.1);
        }
        let momentum = [word("optimizer", "sgd"), ("momentum", Value::Float(0.9))];
        check(&momentum, ModelKind::Gcn, |_| 0.1);
    }

    #[test]
    fn weight_decay_has_groups() {
        let first = [("decay", Value::Str("first".into()))];
        check(&first, ModelKind::Gcn, |l| if l == 0 { 0.1 } else { 0.0 });
        // GCNII: a dense layer, two convolutions, a dense layer.
        let dense = [("weight_decay_dense", Value::Float(0.02))];
        check(&dense, ModelKind::Gcnii, |l| {
            if l % 3 == 0 { 0.02 } else { 0.1 }
        });
    }
}
