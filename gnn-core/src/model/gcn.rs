//! Graph convolution.
//!
//! # Paper
//! Kipf & Welling, ICLR 2017, eq. 2: `Y = Â X W + b`, `Â = D^-1/2 (A + I) D^-1/2`. The weights of
//! Â are in the block that the aggregate multiplies by.

use super::conv::{Conv, Facts, Saved, Weights};
use super::{Aggregate, At, Input};
use crate::backend::{Product, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use kernels::Mat;

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

    fn forward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        at: At,
        w: &Weights,
        x: Input,
        relu: bool,
    ) -> Result<(Mat, Saved)> {
        let (mut y, aggregated) = match &x {
            Input::Dense(dense) if self.aggregates_first(false) => {
                let ax = agg.aggregate(cx, at, dense)?;
                let mut y = Mat::zeros((ax.nrows(), self.d_out));
                cx.backend
                    .gemm(Product::Plain, &ax, &w[0], Write::Set, &mut y);
                (y, Some(ax))
            }
            _ => {
                let z = x.times(cx, &w[0]);
                (agg.aggregate(cx, at, &z)?, None)
            }
        };
        cx.backend.bias(&mut y, row(&w[1]), relu);
        Ok((y, Saved { x, aggregated }))
    }

    fn backward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        at: At,
        w: &Weights,
        saved: Saved,
        g: Mat,
        want_input: bool,
    ) -> Result<(Weights, Option<Mat>)> {
        let at = At {
            direction: Direction::Backward,
            ..at
        };
        let mut bias = Mat::zeros((1, self.d_out));
        cx.backend.column_sums(&g, row_mut(&mut bias));
        let input_gradient = |cx: &mut Ctx, g: &Mat| {
            let mut gx = Mat::zeros((g.nrows(), self.d_in));
            cx.backend
                .gemm(Product::RightT, g, &w[0], Write::Set, &mut gx);
            gx
        };
        if let Some(ax) = saved.aggregated {
            let mut gw = Mat::zeros((self.d_in, self.d_out));
            cx.backend
                .gemm(Product::LeftT, &ax, &g, Write::Set, &mut gw);
            let gx = if want_input {
                let gax = input_gradient(cx, &g);
                Some(agg.aggregate(cx, at, &gax)?)
            } else {
                None
            };
            return Ok((vec![gw, bias], gx));
        }
        let gz = agg.aggregate(cx, at, &g)?;
        let gw = saved.x.t_times(cx, &gz);
        let gx = want_input.then(|| input_gradient(cx, &gz));
        Ok((vec![gw, bias], gx))
    }
}

/// The one row of a bias.
pub(super) fn row(bias: &Mat) -> &[f32] {
    bias.as_slice().expect("biases are made in standard layout")
}

/// The one row of a bias, mutable.
pub(super) fn row_mut(bias: &mut Mat) -> &mut [f32] {
    bias.as_slice_mut()
        .expect("biases are made in standard layout")
}
