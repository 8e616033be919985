//! Counter-based dropout: the mask is a function of (key, vertex, column), so every strategy, rank
//! count, chunking and device draws the same one, and backward needs no stored mask.

use crate::hash::{element, row};
use crate::simd::multiversion;
use crate::{Csr, Mat, Par, expect_eq, flat_mut};

/// A uniform number in `[0, 1)` for element `(v, c)` under `key`; the element survives dropout
/// with probability `p` exactly when it is at least `p`.
pub fn hash(key: u64, v: u32, c: u32) -> f32 {
    (element(row(key, v), c) >> 8) as f32 / (1u32 << 24) as f32
}

/// Scalar reference: zeroes element `(v, c)` where `hash(key, v, c) < p` and scales the others by
/// `1 / (1 - p)`. `ids: [n]` are the vertices of the rows of `x: [n, d]`.
pub fn naive(key: u64, ids: &[u32], p: f32, x: &mut Mat) {
    for ((r, c), v) in x.indexed_iter_mut() {
        *v = if hash(key, ids[r], c as u32) >= p {
            *v * (1.0 / (1.0 - p))
        } else {
            0.0
        };
    }
}

/// The smallest 24-bit number that survives, and the factor of survivors.
pub(crate) fn threshold(p: f32) -> (u32, f32) {
    assert!(
        (0.0..1.0).contains(&p),
        "dropout: expected a probability in [0, 1), got {p}"
    );
    (
        (f64::from(p) * f64::from(1u32 << 24)).ceil() as u32,
        1.0 / (1.0 - p),
    )
}

multiversion! {
    fn dense_row(key: u64, keep: u32, scale: f32, x: &mut [f32]) {
        for (c, v) in x.iter_mut().enumerate() {
            let kept = element(key, c as u32) >> 8 >= keep;
            *v = if kept { *v * scale } else { 0.0 };
        }
    }
}

/// Drops elements of `x: [n, d]` with probability `p` and scales the others by `1 / (1 - p)`.
/// `ids: [n]` are the global vertices of its rows. Applied to a gradient with the same arguments
/// it is its own exact backward.
///
/// # Panics
/// When `p` is not in `[0, 1)` or the lengths disagree.
pub fn dropout(par: &Par, key: u64, ids: &[u32], p: f32, x: &mut Mat) {
    expect_eq("dropout", "x with rows (one an id)", ids.len(), x.nrows());
    let (keep, scale) = threshold(p);
    let d = x.ncols();
    if keep == 0 {
        return;
    }
    par.rows_mut(flat_mut("dropout", x), d, |first, rows| {
        for (x, &v) in rows.chunks_exact_mut(d).zip(&ids[first..]) {
            dense_row(row(key, v), keep, scale, x);
        }
    });
}

/// Dropout of sparse features `a: [n, d]`: writes to `out_weights: [edges]` what [`dropout`] would
/// make of the stored elements. `ids: [n]` are the global vertices of the rows.
///
/// # Panics
/// When `p` is not in `[0, 1)` or the lengths disagree.
pub fn dropout_csr(par: &Par, key: u64, ids: &[u32], p: f32, a: &Csr<'_>, out_weights: &mut [f32]) {
    expect_eq("dropout_csr", "rows (one an id)", ids.len(), a.rows());
    expect_eq("dropout_csr", "weights", a.n_edges(), out_weights.len());
    let (keep, scale) = threshold(p);
    each_row(par, a, out_weights, |r, e, to| {
        let key = row(key, ids[r]);
        for (to, e) in to.iter_mut().zip(e) {
            let kept = element(key, a.indices[e]) >> 8 >= keep;
            *to = if kept { a.weight(e) * scale } else { 0.0 };
        }
    });
}

/// [`dropout_csr`] for the transposed features `at: [d, n]`, whose column `r` is vertex `ids[r]`:
/// the same elements survive.
///
/// # Panics
/// When `p` is not in `[0, 1)` or the lengths disagree.
pub fn dropout_csr_t(
    par: &Par,
    key: u64,
    ids: &[u32],
    p: f32,
    at: &Csr<'_>,
    out_weights: &mut [f32],
) {
    expect_eq("dropout_csr_t", "columns (one an id)", ids.len(), at.n_cols);
    // The roles of row and column swap: the key belongs to the stored index, the counter to the row.
    let keys: Vec<u64> = ids.iter().map(|&v| row(key, v)).collect();
    let (keep, scale) = threshold(p);
    expect_eq("dropout_csr_t", "weights", at.n_edges(), out_weights.len());
    each_row(par, at, out_weights, |c, e, to| {
        for (to, e) in to.iter_mut().zip(e) {
            let kept = element(keys[at.indices[e] as usize], c as u32) >> 8 >= keep;
            *to = if kept { at.weight(e) * scale } else { 0.0 };
        }
    });
}

