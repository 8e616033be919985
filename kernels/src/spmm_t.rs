//! Transposed sparse matrix times dense matrix: the weight gradient of sparse features.
//!
//! Row by row of the sparse matrix, a row of `b` is read once, in order, and added to the sums of all its
//! columns, which stay in the second-level cache: a few columns of `b` at a time, in a buffer of their own.
//! Gathering rows of `b` for each column of the sparse matrix instead ([`crate::spmm`] of the transposed) reads
//! each of them as often as its row has elements. Both add in the order of rows, so their bits are the same;
//! threads share columns of `b`, so that they change no bit either. Times: `notebooks/measured/kernels.md`.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use crate::csr::out_of_range;
use crate::par::{cut_mut, split_rows};
use crate::simd::Level;
use crate::spmm_tile::{APART, plus, read};
use crate::vector::{Vector, at_level, prefetch};
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// Columns of `b` that are summed at once, and the fewest that are worth it.
const TILE: usize = 64;
const LEAST: usize = 16;

/// Bytes of sums that stay near.
const NEAR: usize = 768 << 10;

/// Rows ahead that are asked for.
const AHEAD: usize = 8;

/// Columns of `b` for one job, where this way is worth it for sums of shape `[k, d]`.
fn tile(par: &Par, k: usize, d: usize) -> Option<usize> {
    let fair = d.div_ceil(par.threads()).next_multiple_of(LEAST);
    let tile = TILE.min(fair);
    let idle = d.div_ceil(tile) < par.threads();
    (d >= LEAST && k > 0 && !idle && k * tile * 4 <= NEAR).then_some(tile)
}

/// Whether [`spmm_t_into`] is the quicker way for a matrix of `k` columns and `d` of `b`.
pub fn is_quicker(par: &Par, k: usize, d: usize) -> bool {
    tile(par, k, d).is_some()
}

/// Some columns of `b`, and their sums: `[k, stride]`.
struct Job<'o> {
    first: usize,
    wide: usize,
    sums: &'o mut [f32],
}

/// Writes `out = aᵀ · b`: `a: [n, k]`, `b: [n, d]`, `out: [k, d]`.
///
/// # Panics
/// When the shapes disagree, or an index of `a` is not below `k`.
pub fn spmm_t_into(par: &Par, a: Csr<'_>, b: &Mat, out: &mut Mat) {
    at(Level::detect(), par, a, b, out);
}

/// [`spmm_t_into`] at a level that the processor supports.
fn at(level: Level, par: &Par, a: Csr<'_>, b: &Mat, out: &mut Mat) {
    let (n, d) = b.dim();
    let k = a.n_cols;
    expect_eq("spmm_t", "b with rows", a.rows(), n);
    expect_eq("spmm_t", "out with rows", k, out.nrows());
    expect_eq("spmm_t", "out with columns", d, out.ncols());
    if d == 0 || k == 0 {
        return;
    }
    let tile = tile(par, k, d).unwrap_or(TILE.min(d.next_multiple_of(LEAST)));
    let tiles = d.div_ceil(tile);
    let mut sums = par.scratch(tiles * k * tile);
    let jobs = sums.chunks_exact_mut(k * tile).enumerate();
    let jobs: Vec<_> = jobs
        .map(|(j, sums)| Job {
            first: j * tile,
            wide: tile.min(d - j * tile),
            sums,
        })
        .collect();
    let b = flat("spmm_t", b);
    par.run(jobs, |job| {
        let b = (b, d);
        at_level!(level, run(a: Csr<'_>, b: (&[f32], usize), job: Job<'_>));
    });
    let bounds = split_rows(k, par.threads());
    par.run(
        cut_mut(flat_mut("spmm_t", out), d, &bounds),
        |(first, out)| {
            for (r, out) in out.chunks_exact_mut(d).enumerate() {
                for (j, out) in out.chunks_mut(tile).enumerate() {
                    let from = (j * k + first + r) * tile;
                    out.copy_from_slice(&sums[from..from + out.len()]);
                }
            }
        },
    );
    par.recycle(sums);
}

#[inline(always)]
fn run<V: Vector>(a: Csr<'_>, b: (&[f32], usize), job: Job<'_>) {
    let weights = a.weights.unwrap_or(&[]);
    let vectors = job.wide.div_ceil(V::LANES);
    macro_rules! by_vectors {
        ($($n:literal)*) => {
            match (vectors, a.weights.is_some()) {
                $(($n, true) => add::<V, $n, true>(a, weights, b, job),
                  ($n, false) => add::<V, $n, false>(a, weights, b, job),)*
                (n, _) => unreachable!("a tile of {n} vectors"),
            }
        };
    }
    by_vectors!(1 2 3 4 5 6 7 8);
}

