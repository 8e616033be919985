//! Sparse matrix times dense matrix: aggregation over in-edges, and the first layer on sparse
//! features.
//!
//! Rows are independent, so any split of rows (and of columns within a row) gives the same bits.
//! Runs of rows are balanced by edges; a row with more edges than a fair run is split over its
//! columns, so that a hub does not serialise the kernel. Within a run, columns go in tiles that
//! fit into registers, and rows of `x` needed a few edges later are prefetched (`spmm_tile`). For
//! wide rows of large, skewed graphs, [`crate::segmented`] is faster. Where rows fill no whole lines of memory and
//! each is gathered often, they are copied first to where they do (`lines`).
//!
//! Backward keeps a transpose: 4 bytes an edge more, 2.4 times faster than to scatter into the
//! sources, and threads need no atomics. bf16 rows pay where the gather is all there is. Copies of
//! `x` cut into slices of columns, of which more rows fit into the second-level cache, gain nothing.
//! Times: `notebooks/measured/kernels.md`.
//!
//! # Not done
//! A hub is split over its columns, so one of at most 16 columns stays with one thread.

use std::ops::Range;

use crate::factor::Factor;
use crate::lines::Lines;
use crate::par::split_edges;
use crate::simd::Level;
use crate::spmm_tile::Stored;
use crate::{Csr, Mat, Par, expect_eq, flat_mut};

/// Multiply-adds below which starting threads costs more than it saves.
pub(crate) const SMALL: usize = 128 * 1024;

/// A row with this many multiply-adds or more may be split over its columns.
const HUGE: usize = 64 * 1024;

/// Scalar reference: `out[r, :] = Σ_e w_e · x[col_e, :]` for the rows in `rows`.
pub fn naive(a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    for r in rows {
        out.row_mut(r).fill(0.0);
        for e in a.span(r) {
            for c in 0..x.ncols() {
                out[[r, c]] += a.weight(e) * x[[a.indices[e] as usize, c]];
            }
        }
    }
}

/// What becomes of the messages of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their sum over the number of edges; zero for a row without edges.
    Mean,
}

/// Writes `out[r, :] = Σ_e w_e · x[col_e, :]` for the rows in `rows` and leaves the others as
/// they are.
///
/// `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, or an index of `a` is not below `n`.
pub fn spmm_into(par: &Par, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    spmm_reduce_into(par, a, rows, Reduce::Sum, x, out);
}

/// [`spmm_into`] with another reduction: the mean counts edges, it does not sum their weights.
///
/// # Panics
/// Like [`spmm_into`].
pub fn spmm_reduce_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    reduce: Reduce,
    x: &Mat,
    out: &mut Mat,
) {
    let onto = match reduce {
        Reduce::Sum => Onto::Set,
        Reduce::Mean => Onto::Mean,
    };
    by_lines(Level::detect(), par, a, rows, (onto, None), x, out);
}

/// Adds `Σ_e w_e · x[col_e, :]` to `out[r, :]` for the rows in `rows`: [`spmm_into`] onto what is
/// there.
///
/// # Panics
/// Like [`spmm_into`].
pub fn spmm_add_into(par: &Par, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    by_lines(Level::detect(), par, a, rows, (Onto::Add, None), x, out);
}

/// [`spmm_into`], or [`spmm_add_into`] when asked, with the weights that `factor` says instead of those of `a`.
///
/// # Panics
/// Like [`spmm_into`], and when `factor` is of another shape.
pub fn spmm_by_factor(
    par: &Par,
    a: Csr<'_>,
    factor: &Factor,
    rows: Range<usize>,
    add: bool,
    x: &Mat,
    out: &mut Mat,
) {
    let bare = Csr { weights: None, ..a };
    let how = factor.how(a, add);
    by_lines(Level::detect(), par, bare, rows, how, x, out);
}

/// [`at_level`], out of a copy of `x` where that is quicker, or where its rows have a number each.
fn by_lines(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    (onto, scale): (Onto<'_>, Option<&[f32]>),
    x: &Mat,
    out: &mut Mat,
) {
    let at = |r: usize| a.indptr.get(r).map_or(0, |&at| at as usize);
    let edges = at(rows.end).saturating_sub(at(rows.start));
    let x = Lines::of(par, x, edges, scale);
    x.spmm(level, par, a, rows, onto, out);
    x.done(par);
}

/// What becomes of a row's sum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Onto<'a> {
    /// It replaces what is there.
    Set,
    /// Its share of one edge replaces what is there.
    Mean,
    /// It is added to what is there, which comes first in the order of summation.
    Add,
    /// Its multiple by the row's number replaces what is there.
    SetTimes(&'a [f32]),
    /// Its multiple by the row's number is added to what is there.
    AddTimes(&'a [f32]),
}

impl<'a> Onto<'a> {
    /// The same for sums of other edges of the row.
    pub(crate) fn more(self) -> Onto<'a> {
        match self {
            Onto::SetTimes(by) | Onto::AddTimes(by) => Onto::AddTimes(by),
            Onto::Set | Onto::Mean | Onto::Add => Onto::Add,
        }
    }
}

/// Columns `cols` of a run of rows; `out` holds exactly them, `cols.len()` wide.
pub(crate) struct Job<'o> {
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
    pub(crate) out: &'o mut [f32],
}

