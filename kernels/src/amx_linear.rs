//! Blocks of a dense product on AMX tiles: [`crate::linear`]'s loops for processors that have them.
//!
//! The right operands are split once, in the order in which blocks read them, the left ones block by
//! block. Splitting one block while the tiles work on another was slower on a core whose other
//! hardware thread is busy. An element of the output is one sum in the order of the inner indices
//! wherever it lies, so cutting rows differently gives the same bits.
//!
//! Unsafe: pointers into operands; each use states its reach.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::Par;
use crate::amx::{BLOCK, INNER, LINES, STEP, TILE, Tiles};
use crate::amx_split;
use crate::gemm_ahead::Ahead;
use crate::linear::{Operands, SMALL, cuts};
use crate::linear_then::Steps;
use crate::par::cut_mut;

/// Columns from which tiles beat vectors: splitting the left operand costs as much as one or two
/// columns of tiles.
const COLUMNS: usize = 48;

/// Inner indices from which they do: with fewer, storing the output is most of the work.
const DEPTH: usize = 96;

/// Steps that are summed in tiles without storing between: more of them would push the split
/// operands out of the second-level cache.
const PASS: usize = 64;

/// Words of a cache line.
const LINE: usize = 16;

/// Whether a product of these shapes is faster on tiles.
pub(crate) fn pays(products: &[Operands<'_>], n: usize) -> bool {
    let depth: usize = products.iter().map(|p| p.inner).sum();
    n >= COLUMNS && depth >= DEPTH && products.iter().all(|p| !p.a.is_transposed())
}

/// Up to [`INNER`] inner indices of one product, whose left operand is not transposed.
#[derive(Clone, Copy)]
struct Step<'a> {
    product: Operands<'a>,
    from: usize,
    inner: usize,
}

