//! A backend whose calls are timed one by one inside real epochs, each with what it needs at least: bytes of its
//! arguments and results, each counted once as if caches were perfect, and operations, a multiply-add as two.
//!
//! As the benchmarks of single kernels count ([`kernels::bench`]); unlike there, caches hold what the call before
//! left, buffers come from the pool, and threads wait for each other.

mod call;
mod need;

pub use call::{Call, Gathered, Listed};

use super::{
    Attended, Attention, AttentionSums, Backend, BothWays, Coefficients, Corner, Dropout, Kept,
    Mat, MultiTarget, Normed, Operand, Projected, ScoreTerm, SourceGradients, Sparse, Summed,
    Target, Term, Then, Typed, Write,
};
use crate::record::{Meter, now_ns};
use kernels::Busy;
use kernels::adam::AdamParams;
use kernels::pairs::Pairs;
use kernels::sgd::SgdParams;
use need::{
    Need, after, aggregated, along_edges, by_feature, bytes, edges, lists, of_rows, products, read,
    written,
};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Wraps a backend; calls go to a list.
pub struct Profiled<B> {
    inner: B,
    meter: Rc<Meter>,
    calls: Rc<RefCell<Vec<Call>>>,
    busy: Arc<Busy>,
}

impl<B: Backend> Profiled<B> {
    /// Wraps `inner`, whose threads `busy` watches; calls go to `calls`, with the layer and pass of `meter`.
    pub fn new(inner: B, meter: Rc<Meter>, calls: Rc<RefCell<Vec<Call>>>, busy: Arc<Busy>) -> Self {
        Profiled {
            inner,
            meter,
            calls,
            busy,
        }
    }

    fn call<T>(&self, op: &'static str, need: Need, f: impl FnOnce(&B) -> T) -> T {
        self.gathering(op, need, Gathered::default(), f)
    }

    /// A call that reads rows as a list says.
    fn gathering<T>(
        &self,
        op: &'static str,
        (bytes, flops): Need,
        gathered: Gathered,
        f: impl FnOnce(&B) -> T,
    ) -> T {
        let (start, busy) = (now_ns(), self.busy.ns());
        let done = f(&self.inner);
        self.inner.settle();
        let call = Call {
            op,
            layer: self.meter.layer(),
            pass: self.meter.pass(),
            ns: now_ns() - start,
            busy_ns: self.busy.ns() - busy,
            bytes,
            flops,
            gathered,
        };
        self.calls.borrow_mut().push(call);
        done
    }
}

impl<B: Backend> Backend for Profiled<B> {
    fn device(&self) -> &str {
        self.inner.device()
    }

    fn settle(&self) {
        self.inner.settle();
    }

    fn limit(&self, bytes: u64) {
        self.inner.limit(bytes);
    }

    fn prepare(&self, a: &Sparse) {
        self.inner.prepare(a);
    }

    fn fresh(&self, rows: usize, cols: usize) -> Mat {
        self.inner.fresh(rows, cols)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Mat {
        self.call("zeros", (4.0 * rows as f64 * cols as f64, 0.0), |b| {
            b.zeros(rows, cols)
        })
    }

    fn upload(&self, x: kernels::Mat) -> Mat {
        self.inner.upload(x)
    }

    fn upload_made(&self, shape: (usize, usize), make: &dyn Fn() -> kernels::Mat) -> Mat {
        self.inner.upload_made(shape, make)
    }

    fn upload_rounded(&self, x: kernels::Mat) -> Mat {
        self.inner.upload_rounded(x)
    }

    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        self.inner.share(x)
    }

    fn download(&self, x: &Mat) -> kernels::Mat {
        self.call("download", (2.0 * bytes(x), 0.0), |b| b.download(x))
    }

    fn take(&self, x: Mat) -> kernels::Mat {
        self.inner.take(x)
    }

