//! Layers that read no other vertex: before, between and after message passing.

use super::layer::{After, Beside, Flow, Grad, Layer, Saved, Tensor, Weights};
use super::norm;
use super::site::Site;
use crate::backend::{Term, Then};
use crate::error::Result;
use std::rc::Rc;

const WEIGHT: usize = 0;
const BIAS: usize = 1;

/// `Y = X W + b`.
pub(super) struct Dense {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
    /// Its output, after ReLU and before dropout, is the initial residual of later layers.
    pub(super) begins: bool,
}

impl Layer for Dense {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn beside(&self) -> Beside {
        if self.begins {
            Beside::BeginsResidual(self.d_out)
        } else {
            Beside::Nothing
        }
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::weight("weight", self.d_in, self.d_out),
            Tensor::row("bias", self.d_out, 0.0),
        ]
    }

    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let mut saved = Saved::input(flow.x.clone());
        if !self.begins {
            let then = site.then(BIAS, after);
            let y = flow.x.times_then(site.cx, &site.w[WEIGHT], then);
            return Ok((flow.with(y), saved));
        }
        let dropout = after.dropout;
        let then = site.then(
            BIAS,
            After {
                dropout: None,
                ..after
            },
        );
        let h0 = Rc::new(flow.x.times_then(site.cx, &site.w[WEIGHT], then));
        saved.more = vec![Rc::clone(&h0)];
        let mut next = Flow::from(super::Input::Dense(Rc::clone(&h0)));
        if let Some(drop) = dropout {
            next.x = next.x.dropout(site.cx, drop.key, drop.ids, drop.p);
        }
        next.h0 = Some(h0);
        Ok((next, saved))
    }

    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let mut g = grad.g;
        if self.begins
            && let Some(mut gh0) = grad.h0
        {
            let gate = Then::relu_gate(&saved.more[0], 1.0);
            site.cx.backend.then(gate, &mut gh0);
            g = site.axpby(1.0, &gh0, 1.0, g);
        }
        let g = Rc::new(g);
        let (gw, gb) = site.input_gradients([WEIGHT, BIAS], saved.x(), &g);
        let gx = input.map(|then| site.linear(&[Term::right_t(&g, &site.w[WEIGHT])], then));
        Ok((vec![gw, gb], gx.map(Grad::from)))
    }
}

const OUT_WEIGHT: usize = 2;
const OUT_BIAS: usize = 3;

/// `Y = dropout(ReLU(LayerNorm(X))) W + b`: what follows the last pre-activation block.
pub(super) struct NormDense {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
}

impl Layer for NormDense {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = norm::tensors(self.d_in).to_vec();
        tensors.push(Tensor::weight("weight", self.d_in, self.d_out));
        tensors.push(Tensor::row("bias", self.d_out, 0.0));
        tensors
    }

    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let (t, mut saved) = norm::forward(&site, flow.x.clone());
        let then = site.then(OUT_BIAS, after);
        let y = site.linear(&[Term::plain(&t, &site.w[OUT_WEIGHT])], then);
        saved.more.push(Rc::new(t));
        Ok((flow.with(y), saved))
    }

    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (t, g) = (&saved.more[norm::KEPT], Rc::new(grad.g));
        let (gw, gb) = site.weight_and_bias_gradient([OUT_WEIGHT, OUT_BIAS], t, &g);
        let gate = norm::gate(&site, t);
        let gt = site.linear(&[Term::right_t(&g, &site.w[OUT_WEIGHT])], gate);
        let (mut weights, mut gx) = norm::backward(&site, &saved, gt);
        weights.extend([gw, gb]);
        Ok((
            weights,
            input.map(|then| {
                site.cx.backend.then(then, &mut gx);
                gx.into()
            }),
        ))
    }
}
