//! Aggregation over typed edges with basis decomposition (R-GCN), forward and backward.
//!
//! With `B` bases, `x` holds a vertex's `B` projections side by side, and an edge of type `t` adds
//! their mixture by row `t` of `coef`. So nothing of size types × vertices exists: the weights of
//! all types are never applied, only those of the bases.
//!
//! # Paper
//! Schlichtkrull et al., "Modeling relational data with graph convolutional networks", ESWC 2018,
//! <https://arxiv.org/abs/1703.06103>, equation 3.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::gat::level_for;
use crate::hubs::{sum_rows, within};
use crate::simd::Level;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::{Vector, at_level, prefetch};
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// Types of edges and what they mix.
#[derive(Clone, Copy, Debug)]
pub struct Relations<'a> {
    /// Type of each edge, in the order of the graph that is passed with it: `[edges]`.
    pub types: &'a [u16],
    /// Share of each basis in each type: `[types, bases]`.
    pub coef: &'a Mat,
}

/// Edges of one partial sum of the coefficients' gradient, whatever the number of threads.
const BLOCK: usize = 8192;

/// Scalar references.
pub mod naive {
    use super::Relations;
    use crate::{Csr, Mat};
    use std::ops::Range;

    /// See [`super::rspmm_into`].
    pub fn forward(a: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, x: &Mat, out: &mut Mat) {
        let d = out.ncols();
        for v in rows {
            out.row_mut(v).fill(0.0);
            for e in a.span(v) {
                for (b, k) in rel.coef.row(rel.types[e] as usize).iter().enumerate() {
                    for c in 0..d {
                        let from = x[[a.indices[e] as usize, b * d + c]];
                        out[[v, c]] += a.weight(e) * k * from;
                    }
                }
            }
        }
    }

    /// See [`super::rspmm_t_into`].
    pub fn transposed(at: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, g: &Mat, dx: &mut Mat) {
        let d = g.ncols();
        for u in rows {
            dx.row_mut(u).fill(0.0);
            for e in at.span(u) {
                for (b, k) in rel.coef.row(rel.types[e] as usize).iter().enumerate() {
                    for c in 0..d {
                        dx[[u, b * d + c]] += at.weight(e) * k * g[[at.indices[e] as usize, c]];
                    }
                }
            }
        }
    }

    /// See [`super::coef_gradient_into`].
    pub fn coef(a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
        let d = g.ncols();
        dcoef.fill(0.0);
        for v in 0..a.rows() {
            for e in a.span(v) {
                for b in 0..dcoef.ncols() {
                    for c in 0..d {
                        dcoef[[types[e] as usize, b]] +=
                            a.weight(e) * g[[v, c]] * x[[a.indices[e] as usize, b * d + c]];
                    }
                }
            }
        }
    }
}

/// Writes `out[v, :] = Σ_e w_e Σ_b coef[type_e, b] · x[col_e, b·d..(b + 1)·d]` for the rows in
/// `rows` and leaves the others.
///
/// `a: [m, n]`, `x: [n, bases·d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `m`, an index of `a` is not below `n`, or a type has no
/// row in `coef`.
pub fn rspmm_into(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    x: &Mat,
    out: &mut Mat,
) {
    rspmm_at(level_for(out.ncols()), par, a, rows, rel, x, out);
}

/// Checks types and the columns of both sides; returns whether there is anything to do.
fn check(
    op: &str,
    a: Csr<'_>,
    rows: &Range<usize>,
    rel: &Relations<'_>,
    wide: usize,
    d: usize,
) -> bool {
    let bases = rel.coef.ncols();
    expect_eq(op, "types of edges", a.n_edges(), rel.types.len());
    expect_eq(op, "columns (bases times width)", bases * d, wide);
    expect_types(op, rel.types, rel.coef.nrows());
    let m = a.rows();
    assert!(
        rows.end <= m,
        "{op}: expected rows within {m}, got {rows:?}"
    );
    !rows.is_empty() && d > 0 && bases > 0
}

fn expect_types(op: &str, types: &[u16], n: usize) {
    let most = types.iter().fold(0, |m, &t| t.max(m)) as usize;
    assert!(
        types.is_empty() || most < n,
        "{op}: expected types below {n}, got {most}"
    );
}

