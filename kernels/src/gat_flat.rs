//! The inner loops of the attention kernels for heads narrower than a vector: a vector holds columns of
//! several heads, and their factors are spread over its lanes.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use crate::gat_tile::{Edges, Rows};
use crate::spmm_tile::{AHEAD, prefetch_row, read, store};
use crate::vector::Vector;

/// Whether rows of so many heads of `width` columns are worked on like this: the factors of all heads fit
/// into a vector, and more than one head's columns do.
pub(crate) fn fits<V: Vector>(heads: usize, width: usize) -> bool {
    heads > 1 && heads <= V::LANES && width < V::LANES
}

/// Vectors of one row that are in registers at a time, beside as many of sums and of heads' numbers.
const MOST: usize = 4;

/// Calls `$f::<V, N>` with a number of vectors.
macro_rules! by_count {
    ($n:expr, $f:ident::<$v:ident>($($arg:expr),*)) => {
        match $n {
            1 => $f::<$v, 1>($($arg),*),
            2 => $f::<$v, 2>($($arg),*),
            3 => $f::<$v, 3>($($arg),*),
            4 => $f::<$v, 4>($($arg),*),
            n => unreachable!("a tile of {n} vectors"),
        }
    };
}

/// Calls `$f(.., first, ..)` for each tile of a row of `$d` columns: no closure, which would be compiled
/// without the level's features.
macro_rules! each_tile {
    ($v:ident, $d:expr, |$first:ident, $n:ident| $call:expr) => {
        let vectors = $d.div_ceil($v::LANES);
        let mut at = 0;
        while at < vectors {
            let ($first, $n) = (at * $v::LANES, MOST.min(vectors - at));
            $call;
            at += $n;
        }
    };
}

/// What a tile of `N` vectors from column `first` needs beside its rows.
#[derive(Clone, Copy)]
struct Tile<V: Vector, const N: usize> {
    /// Columns of a row.
    d: usize,
    /// The lanes of the last vector that are columns.
    mask: V::Mask,
    /// The lanes that are heads.
    heads: V::Mask,
    /// The head of each lane of each vector.
    head_of: [V::Lanes; N],
}

/// A tile of the edges' rows, which lie within `x`, and whose columns lie within a row.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn tile<V: Vector, const N: usize>(
    x: Rows<'_>,
    edges: Edges<'_>,
    first: usize,
) -> Tile<V, N> {
    let d = x.heads * x.width;
    assert!(first + (N - 1) * V::LANES < d && fits::<V>(x.heads, x.width));
    assert!(x.n * d <= x.x.len() && edges.rows.len() <= edges.ahead.len());
    edges.expect_below(x.n);
    let tail = (d - first - (N - 1) * V::LANES).min(V::LANES);
    // A lane behind the last column has the factor of some head, and a column of zeros.
    let head =
        |n: usize, lane: usize| ((first + n * V::LANES + lane) / x.width).min(x.heads - 1) as u32;
    // SAFETY: the level is the caller's; both numbers of lanes are at least one and at most all.
    unsafe {
        let mut head_of = [V::lanes([0; 16]); N];
        for (n, of) in head_of.iter_mut().enumerate() {
            *of = V::lanes(std::array::from_fn(|lane| head(n, lane)));
        }
        Tile {
            d,
            mask: V::mask(tail),
            heads: V::mask(x.heads),
            head_of,
        }
    }
}

/// [`crate::gat_tile::gather`] for narrow heads.
#[inline(always)]
pub(crate) fn gather<V: Vector>(x: Rows<'_>, edges: Edges<'_>, p: &[f32], sum: &mut [f32]) {
    each_tile!(V, (x.heads * x.width), |first, n| by_count!(
        n,
        gather_tile::<V>(x, edges, p, first, sum)
    ));
}

