//! Weight gradients on AMX tiles: [`crate::linear_gradient`]'s loop over the rows of a lane.
//!
//! Both operands are split chunk by chunk, the left one transposed in passing. A chunk is summed on
//! its own and then added to the sums in the second-level cache: with short chains of additions the
//! error is less than half that of one chain over all rows.
//!
//! Unsafe: pointers into operands; each use states its reach.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::Par;
use crate::amx::{BLOCK, INNER, LINES, STEP, TILE, Tiles};
use crate::amx_split;
use crate::gemm_ahead::Ahead;

/// Steps of a chunk: what one block of the left operand has of it fits into the first-level cache.
const CHUNK: usize = 4;

/// Words of a cache line.
const LINE: usize = 16;

/// Columns of the wider operand from which tiles beat vectors, and of the narrower one: splitting
/// an operand is shared by the columns of the other.
const WIDE: usize = 96;
const NARROW: usize = 48;

/// Whether a gradient of `[k, n]` weights is faster on tiles.
pub(crate) fn pays(k: usize, n: usize) -> bool {
    k.max(n) >= WIDE && k.min(n) >= NARROW
}

/// Whole rows of a matrix, of which some columns take part.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    /// `[rows, width]`.
    pub data: &'a [f32],
    /// Floats of a row.
    pub width: usize,
    /// First column.
    pub from: usize,
    /// How many.
    pub len: usize,
}

/// Splits `rows` of `x`, at most a chunk, and zeros behind them, into the operands at `to`:
/// `[columns / 32][step]`; transposed as left operands when asked.
///
/// # Safety
/// The processor has AVX-512; `to` is aligned to 64 bytes and holds [`CHUNK`] operands for each
/// block of columns.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn split(x: Columns<'_>, rows: Range<usize>, turn: bool, to: *mut u32) {
    for column in (0..x.len.next_multiple_of(BLOCK)).step_by(16) {
        let cols = 16.min(x.len.saturating_sub(column));
        for s in 0..rows.len().div_ceil(INNER) {
            let row = rows.start + s * INNER;
            let rows = INNER.min(rows.end - row);
            let at = row * x.width + x.from + column;
            assert!(cols == 0 || at + (rows - 1) * x.width + cols <= x.data.len());
            // SAFETY: the caller's features; the rows and columns that exist lie within the data,
            // as asserted; the caller's operands.
            unsafe {
                let operand = column / BLOCK * CHUNK + s;
                let to = to.add(operand * STEP + column % BLOCK / 16 * TILE);
                let from = x.data.as_ptr().wrapping_add(at);
                amx_split::block(from, x.width, [rows, cols], to);
                if turn {
                    amx_split::transpose(to);
                }
            }
        }
    }
}

/// `to += x`, of one length.
///
/// # Safety
/// The processor has AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn add(x: &[f32], to: &mut [f32]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += x);
}

/// Adds `xᵀ · g`, over some rows, to `sums: [x.len, g.len]`.
pub(crate) fn add_product(
    par: &Par,
    rows: Range<usize>,
    x: Columns<'_>,
    g: Columns<'_>,
    sums: &mut [f32],
) {
    let blocks = [x.len.div_ceil(BLOCK), g.len.div_ceil(BLOCK)];
    let count = blocks[0] * blocks[1];
    let chunk = (blocks[0] + blocks[1]) * CHUNK * STEP;
    let mut words = par.scratch(chunk + count * BLOCK * BLOCK + LINE);
    let start = words.as_ptr().align_offset(4 * LINE).min(LINE);
    let (operands, blocked) = words[start..].split_at_mut(chunk);
    let left: *mut u32 = operands.as_mut_ptr().cast();
    let right = left.wrapping_add(blocks[0] * CHUNK * STEP);
    let mut tiles = Tiles::begin();
    let mut sum = [0.0f32; BLOCK * BLOCK];
    for first in rows.clone().step_by(CHUNK * INNER) {
        let here = first..(first + CHUNK * INNER).min(rows.end);
        // SAFETY: the processor has AMX and with it AVX-512; the buffer holds both operands.
        unsafe {
            split(x, here.clone(), true, left);
            split(g, here.clone(), false, right);
        }
        let steps = here.len().div_ceil(INNER);
        let next = here.end..(here.end + CHUNK * INNER).min(rows.end);
        let mut ahead = Ahead::NONE
            .read(&x.data[next.start * x.width..next.end * x.width])
            .read(&g.data[next.start * g.width..next.end * g.width]);
        ahead.spread(count * steps, LINES);
        let sums = blocked.chunks_exact_mut(BLOCK * BLOCK).take(count);
        for (k, block) in sums.enumerate() {
            let (i, j) = (k / blocks[1], k % blocks[1]);
            tiles.zero();
            // SAFETY: the sum is 32 rows of 32 floats; both operands hold the chunk's steps; the
            // processor has AVX-512.
            unsafe {
                for s in 0..steps {
                    let a = left.add((i * CHUNK + s) * STEP);
                    tiles.wide(a, right.add((j * CHUNK + s) * STEP));
                    ahead.step();
                }
                tiles.store(sum.as_mut_ptr(), BLOCK, true);
                add(&sum, block);
            }
        }
    }
    drop(tiles);
    for (r, sums) in sums.chunks_exact_mut(g.len).enumerate() {
        for (j, sums) in sums.chunks_mut(BLOCK).enumerate() {
            let block = (r / BLOCK * blocks[1] + j) * BLOCK * BLOCK + r % BLOCK * BLOCK;
            let from = &blocked[block..][..sums.len()];
            sums.iter_mut().zip(from).for_each(|(s, x)| *s += x);
        }
    }
    par.recycle(words);
}
