//! Relational graph convolution with basis decomposition.
//!
//! # Paper
//! Schlichtkrull et al., "Modeling relational data with graph convolutional networks", ESWC 2018,
//! eqs. 2 and 3, <https://arxiv.org/abs/1703.06103>: `Y = Σ_r mean_r(X) W_r + X W_0 + b`, where
//! `mean_r` runs over a vertex's in-neighbours by relation `r` and `W_r = Σ_b coef[r, b] V_b`. With
//! `bases = 0` every relation has a weight of its own.
//!
//! Products come first: `Z = X [V_1 … V_B]` has all bases of a row side by side. One pass over the
//! edges takes each relation's share of them; with a weight for each relation, an edge reads just
//! its own relation's part.
//! # Not done
//! Block-diagonal decomposition.

use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::seam::{edges_of, with_room};
use super::site::Site;
use crate::backend::{Term, Then, Typed, Write};
use crate::error::{Error, Result};
use crate::graph::Block;
use std::rc::Rc;

const BASIS: usize = 0;
/// The shares, where relations share bases; `root` and `bias` follow.
const COEF: usize = 1;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Rgcn {
    d_in: usize,
    d_out: usize,
    relations: usize,
    bases: usize,
}

impl Rgcn {
    /// `bases = 0` means one for each relation.
    pub(super) fn new(d_in: usize, d_out: usize, relations: usize, bases: usize) -> Rgcn {
        Rgcn {
            d_in,
            d_out,
            relations,
            bases,
        }
    }

    fn n_bases(&self) -> usize {
        if self.bases == 0 {
            self.relations
        } else {
            self.bases
        }
    }

    /// Columns of all bases of a row.
    fn width(&self) -> usize {
        self.n_bases() * self.d_out
    }

    fn root(&self) -> usize {
        if self.bases == 0 { COEF } else { COEF + 1 }
    }

    /// The block's edges with their relations and shares, in its own order or the transposed.
    fn typed<'a>(&self, block: &'a Block, transposed: bool, w: &'a Weights) -> Typed<'a> {
        let (a, types) = if transposed {
            (block.edges_t(), block.types_t())
        } else {
            (block.edges(), block.types())
        };
        let types = types.expect("checked where the layer begins");
        let coef = &w[COEF];
        Typed { a, types, coef }
    }
}

/// Refuses a block of other relations than the weights are for.
pub(super) fn check(block: &Block, relations: usize) -> Result<()> {
    if block.n_relations() == relations {
        return Ok(());
    }
    Err(Error::Shape {
        op: "rgcn".into(),
        expected: format!("edges of {relations} relations"),
        got: block.n_relations().to_string(),
    })
}

impl Layer for Rgcn {
    fn d_out(&self) -> usize {
        self.d_out
    }

    fn facts(&self) -> Option<Facts> {
        Some(Facts::RELATIONS)
    }

    fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = vec![Tensor::weights(
            "basis",
            self.d_in,
            self.d_out,
            self.n_bases(),
        )];
        if self.bases > 0 {
            tensors.push(Tensor::weight("coef", self.relations, self.bases));
        }
        tensors.push(Tensor::weight("root", self.d_in, self.d_out));
        tensors.push(Tensor::row("bias", self.d_out, 0.0));
        tensors
    }

    fn widths(&self, _sparse_input: bool, _input_gradient: bool) -> Widths {
        Widths::both(self.width())
    }

    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let (x, root) = (flow.x, self.root());
        let z = x.times(site.cx, &site.w[BASIS]);
        let then = site.then(root + 1, after);
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let block = edges.block;
        check(block, self.relations)?;
        let (n, n_src) = (block.n_dst, block.n_src);
        let mut y = cx.backend.fresh(n, self.d_out);
        let mut from = 0;
        let mut sources = z;
        if cx.size() > 1 && !edges.all_here() {
            sources = with_room(cx, &sources, n_src);
            let interior = 0..edges.n_interior;
            edges.pull(cx, at, &mut sources, &mut |cx, z| {
                if self.bases > 0 {
                    let typed = self.typed(block, false, w);
                    cx.backend.relation_spmm(typed, interior.clone(), z, &mut y);
                    from = interior.end;
                }
                cx.comm.poll()
            })?;
        }
        let mut saved = Saved::default();
        if self.bases > 0 {
            let typed = self.typed(block, false, w);
            cx.backend.relation_spmm(typed, from..n, &sources, &mut y);
            saved.more = vec![Rc::new(sources)];
        } else {
            let [a, _] = block.by_relation()?;
            let parts = sources.reshape(n_src * self.relations, self.d_out);
            cx.backend.spmm(a, 0..n, &parts, Write::Set, &mut y);
        }
        let own = x.first_rows(cx, n);
        own.add_times(cx, &w[root], then, &mut y);
        saved.x = Some(x);
        Ok((y.into(), saved))
    }

    fn backward(
        &self,
        site: Site<'_>,
        saved: Saved,
        grad: Grad,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let (g, x, root) = (grad.g, saved.x(), self.root());
        let own = x.first_rows(site.cx, g.nrows());
        let (g_root, gb) = site.input_gradients(&own, &g);
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let block = edges.block;
        let (n, n_src) = (block.n_dst, block.n_src);
        let mut gz = if self.bases > 0 {
            let mut gz = cx.backend.fresh(n_src, self.width());
            let typed = self.typed(block, true, w);
            cx.backend.relation_spmm_t(typed, n..n_src, &g, &mut gz);
            gz
        } else {
            let [_, t] = block.by_relation()?;
            let mut parts = cx.backend.fresh(n_src * self.relations, self.d_out);
            cx.backend
                .spmm(t, 0..parts.nrows(), &g, Write::Set, &mut parts);
            parts.reshape(n_src, self.width())
        };
        edges.push(cx, at, &mut gz, &mut |cx, gz| {
            if self.bases > 0 {
                let typed = self.typed(block, true, w);
                cx.backend.relation_spmm_t(typed, 0..n, &g, gz);
            }
            cx.comm.poll()
        })?;
        let gz = if n == n_src || edges.all_here() {
            gz
        } else {
            gz.truncate(n)
        };
        let mut weights = vec![x.t_times(cx, &gz)];
        if let Some(sources) = saved.more.first() {
            let mut g_coef = cx.backend.fresh(self.relations, self.bases);
            let typed = self.typed(block, false, w);
            cx.backend
                .relation_gradient(typed, sources, &g, &mut g_coef);
            weights.push(g_coef);
        }
        weights.extend([g_root, gb]);
        let gx = input.map(|then| {
            let terms = [Term::right_t(&gz, &w[BASIS]), Term::right_t(&g, &w[root])];
            site.sum_of_terms(terms, then)
        });
        Ok((weights, gx.map(Grad::from)))
    }
}