fn rspmm_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    x: &Mat,
    out: &mut Mat,
) {
    const OP: &str = "rspmm";
    let d = out.ncols();
    expect_eq(OP, "x with rows", a.n_cols, x.nrows());
    expect_eq(OP, "out with rows", a.rows(), out.nrows());
    if !check(OP, a, &rows, rel, x.ncols(), d) {
        return out.slice_mut(ndarray::s![rows, ..]).fill(0.0);
    }
    let r = Typed {
        a,
        types: rel.types,
        coef: flat(OP, rel.coef),
        bases: rel.coef.ncols(),
        d,
    };
    let x = flat(OP, x);
    let out = &mut flat_mut(OP, out)[rows.start * d..rows.end * d];
    sum_rows(par, a.indptr, rows, d, out, |rows, edges, out| {
        at_level!(
            level,
            mix(r: Typed<'_>, x: &[f32], rows: Range<usize>, edges: Range<usize>, out: &mut [f32])
        );
    });
}

/// A typed graph with the coefficients of its types.
#[derive(Clone, Copy)]
struct Typed<'a> {
    a: Csr<'a>,
    types: &'a [u16],
    coef: &'a [f32],
    bases: usize,
    d: usize,
}

impl<'a> Typed<'a> {
    /// The column of edge `e`, checked, and the coefficients of its type.
    #[inline(always)]
    fn edge(&self, e: usize) -> (usize, &'a [f32]) {
        let u = self.a.indices[e] as usize;
        let n = self.a.n_cols;
        assert!(u < n, "rspmm: expected indices below {n}, got {u}");
        let t = self.types[e] as usize * self.bases;
        (u, &self.coef[t..t + self.bases])
    }
}

/// Calls `$f::<V, N>` for the widest tile of at most `$left` columns, which is masked at the end.
macro_rules! by_width {
    ($v:ident, $left:expr, $f:ident($($arg:expr),*)) => {
        match $left.div_ceil($v::LANES) {
            1 => $f::<$v, 1>($($arg),*),
            2 | 3 => $f::<$v, 2>($($arg),*),
            _ => $f::<$v, 4>($($arg),*),
        }
    };
}

#[inline(always)]
fn mix<V: Vector>(
    r: Typed<'_>,
    x: &[f32],
    rows: Range<usize>,
    edges: Range<usize>,
    out: &mut [f32],
) {
    for (v, out) in rows.zip(out.chunks_exact_mut(r.d)) {
        let span = within(r.a.span(v), &edges);
        let mut first = 0;
        while first < r.d {
            first += by_width!(V, (r.d - first), mix_tile(r, x, span.clone(), first, out));
        }
    }
}

/// The mask of the last of `N` vectors from column `first` of `d`, and how many columns these are.
#[inline(always)]
fn tile<V: Vector, const N: usize>(first: usize, d: usize) -> (V::Mask, usize) {
    let wide = (N * V::LANES).min(d - first);
    assert!(wide > (N - 1) * V::LANES);
    // SAFETY: what is left for the last vector is within its lanes, by the lines above.
    (unsafe { V::mask(wide - (N - 1) * V::LANES) }, wide)
}

#[inline(always)]
fn mix_tile<V: Vector, const N: usize>(
    r: Typed<'_>,
    x: &[f32],
    edges: Range<usize>,
    first: usize,
    out: &mut [f32],
) -> usize {
    let stride = r.bases * r.d;
    let (mask, wide) = tile::<V, N>(first, r.d);
    assert!(r.a.n_cols * stride <= x.len() && first + wide <= r.d && out.len() == r.d);
    // SAFETY: a constant vector.
    let mut sum = [unsafe { V::splat(0.0) }; N];
    for e in edges {
        let (u, coef) = r.edge(e);
        if let Some(&next) = r.a.indices.get(e + AHEAD) {
            let row = x.as_ptr().wrapping_add(next as usize * stride + first);
            for b in 0..r.bases.min(8) {
                prefetch(row.wrapping_add(b * r.d));
            }
        }
        let w = r.a.weight(e);
        for (b, k) in coef.iter().enumerate() {
            // SAFETY: `u < n_cols`, `n_cols * stride <= x.len()`, `b < bases` and
            // `first + wide <= d`; the last vector is masked to `wide`.
            unsafe {
                let k = V::splat(w * k);
                let from = x.as_ptr().add(u * stride + b * r.d + first);
                for (n, sum) in sum.iter_mut().enumerate() {
                    *sum = load::<V, N>(from, n, mask).mul_add(k, *sum);
                }
            }
        }
    }
    // SAFETY: `first + wide <= d`, the length of `out`; masked like the loads.
    unsafe { store::<V, N>(sum, out.as_mut_ptr().add(first), mask) }
    wide
}

