//! LayerNorm, ReLU and dropout in front of a layer: what pre-activation layers share.
//!
//! # Paper
//! Ba, Kiros & Hinton, "Layer normalization", 2016, <https://arxiv.org/abs/1607.06450>.

use super::Input;
use super::layer::{Saved, Tensor, Weights};
use super::site::Site;
use crate::backend::{Act, Mat, Normed, Then};
use std::rc::Rc;

const GAIN: usize = 0;
const SHIFT: usize = 1;

/// Matrices in [`Saved::more`] after [`forward`].
pub(super) const KEPT: usize = 1;

/// The first tensors of such a layer of width `d`.
pub(super) fn tensors(d: usize) -> [Tensor; 2] {
    [Tensor::row("gain", d, 1.0), Tensor::row("shift", d, 0.0)]
}

/// `dropout(ReLU(LayerNorm(x)))`, `[n_local, d]`, and what backward needs of it.
pub(super) fn forward(site: &Site<'_>, x: Input) -> (Mat, Saved) {
    let backend = &site.cx.backend;
    let dense = x.dense().expect("a layer of its own width follows a layer");
    let mut t = backend.fresh(dense.nrows(), dense.ncols());
    let mut stats = backend.fresh(dense.nrows(), 2);
    backend.layer_norm(dense, &site.w[GAIN], &site.w[SHIFT], &mut stats, &mut t);
    let then = Then {
        act: Act::Relu,
        dropout: site.inside,
        ..Then::default()
    };
    backend.then(then, &mut t);
    let more = vec![Rc::new(stats)];
    (
        t,
        Saved {
            more,
            ..Saved::input(x)
        },
    )
}

/// What turns the gradient of `t`, the result of [`forward`], into that of LayerNorm's output.
pub(super) fn gate<'a>(site: &Site<'_>, t: &'a Mat) -> Then<'a> {
    Then::relu_gate(t, site.inside.map_or(1.0, |d| 1.0 / (1.0 - d.p)))
}

/// From the gradient of LayerNorm's output to those of gain and shift, and the input's.
pub(super) fn backward(site: &Site<'_>, saved: &Saved, g: Mat) -> (Weights, Mat) {
    let backend = &site.cx.backend;
    let x = saved.x().dense().expect("checked in forward");
    let mut gain = backend.fresh(1, g.ncols());
    let mut shift = backend.fresh(1, g.ncols());
    let mut gx = backend.fresh(g.nrows(), g.ncols());
    backend.layer_norm_backward(
        Normed {
            x,
            gain: &site.w[GAIN],
            stats: &saved.more[0],
        },
        &g,
        &mut gx,
        &mut gain,
        &mut shift,
    );
    (vec![gain, shift], gx)
}
