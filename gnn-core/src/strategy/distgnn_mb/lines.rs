//! Rows of a cache in lines that are written again and again: dense ones side by side, sparse ones each by itself.

use crate::backend::prefer_huge;
use crate::feed::RowData;
use kernels::{CsrBuf, Mat, Par};
use std::sync::Arc;

/// Rows that are fetched from memory ahead of being copied.
const AHEAD: usize = 4;

/// Lines of one width.
#[derive(Debug)]
pub(super) enum Lines {
    /// `[lines, width]`.
    Dense { width: usize, rows: Vec<f32> },
    /// Columns and values of each line.
    Sparse {
        width: usize,
        valued: bool,
        rows: Vec<(Vec<u32>, Vec<f32>)>,
    },
}

impl Lines {
    /// So many, of rows like `like`.
    pub(super) fn new(lines: usize, like: &RowData) -> Lines {
        let width = like.width();
        match like {
            RowData::Dense(_) => {
                let mut rows = vec![0.0; lines * width];
                prefer_huge(&mut rows);
                Lines::Dense { width, rows }
            }
            RowData::Sparse(x) => Lines::Sparse {
                width,
                valued: x.weights.is_some(),
                rows: vec![Default::default(); lines],
            },
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Lines::Dense { rows, .. } => 4 * rows.len(),
            Lines::Sparse { rows, .. } => {
                let of = |(columns, values): &(Vec<u32>, Vec<f32>)| columns.len() + values.len();
                48 * rows.len() + 4 * rows.iter().map(of).sum::<usize>()
            }
        }
    }

    /// Writes to each line of `jobs` a row of `from`, one after the other where a line is named again.
    pub(super) fn store(&mut self, jobs: &[(u32, u32)], from: &RowData, par: &Par) {
        match (self, from) {
            (Lines::Dense { width, rows }, RowData::Dense(from)) => {
                let from = from.as_slice().expect("rows are side by side");
                kernels::stream::put_rows(par, from, *width, jobs, rows);
            }
            (Lines::Sparse { rows, .. }, RowData::Sparse(from)) => {
                for &(line, row) in jobs {
                    let span = from.view().span(row as usize);
                    let (columns, values) = &mut rows[line as usize];
                    columns.clear();
                    columns.extend_from_slice(&from.indices[span.clone()]);
                    values.clear();
                    values.extend(from.weights.iter().flat_map(|w| &w[span.clone()]));
                }
            }
            _ => unreachable!("rows are of the form that the lines were made for"),
        }
    }

    /// The rows of `lines`, in their order.
    pub(super) fn load(&self, lines: &[u32], par: &Par) -> RowData {
        match self {
            Lines::Dense { width, rows } => {
                let out = match par.threads() {
                    1 => loaded(rows, *width, lines),
                    _ => {
                        let mut out = vec![0.0; lines.len() * width];
                        self.load_to(lines, &mut out, par);
                        out
                    }
                };
                let out = Mat::from_shape_vec((lines.len(), *width), out);
                RowData::Dense(Arc::new(out.expect("made of this size")))
            }
            Lines::Sparse {
                width,
                valued,
                rows,
            } => {
                let mut out = CsrBuf {
                    weights: valued.then(Vec::new),
                    ..CsrBuf::empty(*width)
                };
                for &line in lines {
                    let (columns, values) = &rows[line as usize];
                    out.indices.extend_from_slice(columns);
                    if let Some(weights) = &mut out.weights {
                        weights.extend_from_slice(values);
                    }
                    out.indptr.push(out.indices.len() as u64);
                }
                RowData::Sparse(Arc::new(out))
            }
        }
    }

    /// Dense rows of `lines` to `out: [lines, width]`.
    pub(super) fn load_to(&self, lines: &[u32], out: &mut [f32], par: &Par) {
        let Lines::Dense { width, rows } = self else {
            unreachable!("only dense rows are read as a matrix")
        };
        let d = (*width).max(1);
        par.rows_mut(out, d, |first, to| {
            let lines = &lines[first..];
            for (k, to) in to.chunks_exact_mut(d).enumerate() {
                if let Some(&next) = lines.get(k + AHEAD) {
                    kernels::prefetch(&rows[next as usize * d]);
                }
                to.copy_from_slice(&rows[lines[k] as usize * d..][..d]);
            }
        });
    }
}

/// The rows of `lines`, by one thread, to memory that nobody has written to.
fn loaded(rows: &[f32], d: usize, lines: &[u32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(lines.len() * d);
    for (k, &line) in lines.iter().enumerate() {
        if let Some(&next) = lines.get(k + AHEAD) {
            kernels::prefetch(rows[next as usize * d..].as_ptr());
        }
        out.extend_from_slice(&rows[line as usize * d..][..d]);
    }
    out
}