/// Calls `f(row, its elements, their outputs)` for every row, threads balanced by elements.
fn each_row(
    par: &Par,
    a: &Csr<'_>,
    out: &mut [f32],
    f: impl Fn(usize, std::ops::Range<usize>, &mut [f32]) + Sync + Send,
) {
    let parts = if a.n_edges() < 16 * 1024 {
        1
    } else {
        par.threads() * 4
    };
    let bounds = crate::par::split_edges(a.indptr, 0..a.rows(), parts);
    let cuts: Vec<usize> = bounds.iter().map(|&r| a.indptr[r] as usize).collect();
    let mut rest = out;
    let mut jobs = Vec::new();
    for (rows, cut) in bounds.windows(2).zip(cuts.windows(2)) {
        let (mine, tail) = std::mem::take(&mut rest).split_at_mut(cut[1] - cut[0]);
        rest = tail;
        jobs.push((rows[0]..rows[1], mine));
    }
    par.run(jobs, |(rows, mine)| {
        let base = a.indptr[rows.start] as usize;
        for r in rows {
            let e = a.span(r);
            let to = e.start - base..e.end - base;
            f(r, e, &mut mine[to]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn dropout_equals_naive(
            n in 0usize..30, d in 0usize..70, key: u64, p in prop_oneof![Just(0.0f32), 0.0f32..0.99],
        ) {
            let ids: Vec<u32> = (0..n as u32).map(|v| v.wrapping_mul(977)).collect();
            let x = Mat::from_shape_fn((n, d), |(r, c)| 1.0 + (r + c) as f32);
            let (mut want, mut got) = (x.clone(), x);
            naive(key, &ids, p, &mut want);
            dropout(&Par::new(2), key, &ids, p, &mut got);
            prop_assert_eq!(got, want);
        }

        #[test]
        fn sparse_masks_are_the_dense_one(a in any_csr(), key: u64, p in 0.0f32..0.99) {
            let ids: Vec<u32> = (0..a.rows() as u32).map(|v| v + 5).collect();
            let want = |v: u32, c: u32, w: f32| if hash(key, v, c) >= p { w * (1.0 / (1.0 - p)) } else { 0.0 };
            let mut got = vec![0.0; a.indices.len()];
            dropout_csr(&Par::new(2), key, &ids, p, &a.view(), &mut got);
            for (r, &v) in ids.iter().enumerate() {
                for e in a.view().span(r) {
                    prop_assert_eq!(got[e], want(v, a.indices[e], a.view().weight(e)));
                }
            }
            let t = a.view().transpose();
            let mut got = vec![0.0; a.indices.len()];
            dropout_csr_t(&Par::new(3), key, &ids, p, &t.view(), &mut got);
            for c in 0..t.rows() {
                for e in t.view().span(c) {
                    prop_assert_eq!(got[e], want(ids[t.indices[e] as usize], c as u32, t.view().weight(e)));
                }
            }
        }
    }

    #[test]
    fn the_share_and_the_mean_survive() {
        let ids: Vec<u32> = (0..2000).collect();
        for p in [0.1f32, 0.5, 0.8] {
            let mut x = Mat::ones((2000, 100));
            dropout(&Par::new(2), 42, &ids, p, &mut x);
            let kept = x.iter().filter(|&&v| v != 0.0).count() as f64 / 2e5;
            assert!(
                (kept - f64::from(1.0 - p)).abs() < 0.005,
                "kept {kept} at p = {p}"
            );
            assert!((f64::from(x.sum()) / 2e5 - 1.0).abs() < 0.02);
        }
    }

    #[test]
    fn a_row_keeps_its_mask_wherever_it_lies() {
        let ids: Vec<u32> = (0..100).collect();
        let mut all = Mat::ones((100, 33));
        dropout(&Par::new(1), 9, &ids, 0.5, &mut all);
        let mut part = Mat::ones((40, 33));
        dropout(&Par::new(1), 9, &ids[60..], 0.5, &mut part);
        assert_eq!(part, all.slice(ndarray::s![60.., ..]));
    }

    #[test]
    #[should_panic(expected = "dropout: expected a probability in [0, 1), got 1")]
    fn dropping_everything_is_refused() {
        dropout(&Par::new(1), 0, &[], 1.0, &mut Mat::zeros((0, 1)));
    }
}
