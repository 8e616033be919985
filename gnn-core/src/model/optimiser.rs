//! Optimisers over a model's weights, with weight decay by group.
//!
//! # Paper
//! Adam: Kingma & Ba, ICLR 2015, <https://arxiv.org/abs/1412.6980>, decay as L2 in the gradient.
//! AdamW: Loshchilov & Hutter, ICLR 2019, <https://arxiv.org/abs/1711.05101>. SGD with momentum as
//! `torch.optim.SGD` has it.

use super::{Model, Weights};
use crate::backend::{Backend, Mat};
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::spec::{Decay, OptimiserKind, RunSpec};
use kernels::adam::AdamParams;
use kernels::sgd::SgdParams;

/// An optimiser with its state. Every rank has the same.
pub struct Optimiser {
    /// Steps taken.
    steps: u64,
    /// Whether its weights are all that the rank has of the model's.
    is_whole: bool,
    /// By layer and tensor.
    rules: Vec<Vec<Rule>>,
}

/// How a step changes a tensor, with what it needs of the steps before: zero at first.
enum Rule {
    /// Gradient descent; with momentum, a velocity.
    Sgd(SgdParams, Option<Mat>),
    /// Adam and AdamW: the means of gradients and of their squares.
    Adam(AdamParams, Mat, Mat),
}

impl Rule {
    /// The rule of a tensor like `w`.
    fn new(spec: &RunSpec, weight_decay: f32, backend: &dyn Backend, w: &Mat) -> Rule {
        let zeros = || backend.zeros(w.nrows(), w.ncols());
        let (lr, momentum) = (spec.lr as f32, spec.momentum as f32);
        if spec.optimizer == OptimiserKind::Sgd {
            let params = SgdParams {
                lr,
                momentum,
                weight_decay,
            };
            return Rule::Sgd(params, (momentum > 0.0).then(zeros));
        }
        let params = AdamParams {
            lr,
            weight_decay,
            decoupled: spec.optimizer == OptimiserKind::Adamw,
            ..AdamParams::default()
        };
        Rule::Adam(params, zeros(), zeros())
    }
}

impl Rule {
    /// What it needs of the steps before, by name.
    fn moments(&mut self) -> Vec<(&'static str, &mut Mat)> {
        match self {
            Rule::Sgd(_, velocity) => velocity.iter_mut().map(|v| ("velocity", v)).collect(),
            Rule::Adam(_, m, v) => vec![("m", m), ("v", v)],
        }
    }
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
    /// Bytes of so many weights, their gradients, and what a request's optimiser keeps of each.
    pub(crate) fn bytes(spec: &RunSpec, weights: usize) -> usize {
        let moments = match spec.optimizer {
            OptimiserKind::Adam | OptimiserKind::Adamw => 2,
            OptimiserKind::Sgd => usize::from(spec.momentum > 0.0),
        };
        weights.saturating_mul(4 * (2 + moments))
    }

    /// The optimiser of a request before its first step.
    pub fn new(spec: &RunSpec, model: &Model, backend: &dyn Backend) -> Optimiser {
        Optimiser {
            is_whole: true,
            ..Optimiser::over(spec, model, backend, &model.weights)
        }
    }

    /// The same over parts of the weights, by layer.
    pub(crate) fn over(
        spec: &RunSpec,
        model: &Model,
        backend: &dyn Backend,
        weights: &[Weights],
    ) -> Optimiser {
        let layers = weights.iter().zip(decays(spec, model));
        let rules = layers.map(|(layer, decay)| {
            let rule = |w| Rule::new(spec, decay, backend, w);
            layer.iter().map(rule).collect()
        });
        Optimiser {
            steps: 0,
            is_whole: false,
            rules: rules.collect(),
        }
    }

    /// One step of every weight with its gradient.
    pub fn step(&mut self, cx: &Ctx, weights: &mut [Weights], gradients: &[Weights]) {
        let backend = cx.backend.as_ref();
        self.steps += 1;
        if self.is_whole && cx.plan.spec.stop_on_nan {
            cx.watch.step(backend, weights, gradients);
        }
        let weights = weights.iter_mut().flatten();
        let gradients = gradients.iter().flatten();
        let rules = self.rules.iter_mut().flatten();
        for ((w, g), rule) in weights.zip(gradients).zip(rules) {
            match rule {
                Rule::Sgd(params, velocity) => backend.sgd(*params, w, g, velocity.as_mut()),
                Rule::Adam(params, m, v) => backend.adam(*params, self.steps, w, g, m, v),
            }
        }
    }

    /// Every matrix of the steps before, by name.
    fn moments(&mut self) -> impl Iterator<Item = (String, &mut Mat)> {
        let layers = self.rules.iter_mut().enumerate();
        let rules = layers.flat_map(|(l, layer)| {
            let rules = layer.iter_mut().enumerate();
            rules.map(move |(i, rule)| (l, i, rule))
        });
        rules.flat_map(|(l, i, rule)| {
            let named = move |(what, x)| (format!("optimiser/{l}/{i}/{what}"), x);
            rule.moments().into_iter().map(named)
        })
    }

    /// Adds steps and moments to `state`.
    pub fn save(&mut self, backend: &dyn Backend, state: &mut State) {
        state.put_number("optimiser/steps", self.steps);
        for (name, x) in self.moments() {
            state.put(name, backend, x);
        }
    }

    /// Takes them back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when one is missing or of another shape.
    pub fn restore(&mut self, backend: &dyn Backend, state: &mut State) -> Result<()> {
        self.steps = state.number("optimiser/steps")?;
        let mut moments = self.moments();
        moments.try_for_each(|(name, x)| state.take_into(&name, backend, x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AggregateFirst, ModelKind, Shape};
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
                aggregate_first: AggregateFirst::Narrower,
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
                optimiser.step(cx, &mut model.weights, &gradients);
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
