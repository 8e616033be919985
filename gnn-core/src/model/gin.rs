//! Graph isomorphism network.
//!
//! # Paper
//! Xu, Hu, Leskovec & Jegelka, "How powerful are graph neural networks?", ICLR 2019, eq. 4.1,
//! <https://arxiv.org/abs/1810.00826>: `Y = MLP((1 + ε) X + A X)` with a learnt ε and an MLP of two
//! layers. The sum has the graph's own edges; a self loop that is there counts like any other.
//!
//! The first product of the MLP is linear, so it may come before the sum:
//! `((1 + ε) X + A X) W₁ = (1 + ε) Z + A Z` with `Z = X W₁`.
//! # Not done
//! Batch normalisation inside the MLP, which the paper's graph classification uses.

use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Act, Term, Then};
use crate::error::Result;
use std::rc::Rc;

const EPS: usize = 0;
const W_1: usize = 1;
const B_1: usize = 2;
const W_2: usize = 3;
const B_2: usize = 4;

/// The hidden rows of the MLP, in [`Saved::more`].
const HIDDEN: usize = 0;
/// `Z`, behind it, where the product came first.
const Z: usize = 1;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Gin {
    pub(super) d_in: usize,
    /// Width inside the MLP.
    pub(super) hidden: usize,
    pub(super) d_out: usize,
    /// Whether a dense input is aggregated, or its product.
    pub(super) input_first: bool,
}

/// ReLU alone, behind the MLP's first layer.
fn inner() -> After<'static> {
    After {
        act: Act::Relu,
        dropout: None,
    }
}

impl Layer for Gin {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::FIXED_WEIGHTS)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::row("eps", 1, 0.0),
            Tensor::weight("weight_1", self.d_in, self.hidden),
            Tensor::row("bias_1", self.hidden, 0.0),
            Tensor::weight("weight_2", self.hidden, self.d_out),
            Tensor::row("bias_2", self.d_out, 0.0),
        ]
    }

    fn widths(&self, sparse_input: bool, input_gradient: bool) -> Widths {
        if !sparse_input && self.aggregates_features() {
            return Widths::of_input(self.d_in, input_gradient);
        }
        Widths::both(self.hidden)
    }

    fn aggregates_features(&self) -> bool {
        self.input_first
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x;
        let eps = 1.0 + site.scalar(EPS);
        let mut saved = Saved::default();
        let t = if let Some(dense) = x.dense().filter(|_| self.aggregates_features()) {
            let sum = site.aggregate_input(&x, dense)?;
            // A sum that is made once and kept stays as it is.
            let sum = Rc::try_unwrap(sum).unwrap_or_else(|kept| site.cx.backend.copy(&kept));
            let a = site.axpby(eps, dense, 1.0, sum);
            let t = site.linear(&[Term::plain(&a, &site.w[W_1])], site.then(B_1, inner()));
            saved.aggregated = Some(Rc::new(a));
            saved.more = vec![Rc::new(t)];
            &saved.more[HIDDEN]
        } else {
            let z = Rc::new(x.times(site.cx, &site.w[W_1]));
            let sum = site.aggregate(&z)?;
            let own = site.first_rows(&z, sum.nrows());
            drop(z);
            let mut t = site.axpby(eps, &own, 1.0, sum);
            site.cx.backend.then(site.then(B_1, inner()), &mut t);
            saved.more = vec![Rc::new(t), own];
            &saved.more[HIDDEN]
        };
        let y = site.linear(&[Term::plain(t, &site.w[W_2])], site.then(B_2, after));
        saved.x = Some(x);
        Ok((y.into(), saved))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (g, t, x) = (Rc::new(grad.g), &saved.more[HIDDEN], saved.x());
        let eps = 1.0 + site.scalar(EPS);
        let (gw_2, gb_2) = site.weight_and_bias_gradient([W_2, B_2], t, &g);
        let gt = site.linear(&[Term::right_t(&g, &site.w[W_2])], Then::relu_gate(t, 1.0));
        drop(g);
        let gt = Rc::new(gt);
        if let Some((a, dense)) = saved.aggregated.as_ref().zip(x.dense()) {
            let (gw_1, gb_1) = site.weight_and_bias_gradient([W_1, B_1], a, &gt);
            let ga = site.linear(&[Term::right_t(&gt, &site.w[W_1])], Then::default());
            let weights = vec![site.dot(&ga, dense), gw_1, gb_1, gw_2, gb_2];
            let Some(then) = input else {
                return Ok((weights, None));
            };
            let sum = site.aggregate(&ga)?;
            let mut gx = site.axpby(eps, &ga, 1.0, sum);
            site.cx.backend.then(then, &mut gx);
            return Ok((weights, Some(gx.into())));
        }
        let gb_1 = site.bias_gradient(&gt);
        let g_eps = site.dot(&gt, &saved.more[Z]);
        let sum = site.aggregate(&gt)?;
        let gz = site.scaled_to_first_rows(eps, &gt, sum);
        let gw_1 = x.t_times(site.cx, &gz);
        let gx = input.map(|then| site.linear(&[Term::right_t(&gz, &site.w[W_1])], then));
        let weights = vec![g_eps, gw_1, gb_1, gw_2, gb_2];
        Ok((weights, gx.map(Grad::from)))
    }
}
