//! Graph attention network.
//!
//! # Paper
//! Veličković et al., "Graph attention networks", ICLR 2018, eqs. 3–6,
//! <https://arxiv.org/abs/1710.10903>: `Z = X W`, and every head sums its columns of the sources'
//! `Z` by softmax over the in-edges (a self loop among them) of
//! `LeakyReLU(⟨a_src, z_u⟩ + ⟨a_dst, z_v⟩)`. Heads are concatenated, those of the last layer
//! averaged. Coefficients are dropped by `attention_dropout`.

use super::attention::{self, Heads, Kept};
use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::site::Site;
use crate::backend::{Mat, Term, Then};
use crate::error::Result;
use crate::rng::Purpose;
use std::cell::OnceCell;

const WEIGHT: usize = 0;
const SRC: usize = 1;
const DST: usize = 2;
const BIAS: usize = 3;

/// A layer of width `d_in` to `heads` heads of `width`.
pub(super) struct Gat {
    d_in: usize,
    heads: usize,
    width: usize,
    /// Heads are averaged, not concatenated.
    averages: bool,
    dropout: f32,
    /// Sums heads and divides by their number: `[heads · width, width]`.
    average: OnceCell<Mat>,
}

impl Gat {
    /// A layer whose heads are averaged, or concatenated.
    pub(super) fn new(
        d_in: usize,
        (heads, width): (usize, usize),
        averages: bool,
        dropout: f32,
    ) -> Gat {
        Gat {
            d_in,
            heads,
            width,
            averages: averages && heads > 1,
            dropout,
            average: OnceCell::new(),
        }
    }

    /// Heads with the dropout of this epoch and layer.
    fn heads(&self, site: &Site<'_>) -> Heads {
        let drops = site.trains() && self.dropout > 0.0;
        Heads {
            heads: self.heads,
            dropout: drops.then(|| (site.key(Purpose::Attention), self.dropout)),
        }
    }

    fn average(&self, site: &Site<'_>) -> &Mat {
        self.average.get_or_init(|| {
            let shape = (self.heads * self.width, self.width);
            let share = 1.0 / self.heads as f32;
            let host =
                kernels::Mat::from_shape_fn(
                    shape,
                    |(r, c)| {
                        if r % self.width == c { share } else { 0.0 }
                    },
                );
            site.cx.backend.upload(host)
        })
    }
}

impl Layer for Gat {
    fn d_out(&self) -> usize {
        if self.averages {
            self.width
        } else {
            self.heads * self.width
        }
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::ATTENTION)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::weight("weight", self.d_in, self.heads * self.width),
            Tensor::weight("att_src", self.heads, self.width),
            Tensor::weight("att_dst", self.heads, self.width),
            Tensor::row("bias", self.d_out(), 0.0),
        ]
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.heads * self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let heads = self.heads(&site);
        let w = site.w;
        let z = flow.x.times(site.cx, &w[WEIGHT]);
        let vectors = (&w[SRC], &w[DST]);
        let kept = attention::forward(&mut site, heads, z, vectors)?;
        let then = site.then(BIAS, after);
        let y = if self.averages {
            site.linear(&[Term::plain(&kept.out, self.average(&site))], then)
        } else {
            let (n, d) = kept.out.dim();
            let mut y = site.cx.backend.fresh(n, d);
            site.cx.backend.then_of(then, &kept.out, &mut y);
            y
        };
        let saved = Saved {
            more: kept.into_list(),
            ..Saved::input(flow.x.clone())
        };
        Ok((y.into(), saved))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let gb = site.bias_gradient(&grad.g);
        let mut g = grad.g;
        if self.averages {
            let average = self.average(&site);
            g = site.linear(&[Term::right_t(&g, average)], Then::default());
        }
        let (heads, w) = (self.heads(&site), site.w);
        let kept = Kept::from_list(saved.more);
        let vectors = (&w[SRC], &w[DST]);
        let back = attention::backward(&mut site, heads, kept, vectors, &g)?;
        drop(g);
        let (d_src, d_dst) = back.vectors;
        let x = saved.x.expect("kept by forward");
        let gw = x.t_times(site.cx, &back.dz);
        let gx = input.map(|then| site.linear(&[Term::right_t(&back.dz, &w[WEIGHT])], then));
        Ok((vec![gw, d_src, d_dst, gb], gx.map(Grad::from)))
    }
}
