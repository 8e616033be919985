//! The inner loops of the attention kernels: columns of some heads in registers while a run of
//! edges goes by.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)]

use crate::gat_flat;
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::Vector;

/// Rows of `heads` heads of `width` columns that edges gather.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// `[n, heads·width]`.
    pub(crate) x: &'a [f32],
    pub(crate) n: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
}

/// A run of edges: the rows that they gather, and those that will follow.
#[derive(Clone, Copy)]
pub(crate) struct Edges<'a> {
    pub(crate) rows: &'a [u32],
    /// `rows` and everything behind it, for prefetches.
    pub(crate) ahead: &'a [u32],
}

impl<'a> Edges<'a> {
    /// Edges `span` of `indices`.
    #[inline(always)]
    pub(crate) fn new(indices: &'a [u32], span: std::ops::Range<usize>) -> Edges<'a> {
        let ahead = &indices[span.start..];
        Edges {
            rows: &ahead[..span.len()],
            ahead,
        }
    }

    /// Panics unless every edge gathers one of `n` rows.
    #[inline(always)]
    pub(crate) fn expect_below(&self, n: usize) {
        let most = self.rows.iter().fold(0, |m, &r| r.max(m)) as usize;
        assert!(
            self.rows.is_empty() || most < n,
            "attention: expected indices below {n}, got {most}"
        );
    }
}

/// `vectors` vectors of each of `heads` heads, from column `column` of head `head`; the last of
/// each head's vectors has `tail` lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    head: usize,
    column: usize,
    heads: usize,
    vectors: usize,
    tail: usize,
}

/// Cuts heads of `width` columns into blocks that fit into the registers.
pub(crate) fn blocks<V: Vector>(heads: usize, width: usize) -> Vec<Block> {
    let per = width.div_ceil(V::LANES);
    let tail = width - (per - 1) * V::LANES;
    let mut blocks = Vec::new();
    let most = |n: usize, limit: usize| [16, 8, 4, 2, 1].into_iter().find(|&k| k <= n.min(limit));
    let mut head = 0;
    while head < heads {
        if per.is_power_of_two() && per <= V::TILE {
            let n = most(heads - head, (V::TILE / per).min(8)).unwrap_or(1);
            blocks.push(Block {
                head,
                column: 0,
                heads: n,
                vectors: per,
                tail,
            });
            head += n;
            continue;
        }
        let mut at = 0;
        while at < per {
            let n = most(per - at, V::TILE).unwrap_or(1);
            let last = at + n == per;
            blocks.push(Block {
                head,
                column: at * V::LANES,
                heads: 1,
                vectors: n,
                tail: if last { tail } else { V::LANES },
            });
            at += n;
        }
        head += 1;
    }
    blocks
}

/// Calls `$f::<V, N, G>` with the shape of a block.
macro_rules! by_shape {
    ($b:expr, $f:ident::<$v:ident>($($arg:expr),*)) => {
        match ($b.vectors, $b.heads) {
            (1, 1) => $f::<$v, 1, 1>($($arg),*),
            (1, 2) => $f::<$v, 1, 2>($($arg),*),
            (1, 4) => $f::<$v, 1, 4>($($arg),*),
            (1, 8) => $f::<$v, 1, 8>($($arg),*),
            (2, 1) => $f::<$v, 2, 1>($($arg),*),
            (2, 2) => $f::<$v, 2, 2>($($arg),*),
            (2, 4) => $f::<$v, 2, 4>($($arg),*),
            (2, 8) => $f::<$v, 2, 8>($($arg),*),
            (4, 1) => $f::<$v, 4, 1>($($arg),*),
            (4, 2) => $f::<$v, 4, 2>($($arg),*),
            (4, 4) => $f::<$v, 4, 4>($($arg),*),
            (8, 1) => $f::<$v, 8, 1>($($arg),*),
            (8, 2) => $f::<$v, 8, 2>($($arg),*),
            (16, 1) => $f::<$v, 16, 1>($($arg),*),
            shape => unreachable!("no block of {shape:?} vectors and heads"),
        }
    };
}

