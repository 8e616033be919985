//! Full-graph training on the `Aggregate` seam: what such strategies share.
//!
//! Forward, loss, backward, and one Adam step a epoch. Each layer's weight gradients start their
//! all-reduce as soon as they exist and travel while earlier layers are computed.

use super::{Rows, Setup, Strategy};
use crate::backend::{Adam, Mat, Target};
use crate::comm::{Label, Ticket};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features};
use crate::error::Result;
use crate::model::{Aggregate, Input, Model, SparseInput, Weights};
use crate::record::{Direction, Pass, PredictedLane};
use kernels::par::split_rows;
use std::rc::Rc;
use std::sync::Arc;

/// A rank's full-graph training state.
pub struct FullGraph<A> {
    aggregate: A,
    model: Model,
    input: Input,
    rows: Rows,
    moments: Vec<[Weights; 2]>,
    gradients: Vec<Weights>,
    adam: Adam,
}

/// The model a setup asks for.
pub fn model_of(setup: &Setup, cx: &Ctx) -> Model {
    let data = &setup.data;
    Model::new(&cx.plan.spec, data.features.dim(), data.n_classes)
}

/// Rows `ids` of the features, as the first layer's input.
pub fn input_of(data: &Dataset, ids: &[u32]) -> Input {
    match data.features.select_rows(ids) {
        Features::Dense(x) => Input::Dense(Rc::new(x)),
        Features::Sparse(x) => Input::Sparse(SparseInput::new(Arc::new(x))),
    }
}

/// Bytes of the weight gradients' all-reduce that leave rank `me` each epoch.
pub fn predict_gradients(model: &Model, me: usize, ranks: usize) -> Vec<(PredictedLane, u64)> {
    let mut lanes = Vec::new();
    for (layer, weights) in model.weights.iter().enumerate() {
        let bounds = split_rows(weights.iter().map(Mat::len).sum(), ranks);
        let len = |r: usize| bounds[r + 1] - bounds[r];
        for dst in (0..ranks).filter(|&r| r != me) {
            // My part of the peer's chunk goes to it, then my summed chunk.
            let bytes = 4 * (len(dst) + len(me)) as u64;
            lanes.push(((layer as u16, Direction::Grad, dst as u32), bytes));
        }
    }
    lanes
}

impl<A: Aggregate> FullGraph<A> {
    /// Training of `model` on `rows` with the features `input`.
    pub fn new(aggregate: A, model: Model, input: Input, rows: Rows, cx: &Ctx) -> Self {
        let zeros =
            |w: &Weights| -> Weights { w.iter().map(|t| Mat::zeros(t.raw_dim())).collect() };
        let spec = &cx.plan.spec;
        FullGraph {
            aggregate,
            moments: model.weights.iter().map(|w| [zeros(w), zeros(w)]).collect(),
            gradients: model.weights.iter().map(zeros).collect(),
            model,
            input,
            rows,
            adam: Adam {
                lr: spec.lr as f32,
                weight_decay: spec.weight_decay as f32,
                step: 0,
            },
        }
    }

    /// Forward, loss and backward. The weight gradients are on their way when it returns.
    fn forward_backward(&mut self, cx: &mut Ctx) -> Result<(f64, Vec<(usize, Ticket)>)> {
        let FullGraph {
            aggregate,
            model,
            input,
            rows,
            ..
        } = self;
        let (logits, tape) = model.forward(cx, aggregate, input.clone(), &rows.ids, true)?;
        let mut g = Mat::zeros(logits.raw_dim());
        let target = Target {
            labels: &rows.labels,
            mask: &rows.train,
            scale: 1.0 / rows.train_total.max(1) as f32,
        };
        let loss = cx.backend.softmax_xent(&logits, target, &mut g);
        drop(logits);
        let mut tickets = Vec::with_capacity(model.layers());
        model.backward(
            cx,
            aggregate,
            tape,
            &rows.ids,
            g,
            &mut |cx, layer, grads| {
                let label = Label {
                    layer: layer as u16,
                    direction: Direction::Grad,
                };
                let flat: Vec<f32> = grads.iter().flatten().copied().collect();
                tickets.push((layer, cx.comm.post_all_reduce(label, flat)?));
                Ok(())
            },
        )?;
        Ok((loss, tickets))
    }

    /// Waits for the summed gradients.
    fn collect(&mut self, cx: &mut Ctx, tickets: Vec<(usize, Ticket)>) -> Result<()> {
        for (layer, ticket) in tickets {
            let summed = cx.comm.finish(ticket)?.concat();
            let mut rest = &summed[..];
            for gradient in &mut self.gradients[layer] {
                let (mine, others) = rest.split_at(gradient.len());
                flat(gradient).copy_from_slice(mine);
                rest = others;
            }
        }
        Ok(())
    }

    fn step(&mut self, cx: &mut Ctx) {
        self.adam.step += 1;
        for (layer, weights) in self.model.weights.iter_mut().enumerate() {
            let [m, v] = &mut self.moments[layer];
            for (i, w) in weights.iter_mut().enumerate() {
                let g = flat(&mut self.gradients[layer][i]);
                cx.backend
                    .adam(self.adam, flat(w), g, flat(&mut m[i]), flat(&mut v[i]));
            }
        }
    }

    /// Mean loss of a world of one and its gradients at the current weights, without a step.
    #[cfg(test)]
    pub(crate) fn loss_and_gradients(&mut self, cx: &mut Ctx) -> Result<(f64, Vec<Weights>)> {
        let (loss, tickets) = self.forward_backward(cx)?;
        self.collect(cx, tickets)?;
        Ok((
            loss / self.rows.train_total.max(1) as f64,
            self.gradients.clone(),
        ))
    }

    /// The model, for tests that move its weights.
    #[cfg(test)]
    pub(crate) fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}

fn flat(x: &mut Mat) -> &mut [f32] {
    x.as_slice_mut()
        .expect("weights and gradients are made in standard layout")
}

impl<A: Aggregate> Strategy for FullGraph<A> {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let (loss, tickets) = self.forward_backward(cx)?;
        cx.pass(Pass::Optim);
        self.collect(cx, tickets)?;
        self.step(cx);
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<Mat> {
        let FullGraph {
            aggregate,
            model,
            input,
            rows,
            ..
        } = self;
        Ok(model
            .forward(cx, aggregate, input.clone(), &rows.ids, false)?
            .0)
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.gradients.iter().flatten().collect()
    }
}
