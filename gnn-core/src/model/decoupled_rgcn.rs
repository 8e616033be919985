//! R-GCN's decoupled form: relation weights in the dense phase, then rounds of propagation in which
//! every relation has its own rows; the last round sums them.
//!
//! # Paper
//! NeutronTP (PVLDB 18(2), 2024) decouples R-GCN so that each relation propagates apart. With `H` behind
//! the dense layers and `L` rounds, `Y = Σ_r mean_r^L(H W_r) + H W_0 + b`; one layer is R-GCN's.
//! # Not done
//! Basis decomposition: every relation has a weight of its own.

use super::layer::{
    After, Beside, Facts, Flow, Grad, Layer, Round, Saved, Tensor, Weights, Widths,
};
use super::rgcn::check;
use super::seam::{edges_of, with_room};
use super::site::Site;
use crate::backend::{Backend, Mat, Term, Then, Write};
use crate::error::Result;
use std::rc::Rc;

const WEIGHTS: usize = 0;
const ROOT: usize = 1;
const BIAS: usize = 2;

/// The last dense layer: a row for each relation, and the vertex's own beside them.
pub(super) struct RelationDense {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
    pub(super) relations: usize,
}

impl Layer for RelationDense {
    fn d_out(&self) -> usize {
        self.relations * self.d_out
    }

    fn beside(&self) -> Beside {
        Beside::BeginsResidual(self.d_out)
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![
            Tensor::weights("weights", self.d_in, self.d_out, self.relations),
            Tensor::weight("root", self.d_in, self.d_out),
            Tensor::row("bias", self.d_out, 0.0),
        ]
    }

    fn forward(&self, site: Site<'_>, flow: Flow, _after: After<'_>) -> Result<(Flow, Saved)> {
        let z = flow.x.times(site.cx, &site.w[WEIGHTS]);
        let then = site.then(BIAS, After::default());
        let own = flow.x.times_then(site.cx, &site.w[ROOT], then);
        let mut next = Flow::from(z);
        next.h0 = Some(Rc::new(own));
        Ok((next, Saved::input(flow.x)))
    }

    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (gz, x) = (grad.g, saved.x());
        let own = Rc::new(grad.h0.expect("the last round reads the vertex's own"));
        let (g_root, gb) = site.input_gradients([ROOT, BIAS], x, &own);
        let weights = vec![x.t_times(site.cx, &gz), g_root, gb];
        let gx = input.map(|then| {
            let terms = [
                Term::right_t(&gz, &site.w[WEIGHTS]),
                Term::right_t(&own, &site.w[ROOT]),
            ];
            site.linear(&terms, then)
        });
        Ok((weights, gx.map(Grad::from)))
    }
}

/// One round on a row for each relation.
pub(super) struct RelationRound {
    pub(super) width: usize,
    pub(super) relations: usize,
    /// Whether it sums over relations and adds the vertex's own.
    pub(super) last: bool,
}

impl RelationRound {
    /// Rows of all sources, one for each relation: `[n_src · relations, width]`.
    fn pull(&self, site: &mut Site<'_>, x: &Mat) -> Result<Mat> {
        let (cx, at) = (&mut *site.cx, site.at);
        let mut edges = edges_of(&mut *site.agg, at)?;
        check(edges.block, self.relations)?;
        let n_src = edges.block.n_src;
        let mut sources = with_room(cx, x, n_src);
        let poll = &mut |cx: &mut crate::ctx::Ctx, _: &Mat| cx.comm.poll();
        edges.pull(cx, at, &mut sources, poll)?;
        Ok(sources.reshape(n_src * self.relations, self.width))
    }
}

impl Layer for RelationRound {
    fn d_out(&self) -> usize {
        if self.last {
            self.width
        } else {
            self.relations * self.width
        }
    }

    fn beside(&self) -> Beside {
        if self.last {
            Beside::ReadsResidual
        } else {
            Beside::Nothing
        }
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::RELATIONS)
    }

    fn round(&self, _backend: &dyn Backend, _w: &Weights) -> Option<Round> {
        Some(Round::Relations {
            count: self.relations,
            last: self.last,
        })
    }

    fn tensors(&self) -> Vec<Tensor> {
        Vec::new()
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.relations * self.width)
    }

    fn forward(&self, mut site: Site<'_>, flow: Flow, _after: After<'_>) -> Result<(Flow, Saved)> {
        let x = flow.x.dense().expect("follows a dense layer");
        let n = x.nrows();
        let sources = self.pull(&mut site, x)?;
        let edges = edges_of(&mut *site.agg, site.at)?;
        let backend = &site.cx.backend;
        if !self.last {
            let [a, _] = edges.block.within_relations()?;
            let mut y = backend.fresh(n * self.relations, self.width);
            backend.spmm(a, 0..a.rows(), &sources, Write::Set, &mut y);
            let y = y.reshape(n, self.relations * self.width);
            return Ok((flow.with(y), Saved::default()));
        }
        let [a, _] = edges.block.by_relation()?;
        let mut y = backend.fresh(n, self.width);
        backend.spmm(a, 0..n, &sources, Write::Set, &mut y);
        let own = flow.h0.as_ref().expect("the last dense layer made it");
        backend.axpby(1.0, own, 1.0, &mut y);
        Ok((y.into(), Saved::default()))
    }

    fn backward(
        &self,
        site: Site<'_>,
        _saved: Saved,
        grad: Grad,
        _input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (cx, at) = (&mut *site.cx, site.at);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let (n, n_src) = (edges.block.n_dst, edges.block.n_src);
        let mut parts = cx.backend.fresh(n_src * self.relations, self.width);
        let (t, g, h0) = if self.last {
            let [_, t] = edges.block.by_relation()?;
            let own = cx.backend.copy(&grad.g);
            (t, grad.g, Some(own))
        } else {
            let [_, t] = edges.block.within_relations()?;
            let g = grad.g.reshape(n * self.relations, self.width);
            (t, g, grad.h0)
        };
        cx.backend.spmm(t, 0..t.rows(), &g, Write::Set, &mut parts);
        let mut gx = parts.reshape(n_src, self.relations * self.width);
        let poll = &mut |cx: &mut crate::ctx::Ctx, _: &mut Mat| cx.comm.poll();
        edges.push(cx, at, &mut gx, poll)?;
        let mut grad = Grad::from(if n == n_src { gx } else { gx.truncate(n) });
        grad.h0 = h0;
        Ok((Weights::new(), Some(grad)))
    }
}