#[inline(always)]
fn add<V: Vector, const N: usize, const W: bool>(
    a: Csr<'_>,
    weights: &[f32],
    (b, d): (&[f32], usize),
    job: Job<'_>,
) {
    let Job { first, wide, sums } = job;
    let (n, k) = (a.rows(), a.n_cols);
    let stride = sums.len() / k;
    let tail = wide - (N - 1) * V::LANES;
    assert!(N * V::LANES <= stride && tail >= 1 && tail <= V::LANES && first + wide <= d);
    assert!(n * d <= b.len() && k * stride <= sums.len());
    let sums = sums.as_mut_ptr();
    for r in 0..n {
        let span = a.span(r);
        let cols = &a.indices[span.clone()];
        let scale = if W { &weights[span] } else { &[] };
        for line in (0..wide).step_by(16) {
            prefetch(b.as_ptr().wrapping_add((r + AHEAD) * d + first + line));
        }
        // SAFETY: row `r < n` of `b` has columns `first..first + wide`, the last vector of which is masked; an
        // index is below `k`, and each has `stride` sums, at least `N` vectors; there are as many weights as indices.
        unsafe {
            let mask = V::mask(tail);
            let from = b.as_ptr().add(r * d + first);
            let row = read::<V, N>(from, mask);
            for (i, &c) in cols.iter().enumerate() {
                let c = c as usize;
                if c >= k {
                    out_of_range("spmm_t", c, k);
                }
                let to = sums.add(c * stride);
                let w = V::splat(if W { *scale.get_unchecked(i) } else { 1.0 });
                for (j, v) in row.iter().enumerate() {
                    let to = to.add(j * V::LANES);
                    let sum = V::load(to);
                    let sum = match W {
                        true => plus(sum, *v, w, N * V::LANES <= APART && d <= APART),
                        false => v.add(sum),
                    };
                    sum.store(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use crate::spmm;
    use crate::spmm::tests::matrix;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_product_with_the_transposed_bit_by_bit(
            a in any_csr(), d in prop_oneof![0usize..40, 60usize..150], threads in 1usize..5,
        ) {
            let b = matrix(a.rows(), d, 3);
            let t = a.view().transpose();
            let par = Par::new(threads);
            for level in Level::available() {
                let mut want = Mat::from_elem((a.n_cols, d), 7.0);
                let whole = (b.dim(), b.as_slice().expect("made here"));
                spmm::at_level(level, &par, t.view(), 0..a.n_cols, spmm::Onto::Set, whole, &mut want);
                let mut got = Mat::from_elem((a.n_cols, d), 7.0);
                at(level, &par, a.view(), &b, &mut got);
                prop_assert_eq!(&got, &want);
            }
        }
    }

    #[test]
    fn it_is_quicker_where_sums_stay_near_and_no_thread_is_idle() {
        let par = Par::new(2);
        assert!(is_quicker(&par, 1433, 512) && is_quicker(&par, 1433, 32));
        // One thread's columns; a vocabulary that leaves the cache.
        assert!(!is_quicker(&par, 1433, 16) && !is_quicker(&par, 100_000, 512));
        assert!(is_quicker(&Par::new(1), 1433, 16));
    }

    #[test]
    #[should_panic(expected = "spmm_t: expected indices below 2, got 9")]
    fn an_index_out_of_range_panics_and_does_not_write() {
        let a = Csr {
            indptr: &[0, 1],
            indices: &[9],
            weights: None,
            n_cols: 2,
        };
        spmm_t_into(
            &Par::new(1),
            a,
            &Mat::zeros((1, 3)),
            &mut Mat::zeros((2, 3)),
        );
    }

    #[test]
    #[should_panic(expected = "spmm_t: expected b with rows 3, got 2")]
    fn wrong_shapes_name_both_sides() {
        let a = crate::CsrBuf {
            indptr: vec![0; 4],
            n_cols: 2,
            ..crate::CsrBuf::empty(2)
        };
        spmm_t_into(
            &Par::new(1),
            a.view(),
            &Mat::zeros((2, 3)),
            &mut Mat::zeros((2, 3)),
        );
    }
}
