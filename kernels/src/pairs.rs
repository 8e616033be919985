//! Elementwise products of pairs of rows, and their adjoint: what scorers of links are made of.
//!
//! The backward pass gathers instead of scattering: every row sums over the pairs it is in, in the
//! order of the pairs, so that no two threads write one row.
//!
//! # Not done
//! A row that is in a large share of all pairs is summed by one thread.

use crate::par::{cut_mut, split_edges};
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, ShapeError, expect_eq, flat, flat_mut};

/// Pairs of rows of an `[n, d]` matrix, with the pairs that each row is in.
#[derive(Clone, Debug)]
pub struct Pairs {
    ends: Vec<[u32; 2]>,
    /// Where each row's entries start: `[n + 1]`.
    start: Vec<u64>,
    /// Twice a pair plus the side on which the row stands: `[2 · pairs]`.
    entries: Vec<u32>,
}

impl Pairs {
    /// Pairs of rows below `n`.
    ///
    /// # Errors
    /// When a row is not below `n`, or there are 2³¹ pairs or more.
    pub fn new(n: usize, ends: Vec<[u32; 2]>) -> Result<Pairs, ShapeError> {
        if let Some(e) = ends.iter().position(|p| p.iter().any(|&v| v as usize >= n)) {
            return Err(ShapeError::new(
                "pairs",
                format!("pair {e} below {n} rows"),
                format!("{:?}", ends[e]),
            ));
        }
        if ends.len() >= 1 << 31 {
            return Err(ShapeError::new(
                "pairs",
                "fewer than 2^31 pairs",
                ends.len().to_string(),
            ));
        }
        let mut start = vec![0u64; n + 1];
        let flat = || ends.iter().flatten().map(|&v| v as usize);
        flat().for_each(|v| start[v + 1] += 1);
        (0..n).for_each(|v| start[v + 1] += start[v]);
        let mut next = start.clone();
        let mut entries = vec![0u32; 2 * ends.len()];
        for (k, v) in flat().enumerate() {
            entries[next[v] as usize] = k as u32;
            next[v] += 1;
        }
        Ok(Pairs {
            ends,
            start,
            entries,
        })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of rows of the matrix they are pairs of.
    pub fn rows(&self) -> usize {
        self.start.len() - 1
    }

    /// Where each row's entries start, `[n + 1]`, and the entries: twice a pair plus the side on which
    /// the row stands.
    pub(crate) fn by_row(&self) -> (&[u64], &[u32]) {
        (&self.start, &self.entries)
    }

    /// The pairs.
    pub fn ends(&self) -> &[[u32; 2]] {
        &self.ends
    }
}

/// Scalar references.
pub mod naive {
    use super::Pairs;
    use crate::Mat;

    /// `out[e, :] = z[u, :] · z[v, :]` element by element, for each pair `(u, v)`.
    pub fn products(pairs: &Pairs, z: &Mat, out: &mut Mat) {
        for (e, &[u, v]) in pairs.ends().iter().enumerate() {
            let product = &z.row(u as usize) * &z.row(v as usize);
            out.row_mut(e).assign(&product);
        }
    }

