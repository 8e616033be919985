//! The inner loops of SpMM: a tile of columns in registers, for each SIMD level and for 32-bit and
//! 16-bit stored numbers.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use std::ops::Range;

use half::bf16;

use crate::Csr;
use crate::csr::out_of_range;
use crate::simd::{AMD, Level};
use crate::spmm::{Job, Onto};
use crate::vector::{Vector, at_level, prefetch};

/// Columns of `x` up to which a product is rounded before it is added: their sums are so few that each waits for the
/// one before, and a sum alone is quicker than a sum of a product. By the columns of all of `x`, so that no cut of them
/// changes a bit.
pub(crate) const APART: usize = 16;

/// `sum + w · v`, rounded once, or twice where [`APART`] says so.
#[inline(always)]
pub(crate) fn plus<V: Vector>(sum: V, v: V, w: V, apart: bool) -> V {
    if apart {
        v.mul(w).add(sum)
    } else {
        v.mul_add(w, sum)
    }
}

/// How many edges ahead rows of `x` are prefetched.
pub(crate) const AHEAD: usize = 24;

/// The same for rows of one line: so little work is done on each that 16 of them are over before the
/// line is there (R-MAT 18, 8 columns, one thread, two rounds: 63 and 72 ms with 16, 51 and 70 with 32).
const AHEAD_OF_LINES: usize = 32;

/// Bytes of all rows that are near anyway: to ask for one of few vectors would take longer than to add it.
const NEAR: usize = 256 << 10;

/// The same for rows of one line, of which so many are read at a time that nobody waits for one out of the third
/// cache. It is shared, and what others leave of it is less: more rows than these come out of memory at times.
const NEAR_OF_LINES: usize = 7 << 19;

/// So few vectors.
const FEW: usize = 2;

/// Lines of a row that are asked for, by a processor that follows a row which it has seen begin:
/// asking for more only takes the places of misses that are under way (Intel, R-MAT 16, width 256, one
/// thread: 94 ms with all 16 lines, 78 with 4, 88 with none).
const BEGINNING: usize = 4;

/// The same for AMD's, which wait for what nobody asked for (Zen 5, two threads, ms with 4 lines 16
/// edges ahead, 8 lines 16 ahead, 8 lines 24 ahead; medians of three rounds: planted partition of
/// 50 000 vertices, width 128, 4.3, 3.4, 3.0; R-MAT 16 6.5, 6.2, 5.8. Backward of attention, 256
/// columns, 4, 8 and 16 lines: 49, 46, 33).
const WHOLE: usize = 16;

/// Prefetches the start of `n` numbers at `p`.
#[inline(always)]
pub(crate) fn prefetch_row<T>(p: *const T, n: usize) {
    let line = 64 / size_of::<T>();
    let lines = n.div_ceil(line);
    for j in 0..lines.min(BEGINNING) {
        prefetch(p.wrapping_add(j * line));
    }
    if lines > BEGINNING && *AMD {
        for j in BEGINNING..lines.min(WHOLE) {
            prefetch(p.wrapping_add(j * line));
        }
    }
}

