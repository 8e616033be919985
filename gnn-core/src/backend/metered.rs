//! Any backend, with each call's phase and duration, and the bytes of its matrices, told to the meter.

use super::{
    Attended, Attention, AttentionSums, Backend, BothWays, Coefficients, Corner, Dropout, Kept,
    Mat, MultiTarget, Normed, Operand, Projected, ScoreTerm, SourceGradients, Sparse, Summed,
    Target, Term, Then, Typed, Write,
};
use crate::record::{Meter, Pass, Phase, Route, Stream, now_ns};
use kernels::adam::AdamParams;
use kernels::cuda::{Device, Mark};
use kernels::pairs::Pairs;
use kernels::sgd::SgdParams;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Wraps a backend.
///
/// A device that works on its own is not waited for: its marks are kept and resolved when the epoch
/// closes ([`Backend::settle`]).
pub struct Metered<B> {
    inner: B,
    meter: Rc<Meter>,
    /// Whether each call is waited for.
    at_once: bool,
    marked: RefCell<Vec<Marked>>,
}

/// A call whose duration the device knows.
struct Marked {
    phase: Phase,
    pass: Pass,
    layer: usize,
    route: Option<Route>,
    /// When it was asked for, on the host's clock.
    start: u64,
    from: Mark,
    to: Mark,
}

impl<B: Backend> Metered<B> {
    /// Wraps `inner`; durations go to `meter`.
    pub fn new(inner: B, meter: Rc<Meter>) -> Self {
        Metered {
            inner,
            meter,
            at_once: false,
            marked: RefCell::default(),
        }
    }

    /// The same, or one that waits for the device after each call, so that what a call does wrong is
    /// found in it.
    pub fn waiting(self, at_once: bool) -> Self {
        Metered { at_once, ..self }
    }

    /// Counts the edges of `rows`, along which rows of `width` columns are added up.
    fn count(&self, a: &Sparse, rows: &Range<usize>, width: usize) {
        let indptr = a.view().indptr;
        self.meter
            .edges(indptr[rows.end] - indptr[rows.start], width);
    }

    fn timed<T>(&self, phase: Phase, f: impl FnOnce(&B) -> T) -> T {
        let before = self.meter.enter(phase);
        let (from, start) = (self.inner.mark(), now_ns());
        let result = f(&self.inner);
        // On a rank that is slowed down, how long it takes has to be known now.
        let wait = self.at_once || self.meter.is_slow(phase);
        if wait {
            self.inner.settle();
        }
        match from.filter(|_| !wait).zip(self.inner.mark()) {
            Some((from, to)) => self.marked.borrow_mut().push(Marked {
                phase,
                pass: self.meter.pass(),
                layer: self.meter.layer(),
                route: self.meter.route(),
                start,
                from,
                to,
            }),
            None => self
                .meter
                .computed(Stream::Host, phase, start..self.meter.until(phase, start)),
        }
        self.meter.enter(before);
        result
    }
}

impl<B: Backend> Backend for Metered<B> {
    fn device(&self) -> &str {
        self.inner.device()
    }

    fn settle(&self) {
        self.inner.settle();
        let (pass, layer) = (self.meter.pass(), self.meter.layer());
        let route = self.meter.route();
        let calls = self.marked.take();
        // The device was idle when the first call since it last settled was asked for: its mark then
        // is where the two clocks meet.
        let first = calls.first();
        for call in &calls {
            self.meter.set_pass(call.pass);
            self.meter.set_layer(call.layer);
            self.meter.set_route(call.route);
            let ns = self.inner.between(&call.from, &call.to);
            let start = match (self.meter.trace(), first) {
                (Some(_), Some(first)) => first.start + self.inner.between(&first.from, &call.from),
                _ => call.start,
            };
            let at = start..start + ns;
            self.meter.computed(Stream::Device, call.phase, at);
        }
        self.meter.set_pass(pass);
        self.meter.set_layer(layer);
        self.meter.set_route(route);
    }

    fn limit(&self, bytes: u64) {
        self.inner.limit(bytes);
    }

    fn keeps_elements(&self) -> bool {
        self.inner.keeps_elements()
    }

    fn memory(&self) -> Option<&Arc<Device>> {
        self.inner.memory()
    }

