//! Mini-batch training on the `Feed` seam: what such strategies share.
//!
//! Every rank takes as many batches an epoch. A step is forward, loss and backward on the blocks of a
//! batch, the sum of all ranks' gradients, and one step of the optimiser: synchronous SGD on the mean
//! over the seeds of all ranks. Evaluation is exact: layer by layer over all vertices, from whole
//! neighbourhoods ([`Layerwise`]).

mod buffers;
mod build;
mod foreseen;
mod part;

pub(in crate::strategy) use build::{Settings, build};

use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::dataset::Pair;
use crate::error::Result;
use crate::feed::{Batch, Feed, Layerwise};
use crate::head::Head;
use crate::model::{Flow, Grad, Input, Model, Optimiser, Weights};
use crate::record::{Pass, PredictedLane};
use crate::strategy::Strategy;
use crate::strategy::reduce::Reduction;

/// A rank's mini-batch training state.
pub(in crate::strategy) struct MiniBatch<F> {
    pub(in crate::strategy) feed: F,
    model: Model,
    head: Head,
    reduction: Reduction,
    optimiser: Optimiser,
    evaluation: Layerwise,
}

impl<F: Feed> MiniBatch<F> {
    /// Training of `model` on what `feed` gives.
    pub(in crate::strategy) fn new(
        feed: F,
        mut model: Model,
        head: Head,
        evaluation: Layerwise,
        cx: &Ctx,
    ) -> Self {
        model.input_gradient = feed.learns();
        // The head's weights are trained like those of one more layer.
        let own = head.init(cx, model.layers());
        if !own.is_empty() {
            model.weights.push(own);
        }
        MiniBatch {
            feed,
            reduction: Reduction::new(&model.weights, cx),
            optimiser: Optimiser::new(&cx.plan.spec, &model, cx.backend.as_ref()),
            model,
            head,
            evaluation,
        }
    }

    /// Bytes of weight gradients that leave this rank each epoch.
    pub(in crate::strategy) fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        let mut lanes = self.reduction.predict(cx);
        lanes
            .iter_mut()
            .for_each(|lane| lane.1 *= self.feed.batches());
        lanes
    }

    /// The model's output of all of this rank's vertices, without dropout and from whole neighbourhoods.
    fn output(&mut self, cx: &mut Ctx) -> Result<Mat> {
        let input = self.feed.whole(cx)?;
        self.evaluation.output(cx, &self.model, input)
    }

    /// One step; the sum of the losses of this rank's seeds.
    fn step(&mut self, cx: &mut Ctx, mut batch: Batch) -> Result<f64> {
        let MiniBatch {
            feed,
            model,
            head,
            reduction,
            ..
        } = self;
        let layers = model.layers();
        reduction.begin(cx);
        cx.pass(Pass::Forward);
        let ids = std::mem::take(&mut batch.hops.ids);
        let input = std::mem::replace(&mut batch.input, Input::none(cx));
        let mut flow = Flow::from(model.drop_features(cx, input, &ids[0]));
        let mut tapes = Vec::with_capacity(layers);
        batch.hops.ids = ids.clone();
        for layer in 0..layers {
            let (over, to) = (layer..layer + 1, &ids[layer + 1]);
            let (next, tape) = model.forward_layers(cx, &mut batch.hops, over, flow, to, true)?;
            tapes.push(tape);
            flow = next;
            if layer + 1 < layers {
                flow.x = feed.patch(cx, &batch, layer, flow.x)?;
            }
        }
        let logits = flow.x.into_mat();
        let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
        let own = model.weights.get(layers);
        let own = own.unwrap_or(const { &Weights::new() });
        let (loss, own) = match &batch.pairs {
            None => head.loss(cx, &batch.rows, own, &logits, &mut g)?,
            Some(pairs) => {
                let scale = 1.0 / batch.rows.train_total.max(1) as f32;
                head.batch_loss(cx, own, scale, &logits, pairs, &mut g)?
            }
        };
        drop(logits);
        if !own.is_empty() {
            reduction.ready(cx, layers, own)?;
        }
        let mut grad = Some(Grad::from(g));
        for layer in (0..layers).rev() {
            let tape = tapes.pop().expect("forward pushed one a layer");
            let g = grad.take().expect("later layers gave their input's");
            let (over, from) = (layer..layer + 1, &ids[layer]);
            let ready = &mut |cx: &mut Ctx, layer, grads| reduction.ready(cx, layer, grads);
            grad = model.backward_layers(cx, &mut batch.hops, over, tape, from, g, ready)?;
        }
        cx.pass(Pass::Optim);
        if let Some(grad) = grad {
            feed.learn(cx, batch.step, grad.g)?;
        }
        reduction.collect(cx)?;
        let gradients = self.reduction.gradients();
        self.optimiser
            .step(cx.backend.as_ref(), &mut self.model.weights, gradients);
        Ok(loss)
    }
}

impl<F: Feed> Strategy for MiniBatch<F> {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let mut loss = 0.0;
        for step in 0..self.feed.batches() {
            let batch = self.feed.next(cx, step)?;
            loss += self.step(cx, batch)?;
        }
        self.feed.close(cx);
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let logits = self.output(cx)?;
        Ok(cx.backend.take(logits))
    }

    fn scores(&mut self, cx: &mut Ctx, pairs: Vec<Pair>) -> Result<Vec<f32>> {
        let z = self.output(cx)?;
        let own = self.model.weights.get(self.model.layers());
        let own = own.unwrap_or(const { &Weights::new() });
        self.head.scores(cx, own, &z, pairs)
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        if cx.rank() == 0 {
            // Every rank has the same.
            let backend = cx.backend.as_ref();
            self.model.save(backend, &mut snapshot.shared);
            self.optimiser.save(backend, &mut snapshot.shared);
        }
        self.feed.save(cx, &mut snapshot.own)
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.restore(backend, &mut snapshot.shared)?;
        self.optimiser.restore(backend, &mut snapshot.shared)?;
        self.feed.restore(&mut snapshot.own)
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.reduction.gradients().iter().flatten().collect()
    }
}
