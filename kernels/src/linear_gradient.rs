//! Gradient of a dense layer's weights and bias: a product over very many rows.
//!
//! Rows are cut into lanes of consecutive rows; each lane is summed by one thread into a buffer of
//! its own, and the buffers are added in order. Lanes depend on the shapes only.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::amx_gradient::{self, Columns};
use crate::engine::Engine;
use crate::gemm_ahead::Ahead;
use crate::gemm_block::{Product, Side, TileShape, multiply, pack, strips};
use crate::par::split_rows;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;
use crate::simd::multiversion;
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Lanes at most.
const LANES: usize = 32;

/// Rows of a lane at least.
const LANE_ROWS: usize = 1024;

/// The operands have at least this many times the elements of all lanes together.
const LANE_SHARE: usize = 16;

/// Columns of `x` of one job, a multiple of every tile's rows.
const GROUP: usize = 480;

/// Elements of both operands in one chunk, which stays in the second-level cache.
const CHUNK_ELEMENTS: usize = 1 << 16;

/// Rows of a chunk at least: with fewer, tiles would mostly load and store their sums.
const CHUNK_MIN: usize = 128;

/// Rows of a chunk at most: a panel of them fits into the first-level cache beside a strip (50 000 rows,
/// 128 × 128, two threads of a Zen 5, medians of three rounds: 4.4 ms with 128, 4.25 with 192, 4.5 with
/// 256, 5.2 with 384).
const CHUNK_MAX: usize = 192;

/// Scalar reference in `f64`: see [`weight_gradient_into`].
pub fn naive_gradient(x: &Mat, g: &Mat, gw: &mut Mat, gb: Option<&mut [f32]>) {
    for ((i, j), out) in gw.indexed_iter_mut() {
        let product = |v| f64::from(x[[v, i]]) * f64::from(g[[v, j]]);
        *out = (0..x.nrows()).map(product).sum::<f64>() as f32;
    }
    for (j, out) in gb.into_iter().flatten().enumerate() {
        *out = g.column(j).iter().map(|&g| f64::from(g)).sum::<f64>() as f32;
    }
}

multiversion! {
    /// Adds rows to their sums.
    fn add_rows(level: Level, rows: &[f32], sums: &mut [f32]) {
        for row in rows.chunks_exact(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
        }
    }
}

/// Writes `xᵀ · g` to `gw: [k, n]` and the sums of the columns of `g` to `gb: [n]`, reading `g`
/// once. `x: [v, k]`, `g: [v, n]`.
///
/// # Panics
/// When the shapes disagree.
pub fn weight_gradient_into(par: &Par, x: &Mat, g: &Mat, gw: &mut Mat, gb: Option<&mut [f32]>) {
    expect_eq("weight_gradient", "g with rows", x.nrows(), g.nrows());
    expect_eq("weight_gradient", "gw with rows", x.ncols(), gw.nrows());
    expect_eq("weight_gradient", "gw with columns", g.ncols(), gw.ncols());
    if let Some(gb) = &gb {
        expect_eq("weight_gradient", "gb of length", g.ncols(), gb.len());
    }
    gradient_at(Engine::detect(), par, [x, g], false, gw, gb);
}

/// [`weight_gradient_into`] for checked shapes on a given engine, which the processor must
/// have; adds to `gw` when asked.
pub(crate) fn gradient_at(
    engine: Engine,
    par: &Par,
    [x, g]: [&Mat; 2],
    add: bool,
    gw: &mut Mat,
    gb: Option<&mut [f32]>,
) {
    let level = engine.level;
    let ((v, k), n) = (x.dim(), g.ncols());
    let (x, g) = (flat("weight_gradient", x), flat("weight_gradient", g));
    let gw = flat_mut("weight_gradient", gw);
    if n == 0 {
        return;
    }
    // A lane holds the sums of the columns in a row of their own, after those of the product.
    let size = (k + 1) * n;
    let lanes = LANES
        .min(v / LANE_ROWS)
        .min(v * (k + n) / LANE_SHARE / size)
        .max(1);
    let mut partial = par.scratch(lanes * size);
    let spans = split_rows(v, lanes);
    let mut jobs = Vec::new();
    for (lane, span) in partial.chunks_mut(size).zip(spans.windows(2)) {
        let (weights, bias) = lane.split_at_mut(k * n);
        let mut bias = gb.is_some().then_some(bias);
        let groups = weights.chunks_mut(GROUP * n).enumerate();
        for (i, sums) in groups {
            let columns = i * GROUP..i * GROUP + sums.len() / n;
            let (rows, bias) = (span[0]..span[1], bias.take());
            jobs.push(Job {
                rows,
                columns,
                sums,
                bias,
            });
        }
        if k == 0 && bias.is_some() {
            jobs.push(Job {
                rows: span[0]..span[1],
                columns: 0..0,
                sums: &mut [],
                bias,
            });
        }
    }
    par.run(jobs, |job| lane(engine, par, job, [x, g], [k, n]));
    par.rows_mut(gw, n, |first, rows| {
        if !add {
            rows.fill(0.0);
        }
        for lane in partial.chunks(size) {
            add_rows(level, &lane[first * n..][..rows.len()], rows);
        }
    });
    if let Some(gb) = gb {
        gb.fill(0.0);
        for lane in partial.chunks(size) {
            add_rows(level, &lane[k * n..], gb);
        }
    }
    par.recycle(partial);
}

