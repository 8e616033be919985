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
//! its own relation's part. Where rows travel and dense inputs are narrower than `Z`, sums come first
//! ([`super::rgcn_sums`]), and the inputs travel.
//! # Not done
//! Block-diagonal decomposition.

use super::layer::{After, Facts, Flow, Grad, Layer, Saved, Tensor, Weights, Widths};
use super::seam::{Edges, edges_of, in_pieces, with_room};
use super::site::Site;
use crate::backend::{Mat, Term, Then, Typed, Write};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::graph::Block;
use std::ops::Range;
use std::rc::Rc;

pub(super) const BASIS: usize = 0;
/// The shares, where relations share bases; `root` and `bias` follow.
const COEF: usize = 1;

/// A layer of width `d_in` to `d_out`.
pub(super) struct Rgcn {
    pub(super) d_in: usize,
    pub(super) d_out: usize,
    pub(super) relations: usize,
    pub(super) bases: usize,
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

    pub(super) fn n_bases(&self) -> usize {
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

    pub(super) fn root(&self) -> usize {
        if self.bases == 0 { COEF } else { COEF + 1 }
    }

    /// Whether dense inputs are narrower than their products.
    fn input_is_narrower(&self) -> bool {
        self.d_in < self.width()
    }

    /// Whether sources' rows travel, as dense inputs rather than as products.
    fn sums_first(&self, cx: &Ctx, edges: &Edges<'_>) -> bool {
        self.input_is_narrower() && cx.size() > 1 && !edges.all_here()
    }

    /// The block's edges with their relations and shares, in its own order or the transposed.
    pub(super) fn typed<'a>(
        &self,
        block: &'a Block,
        transposed: bool,
        w: &'a Weights,
    ) -> Typed<'a> {
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

    fn widths(&self, sparse_input: bool, input_gradient: bool) -> Widths {
        if !sparse_input && self.input_is_narrower() {
            return Widths::of_input(self.d_in, input_gradient);
        }
        Widths::both(self.width())
    }

    fn forward(&self, site: Site<'_>, flow: Flow, after: After<'_>) -> Result<(Flow, Saved)> {
        let edges = edges_of(&mut *site.agg, site.at)?;
        check(edges.block, self.relations)?;
        if let Some(dense) = flow.x.dense()
            && self.sums_first(site.cx, &edges)
        {
            return self.forward_of_sums(site, Rc::clone(dense), after);
        }
        let (x, root) = (flow.x, self.root());
        let z = x.times(site.cx, &site.w[BASIS]);
        let then = site.then(root + 1, after);
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let block = edges.block;
        let (n, n_src) = (block.n_dst, block.n_src);
        let mut y = cx.backend.fresh(n, self.d_out);
        let mut from = 0;
        let mut sources = z;
        if cx.size() > 1 && !edges.all_here() {
            let own = sources;
            sources = with_room(cx, &own, n_src);
            // What travels has all relations of a row side by side, what is read by relation one below
            // the other.
            let apart = (self.bases == 0).then(|| {
                let all = with_room(cx, &own, n_src);
                all.reshape(n_src * self.relations, self.d_out)
            });
            drop(own);
            from = edges.n_interior;
            edges.pull(cx, at, &mut sources, &mut |cx, z| {
                let z = apart.as_ref().unwrap_or(z);
                self.products(cx, block, w, 0..from, z, &mut y)
            })?;
        }
        if self.bases == 0 {
            sources = sources.reshape(n_src * self.relations, self.d_out);
        }
        self.products(cx, block, w, from..n, &sources, &mut y)?;
        let mut saved = Saved::default();
        if self.bases > 0 {
            saved.more = vec![Rc::new(sources)];
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
        if saved.aggregated.is_some() {
            return self.backward_of_sums(site, saved, grad.g, input);
        }
        let (g, x, root) = (Rc::new(grad.g), saved.x(), self.root());
        let own = x.first_rows(site.cx, g.nrows());
        let (g_root, gb) = site.input_gradients([root, root + 1], &own, &g);
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let block = edges.block;
        let (n, n_src) = (block.n_dst, block.n_src);
        let mut gz = cx.backend.fresh(n_src, self.width());
        self.products_t(cx, block, w, n..n_src, &g, &mut gz)?;
        edges.push(cx, at, &mut gz, &mut |cx, gz| {
            self.products_t(cx, block, w, 0..n, &g, gz)
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

impl Rgcn {
    /// Sums of the sources' products over the in-edges of the destinations in `rows`, the others stay:
    /// `z: [n_src, bases · d_out]`, or `[n_src · relations, d_out]` without bases; `y: [n_dst, d_out]`.
    fn products(
        &self,
        cx: &mut Ctx,
        block: &Block,
        w: &Weights,
        rows: Range<usize>,
        z: &Mat,
        y: &mut Mat,
    ) -> Result<()> {
        if self.bases > 0 {
            return in_pieces(cx, block.edges(), rows, |cx, rows| {
                let typed = self.typed(block, false, w);
                cx.backend.relation_spmm(typed, rows, z, y);
            });
        }
        let [a, _] = block.by_relation()?;
        in_pieces(cx, a, rows, |cx, rows| {
            cx.backend.spmm(a, rows, z, Write::Set, y);
        })
    }

    /// The adjoint for the sources in `rows`, the others stay: `g: [n_dst, d_out]`,
    /// `gz: [n_src, width]`.
    fn products_t(
        &self,
        cx: &mut Ctx,
        block: &Block,
        w: &Weights,
        rows: Range<usize>,
        g: &Mat,
        gz: &mut Mat,
    ) -> Result<()> {
        if self.bases > 0 {
            return in_pieces(cx, block.edges_t(), rows, |cx, rows| {
                let typed = self.typed(block, true, w);
                cx.backend.relation_spmm_t(typed, rows, g, gz);
            });
        }
        let [_, t] = block.by_relation()?;
        let (n_src, relations) = (gz.nrows(), self.relations);
        let none = cx.backend.fresh(0, 0);
        let whole = std::mem::replace(gz, none);
        let mut parts = whole.reshape(n_src * relations, self.d_out);
        let rows = rows.start * relations..rows.end * relations;
        let done = in_pieces(cx, t, rows, |cx, rows| {
            cx.backend.spmm(t, rows, g, Write::Set, &mut parts);
        });
        *gz = parts.reshape(n_src, self.width());
        done
    }
}
