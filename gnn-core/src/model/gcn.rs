//! Graph convolution.
//!
//! # Paper
//! Kipf & Welling, ICLR 2017, eq. 2: `Y = Â X W + b`, `Â = D^-1/2 (A + I) D^-1/2`. The weights of
//! Â are in the block that the aggregate multiplies by.

use super::layer::{After, Facts, Flow, Grad, Layer, Products, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Mat, Operand, Term, Then};
use crate::error::Result;
use std::rc::Rc;

const WEIGHT: usize = 0;
const BIAS: usize = 1;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Gcn {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
    /// Whether a dense input is aggregated, or its product.
    pub(super) input_first: bool,
}

impl Layer for Gcn {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::FIXED_WEIGHTS)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::weight("weight", self.d_in, self.d_out),
            Tensor::row("bias", self.d_out, 0.0),
        ]
    }

    fn widths(&self, sparse_input: bool, input_gradient: bool) -> Widths {
        if !sparse_input && self.aggregates_features() {
            return Widths::of_input(self.d_in, input_gradient);
        }
        Widths::both(self.d_out)
    }

    fn aggregates_features(&self) -> bool {
        self.input_first
    }

    fn product_tensor(&self, sparse_input: bool) -> Option<usize> {
        (sparse_input || !self.input_first).then_some(WEIGHT)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x;
        if let Some(dense) = x.dense().filter(|_| self.aggregates_features()) {
            let ax = site.aggregate_input(&x, dense)?;
            let y = site.linear(&[Term::plain(&ax, &site.w[WEIGHT])], site.then(BIAS, after));
            let aggregated = Some(ax);
            return Ok((
                y.into(),
                Saved {
                    aggregated,
                    ..Saved::input(x)
                },
            ));
        }
        let z = site.product(&x, WEIGHT);
        let mut y = site.aggregate(&z)?;
        drop(z);
        site.cx.backend.then(site.then(BIAS, after), &mut y);
        Ok((y.into(), Saved::input(x)))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        if let Some(ax) = saved.aggregated {
            let g = Rc::new(grad.g);
            let (gw, gb) = site.weight_and_bias_gradient([WEIGHT, BIAS], &ax, &g);
            drop(ax);
            let Some(then) = input else {
                return Ok((vec![gw, gb], None));
            };
            let gax = site.linear(&[Term::right_t(&g, &site.w[WEIGHT])], Then::default());
            drop(g);
            let mut gx = site.aggregate(&gax)?;
            site.cx.backend.then(then, &mut gx);
            return Ok((vec![gw, gb], Some(gx.into())));
        }
        let (weights, gz) = self.of_product(&mut site, &saved, grad.g)?;
        let gx = input.map(|then| site.linear(&[Term::right_t(&gz, &site.w[WEIGHT])], then));
        Ok((weights, gx.map(Grad::from)))
    }

    fn in_parts(&self) -> bool {
        !self.input_first
    }

    fn backward_in_parts(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
    ) -> Result<(Weights, Products)> {
        let (weights, gz) = self.of_product(&mut site, &saved, grad.g)?;
        Ok((weights, vec![(gz, WEIGHT)]))
    }

    fn only_weights_read(&self) -> Option<[usize; 2]> {
        self.input_first.then_some([self.d_in, self.d_out])
    }

    fn backward_of_rows(&self, site: Site<'_>, saved: Saved, g: Operand<'_>) -> Weights {
        let ax = saved.aggregated.expect("kept by forward");
        let ([gw], gb) = site.weight_gradients([&ax], g);
        vec![gw, gb]
    }
}

impl Gcn {
    /// Backward of a layer that multiplies first: its tensors' gradients, and that of the product.
    fn of_product(&self, site: &mut Site<'_>, saved: &Saved, g: Mat) -> Result<(Weights, Mat)> {
        let gb = site.bias_gradient(&g);
        let gz = site.aggregate(&g)?;
        drop(g);
        let gw = saved.x().t_times(site.cx, &gz);
        Ok((vec![gw, gb], gz))
    }
}