/// Adds `p[e, h] · x[row_e, h, :]` over the edges to `sum: [heads·width]`; `p: [edges, heads]`.
#[inline(always)]
pub(crate) fn gather<V: Vector>(
    x: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    blocks: &[Block],
    sum: &mut [f32],
) {
    if gat_flat::fits::<V>(x.heads, x.width) {
        return gat_flat::gather::<V>(x, edges, p, sum);
    }
    for &b in blocks {
        by_shape!(b, gather_block::<V>(x, edges, p, b, sum));
    }
}

/// Every row of a run of edges lies within `x`, and a block within its columns.
#[inline(always)]
fn check<V: Vector, const N: usize, const G: usize>(x: Rows<'_>, edges: Edges<'_>, b: Block) {
    if N * G > V::TILE {
        unreachable!("a block has at most {} vectors", V::TILE);
    }
    assert!(b.vectors == N && b.heads == G && b.tail >= 1 && b.tail <= V::LANES);
    assert!(b.head + G <= x.heads && b.column + (N - 1) * V::LANES + b.tail <= x.width);
    assert!(x.n * x.heads * x.width <= x.x.len() && edges.rows.len() <= edges.ahead.len());
    edges.expect_below(x.n);
}

#[inline(always)]
fn prefetch_block<V: Vector, const N: usize, const G: usize>(
    x: Rows<'_>,
    edges: Edges<'_>,
    i: usize,
    first: usize,
) {
    if let Some(&next) = edges.ahead.get(i + AHEAD) {
        let row =
            x.x.as_ptr()
                .wrapping_add(next as usize * x.heads * x.width + first);
        // Known when compiled: at most a vector a head too many.
        prefetch_row(row, G * N * V::LANES);
    }
}

#[inline(always)]
fn gather_block<V: Vector, const N: usize, const G: usize>(
    x: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    b: Block,
    sum: &mut [f32],
) {
    check::<V, N, G>(x, edges, b);
    let (stride, width) = (x.heads * x.width, x.width);
    assert!(sum.len() == stride && p.len() >= edges.rows.len() * x.heads);
    let first = b.head * width + b.column;
    // SAFETY: `tail` is within the lanes; the block lies within `stride` columns, the length of
    // `sum`, and each head's last vector is masked.
    let mask = unsafe { V::mask(b.tail) };
    let to = sum.as_mut_ptr();
    // SAFETY: a constant vector.
    let mut acc = [[unsafe { V::splat(0.0) }; N]; G];
    for (g, acc) in acc.iter_mut().enumerate() {
        for (n, acc) in acc.iter_mut().enumerate() {
            // SAFETY: the block lies within `sum`, as above.
            *acc = unsafe { part(to.add(first + g * width), n, N, mask) };
        }
    }
    for (i, &r) in edges.rows.iter().enumerate() {
        prefetch_block::<V, N, G>(x, edges, i, first);
        // SAFETY: `r < n` and `n * stride <= x.len()` and the block lies within `stride` columns
        // (`check`); `p` has `heads` numbers for each edge.
        unsafe {
            let row = x.x.as_ptr().add(r as usize * stride + first);
            let p = p.as_ptr().add(i * x.heads + b.head);
            for (g, acc) in acc.iter_mut().enumerate() {
                let w = V::splat(*p.add(g));
                for (n, acc) in acc.iter_mut().enumerate() {
                    let v: V = part(row.add(g * width), n, N, mask);
                    *acc = v.mul_add(w, *acc);
                }
            }
        }
    }
    for (g, acc) in acc.into_iter().enumerate() {
        for (n, acc) in acc.into_iter().enumerate() {
            // SAFETY: as for the loads from `sum`.
            unsafe { put(acc, to.add(first + g * width), n, N, mask) }
        }
    }
}

/// Vector `n` of `all` at `p`, the last of which is masked.
#[inline(always)]
unsafe fn part<V: Vector>(p: *const f32, n: usize, all: usize, mask: V::Mask) -> V {
    // SAFETY: the caller's pointer is valid for these vectors.
    unsafe {
        let p = p.add(n * V::LANES);
        if n + 1 < all {
            V::load(p)
        } else {
            V::load_first(p, mask)
        }
    }
}

/// The store of [`part`].
#[inline(always)]
unsafe fn put<V: Vector>(v: V, p: *mut f32, n: usize, all: usize, mask: V::Mask) {
    // SAFETY: the caller's pointer is valid for these vectors.
    unsafe {
        let p = p.add(n * V::LANES);
        if n + 1 < all {
            v.store(p)
        } else {
            v.store_first(p, mask)
        }
    }
}

