//! The CPU backend: kernels on this rank's threads.

use super::mat::Pool;
use super::on_host::{Wide, attention, on_host, relations, steps};
use super::ops::{
    Attended, Attention, AttentionSums, BothWays, Coefficients, Corner, Dropout, LAYER_NORM_EPS,
    MultiTarget, Normed, Operand, Picked, Projected, ScoreTerm, SourceGradients, Summed, Target,
    Term, Then, Typed, Write, with_values,
};
use super::{Backend, Kept, Mat, Sparse};
use kernels::adam::AdamParams;
use kernels::copy_block::copy_block_into;
use kernels::factor::Factor;
use kernels::pairs::{Pairs, products_backward_into, products_into};
use kernels::segmented::{self, WIDE};
use kernels::sgd::SgdParams;
use kernels::{
    Par, coefficients, gat, gat_backward, gat_dense, layernorm, linear, rspmm, sddmm, spmm,
    spmm_bf16, spmm_t,
};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Kernels on the threads of one rank.
pub struct Cpu {
    par: Par,
    pool: Rc<Pool>,
}

impl Cpu {
    /// A backend with `threads` threads.
    pub fn new(threads: usize) -> Cpu {
        Cpu::of(Par::here(threads))
    }

    /// A backend with these threads.
    pub fn of(par: Par) -> Cpu {
        let pool = Rc::default();
        Cpu { par, pool }
    }

    /// `n` whole rows of `x` that follow each other, to those of `out`.
    fn copy_run(&self, x: &Mat, from: usize, n: usize, out: &mut Mat, to: usize) {
        let d = x.ncols();
        let (read, write) = (from * d..(from + n) * d, to * d..(to + n) * d);
        let out = &mut out.as_slice_mut()[write];
        if let Some(x) = x.as_rounded() {
            return spmm_bf16::from_bf16(&self.par, &x[read], out);
        }
        kernels::stream::copy_run(&self.par, &x.as_slice()[read], out);
    }

    /// The elements of `x` as `f32`: those stored in 16 bits are widened into a buffer of the pool.
    fn wide<'a>(&self, x: &'a Mat) -> Wide<'a> {
        let Some(rounded) = x.as_rounded() else {
            return Wide::Held(x.host());
        };
        let mut wide = self.pool.fresh(x.nrows(), x.ncols());
        spmm_bf16::from_bf16(&self.par, rounded, wide.as_slice_mut());
        Wide::Made(wide)
    }
}

impl Backend for Cpu {
    fn device(&self) -> &str {
        "cpu"
    }

    fn limit(&self, bytes: u64) {
        self.pool.limit(bytes as usize / 4);
    }

    fn fresh(&self, rows: usize, cols: usize) -> Mat {
        self.pool.fresh(rows, cols)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Mat {
        let mut x = self.pool.fresh(rows, cols);
        x.as_slice_mut().fill(0.0);
        x
    }

    fn upload(&self, x: kernels::Mat) -> Mat {
        self.pool.adopt(x)
    }

    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        Mat::shared(Arc::clone(x))
    }

    fn upload_rounded(&self, x: kernels::Mat) -> Mat {
        let mut rounded = vec![spmm_bf16::bf16::ZERO; x.len()];
        let from = x.as_slice().expect("matrices are made in standard layout");
        spmm_bf16::to_bf16(&self.par, from, &mut rounded);
        Mat::rounded(x.nrows(), x.ncols(), rounded)
    }

    fn download(&self, x: &Mat) -> kernels::Mat {
        self.wide(x).clone()
    }

    fn take(&self, x: Mat) -> kernels::Mat {
        match x.as_rounded() {
            Some(_) => self.download(&x),
            None => x.into_host(),
        }
    }

