//! Some of a stack's layers, forward and back.

use super::layer::{After, Flow, Grad, Saved};
use super::owed::{Owed, Product};
use super::stack::Ready;
use super::{Aggregate, At, Input, Model, Tape};
use crate::backend::{Act, Gate, Kept, Operand, Term, Then};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::{Direction, Pass};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Of which rows, and where products are put off to.
struct Back<'a> {
    ids: &'a Kept<u32>,
    owed: Option<&'a RefCell<Vec<Product>>>,
}

impl Model {
    /// Some layers, from what the layer before them made (dropout of the features is not done
    /// here) to what the layer after them takes. Rows that go forward in several chunks have a tape each.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn forward_layers(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layers: Range<usize>,
        mut flow: Flow,
        ids: &Kept<u32>,
        train: bool,
    ) -> Result<(Flow, Tape)> {
        cx.pass(if train { Pass::Forward } else { Pass::Eval });
        let direction = if train {
            Direction::Forward
        } else {
            Direction::Eval
        };
        let mut saved = Vec::with_capacity(layers.len());
        if layers.start == 0 {
            let x = flow.x.dense().map(Rc::as_ref);
            cx.watch.look(cx.backend.as_ref(), None, x);
        }
        let kept_weights = cx.watch.weights();
        let weights = kept_weights.as_ref().map_or(&self.weights, |kept| kept);
        for layer in layers {
            cx.layer(layer);
            let next = self.drop_input(cx, layer + 1, ids);
            let after = After {
                act: self.stages[layer].act,
                dropout: next.filter(|_| train),
            };
            let mut site = self.site(cx, agg, At { layer, direction }, ids);
            site.w = &weights[layer];
            let (next, kept) = self.stages[layer].layer.forward(site, flow, after)?;
            let y = next.x.dense().map(Rc::as_ref);
            cx.watch.look(cx.backend.as_ref(), Some(layer), y);
            if train {
                saved.push(kept);
            }
            flow = next;
        }
        Ok((flow, Tape { saved }))
    }

    /// The backward of [`Model::forward_layers`]: from the gradient of the last layer's output to
    /// that of the output of the layer before the first, each before its activation and dropout.
    ///
    /// # Errors
    /// Whatever the aggregation or `ready` meets.
    #[expect(clippy::too_many_arguments, reason = "forward_layers' and two more")]
    pub fn backward_layers(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layers: Range<usize>,
        tape: Tape,
        ids: &Kept<u32>,
        grad: Grad,
        ready: Ready<'_>,
    ) -> Result<Option<Grad>> {
        let back = Back { ids, owed: None };
        self.back(cx, agg, layers, tape, back, grad, ready)
    }

    /// [`Model::backward_layers`] without the products that only weights' gradients are made of: these
    /// are owed.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn backward_of_inputs(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layers: Range<usize>,
        tape: Tape,
        ids: &Kept<u32>,
        grad: Grad,
    ) -> Result<(Option<Grad>, Owed)> {
        let (owed, mut made) = (RefCell::default(), Vec::new());
        let back = Back {
            ids,
            owed: Some(&owed),
        };
        let mut ready = |_: &mut Ctx, layer, weights| {
            made.push((layer, weights));
            Ok(())
        };
        let grad = self.back(cx, agg, layers, tape, back, grad, &mut ready)?;
        let (layers, products) = (made, owed.into_inner());
        Ok((grad, Owed { layers, products }))
    }

    /// The backward of one layer that went forward alone: from the gradient of what it passed on, `y`
    /// behind its activation and dropout, to that of its input, which is likewise behind those of the layer
    /// before. So gradients of one row can be added up that come from several places.
    ///
    /// # Errors
    /// Whatever the aggregation or `ready` meets.
    #[expect(clippy::too_many_arguments, reason = "as backward_layers")]
    pub fn backward_alone(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layer: usize,
        (mut tape, y): (Tape, Input),
        ids: &Kept<u32>,
        mut grad: Grad,
        ready: Ready<'_>,
    ) -> Result<Option<Grad>> {
        cx.pass(Pass::Backward);
        cx.layer(layer);
        self.before_passing(cx, layer, ids, Some(&y), &mut grad.g);
        let saved = tape.saved.pop().expect("forward pushed one entry a layer");
        let at = At {
            layer,
            direction: Direction::Backward,
        };
        let site = self.site(cx, agg, at, ids);
        let wanted = (layer > 0 || self.input_gradient).then(Then::default);
        let (grads, gx) = self.stages[layer]
            .layer
            .backward(site, saved, grad, wanted)?;
        ready(cx, layer, grads)?;
        Ok(gx)
    }

    #[expect(clippy::too_many_arguments, reason = "backward_layers'")]
    fn back(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layers: Range<usize>,
        mut tape: Tape,
        Back { ids, owed }: Back<'_>,
        grad: Grad,
        ready: Ready<'_>,
    ) -> Result<Option<Grad>> {
        cx.pass(Pass::Backward);
        let (mut grad, start) = (Some(grad), layers.start);
        for layer in layers.rev() {
            cx.layer(layer);
            let saved = tape.saved.pop().expect("forward pushed one entry a layer");
            let x = saved.x.clone();
            let then = self.input_then(cx, layer, ids, x.as_ref());
            let at = At {
                layer,
                direction: Direction::Backward,
            };
            let g = grad.take().expect("later layers gave their input's");
            if let Some(then) = then
                && start == 0
                && owed.is_none()
                && self.skips_to_first(cx, layer, &tape)
            {
                let below = tape.saved.pop().expect("forward pushed one entry a layer");
                self.backward_of_first_two(cx, agg, [saved, below], ids, g, then, ready)?;
                return Ok(None);
            }
            let mut site = self.site(cx, agg, at, ids);
            site.owed = owed;
            let (grads, gx) = self.stages[layer].layer.backward(site, saved, g, then)?;
            ready(cx, layer, grads)?;
            grad = gx.filter(|_| layer > 0 || self.input_gradient);
        }
        Ok(grad)
    }

    /// Whether only the first layer's weights read the gradient of its output, and this second layer
    /// gives it as a sum of products, which the backend would rather make piece by piece than write.
    fn skips_to_first(&self, cx: &Ctx, layer: usize, tape: &Tape) -> bool {
        let [first, second] = match &self.stages[..] {
            [first, second, ..] if layer == 1 && !self.input_gradient => [first, second],
            _ => return false,
        };
        let kept = tape.saved.last().is_some_and(|s| s.aggregated.is_some());
        let read = first.layer.only_weights_read();
        second.layer.in_parts() && kept && read.is_some_and(|[k, n]| cx.backend.makes_rows(k, n))
    }

    /// Backward of the first two layers, of which `saved` has the second's first, without the gradient
    /// between them as a matrix.
    #[expect(clippy::too_many_arguments, reason = "as backward_layers")]
    fn backward_of_first_two(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        saved: [Saved; 2],
        ids: &Kept<u32>,
        grad: Grad,
        then: Then<'_>,
        ready: Ready<'_>,
    ) -> Result<()> {
        let at = |layer| At {
            layer,
            direction: Direction::Backward,
        };
        let [second, first] = saved;
        let site = self.site(cx, agg, at(1), ids);
        let (grads, parts) = self.stages[1].layer.backward_in_parts(site, second, grad)?;
        ready(cx, 1, grads)?;
        cx.layer(0);
        let terms = parts
            .iter()
            .map(|(g, w)| Term::right_t(g, &self.weights[1][*w]));
        let terms: Vec<_> = terms.collect();
        let rows = Operand::Made {
            terms: &terms,
            then,
        };
        let site = self.site(cx, agg, at(0), ids);
        let grads = self.stages[0].layer.backward_of_rows(site, first, rows);
        ready(cx, 0, grads)
    }

    /// What turns the gradient of a layer's input into that of the output of the layer before it;
    /// none for features that are not learnt.
    pub(super) fn input_then<'a>(
        &self,
        cx: &Ctx,
        layer: usize,
        ids: &'a Kept<u32>,
        x: Option<&'a Input>,
    ) -> Option<Then<'a>> {
        let dropout = self.drop_input(cx, layer, ids);
        let scale = dropout.map_or(1.0, |d| 1.0 / (1.0 - d.p));
        let act = match layer.checked_sub(1) {
            Some(before) => self.stages[before].act,
            None if self.input_gradient => Act::None,
            None => return None,
        };
        let gate = || {
            let y = x.and_then(Input::dense);
            let y = y.expect("a layer behind an activation keeps its dense input");
            Some(Gate { y, act, scale })
        };
        Some(match act {
            Act::None => Then {
                dropout,
                ..Then::default()
            },
            // Zero where either activation or dropout took it.
            Act::Relu => Then {
                gate: gate(),
                ..Then::default()
            },
            Act::Elu => Then {
                dropout,
                gate: gate(),
                ..Then::default()
            },
        })
    }
}
