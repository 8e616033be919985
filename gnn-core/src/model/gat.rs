//! Graph attention network.
//!
//! # Paper
//! Veličković et al., "Graph attention networks", ICLR 2018, eqs. 3–6,
//! <https://arxiv.org/abs/1710.10903>: `Z = X W`, and every head sums its columns of the sources'
//! `Z` by softmax over the in-edges (a self loop among them) of
//! `LeakyReLU(⟨a_src, z_u⟩ + ⟨a_dst, z_v⟩)`. Heads are concatenated, those of the last layer
//! averaged. Coefficients are dropped by `attention_dropout`.

use super::attention::{self, Heads, Kept, Vectors};
use super::layer::{
    After, Beside, Facts, Flow, Grad, Layer, Round, Saved, Tensor, Weights, Widths,
};
use super::site::Site;
use crate::backend::{Backend, Mat, Term, Then};
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

    fn heads(&self, site: &Site<'_>) -> Heads {
        heads(site, self.heads, self.dropout)
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

/// Heads with the dropout of this epoch and layer.
pub(super) fn heads(site: &Site<'_>, heads: usize, dropout: f32) -> Heads {
    let drops = site.trains() && dropout > 0.0;
    Heads {
        heads,
        dropout: drops.then(|| (site.key(Purpose::Attention), dropout)),
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
        let by = Vectors::Rows(&w[SRC], &w[DST]);
        let kept = attention::forward(&mut site, heads, z, by)?;
        let then = site.then(BIAS, after);
        let y = if self.averages {
            site.linear(&[Term::plain(&kept.out, self.average(&site))], then)
        } else {
            let mut y = site.cx.backend.copy(&kept.out);
            site.cx.backend.then(then, &mut y);
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
        let vectors = Some((&w[SRC], &w[DST]));
        let back = attention::backward(&mut site, heads, kept, vectors, None, &g)?;
        drop(g);
        let (d_src, d_dst) = back.vectors.expect("vectors were given");
        let x = saved.x.expect("kept by forward");
        let gw = x.t_times(site.cx, &back.dz);
        let gx = input.map(|then| site.linear(&[Term::right_t(&back.dz, &w[WEIGHT])], then));
        Ok((vec![gw, d_src, d_dst, gb], gx.map(Grad::from)))
    }
}

/// Attention vectors of a decoupled stack's first round.
const FIRST_SRC: usize = 0;
const FIRST_DST: usize = 1;

/// A round of propagation with one head whose scores come from the rows of the first round:
/// attention is computed once, behind the dense layers.
pub(super) struct AttentionRound {
    pub(super) width: usize,
    /// Whether it is the one that makes the scores.
    pub(super) first: bool,
    pub(super) dropout: f32,
}

impl Layer for AttentionRound {
    fn d_out(&self) -> usize {
        self.width
    }

    fn beside(&self) -> Beside {
        if self.first {
            Beside::Nothing
        } else {
            Beside::ReadsScores
        }
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::ATTENTION)
    }

    fn round(&self, _backend: &dyn Backend, _w: &Weights) -> Option<Round> {
        let dropout = self.dropout;
        Some(Round::Attention { dropout })
    }

    fn tensors(&self) -> Vec<Tensor> {
        if !self.first {
            return Vec::new();
        }
        vec![
            Tensor::weight("att_src", 1, self.width),
            Tensor::weight("att_dst", 1, self.width),
        ]
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let heads = heads(&site, 1, self.dropout);
        let w = site.w;
        let by = match flow.scores {
            Some(scores) if !self.first => Vectors::Known(scores),
            _ => Vectors::Rows(&w[FIRST_SRC], &w[FIRST_DST]),
        };
        let x = site
            .cx
            .backend
            .copy(flow.x.dense().expect("follows a dense layer"));
        let kept = attention::forward(&mut site, heads, x, by)?;
        let mut y = site.cx.backend.copy(&kept.out);
        site.cx.backend.then(after.then(), &mut y);
        let mut next = Flow::from(y);
        next.scores = Some(kept.scores.clone());
        let more = kept.into_list();
        Ok((
            next,
            Saved {
                more,
                ..Saved::default()
            },
        ))
    }

    fn backward(
        &self,
        mut site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (heads, w) = (heads(&site, 1, self.dropout), site.w);
        let kept = Kept::from_list(saved.more);
        let vectors = self.first.then(|| (&w[FIRST_SRC], &w[FIRST_DST]));
        let back = attention::backward(&mut site, heads, kept, vectors, grad.scores, &grad.g)?;
        let mut gx = back.dz;
        if let Some(then) = input {
            site.cx.backend.then(then, &mut gx);
        }
        let weights = back
            .vectors
            .map_or_else(Vec::new, |(src, dst)| vec![src, dst]);
        let mut grad = Grad::from(gx);
        grad.scores = back.scores;
        Ok((weights, Some(grad)))
    }
}
