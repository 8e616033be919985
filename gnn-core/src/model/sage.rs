//! GraphSAGE with mean aggregation.
//!
//! # Paper
//! Hamilton, Ying & Leskovec, NeurIPS 2017, algorithm 1 with the mean aggregator in its
//! two-matrix form: `Y = X W_self + mean_{u∈N(v)}(x_u) W_neigh + b`. A vertex without in-neighbours
//! has the mean 0.

use super::Input;
use super::conv::{Conv, Facts, Saved, Site, Weights, bias_row};
use crate::backend::{Product, Write};
use crate::error::Result;
use kernels::Mat;

const W_SELF: usize = 0;
const W_NEIGH: usize = 1;
const BIAS: usize = 2;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Sage {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
}

impl Conv for Sage {
    fn facts(&self) -> Facts {
        Facts {
            linear: true,
            edge_parameters: false,
            swappable: true,
        }
    }

    fn shapes(&self) -> Vec<(&'static str, usize, usize)> {
        vec![
            ("weight_self", self.d_in, self.d_out),
            ("weight_neigh", self.d_in, self.d_out),
            ("bias", 1, self.d_out),
        ]
    }

    fn aggregates_first(&self, sparse_input: bool) -> bool {
        !sparse_input && self.d_in <= self.d_out
    }

    fn forward(&self, mut site: Site<'_>, x: Input, relu: bool) -> Result<(Mat, Saved)> {
        let (mut y, aggregated) = match &x {
            Input::Dense(dense) if self.aggregates_first(false) => {
                let mean = site.aggregate(dense)?;
                (
                    site.product(Product::Plain, &mean, &site.w[W_NEIGH]),
                    Some(mean),
                )
            }
            _ => {
                let z = x.times(site.cx, &site.w[W_NEIGH]);
                (site.aggregate(&z)?, None)
            }
        };
        x.add_times(site.cx, &site.w[W_SELF], &mut y);
        site.cx.backend.bias(&mut y, bias_row(&site.w[BIAS]), relu);
        Ok((y, Saved { x, aggregated }))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        g: Mat,
        want_input: bool,
    ) -> Result<(Weights, Option<Mat>)> {
        let bias = site.bias_gradient(&g);
        let g_self = saved.x.t_times(site.cx, &g);
        let mut gx = None;
        let g_neigh = if let Some(mean) = saved.aggregated {
            if want_input {
                let g_mean = site.product(Product::RightT, &g, &site.w[W_NEIGH]);
                gx = Some(site.aggregate(&g_mean)?);
            }
            site.product(Product::LeftT, &mean, &g)
        } else {
            let gz = site.aggregate(&g)?;
            gx = want_input.then(|| site.product(Product::RightT, &gz, &site.w[W_NEIGH]));
            saved.x.t_times(site.cx, &gz)
        };
        if let Some(gx) = &mut gx {
            site.cx
                .backend
                .gemm(Product::RightT, &g, &site.w[W_SELF], Write::Add, gx);
        }
        Ok((vec![g_self, g_neigh, bias], gx))
    }
}