/// [`spmm_reduce_into`] at a given SIMD level, which the processor must support, for either kind
/// of stored numbers. `x` comes with its shape.
pub(crate) fn at_level<T: Stored>(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    onto: Onto<'_>,
    x: ((usize, usize), &[T]),
    out: &mut Mat,
) {
    strided(level, par, a, rows, onto, (x.0, x.0.1, x.1), out);
}

/// [`at_level`] of rows that are `stride` numbers apart.
pub(crate) fn strided<T: Stored>(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    onto: Onto<'_>,
    x: ((usize, usize), usize, &[T]),
    out: &mut Mat,
) {
    let ((n, d), stride, x) = x;
    expect_eq("spmm", "x with rows", a.n_cols, n);
    expect_eq("spmm", "x with numbers", n * stride, x.len());
    expect_eq("spmm", "out with rows", a.rows(), out.nrows());
    expect_eq("spmm", "out with columns", d, out.ncols());
    assert!(
        rows.end <= a.rows(),
        "spmm: expected rows within {}, got {rows:?}",
        a.rows()
    );
    if rows.is_empty() || d == 0 {
        return;
    }
    let edges = (a.indptr[rows.end] - a.indptr[rows.start]) as usize;
    let work = (edges + rows.len()) * d;
    let parts = if par.threads() == 1 || work <= SMALL {
        1
    } else {
        (par.threads() * 16).min(work / (SMALL / 8))
    };
    let out = &mut flat_mut("spmm", out)[rows.start * d..rows.end * d];
    let jobs = jobs(a.indptr, rows, d, parts, out);
    par.run(jobs, |job| {
        assert_eq!(
            job.out.len(),
            job.rows.len() * job.cols.len(),
            "job covers its output"
        );
        T::run(level, a, (x, stride), onto, job);
    });
}

