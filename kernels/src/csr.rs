//! Compressed sparse rows: the matrix behind every aggregation and every sparse feature table.

/// What is wrong with a sparse matrix or a pair of shapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: expected {expected}, got {got}")]
pub struct ShapeError {
    /// The operation or structure that was checked.
    pub op: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub got: String,
}

impl ShapeError {
    /// A disagreement found by `op`.
    pub fn new(op: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        ShapeError {
            op,
            expected: expected.into(),
            got: got.into(),
        }
    }
}

/// A borrowed sparse matrix `[rows, n_cols]`.
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a> {
    /// Where each row starts in `indices`: `[rows + 1]`, ascending from 0.
    pub indptr: &'a [u64],
    /// Column of each stored element, below `n_cols`.
    pub indices: &'a [u32],
    /// Value of each stored element; all are 1 when absent.
    pub weights: Option<&'a [f32]>,
    /// Number of columns.
    pub n_cols: usize,
}

impl<'a> Csr<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Number of stored elements.
    pub fn n_edges(&self) -> usize {
        self.indices.len()
    }

    /// Positions of row `r`'s elements in `indices`.
    #[inline]
    pub fn span(&self, r: usize) -> std::ops::Range<usize> {
        self.indptr[r] as usize..self.indptr[r + 1] as usize
    }

    /// The value of stored element `e`.
    #[inline]
    pub fn weight(&self, e: usize) -> f32 {
        self.weights.map_or(1.0, |w| w[e])
    }

    /// Checks everything that kernels rely on.
    ///
    /// # Errors
    /// The first disagreement between the arrays, with both sides.
    pub fn check(&self) -> Result<(), ShapeError> {
        let err = |expected: String, got: String| Err(ShapeError::new("csr", expected, got));
        if self.indptr.first() != Some(&0) {
            return err(
                "indptr to start with 0".into(),
                format!("{:?}", self.indptr.first()),
            );
        }
        if let Some(r) = self.indptr.windows(2).position(|w| w[0] > w[1]) {
            let (a, b) = (self.indptr[r], self.indptr[r + 1]);
            return err(
                format!("indptr[{}] >= {a} (ascending)", r + 1),
                b.to_string(),
            );
        }
        let last = self.indptr[self.indptr.len() - 1];
        if last != self.indices.len() as u64 {
            return err(
                format!("{last} indices (the end of indptr)"),
                self.indices.len().to_string(),
            );
        }
        if let Some(w) = self.weights.filter(|w| w.len() != self.indices.len()) {
            return err(
                format!("{} weights (one an index)", self.indices.len()),
                w.len().to_string(),
            );
        }
        if self.rows() > u32::MAX as usize || self.n_cols > u32::MAX as usize {
            return err(
                format!("at most {} rows and columns", u32::MAX),
                format!("{} by {}", self.rows(), self.n_cols),
            );
        }
        if let Some(e) = self.indices.iter().position(|&c| c as usize >= self.n_cols) {
            return err(
                format!("indices[{e}] below {} columns", self.n_cols),
                self.indices[e].to_string(),
            );
        }
        Ok(())
    }

    /// The position of each element in [`Csr::transpose`]: `[edges]`.
    ///
    /// # Errors
    /// When there are 2³² elements or more.
    pub fn transpose_map(&self) -> Result<Vec<u32>, ShapeError> {
        if self.indices.len() > u32::MAX as usize {
            return Err(ShapeError::new(
                "transpose_map",
                format!("at most {} elements", u32::MAX),
                self.indices.len().to_string(),
            ));
        }
        let mut next = vec![0u32; self.n_cols + 1];
        for &c in self.indices {
            next[c as usize + 1] += 1;
        }
        for c in 0..self.n_cols {
            next[c + 1] += next[c];
        }
        let place = |&c: &u32| {
            let slot = &mut next[c as usize];
            *slot += 1;
            *slot - 1
        };
        Ok(self.indices.iter().map(place).collect())
    }

    /// Whether [`Csr::transpose`] would give the very same arrays, found without making it.
    pub fn is_symmetric(&self) -> bool {
        if self.rows() != self.n_cols {
            return false;
        }
        // Rows in order fill each row of the transposed in order, so one place a row suffices.
        let mut next = self.indptr[..self.n_cols].to_vec();
        let same = |a: usize, b: usize| self.weights.is_none_or(|w| w[a] == w[b]);
        for r in 0..self.rows() {
            for e in self.span(r) {
                let c = self.indices[e] as usize;
                let at = next[c] as usize;
                if at == self.span(c).end || self.indices[at] as usize != r || !same(e, at) {
                    return false;
                }
                next[c] += 1;
            }
        }
        true
    }

    /// The transposed matrix `[n_cols, rows]`; within a row the elements keep the order of the
    /// original rows (stable).
    pub fn transpose(&self) -> CsrBuf {
        let mut indptr = vec![0u64; self.n_cols + 1];
        for &c in self.indices {
            indptr[c as usize + 1] += 1;
        }
        for c in 0..self.n_cols {
            indptr[c + 1] += indptr[c];
        }
        let mut next = indptr.clone();
        let mut indices = vec![0u32; self.indices.len()];
        let mut weights = self.weights.map(|w| vec![0f32; w.len()]);
        for r in 0..self.rows() {
            for e in self.span(r) {
                let slot = &mut next[self.indices[e] as usize];
                let at = *slot as usize;
                *slot += 1;
                indices[at] = r as u32;
                if let (Some(to), Some(from)) = (&mut weights, self.weights) {
                    to[at] = from[e];
                }
            }
        }
        CsrBuf {
            indptr,
            indices,
            weights,
            n_cols: self.rows(),
        }
    }
}