/// Vector `n` of `N` from `p`, the last under the mask.
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(p: *const f32, n: usize, mask: V::Mask) -> V {
    // SAFETY: the caller's pointer is valid for these vectors.
    unsafe {
        let p = p.add(n * V::LANES);
        if n + 1 < N {
            V::load(p)
        } else {
            V::load_first(p, mask)
        }
    }
}

/// The store of [`load`], of all `N`.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(v: [V; N], p: *mut f32, mask: V::Mask) {
    for (n, v) in v.into_iter().enumerate() {
        // SAFETY: the caller's pointer is valid for these vectors.
        unsafe {
            let p = p.add(n * V::LANES);
            if n + 1 < N {
                v.store(p)
            } else {
                v.store_first(p, mask)
            }
        }
    }
}

/// The gradient of `x`: `dx[u, b·d..(b + 1)·d] = Σ w_e coef[type_e, b] · g[v, :]` over the edges from
/// `u`, for the sources in `rows`; others stay as they are.
///
/// `at: [n, m]` is the transposed graph with its weights and `rel.types` in its order
/// ([`crate::csr::transposed`]); `g: [m, d]`, `dx: [n, bases·d]`.
///
/// # Panics
/// Like [`rspmm_into`].
pub fn rspmm_t_into(
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    g: &Mat,
    dx: &mut Mat,
) {
    rspmm_t_at(level_for(g.ncols()), par, at, rows, rel, g, dx);
}