/// Cuts `rows` into jobs of about equally many edges, by where each row's start; `out` is that of
/// exactly these rows.
pub(crate) fn jobs<'o>(
    indptr: &[u64],
    rows: Range<usize>,
    d: usize,
    parts: usize,
    out: &'o mut [f32],
) -> Vec<Job<'o>> {
    let bounds = split_edges(indptr, rows, parts);
    let mut rest = out;
    let mut jobs = Vec::with_capacity(bounds.len());
    for b in bounds.windows(2) {
        let (mine, tail) = std::mem::take(&mut rest).split_at_mut((b[1] - b[0]) * d);
        rest = tail;
        let edges = indptr[b[1]] - indptr[b[0]];
        let hub = (indptr[b[1]] - indptr[b[1] - 1]) as usize;
        // A hub ends its run, since the run is full with it.
        if parts > 1 && hub * d >= HUGE && hub as u64 * 2 > edges && d > 16 {
            let (before, row) = mine.split_at_mut((b[1] - b[0] - 1) * d);
            jobs.push(Job {
                rows: b[0]..b[1] - 1,
                cols: 0..d,
                out: before,
            });
            let tile = d.div_ceil(4).next_multiple_of(16);
            for (k, part) in row.chunks_mut(tile).enumerate() {
                let cols = k * tile..k * tile + part.len();
                jobs.push(Job {
                    rows: b[1] - 1..b[1],
                    cols,
                    out: part,
                });
            }
        } else {
            jobs.push(Job {
                rows: b[0]..b[1],
                cols: 0..d,
                out: mine,
            });
        }
    }
    jobs
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::CsrBuf;
    use crate::csr::tests::any_csr;
    use crate::lines::{PAYS, stride};
    use proptest::prelude::*;

    pub(crate) fn matrix(n: usize, d: usize, seed: u64) -> Mat {
        Mat::from_shape_fn((n, d), |(r, c)| {
            crate::hash::element(crate::hash::row(seed, r as u32), c as u32) as f32 / 2e9 - 1.0
        })
    }

    pub(crate) fn assert_close(got: &Mat, want: &Mat) {
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= 1e-4 + 1e-5 * w.abs(), "{g} instead of {w}");
        }
    }

    proptest! {
        #[test]
        fn spmm_equals_naive_at_every_level(
            a in any_csr(), d in prop_oneof![0usize..40, 100usize..300, 500usize..620], cut in 0.0f64..1.0,
        ) {
            let x = matrix(a.n_cols, d, 1);
            let first = (a.rows() as f64 * cut) as usize;
            let mut want = Mat::from_elem((a.rows(), d), 7.0);
            naive(a.view(), first..a.rows(), &x, &mut want);
            for level in Level::available() {
                let mut got = Mat::from_elem((a.rows(), d), 7.0);
                let flat = (x.dim(), x.as_slice().expect("made here"));
                at_level(level, &Par::new(1), a.view(), first..a.rows(), Onto::Set, flat, &mut got);
                assert_close(&got, &want);
                let mut mean = Mat::from_elem((a.rows(), d), 7.0);
                at_level(level, &Par::new(2), a.view(), first..a.rows(), Onto::Mean, flat, &mut mean);
                for r in first..a.rows() {
                    let n = a.view().span(r).len().max(1) as f32;
                    mean.row_mut(r).mapv_inplace(|v| v * n);
                }
                assert_close(&mean, &want);
                let rows = first..a.rows();
                at_level(level, &Par::new(2), a.view(), rows, Onto::Add, flat, &mut got);
                let mut twice = want.clone();
                twice.slice_mut(ndarray::s![first.., ..]).mapv_inplace(|v| v * 2.0);
                assert_close(&got, &twice);
                got.slice_mut(ndarray::s![first.., ..]).mapv_inplace(|v| v / 2.0);
                assert!(got.rows().into_iter().take(first).all(|r| r.iter().all(|&v| v == 7.0)));
            }
        }
    }

    /// A star: every vertex points at vertex 3, which has most edges of all.
    pub(crate) fn star(n: usize) -> CsrBuf {
        let mut a = CsrBuf::empty(n);
        for r in 0..n {
            let cols = if r == 3 {
                (0..20 * n).map(|c| (c % n) as u32).collect()
            } else {
                vec![3, r as u32]
            };
            a.indices.extend(cols);
            a.indptr.push(a.indices.len() as u64);
        }
        a.weights = Some(
            (0..a.indices.len())
                .map(|e| (e % 17) as f32 * 0.1 - 0.8)
                .collect(),
        );
        a
    }

    #[test]
    fn threads_and_hub_splits_do_not_change_a_bit() {
        let a = star(500);
        for d in [1, 16, 17, 64, 130] {
            let x = matrix(500, d, 2);
            let mut want = Mat::zeros((500, d));
            spmm_into(&Par::new(1), a.view(), 0..500, &x, &mut want);
            for threads in [2, 3, 8] {
                let mut got = Mat::zeros((500, d));
                spmm_into(&Par::new(threads), a.view(), 0..500, &x, &mut got);
                assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn a_copy_by_lines_changes_no_bit() {
        let n = 40;
        let mut a = CsrBuf::empty(n);
        for r in 0..n {
            let cols = (0..2 * PAYS).map(|k| ((r * 7 + k * k) % n) as u32);
            a.indices.extend(cols);
            a.indptr.push(a.indices.len() as u64);
        }
        a.weights = Some(
            (0..a.indices.len())
                .map(|e| (e % 17) as f32 - 8.0)
                .collect(),
        );
        let rows = 1..n;
        for d in [0, 1, 3, 4, 5, 8, 10, 16, 17, 41, 48, 100] {
            let edges = a.indptr[n] - a.indptr[1];
            let copied = stride(n, d, edges as usize);
            assert_eq!(copied.is_some(), ![0, 1, 4, 8, 16, 48].contains(&d));
            assert_eq!(stride(n, d, PAYS * n - 1), None, "gathered too seldom");
            let x = matrix(n, d, 5);
            for (level, onto) in Level::available()
                .into_iter()
                .flat_map(|l| [Onto::Set, Onto::Mean, Onto::Add].map(|o| (l, o)))
            {
                for threads in [1, 2] {
                    let par = Par::new(threads);
                    let [mut want, mut got] = [0; 2].map(|_| Mat::from_elem((n, d), 7.0));
                    let flat = (x.dim(), x.as_slice().expect("made here"));
                    at_level(level, &par, a.view(), rows.clone(), onto, flat, &mut want);
                    by_lines(
                        level,
                        &par,
                        a.view(),
                        rows.clone(),
                        (onto, None),
                        &x,
                        &mut got,
                    );
                    assert_eq!(got, want, "{d} columns, {onto:?}");
                }
            }
        }
    }

    #[test]
    fn a_hub_is_split_over_columns() {
        let a = star(500);
        let mut out = vec![0.0; 500 * 64];
        let jobs = jobs(&a.indptr, 0..500, 64, 8, &mut out);
        assert!(jobs.iter().filter(|j| j.rows == (3..4)).count() > 1);
        assert_eq!(jobs.iter().map(|j| j.out.len()).sum::<usize>(), 500 * 64);
    }

    #[test]
    #[should_panic(expected = "spmm: expected x with rows 3, got 4")]
    fn wrong_shapes_name_both_sides() {
        let a = CsrBuf::empty(3);
        spmm_into(
            &Par::new(1),
            a.view(),
            0..0,
            &Mat::zeros((4, 2)),
            &mut Mat::zeros((0, 2)),
        );
    }

    #[test]
    #[should_panic(expected = "spmm: expected indices below 2, got 9")]
    fn an_index_out_of_range_panics_and_does_not_read() {
        let a = Csr {
            indptr: &[0, 1],
            indices: &[9],
            weights: None,
            n_cols: 2,
        };
        spmm_into(
            &Par::new(1),
            a,
            0..1,
            &Mat::zeros((2, 2)),
            &mut Mat::zeros((1, 2)),
        );
    }
}
