//! One mini-batch: forward, loss, backward, and after the last one of a step, a step of the weights.

use super::laps::{Laps, Part};
use super::sync::GradientSync;
use crate::backend::{Kept, Mat};
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::{Error, Result};
use crate::feed::{Batch, Feed, Hops};
use crate::head::{Head, PairBatch};
use crate::model::{Flow, Grad, Input, Model, Tape, Weights};
use crate::record::Pass;

/// What a step works with.
pub(super) struct Step<'a> {
    /// Whether the batch is the first of a step, and the last.
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) feed: &'a mut dyn Feed,
    pub(super) model: &'a mut Model,
    pub(super) head: &'a Head,
    pub(super) sync: &'a mut dyn GradientSync,
    pub(super) laps: &'a mut Laps,
}

/// What forward leaves for backward.
struct Trace {
    tapes: Vec<Tape>,
    /// Ids of the input's rows, then of what each layer makes.
    ids: Vec<Kept<u32>>,
    /// By layer, what was there before it was patched; none where nothing is.
    below: Vec<Input>,
}

impl Step<'_> {
    /// The step of `batch`, or its part of one; the sum of the losses of its seeds.
    pub(super) fn run(mut self, cx: &mut Ctx, batch: Batch) -> Result<f64> {
        let Batch {
            step,
            input,
            mut hops,
            rows,
            pairs,
        } = batch;
        if self.first {
            self.sync.begin(cx);
        }
        cx.pass(Pass::Forward);
        let (logits, trace) = self.forward(cx, &mut hops, input)?;
        let (loss, g) = self.loss(cx, (&rows, pairs.as_ref()), logits)?;
        self.laps.lap(Part::Fwd);
        let gradient = self.backward(cx, &mut hops, trace, g)?;
        self.laps.lap(Part::Bwd);
        cx.pass(Pass::Optim);
        if let Some(gradient) = gradient {
            self.feed.learn(cx, step, gradient)?;
        }
        if self.last {
            self.sync.apply(cx, &mut self.model.weights)?;
        }
        self.feed.end_step(cx, step)?;
        self.laps.lap(Part::Ared);
        Ok(loss)
    }

    fn forward(&mut self, cx: &mut Ctx, hops: &mut Hops, input: Input) -> Result<(Mat, Trace)> {
        let layers = self.model.layers();
        let made = hops.layers.iter().map(|layer| layer.rows.clone());
        let ids: Vec<Kept<u32>> = [hops.inputs.clone()].into_iter().chain(made).collect();
        let mut trace = Trace {
            tapes: Vec::with_capacity(layers),
            ids,
            below: Vec::new(),
        };
        let mut flow = Flow::from(self.model.drop_features(cx, input, &trace.ids[0]));
        for layer in 0..layers {
            if let Some(patch) = self.feed.patcher() {
                trace.below.push(flow.x.clone());
                flow.x = patch.patch(cx, hops, layer, flow.x)?;
                check(hops, layer, &flow.x)?;
            }
            let (over, to) = (layer..layer + 1, &trace.ids[layer + 1]);
            let (next, tape) = self.model.forward_layers(cx, hops, over, flow, to, true)?;
            trace.tapes.push(tape);
            flow = next;
        }
        Ok((flow.x.into_mat(), trace))
    }

    /// The loss, and the gradient of `logits`.
    fn loss(
        &mut self,
        cx: &mut Ctx,
        (rows, pairs): (&Rows, Option<&PairBatch>),
        logits: Mat,
    ) -> Result<(f64, Mat)> {
        let layers = self.model.layers();
        let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
        let own = self.model.head_weights();
        let (loss, own) = match pairs {
            None => self.head.loss(cx, rows, own, &logits, &mut g)?,
            Some(pairs) => {
                let scale = 1.0 / rows.train_total.max(1) as f32;
                let head = self.head;
                head.batch_loss(cx, own, scale, &logits, pairs, &mut g)?
            }
        };
        drop(logits);
        if !own.is_empty() {
            ready(self.sync, self.last, cx, (layers, own))?;
        }
        Ok((loss, g))
    }

    /// Weight gradients, layer by layer, from `g`, that of the logits; the gradient of the input, where it
    /// is wanted.
    fn backward(
        &mut self,
        cx: &mut Ctx,
        hops: &mut Hops,
        mut trace: Trace,
        g: Mat,
    ) -> Result<Option<Mat>> {
        let Step {
            feed,
            model,
            sync,
            last,
            ..
        } = self;
        let mut grad = Some(Grad::from(g));
        let ready = &mut |cx: &mut Ctx, layer, grads| ready(&mut **sync, *last, cx, (layer, grads));
        for layer in (0..model.layers()).rev() {
            let tape = trace.tapes.pop().expect("forward pushed one a layer");
            let g = grad.take().expect("later layers gave their input's");
            let ids = &trace.ids[layer];
            let (Some(patch), Some(below)) = (feed.patcher(), trace.below.pop()) else {
                let over = layer..layer + 1;
                grad = model.backward_layers(cx, hops, over, tape, ids, g, ready)?;
                continue;
            };
            let read = hops.layers[layer].columns.clone();
            let gx = model.backward_layer(cx, hops, layer, tape, &read, g, ready)?;
            if let Some(gx) = gx {
                let mut g = patch.unpatch(cx, layer, gx.g)?;
                model.backward_between(cx, layer, ids, &below, &mut g);
                grad = Some(g.into());
            }
        }
        Ok(grad.map(|grad| grad.g))
    }
}

/// Hands over the gradients of a layer; after the last batch of a step, their sum may leave.
fn ready(
    sync: &mut dyn GradientSync,
    last: bool,
    cx: &mut Ctx,
    (layer, grads): (usize, Weights),
) -> Result<()> {
    if last {
        return sync.ready(cx, layer, grads);
    }
    sync.add(cx, layer, grads);
    Ok(())
}

/// Refuses a patch that leaves a column without its row.
fn check(hops: &Hops, layer: usize, x: &Input) -> Result<()> {
    let of = &hops.layers[layer];
    let columns = of.columns.len();
    // An aggregate that is known stands for its columns.
    if of.block.is_none() || x.dim().0 == columns {
        return Ok(());
    }
    Err(Error::Shape {
        op: format!("what layer {layer} reads"),
        expected: format!("a row for each of its {columns} columns"),
        got: x.dim().0.to_string(),
    })
}