    fn prepare(&self, a: &Sparse) {
        self.timed(Phase::Copy, |b| b.prepare(a));
    }

    fn fresh(&self, rows: usize, cols: usize) -> Mat {
        self.inner.fresh(rows, cols).told(&self.meter)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Mat {
        self.inner.zeros(rows, cols).told(&self.meter)
    }

    fn upload(&self, x: kernels::Mat) -> Mat {
        self.timed(Phase::Copy, |b| b.upload(x)).told(&self.meter)
    }

    fn upload_made(&self, shape: (usize, usize), make: &dyn Fn() -> kernels::Mat) -> Mat {
        let made = self.timed(Phase::Copy, |b| b.upload_made(shape, make));
        made.told(&self.meter)
    }

    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        self.timed(Phase::Copy, |b| b.share(x)).told(&self.meter)
    }

    fn mapped(&self, x: &Arc<kernels::Mat>) -> Result<Mat, kernels::cuda::Error> {
        // It takes no memory that its owner does not have.
        self.timed(Phase::Copy, |b| b.mapped(x))
    }

    fn upload_rounded(&self, x: kernels::Mat) -> Mat {
        let rounded = self.timed(Phase::Copy, |b| b.upload_rounded(x));
        rounded.told(&self.meter)
    }

    fn download(&self, x: &Mat) -> kernels::Mat {
        self.timed(Phase::Copy, |b| b.download(x))
    }

    fn take(&self, x: Mat) -> kernels::Mat {
        self.timed(Phase::Copy, |b| b.take(x))
    }

