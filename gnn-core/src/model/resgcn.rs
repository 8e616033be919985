//! ResGCN+: deep graph convolution with pre-activation residual blocks.
//!
//! # Paper
//! Li, Xiong, Thabet & Ghanem, "DeeperGCN", 2020, section 3.3, <https://arxiv.org/abs/2006.07739>:
//! `Y = X + Â dropout(ReLU(LayerNorm(X))) W + b`. A dense layer comes before the first block; a
//! LayerNorm, ReLU, dropout and a dense layer after the last.
//! # Differs
//! Every block normalises first, the first one too, and normalisation is LayerNorm over a vertex's
//! features (the paper's code offers it beside batch normalisation).

use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::norm;
use super::site::Site;
use crate::backend::{Term, Then, Write};
use crate::error::Result;
use std::rc::Rc;

const WEIGHT: usize = 2;
const BIAS: usize = 3;

/// A block of one width.
pub(super) struct ResBlock {
    pub(super) width: usize,
}

impl Layer for ResBlock {
    fn d_out(&self) -> usize {
        self.width
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::FIXED_WEIGHTS)
    }

    fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = norm::tensors(self.width).to_vec();
        tensors.push(Tensor::weight("weight", self.width, self.width));
        tensors.push(Tensor::row("bias", self.width, 0.0));
        tensors
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let (t, mut saved) = norm::forward(&site, flow.x.clone());
        let a = site.aggregate(&t)?;
        let backend = &site.cx.backend;
        let mut y = backend.copy(saved.x().dense().expect("normalised above"));
        let terms = [Term::plain(&a, &site.w[WEIGHT])];
        backend.linear(&terms, Write::Add, site.then(BIAS, after), &mut y);
        saved.more.push(Rc::new(t));
        saved.aggregated = Some(Rc::new(a));
        Ok((flow.with(y), saved))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let g = Rc::new(grad.g);
        let a = saved.aggregated.as_ref().expect("forward aggregates first");
        let (gw, gb) = site.weight_and_bias_gradient([WEIGHT, BIAS], a, &g);
        let ga = site.linear(&[Term::right_t(&g, &site.w[WEIGHT])], Then::default());
        let mut gt = site.aggregate(&ga)?;
        drop(ga);
        let gate = norm::gate(&site, &saved.more[norm::KEPT]);
        site.cx.backend.then(gate, &mut gt);
        let (mut weights, gx) = norm::backward(&site, &saved, gt);
        weights.extend([gw, gb]);
        let mut gx = site.axpby(1.0, &g, 1.0, gx);
        if let Some(then) = input {
            site.cx.backend.then(then, &mut gx);
        }
        Ok((weights, Some(gx.into())))
    }
}
