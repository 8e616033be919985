//! Graph convolution.
//!
//! # Paper
//! Kipf & Welling, ICLR 2017, eq. 2: `Y = Â X W + b`, `Â = D^-1/2 (A + I) D^-1/2`. The weights of
//! Â are in the block that the aggregate multiplies by.

use super::Input;
use super::conv::{Conv, Facts, Saved, Site, Weights, bias_row};
use crate::backend::Product;
use crate::error::Result;
use kernels::Mat;

const WEIGHT: usize = 0;
const BIAS: usize = 1;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Gcn {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
}

impl Conv for Gcn {
    fn facts(&self) -> Facts {
        Facts {
            linear: true,
            edge_parameters: false,
            swappable: true,
        }
    }

    fn shapes(&self) -> Vec<(&'static str, usize, usize)> {
        vec![("weight", self.d_in, self.d_out), ("bias", 1, self.d_out)]
    }

    fn aggregates_first(&self, sparse_input: bool) -> bool {
        !sparse_input && self.d_in <= self.d_out
    }

    fn forward(&self, mut site: Site<'_>, x: Input, relu: bool) -> Result<(Mat, Saved)> {
        let (mut y, aggregated) = match &x {
            Input::Dense(dense) if self.aggregates_first(false) => {
                let ax = site.aggregate(dense)?;
                (site.product(Product::Plain, &ax, &site.w[WEIGHT]), Some(ax))
            }
            _ => {
                let z = x.times(site.cx, &site.w[WEIGHT]);
                (site.aggregate(&z)?, None)
            }
        };
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
        if let Some(ax) = saved.aggregated {
            let gw = site.product(Product::LeftT, &ax, &g);
            let gx = if want_input {
                let gax = site.product(Product::RightT, &g, &site.w[WEIGHT]);
                Some(site.aggregate(&gax)?)
            } else {
                None
            };
            return Ok((vec![gw, bias], gx));
        }
        let gz = site.aggregate(&g)?;
        let gw = saved.x.t_times(site.cx, &gz);
        let gx = want_input.then(|| site.product(Product::RightT, &gz, &site.w[WEIGHT]));
        Ok((vec![gw, bias], gx))
    }
}
