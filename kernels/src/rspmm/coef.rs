//! The gradient of the coefficients.

use std::ops::Range;

use super::typed::{Typed, expect_types};
use crate::gat::level_for;
use crate::simd::Level;
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, flat, flat_mut};

/// Edges of one partial sum of the coefficients' gradient, whatever the number of threads.
const BLOCK: usize = 8192;

/// The gradient of the coefficients: `dcoef[t, b] = Σ w_e ⟨g[v, :], x[col_e, b·d..(b + 1)·d]⟩` over
/// the edges of type `t`, in a fixed order.
///
/// `a: [m, n]`, `types: [edges]` in its order, `x: [n, bases·d]`, `g: [m, d]`,
/// `dcoef: [types, bases]`.
///
/// # Panics
/// Like [`super::rspmm_into`].
pub fn coef_gradient_into(par: &Par, a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
    coef_gradient_at(level_for(g.ncols()), par, a, types, (x, g), dcoef);
}

pub(super) fn coef_gradient_at(
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
        let u = r.column(e);
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
