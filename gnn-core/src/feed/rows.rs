//! Feature rows as they lie at their owner, and as they travel.

use crate::comm::{Words, unreadable};
use crate::error::Result;
use kernels::par::Par;
use kernels::{CsrBuf, Mat};
use std::sync::Arc;

/// Rows of one width, shared between the threads of a rank.
#[derive(Debug, Clone)]
pub(crate) enum RowData {
    /// `[rows, d]`.
    Dense(Arc<Mat>),
    /// The same, only what is not 0.
    Sparse(Arc<CsrBuf>),
}

impl RowData {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            RowData::Dense(x) => x.nrows(),
            RowData::Sparse(x) => x.rows(),
        }
    }

    /// Columns.
    pub(crate) fn width(&self) -> usize {
        match self {
            RowData::Dense(x) => x.ncols(),
            RowData::Sparse(x) => x.n_cols,
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            RowData::Dense(x) => 4 * x.len(),
            RowData::Sparse(x) => x.bytes(),
        }
    }

    /// No rows of the same form.
    pub(crate) fn none(&self) -> RowData {
        match self {
            RowData::Dense(x) => RowData::Dense(Arc::new(Mat::zeros((0, x.ncols())))),
            RowData::Sparse(x) => RowData::Sparse(Arc::new(empty_like(x))),
        }
    }

    /// Some rows as a message: dense rows one after the other; of sparse rows their lengths, then columns
    /// and values of all.
    pub(crate) fn pack(&self, rows: &[u32]) -> Words {
        match self {
            RowData::Dense(x) => dense_words(x, rows),
            RowData::Sparse(x) => {
                let spans = rows.iter().map(|&r| x.view().span(r as usize));
                let mut out: Words = spans.clone().map(|s| s.len() as u32).collect();
                spans
                    .clone()
                    .for_each(|s| out.extend_from_slice(&x.indices[s]));
                if let Some(values) = &x.weights {
                    spans.for_each(|s| out.extend(values[s].iter().map(|v| v.to_bits())));
                }
                out
            }
        }
    }

    /// `n` rows that a message from `from` holds.
    pub(crate) fn unpack(&self, from: usize, n: usize, words: Words) -> Result<RowData> {
        let bad = || unreadable(from, "rows of features");
        match self {
            RowData::Dense(x) => {
                let values: Vec<f32> = bytemuck::cast_vec(words);
                let x = Mat::from_shape_vec((n, x.ncols()), values).map_err(|_| bad())?;
                Ok(RowData::Dense(Arc::new(x)))
            }
            RowData::Sparse(x) => {
                let lens = words.get(..n).ok_or_else(bad)?;
                let mut indptr = Vec::with_capacity(n + 1);
                indptr.push(0u64);
                let mut sum = 0;
                indptr.extend(lens.iter().map(|&len| {
                    sum += u64::from(len);
                    sum
                }));
                let (sum, valued) = (sum as usize, x.weights.is_some());
                if words.len() != n + sum * (1 + usize::from(valued)) {
                    return Err(bad());
                }
                let values = words[n + sum..].iter().map(|&w| f32::from_bits(w));
                let rows = CsrBuf {
                    indptr,
                    indices: words[n..n + sum].to_vec(),
                    weights: valued.then(|| values.collect()),
                    n_cols: x.n_cols,
                };
                rows.view().check()?;
                Ok(RowData::Sparse(Arc::new(rows)))
            }
        }
    }

    /// The rows of several, which are of this form, one after the other.
    pub(super) fn joined(&self, parts: &[&RowData]) -> RowData {
        match parts {
            [] => self.none(),
            [only] => (*only).clone(),
            parts => {
                let rows = parts.iter().zip(0..).flat_map(|(part, number)| {
                    (0..part.len() as u32).map(move |row| (number, row))
                });
                self.pick(parts, &rows.collect::<Vec<_>>(), &Par::new(1))
            }
        }
    }

    /// Rows picked out of several sources: by row, the source and the row in it. All are of this form.
    pub(crate) fn pick(&self, sources: &[&RowData], rows: &[(u32, u32)], par: &Par) -> RowData {
        match self {
            RowData::Dense(x) => {
                let d = x.ncols();
                let dense = |s: &&'_ RowData| match s {
                    RowData::Dense(x) => Arc::clone(x),
                    RowData::Sparse(_) => unreachable!("all sources are of one form"),
                };
                let sources: Vec<Arc<Mat>> = sources.iter().map(dense).collect();
                let flat: Vec<&[f32]> = sources
                    .iter()
                    .map(|x| x.as_slice().expect("matrices are made in standard layout"))
                    .collect();
                if par.threads() == 1 {
                    let mut out = Vec::with_capacity(rows.len() * d);
                    for (k, &(s, r)) in rows.iter().enumerate() {
                        if let Some(&(s, r)) = rows.get(k + AHEAD) {
                            kernels::prefetch(flat[s as usize][r as usize * d..].as_ptr());
                        }
                        out.extend_from_slice(&flat[s as usize][r as usize * d..][..d]);
                    }
                    let out = Mat::from_shape_vec((rows.len(), d), out);
                    return RowData::Dense(Arc::new(out.expect("made of this size")));
                }
                let mut out = vec![0f32; rows.len() * d];
                par.rows_mut(&mut out, d.max(1), |first, to| {
                    let rows = &rows[first..];
                    for (k, to) in to.chunks_exact_mut(d).enumerate() {
                        if let Some(&(s, r)) = rows.get(k + AHEAD) {
                            kernels::prefetch(&flat[s as usize][r as usize * d]);
                        }
                        let (s, r) = rows[k];
                        to.copy_from_slice(&flat[s as usize][r as usize * d..][..d]);
                    }
                });
                let out = Mat::from_shape_vec((rows.len(), d), out);
                RowData::Dense(Arc::new(out.expect("made of this size")))
            }
            RowData::Sparse(x) => {
                let sparse = |s: &&'_ RowData| match s {
                    RowData::Sparse(x) => Arc::clone(x),
                    RowData::Dense(_) => unreachable!("all sources are of one form"),
                };
                let sources: Vec<Arc<CsrBuf>> = sources.iter().map(sparse).collect();
                RowData::Sparse(Arc::new(pick_sparse(x, &sources, rows)))
            }
        }
    }
}