fn rspmm_t_at(
    level: Level,
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    g: &Mat,
    dx: &mut Mat,
) {
    const OP: &str = "rspmm_t";
    let d = g.ncols();
    expect_eq(OP, "g with rows", at.n_cols, g.nrows());
    expect_eq(OP, "dx with rows", at.rows(), dx.nrows());
    if !check(OP, at, &rows, rel, dx.ncols(), d) {
        return dx.slice_mut(ndarray::s![rows, ..]).fill(0.0);
    }
    let coef = flat(OP, rel.coef);
    let r = Typed {
        a: at,
        types: rel.types,
        coef,
        bases: rel.coef.ncols(),
        d,
    };
    let (g, wide) = (flat(OP, g), dx.ncols());
    let dx = &mut flat_mut(OP, dx)[rows.start * wide..rows.end * wide];
    sum_rows(par, at.indptr, rows, wide, dx, |rows, edges, dx| {
        at_level!(
            level,
            spread(r: Typed<'_>, g: &[f32], rows: Range<usize>, edges: Range<usize>, dx: &mut [f32])
        );
    });
}

#[inline(always)]
fn spread<V: Vector>(
    r: Typed<'_>,
    g: &[f32],
    rows: Range<usize>,
    edges: Range<usize>,
    dx: &mut [f32],
) {
    for (u, dx) in rows.zip(dx.chunks_exact_mut(r.bases * r.d)) {
        let span = within(r.a.span(u), &edges);
        // Four bases at a time, so that a gathered row serves as many sums.
        for base in (0..r.bases).step_by(4) {
            let mut first = 0;
            while first < r.d {
                first += by_width!(
                    V,
                    (r.d - first),
                    spread_tile(r, g, span.clone(), base, first, dx)
                );
            }
        }
    }
}

#[inline(always)]
fn spread_tile<V: Vector, const N: usize>(
    r: Typed<'_>,
    g: &[f32],
    edges: Range<usize>,
    base: usize,
    first: usize,
    dx: &mut [f32],
) -> usize {
    let (mask, wide) = tile::<V, N>(first, r.d);
    assert!(r.a.n_cols * r.d <= g.len() && dx.len() == r.bases * r.d && base < r.bases);
    let bases = (r.bases - base).min(4);
    // SAFETY: a constant vector.
    let mut sums = [[unsafe { V::splat(0.0) }; N]; 4];
    for e in edges {
        let (v, coef) = r.edge(e);
        if let Some(&next) = r.a.indices.get(e + AHEAD) {
            let row = g.as_ptr().wrapping_add(next as usize * r.d + first);
            prefetch_row(row, wide);
        }
        let w = r.a.weight(e);
        let mut k = [0.0; 4];
        for (k, c) in k.iter_mut().zip(&coef[base..base + bases]) {
            *k = w * c;
        }
        for n in 0..N {
            // SAFETY: `v < n_cols`, `n_cols * d <= g.len()` and `first + wide <= d`; masked.
            unsafe {
                let from: V = load::<V, N>(g.as_ptr().add(v * r.d + first), n, mask);
                for (sum, &k) in sums.iter_mut().zip(&k) {
                    sum[n] = from.mul_add(V::splat(k), sum[n]);
                }
            }
        }
    }
    for (b, sum) in sums.into_iter().enumerate().take(bases) {
        // SAFETY: `base + b < bases` and `first + wide <= d`, so the tile lies within `dx`.
        unsafe { store::<V, N>(sum, dx.as_mut_ptr().add((base + b) * r.d + first), mask) }
    }
    wide
}

/// The gradient of the coefficients: `dcoef[t, b] = Σ w_e ⟨g[v, :], x[col_e, b·d..(b + 1)·d]⟩` over
/// the edges of type `t`, in a fixed order.
///
/// `a: [m, n]`, `types: [edges]` in its order, `x: [n, bases·d]`, `g: [m, d]`,
/// `dcoef: [types, bases]`.
///
/// # Panics
/// Like [`rspmm_into`].
pub fn coef_gradient_into(par: &Par, a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
    coef_gradient_at(level_for(g.ncols()), par, a, types, (x, g), dcoef);
}

fn coef_gradient_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    types: &[u16],
    (x, g): (&Mat, &Mat),
    dcoef: &mut Mat,
) {
    const OP: &str = "coef_gradient";
    let (n_types, bases) = dcoef.dim();
    let d = g.ncols();
    expect_eq(OP, "x with rows", a.n_cols, x.nrows());
    expect_eq(OP, "x with columns", bases * d, x.ncols());
    expect_eq(OP, "g with rows", a.rows(), g.nrows());
    expect_eq(OP, "types of edges", a.n_edges(), types.len());
    expect_types(OP, types, n_types);
    dcoef.fill(0.0);
    if types.is_empty() || bases == 0 || d == 0 {
        return;
    }
    let r = Typed {
        a,
        types,
        coef: &[],
        bases,
        d,
    };
    let (x, g) = (flat(OP, x), flat(OP, g));
    let stride = n_types * bases;
    let mut scratch = par.scratch(types.len().div_ceil(BLOCK) * stride);
    let jobs = scratch.chunks_exact_mut(stride).enumerate().collect();
    par.run(jobs, |(block, sums): (usize, &mut [f32])| {
        let edges = block * BLOCK..((block + 1) * BLOCK).min(types.len());
        at_level!(
            level,
            type_dots(r: Typed<'_>, x: &[f32], g: &[f32], edges: Range<usize>, sums: &mut [f32])
        );
    });
    let dcoef = flat_mut(OP, dcoef);
    for part in scratch.chunks_exact(stride) {
        dcoef
            .iter_mut()
            .zip(part)
            .for_each(|(to, from)| *to += from);
    }
    par.recycle(scratch);
}

#[inline(always)]
fn type_dots<V: Vector>(r: Typed<'_>, x: &[f32], g: &[f32], edges: Range<usize>, sums: &mut [f32]) {
    let stride = r.bases * r.d;
    // The row of the first edge: the last one that starts at or before it.
    let mut v = r.a.indptr.partition_point(|&at| at <= edges.start as u64) - 1;
    for e in edges {
        while r.a.indptr[v + 1] <= e as u64 {
            v += 1;
        }
        let u = r.a.indices[e] as usize;
        let n = r.a.n_cols;
        assert!(u < n, "rspmm: expected indices below {n}, got {u}");
        let (g, w) = (&g[v * r.d..(v + 1) * r.d], r.a.weight(e));
        let to = &mut sums[r.types[e] as usize * r.bases..][..r.bases];
        for (x, to) in x[u * stride..(u + 1) * stride].chunks_exact(r.d).zip(to) {
            *to += w * dot::<V>(x, g);
        }
    }
}

#[inline(always)]
fn dot<V: Vector>(x: &[f32], y: &[f32]) -> f32 {
    let mut out = [0.0];
    crate::gat_tile::head_dots::<V>(x, y, x.len(), &mut out);
    out[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsrBuf;
    use crate::csr::{tests::any_csr, transposed};
    use crate::spmm::tests::{assert_close, matrix, star};
    use proptest::prelude::*;

    fn types_of(a: &CsrBuf, n: usize) -> Vec<u16> {
        (0..a.indices.len())
            .map(|e| (e * 7 % 11 % n) as u16)
            .collect()
    }

    proptest! {
        #[test]
        fn typed_sums_and_gradients_equal_naive_at_every_level(
            a in any_csr(), d in prop_oneof![0usize..20, 30usize..100], bases in 1usize..7,
            n_types in 1usize..9, cut in 0.0f64..1.0,
        ) {
            let (m, n) = (a.rows(), a.n_cols);
            let (x, g, coef) = (matrix(n, bases * d, 1), matrix(m, d, 2), matrix(n_types, bases, 3));
            let types = types_of(&a, n_types);
            let rel = Relations { types: &types, coef: &coef };
            let rows = (m as f64 * cut) as usize..m;
            let mut want = Mat::from_elem((m, d), 7.0);
            naive::forward(a.view(), rows.clone(), &rel, &x, &mut want);
            let at = a.view().transpose();
            let map = a.view().transpose_map().map_err(|e| TestCaseError::fail(e.to_string()))?;
            let types_t = transposed(&map, &types);
            let rel_t = Relations { types: &types_t, coef: &coef };
            let sources = (n as f64 * cut) as usize..n;
            let mut want_dx = Mat::from_elem((n, bases * d), 7.0);
            naive::transposed(at.view(), sources.clone(), &rel_t, &g, &mut want_dx);
            let mut want_coef = Mat::zeros(coef.dim());
            naive::coef(a.view(), &types, &x, &g, &mut want_coef);
            for level in Level::available() {
                let par = Par::new(2);
                let mut got = Mat::from_elem((m, d), 7.0);
                rspmm_at(level, &par, a.view(), rows.clone(), &rel, &x, &mut got);
                assert_close(&got, &want);
                let mut got = Mat::from_elem((n, bases * d), 7.0);
                rspmm_t_at(level, &par, at.view(), sources.clone(), &rel_t, &g, &mut got);
                assert_close(&got, &want_dx);
                let mut got = Mat::from_elem(coef.dim(), 7.0);
                coef_gradient_at(level, &par, a.view(), &types, (&x, &g), &mut got);
                // Sums of thousands of terms in two orders: their rounding is that of the terms' size.
                for (got, want) in got.iter().zip(&want_coef) {
                    prop_assert!((got - want).abs() < 1e-2 + 1e-3 * want.abs());
                }
            }
        }
    }

    #[test]
    fn threads_and_hubs_do_not_change_a_bit_and_the_transposed_is_the_adjoint() {
        let a = star(500);
        let (n, d, bases) = (500, 20, 3);
        let (x, g, coef) = (
            matrix(n, bases * d, 1),
            matrix(n, d, 2),
            matrix(5, bases, 3),
        );
        let types = types_of(&a, 5);
        let at = a.view().transpose();
        let types_t = transposed(&a.view().transpose_map().expect("few edges"), &types);
        let all = |threads| {
            let par = Par::new(threads);
            let (mut out, mut dx) = (Mat::zeros((n, d)), Mat::zeros((n, bases * d)));
            let mut dcoef = Mat::zeros(coef.dim());
            let rel = Relations {
                types: &types,
                coef: &coef,
            };
            rspmm_into(&par, a.view(), 0..n, &rel, &x, &mut out);
            let rel = Relations {
                types: &types_t,
                coef: &coef,
            };
            rspmm_t_into(&par, at.view(), 0..n, &rel, &g, &mut dx);
            coef_gradient_into(&par, a.view(), &types, &x, &g, &mut dcoef);
            (out, dx, dcoef)
        };
        let want = all(1);
        for threads in [2, 3, 8] {
            assert_eq!(all(threads), want);
        }
        let dot = |x: &Mat, y: &Mat| -> f64 {
            x.iter()
                .zip(y)
                .map(|(x, y)| f64::from(*x) * f64::from(*y))
                .sum()
        };
        // Linear in x and in the coefficients, so all three are the same number.
        let forward = dot(&want.0, &g);
        assert!((forward - dot(&want.1, &x)).abs() < 1e-4 * forward.abs() + 1e-2);
        assert!((forward - dot(&want.2, &coef)).abs() < 1e-4 * forward.abs() + 1e-2);
    }

    #[test]
    #[should_panic(expected = "rspmm: expected types below 2, got 5")]
    fn a_type_without_coefficients_is_named() {
        let a = Csr {
            indptr: &[0, 1],
            indices: &[0],
            weights: None,
            n_cols: 1,
        };
        let rel = Relations {
            types: &[5],
            coef: &Mat::zeros((2, 1)),
        };
        rspmm_into(
            &Par::new(1),
            a,
            0..1,
            &rel,
            &Mat::zeros((1, 3)),
            &mut Mat::zeros((1, 3)),
        );
    }
}