    /// `g[u, :] += gp[e, :] · z[v, :]`, and the same with `u` and `v` swapped, from zero.
    pub fn products_backward(pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
        g.fill(0.0);
        for (e, &[u, v]) in pairs.ends().iter().enumerate() {
            for (to, other) in [(u, v), (v, u)] {
                let term = &gp.row(e) * &z.row(other as usize);
                let mut row = g.row_mut(to as usize);
                row += &term;
            }
        }
    }
}

multiversion! {
    fn multiply(level: Level, ends: &[[u32; 2]], z: &[f32], d: usize, out: &mut [f32]) {
        for (to, &[u, v]) in out.chunks_exact_mut(d).zip(ends) {
            let (a, b) = (&z[u as usize * d..][..d], &z[v as usize * d..][..d]);
            for ((o, a), b) in to.iter_mut().zip(a).zip(b) {
                *o = a * b;
            }
        }
    }
}

multiversion! {
    fn gather_terms(
        level: Level, pairs: &Pairs, first: usize, z: &[f32], gp: &[f32], d: usize, out: &mut [f32],
    ) {
        for (k, to) in out.chunks_exact_mut(d).enumerate() {
            to.fill(0.0);
            let span = pairs.start[first + k] as usize..pairs.start[first + k + 1] as usize;
            for &entry in &pairs.entries[span] {
                let (e, side) = (entry as usize / 2, entry as usize % 2);
                let other = pairs.ends[e][1 - side] as usize;
                let (a, b) = (&gp[e * d..][..d], &z[other * d..][..d]);
                for ((o, a), b) in to.iter_mut().zip(a).zip(b) {
                    *o += a * b;
                }
            }
        }
    }
}

/// Writes `out[e, :] = z[u, :] · z[v, :]`, element by element, for each pair `(u, v)`.
/// `z: [n, d]`, `out: [pairs, d]`.
///
/// # Panics
/// When the shapes disagree.
pub fn products_into(par: &Par, pairs: &Pairs, z: &Mat, out: &mut Mat) {
    products_at(Level::detect(), par, pairs, z, out);
}

fn products_at(level: Level, par: &Par, pairs: &Pairs, z: &Mat, out: &mut Mat) {
    let d = z.ncols();
    expect_eq("pairs", "z with rows", pairs.rows(), z.nrows());
    expect_eq("pairs", "out with rows", pairs.len(), out.nrows());
    expect_eq("pairs", "out with columns", d, out.ncols());
    let z = flat("pairs", z);
    par.rows_mut(flat_mut("pairs", out), d, |first, rows| {
        multiply(level, &pairs.ends[first..], z, d, rows);
    });
}

/// From `gp: [pairs, d]`, the gradient of the products, that of the rows into `g: [n, d]`:
/// `g[u, :] = Σ gp[e, :] · z[v, :]` over the pairs that `u` is in.
///
/// # Panics
/// When the shapes disagree.
pub fn products_backward_into(par: &Par, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
    products_backward_at(Level::detect(), par, pairs, z, gp, g);
}

fn products_backward_at(level: Level, par: &Par, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
    let (n, d) = z.dim();
    expect_eq("pairs", "z with rows", pairs.rows(), n);
    expect_eq("pairs", "gp with rows", pairs.len(), gp.nrows());
    expect_eq("pairs", "gp with columns", d, gp.ncols());
    expect_eq("pairs", "g with rows", n, g.nrows());
    expect_eq("pairs", "g with columns", d, g.ncols());
    if d == 0 || n == 0 {
        return;
    }
    let (z, gp) = (flat("pairs", z), flat("pairs", gp));
    let parts = if pairs.len() * d < 8 * 1024 {
        1
    } else {
        par.threads() * 4
    };
    let bounds = split_edges(&pairs.start, 0..n, parts);
    let jobs = cut_mut(flat_mut("pairs", g), d, &bounds);
    par.run(jobs, |(first, rows)| {
        gather_terms(level, pairs, first, z, gp, d, rows);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;
    use crate::spmm::tests::matrix;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_and_their_adjoint_equal_the_reference(
            n in 1usize..40, m in 0usize..200, d in 0usize..40, hub: bool, seed: u64,
        ) {
            let at = |k: usize| (mix64(seed ^ k as u64) % n as u64) as u32;
            let ends = (0..m).map(|e| [if hub && e % 3 == 0 { 0 } else { at(2 * e) }, at(2 * e + 1)]);
            let pairs = Pairs::new(n, ends.collect()).expect("rows below n");
            let (z, gp) = (matrix(n, d, seed), matrix(m, d, !seed));
            let (mut products, mut back) = (Mat::zeros((m, d)), Mat::zeros((n, d)));
            naive::products(&pairs, &z, &mut products);
            naive::products_backward(&pairs, &z, &gp, &mut back);
            for level in Level::available() {
                for threads in [1, 2, 3, 8] {
                    let par = Par::new(threads);
                    let mut out = Mat::from_elem((m, d), f32::NAN);
                    products_at(level, &par, &pairs, &z, &mut out);
                    prop_assert_eq!(&out, &products);
                    let mut g = Mat::from_elem((n, d), f32::NAN);
                    products_backward_at(level, &par, &pairs, &z, &gp, &mut g);
                    // The same order of additions: the same bits.
                    prop_assert_eq!(&g, &back);
                }
            }
        }
    }

    #[test]
    fn threads_share_a_large_matrix_and_change_no_bit() {
        let (n, m, d) = (300, 5000, 16);
        let ends = (0..m).map(|e| [0, 1].map(|k| (mix64(2 * e + k) % n as u64) as u32));
        let pairs = Pairs::new(n, ends.collect()).expect("rows below n");
        let (z, gp) = (matrix(n, d, 1), matrix(m as usize, d, 2));
        let run = |threads: usize| {
            let mut g = Mat::zeros((n, d));
            products_backward_into(&Par::new(threads), &pairs, &z, &gp, &mut g);
            g
        };
        let one = run(1);
        for threads in [2, 3, 8] {
            assert_eq!(run(threads), one);
        }
    }

    #[test]
    fn rows_outside_are_refused() {
        let e = Pairs::new(3, vec![[0, 1], [2, 3]]).unwrap_err().to_string();
        assert_eq!(e, "pairs: expected pair 1 below 3 rows, got [2, 3]");
        assert!(Pairs::new(0, Vec::new()).expect("none").is_empty());
    }
}