/// Over the edges: adds `p[e, h] · g[row_e, h, :]` to `dz: [heads·width]`, and writes
/// `dots[e, h] = ⟨g[row_e, h, :], z[h, :]⟩` with the same loads; `z: [heads·width]`. `products` is room for
/// as many rows as there are edges where heads are narrow ([`products`]).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn gather_and_dot<V: Vector>(
    g: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    z: &[f32],
    blocks: &[Block],
    dz: &mut [f32],
    dots: &mut [f32],
    products: &mut [f32],
) {
    if gat_flat::fits::<V>(g.heads, g.width) {
        return gat_flat::gather_and_dot::<V>(g, edges, p, z, dz, dots, products);
    }
    for &b in blocks {
        by_shape!(b, dot_block::<V>(g, edges, p, z, b, dz, dots));
    }
}

/// Numbers of room that [`gather_and_dot`] needs for so many edges.
pub(crate) fn products<V: Vector>(heads: usize, width: usize, edges: usize) -> usize {
    if gat_flat::fits::<V>(heads, width) {
        edges * heads * width
    } else {
        0
    }
}

#[inline(always)]
fn dot_block<V: Vector, const N: usize, const G: usize>(
    g: Rows<'_>,
    edges: Edges<'_>,
    p: &[f32],
    z: &[f32],
    b: Block,
    dz: &mut [f32],
    dots: &mut [f32],
) {
    check::<V, N, G>(g, edges, b);
    let (stride, width, count) = (g.heads * g.width, g.width, edges.rows.len());
    assert!(dz.len() == stride && z.len() == stride);
    assert!(p.len() >= count * g.heads && dots.len() >= count * g.heads);
    let first = b.head * width + b.column;
    // SAFETY: as in `gather_block`.
    let mask = unsafe { V::mask(b.tail) };
    let to = dz.as_mut_ptr();
    // SAFETY: a constant vector.
    let mut acc = [[unsafe { V::splat(0.0) }; N]; G];
    for (g, acc) in acc.iter_mut().enumerate() {
        for (n, acc) in acc.iter_mut().enumerate() {
            // SAFETY: as in `gather_block`, for `dz`.
            *acc = unsafe { part(to.add(first + g * width), n, N, mask) };
        }
    }
    for (i, &r) in edges.rows.iter().enumerate() {
        prefetch_block::<V, N, G>(g, edges, i, first);
        // SAFETY: `r < n` and `n * stride <= g.len()` and the block lies within `stride` columns
        // (`check`), the length of `z`; `p` and `dots` have `heads` numbers for each edge.
        unsafe {
            let row = g.x.as_ptr().add(r as usize * stride + first);
            let z = z.as_ptr().add(first);
            let p = p.as_ptr().add(i * g.heads + b.head);
            let mut dot = [V::splat(0.0); G];
            for (k, (acc, dot)) in acc.iter_mut().zip(&mut dot).enumerate() {
                let w = V::splat(*p.add(k));
                for (n, acc) in acc.iter_mut().enumerate() {
                    let v: V = part(row.add(k * width), n, N, mask);
                    *acc = v.mul_add(w, *acc);
                    let z: V = part(z.add(k * width), n, N, mask);
                    *dot = v.mul_add(z, *dot);
                }
            }
            let dots = &mut dots[i * g.heads + b.head..][..G];
            let sums = V::sums(dot);
            // A head that is wider than a block adds up over its blocks.
            if b.column == 0 {
                dots.copy_from_slice(&sums);
            } else {
                dots[0] += sums[0];
            }
        }
    }
    for (k, acc) in acc.into_iter().enumerate() {
        for (n, acc) in acc.into_iter().enumerate() {
            // SAFETY: as in `gather_block`, for `dz`.
            unsafe { put(acc, to.add(first + k * width), n, N, mask) }
        }
    }
}

