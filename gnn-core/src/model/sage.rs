//! GraphSAGE with mean aggregation.
//!
//! # Paper
//! Hamilton, Ying & Leskovec, NeurIPS 2017, algorithm 1 with the mean aggregator in its
//! two-matrix form: `Y = X W_self + mean_{u∈N(v)}(x_u) W_neigh + b`. A vertex without in-neighbours
//! has the mean 0.

use super::layer::{After, Facts, Flow, Grad, Layer, Products, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Mat, Operand, Term, Then};
use crate::error::Result;
use std::rc::Rc;

const W_SELF: usize = 0;
const W_NEIGH: usize = 1;
const BIAS: usize = 2;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Sage {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
    /// Whether a dense input is aggregated, or its product.
    pub(super) input_first: bool,
}

impl Layer for Sage {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::FIXED_WEIGHTS)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::weight("weight_self", self.d_in, self.d_out),
            Tensor::weight("weight_neigh", self.d_in, self.d_out),
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
        (sparse_input || !self.input_first).then_some(W_NEIGH)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x;
        let then = site.then(BIAS, after);
        if let Some(dense) = x.dense().filter(|_| self.aggregates_features()) {
            let mean = site.aggregate_input(&x, dense)?;
            let own = site.first_rows(dense, mean.nrows());
            let terms = [
                Term::plain(&mean, &site.w[W_NEIGH]),
                Term::plain(&own, &site.w[W_SELF]),
            ];
            let y = site.linear(&terms, then);
            let saved = Saved {
                aggregated: Some(mean),
                ..Saved::input(x)
            };
            return Ok((y.into(), saved));
        }
        let z = site.product(&x, W_NEIGH);
        let mut y = site.aggregate(&z)?;
        drop(z);
        let own = x.first_rows(site.cx, y.nrows());
        own.add_times(site.cx, &site.w[W_SELF], then, &mut y);
        Ok((y.into(), Saved::input(x)))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        mut saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let g = Rc::new(grad.g);
        let mean = saved.aggregated.take();
        let x = saved.x();
        if let Some((mean, dense)) = mean.zip(x.dense()) {
            let own = site.first_rows(dense, g.nrows());
            let of = ([W_SELF, W_NEIGH], BIAS);
            let ([g_self, g_neigh], gb) = site.gradients_of(of, [&own, &mean], &g);
            drop((own, mean));
            let Some(then) = input else {
                return Ok((vec![g_self, g_neigh, gb], None));
            };
            let g_mean = site.linear(&[Term::right_t(&g, &site.w[W_NEIGH])], Then::default());
            let mut gx = site.aggregate(&g_mean)?;
            drop(g_mean);
            site.add_to_first_rows(Term::right_t(&g, &site.w[W_SELF]), then, &mut gx);
            return Ok((vec![g_self, g_neigh, gb], Some(gx.into())));
        }
        let (weights, gz, g) = self.of_product(&mut site, &saved, g)?;
        let gx = input.map(|then| {
            let terms = [
                Term::right_t(&gz, &site.w[W_NEIGH]),
                Term::right_t(&g, &site.w[W_SELF]),
            ];
            site.sum_of_terms(terms, then)
        });
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
        let (weights, gz, g) = self.of_product(&mut site, &saved, Rc::new(grad.g))?;
        // Nothing is put off where a gradient is not made whole.
        let g = Rc::into_inner(g).expect("held once");
        Ok((weights, vec![(gz, W_NEIGH), (g, W_SELF)]))
    }

    fn only_weights_read(&self) -> Option<[usize; 2]> {
        self.input_first.then_some([2 * self.d_in, self.d_out])
    }

    fn backward_of_rows(&self, site: Site<'_>, saved: Saved, g: Operand<'_>) -> Weights {
        let x = saved.x().dense().expect("aggregated by forward");
        let mean = saved.aggregated.as_ref().expect("kept by forward");
        let own = site.first_rows(x, g.dim().0);
        let ([g_self, g_neigh], gb) = site.weight_gradients([&own, mean], g);
        vec![g_self, g_neigh, gb]
    }
}

impl Sage {
    /// Backward of a layer that multiplies first: its tensors' gradients, and those of the product and
    /// of the layer's output.
    fn of_product(
        &self,
        site: &mut Site<'_>,
        saved: &Saved,
        g: Rc<Mat>,
    ) -> Result<(Weights, Mat, Rc<Mat>)> {
        let x = saved.x();
        let gz = site.aggregate(&g)?;
        let g_neigh = x.t_times(site.cx, &gz);
        let own = x.first_rows(site.cx, g.nrows());
        let (g_self, gb) = site.input_gradients([W_SELF, BIAS], &own, &g);
        Ok((vec![g_self, g_neigh, gb], gz, g))
    }
}