/// Sparse rows, like those of `x`, picked out of several sources: by row, the source and the row in it.
fn pick_sparse(x: &CsrBuf, sources: &[Arc<CsrBuf>], rows: &[(u32, u32)]) -> CsrBuf {
    let mut out = empty_like(x);
    out.indptr.reserve(rows.len());
    let mut end = 0;
    for (k, &(s, r)) in rows.iter().enumerate() {
        if let Some(&(s, r)) = rows.get(k + STARTS) {
            kernels::prefetch(sources[s as usize].indptr[r as usize..].as_ptr());
        }
        end += sources[s as usize].view().span(r as usize).len();
        out.indptr.push(end as u64);
    }
    out.indices.reserve(end);
    if let Some(values) = &mut out.weights {
        values.reserve(end);
    }
    for (k, &(s, r)) in rows.iter().enumerate() {
        if let Some(&(s, r)) = rows.get(k + STARTS) {
            let from = &sources[s as usize];
            let span = from.view().span(r as usize);
            let ask = |at: usize| {
                kernels::prefetch(from.indices.as_ptr().wrapping_add(at));
                if let Some(values) = &from.weights {
                    kernels::prefetch(values.as_ptr().wrapping_add(at));
                }
            };
            ask(span.start);
            ask(span.end);
        }
        let from = &sources[s as usize];
        let span = from.view().span(r as usize);
        out.indices.extend_from_slice(&from.indices[span.clone()]);
        if let (Some(to), Some(from)) = (&mut out.weights, &from.weights) {
            to.extend_from_slice(&from[span]);
        }
    }
    out
}

/// Some rows of a matrix as a message: one after the other.
pub(super) fn dense_words(x: &Mat, rows: &[u32]) -> Words {
    let mut out = Words::with_capacity(rows.len() * x.ncols());
    let (from, d) = (
        x.as_slice().expect("matrices are made in standard layout"),
        x.ncols(),
    );
    for (k, &r) in rows.iter().enumerate() {
        if let Some(&r) = rows.get(k + AHEAD) {
            kernels::prefetch(from[r as usize * d..].as_ptr());
        }
        out.extend_from_slice(bytemuck::cast_slice(&from[r as usize * d..][..d]));
    }
    out
}

/// Rows that are asked for ahead of being copied.
const AHEAD: usize = 4;

/// The same for sparse rows, which are short.
const STARTS: usize = 16;

fn empty_like(x: &CsrBuf) -> CsrBuf {
    CsrBuf {
        weights: x.weights.as_ref().map(|_| Vec::new()),
        ..CsrBuf::empty(x.n_cols)
    }
}
