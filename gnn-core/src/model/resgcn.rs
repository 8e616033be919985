//! ResGCN+: deep graph convolution with pre-activation residual blocks.
//!
//! # Paper
//! Li, Xiong, Thabet & Ghanem, "DeeperGCN", 2020, section 3.3, <https://arxiv.org/abs/2006.07739>:
//! `Y = X + Â dropout(ReLU(LayerNorm(X))) W + b`. A dense layer comes before the first block; a
//! LayerNorm, ReLU, dropout and a dense layer after the last. With two dense layers a block, as that paper's
//! code and GNNPipe have it, `Y = X + ReLU(Â dropout(ReLU(LayerNorm(X))) W + b) W₂ + b₂`.
//! # Differs
//! Every block normalises first, the first one too, and normalisation is LayerNorm over a vertex's
//! features (the paper's code offers it beside batch normalisation).

use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::norm;
use super::site::Site;
use crate::backend::{Act, Term, Then, Write};
use crate::error::Result;
use std::rc::Rc;

const WEIGHT: usize = 2;
const BIAS: usize = 3;
const WEIGHT_2: usize = 4;
const BIAS_2: usize = 5;
/// The rows between two dense layers, in [`Saved::more`].
const INNER: usize = norm::KEPT + 1;

/// A block of one width.
pub(super) struct ResBlock {
    pub(super) width: usize,
    /// Whether it has two dense layers.
    pub(super) two: bool,
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
        if self.two {
            tensors.push(Tensor::weight("weight_2", self.width, self.width));
            tensors.push(Tensor::row("bias_2", self.width, 0.0));
        }
        tensors
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let (t, mut saved) = norm::forward(&site, flow.x.clone());
        let a = site.aggregate(&t)?;
        saved.more.push(Rc::new(t));
        let (mut last, mut of) = (&a, [WEIGHT, BIAS]);
        if self.two {
            let relu = After {
                act: Act::Relu,
                dropout: None,
            };
            let u = site.linear(&[Term::plain(&a, &site.w[WEIGHT])], site.then(BIAS, relu));
            saved.more.push(Rc::new(u));
            (last, of) = (&saved.more[INNER], [WEIGHT_2, BIAS_2]);
        }
        let backend = &site.cx.backend;
        let x = saved.x().dense().expect("normalised above");
        let mut y = backend.rows(x, 0..a.nrows());
        let terms = [Term::plain(last, &site.w[of[0]])];
        backend.linear(&terms, Write::Add, site.then(of[1], after), &mut y);
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
        let (inner, second) = match self.two {
            false => (Rc::clone(&g), None),
            true => {
                let u = &saved.more[INNER];
                let second = site.weight_and_bias_gradient([WEIGHT_2, BIAS_2], u, &g);
                let gate = Then::relu_gate(u, 1.0);
                let gu = site.linear(&[Term::right_t(&g, &site.w[WEIGHT_2])], gate);
                (Rc::new(gu), Some(second))
            }
        };
        let (gw, gb) = site.weight_and_bias_gradient([WEIGHT, BIAS], a, &inner);
        let ga = site.linear(&[Term::right_t(&inner, &site.w[WEIGHT])], Then::default());
        drop(inner);
        let mut gt = site.aggregate(&ga)?;
        drop(ga);
        let gate = norm::gate(&site, &saved.more[norm::KEPT]);
        site.cx.backend.then(gate, &mut gt);
        let (mut weights, gx) = norm::backward(&site, &saved, gt);
        weights.extend([gw, gb]);
        weights.extend(second.into_iter().flat_map(|(w, b)| [w, b]));
        let mut gx = site.scaled_to_first_rows(1.0, &g, gx);
        if let Some(then) = input {
            site.cx.backend.then(then, &mut gx);
        }
        Ok((weights, Some(gx.into())))
    }
}
