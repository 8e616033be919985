//! GraphSAGE with mean aggregation.
//!
//! # Paper
//! Hamilton, Ying & Leskovec, NeurIPS 2017, algorithm 1 with the mean aggregator in its
//! two-matrix form: `Y = X W_self + mean_{u∈N(v)}(x_u) W_neigh + b`. A vertex without in-neighbours
//! has the mean 0.

use super::conv::{Conv, Facts, Saved, Weights};
use super::gcn::{row, row_mut};
use super::{Aggregate, At, Input};
use crate::backend::{Product, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
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
                let mean = agg.aggregate(cx, at, dense)?;
                let mut y = Mat::zeros((mean.nrows(), self.d_out));
                cx.backend
                    .gemm(Product::Plain, &mean, &w[W_NEIGH], Write::Set, &mut y);
                cx.backend
                    .gemm(Product::Plain, dense, &w[W_SELF], Write::Add, &mut y);
                (y, Some(mean))
            }
            Input::Dense(dense) => {
                let z = x.times(cx, &w[W_NEIGH]);
                let mut y = agg.aggregate(cx, at, &z)?;
                cx.backend
                    .gemm(Product::Plain, dense, &w[W_SELF], Write::Add, &mut y);
                (y, None)
            }
            Input::Sparse(_) => {
                let z = x.times(cx, &w[W_NEIGH]);
                let mut y = agg.aggregate(cx, at, &z)?;
                y += &x.times(cx, &w[W_SELF]);
                (y, None)
            }
        };
        cx.backend.bias(&mut y, row(&w[BIAS]), relu);
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
        let g_self = saved.x.t_times(cx, &g);
        let back = |cx: &mut Ctx, g: &Mat, w: &Mat| {
            let mut gx = Mat::zeros((g.nrows(), self.d_in));
            cx.backend.gemm(Product::RightT, g, w, Write::Set, &mut gx);
            gx
        };
        if let Some(mean) = saved.aggregated {
            let mut g_neigh = Mat::zeros((self.d_in, self.d_out));
            cx.backend
                .gemm(Product::LeftT, &mean, &g, Write::Set, &mut g_neigh);
            let gx = if want_input {
                let g_mean = back(cx, &g, &w[W_NEIGH]);
                let mut gx = agg.aggregate(cx, at, &g_mean)?;
                cx.backend
                    .gemm(Product::RightT, &g, &w[W_SELF], Write::Add, &mut gx);
                Some(gx)
            } else {
                None
            };
            return Ok((vec![g_self, g_neigh, bias], gx));
        }
        let gz = agg.aggregate(cx, at, &g)?;
        let g_neigh = saved.x.t_times(cx, &gz);
        let gx = want_input.then(|| {
            let mut gx = back(cx, &gz, &w[W_NEIGH]);
            cx.backend
                .gemm(Product::RightT, &g, &w[W_SELF], Write::Add, &mut gx);
            gx
        });
        Ok((vec![g_self, g_neigh, bias], gx))
    }
}
