//! R-GCN's layer where sources' rows travel as they are: sums come first.
//!
//! `Y = Σ_b M_b V_b + X W_0 + b` with `M_b = Σ_r coef[r, b] · mean_r(X)`, for all bases side by side
//! `[n, bases · d_in]`. What travels is `d_in` columns wide, forward and backward, however many relations
//! there are, and no rank multiplies another's rows. With a weight for each relation, `M_r = mean_r(X)`.

use super::Input;
use super::layer::{After, Flow, Grad, Saved, Weights};
use super::rgcn::{BASIS, Rgcn};
use super::seam::{edges_of, in_pieces, with_room};
use super::site::Site;
use crate::backend::{Kept, Mat, Operand, Term, Then, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use std::ops::Range;
use std::rc::Rc;

impl Rgcn {
    /// [`super::layer::Layer::forward`], `x: [n_local, d_in]`.
    pub(super) fn forward_of_sums(
        &self,
        site: Site<'_>,
        x: Rc<Mat>,
        after: After<'_>,
    ) -> Result<(Flow, Saved)> {
        let root = self.root();
        let then = site.then(root + 1, after);
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let (block, interior) = (edges.block, edges.n_interior);
        let n = block.n_dst;
        let mut sums = self.room_for_sums(cx, n);
        let mut sources = with_room(cx, &x, block.n_src);
        edges.pull(cx, at, &mut sources, &mut |cx, x| {
            self.sum(cx, block, w, 0..interior, x, &mut sums)
        })?;
        self.sum(cx, block, w, interior..n, &sources, &mut sums)?;
        let sums = Rc::new(sums.reshape(n, self.n_bases() * self.d_in));
        let below = self.below(cx, &w[BASIS]);
        let terms = [Term::plain(&sums, &below), Term::plain(&x, &w[root])];
        let y = site.linear(&terms, then);
        let mut saved = Saved::input(Input::Dense(x));
        saved.aggregated = Some(sums);
        if self.bases > 0 {
            saved.more = vec![Rc::new(sources)];
        }
        Ok((y.into(), saved))
    }

    /// [`super::layer::Layer::backward`] after [`Rgcn::forward_of_sums`].
    pub(super) fn backward_of_sums(
        &self,
        site: Site<'_>,
        mut saved: Saved,
        g: Mat,
        input: Option<Then<'_>>,
    ) -> Result<(Weights, Option<Grad>)> {
        let sums = saved.aggregated.take().expect("kept by forward");
        let x = saved.x().dense().expect("travelled as it is");
        let ([g_below, g_root], gb) = site.weight_gradients([&sums, x], Operand::Held(&g));
        drop(sums);
        let root = self.root();
        let mut weights = vec![self.beside(site.cx, g_below)];
        let wanted = input.is_some() || self.bases > 0;
        let of_sums = wanted.then(|| {
            let below = self.below(site.cx, &site.w[BASIS]);
            site.linear(&[Term::right_t(&g, &below)], Then::default())
        });
        let (cx, at, w) = (&mut *site.cx, site.at, site.w);
        let mut edges = edges_of(&mut *site.agg, at)?;
        let block = edges.block;
        let (n, n_src) = (block.n_dst, block.n_src);
        if let (Some(sources), Some(of_sums)) = (saved.more.first(), &of_sums) {
            // The sum over edges of what both ends have for a relation and a basis, from the sources'
            // side.
            let mut g_coef = cx.backend.fresh(self.relations, self.bases);
            let typed = self.typed(block, true, w);
            cx.backend
                .relation_gradient(typed, of_sums, sources, &mut g_coef);
            weights.push(g_coef);
        }
        drop(saved);
        weights.extend([g_root, gb]);
        let Some((then, of_sums)) = input.zip(of_sums) else {
            return Ok((weights, None));
        };
        let of_sums = if self.bases > 0 {
            of_sums
        } else {
            of_sums.reshape(n * self.relations, self.d_in)
        };
        let mut gx = cx.backend.fresh(n_src, self.d_in);
        // Remote rows first: they travel while the local ones are computed.
        self.sum_t(cx, block, w, n..n_src, &of_sums, &mut gx)?;
        edges.push(cx, at, &mut gx, &mut |cx, gx| {
            self.sum_t(cx, block, w, 0..n, &of_sums, gx)
        })?;
        drop(of_sums);
        let mut gx = gx.truncate(n);
        let own = [Term::right_t(&g, &w[root])];
        cx.backend.linear(&own, Write::Add, then, &mut gx);
        Ok((weights, Some(gx.into())))
    }

    /// A new matrix for all sums of `n` destinations, as [`Rgcn::sum`] wants it.
    fn room_for_sums(&self, cx: &Ctx, n: usize) -> Mat {
        if self.bases > 0 {
            cx.backend.fresh(n, self.bases * self.d_in)
        } else {
            cx.backend.fresh(n * self.relations, self.d_in)
        }
    }

    /// Sums over the in-edges of the destinations in `rows`, the others stay: `x: [n_src, d_in]`,
    /// `sums: [n_dst, bases · d_in]`, or `[n_dst · relations, d_in]` without bases.
    fn sum(
        &self,
        cx: &mut Ctx,
        block: &Block,
        w: &Weights,
        rows: Range<usize>,
        x: &Mat,
        sums: &mut Mat,
    ) -> Result<()> {
        if self.bases > 0 {
            return in_pieces(cx, block.edges(), rows, |cx, rows| {
                let typed = self.typed(block, false, w);
                cx.backend.relation_spmm_t(typed, rows, x, sums);
            });
        }
        let [a, _] = block.to_relations()?;
        let rows = rows.start * self.relations..rows.end * self.relations;
        in_pieces(cx, a, rows, |cx, rows| {
            cx.backend.spmm(a, rows, x, Write::Set, sums);
        })
    }

    /// The adjoint for the sources in `rows`, the others stay; shapes as of [`Rgcn::sum`].
    fn sum_t(
        &self,
        cx: &mut Ctx,
        block: &Block,
        w: &Weights,
        rows: Range<usize>,
        sums: &Mat,
        gx: &mut Mat,
    ) -> Result<()> {
        if self.bases > 0 {
            return in_pieces(cx, block.edges_t(), rows, |cx, rows| {
                let typed = self.typed(block, true, w);
                cx.backend.relation_spmm(typed, rows, sums, gx);
            });
        }
        let [_, t] = block.to_relations()?;
        in_pieces(cx, t, rows, |cx, rows| {
            cx.backend.spmm(t, rows, sums, Write::Set, gx);
        })
    }

    /// The bases' weights one below the other `[bases · d_in, d_out]`, of those side by side.
    fn below(&self, cx: &Ctx, beside: &Mat) -> Mat {
        let (bases, d_in) = (self.n_bases(), self.d_in);
        let rows = cx.backend.copy(beside).reshape(d_in * bases, self.d_out);
        let order = (0..bases).flat_map(|b| (0..d_in).map(move |i| i * bases + b));
        self.reordered(cx, &rows, order)
    }

    /// The bases' weights side by side `[d_in, bases · d_out]`, of those one below the other.
    fn beside(&self, cx: &Ctx, below: Mat) -> Mat {
        let (bases, d_in) = (self.n_bases(), self.d_in);
        let order = (0..d_in).flat_map(|i| (0..bases).map(move |b| b * d_in + i));
        let rows = self.reordered(cx, &below, order);
        rows.reshape(d_in, bases * self.d_out)
    }

    fn reordered(&self, cx: &Ctx, rows: &Mat, order: impl Iterator<Item = usize>) -> Mat {
        let order: Kept<u32> = order.map(|r| r as u32).collect::<Vec<_>>().into();
        let mut out = cx.backend.fresh(rows.nrows(), rows.ncols());
        cx.backend.gather_rows(rows, &order, &mut out);
        out
    }
}
