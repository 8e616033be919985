//! GAT's decoupled form: rounds of propagation by coefficients that are made once, behind the dense
//! layers.
//!
//! # Paper
//! "Generalised decoupling" of NeutronTP (PVLDB 18(2), 2024), section 4.1: edge attention is made from
//! the rows before the first round. Each round has `Y = mean_h(α_h) X` ([`super::coefficients`]).

use super::coefficients::{self, Made};
use super::layer::{
    After, Beside, Facts, Flow, Grad, Layer, Round, Saved, Tensor, Weights, Widths,
};
use super::seam::{Edges, edges_of, in_pieces, with_room};
use super::site::Site;
use crate::backend::{Backend, Dropout, Kept, Mat, Term, Then, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::rng::Purpose;
use std::rc::Rc;

/// Attention vectors of the first round, `[heads, width]` each.
const SRC: usize = 0;
const DST: usize = 1;

/// A round of propagation by the mean of several heads' coefficients.
pub(super) struct AttentionRound {
    pub(super) width: usize,
    pub(super) heads: usize,
    /// Whether it is the one that makes the coefficients.
    pub(super) first: bool,
    pub(super) dropout: f32,
}

impl AttentionRound {
    /// Key and probability of what this epoch drops in this round.
    fn drops(&self, site: &Site<'_>) -> Option<(u64, f32)> {
        let drops = site.trains() && self.dropout > 0.0;
        drops.then(|| (site.key(Purpose::Attention), self.dropout))
    }
}

fn dropout<'a>(edges: &Edges<'a>, drops: Option<(u64, f32)>) -> Option<Dropout<'a>> {
    let ids = edges.ids;
    drops.map(|(key, p)| Dropout { key, ids, p })
}

/// The first `n` rows of `x`; `x` itself where it has no more.
fn first_rows(cx: &Ctx, x: &Rc<Mat>, n: usize) -> Rc<Mat> {
    if x.nrows() == n {
        return Rc::clone(x);
    }
    Rc::new(cx.backend.rows(x, 0..n))
}

/// Adds the product of `a` and `b` to all rows of `out`.
fn add_product(cx: &Ctx, a: &Mat, b: &Mat, out: &mut Mat) {
    let terms = [Term::plain(a, b)];
    cx.backend.linear(&terms, Write::Add, Then::default(), out);
}

impl Layer for AttentionRound {
    fn d_out(&self) -> usize {
        self.width
    }

