//! Any backend, with each call's phase and duration told to the meter.

use super::{Adam, Backend, Mat, Product, Target, Write};
use crate::record::{Meter, Phase, now_ns};
use kernels::Csr;
use std::ops::Range;
use std::rc::Rc;

/// Wraps a backend.
pub struct Metered<B> {
    inner: B,
    meter: Rc<Meter>,
}

impl<B: Backend> Metered<B> {
    /// Wraps `inner`; durations go to `meter`.
    pub fn new(inner: B, meter: Rc<Meter>) -> Self {
        Metered { inner, meter }
    }

    fn timed<T>(&self, phase: Phase, f: impl FnOnce(&B) -> T) -> T {
        let before = self.meter.enter(phase);
        let start = now_ns();
        let result = f(&self.inner);
        self.meter.computed(phase, now_ns() - start);
        self.meter.enter(before);
        result
    }
}

impl<B: Backend> Backend for Metered<B> {
    fn device(&self) -> &str {
        self.inner.device()
    }

    fn spmm(&self, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        self.meter.edges(a.indptr[rows.end] - a.indptr[rows.start]);
        self.timed(Phase::Aggregate, |b| b.spmm(a, rows, x, out));
    }

    fn gemm(&self, product: Product, a: &Mat, b: &Mat, write: Write, out: &mut Mat) {
        self.timed(Phase::Update, |inner| inner.gemm(product, a, b, write, out));
    }

    fn sparse_gemm(&self, a: Csr<'_>, b: &Mat, write: Write, out: &mut Mat) {
        self.timed(Phase::Update, |inner| inner.sparse_gemm(a, b, write, out));
    }

    fn bias(&self, x: &mut Mat, bias: &[f32], relu: bool) {
        self.timed(Phase::Update, |b| b.bias(x, bias, relu));
    }

    fn relu_backward(&self, y: &Mat, g: &mut Mat) {
        self.timed(Phase::Update, |b| b.relu_backward(y, g));
    }

    fn column_sums(&self, g: &Mat, out: &mut [f32]) {
        self.timed(Phase::Update, |b| b.column_sums(g, out));
    }

    fn dropout(&self, key: u64, ids: &[u32], p: f32, x: &mut Mat) {
        self.timed(Phase::Update, |b| b.dropout(key, ids, p, x));
    }

    fn sparse_dropout(&self, key: u64, ids: &[u32], p: f32, a: Csr<'_>, out: &mut [f32]) {
        self.timed(Phase::Update, |b| b.sparse_dropout(key, ids, p, a, out));
    }

    fn sparse_dropout_t(&self, key: u64, ids: &[u32], p: f32, at: Csr<'_>, out: &mut [f32]) {
        self.timed(Phase::Update, |b| b.sparse_dropout_t(key, ids, p, at, out));
    }

    fn gather_rows(&self, x: &Mat, rows: &[u32], out: &mut Mat) {
        self.timed(Phase::Copy, |b| b.gather_rows(x, rows, out));
    }

    fn copy_rows(&self, x: &Mat, out: &mut Mat, first: usize) {
        self.timed(Phase::Copy, |b| b.copy_rows(x, out, first));
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &[u32], out: &mut Mat) {
        self.timed(Phase::Copy, |b| b.scatter_add_rows(g, rows, out));
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        self.timed(Phase::Loss, |b| b.softmax_xent(logits, target, grad))
    }

    fn adam(&self, adam: Adam, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        self.timed(Phase::Optim, |b| b.adam(adam, w, g, m, v));
    }
}
