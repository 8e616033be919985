//! Blocks of a dense product: packed right operands, and the loops around the register tile.
//!
//! The right operand is packed once into panels of as many columns as a tile has, one inner index
//! after the other, zeros where columns are missing. The left one is read where it lies.
//!
//! Unsafe: the tiles take pointers; [`multiply`] checks their reach.
#![allow(unsafe_code)]

use crate::gemm_ahead::{Ahead, EVERY};
use crate::gemm_simd::{Operands, Plain, Vector, tile};
use crate::simd::{Level, multiversion};

/// One operand: elements and the shape of `op(x)`, in which neighbours along one side are
/// neighbours in memory.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    data: &'a [f32],
    width: usize,
    transposed: bool,
    /// Rows of `op(x)` in one strip of [`strips`], 0 when it lies as the caller stored it.
    strip: usize,
}

impl<'a> Side<'a> {
    /// The operand whose stored rows are `width` long, transposed or not.
    pub(crate) fn new(data: &'a [f32], width: usize, transposed: bool) -> Side<'a> {
        Side {
            data,
            width,
            transposed,
            strip: 0,
        }
    }

    /// A transposed operand that [`strips`] packed.
    pub(crate) fn strips(shape: TileShape, data: &'a [f32]) -> Side<'a> {
        Side {
            data,
            width: shape.rows,
            transposed: true,
            strip: shape.rows,
        }
    }

    /// The operand from row `i` and column `j` of `op(x)` on.
    pub(crate) fn from(self, i: usize, j: usize) -> Side<'a> {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        Side {
            data: self.data.get(i * self.width + j..).unwrap_or(&[]),
            ..self
        }
    }

    /// Whole stored rows of an operand that is not transposed, for [`Ahead`].
    pub(crate) fn stored_rows(self, rows: std::ops::Range<usize>) -> &'a [f32] {
        let to = (rows.end * self.width).min(self.data.len());
        self.data.get(rows.start * self.width..to).unwrap_or(&[])
    }

    /// The element in row `i` and column `j` of `op(x)`.
    pub(crate) fn at(&self, i: usize, j: usize) -> f32 {
        let (i, j) = if self.transposed { (j, i) } else { (i, j) };
        self.data[i * self.width + j]
    }

    /// The stored elements from here on, and how many a stored row has: what tiles are made of.
    pub(crate) fn stored(&self) -> (&'a [f32], usize) {
        (self.data, self.width)
    }

    /// Whether the operand is transposed.
    pub(crate) fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// Whether `[rows, cols]` elements of `op(x)` from here on lie within the data.
    fn holds(&self, rows: usize, cols: usize) -> bool {
        if self.strip > 0 {
            return rows.next_multiple_of(self.strip) * cols <= self.data.len();
        }
        let (rows, cols) = if self.transposed {
            (cols, rows)
        } else {
            (rows, cols)
        };
        rows == 0 || cols == 0 || (rows - 1) * self.width + cols <= self.data.len()
    }
}

/// Rows and columns of a level's register tile, and the columns of a narrow one.
#[derive(Clone, Copy)]
pub(crate) struct TileShape {
    pub rows: usize,
    pub cols: usize,
    pub narrow: usize,
}

/// Vectors of a tile without wide SIMD: NEON has twice as many registers as SSE.
const PLAIN: usize = if cfg!(target_arch = "aarch64") { 4 } else { 2 };

impl TileShape {
    pub(crate) fn of(level: Level) -> TileShape {
        let (rows, cols, narrow) = match level {
            Level::Avx512 => (12, 32, 16),
            Level::Avx2 => (6, 16, 8),
            Level::Neon | Level::Scalar => (6, 4 * PLAIN, 4),
        };
        TileShape { rows, cols, narrow }
    }

    /// Columns of the panel from column `first` of `n` on, and how many of them exist.
    fn panel(&self, first: usize, n: usize) -> (usize, usize) {
        let left = (n - first).min(self.cols);
        let width = if left <= self.narrow {
            self.narrow
        } else {
            self.cols
        };
        (width, left)
    }

    /// Floats that hold a packed operand of `inner` times `n` elements.
    pub(crate) fn packed_len(&self, inner: usize, n: usize) -> usize {
        inner * n.next_multiple_of(self.cols)
    }
}

/// Packs `b: [inner, n]` into `to`, of [`TileShape::packed_len`].
pub(crate) fn pack(shape: TileShape, b: Side<'_>, inner: usize, n: usize, to: &mut [f32]) {
    let panels = to.chunks_mut((inner * shape.cols).max(1));
    for (first, to) in (0..n).step_by(shape.cols).zip(panels) {
        pack_panel(shape, b, [inner, n], first, to);
    }
}