    fn give_back(&self, x: kernels::Mat) {
        drop(self.pool.adopt(x));
    }

    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, write: Write, out: &mut Mat) {
        let out = out.host_mut();
        if let Some(rounded) = x.as_rounded() {
            let (par, a, d) = (&self.par, a.view(), x.ncols());
            return match write {
                Write::Set => spmm_bf16::spmm_bf16_into(par, a, rows, rounded, d, out),
                Write::Add => spmm_bf16::spmm_bf16_add_into(par, a, rows, rounded, d, out),
            };
        }
        let x = x.host();
        let by_segment = (x.ncols() >= WIDE).then(|| a.segmented()).flatten();
        let by_segment = by_segment.filter(|a| a.pays(x.ncols()));
        let factor = a.factor().filter(|_| Factor::pays(x.ncols()));
        if let Some(factor) = factor {
            let (par, add) = (&self.par, write == Write::Add);
            return match by_segment {
                Some(a) => segmented::spmm_by_factor(par, a, factor, rows, add, x, out),
                None => spmm::spmm_by_factor(par, a.view(), factor, rows, add, x, out),
            };
        }
        match (by_segment, write) {
            (Some(a), Write::Set) => segmented::spmm_into(&self.par, a, rows, x, out),
            (Some(a), Write::Add) => segmented::spmm_add_into(&self.par, a, rows, x, out),
            (None, Write::Set) => spmm::spmm_into(&self.par, a.view(), rows, x, out),
            (None, Write::Add) => spmm::spmm_add_into(&self.par, a.view(), rows, x, out),
        }
    }

    fn linear(&self, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
        let left: Vec<_> = terms.iter().map(|t| self.wide(t.a)).collect();
        let terms = terms.iter().zip(&left).map(|(t, a)| on_host(t, a));
        let terms: Vec<_> = terms.collect();
        let write = match write {
            Write::Set => linear::Write::Set,
            Write::Add => linear::Write::Add,
        };
        linear::linear_into(&self.par, &terms, write, steps(then), out.host_mut());
    }

    fn makes_rows(&self, k: usize, n: usize) -> bool {
        linear::makes_rows(k, n)
    }

    fn weight_gradients(&self, xs: &[&Mat], g: Operand<'_>, gws: &mut [Mat], gb: Option<&mut Mat>) {
        let xs: Vec<_> = xs.iter().map(|x| self.wide(x)).collect();
        let xs: Vec<&kernels::Mat> = xs.iter().map(|x| &**x).collect();
        let mut gws: Vec<_> = gws.iter_mut().map(Mat::host_mut).collect();
        let gb = gb.map(Mat::as_slice_mut);
        let (left, terms): (Vec<Wide<'_>>, Vec<linear::Term<'_>>);
        let g = match g {
            Operand::Held(g) => linear::Rows::Held(g.host()),
            Operand::Made { terms: all, then } => {
                left = all.iter().map(|t| self.wide(t.a)).collect();
                terms = all.iter().zip(&left).map(|(t, a)| on_host(t, a)).collect();
                let then = steps(then);
                linear::Rows::Made {
                    terms: &terms,
                    then,
                }
            }
        };
        linear::weight_gradients_into(&self.par, &xs, g, &mut gws, gb);
    }

    fn sparse_gemm(&self, a: &Sparse, values: Option<&Mat>, b: &Mat, write: Write, out: &mut Mat) {
        let (a, rows) = (with_values(a, values.map(Mat::as_slice)), 0..a.rows());
        let (b, out) = (b.host(), out.host_mut());
        match write {
            Write::Set => spmm::spmm_into(&self.par, a, rows, b, out),
            Write::Add => spmm::spmm_add_into(&self.par, a, rows, b, out),
        }
    }

    fn reads_cols(&self, k: usize, n: usize) -> bool {
        !spmm_t::is_quicker(&self.par, k, n)
    }

    fn sparse_gemm_t(&self, x: BothWays<'_>, g: &Mat, out: &mut Mat) {
        if self.reads_cols(x.rows.n_cols(), g.ncols()) {
            return self.sparse_gemm(x.columns(), x.col_values, g, Write::Set, out);
        }
        let rows = with_values(x.rows, x.row_values.map(Mat::as_slice));
        spmm_t::spmm_t_into(&self.par, rows, g.host(), out.host_mut());
    }

    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, transposed: bool) -> Mat {
        let mut values = self.pool.fresh(1, a.n_edges());
        let to = values.as_slice_mut();
        let Dropout { key, ids, p } = drop;
        if transposed {
            kernels::dropout::dropout_csr_t(&self.par, key, ids, p, &a.view(), to);
        } else {
            kernels::dropout::dropout_csr(&self.par, key, ids, p, &a.view(), to);
        }
        values
    }

    fn then(&self, then: Then<'_>, x: &mut Mat) {
        linear::then_into(&self.par, steps(then), x.host_mut());
    }

    fn then_of(&self, then: Then<'_>, x: &Mat, out: &mut Mat) {
        linear::then_of(&self.par, steps(then), &self.wide(x), out.host_mut());
    }

    fn axpby(&self, alpha: f32, x: &Mat, beta: f32, y: &mut Mat) {
        assert_eq!(x.dim(), y.dim(), "axpby: shapes of x and y");
        let x = self.wide(x);
        let from = x.as_slice().expect("matrices are made in standard layout");
        self.par.rows_mut(y.as_slice_mut(), 1, |first, to| {
            for (y, x) in to.iter_mut().zip(&from[first..]) {
                *y = alpha * x + beta * *y;
            }
        });
    }

    fn dot(&self, a: &Mat, b: &Mat, out: &mut Mat) {
        let sum = kernels::dot::dot(&self.par, &self.wide(a), &self.wide(b));
        out.as_slice_mut()[0] = sum as f32;
    }

    fn layer_norm(&self, x: &Mat, gain: &Mat, shift: &Mat, stats: &mut Mat, out: &mut Mat) {
        let (gain, shift) = (gain.as_slice(), shift.as_slice());
        let (x, stats, out) = (x.host(), stats.host_mut(), out.host_mut());
        layernorm::layer_norm_into(&self.par, x, gain, shift, LAYER_NORM_EPS, stats, out);
    }

    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        g: &Mat,
        gx: &mut Mat,
        gain: &mut Mat,
        shift: &mut Mat,
    ) {
        let (gain, shift) = (gain.as_slice_mut(), shift.as_slice_mut());
        let normed = layernorm::Normed {
            x: normed.x.host(),
            gain: normed.gain.as_slice(),
            stats: normed.stats.host(),
        };
        let (g, gx) = (g.host(), gx.host_mut());
        layernorm::layer_norm_backward_into(&self.par, normed, g, gx, gain, shift);
    }

    fn attention_scores(
        &self,
        z: &Mat,
        (src, dst): (&Mat, Option<&Mat>),
        rows: Range<usize>,
        el: &mut Mat,
        er: &mut Mat,
    ) {
        let (par, heads, z) = (&self.par, src.nrows(), z.host());
        let (src, el, er) = (src.as_slice(), el.host_mut(), er.host_mut());
        match dst.map(Mat::as_slice) {
            Some(dst) if rows == (0..z.nrows()) && el.nrows() == z.nrows() => {
                gat_dense::score_pair_into(par, z, (src, dst), heads, el, er);
            }
            dst => {
                gat_dense::scores_into(par, z, src, heads, rows.clone(), el);
                if let Some(dst) = dst {
                    gat_dense::scores_into(par, z, dst, heads, rows, er);
                }
            }
        }
    }

    fn attention(
        &self,
        a: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        from: Projected<'_>,
        to: AttentionSums<'_>,
    ) {
        let att = attention(att, a.rows());
        let Projected { z, el, er } = from;
        let from = (z.host(), el.host(), er.host());
        let to = gat::Sums {
            lse: to.lse.host_mut(),
            out: to.out.host_mut(),
            positive: to.positive.map(|(out, share)| gat::Positive {
                out: out.host_mut(),
                share: share.host_mut(),
            }),
        };
        gat::forward_into(&self.par, a.view(), rows, &att, from, to);
    }

    fn attention_destinations(
        &self,
        slope: f32,
        g: &Mat,
        sums: Summed<'_>,
        c: &mut Mat,
        der: &mut Mat,
    ) {
        let sums = gat_dense::Summed {
            out: sums.out.host(),
            positive: sums.positive.host(),
            share: sums.share.host(),
        };
        let (g, c, der) = (g.host(), c.host_mut(), der.host_mut());
        gat_dense::destination_pass(&self.par, slope, g, sums, c, der);
    }

    fn attention_sources(
        &self,
        at: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        saved: Attended<'_>,
        to: SourceGradients<'_>,
    ) {
        let att = attention(att, at.n_cols());
        let saved = gat_backward::Saved {
            z: saved.from.z.host(),
            el: saved.from.el.host(),
            er: saved.from.er.host(),
            lse: saved.lse.host(),
            c: saved.c.host(),
            g: saved.g.host(),
        };
        let to = gat_backward::SourceGradients {
            dz: to.dz.host_mut(),
            del: to.del.host_mut(),
        };
        gat_backward::source_pass(&self.par, at.view(), rows, &att, &saved, to);
    }

    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat) {
        let terms = terms.iter_mut().map(|t| gat_dense::ScoreTerm {
            ds: t.ds.host(),
            a: t.a.as_slice(),
            da: t.da.as_slice_mut(),
        });
        let mut terms: Vec<_> = terms.collect();
        gat_dense::score_backward_into(&self.par, z.host(), &mut terms, dz.host_mut());
    }

    fn relation_spmm(&self, edges: Typed<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let (a, rel) = relations(&edges);
        rspmm::rspmm_into(&self.par, a, rows, &rel, x.host(), out.host_mut());
    }

    fn relation_spmm_t(&self, edges: Typed<'_>, rows: Range<usize>, g: &Mat, out: &mut Mat) {
        let (at, rel) = relations(&edges);
        rspmm::rspmm_t_into(&self.par, at, rows, &rel, g.host(), out.host_mut());
    }

    fn relation_gradient(&self, edges: Typed<'_>, x: &Mat, g: &Mat, out: &mut Mat) {
        let (a, x, g) = (edges.a.view(), x.host(), g.host());
        rspmm::coef_gradient_into(&self.par, a, edges.types, x, g, out.host_mut());
    }

    fn spmm_values(&self, a: &Sparse, values: &Mat, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let csr = with_values(a, Some(values.as_slice()));
        spmm::spmm_into(&self.par, csr, rows, x.host(), out.host_mut());
    }

    fn edge_dots(&self, a: &Sparse, p: &Mat, q: &Mat, out: &mut Mat) {
        let (a, p, q) = (a.view(), p.host(), q.host());
        sddmm::sddmm_into(&self.par, a, 0..a.rows(), 1, p, q, out.as_slice_mut());
    }

    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, values: &Mat, out: &mut Mat) {
        let (values, out) = (values.as_slice(), out.as_slice_mut());
        coefficients::drop_into(&self.par, a.view(), drop.on_host(), values, out);
    }

    fn coefficients(&self, a: &Sparse, slope: f32, el: &Mat, er: &Mat, alpha: &mut Mat) {
        let scores = (el.as_slice(), er.as_slice());
        let alpha = alpha.as_slice_mut();
        coefficients::coefficients_into(&self.par, a.view(), slope, scores, alpha);
    }

    fn coefficients_backward(
        &self,
        a: &Sparse,
        slope: f32,
        made: Coefficients<'_>,
        dalpha: &Mat,
        to: (&mut Mat, &mut Mat),
    ) {
        let made = coefficients::Made {
            el: made.el.as_slice(),
            er: made.er.as_slice(),
            alpha: made.alpha.as_slice(),
        };
        let (par, dalpha) = (&self.par, dalpha.as_slice());
        let to = (to.0.as_slice_mut(), to.1.as_slice_mut());
        coefficients::coefficients_backward(par, a.view(), slope, made, dalpha, to);
    }

    fn column_sums(&self, g: &Mat, out: &mut Mat) {
        kernels::elementwise::column_sums_into(&self.par, g.host(), out.as_slice_mut());
    }

    fn copy_block(
        &self,
        x: &Mat,
        from: Corner<'_>,
        size: (usize, usize),
        out: &mut Mat,
        to: Corner<'_>,
    ) {
        if let (Picked::From(first), Picked::From(to)) = (from.rows, to.rows)
            && (size.1, size.1) == (x.ncols(), out.ncols())
        {
            return self.copy_run(x, first, size.0, out, to);
        }
        let (from, to) = (from.on_host(), to.on_host());
        copy_block_into(&self.par, &self.wide(x), from, size, out.host_mut(), to);
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, out: &mut Mat) {
        kernels::rows::scatter_add_rows(&self.par, g.host(), rows, out.host_mut());
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        let Target {
            labels,
            mask,
            scale,
        } = target;
        let (logits, grad) = (logits.host(), grad.host_mut());
        kernels::loss::softmax_xent(&self.par, logits, labels, mask, scale, grad)
    }

    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, grad: &mut Mat) -> f64 {
        let MultiTarget {
            labels,
            mask,
            scale,
        } = target;
        let (logits, grad) = (logits.host(), grad.host_mut());
        kernels::bce::sigmoid_bce(&self.par, logits, labels, mask, scale, grad)
    }

    fn pair_products(&self, pairs: &Pairs, z: &Mat, out: &mut Mat) {
        products_into(&self.par, pairs, z.host(), out.host_mut());
    }

    fn pair_products_backward(&self, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
        products_backward_into(&self.par, pairs, z.host(), gp.host(), g.host_mut());
    }

    fn sgd(&self, sgd: SgdParams, w: &mut Mat, g: &Mat, velocity: Option<&mut Mat>) {
        let velocity = velocity.map(Mat::as_slice_mut);
        kernels::sgd::sgd_step(&self.par, sgd, w.as_slice_mut(), g.as_slice(), velocity);
    }

    fn adam(&self, adam: AdamParams, t: u64, w: &mut Mat, g: &Mat, m: &mut Mat, v: &mut Mat) {
        let (w, g) = (w.as_slice_mut(), g.as_slice());
        let (m, v) = (m.as_slice_mut(), v.as_slice_mut());
        kernels::adam::adam_step(&self.par, adam, t, w, g, m, v);
    }
}