/// Numbers that SpMM can gather; the sum is always in `f32`.
pub(crate) trait Stored: Copy + Sync {
    /// [`Vector::load`].
    unsafe fn load<V: Vector>(p: *const Self) -> V;
    /// [`Vector::load_first`].
    unsafe fn load_first<V: Vector>(p: *const Self, m: V::Mask) -> V;
    /// Runs a job at a level that the processor supports; `x: [n, d]` comes with `d`.
    fn run(level: Level, a: Csr<'_>, x: (&[Self], usize), onto: Onto<'_>, job: Job<'_>);
}

impl Stored for f32 {
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const Self) -> V {
        // SAFETY: passed on to the caller.
        unsafe { V::load(p) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(p: *const Self, m: V::Mask) -> V {
        // SAFETY: passed on to the caller.
        unsafe { V::load_first(p, m) }
    }
    fn run(level: Level, a: Csr<'_>, x: (&[f32], usize), onto: Onto<'_>, job: Job<'_>) {
        at_level!(level, run(a: Csr<'_>, x: (&[f32], usize), onto: Onto<'_>, job: Job<'_>));
    }
}

impl Stored for bf16 {
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const Self) -> V {
        // SAFETY: passed on to the caller.
        unsafe { V::load_bf16(p) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(p: *const Self, m: V::Mask) -> V {
        // SAFETY: passed on to the caller.
        unsafe { V::load_first_bf16(p, m) }
    }
    fn run(level: Level, a: Csr<'_>, x: (&[bf16], usize), onto: Onto<'_>, job: Job<'_>) {
        at_level!(level, run_bf16(a: Csr<'_>, x: (&[bf16], usize), onto: Onto<'_>, job: Job<'_>));
    }
}

/// Calls a function of a number of vectors and of whether edges have weights with those constants.
macro_rules! by_vectors {
    ($n:expr, $weighted:expr, $f:ident<$v:ty, $t:ty> $args:tt) => {
        by_vectors!(@ 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; $n, $weighted, $f, $v, $t, $args)
    };
    (@ $($k:literal)*; $n:expr, $weighted:expr, $f:ident, $v:ty, $t:ty, $args:tt) => {
        match ($n, $weighted) {
            $(($k, true) => $f::<$v, $t, $k, true> $args,
              ($k, false) => $f::<$v, $t, $k, false> $args,)*
            (n, _) => unreachable!("a tile of {n} vectors"),
        }
    };
}

#[inline(always)]
fn run<V: Vector>(a: Csr<'_>, x: (&[f32], usize), onto: Onto<'_>, job: Job<'_>) {
    tiles::<V, f32>(a, x, onto, job);
}

#[inline(always)]
fn run_bf16<V: Vector>(a: Csr<'_>, x: (&[bf16], usize), onto: Onto<'_>, job: Job<'_>) {
    tiles::<V, bf16>(a, x, onto, job);
}

/// Columns `first..first + wide` of `x: [_, d]`, to columns `skip..` of an output with `stride`
/// columns.
#[derive(Clone, Copy)]
struct Tile<'a> {
    first: usize,
    wide: usize,
    d: usize,
    skip: usize,
    stride: usize,
    onto: Onto<'a>,
}

/// All columns of a job, in tiles of about equally many vectors.
#[inline(always)]
fn tiles<V: Vector, T: Stored>(a: Csr<'_>, x: (&[T], usize), onto: Onto<'_>, job: Job<'_>) {
    let (x, d) = x;
    let Job { rows, cols, out } = job;
    let width = cols.len();
    let tiles = width.div_ceil(V::TILE * V::LANES);
    let vectors = width.div_ceil(V::LANES).div_ceil(tiles.max(1));
    let mut c = 0;
    while c < width {
        let wide = (vectors * V::LANES).min(width - c);
        let at = Tile {
            first: cols.start + c,
            wide,
            d,
            skip: c,
            stride: width,
            onto,
        };
        let weights = a.weights.unwrap_or(&[]);
        let (n, weighted) = (wide.div_ceil(V::LANES), a.weights.is_some());
        by_vectors!(
            n,
            weighted,
            tile < V,
            T > (a, weights, x, rows.clone(), at, out)
        );
        c += wide;
    }
}

/// One tile of `N` vectors, the last of which may be partial.
#[inline(always)]
fn tile<V: Vector, T: Stored, const N: usize, const W: bool>(
    a: Csr<'_>,
    weights: &[f32],
    x: &[T],
    rows: Range<usize>,
    t: Tile<'_>,
    out: &mut [f32],
) {
    if N > V::TILE {
        unreachable!("a tile has at most {} vectors", V::TILE);
    }
    let tail = t.wide - (N - 1) * V::LANES;
    assert!(tail >= 1 && tail <= V::LANES && t.first + t.wide <= t.d);
    assert!(a.n_cols * t.d <= x.len() && t.skip + t.wide <= t.stride);
    // SAFETY: `tail` is within the lanes, as asserted above.
    let mask = unsafe { V::mask(tail) };
    let near = size_of_val(x)
        <= match t.wide * size_of::<T>() <= 64 {
            true => NEAR_OF_LINES,
            false => NEAR,
        };
    for (k, r) in rows.enumerate() {
        let at = k * t.stride + t.skip;
        let to = out[at..at + t.wide].as_mut_ptr();
        let span = a.span(r);
        let n_edges = span.len();
        // SAFETY: `to` has `wide` numbers, which are `N - 1` vectors and `tail` more; the sizes of
        // `x` and the mask are asserted above.
        unsafe {
            let mut sum = match t.onto {
                Onto::Add => read::<V, N>(to, mask),
                _ => [V::splat(0.0); N],
            };
            if N <= FEW && near {
                gather::<V, T, N, W, false>(&mut sum, a, weights, span, x, t, mask);
            } else {
                gather::<V, T, N, W, true>(&mut sum, a, weights, span, x, t, mask);
            }
            let by = match t.onto {
                Onto::Mean if n_edges > 0 => 1.0 / n_edges as f32,
                Onto::SetTimes(by) | Onto::AddTimes(by) => by[r],
                Onto::Set | Onto::Mean | Onto::Add => 1.0,
            };
            match t.onto {
                Onto::Mean | Onto::SetTimes(_) => {
                    let by = V::splat(by);
                    for sum in &mut sum {
                        *sum = sum.mul(by);
                    }
                }
                Onto::AddTimes(_) => onto_times(&mut sum, by, to, mask),
                Onto::Set | Onto::Add => {}
            }
            store(sum, to, mask);
        }
    }
}

/// `N` vectors, the last of them through a mask.
///
/// # Safety
/// `N - 1` vectors and the columns in the mask can be read.
#[inline(always)]
pub(crate) unsafe fn read<V: Vector, const N: usize>(from: *const f32, mask: V::Mask) -> [V; N] {
    // SAFETY: passed on to the caller.
    unsafe {
        let mut all = [V::splat(0.0); N];
        for (j, v) in all.iter_mut().enumerate() {
            let from = from.add(j * V::LANES);
            *v = if j + 1 < N {
                V::load(from)
            } else {
                V::load_first(from, mask)
            };
        }
        all
    }
}

/// The other way.
///
/// # Safety
/// `N - 1` vectors and the columns in the mask can be written.
#[inline(always)]
pub(crate) unsafe fn store<V: Vector, const N: usize>(all: [V; N], to: *mut f32, mask: V::Mask) {
    for (j, v) in all.into_iter().enumerate() {
        // SAFETY: passed on to the caller.
        unsafe {
            let to = to.add(j * V::LANES);
            if j + 1 < N {
                v.store(to);
            } else {
                v.store_first(to, mask);
            }
        }
    }
}

/// Adds what is at `to` to the multiple of `sum`.
///
/// # Safety
/// As [`read`].
#[inline(always)]
unsafe fn onto_times<V: Vector, const N: usize>(
    sum: &mut [V; N],
    by: f32,
    to: *const f32,
    mask: V::Mask,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        let (there, by) = (read::<V, N>(to, mask), V::splat(by));
        for (sum, there) in sum.iter_mut().zip(there) {
            *sum = sum.mul_add(by, there);
        }
    }
}

/// Adds the rows of `x` that the edges in `span` name to `sum`, weighted; those some edges ahead
/// are prefetched where `FAR` says that they are far.
///
/// # Safety
/// `n_cols * d <= x.len()`, `first + (N - 1) · LANES < d`, and the mask holds no column at `d` or
/// beyond.
#[inline(always)]
unsafe fn gather<V: Vector, T: Stored, const N: usize, const W: bool, const FAR: bool>(
    sum: &mut [V; N],
    a: Csr<'_>,
    weights: &[f32],
    span: Range<usize>,
    x: &[T],
    t: Tile<'_>,
    mask: V::Mask,
) {
    // Of these nothing is looked up again from edge to edge.
    let (n_cols, d, x) = (a.n_cols, t.d, x.as_ptr().wrapping_add(t.first));
    let cols = &a.indices[span.clone()];
    let scale = if W { &weights[span.clone()] } else { &[] };
    let apart = d <= APART;
    let (ahead, last) = (&a.indices[span.start..], a.indices.len() - span.start);
    let far = if N * V::LANES * size_of::<T>() <= 64 {
        AHEAD_OF_LINES
    } else {
        AHEAD
    };
    for (i, &c) in cols.iter().enumerate() {
        let c = c as usize;
        if c >= n_cols {
            out_of_range("spmm", c, n_cols);
        }
        // SAFETY: `c < n_cols`, and the caller vouches for the rest; the last vector reads only its columns through
        // the mask. There are as many weights as edges, and behind the last edge that one is asked for again.
        unsafe {
            if FAR {
                let next = *ahead.get_unchecked((i + far).min(last - 1)) as usize;
                prefetch_row(x.wrapping_add(next * d), N * V::LANES);
            }
            let w = V::splat(if W { *scale.get_unchecked(i) } else { 1.0 });
            let row = x.add(c * d);
            for (j, sum) in sum.iter_mut().enumerate() {
                let v: V = if j + 1 < N {
                    T::load(row.add(j * V::LANES))
                } else {
                    T::load_first(row.add(j * V::LANES), mask)
                };
                *sum = match W {
                    true => plus(*sum, v, w, N * V::LANES <= APART && apart),
                    false => v.add(*sum),
                };
            }
        }
    }
}

/// Runs of edges whose sources lie in one segment; see [`crate::segmented`].
#[derive(Clone, Copy)]
pub(crate) struct Visits<'a> {
    /// The edges, a row for each visit.
    pub(crate) edges: Csr<'a>,
    /// The row of the output that each visit adds to, ascending within a segment.
    pub(crate) row_of: &'a [u32],
    /// Where each segment's visits start: `[segments + 1]`.
    pub(crate) starts: &'a [usize],
}

/// How many visits ahead rows of the output are prefetched.
const VISITS_AHEAD: usize = 3;

/// Columns that are summed at once in a segment, so that its rows fit into the second-level cache.
const SEGMENT_COLUMNS: usize = 128;

/// Adds what the visits of a job's rows bring to its output, or its multiple as `onto` says; `x: [n, d]` comes with
/// `d`.
pub(crate) fn add_visits(
    level: Level,
    v: Visits<'_>,
    x: (&[f32], usize),
    onto: Onto<'_>,
    job: Job<'_>,
) {
    at_level!(level, segments(v: Visits<'_>, x: (&[f32], usize), onto: Onto<'_>, job: Job<'_>));
}

#[inline(always)]
fn segments<V: Vector>(visits: Visits<'_>, x: (&[f32], usize), onto: Onto<'_>, job: Job<'_>) {
    let (x, d) = x;
    let Job { rows, cols, out } = job;
    let most = V::TILE.min(SEGMENT_COLUMNS / V::LANES) * V::LANES;
    for c in (0..cols.len()).step_by(most) {
        let wide = most.min(cols.len() - c);
        let at = Tile {
            first: cols.start + c,
            wide,
            d,
            skip: c,
            stride: cols.len(),
            onto: onto.more(),
        };
        for s in visits.starts.windows(2) {
            let mine = &visits.row_of[s[0]..s[1]];
            let upto = |row: usize| s[0] + mine.partition_point(|&r| (r as usize) < row);
            let range = upto(rows.start)..upto(rows.end);
            let (a, n) = (visits.edges, wide.div_ceil(V::LANES));
            let weights = a.weights.unwrap_or(&[]);
            let list = (visits.row_of, range, rows.start);
            by_vectors!(
                n,
                a.weights.is_some(),
                add_tile < V,
                f32 > (a, weights, x, list, at, out)
            );
        }
    }
}

/// One tile of a segment's visits. `list` has the row of every visit, the visits to make, and the
/// row at which `out` begins.
#[inline(always)]
fn add_tile<V: Vector, T: Stored, const N: usize, const W: bool>(
    a: Csr<'_>,
    weights: &[f32],
    x: &[T],
    list: (&[u32], Range<usize>, usize),
    t: Tile<'_>,
    out: &mut [f32],
) {
    if N > V::TILE {
        unreachable!("a tile has at most {} vectors", V::TILE);
    }
    let (row_of, visits, first) = list;
    let tail = t.wide - (N - 1) * V::LANES;
    assert!(tail >= 1 && tail <= V::LANES && t.first + t.wide <= t.d);
    assert!(a.n_cols * t.d <= x.len() && t.skip + t.wide <= t.stride);
    // SAFETY: `tail` is within the lanes, as asserted above.
    let mask = unsafe { V::mask(tail) };
    for k in visits.clone() {
        if let Some(&next) = row_of[..visits.end].get(k + VISITS_AHEAD) {
            let ahead = (next as usize - first) * t.stride + t.skip;
            for j in (0..t.wide).step_by(16) {
                prefetch(out.as_ptr().wrapping_add(ahead + j));
            }
        }
        let at = (row_of[k] as usize - first) * t.stride + t.skip;
        let to = out[at..at + t.wide].as_mut_ptr();
        // SAFETY: `to` has `wide` numbers, which are `N - 1` vectors and `tail` more; the sizes of
        // `x` and the mask are asserted above.
        unsafe {
            let mut sum = match t.onto {
                Onto::AddTimes(_) => [V::splat(0.0); N],
                _ => read::<V, N>(to, mask),
            };
            gather::<V, T, N, W, false>(&mut sum, a, weights, a.span(k), x, t, mask);
            if let Onto::AddTimes(by) = t.onto {
                onto_times(&mut sum, by[row_of[k] as usize], to, mask);
            }
            store(sum, to, mask);
        }
    }
}
