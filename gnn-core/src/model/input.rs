//! A layer's input: dense rows, or sparse ones (features).

use crate::backend::{BothWays, Dropout, Kept, Mat, Sparse, Term, Then, Write};
use crate::ctx::Ctx;
use kernels::{Csr, CsrBuf};
use std::cell::OnceCell;
use std::rc::Rc;

/// Sparse feature rows with their transpose, and this epoch's values of both after dropout.
#[derive(Clone)]
pub struct SparseInput {
    rows: Rc<Sparse>,
    /// Made when it is first asked for, at the latest.
    cols: Rc<OnceCell<Sparse>>,
    values: Option<Rc<Values>>,
}

/// Values of sparse rows after dropout.
struct Values {
    /// In the order of the rows.
    rows: Mat,
    /// In that of the columns, where these were there.
    cols: Option<Mat>,
    /// Rows with these values by column, where columns are asked for later.
    late: OnceCell<Sparse>,
}

impl SparseInput {
    /// Rows as they are: `[n_local, d]`.
    pub fn new(rows: CsrBuf) -> SparseInput {
        let cols = rows.view().transpose();
        SparseInput {
            rows: Rc::new(Sparse::new(rows)),
            cols: Rc::new(OnceCell::from(Sparse::new(cols))),
            values: None,
        }
    }

    /// Bytes of the lists of rows, and of columns where they are made.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.cols.get().map_or(0, Sparse::bytes)
    }

    /// Rows that are used once, with their transposed `[d, n_local]` where it is there.
    pub fn brief(rows: CsrBuf, cols: Option<CsrBuf>) -> SparseInput {
        let cols = cols.map(|cols| OnceCell::from(Sparse::brief(cols)));
        SparseInput {
            rows: Rc::new(Sparse::brief(rows)),
            cols: Rc::new(cols.unwrap_or_default()),
            values: None,
        }
    }

    /// The transposed, with this epoch's values in its order where they are not its own.
    fn cols(&self, cx: &Ctx) -> (&Sparse, Option<&Mat>) {
        match &self.values {
            Some(values) if values.cols.is_none() => {
                let made = || {
                    let own = downloaded(cx, &values.rows);
                    let rows = Csr {
                        weights: Some(&own),
                        ..self.rows.view()
                    };
                    Sparse::brief(rows.transpose())
                };
                (values.late.get_or_init(made), None)
            }
            values => {
                let made = || Sparse::brief(self.rows.view().transpose());
                let of = values.as_ref().and_then(|values| values.cols.as_ref());
                (self.cols.get_or_init(made), of)
            }
        }
    }

    /// The first `n` rows, with this epoch's values.
    fn first_rows(&self, cx: &Ctx, n: usize) -> SparseInput {
        let all = self.rows.view();
        let end = all.indptr[n] as usize;
        let weights = match &self.values {
            Some(values) => Some(downloaded(cx, &values.rows)),
            None => all.weights.map(<[f32]>::to_vec),
        };
        let rows = CsrBuf {
            indptr: all.indptr[..=n].to_vec(),
            indices: all.indices[..end].to_vec(),
            weights: weights.map(|mut w| {
                w.truncate(end);
                w
            }),
            n_cols: all.n_cols,
        };
        SparseInput::brief(rows, None)
    }

    fn dropped(&self, cx: &Ctx, drop: Dropout<'_>) -> SparseInput {
        let after = |x: &Sparse, by_column| cx.backend.sparse_dropout(drop, x, by_column);
        let values = Values {
            rows: after(&self.rows, false),
            cols: self.cols.get().map(|cols| after(cols, true)),
            late: OnceCell::new(),
        };
        SparseInput {
            values: Some(Rc::new(values)),
            ..self.clone()
        }
    }
}

/// The elements of a matrix, on the host.
fn downloaded(cx: &Ctx, x: &Mat) -> Vec<f32> {
    cx.backend.download(x).into_raw_vec_and_offset().0
}

/// `then(x)`, a matrix of its own.
fn then_of(cx: &Ctx, then: Then<'_>, x: &Mat) -> Mat {
    let mut out = cx.backend.fresh(x.nrows(), x.ncols());
    cx.backend.then_of(then, x, &mut out);
    out
}