/// Packs the panel from column `first` on of `b: [inner, n] = size`.
pub(crate) fn pack_panel(
    shape: TileShape,
    b: Side<'_>,
    [inner, n]: [usize; 2],
    first: usize,
    to: &mut [f32],
) {
    let (width, cols) = shape.panel(first, n);
    let to = &mut to[..inner * width];
    if cols < width {
        to.fill(0.0);
    }
    if b.transposed {
        for c in 0..cols {
            let column = &b.data[(first + c) * b.width..][..inner];
            let to = to[c..].iter_mut().step_by(width);
            to.zip(column).for_each(|(to, from)| *to = *from);
        }
    } else if cols == width {
        match width {
            32 => copy_panel::<32>(&b.data[first..], b.width, to),
            16 => copy_panel::<16>(&b.data[first..], b.width, to),
            8 => copy_panel::<8>(&b.data[first..], b.width, to),
            _ => copy_panel::<4>(&b.data[first..], b.width, to),
        }
    } else {
        for (k, to) in to.chunks_exact_mut(width).enumerate() {
            to[..cols].copy_from_slice(&b.data[k * b.width + first..][..cols]);
        }
    }
}

/// Copies the first `W` of every `width` floats; the length known to the compiler makes it moves
/// of registers instead of a call for each row.
fn copy_panel<const W: usize>(from: &[f32], width: usize, to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<W>();
    for (to, from) in to.iter_mut().zip(from.chunks(width)) {
        *to = *from.first_chunk().expect("a panel lies within the rows");
    }
}

/// Packs the columns `from .. from + m` of `x`, whose rows are `width` long, into
/// `to: [m / rows of a tile, inner, rows of a tile]`: a transposed left operand in the order in
/// which tiles read it. Missing rows of the last strip keep what was there.
pub(crate) fn strips(
    level: Level,
    x: &[f32],
    width: usize,
    columns: std::ops::Range<usize>,
    to: &mut [f32],
) {
    pack_strips(level, TileShape::of(level).rows, x, width, columns, to);
}

multiversion! {
    fn pack_strips(
        level: Level,
        rows: usize,
        x: &[f32],
        width: usize,
        columns: std::ops::Range<usize>,
        to: &mut [f32],
    ) {
        match rows {
            12 => strips_of::<12>(x, width, columns, to),
            _ => strips_of::<6>(x, width, columns, to),
        }
    }
}

#[inline(always)]
fn strips_of<const M: usize>(
    x: &[f32],
    width: usize,
    columns: std::ops::Range<usize>,
    to: &mut [f32],
) {
    let inner = x.len() / width;
    let (to, _) = to.as_chunks_mut::<M>();
    for (k, row) in x.chunks_exact(width).enumerate() {
        let (full, rest) = row[columns.clone()].as_chunks::<M>();
        for (s, from) in full.iter().enumerate() {
            to[s * inner + k] = *from;
        }
        if !rest.is_empty() {
            // What lies behind the row may come along: those rows of the tile are never used.
            let to = &mut to[full.len() * inner + k];
            match x[k * width + columns.end - rest.len()..].first_chunk() {
                Some(from) => *to = *from,
                None => to[..rest.len()].copy_from_slice(rest),
            }
        }
    }
}

/// A product whose right operand is packed.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    /// `[m, inner]`.
    pub a: Side<'a>,
    /// `[inner, n]`, packed.
    pub b: &'a [f32],
    /// Inner dimension.
    pub inner: usize,
}

impl Product<'_> {
    /// Nothing: an inner dimension of zero.
    pub(crate) const NONE: Product<'static> = Product {
        a: Side {
            data: &[],
            width: 0,
            transposed: false,
            strip: 0,
        },
        b: &[],
        inner: 0,
    };
}

/// Lines that a tile asks for at a time at most.
const LINES: usize = 8;

/// Products that one tile sums in registers.
const TERMS: usize = 8;

/// `out (+)= Σ a · b`; `out: [m, n]`, row-major and exact.
pub(crate) fn multiply(
    level: Level,
    products: &[Product<'_>],
    [m, n]: [usize; 2],
    add: bool,
    out: &mut [f32],
    mut ahead: Ahead,
) {
    let shape = TileShape::of(level);
    assert!(
        level <= Level::detect(),
        "gemm: level within the processor's"
    );
    assert_eq!(out.len(), m * n, "gemm: output of the block");
    let reach = |p: &Product<'_>| {
        let last = (n.max(1) - 1) / shape.cols * shape.cols;
        let packed = p.inner * (last + shape.panel(last, n).0);
        p.a.holds(m, p.inner) && packed <= p.b.len()
    };
    assert!(products.iter().all(reach), "gemm: block within operands");
    let tiles = m.div_ceil(shape.rows) * n.div_ceil(shape.cols);
    let inner: usize = products.iter().map(|p| p.inner).sum();
    ahead.spread(tiles * inner / EVERY, LINES);
    // SAFETY: the processor has the level's features, and the assertions above establish that the
    // operands hold what the shapes reach; `out` is borrowed mutably and is exactly `[m, n]`.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(products, m, n, add, out, &mut ahead),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(products, m, n, add, out, &mut ahead),
            _ => panels::<Plain, 6, PLAIN>(products, m, n, add, out, &mut ahead),
        }
    }
}

