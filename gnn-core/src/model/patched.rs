//! Backward through layers whose input was changed on its way to them: the gradient stops where the change
//! was, so that its adjoint can be taken before the activation's.

use super::layer::Grad;
use super::stack::{Model, Ready, Tape};
use super::{Aggregate, At, Input};
use crate::backend::{Kept, Mat, Then};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::{Direction, Pass};

impl Model {
    /// The backward of one layer, whose forward left `tape`: the gradient of its input as it read it,
    /// `[n_src, d]`, where anybody wants that. `ids` are those of the input's rows. What remains is
    /// [`Model::backward_between`] the layer below.
    ///
    /// # Errors
    /// Whatever the aggregation or `ready` meets.
    #[expect(clippy::too_many_arguments, reason = "as backward_layers")]
    pub fn backward_layer(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        layer: usize,
        mut tape: Tape,
        ids: &Kept<u32>,
        grad: Grad,
        ready: Ready<'_>,
    ) -> Result<Option<Grad>> {
        cx.pass(Pass::Backward);
        cx.layer(layer);
        let saved = tape.saved.pop().expect("forward pushed one entry a layer");
        let at = At {
            layer,
            direction: Direction::Backward,
        };
        let wanted = layer > 0 || self.input_gradient;
        let then = wanted.then(Then::default);
        let site = self.site(cx, agg, at, ids);
        let (grads, gx) = self.stages[layer].layer.backward(site, saved, grad, then)?;
        ready(cx, layer, grads)?;
        Ok(gx.filter(|_| wanted))
    }

    /// Turns the gradient `g: [n, d]` of what the layer below `layer` made into that of its output before
    /// activation and dropout; of the features, where `layer` is the first, before dropout. `x` is what it
    /// made, and `ids` are those of its rows.
    pub fn backward_between(
        &self,
        cx: &Ctx,
        layer: usize,
        ids: &Kept<u32>,
        x: &Input,
        g: &mut Mat,
    ) {
        if let Some(then) = self.input_then(cx, layer, ids, Some(x)) {
            cx.backend.then(then, g);
        }
    }
}