/// `out = steps(out · add + Σ products)`; `out: [m, n]`.
pub(crate) fn blocks(
    par: &Par,
    products: &[Operands<'_>],
    [m, n]: [usize; 2],
    add: bool,
    then: &Steps<'_>,
    out: &mut [f32],
) {
    let steps: Vec<Step<'_>> = products
        .iter()
        .flat_map(|&product| {
            (0..product.inner).step_by(INNER).map(move |from| Step {
                product,
                from,
                inner: INNER.min(product.inner - from),
            })
        })
        .collect();
    let right = Right::new(par, &steps, n);
    let bounds = cuts(par, m, BLOCK, m * n * steps.len() * INNER);
    par.run(cut_mut(out, n, &bounds), |(first, out)| {
        run(par, &steps, &right, [first, n], add, then, out);
    });
    par.recycle(right.words);
}

/// The right operands: `[pass][columns / 32][step]`.
struct Right {
    words: Vec<f32>,
    start: usize,
    /// Blocks of columns.
    columns: usize,
}

impl Right {
    fn new(par: &Par, steps: &[Step<'_>], n: usize) -> Right {
        let columns = n.div_ceil(BLOCK);
        let mut words = par.scratch(steps.len() * columns * STEP + LINE);
        let start = words.as_ptr().align_offset(4 * LINE).min(LINE);
        let mut to = words[start..].chunks_exact_mut(STEP);
        let mut jobs = Vec::with_capacity(steps.len() * columns);
        for pass in steps.chunks(PASS) {
            for first in (0..n).step_by(BLOCK) {
                jobs.extend(pass.iter().map(|s| (s, first, to.next().expect("counted"))));
            }
        }
        let split = |(step, first, to): (&Step<'_>, usize, &mut [f32])| {
            for (tile, to) in to.chunks_exact_mut(TILE).take(2).enumerate() {
                let first = first + 16 * tile;
                split_right(
                    step,
                    first,
                    16.min(n.saturating_sub(first)),
                    to.as_mut_ptr(),
                );
            }
        };
        if steps.len() * INNER * n <= SMALL {
            jobs.into_iter().for_each(split);
        } else {
            par.run(jobs, split);
        }
        Right {
            words,
            start,
            columns,
        }
    }

    /// The operands of block `j` of columns in a pass of `steps` steps.
    fn at(&self, pass: usize, steps: usize, j: usize) -> *const u32 {
        let operands = pass * PASS * self.columns + j * steps;
        self.words[self.start + operands * STEP..][..steps * STEP]
            .as_ptr()
            .cast()
    }
}

/// Splits up to 16 columns of a step's right operand into the tile at `to`.
fn split_right(step: &Step<'_>, first: usize, cols: usize, to: *mut f32) {
    let b = step.product.b.from(step.from, first);
    let (data, width) = b.stored();
    let mut turned = [0.0; INNER * 16];
    let (from, stride) = if b.is_transposed() {
        for c in 0..cols {
            let column = &data[c * width..][..step.inner];
            let to = turned[c..].iter_mut().step_by(16);
            to.zip(column).for_each(|(to, x)| *to = *x);
        }
        (turned.as_ptr(), 16)
    } else {
        assert!(cols == 0 || (step.inner - 1) * width + cols <= data.len());
        (data.as_ptr(), width)
    };
    // SAFETY: the processor has AMX and with it AVX-512; the lines above establish that the rows
    // lie within the operand or its copy; `to` is a tile of an aligned operand of `STEP` words.
    unsafe { amx_split::block(from, stride, [step.inner, cols], to.cast()) };
}

/// Splits the left operands of `rows`, at most [`BLOCK`] of them and zeros behind them, for all
/// `steps`, into the operands at `to`.
///
/// # Safety
/// The processor has AVX-512; `to` is aligned to 64 bytes and reaches [`STEP`] words for each step.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn split_left(steps: &[Step<'_>], rows: Range<usize>, to: *mut u32) {
    for (s, step) in steps.iter().enumerate() {
        let (data, width) = step.product.a.stored();
        for r in 0..BLOCK {
            let row: &[f32] = if r < rows.len() {
                &data[(rows.start + r) * width + step.from..][..step.inner]
            } else {
                &[]
            };
            let at = s * STEP + r / 16 * TILE + r % 16 * 16;
            // SAFETY: the caller's features; row `r` of the caller's operand `s`.
            unsafe { amx_split::row(row, to.add(at)) };
        }
    }
}

/// A run of rows from `first` on, block by block.
fn run(
    par: &Par,
    steps: &[Step<'_>],
    right: &Right,
    [first, n]: [usize; 2],
    add: bool,
    then: &Steps<'_>,
    out: &mut [f32],
) {
    let mut words = par.scratch(steps.len().min(PASS) * STEP + LINE);
    let start = words.as_ptr().align_offset(4 * LINE).min(LINE);
    let left: *mut u32 = words[start..].as_mut_ptr().cast();
    let mut tiles = Tiles::begin();
    let columns = n.div_ceil(BLOCK);
    let end = first + out.len() / n;
    for (i, block) in out.chunks_mut(BLOCK * n).enumerate() {
        let first = first + i * BLOCK;
        for (pass, steps) in steps.chunks(PASS).enumerate() {
            // SAFETY: the processor has AMX and with it AVX-512; the buffer holds a pass.
            unsafe { split_left(steps, first..first + block.len() / n, left) };
            let mut ahead = Ahead::NONE;
            if pass == 0 {
                let next = (first + BLOCK).min(end)..(first + 2 * BLOCK).min(end);
                ahead = ahead.write(block.as_ptr_range().end, next.len() * n);
                if let Some(y) = then.gate_rows(next) {
                    ahead = ahead.read(y);
                }
            }
            ahead.spread(columns * steps.len(), LINES);
            for j in 0..columns {
                let b = right.at(pass, steps.len(), j);
                let cols = BLOCK.min(n - j * BLOCK);
                let to = Target {
                    block: &mut *block,
                    n,
                    column: j * BLOCK,
                    cols,
                };
                to.with(&mut tiles, add || pass > 0, |tiles| {
                    for s in 0..steps.len() {
                        // SAFETY: both operands hold the steps of the pass.
                        unsafe {
                            let (a, b) = (left.add(s * STEP), b.add(s * STEP));
                            if cols > 16 {
                                tiles.wide(a, b);
                            } else {
                                tiles.narrow(a, b);
                            }
                        }
                        ahead.step();
                    }
                });
            }
        }
        then.apply(first, block);
    }
    drop(tiles);
    par.recycle(words);
}

/// Up to 32 columns of a block of the output.
struct Target<'a> {
    /// `[rows, n]`, at most 32 rows.
    block: &'a mut [f32],
    n: usize,
    column: usize,
    cols: usize,
}

impl Target<'_> {
    /// Runs `f` on tiles that begin with what is there, or zero, and stores them. Tiles that reach
    /// beyond the output go through a copy.
    #[inline(always)]
    fn with(self, tiles: &mut Tiles, add: bool, f: impl FnOnce(&mut Tiles)) {
        let whole = self.block.len() == BLOCK * self.n && self.cols.is_multiple_of(16);
        let mut copy = [0.0f32; BLOCK * BLOCK];
        let wide = self.cols > 16;
        let (at, stride) = if whole {
            (self.block[self.column..].as_mut_ptr(), self.n)
        } else {
            if add {
                for (to, from) in copy.chunks_exact_mut(BLOCK).zip(self.block.chunks(self.n)) {
                    to[..self.cols].copy_from_slice(&from[self.column..][..self.cols]);
                }
            }
            (copy.as_mut_ptr(), BLOCK)
        };
        // SAFETY: the whole block lies within the output, borrowed mutably, or within the copy.
        unsafe {
            if add {
                tiles.load(at, stride, wide);
            } else {
                tiles.zero();
            }
            f(tiles);
            tiles.store(at, stride, wide);
        }
        if !whole {
            for (from, to) in copy.chunks_exact(BLOCK).zip(self.block.chunks_mut(self.n)) {
                to[self.column..][..self.cols].copy_from_slice(&from[..self.cols]);
            }
        }
    }
}