/// Sums over a run of rows, of a group of columns of `x`.
struct Job<'a> {
    rows: Range<usize>,
    columns: Range<usize>,
    /// `[columns, n]`.
    sums: &'a mut [f32],
    /// `[n]`, for one of the groups.
    bias: Option<&'a mut [f32]>,
}

/// One job, chunk by chunk: both operands are packed, which also brings them into the cache in
/// the order in which they lie, and multiplied while the next chunk is fetched.
fn lane(engine: Engine, par: &Par, job: Job<'_>, [x, g]: [&[f32]; 2], [k, n]: [usize; 2]) {
    let level = engine.level;
    #[cfg(target_arch = "x86_64")]
    if engine.tiles && amx_gradient::pays(k, n) {
        return tiled_lane(level, par, job, [x, g], [k, n]);
    }
    let shape = TileShape::of(level);
    let m = job.columns.len();
    let mut bias = job.bias;
    let chunk = (CHUNK_ELEMENTS / (m + n)).clamp(CHUNK_MIN, CHUNK_MAX) / 16 * 16;
    let chunk = chunk.min(job.rows.len().max(1));
    let left_len = (m.next_multiple_of(shape.rows) * chunk).next_multiple_of(16);
    let mut packed = par.scratch_of_any(left_len + shape.packed_len(chunk, n) + 16);
    let start = packed.as_ptr().align_offset(64).min(16);
    let (left, right) = packed[start..].split_at_mut(left_len);
    for from in job.rows.clone().step_by(chunk) {
        let to = (from + chunk).min(job.rows.end);
        let (xs, gs) = (&x[from * k..to * k], &g[from * n..to * n]);
        if let Some(bias) = &mut bias {
            add_rows(level, gs, bias);
        }
        if m == 0 {
            continue;
        }
        let inner = to - from;
        strips(level, xs, k, job.columns.clone(), left);
        pack(shape, Side::new(gs, n, false), inner, n, right);
        let next = to..(to + chunk).min(job.rows.end);
        let ahead = Ahead::NONE
            .read(&x[next.start * k..next.end * k])
            .read(&g[next.start * n..next.end * n]);
        let product = Product {
            a: Side::strips(shape, left),
            b: right,
            inner,
        };
        multiply(level, &[product], [m, n], true, job.sums, ahead);
    }
    par.recycle(packed);
}

/// [`lane`] on AMX tiles.
#[cfg(target_arch = "x86_64")]
fn tiled_lane(level: Level, par: &Par, job: Job<'_>, [x, g]: [&[f32]; 2], [k, n]: [usize; 2]) {
    let x = Columns {
        data: x,
        width: k,
        from: job.columns.start,
        len: job.columns.len(),
    };
    if let Some(bias) = job.bias {
        add_rows(level, &g[job.rows.start * n..job.rows.end * n], bias);
    }
    let g = Columns {
        data: g,
        width: n,
        from: 0,
        len: n,
    };
    amx_gradient::add_product(par, job.rows, x, g, job.sums);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::tests::{close, matrix};
    use proptest::prelude::*;

    fn check(v: usize, k: usize, n: usize) {
        let (x, g) = (matrix(v, k, 1), matrix(v, n, 2));
        let run = |threads, bias: bool| {
            let (mut gw, mut gb) = (
                Mat::from_elem((k, n), f32::NAN),
                Mat::from_elem((1, n), f32::NAN),
            );
            let gb_out = bias.then(|| flat_mut("", &mut gb));
            weight_gradient_into(&Par::new(threads), &x, &g, &mut gw, gb_out);
            (gw, gb)
        };
        let (mut gw, mut gb) = (Mat::zeros((k, n)), Mat::zeros((1, n)));
        naive_gradient(&x, &g, &mut gw, Some(flat_mut("", &mut gb)));
        let one = run(1, true);
        let tolerance = 2e-6 * (v as f32).sqrt().max(8.0);
        close(&one.0, &gw, tolerance);
        close(&one.1, &gb, tolerance);
        for engine in Engine::available() {
            let (mut w, mut b) = (Mat::ones((k, n)), Mat::ones((1, n)));
            let par = Par::new(2);
            gradient_at(
                engine,
                &par,
                [&x, &g],
                true,
                &mut w,
                Some(flat_mut("", &mut b)),
            );
            close(&w, &(&gw + 1.0), tolerance);
            close(&b, &gb, tolerance);
        }
        for threads in [2, 3, 8] {
            assert_eq!(run(threads, true), one, "{threads} threads");
        }
        assert_eq!(run(2, false).0, one.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn weight_gradient_equals_naive(v in 0usize..600, k in 0usize..120, n in 0usize..120) {
            check(v, k, n);
        }
    }

    #[test]
    fn many_rows_in_lanes() {
        check(5 * LANE_ROWS + 77, 33, 18);
        check(5 * LANE_ROWS + 77, 99, 50);
        check(1300, GROUP + 19, 5);
        check(2 * LANE_ROWS, 7, 130);
        check(LANES * LANE_ROWS + 1025, 5, 3);
    }

    #[test]
    #[should_panic(expected = "weight_gradient: expected g with rows 3, got 2")]
    fn wrong_shapes_name_both_sides() {
        let (x, g) = (Mat::zeros((3, 1)), Mat::zeros((2, 1)));
        weight_gradient_into(&Par::new(1), &x, &g, &mut Mat::zeros((1, 1)), None);
    }
}