/// Panics with an index that is not below `n`. Apart from the loops that look at indices, so that these keep none of
/// it in memory for a message.
#[cold]
#[inline(never)]
pub(crate) fn out_of_range(op: &str, index: usize, n: usize) -> ! {
    panic!("{op}: expected indices below {n}, got {index}");
}

/// Values of elements in the order of the transposed matrix; `t_of` is [`Csr::transpose_map`].
pub fn transposed<T: Copy + Default>(t_of: &[u32], values: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); values.len()];
    for (&at, &value) in t_of.iter().zip(values) {
        out[at as usize] = value;
    }
    out
}

/// An owned sparse matrix; see [`Csr`] for the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrBuf {
    /// Where each row starts: `[rows + 1]`.
    pub indptr: Vec<u64>,
    /// Column of each element.
    pub indices: Vec<u32>,
    /// Value of each element; all are 1 when absent.
    pub weights: Option<Vec<f32>>,
    /// Number of columns.
    pub n_cols: usize,
}

impl CsrBuf {
    /// An empty matrix without rows.
    pub fn empty(n_cols: usize) -> CsrBuf {
        CsrBuf {
            indptr: vec![0],
            indices: Vec::new(),
            weights: None,
            n_cols,
        }
    }

    /// The matrix, borrowed.
    pub fn view(&self) -> Csr<'_> {
        Csr {
            indptr: &self.indptr,
            indices: &self.indices,
            weights: self.weights.as_deref(),
            n_cols: self.n_cols,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// The transposed of `a`; see [`Csr::transpose`].
    pub fn transpose(a: &Csr<'_>) -> CsrBuf {
        a.transpose()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.indptr.len() * 8
            + self.indices.len() * 4
            + self.weights.as_ref().map_or(0, |w| w.len() * 4)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any sparse matrix of up to 40 by 40, with isolated rows and repeated elements; smaller under
    /// Miri, which is thousands of times slower.
    pub(crate) fn any_csr() -> impl Strategy<Value = CsrBuf> {
        let (most, long): (usize, usize) = if cfg!(miri) { (6, 20) } else { (40, 200) };
        (0..most, 1..most, any::<bool>()).prop_flat_map(move |(rows, n_cols, weighted)| {
            let row = prop_oneof![
                2 => Just(Vec::new()),
                6 => prop::collection::vec((0..n_cols as u32, -2.0f32..2.0), 0..12),
                1 => prop::collection::vec((0..n_cols as u32, -2.0f32..2.0), 0..long),
            ];
            prop::collection::vec(row, rows).prop_map(move |rows| {
                let mut a = CsrBuf {
                    weights: weighted.then(Vec::new),
                    ..CsrBuf::empty(n_cols)
                };
                for row in rows {
                    for (c, w) in row {
                        a.indices.push(c);
                        if let Some(weights) = &mut a.weights {
                            weights.push(w);
                        }
                    }
                    a.indptr.push(a.indices.len() as u64);
                }
                a
            })
        })
    }

    proptest! {
        #[test]
        fn transposing_twice_sorts_rows_and_keeps_elements(a in any_csr()) {
            prop_assert_eq!(a.view().check(), Ok(()));
            let t = a.view().transpose();
            prop_assert_eq!(t.view().check(), Ok(()));
            let map = a.view().transpose_map();
            prop_assert!(map.is_ok());
            for (e, &at) in map.unwrap_or_default().iter().enumerate() {
                prop_assert_eq!(a.view().weight(e), t.view().weight(at as usize));
                prop_assert!(t.view().span(a.indices[e] as usize).contains(&(at as usize)));
            }
            prop_assert_eq!(a.view().is_symmetric(), a == t);
            let back = t.view().transpose();
            for r in 0..a.rows() {
                let mut want: Vec<(u32, f32)> = a.view().span(r).map(|e| (a.indices[e], a.view().weight(e))).collect();
                want.sort_by_key(|p| p.0);
                let got: Vec<(u32, f32)> = back.view().span(r).map(|e| (back.indices[e], back.view().weight(e))).collect();
                prop_assert_eq!(want, got);
            }
        }
    }

    #[test]
    fn symmetric_matrices_are_their_own_transposed() {
        let of = |indptr: &[u64], indices: &[u32], weights: &[f32]| {
            Csr {
                indptr,
                indices,
                weights: Some(weights),
                n_cols: 3,
            }
            .is_symmetric()
        };
        assert!(of(&[0, 2, 3, 3], &[0, 1, 0], &[1.0, 2.0, 2.0]));
        assert!(!of(&[0, 2, 3, 3], &[0, 1, 0], &[1.0, 2.0, 3.0]), "weights");
        assert!(!of(&[0, 2, 3, 3], &[1, 0, 0], &[2.0, 1.0, 2.0]), "order");
        assert!(!of(&[0, 1, 2, 2], &[1, 1], &[1.0, 1.0]), "indices");
        assert!(!of(&[0, 1, 1], &[0], &[1.0]), "shape");
    }

    #[test]
    fn check_names_the_first_disagreement() {
        let bad = |indptr: &[u64], indices: &[u32], weights: Option<&[f32]>| {
            Csr {
                indptr,
                indices,
                weights,
                n_cols: 3,
            }
            .check()
            .map_err(|e| e.to_string())
        };
        assert_eq!(
            bad(&[], &[], None),
            Err("csr: expected indptr to start with 0, got None".into())
        );
        assert!(
            bad(&[0, 2, 1], &[0], None)
                .unwrap_err()
                .contains("indptr[2] >= 2")
        );
        assert!(bad(&[0, 2], &[0], None).unwrap_err().contains("2 indices"));
        assert!(
            bad(&[0, 1], &[0], Some(&[]))
                .unwrap_err()
                .contains("1 weights")
        );
        assert!(
            bad(&[0, 1], &[3], None)
                .unwrap_err()
                .contains("indices[0] below 3 columns, got 3")
        );
    }
}
