//! GCNII: deep graph convolution with an initial residual and identity mapping.
//!
//! # Paper
//! Chen, Wei, Huang, Ding & Li, "Simple and deep graph convolutional networks", ICML 2020, eq. 5,
//! <https://arxiv.org/abs/2007.02133>:
//! `Y = ((1 - α) Â X + α H₀) ((1 - β) I + β W)`, `β = ln(λ / l + 1)` in the l-th such layer. A dense
//! layer with ReLU makes `H₀` out of the features, another makes logits out of the last layer.

use super::layer::{After, Beside, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Mat, Term, Then};
use crate::error::Result;
use std::cell::OnceCell;
use std::rc::Rc;

const WEIGHT: usize = 0;

/// A layer of one width.
pub(super) struct Gcnii {
    width: usize,
    alpha: f32,
    beta: f32,
    identity: OnceCell<Mat>,
}

impl Gcnii {
    /// The `l`-th such layer, from 1.
    pub(super) fn new(width: usize, alpha: f64, lambda: f64, l: usize) -> Gcnii {
        Gcnii {
            width,
            alpha: alpha as f32,
            beta: (lambda / l as f64 + 1.0).ln() as f32,
            identity: OnceCell::new(),
        }
    }

    /// `scale · ((1 - β) I + β W)`.
    fn mapping(&self, site: &Site<'_>, scale: f32) -> Mat {
        let backend = &site.cx.backend;
        let identity = self
            .identity
            .get_or_init(|| backend.upload(kernels::Mat::from_diag_elem(self.width, 1.0)));
        let w = backend.copy(&site.w[WEIGHT]);
        site.axpby(scale * (1.0 - self.beta), identity, scale * self.beta, w)
    }
}

impl Layer for Gcnii {
    fn d_out(&self) -> usize {
        self.width
    }

    fn beside(&self) -> Beside {
        Beside::ReadsResidual
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts {
            swappable: false,
            ..Facts::FIXED_WEIGHTS
        })
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![Tensor::weight("weight", self.width, self.width)]
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    fn aggregates_its_input(&self) -> bool {
        true
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x.dense().expect("follows a dense layer");
        let h0 = flow.h0.as_ref().expect("the first layer begins one");
        let p = site.aggregate(x)?;
        let s = site.axpby(self.alpha, h0, 1.0 - self.alpha, p);
        let mapping = self.mapping(&site, 1.0);
        let y = site.linear(&[Term::plain(&s, &mapping)], after.then());
        let saved = Saved {
            aggregated: Some(Rc::new(s)),
            ..Saved::input(flow.x.clone())
        };
        Ok((flow.with(y), saved))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let s = saved.aggregated.expect("forward aggregates first");
        let g = Rc::new(grad.g);
        let gw = site.scaled_gradient_of(WEIGHT, s, &g, self.beta);
        // The gradient of (1 - α) Â X + α H₀, times 1 - α: what Â X gets.
        let mapping = self.mapping(&site, 1.0 - self.alpha);
        let gp = site.linear(&[Term::right_t(&g, &mapping)], Then::default());
        let share = self.alpha / (1.0 - self.alpha);
        let h0 = match grad.h0 {
            Some(h0) => site.axpby(share, &gp, 1.0, h0),
            None => site.axpby(0.0, &gp, share, site.cx.backend.copy(&gp)),
        };
        let mut gx = site.aggregate(&gp)?;
        if let Some(then) = input {
            site.cx.backend.then(then, &mut gx);
        }
        let grad = Grad {
            g: gx,
            h0: Some(h0),
            coefficients: None,
        };
        Ok((vec![gw], Some(grad)))
    }
}
