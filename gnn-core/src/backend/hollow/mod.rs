//! A backend whose matrices have shapes and no elements: a strategy runs an epoch on it as it would on
//! the host, calls, messages and all, and nothing is computed.
//!
//! What the books ([`Ledger`]) hold afterwards is what such an epoch takes: bytes of buffers as the
//! host's pool keeps them, lists that are read, operations. A matrix that leaves the backend is zeros
//! of its shape, which the system gives without memory behind them until somebody writes.
//!
//! # Not done
//! A strategy that decides by the values of a matrix decides as for zeros. Devices keep buffers in
//! another way than the host.

mod ledger;

pub(super) use ledger::Claim;
pub use ledger::{Asked, Ledger};

use super::{
    Attended, Attention, AttentionSums, Backend, Coefficients, Corner, Dropout, Kept, Mat,
    MultiTarget, Normed, Operand, Picked, Product, Projected, ScoreTerm, SourceGradients, Sparse,
    Summed, Target, Term, Then, Typed, Write,
};
use kernels::adam::AdamParams;
use kernels::pairs::Pairs;
use kernels::segmented::WIDE;
use kernels::sgd::SgdParams;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The backend, and its books.
#[derive(Default)]
pub struct Hollow {
    ledger: Rc<Ledger>,
    /// Whether it stands for the host.
    host: bool,
}

impl Hollow {
    /// One that writes to `ledger`, in the place of the host or of a device.
    pub fn new(ledger: Rc<Ledger>, host: bool) -> Hollow {
        Hollow { ledger, host }
    }

    fn made(&self, rows: usize, cols: usize) -> Mat {
        Mat::hollow(rows, cols, self.ledger.fresh(rows * cols))
    }

    /// What the host makes of a matrix in 16 bits before it can multiply it.
    fn widened(&self, x: &Mat) -> Option<Mat> {
        (x.element() == 2).then(|| self.made(x.nrows(), x.ncols()))
    }

    fn then_of(&self, then: Then<'_>, out: &Mat) {
        let gate = if then.gate.is_some() { out.len() } else { 0 };
        self.ledger.moved(gate);
        if let Some(drop) = then.dropout {
            self.ledger.list(drop.ids);
        }
    }

    /// Operations on the edges of one head's coefficients.
    fn edges(&self, a: &Sparse, width: usize) {
        self.ledger.sparse(a);
        self.ledger.moved(2 * a.n_edges() * width);
    }
}

impl Backend for Hollow {
    fn device(&self) -> &str {
        "hollow"
    }

    fn keeps_elements(&self) -> bool {
        false
    }

    fn fresh(&self, rows: usize, cols: usize) -> Mat {
        self.made(rows, cols)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Mat {
        self.ledger.moved(rows * cols);
        self.made(rows, cols)
    }

    fn upload(&self, x: kernels::Mat) -> Mat {
        Mat::hollow(x.nrows(), x.ncols(), self.ledger.adopt(x.len()))
    }

    fn upload_made(&self, (rows, cols): (usize, usize), _: &dyn Fn() -> kernels::Mat) -> Mat {
        Mat::hollow(rows, cols, self.ledger.adopt(rows * cols))
    }

    fn upload_rounded(&self, x: kernels::Mat) -> Mat {
        Mat::hollow(x.nrows(), x.ncols(), self.ledger.beside(2 * x.len()))
    }

    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        // Whoever shares it holds it.
        Mat::hollow(x.nrows(), x.ncols(), self.ledger.beside(0))
    }

    fn download(&self, x: &Mat) -> kernels::Mat {
        self.ledger.moved(2 * x.len());
        kernels::Mat::zeros(x.dim())
    }