/// # Safety
/// As [`panels`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
unsafe fn avx512(
    products: &[Product<'_>],
    m: usize,
    n: usize,
    add: bool,
    out: &mut [f32],
    ahead: &mut Ahead,
) {
    // SAFETY: the caller's promise.
    unsafe { panels::<std::arch::x86_64::__m512, 12, 2>(products, m, n, add, out, ahead) }
}

/// # Safety
/// As [`panels`]; the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(
    products: &[Product<'_>],
    m: usize,
    n: usize,
    add: bool,
    out: &mut [f32],
    ahead: &mut Ahead,
) {
    // SAFETY: the caller's promise.
    unsafe { panels::<std::arch::x86_64::__m256, 6, 2>(products, m, n, add, out, ahead) }
}

/// All tiles of `out: [m, n]`, panel by panel.
///
/// # Safety
/// The operands hold `[m, inner]` and the packed `[inner, n]`, `out` is `[m, n]`, and the
/// processor has the features of `S`.
#[inline(always)]
unsafe fn panels<S: Vector, const M: usize, const V: usize>(
    products: &[Product<'_>],
    m: usize,
    n: usize,
    add: bool,
    out: &mut [f32],
    ahead: &mut Ahead,
) {
    let shape = TileShape {
        rows: M,
        cols: V * S::LANES,
        narrow: S::LANES,
    };
    for (group, products) in products.chunks(TERMS).enumerate() {
        let add = add || group > 0;
        for first in (0..n).step_by(shape.cols) {
            let (width, cols) = shape.panel(first, n);
            let mut operands = [Operands::NONE; TERMS];
            for (o, p) in operands.iter_mut().zip(products) {
                *o = Operands {
                    a: p.a.data.as_ptr(),
                    stride: p.a.width,
                    transposed: p.a.transposed,
                    strips: p.a.strip > 0,
                    b: p.b.as_ptr().wrapping_add(first * p.inner),
                    inner: p.inner,
                };
            }
            let operands = &mut operands[..products.len()];
            // SAFETY: rows below `m` and this panel's columns lie within what the caller vouches for.
            unsafe {
                let out = out.as_mut_ptr().add(first);
                match (width == shape.cols, cols == width) {
                    (true, true) => column::<S, M, V, true>(operands, m, out, n, cols, add, ahead),
                    (true, false) => {
                        column::<S, M, V, false>(operands, m, out, n, cols, add, ahead)
                    }
                    (false, true) => column::<S, M, 1, true>(operands, m, out, n, cols, add, ahead),
                    (false, false) => {
                        column::<S, M, 1, false>(operands, m, out, n, cols, add, ahead)
                    }
                }
            }
        }
    }
}

/// The tiles of one panel, from the top: as many full ones as there are, then smaller ones; `W`: all columns
/// of the panel exist.
///
/// # Safety
/// As [`tile`], for `m` rows.
#[inline(always)]
unsafe fn column<S: Vector, const M: usize, const V: usize, const W: bool>(
    operands: &mut [Operands],
    m: usize,
    out: *mut f32,
    stride: usize,
    cols: usize,
    add: bool,
    ahead: &mut Ahead,
) {
    let mut i = 0;
    while i < m {
        let to = out.wrapping_add(i * stride);
        // SAFETY: each branch has checked that its rows are left.
        let rows = unsafe {
            match m - i {
                left if left >= M => {
                    tile::<S, M, V, W>(operands, to, stride, cols, add, ahead);
                    M
                }
                left if left >= 8 && M > 8 => {
                    tile::<S, 8, V, W>(operands, to, stride, cols, add, ahead);
                    8
                }
                left if left >= 4 => {
                    tile::<S, 4, V, W>(operands, to, stride, cols, add, ahead);
                    4
                }
                left if left >= 2 => {
                    tile::<S, 2, V, W>(operands, to, stride, cols, add, ahead);
                    2
                }
                _ => {
                    tile::<S, 1, V, W>(operands, to, stride, cols, add, ahead);
                    1
                }
            }
        };
        i += rows;
        for o in operands.iter_mut() {
            let step = match (o.strips && rows == M, o.transposed) {
                (true, _) => o.inner,
                (false, true) => 1,
                (false, false) => o.stride,
            };
            o.a = o.a.wrapping_add(rows * step);
        }
    }
}
