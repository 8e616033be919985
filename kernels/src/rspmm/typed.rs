//! What both directions share: the typed graph, the checks, and tiles of columns in registers.
//!
//! Unsafe: loads and stores through pointers that the calling kernel has checked.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Relations;
use crate::csr::out_of_range;
use crate::hubs::sum_rows;
use crate::vector::Vector;
use crate::{Csr, Mat, Par, expect_eq, expect_rows, flat, flat_mut};

/// A typed graph with the coefficients of its types.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    pub(super) a: Csr<'a>,
    pub(super) types: &'a [u16],
    pub(super) coef: &'a [f32],
    pub(super) bases: usize,
    pub(super) d: usize,
}

impl<'a> Typed<'a> {
    /// The column of edge `e`, checked.
    #[inline(always)]
    pub(super) fn column(&self, e: usize) -> usize {
        let u = self.a.indices[e] as usize;
        let n = self.a.n_cols;
        if u >= n {
            out_of_range("rspmm", u, n);
        }
        u
    }

    /// The column of edge `e`, checked, and the coefficients of its type.
    #[inline(always)]
    pub(super) fn edge(&self, e: usize) -> (usize, &'a [f32]) {
        let u = self.column(e);
        let t = self.types[e] as usize * self.bases;
        (u, &self.coef[t..t + self.bases])
    }
}

/// What an aggregation reads and writes, one of them `bases·d` columns wide and the other `d`.
pub(super) struct Sides<'a> {
    pub(super) op: &'static str,
    /// The gathered matrix by its name in messages.
    pub(super) from: (&'static str, &'a Mat),
    /// The sums by their name.
    pub(super) to: (&'static str, &'a mut Mat),
    /// Columns of the wide one, and of the narrow one.
    pub(super) columns: [usize; 2],
}

/// Checks the shapes and runs `sums(graph, from, rows, edges, to)` on pieces of the work: it writes,
/// for each of its rows, the sum over those of the row's edges that lie in `edges`.
///
/// # Panics
/// When the shapes disagree or a type has no coefficients.
pub(super) fn typed_sums(
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    rel: &Relations<'_>,
    sides: Sides<'_>,
    sums: impl Fn(Typed<'_>, &[f32], Range<usize>, Range<usize>, &mut [f32]) + Sync + Send,
) {
    let Sides {
        op,
        from: (from_name, from),
        to: (to_name, to),
        columns: [wide, d],
    } = sides;
    let (m, bases) = (a.rows(), rel.coef.ncols());
    expect_eq(
        op,
        &format!("{from_name} with rows"),
        a.n_cols,
        from.nrows(),
    );
    expect_eq(op, &format!("{to_name} with rows"), m, to.nrows());
    expect_eq(op, "types of edges", a.n_edges(), rel.types.len());
    expect_eq(op, "columns (bases times width)", bases * d, wide);
    expect_types(op, rel.types, rel.coef.nrows());
    expect_rows(op, &rows, m);
    if rows.is_empty() || d == 0 || bases == 0 {
        return to.slice_mut(ndarray::s![rows, ..]).fill(0.0);
    }
    let r = Typed {
        a,
        types: rel.types,
        coef: flat(op, rel.coef),
        bases,
        d,
    };
    let (from, width) = (flat(op, from), to.ncols());
    let to = &mut flat_mut(op, to)[rows.start * width..rows.end * width];
    sum_rows(par, a.indptr, rows, width, to, |rows, edges, to| {
        sums(r, from, rows, edges, to);
    });
}

/// Panics when a type has no coefficients.
pub(super) fn expect_types(op: &str, types: &[u16], n: usize) {
    let most = types.iter().fold(0, |m, &t| t.max(m)) as usize;
    assert!(
        types.is_empty() || most < n,
        "{op}: expected types below {n}, got {most}"
    );
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
pub(super) use by_width;

/// The mask of the last of `N` vectors from column `first` of `d`, and how many columns these are.
#[inline(always)]
pub(super) fn tile<V: Vector, const N: usize>(first: usize, d: usize) -> (V::Mask, usize) {
    let wide = (N * V::LANES).min(d - first);
    assert!(wide > (N - 1) * V::LANES);
    // SAFETY: what is left for the last vector is within its lanes, by the lines above.
    (unsafe { V::mask(wide - (N - 1) * V::LANES) }, wide)
}

/// Vector `n` of `N` from `p`, the last under the mask.
#[inline(always)]
pub(super) unsafe fn load<V: Vector, const N: usize>(p: *const f32, n: usize, mask: V::Mask) -> V {
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
pub(super) unsafe fn store<V: Vector, const N: usize>(v: [V; N], p: *mut f32, mask: V::Mask) {
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
