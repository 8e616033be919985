//! Weights that are one number a row, or one a column: those of a mean over neighbours, and of its transposed.
//!
//! An aggregate then needs none beside its edges: sums of rows are multiplied at the end, or rows before they are
//! gathered. Four bytes an edge less are read, and sums wait for additions only. Times: `notebooks/measured/shapes.md`.

use crate::segmented::WIDE;
use crate::spmm::Onto;
use crate::spmm_tile::APART;
use crate::{Csr, expect_eq};

/// How often each column is gathered on average, from where it pays to multiply all of them before.
const OFTEN: usize = 64;

// Rows wide enough for segments, which are made without such weights, are wide enough for a factor.
const _: () = assert!(WIDE > APART);

/// The weights of a sparse matrix `[m, n]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// One a row: `[m]`; any number for a row without edges.
    Rows(Vec<f32>),
    /// One a column: `[n]`, likewise.
    Cols(Vec<f32>),
}

impl Factor {
    /// That of a matrix whose weights are one number a row; or one a column, where an average column has so many edges
    /// that multiplying it before costs less than a weight for each.
    ///
    /// # Panics
    /// When an index of `a` is not below its number of columns.
    pub fn of(a: Csr<'_>) -> Option<Factor> {
        let weights = a.weights?;
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits();
        let rows = (0..a.rows()).map(|r| {
            let row = &weights[a.span(r)];
            let first = row.first().copied().unwrap_or(0.0);
            row.iter().all(|&w| same(w, first)).then_some(first)
        });
        if let Some(rows) = rows.collect() {
            return Some(Factor::Rows(rows));
        }
        if a.n_edges() / OFTEN < a.n_cols {
            return None;
        }
        let mut cols: Vec<Option<f32>> = vec![None; a.n_cols];
        let mut of_cols = a.indices.iter().zip(weights);
        let one = of_cols.all(|(&c, &w)| same(*cols[c as usize].get_or_insert(w), w));
        one.then(|| Factor::Cols(cols.into_iter().map(|w| w.unwrap_or(0.0)).collect()))
    }

    /// Whether rows of `d` columns are aggregated faster with it.
    pub fn pays(d: usize) -> bool {
        d > APART
    }

    /// What becomes of sums of rows of a matrix of this shape, and what its columns are multiplied with before.
    pub(crate) fn how(&self, a: Csr<'_>, add: bool) -> (Onto<'_>, Option<&[f32]>) {
        match self {
            Factor::Rows(by) => {
                expect_eq("spmm", "a number for each row", a.rows(), by.len());
                let onto = if add {
                    Onto::AddTimes(by)
                } else {
                    Onto::SetTimes(by)
                };
                (onto, None)
            }
            Factor::Cols(by) => {
                expect_eq("spmm", "a number for each column", a.n_cols, by.len());
                (if add { Onto::Add } else { Onto::Set }, Some(by))
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let (Factor::Rows(by) | Factor::Cols(by)) = self;
        4 * by.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segmented::{self, Segmented};
    use crate::spmm::tests::{assert_close, matrix};
    use crate::{CsrBuf, Mat, Par, spmm};

    /// `n` rows of `degree` edges and one more by turns, some of them none.
    fn matrix_of(n: usize, degree: usize) -> CsrBuf {
        let mut a = CsrBuf::empty(n);
        for r in 0..n {
            let edges = if r % 7 == 3 { 0 } else { degree + r % 2 };
            let cols = (0..edges).map(|k| ((r * 5 + k * k) % n) as u32);
            a.indices.extend(cols);
            a.indptr.push(a.indices.len() as u64);
        }
        a
    }

    fn with(a: &CsrBuf, weight: impl Fn(usize, usize) -> f32) -> CsrBuf {
        let of = |r: usize| a.view().span(r).map(move |e| (r, e));
        let all = (0..a.rows()).flat_map(of);
        let weights = all.map(|(r, e)| weight(r, a.indices[e] as usize));
        CsrBuf {
            weights: Some(weights.collect()),
            ..a.clone()
        }
    }

    #[test]
    fn it_is_found_where_weights_are_one_a_row_or_column() {
        let (few, many) = (matrix_of(20, 3), matrix_of(20, 100));
        let of = |a: &CsrBuf, w: &dyn Fn(usize, usize) -> f32| Factor::of(with(a, w).view());
        for a in [&few, &many] {
            assert_eq!(Factor::of(a.view()), None, "no weights");
            assert_eq!(of(a, &|r, c| (r * c) as f32), None);
            let Some(Factor::Rows(rows)) = of(a, &|r, _| r as f32) else {
                panic!("one a row");
            };
            assert_eq!((rows[3], rows[4], rows.len()), (0.0, 4.0, 20));
        }
        assert_eq!(of(&few, &|_, c| c as f32), None, "too few edges a column");
        let Some(Factor::Cols(cols)) = of(&many, &|_, c| c as f32) else {
            panic!("one a column");
        };
        assert_eq!((cols[4], cols.len()), (4.0, 20));
    }

    #[test]
    fn products_equal_those_with_a_weight_for_each_edge() {
        let n = 40;
        let a = matrix_of(n, 100);
        for by_row in [true, false] {
            let a = with(&a, |r, c| 0.25 + if by_row { r } else { c } as f32 / 64.0);
            let factor = Factor::of(a.view()).expect("one a row or column");
            assert_eq!(matches!(factor, Factor::Rows(_)), by_row);
            let bare = CsrBuf {
                weights: None,
                ..a.clone()
            };
            let segments = Segmented::tiny(bare.view());
            for d in [1, 16, 17, 41, 64, 300] {
                let (x, rows) = (matrix(n, d, 3), 2..n - 1);
                let mut want = Mat::from_elem((n, d), 7.0);
                spmm::naive(a.view(), rows.clone(), &x, &mut want);
                let mut bits = None;
                for threads in [1, 3] {
                    let par = Par::new(threads);
                    let mut got = [0; 2].map(|_| Mat::from_elem((n, d), 7.0));
                    for add in [false, true] {
                        let rows = rows.clone();
                        spmm::spmm_by_factor(
                            &par,
                            a.view(),
                            &factor,
                            rows.clone(),
                            add,
                            &x,
                            &mut got[0],
                        );
                        segmented::spmm_by_factor(
                            &par,
                            &segments,
                            &factor,
                            rows,
                            add,
                            &x,
                            &mut got[1],
                        );
                        for got in &got {
                            let mut got = got.clone();
                            let share = if add { 2.0 } else { 1.0 };
                            got.slice_mut(ndarray::s![2..n - 1, ..])
                                .mapv_inplace(|v| v / share);
                            assert_close(&got, &want);
                        }
                    }
                    assert_eq!(bits.get_or_insert_with(|| got.clone()), &got);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "spmm: expected a number for each row 3, got 2")]
    fn a_factor_of_another_shape_is_refused() {
        let a = with(&matrix_of(3, 2), |_, _| 1.0);
        let (factor, x) = (Factor::Rows(vec![1.0; 2]), Mat::zeros((3, 4)));
        let mut out = Mat::zeros((3, 4));
        spmm::spmm_by_factor(&Par::new(1), a.view(), &factor, 0..3, false, &x, &mut out);
    }
}