/// `out[h] = ⟨x[h, :], y[h, :]⟩` for one row: `x, y: [heads·width]`, `out: [heads]`.
#[inline(always)]
pub(crate) fn head_dots<V: Vector>(x: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
    let heads = out.len();
    assert!(x.len() == heads * width && y.len() == heads * width && width > 0);
    match width {
        1 => return narrow_dots::<1>(x, y, out),
        2 => return narrow_dots::<2>(x, y, out),
        4 => return narrow_dots::<4>(x, y, out),
        _ => {}
    }
    let mut head = 0;
    while head < heads {
        if heads - head >= 8 {
            dots_of::<V, 8>(x, y, width, head, out);
            head += 8;
        } else {
            dots_of::<V, 1>(x, y, width, head, out);
            head += 1;
        }
    }
}

#[inline(always)]
fn narrow_dots<const W: usize>(x: &[f32], y: &[f32], out: &mut [f32]) {
    let rows = x.as_chunks::<W>().0.iter().zip(y.as_chunks::<W>().0);
    for (out, (x, y)) in out.iter_mut().zip(rows) {
        let mut sum = x[0] * y[0];
        for c in 1..W {
            sum += x[c] * y[c];
        }
        *out = sum;
    }
}

#[inline(always)]
fn dots_of<V: Vector, const G: usize>(
    x: &[f32],
    y: &[f32],
    width: usize,
    head: usize,
    out: &mut [f32],
) {
    let per = width.div_ceil(V::LANES);
    let end = (head + G) * width;
    assert!(end <= x.len() && end <= y.len());
    // SAFETY: heads `head..head + G` end within both slices; the last vector of a head is masked
    // to what is left of `width`.
    unsafe {
        let mask = V::mask(width - (per - 1) * V::LANES);
        let mut acc = [V::splat(0.0); G];
        for (g, acc) in acc.iter_mut().enumerate() {
            let at = (head + g) * width;
            for n in 0..per {
                let a: V = part(x.as_ptr().add(at), n, per, mask);
                *acc = a.mul_add(part(y.as_ptr().add(at), n, per, mask), *acc);
            }
        }
        out[head..head + G].copy_from_slice(&V::sums(acc));
    }
}

/// Adds `s[h] · x[h, :]` to `out[h, :]`: `x, out: [heads·width]`, `s: [heads]`.
#[inline(always)]
pub(crate) fn add_scaled<V: Vector>(s: &[f32], x: &[f32], width: usize, out: &mut [f32]) {
    assert!(x.len() == s.len() * width && out.len() == x.len() && width > 0);
    match width {
        1 => return narrow_scaled::<1>(s, x, out),
        2 => return narrow_scaled::<2>(s, x, out),
        4 => return narrow_scaled::<4>(s, x, out),
        _ => {}
    }
    let per = width.div_ceil(V::LANES);
    for (h, &s) in s.iter().enumerate() {
        // SAFETY: head `h` lies within both slices; its last vector is masked.
        unsafe {
            let (s, mask) = (V::splat(s), V::mask(width - (per - 1) * V::LANES));
            let (x, out) = (x.as_ptr().add(h * width), out.as_mut_ptr().add(h * width));
            for n in 0..per {
                let sum = part::<V>(x, n, per, mask).mul_add(s, part(out, n, per, mask));
                put(sum, out, n, per, mask);
            }
        }
    }
}

#[inline(always)]
fn narrow_scaled<const W: usize>(s: &[f32], x: &[f32], out: &mut [f32]) {
    let rows = x.as_chunks::<W>().0.iter().zip(out.as_chunks_mut::<W>().0);
    for (s, (x, out)) in s.iter().zip(rows) {
        for c in 0..W {
            out[c] += s * x[c];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Plain;

    #[test]
    fn blocks_cover_every_column_once() {
        for heads in [1, 2, 3, 5, 8, 9, 17] {
            for width in [1, 7, 8, 9, 16, 31, 32, 40, 64, 100, 300] {
                let mut seen = vec![0; heads * width];
                for b in blocks::<Plain>(heads, width) {
                    assert!(b.vectors * b.heads <= Plain::TILE);
                    for h in b.head..b.head + b.heads {
                        let wide = (b.vectors - 1) * Plain::LANES + b.tail;
                        seen[h * width + b.column..][..wide]
                            .iter_mut()
                            .for_each(|s| *s += 1);
                    }
                }
                assert!(seen.iter().all(|&s| s == 1), "{heads} heads of {width}");
            }
        }
    }
}