    fn give_back(&self, x: kernels::Mat) {
        self.inner.give_back(x);
    }

    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, write: Write, out: &mut Mat) {
        let e = edges(a, &rows);
        let moved = aggregated(a, &rows) + read(x, e) + written(of_rows(out, &rows), write);
        let need = (moved, 2.0 * e * x.ncols() as f64);
        let gathered = along_edges(e, x.ncols());
        self.gathering("spmm", need, gathered, |b| b.spmm(a, rows, x, write, out));
    }

    fn linear(&self, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
        let (moved, flops) = products(terms, out.dim());
        let need = (
            moved + written(bytes(out), write) + after(&then, out),
            flops,
        );
        self.call("linear", need, |b| b.linear(terms, write, then, out));
    }

    fn makes_rows(&self, k: usize, n: usize) -> bool {
        self.inner.makes_rows(k, n)
    }

    fn reads_cols(&self, k: usize, n: usize) -> bool {
        self.inner.reads_cols(k, n)
    }

    fn weight_gradients(&self, xs: &[&Mat], g: Operand<'_>, gws: &mut [Mat], gb: Option<&mut Mat>) {
        let (rows, cols) = g.dim();
        let (mut moved, mut flops) = match &g {
            Operand::Held(g) => (bytes(g), 0.0),
            Operand::Made { terms, then } => {
                let gate = if then.gate.is_some() {
                    4.0 * (rows * cols) as f64
                } else {
                    0.0
                };
                let (moved, flops) = products(terms, (rows, cols));
                (moved + gate, flops)
            }
        };
        for (x, gw) in xs.iter().zip(gws.iter()) {
            moved += bytes(x) + bytes(gw);
            flops += 2.0 * x.len() as f64 * cols as f64;
        }
        self.call("weight_gradients", (moved, flops), |b| {
            b.weight_gradients(xs, g, gws, gb)
        });
    }

    fn sparse_gemm(&self, a: &Sparse, values: Option<&Mat>, b: &Mat, write: Write, out: &mut Mat) {
        let (e, rows) = (a.n_edges() as f64, 0..a.rows());
        let moved = lists(a, &rows) + read(b, e) + written(bytes(out), write);
        let need = (moved, 2.0 * e * b.ncols() as f64);
        let gathered = by_feature(e, b);
        self.gathering("sparse_gemm", need, gathered, |inner| {
            inner.sparse_gemm(a, values, b, write, out)
        });
    }

    fn sparse_gemm_t(&self, x: BothWays<'_>, g: &Mat, out: &mut Mat) {
        let (e, rows) = (x.rows.n_edges() as f64, 0..x.rows.rows());
        let moved = lists(x.rows, &rows) + read(g, e) + bytes(out);
        let need = (moved, 2.0 * e * g.ncols() as f64);
        let gathered = by_feature(e, g);
        self.gathering("sparse_gemm_t", need, gathered, |inner| {
            inner.sparse_gemm_t(x, g, out)
        });
    }

    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, transposed: bool) -> Mat {
        let need = (12.0 * a.n_edges() as f64, 0.0);
        self.call("sparse_dropout", need, |b| {
            b.sparse_dropout(drop, a, transposed)
        })
    }

    fn then(&self, then: Then<'_>, x: &mut Mat) {
        let need = (2.0 * bytes(x) + after(&then, x), 0.0);
        self.call("then", need, |b| b.then(then, x));
    }

    fn then_of(&self, then: Then<'_>, x: &Mat, out: &mut Mat) {
        let need = (bytes(x) + bytes(out) + after(&then, out), 0.0);
        self.call("then_of", need, |b| b.then_of(then, x, out));
    }

    fn axpby(&self, alpha: f32, x: &Mat, beta: f32, y: &mut Mat) {
        let need = (bytes(x) + 2.0 * bytes(y), 2.0 * x.len() as f64);
        self.call("axpby", need, |b| b.axpby(alpha, x, beta, y));
    }

    fn dot(&self, a: &Mat, b: &Mat, out: &mut Mat) {
        let need = (bytes(a) + bytes(b), 2.0 * a.len() as f64);
        self.call("dot", need, |inner| inner.dot(a, b, out));
    }

    fn layer_norm(&self, x: &Mat, gain: &Mat, shift: &Mat, stats: &mut Mat, out: &mut Mat) {
        let need = (bytes(x) + bytes(out) + bytes(stats), 6.0 * x.len() as f64);
        self.call("layer_norm", need, |b| {
            b.layer_norm(x, gain, shift, stats, out)
        });
    }

    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        g: &Mat,
        gx: &mut Mat,
        gain: &mut Mat,
        shift: &mut Mat,
    ) {
        let need = (bytes(normed.x) + bytes(g) + bytes(gx), 8.0 * g.len() as f64);
        self.call("layer_norm_backward", need, |b| {
            b.layer_norm_backward(normed, g, gx, gain, shift)
        });
    }

    fn attention_scores(
        &self,
        z: &Mat,
        vectors: (&Mat, Option<&Mat>),
        rows: Range<usize>,
        el: &mut Mat,
        er: &mut Mat,
    ) {
        let both = 1.0 + f64::from(u8::from(vectors.1.is_some()));
        let scores = of_rows(el, &(0..rows.len().min(el.nrows()))) * both;
        let need = (
            of_rows(z, &rows) + scores,
            2.0 * both * (rows.len() * z.ncols()) as f64,
        );
        self.call("attention_scores", need, |b| {
            b.attention_scores(z, vectors, rows, el, er)
        });
    }

    fn attention(
        &self,
        a: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        from: Projected<'_>,
        to: AttentionSums<'_>,
    ) {
        let e = edges(a, &rows);
        let sources = read(from.z, e) + read(from.el, e);
        let own = of_rows(from.er, &rows) + of_rows(to.lse, &rows) + of_rows(to.out, &rows);
        let (twice, more) = match &to.positive {
            Some((out, share)) => (2.0, of_rows(out, &rows) + of_rows(share, &rows)),
            None => (1.0, 0.0),
        };
        let flops = e * (2.0 * twice * from.z.ncols() as f64 + 6.0 * att.heads as f64);
        let lists = 4.0 * e + 8.0 * rows.len() as f64;
        let need = (lists + sources + own + more, flops);
        let gathered = along_edges(e, from.z.ncols() + att.heads);
        self.gathering("attention", need, gathered, |b| {
            b.attention(a, rows, att, from, to)
        });
    }

    fn attention_destinations(
        &self,
        slope: f32,
        g: &Mat,
        sums: Summed<'_>,
        c: &mut Mat,
        der: &mut Mat,
    ) {
        let need = (3.0 * (bytes(g) + bytes(c)), 4.0 * g.len() as f64);
        self.call("attention_destinations", need, |b| {
            b.attention_destinations(slope, g, sums, c, der)
        });
    }

    fn attention_sources(
        &self,
        at: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        saved: Attended<'_>,
        to: SourceGradients<'_>,
    ) {
        let (e, heads) = (edges(at, &rows), att.heads as f64);
        let Attended { from, lse, c, g } = saved;
        let sources = of_rows(from.z, &rows)
            + of_rows(from.el, &rows)
            + of_rows(to.dz, &rows)
            + of_rows(to.del, &rows);
        let destinations = read(g, e) + read(from.er, e) + read(lse, e) + read(c, e);
        let lists = 4.0 * e + 8.0 * rows.len() as f64;
        let flops = e * (4.0 * g.ncols() as f64 + 8.0 * heads);
        let need = (lists + sources + destinations, flops);
        // Of each destination a score, a denominator and a product with the output a head.
        let gathered = along_edges(e, g.ncols() + 3 * att.heads);
        self.gathering("attention_sources", need, gathered, |b| {
            b.attention_sources(at, rows, att, saved, to);
        });
    }

    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat) {
        let scores: f64 = terms.iter().map(|term| bytes(term.ds)).sum();
        let need = (
            bytes(z) + 2.0 * bytes(dz) + scores,
            4.0 * (z.len() * terms.len()) as f64,
        );
        self.call("score_backward", need, |b| b.score_backward(z, terms, dz));
    }

    fn relation_spmm(&self, of: Typed<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let e = edges(of.a, &rows);
        let moved = lists(of.a, &rows) + 2.0 * e + read(x, e) + of_rows(out, &rows);
        self.call("relation_spmm", (moved, 2.0 * e * x.ncols() as f64), |b| {
            b.relation_spmm(of, rows, x, out)
        });
    }

    fn relation_spmm_t(&self, of: Typed<'_>, rows: Range<usize>, g: &Mat, out: &mut Mat) {
        let e = edges(of.a, &rows);
        let moved = lists(of.a, &rows) + 2.0 * e + read(g, e) + of_rows(out, &rows);
        let need = (moved, 2.0 * e * out.ncols() as f64);
        self.call("relation_spmm_t", need, |b| {
            b.relation_spmm_t(of, rows, g, out)
        });
    }

    fn relation_gradient(&self, of: Typed<'_>, x: &Mat, g: &Mat, out: &mut Mat) {
        let rows = 0..of.a.rows();
        let e = edges(of.a, &rows);
        let moved = lists(of.a, &rows) + 2.0 * e + read(x, e) + bytes(g);
        self.call(
            "relation_gradient",
            (moved, 2.0 * e * x.ncols() as f64),
            |b| b.relation_gradient(of, x, g, out),
        );
    }

    fn spmm_values(&self, a: &Sparse, values: &Mat, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let e = edges(a, &rows);
        let moved = 8.0 * e + 8.0 * rows.len() as f64 + read(x, e) + of_rows(out, &rows);
        let need = (moved, 2.0 * e * x.ncols() as f64);
        self.call("spmm_values", need, |b| {
            b.spmm_values(a, values, rows, x, out)
        });
    }

    fn edge_dots(&self, a: &Sparse, p: &Mat, q: &Mat, out: &mut Mat) {
        let e = a.n_edges() as f64;
        let need = (
            4.0 * e + bytes(p) + read(q, e) + bytes(out),
            2.0 * e * p.ncols() as f64,
        );
        self.call("edge_dots", need, |b| b.edge_dots(a, p, q, out));
    }

    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, values: &Mat, out: &mut Mat) {
        let need = (4.0 * a.n_edges() as f64 + bytes(values) + bytes(out), 0.0);
        self.call("edge_dropout", need, |b| {
            b.edge_dropout(a, drop, values, out)
        });
    }

    fn coefficients(&self, a: &Sparse, slope: f32, el: &Mat, er: &Mat, alpha: &mut Mat) {
        let e = a.n_edges() as f64;
        let need = (4.0 * e + read(el, e) + bytes(er) + bytes(alpha), 6.0 * e);
        self.call("coefficients", need, |b| {
            b.coefficients(a, slope, el, er, alpha)
        });
    }

    fn coefficients_backward(
        &self,
        a: &Sparse,
        slope: f32,
        made: Coefficients<'_>,
        dalpha: &Mat,
        to: (&mut Mat, &mut Mat),
    ) {
        let e = a.n_edges() as f64;
        let scores = read(made.el, e) + bytes(made.er) + bytes(to.0) + bytes(to.1);
        let need = (
            4.0 * e + scores + bytes(made.alpha) + bytes(dalpha),
            6.0 * e,
        );
        self.call("coefficients_backward", need, |b| {
            b.coefficients_backward(a, slope, made, dalpha, to)
        });
    }

    fn column_sums(&self, g: &Mat, out: &mut Mat) {
        self.call("column_sums", (bytes(g), g.len() as f64), |b| {
            b.column_sums(g, out)
        });
    }

    fn copy_block(
        &self,
        x: &Mat,
        from: Corner<'_>,
        size: (usize, usize),
        out: &mut Mat,
        to: Corner<'_>,
    ) {
        let need = (8.0 * (size.0 * size.1) as f64, 0.0);
        self.call("copy_block", need, |b| b.copy_block(x, from, size, out, to));
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, out: &mut Mat) {
        let need = (3.0 * bytes(g), g.len() as f64);
        self.call("scatter_add_rows", need, |b| {
            b.scatter_add_rows(g, rows, out)
        });
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        let need = (bytes(logits) + bytes(grad), 6.0 * logits.len() as f64);
        self.call("softmax_xent", need, |b| {
            b.softmax_xent(logits, target, grad)
        })
    }

    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, grad: &mut Mat) -> f64 {
        let need = (
            1.25 * bytes(logits) + bytes(grad),
            6.0 * logits.len() as f64,
        );
        self.call("sigmoid_bce", need, |b| b.sigmoid_bce(logits, target, grad))
    }

    fn pair_products(&self, pairs: &Pairs, z: &Mat, out: &mut Mat) {
        let need = (
            read(z, 2.0 * out.nrows() as f64) + bytes(out),
            out.len() as f64,
        );
        self.call("pair_products", need, |b| b.pair_products(pairs, z, out));
    }

    fn pair_products_backward(&self, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
        let need = (
            read(z, 2.0 * gp.nrows() as f64) + bytes(gp) + bytes(g),
            4.0 * gp.len() as f64,
        );
        self.call("pair_products_backward", need, |b| {
            b.pair_products_backward(pairs, z, gp, g)
        });
    }

    fn sgd(&self, sgd: SgdParams, w: &mut Mat, g: &Mat, velocity: Option<&mut Mat>) {
        let passes = if velocity.is_some() { 5.0 } else { 3.0 };
        self.call("sgd", (passes * bytes(w), 4.0 * w.len() as f64), |b| {
            b.sgd(sgd, w, g, velocity)
        });
    }

    fn adam(&self, adam: AdamParams, t: u64, w: &mut Mat, g: &Mat, m: &mut Mat, v: &mut Mat) {
        let need = (7.0 * bytes(w), 12.0 * w.len() as f64);
        self.call("adam", need, |b| b.adam(adam, t, w, g, m, v));
    }
}