    fn take(&self, x: Mat) -> kernels::Mat {
        let shape = x.dim();
        x.into_claim().leaves();
        kernels::Mat::zeros(shape)
    }

    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, _write: Write, _out: &mut Mat) {
        if x.element() == 4 {
            // The host makes these of it once, and keeps them.
            a.factor();
            if x.ncols() >= WIDE && !rows.is_empty() {
                a.segmented();
            }
        }
        self.ledger.sparse(a);
    }

    fn linear(&self, terms: &[Term<'_>], _write: Write, then: Then<'_>, out: &mut Mat) {
        let _wide: Vec<Option<Mat>> = terms.iter().map(|t| self.widened(t.a)).collect();
        for term in terms {
            let inner = match term.product {
                Product::LeftT => term.a.nrows(),
                _ => term.a.ncols(),
            };
            self.ledger.flops(2.0 * (out.len() * inner) as f64);
        }
        self.then_of(then, out);
    }

    fn makes_rows(&self, k: usize, n: usize) -> bool {
        self.host && kernels::linear::makes_rows(k, n)
    }

    fn weight_gradients(
        &self,
        xs: &[&Mat],
        g: Operand<'_>,
        _gws: &mut [Mat],
        _gb: Option<&mut Mat>,
    ) {
        let _wide: Vec<Option<Mat>> = xs.iter().map(|x| self.widened(x)).collect();
        let (rows, cols) = g.dim();
        if let Operand::Made { terms, .. } = g {
            let inner: usize = terms.iter().map(|t| t.a.ncols()).sum();
            self.ledger.flops(2.0 * (rows * cols * inner) as f64);
        }
        for x in xs {
            self.ledger.flops(2.0 * (x.len() * cols) as f64);
        }
    }

    fn sparse_gemm(&self, a: &Sparse, _: Option<&Mat>, b: &Mat, _write: Write, _out: &mut Mat) {
        self.ledger.input(a);
        self.ledger.moved(2 * a.n_edges() * b.ncols());
    }

    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, _transposed: bool) -> Mat {
        self.ledger.list(drop.ids);
        self.ledger.input(a);
        self.ledger.moved(2 * a.n_edges());
        self.made(1, a.n_edges())
    }

    fn then(&self, then: Then<'_>, x: &mut Mat) {
        self.ledger.moved(2 * x.len());
        self.then_of(then, x);
    }

    fn axpby(&self, _alpha: f32, x: &Mat, _beta: f32, _y: &mut Mat) {
        self.ledger.moved(3 * x.len());
    }

    fn dot(&self, a: &Mat, _b: &Mat, _out: &mut Mat) {
        self.ledger.moved(2 * a.len());
    }

    fn layer_norm(&self, x: &Mat, _: &Mat, _: &Mat, _: &mut Mat, _: &mut Mat) {
        self.ledger.moved(3 * x.len());
    }

    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        _g: &Mat,
        _gx: &mut Mat,
        _gain: &mut Mat,
        _shift: &mut Mat,
    ) {
        self.ledger.moved(4 * normed.x.len());
    }

    fn attention_scores(
        &self,
        z: &Mat,
        (_, dst): (&Mat, Option<&Mat>),
        rows: Range<usize>,
        _el: &mut Mat,
        _er: &mut Mat,
    ) {
        let products = 1 + usize::from(dst.is_some());
        self.ledger.moved(products * rows.len() * z.ncols());
    }

    fn attention(
        &self,
        a: &Sparse,
        _rows: Range<usize>,
        _att: Attention<'_>,
        _from: Projected<'_>,
        _to: AttentionSums<'_>,
    ) {
        self.ledger.sparse(a);
    }

    fn attention_destinations(
        &self,
        _slope: f32,
        g: &Mat,
        _sums: Summed<'_>,
        _c: &mut Mat,
        _der: &mut Mat,
    ) {
        self.ledger.moved(3 * g.len());
    }

    fn attention_sources(
        &self,
        at: &Sparse,
        _rows: Range<usize>,
        _att: Attention<'_>,
        _saved: Attended<'_>,
        _to: SourceGradients<'_>,
    ) {
        self.ledger.sparse(at);
    }

    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], _dz: &mut Mat) {
        self.ledger.moved(2 * z.len() * terms.len());
    }

    fn relation_spmm(&self, edges: Typed<'_>, _rows: Range<usize>, _x: &Mat, _out: &mut Mat) {
        self.ledger.list(edges.types);
        self.ledger.sparse(edges.a);
    }

    fn relation_spmm_t(&self, edges: Typed<'_>, _rows: Range<usize>, _g: &Mat, _out: &mut Mat) {
        self.ledger.list(edges.types);
        self.ledger.sparse(edges.a);
    }

    fn relation_gradient(&self, edges: Typed<'_>, x: &Mat, _g: &Mat, _out: &mut Mat) {
        self.ledger.list(edges.types);
        self.edges(edges.a, x.ncols());
    }

    fn spmm_values(&self, a: &Sparse, _values: &Mat, _: Range<usize>, _x: &Mat, _out: &mut Mat) {
        self.ledger.sparse(a);
    }

    fn edge_dots(&self, a: &Sparse, p: &Mat, _q: &Mat, _out: &mut Mat) {
        self.edges(a, p.ncols());
    }

    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, _values: &Mat, _out: &mut Mat) {
        self.ledger.list(drop.ids);
        self.edges(a, 1);
    }

    fn coefficients(&self, a: &Sparse, _slope: f32, _el: &Mat, _er: &Mat, _alpha: &mut Mat) {
        self.edges(a, 1);
    }

    fn coefficients_backward(
        &self,
        a: &Sparse,
        _slope: f32,
        _made: Coefficients<'_>,
        _dalpha: &Mat,
        _to: (&mut Mat, &mut Mat),
    ) {
        self.edges(a, 2);
    }

    fn column_sums(&self, g: &Mat, _out: &mut Mat) {
        self.ledger.moved(g.len());
    }

    fn copy_block(
        &self,
        _x: &Mat,
        from: Corner<'_>,
        (rows, cols): (usize, usize),
        _out: &mut Mat,
        to: Corner<'_>,
    ) {
        for corner in [from, to] {
            if let Picked::List(list) = corner.rows {
                self.ledger.list(list);
            }
        }
        self.ledger.moved(2 * rows * cols);
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, _out: &mut Mat) {
        self.ledger.list(rows);
        self.ledger.moved(3 * g.len());
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, _grad: &mut Mat) -> f64 {
        self.ledger.list(target.labels);
        self.ledger.list(target.mask);
        self.ledger.moved(2 * logits.len());
        0.0
    }

    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, _grad: &mut Mat) -> f64 {
        self.ledger.list(target.labels);
        self.ledger.list(target.mask);
        self.ledger.moved(2 * logits.len());
        0.0
    }

    fn pair_products(&self, _pairs: &Pairs, _z: &Mat, out: &mut Mat) {
        self.ledger.moved(3 * out.len());
    }

    fn pair_products_backward(&self, _pairs: &Pairs, _z: &Mat, gp: &Mat, _g: &mut Mat) {
        self.ledger.moved(3 * gp.len());
    }

    fn sgd(&self, _sgd: SgdParams, w: &mut Mat, _g: &Mat, velocity: Option<&mut Mat>) {
        self.ledger
            .moved((3 + usize::from(velocity.is_some())) * w.len());
    }

    fn adam(&self, _adam: AdamParams, _t: u64, w: &mut Mat, _: &Mat, _: &mut Mat, _: &mut Mat) {
        self.ledger.moved(7 * w.len());
    }
}