/// The input of a layer on this rank's rows.
#[derive(Clone)]
pub enum Input {
    /// `[n_local, d]`.
    Dense(Rc<Mat>),
    /// `[n_local, d]`, sparse.
    Sparse(SparseInput),
    /// `[n_local, d]` that never changes, beside its aggregate of the same shape, made once.
    Aggregated {
        /// The rows.
        x: Rc<Mat>,
        /// Â times them.
        ax: Rc<Mat>,
    },
}

impl Input {
    /// Nothing.
    pub(crate) fn none(cx: &Ctx) -> Input {
        Input::Dense(Rc::new(cx.backend.zeros(0, 0)))
    }

    /// Whether it is sparse.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Input::Sparse(_))
    }

    /// Bytes of its elements and lists.
    pub fn bytes(&self) -> usize {
        match self {
            Input::Dense(x) => 4 * x.len(),
            Input::Sparse(x) => x.bytes(),
            Input::Aggregated { x, ax } => 4 * (x.len() + ax.len()),
        }
    }

    /// Its rows, if they are dense.
    pub fn dense(&self) -> Option<&Rc<Mat>> {
        match self {
            Input::Dense(x) | Input::Aggregated { x, .. } => Some(x),
            Input::Sparse(_) => None,
        }
    }

    /// Its aggregate, if it was made before.
    pub fn aggregated(&self) -> Option<&Rc<Mat>> {
        match self {
            Input::Aggregated { ax, .. } => Some(ax),
            _ => None,
        }
    }

    /// Its rows as a matrix of its own, for dense rows that nobody else holds.
    ///
    /// # Panics
    /// Otherwise: a stack's output is such rows.
    pub fn into_mat(self) -> Mat {
        match self {
            Input::Dense(x) => Rc::into_inner(x).expect("nobody else holds a stack's output"),
            _ => panic!("a stack's output is dense"),
        }
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Input::Dense(x) | Input::Aggregated { x, .. } => x.dim(),
            Input::Sparse(x) => (x.rows.rows(), x.rows.n_cols()),
        }
    }

    /// Its first `n` rows, which are a block's own rows among its columns; rows whose aggregate is known
    /// are a block's own already.
    pub fn first_rows(&self, cx: &Ctx, n: usize) -> Input {
        match self {
            Input::Dense(x) if x.nrows() > n => Input::Dense(Rc::new(cx.backend.rows(x, 0..n))),
            Input::Sparse(x) if x.rows.rows() > n => Input::Sparse(x.first_rows(cx, n)),
            other => other.clone(),
        }
    }

    /// The input with elements dropped; `ids` are the rows' global vertex ids. Dense rows that others hold are
    /// copied.
    pub fn dropout(self, cx: &Ctx, key: u64, ids: &Kept<u32>, p: f32) -> Input {
        if p == 0.0 {
            return self;
        }
        let drop = Dropout { key, ids, p };
        match self {
            Input::Dense(x) | Input::Aggregated { x, .. } => {
                let then = Then {
                    dropout: Some(drop),
                    ..Then::default()
                };
                let x = match Rc::try_unwrap(x) {
                    Ok(mut x) if x.shared_elements().is_none() => {
                        cx.backend.then(then, &mut x);
                        x
                    }
                    Ok(x) => then_of(cx, then, &x),
                    Err(x) => then_of(cx, then, &x),
                };
                Input::Dense(Rc::new(x))
            }
            Input::Sparse(x) => Input::Sparse(x.dropped(cx, drop)),
        }
    }

    /// `x · w`, `w: [d, k]` to `[n_local, k]`.
    pub fn times(&self, cx: &Ctx, w: &Mat) -> Mat {
        self.times_then(cx, w, Then::default())
    }

    /// `x · w`, `w: [d, k]` to `[n_local, k]`, with `then` applied.
    pub fn times_then(&self, cx: &Ctx, w: &Mat, then: Then<'_>) -> Mat {
        let mut out = cx.backend.fresh(self.dim().0, w.ncols());
        match self {
            Input::Sparse(x) => {
                let values = x.values.as_deref().map(|v| &v.rows);
                cx.backend
                    .sparse_gemm(&x.rows, values, w, Write::Set, &mut out);
                cx.backend.then(then, &mut out);
            }
            Input::Dense(x) | Input::Aggregated { x, .. } => {
                let terms = [Term::plain(x, w)];
                cx.backend.linear(&terms, Write::Set, then, &mut out);
            }
        }
        out
    }

    /// Adds `x · w` to `out: [n_local, k]`, then applies `then`.
    pub fn add_times(&self, cx: &Ctx, w: &Mat, then: Then<'_>, out: &mut Mat) {
        match self {
            Input::Sparse(x) => {
                let values = x.values.as_deref().map(|v| &v.rows);
                cx.backend.sparse_gemm(&x.rows, values, w, Write::Add, out);
                cx.backend.then(then, out);
            }
            Input::Dense(x) | Input::Aggregated { x, .. } => {
                let terms = [Term::plain(x, w)];
                cx.backend.linear(&terms, Write::Add, then, out);
            }
        }
    }

    /// `xᵀ · g`, `g: [n_local, k]` to `[d, k]`: a weight gradient.
    pub fn t_times(&self, cx: &Ctx, g: &Mat) -> Mat {
        let mut out = cx.backend.fresh(self.dim().1, g.ncols());
        match self {
            Input::Sparse(x) => {
                let reads = cx.backend.reads_cols(x.rows.n_cols(), g.ncols());
                let (cols, col_values) = reads.then(|| x.cols(cx)).unzip();
                let both = BothWays {
                    rows: &x.rows,
                    row_values: x.values.as_deref().map(|v| &v.rows),
                    cols,
                    col_values: col_values.flatten(),
                };
                cx.backend.sparse_gemm_t(both, g, &mut out);
            }
            Input::Dense(x) | Input::Aggregated { x, .. } => {
                cx.backend.weight_gradient(x, g, &mut out, None);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RunSpec;
    use crate::testing::world;

    /// Rows with their transposed, without it, and their first ones give the same weight gradients, dropped or not:
    /// for widths at which the processor reads columns (8) and rows (32).
    #[test]
    fn a_weight_gradient_does_not_depend_on_what_is_transposed_when() {
        let (n, d) = (60usize, 25);
        let mut rows = CsrBuf::empty(d);
        for r in 0..n {
            rows.indices
                .extend((0..r % 5).map(|k| ((r * 3 + k * 7) % d) as u32));
            rows.indptr.push(rows.indices.len() as u64);
        }
        rows.weights = Some(
            (0..rows.indices.len())
                .map(|e| e as f32 % 7.0 - 3.0)
                .collect(),
        );
        let spec = RunSpec::from_pairs([("model", crate::spec::Value::from_word("gcn"))]);
        let spec = spec.expect("a request");
        let all_equal = world(&spec, 1, |cx, _| {
            let ids = Kept::from((0..n as u32).collect::<Vec<u32>>());
            [8, 32].into_iter().all(|k| {
                assert_eq!(cx.backend.reads_cols(d, k), k == 8);
                let g = kernels::Mat::from_shape_fn((n, k), |(r, c)| {
                    (r * 5 + c * 3) as f32 % 11.0 - 5.0
                });
                let top = g.slice(ndarray::s![..40, ..]).to_owned();
                let (g, top) = (cx.backend.upload(g), cx.backend.upload(top));
                [0.0, 0.5].into_iter().all(|p| {
                    let dropped = |x| Input::Sparse(x).dropout(cx, 77, &ids, p);
                    let early = dropped(SparseInput::new(rows.clone()));
                    let late = dropped(SparseInput::brief(rows.clone(), None));
                    let of = |x: &Input, g| cx.backend.download(&x.t_times(cx, g));
                    let first = |x: &Input| of(&x.first_rows(cx, 40), &top);
                    of(&early, &g) == of(&late, &g) && first(&early) == first(&late)
                })
            })
        });
        assert_eq!(all_equal, [true]);
    }
}
