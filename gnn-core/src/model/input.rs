//! A layer's input: dense rows, or sparse ones (features).

use crate::backend::{Product, Write};
use crate::ctx::Ctx;
use kernels::{Csr, CsrBuf, Mat};
use std::rc::Rc;
use std::sync::Arc;

/// Sparse feature rows with their transpose, and this epoch's values of both after dropout.
#[derive(Clone)]
pub struct SparseInput {
    rows: Arc<CsrBuf>,
    cols: Arc<CsrBuf>,
    values: Option<Rc<(Vec<f32>, Vec<f32>)>>,
}

impl SparseInput {
    /// Rows as they are: `[n_local, d]`.
    pub fn new(rows: Arc<CsrBuf>) -> SparseInput {
        let cols = Arc::new(rows.view().transpose());
        SparseInput {
            rows,
            cols,
            values: None,
        }
    }

    fn dropped(&self, cx: &Ctx, key: u64, ids: &[u32], p: f32) -> SparseInput {
        let mut values = vec![0.0; self.rows.indices.len()];
        cx.backend
            .sparse_dropout(key, ids, p, self.rows.view(), &mut values);
        let mut values_t = vec![0.0; self.cols.indices.len()];
        cx.backend
            .sparse_dropout_t(key, ids, p, self.cols.view(), &mut values_t);
        SparseInput {
            values: Some(Rc::new((values, values_t))),
            ..self.clone()
        }
    }

    fn view(&self) -> Csr<'_> {
        let csr = self.rows.view();
        match &self.values {
            Some(v) => Csr {
                weights: Some(&v.0),
                ..csr
            },
            None => csr,
        }
    }

    fn view_t(&self) -> Csr<'_> {
        let csr = self.cols.view();
        match &self.values {
            Some(v) => Csr {
                weights: Some(&v.1),
                ..csr
            },
            None => csr,
        }
    }
}

/// The input of a layer on this rank's rows.
#[derive(Clone)]
pub enum Input {
    /// `[n_local, d]`.
    Dense(Rc<Mat>),
    /// `[n_local, d]`, sparse.
    Sparse(SparseInput),
}

impl Input {
    /// Whether it is sparse.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Input::Sparse(_))
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Input::Dense(x) => x.dim(),
            Input::Sparse(x) => (x.rows.rows(), x.rows.n_cols),
        }
    }

    /// The input with elements dropped; `ids` are the rows' global vertex ids.
    pub fn dropout(self, cx: &Ctx, key: u64, ids: &[u32], p: f32) -> Input {
        if p == 0.0 {
            return self;
        }
        match self {
            Input::Dense(x) => {
                let mut x = Rc::unwrap_or_clone(x);
                cx.backend.dropout(key, ids, p, &mut x);
                Input::Dense(Rc::new(x))
            }
            Input::Sparse(x) => Input::Sparse(x.dropped(cx, key, ids, p)),
        }
    }

    /// `x · w`, `w: [d, k]` to `[n_local, k]`.
    pub fn times(&self, cx: &Ctx, w: &Mat) -> Mat {
        let mut out = Mat::zeros((self.dim().0, w.ncols()));
        match self {
            Input::Dense(x) => cx.backend.gemm(Product::Plain, x, w, Write::Set, &mut out),
            Input::Sparse(x) => cx.backend.sparse_gemm(x.view(), w, Write::Set, &mut out),
        }
        out
    }

    /// Adds `x · w` to `out: [n_local, k]`.
    pub fn add_times(&self, cx: &Ctx, w: &Mat, out: &mut Mat) {
        match self {
            Input::Dense(x) => cx.backend.gemm(Product::Plain, x, w, Write::Add, out),
            Input::Sparse(x) => {
                let a = x.view();
                cx.backend.sparse_gemm(a, w, Write::Add, out);
            }
        }
    }

    /// `xᵀ · g`, `g: [n_local, k]` to `[d, k]`: a weight gradient.
    pub fn t_times(&self, cx: &Ctx, g: &Mat) -> Mat {
        let mut out = Mat::zeros((self.dim().1, g.ncols()));
        match self {
            Input::Dense(x) => cx.backend.gemm(Product::LeftT, x, g, Write::Set, &mut out),
            Input::Sparse(x) => cx.backend.sparse_gemm(x.view_t(), g, Write::Set, &mut out),
        }
        out
    }
}