    fn give_back(&self, x: kernels::Mat) {
        self.inner.give_back(x);
    }

    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, write: Write, out: &mut Mat) {
        self.count(a, &rows, x.ncols());
        self.timed(Phase::Aggregate, |b| b.spmm(a, rows, x, write, out));
    }

    fn linear(&self, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
        self.timed(Phase::Update, |b| b.linear(terms, write, then, out));
    }

    fn makes_rows(&self, k: usize, n: usize) -> bool {
        self.inner.makes_rows(k, n)
    }

    fn reads_cols(&self, k: usize, n: usize) -> bool {
        self.inner.reads_cols(k, n)
    }

    fn weight_gradients(&self, xs: &[&Mat], g: Operand<'_>, gws: &mut [Mat], gb: Option<&mut Mat>) {
        self.timed(Phase::Update, |b| b.weight_gradients(xs, g, gws, gb));
    }

    fn sparse_gemm(&self, a: &Sparse, values: Option<&Mat>, b: &Mat, write: Write, out: &mut Mat) {
        self.timed(Phase::Update, |inner| {
            inner.sparse_gemm(a, values, b, write, out)
        });
    }

    fn sparse_gemm_t(&self, x: BothWays<'_>, g: &Mat, out: &mut Mat) {
        self.timed(Phase::Update, |inner| inner.sparse_gemm_t(x, g, out));
    }

    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, transposed: bool) -> Mat {
        self.timed(Phase::Update, |b| b.sparse_dropout(drop, a, transposed))
            .told(&self.meter)
    }

    fn then(&self, then: Then<'_>, x: &mut Mat) {
        self.timed(Phase::Update, |b| b.then(then, x));
    }

    fn then_of(&self, then: Then<'_>, x: &Mat, out: &mut Mat) {
        self.timed(Phase::Update, |b| b.then_of(then, x, out));
    }

    fn axpby(&self, alpha: f32, x: &Mat, beta: f32, y: &mut Mat) {
        self.timed(Phase::Update, |b| b.axpby(alpha, x, beta, y));
    }

    fn dot(&self, a: &Mat, b: &Mat, out: &mut Mat) {
        self.timed(Phase::Update, |inner| inner.dot(a, b, out));
    }

    fn layer_norm(&self, x: &Mat, gain: &Mat, shift: &Mat, stats: &mut Mat, out: &mut Mat) {
        self.timed(Phase::Update, |b| b.layer_norm(x, gain, shift, stats, out));
    }

    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        g: &Mat,
        gx: &mut Mat,
        gain: &mut Mat,
        shift: &mut Mat,
    ) {
        self.timed(Phase::Update, |b| {
            b.layer_norm_backward(normed, g, gx, gain, shift);
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
        self.timed(Phase::Update, |b| {
            b.attention_scores(z, vectors, rows, el, er);
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
        self.count(a, &rows, from.z.ncols());
        self.timed(Phase::Aggregate, |b| b.attention(a, rows, att, from, to));
    }

    fn attention_destinations(
        &self,
        slope: f32,
        g: &Mat,
        sums: Summed<'_>,
        c: &mut Mat,
        der: &mut Mat,
    ) {
        self.timed(Phase::Update, |b| {
            b.attention_destinations(slope, g, sums, c, der);
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
        self.count(at, &rows, saved.g.ncols());
        self.timed(Phase::Aggregate, |b| {
            b.attention_sources(at, rows, att, saved, to);
        });
    }

    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat) {
        self.timed(Phase::Update, |b| b.score_backward(z, terms, dz));
    }

    fn relation_spmm(&self, edges: Typed<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        self.count(edges.a, &rows, x.ncols());
        self.timed(Phase::Aggregate, |b| b.relation_spmm(edges, rows, x, out));
    }

    fn relation_spmm_t(&self, edges: Typed<'_>, rows: Range<usize>, g: &Mat, out: &mut Mat) {
        self.count(edges.a, &rows, out.ncols());
        self.timed(Phase::Aggregate, |b| {
            b.relation_spmm_t(edges, rows, g, out);
        });
    }

    fn relation_gradient(&self, edges: Typed<'_>, x: &Mat, g: &Mat, out: &mut Mat) {
        self.timed(Phase::Aggregate, |b| {
            b.relation_gradient(edges, x, g, out);
        });
    }

    fn spmm_values(&self, a: &Sparse, values: &Mat, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        self.count(a, &rows, x.ncols());
        self.timed(Phase::Aggregate, |b| b.spmm_values(a, values, rows, x, out));
    }

    fn edge_dots(&self, a: &Sparse, p: &Mat, q: &Mat, out: &mut Mat) {
        self.timed(Phase::Aggregate, |b| b.edge_dots(a, p, q, out));
    }

    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, values: &Mat, out: &mut Mat) {
        self.timed(Phase::Update, |b| b.edge_dropout(a, drop, values, out));
    }

    fn coefficients(&self, a: &Sparse, slope: f32, el: &Mat, er: &Mat, alpha: &mut Mat) {
        self.timed(Phase::Update, |b| b.coefficients(a, slope, el, er, alpha));
    }

    fn coefficients_backward(
        &self,
        a: &Sparse,
        slope: f32,
        made: Coefficients<'_>,
        dalpha: &Mat,
        to: (&mut Mat, &mut Mat),
    ) {
        self.timed(Phase::Update, |b| {
            b.coefficients_backward(a, slope, made, dalpha, to);
        });
    }

    fn column_sums(&self, g: &Mat, out: &mut Mat) {
        self.timed(Phase::Update, |b| b.column_sums(g, out));
    }

    fn copy_block(
        &self,
        x: &Mat,
        from: Corner<'_>,
        size: (usize, usize),
        out: &mut Mat,
        to: Corner<'_>,
    ) {
        self.timed(Phase::Copy, |b| b.copy_block(x, from, size, out, to));
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, out: &mut Mat) {
        self.timed(Phase::Copy, |b| b.scatter_add_rows(g, rows, out));
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        self.timed(Phase::Loss, |b| b.softmax_xent(logits, target, grad))
    }

    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, grad: &mut Mat) -> f64 {
        self.timed(Phase::Loss, |b| b.sigmoid_bce(logits, target, grad))
    }

    fn pair_products(&self, pairs: &Pairs, z: &Mat, out: &mut Mat) {
        self.timed(Phase::Loss, |b| b.pair_products(pairs, z, out));
    }

    fn pair_products_backward(&self, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
        self.timed(Phase::Loss, |b| b.pair_products_backward(pairs, z, gp, g));
    }

    fn sgd(&self, sgd: SgdParams, w: &mut Mat, g: &Mat, velocity: Option<&mut Mat>) {
        self.timed(Phase::Optim, |b| b.sgd(sgd, w, g, velocity));
    }

    fn adam(&self, adam: AdamParams, t: u64, w: &mut Mat, g: &Mat, m: &mut Mat, v: &mut Mat) {
        self.timed(Phase::Optim, |b| b.adam(adam, t, w, g, m, v));
    }
}