#[inline(always)]
fn gather_tile<V: Vector, const N: usize>(
    x: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    first: usize,
    sum: &mut [f32],
) {
    // SAFETY: this runs at the level of `V`.
    let t = unsafe { tile::<V, N>(x, edges, first) };
    assert!(sum.len() == t.d && p.len() >= edges.rows.len() * x.heads);
    // SAFETY: the tile's columns lie within those of `sum` and of each row, and rows within `x` (`tile`); `p`
    // has `heads` numbers for each edge.
    unsafe {
        let to = sum.as_mut_ptr().add(first);
        let mut acc = read::<V, N>(to, t.mask);
        for (i, &r) in edges.rows.iter().enumerate() {
            ahead::<V, N>(x, edges, i, first);
            let row = x.x.as_ptr().add(r as usize * t.d + first);
            let p = V::load_first(p.as_ptr().add(i * x.heads), t.heads);
            let row = read::<V, N>(row, t.mask);
            for (n, acc) in acc.iter_mut().enumerate() {
                *acc = row[n].mul_add(p.pick(t.head_of[n]), *acc);
            }
        }
        store(acc, to, t.mask);
    }
}

#[inline(always)]
fn ahead<V: Vector, const N: usize>(x: Rows<'_>, edges: Edges<'_>, i: usize, first: usize) {
    if let Some(&next) = edges.ahead.get(i + AHEAD) {
        let row = next as usize * x.heads * x.width + first;
        prefetch_row(x.x.as_ptr().wrapping_add(row), N * V::LANES);
    }
}

/// [`crate::gat_tile::gather_and_dot`] for narrow heads. `products: [≥ edges, heads·width]` is for what is
/// summed up head by head afterwards, as such sums use whole vectors.
#[inline(always)]
pub(crate) fn gather_and_dot<V: Vector>(
    g: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    z: &[f32],
    dz: &mut [f32],
    dots: &mut [f32],
    products: &mut [f32],
) {
    each_tile!(V, (g.heads * g.width), |first, n| by_count!(
        n,
        dot_tile::<V>(g, edges, p, z, first, dz, products)
    ));
    let all = edges.rows.len() * g.heads;
    head_sums(&products[..all * g.width], g.width, &mut dots[..all]);
}

#[inline(always)]
fn dot_tile<V: Vector, const N: usize>(
    g: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    z: &[f32],
    first: usize,
    dz: &mut [f32],
    products: &mut [f32],
) {
    // SAFETY: this runs at the level of `V`.
    let t = unsafe { tile::<V, N>(g, edges, first) };
    let count = edges.rows.len();
    assert!(dz.len() == t.d && z.len() == t.d);
    assert!(p.len() >= count * g.heads && products.len() >= count * t.d);
    // SAFETY: as in `gather_tile`; `products` has a row for each edge.
    unsafe {
        let to = dz.as_mut_ptr().add(first);
        let mut acc = read::<V, N>(to, t.mask);
        let z = read::<V, N>(z.as_ptr().add(first), t.mask);
        for (i, &r) in edges.rows.iter().enumerate() {
            ahead::<V, N>(g, edges, i, first);
            let row = g.x.as_ptr().add(r as usize * t.d + first);
            let p = V::load_first(p.as_ptr().add(i * g.heads), t.heads);
            let mut row = read::<V, N>(row, t.mask);
            for (n, acc) in acc.iter_mut().enumerate() {
                *acc = row[n].mul_add(p.pick(t.head_of[n]), *acc);
                row[n] = row[n].mul(z[n]);
            }
            store(row, products.as_mut_ptr().add(i * t.d + first), t.mask);
        }
        store(acc, to, t.mask);
    }
}

/// `out[k] = Σ_c x[k, c]`: `x: [out, width]`.
#[inline(always)]
pub(crate) fn head_sums(x: &[f32], width: usize, out: &mut [f32]) {
    match width {
        1 => out.copy_from_slice(x),
        2 => sums_of::<2>(x, out, |x| x[0] + x[1]),
        4 => sums_of::<4>(x, out, |x| (x[0] + x[2]) + (x[1] + x[3])),
        8 => sums_of::<8>(x, out, |x| {
            ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
        }),
        _ => {
            for (out, x) in out.iter_mut().zip(x.chunks_exact(width)) {
                *out = x.iter().sum();
            }
        }
    }
}

#[inline(always)]
fn sums_of<const W: usize>(x: &[f32], out: &mut [f32], sum: impl Fn(&[f32; W]) -> f32) {
    for (out, x) in out.iter_mut().zip(x.as_chunks().0) {
        *out = sum(x);
    }
}