    fn beside(&self) -> Beside {
        if self.first {
            Beside::Nothing
        } else {
            Beside::ReadsCoefficients
        }
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::ATTENTION)
    }

    fn round(&self, _backend: &dyn Backend, _w: &Weights) -> Option<Round> {
        let (heads, dropout) = (self.heads, self.dropout);
        Some(Round::Attention { heads, dropout })
    }

    fn tensors(&self) -> Vec<Tensor> {
        if !self.first {
            return Vec::new();
        }
        vec![
            Tensor::weight("att_src", self.heads, self.width),
            Tensor::weight("att_dst", self.heads, self.width),
        ]
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width)
    }

    /// The first round's sums wait for all rows, since coefficients do; the others' interior rows are
    /// summed while rows travel.
    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let drops = self.drops(&site);
        let Site { cx, agg, at, w, .. } = site;
        let mut edges = edges_of(agg, at)?;
        let (a, drop) = (edges.block.edges(), dropout(&edges, drops));
        let (n, n_src) = (edges.block.n_dst, edges.block.n_src);
        let x = flow.x.dense().expect("follows a dense layer");
        let alone = cx.size() == 1 || edges.all_here();
        let mut y = cx.backend.fresh(n, self.width);
        let known = flow.coefficients.filter(|_| !self.first);
        let mut values = known
            .as_ref()
            .map(|alpha| coefficients::mean(cx, a, alpha, drop));
        let mut from = 0;
        let sources = if alone {
            Rc::clone(x)
        } else {
            let mut sources = with_room(cx, x, n_src);
            let interior = edges.n_interior;
            edges.pull(cx, at, &mut sources, &mut |cx, x| {
                let Some(values) = &values else {
                    return cx.comm.poll();
                };
                from = interior;
                in_pieces(cx, a, 0..interior, |cx, rows| {
                    cx.backend.spmm_values(a, values, rows, x, &mut y);
                })
            })?;
            Rc::new(sources)
        };
        let mut more = Vec::new();
        let alpha = known.unwrap_or_else(|| {
            let el = Rc::new(coefficients::scores(cx, &sources, &w[SRC]));
            let own = first_rows(cx, &sources, n);
            let er = Rc::new(coefficients::scores(cx, &own, &w[DST]));
            let alpha = coefficients::make(cx, a, &el, &er);
            more.extend([el, er]);
            Rc::new(alpha)
        });
        let values = values.get_or_insert_with(|| coefficients::mean(cx, a, &alpha, drop));
        cx.backend.spmm_values(a, values, from..n, &sources, &mut y);
        cx.backend.then(after.then(), &mut y);
        more.extend([sources, Rc::clone(&alpha)]);
        let mut next = Flow::from(y);
        next.coefficients = Some(alpha);
        let saved = Saved {
            more,
            ..Saved::default()
        };
        Ok((next, saved))
    }

    fn backward(
        &self,
        site: Site<'_>,
        mut saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let drops = self.drops(&site);
        let Site { cx, agg, at, w, .. } = site;
        let mut edges = edges_of(agg, at)?;
        let (block, drop) = (edges.block, dropout(&edges, drops));
        let (a, t, g) = (block.edges(), block.edges_t(), grad.g);
        let (n, n_src) = (block.n_dst, block.n_src);
        let mut kept = || saved.more.pop().expect("kept by forward");
        let (alpha, sources) = (kept(), kept());
        let mut dots = cx.backend.fresh(1, a.n_edges());
        cx.backend.edge_dots(a, &g, &sources, &mut dots);
        let mut dalpha = grad
            .coefficients
            .unwrap_or_else(|| cx.backend.zeros(a.n_edges(), self.heads));
        coefficients::add_gradient(cx, a, &dots, drop, &mut dalpha);
        let values = coefficients::mean(cx, a, &alpha, drop);
        let values = coefficients::transposed(cx, &values, block.t_of()?);
        let mut gx = cx.backend.fresh(n_src, self.width);
        let mut weights = Weights::new();
        if self.first {
            let (er, el) = (kept(), kept());
            let made = Made {
                el: &el,
                er: &er,
                alpha: &alpha,
            };
            let (del, der) = coefficients::backward(cx, a, &made, &dalpha);
            cx.backend.spmm_values(t, &values, 0..n_src, &g, &mut gx);
            add_product(cx, &del, &w[SRC], &mut gx);
            if n == n_src {
                add_product(cx, &der, &w[DST], &mut gx);
            } else {
                let mut of_own = cx.backend.zeros(n, self.width);
                add_product(cx, &der, &w[DST], &mut of_own);
                let first: Kept<u32> = (0..n as u32).collect::<Vec<_>>().into();
                cx.backend.scatter_add_rows(&of_own, &first, &mut gx);
            }
            edges.push(cx, at, &mut gx, &mut |cx, _| {
                let own = first_rows(cx, &sources, n);
                for (ds, x) in [(&del, &sources), (&der, &own)] {
                    let mut da = cx.backend.fresh(self.heads, self.width);
                    cx.backend.weight_gradient(ds, x, &mut da, None);
                    weights.push(da);
                }
                cx.comm.poll()
            })?;
        } else {
            // Remote rows first: they travel while the local ones are computed.
            cx.backend.spmm_values(t, &values, n..n_src, &g, &mut gx);
            edges.push(cx, at, &mut gx, &mut |cx, gx| {
                in_pieces(cx, t, 0..n, |cx, rows| {
                    cx.backend.spmm_values(t, &values, rows, &g, gx);
                })
            })?;
        }
        if n < n_src && !edges.all_here() {
            gx = gx.truncate(n);
        }
        if let Some(then) = input {
            cx.backend.then(then, &mut gx);
        }
        let mut grad = Grad::from(gx);
        grad.coefficients = (!self.first).then_some(dalpha);
        Ok((weights, Some(grad)))
    }
}
