//! Gradient of a dense layer's weights and bias: a product over very many rows.
//!
//! Rows are cut into lanes of consecutive rows; each lane is summed into a buffer of its own, and the
//! buffers are added in order. Lanes depend on the shapes only. A lane is one thread's, and where there are
//! fewer lanes than threads, each takes some of the left operand's columns.
//! Where the right operand has few columns, nothing is packed (`across`).

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::amx_gradient::{self, Columns};
use crate::engine::Engine;
use crate::gemm_ahead::Ahead;
use crate::gemm_block::{Product, Side, TileShape, multiply, pack, strips};
use crate::linear::{Blocks, SMALL, Term};
use crate::linear_then::{Steps, Then};
use crate::par::split_rows;
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Lanes at most.
const LANES: usize = 32;

/// Rows of a lane at least.
const LANE_ROWS: usize = 1024;

/// The operands have at least this many times the elements of all lanes together.
const LANE_SHARE: usize = 16;

/// Columns of `x` of one job at most, a multiple of every tile's rows.
const GROUP: usize = 480;

/// The same where threads share a lane, and on AMX tiles.
const SHARE: usize = 24;
const TILED_SHARE: usize = 96;

/// Elements of the operands in one chunk, which stays in the second-level cache beside the next one. (Two
/// left operands of 128 columns and rows made of 16 and 16, 50 000 rows, two threads of a Zen 5: 9.6 ms
/// with chunks of 128 rows, 9.9 with 160, 10.2 with 192.)
const CHUNK_ELEMENTS: usize = 48 << 10;

/// Rows of a chunk at least: with fewer, tiles would mostly load and store their sums.
const CHUNK_MIN: usize = 96;

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

/// The right operand of a weight gradient: `[v, n]`.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// Rows that exist.
    Held(&'a Mat),
    /// `then(Σ terms)`, whose rows exist a chunk at a time: nobody else reads them.
    Made {
        /// The products; none with a transposed left operand.
        terms: &'a [Term<'a>],
        /// What is done to their sum.
        then: Then<'a>,
    },
}

impl Rows<'_> {
    /// Rows and columns.
    fn dim(&self) -> (usize, usize) {
        match self {
            Rows::Held(g) => g.dim(),
            Rows::Made { terms, .. } => {
                let [(v, _), (_, n)] = terms.first().map_or([(0, 0); 2], Term::shapes);
                (v, n)
            }
        }
    }
}

/// Whether [`Rows::Made`] is worth it for left operands of `k` columns together and `n` columns: where
/// all sums of a lane are made in one pass, and by vectors.
pub fn makes_rows(k: usize, n: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if Engine::detect().tiles && amx_gradient::pays(k, n) {
        return false;
    }
    k <= GROUP && n > 0
}

/// Writes `xᵀ · g` to `gw: [k, n]` and the sums of the columns of `g` to `gb: [n]`, reading `g`
/// once. `x: [v, k]`, `g: [v, n]`.
///
/// # Panics
/// When the shapes disagree.
pub fn weight_gradient_into(par: &Par, x: &Mat, g: &Mat, gw: &mut Mat, gb: Option<&mut [f32]>) {
    weight_gradients_into(par, &[x], Rows::Held(g), &mut [gw], gb);
}

/// [`weight_gradient_into`] for several left operands `xs`, reading or making `g` once where it can.
///
/// # Panics
/// When the shapes disagree, or a term of `g` has its left operand transposed.
pub fn weight_gradients_into(
    par: &Par,
    xs: &[&Mat],
    g: Rows<'_>,
    gws: &mut [&mut Mat],
    gb: Option<&mut [f32]>,
) {
    let (v, n) = g.dim();
    expect_eq("weight_gradient", "results", xs.len(), gws.len());
    for (x, gw) in xs.iter().zip(gws.iter()) {
        expect_eq("weight_gradient", "g with rows", x.nrows(), v);
        expect_eq("weight_gradient", "gw with rows", x.ncols(), gw.nrows());
        expect_eq("weight_gradient", "gw with columns", n, gw.ncols());
    }
    if let Some(gb) = &gb {
        expect_eq("weight_gradient", "gb of length", n, gb.len());
    }
    if let Rows::Made { terms, .. } = g {
        for t in terms {
            let [(rows, inner), (from, cols)] = t.shapes();
            assert!(!t.ta, "weight_gradient: expected terms with rows as stored");
            expect_eq("weight_gradient", "op(b) with rows", inner, from);
            expect_eq("weight_gradient", "op(a) with rows", v, rows);
            expect_eq("weight_gradient", "op(b) with columns", n, cols);
        }
    }
    gradients_at(Engine::detect(), par, xs, g, false, gws, gb);
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
    gradients_at(engine, par, &[x], Rows::Held(g), add, &mut [gw], gb);
}

fn gradients_at(
    engine: Engine,
    par: &Par,
    xs: &[&Mat],
    g: Rows<'_>,
    add: bool,
    gws: &mut [&mut Mat],
    gb: Option<&mut [f32]>,
) {
    let level = engine.level;
    let (v, n) = g.dim();
    if n == 0 {
        return;
    }
    let right = match g {
        Rows::Held(g) => Right::Held(flat("weight_gradient", g)),
        Rows::Made { terms, then } => {
            let products: Vec<_> = terms.iter().map(Term::operands).collect();
            let steps = Steps::new("weight_gradient", level, then, (v, n));
            Right::Made(Blocks::new(level, par, &products, steps, n))
        }
    };
    // A lane holds the sums of the columns in a row of their own, after those of the products.
    let k: usize = xs.iter().map(|x| x.ncols()).sum();
    let size = (k + 1) * n;
    let lanes = LANES
        .min(v / LANE_ROWS)
        .min(v * (k + n) / LANE_SHARE / size)
        .max(1);
    let mut partial = par.scratch(lanes * size);
    let spans = split_rows(v, lanes);
    let share = if engine.tiles { TILED_SHARE } else { SHARE };
    let across = across::pays(level, xs.iter().map(|x| x.ncols()), n);
    let group = match right {
        // Rows would be made by each of them.
        Right::Made(_) => GROUP,
        Right::Held(_) if v * k * n <= SMALL => GROUP,
        Right::Held(_) => {
            let sharing = par.threads().div_ceil(lanes);
            let most = if across && !engine.tiles {
                across::WIDEST
            } else {
                GROUP
            };
            k.div_ceil(sharing)
                .next_multiple_of(share)
                .clamp(share, most)
        }
    };
    let mut jobs = Vec::new();
    for (lane, span) in partial.chunks_mut(size).zip(spans.windows(2)) {
        let of = (xs, group);
        jobs_of(lane, span[0]..span[1], of, n, gb.is_some(), &mut jobs);
    }
    // By the operands alone, not by who shares a lane.
    let rows = (CHUNK_ELEMENTS / (k.min(GROUP) + n)).clamp(CHUNK_MIN, CHUNK_MAX) / 16 * 16;
    let chunk = (!across).then_some(rows);
    par.run(jobs, |job| lane(engine, par, job, &right, (n, chunk)));
    if let Right::Made(blocks) = right {
        blocks.recycle(par);
    }
    let mut first = 0;
    for gw in gws.iter_mut() {
        let rows = gw.nrows();
        par.rows_mut(flat_mut("weight_gradient", gw), n, |from, rows| {
            if !add {
                rows.fill(0.0);
            }
            for lane in partial.chunks(size) {
                add_rows(level, &lane[(first + from) * n..][..rows.len()], rows);
            }
        });
        first += rows;
    }
    if let Some(gb) = gb {
        gb.fill(0.0);
        for lane in partial.chunks(size) {
            add_rows(level, &lane[k * n..], gb);
        }
    }
    par.recycle(partial);
}

/// The right operand as lanes read it.
enum Right<'a> {
    Held(&'a [f32]),
    Made(Blocks<'a>),
}

impl Right<'_> {
    /// Some rows of `n` columns, in `made` where they do not exist.
    fn rows<'r>(&'r self, rows: Range<usize>, n: usize, made: &'r mut [f32]) -> &'r [f32] {
        match self {
            Right::Held(g) => &g[rows.start * n..rows.end * n],
            Right::Made(blocks) => {
                let made = &mut made[..rows.len() * n];
                let firsts = rows.step_by(blocks.rows);
                for (first, block) in firsts.zip(made.chunks_mut(blocks.rows * n)) {
                    blocks.make(first, block, false, Ahead::NONE);
                }
                made
            }
        }
    }

    /// Numbers of room for so many rows of `n` columns, where they do not exist.
    fn room(&self, rows: usize, n: usize) -> usize {
        match self {
            Right::Held(_) => 0,
            Right::Made(_) => rows * n,
        }
    }
}

/// Sums over a run of rows.
struct Job<'a> {
    rows: Range<usize>,
    lefts: Vec<Left<'a>>,
    /// `[n]`, for one of a lane's jobs.
    bias: Option<&'a mut [f32]>,
}

/// A group of columns of a left operand.
struct Left<'a> {
    x: &'a [f32],
    /// Columns of all of it.
    k: usize,
    columns: Range<usize>,
    /// `[columns, n]`.
    sums: &'a mut [f32],
}

/// The jobs of one lane, of at most `group` columns of `xs` each; `lane` holds its sums.
fn jobs_of<'a>(
    lane: &'a mut [f32],
    rows: Range<usize>,
    (xs, group): (&[&'a Mat], usize),
    n: usize,
    biased: bool,
    jobs: &mut Vec<Job<'a>>,
) {
    let (mut weights, bias) = lane.split_at_mut(lane.len() - n);
    let mut job = Job {
        rows: rows.clone(),
        lefts: Vec::new(),
        bias: biased.then_some(bias),
    };
    let mut held = 0;
    for x in xs {
        let k = x.ncols();
        for from in (0..k).step_by(group) {
            let columns = from..(from + group).min(k);
            let (sums, rest) = std::mem::take(&mut weights).split_at_mut(columns.len() * n);
            weights = rest;
            if held + columns.len() > group {
                let next = Job {
                    rows: rows.clone(),
                    lefts: Vec::new(),
                    bias: None,
                };
                jobs.push(std::mem::replace(&mut job, next));
                held = 0;
            }
            held += columns.len();
            job.lefts.push(Left {
                x: flat("weight_gradient", x),
                k,
                columns,
                sums,
            });
        }
    }
    if held > 0 || job.bias.is_some() {
        jobs.push(job);
    }
}

/// One job, by chunks of `chunk` rows: the operands are packed, which also brings them into the cache in
/// the order in which they lie, and multiplied while the next chunk is fetched. Without `chunk` nothing is
/// packed.
fn lane(
    engine: Engine,
    par: &Par,
    mut job: Job<'_>,
    right: &Right<'_>,
    (n, chunk): (usize, Option<usize>),
) {
    let level = engine.level;
    let m: usize = job.lefts.iter().map(|left| left.columns.len()).sum();
    #[cfg(target_arch = "x86_64")]
    if let Right::Held(g) = right
        && engine.tiles
        && job.lefts.iter().all(|left| amx_gradient::pays(left.k, n))
        && m > 0
    {
        return tiled_lane(level, par, job, g, n);
    }
    let chunk = match chunk {
        None if m > 0 => return across::lane(level, par, job, right, n),
        chunk => chunk.unwrap_or(CHUNK_MIN).min(job.rows.len().max(1)),
    };
    let shape = TileShape::of(level);
    let widest = job.lefts.iter().map(|left| left.columns.len()).max();
    let left_len = widest.unwrap_or(0).next_multiple_of(shape.rows) * chunk;
    let left_len = left_len.next_multiple_of(16);
    let right_len = shape.packed_len(chunk, n).next_multiple_of(16);
    let made_len = right.room(chunk, n);
    let mut scratch = par.scratch_of_any(left_len + right_len + made_len + 16);
    let start = scratch.as_ptr().align_offset(64).min(16);
    let (strip, rest) = scratch[start..].split_at_mut(left_len);
    let (packed, made) = rest.split_at_mut(right_len);
    for from in job.rows.clone().step_by(chunk) {
        let to = (from + chunk).min(job.rows.end);
        let (inner, next) = (to - from, to..(to + chunk).min(job.rows.end));
        let gs = right.rows(from..to, n, made);
        let mut ahead = match right {
            Right::Held(g) => Ahead::NONE.read(&g[next.start * n..next.end * n]),
            Right::Made(blocks) => blocks.reads(next.clone(), Ahead::NONE),
        };
        if let Some(bias) = &mut job.bias {
            add_rows(level, gs, bias);
        }
        if m == 0 {
            continue;
        }
        pack(shape, Side::new(gs, n, false), inner, n, packed);
        for left in &mut job.lefts {
            let (x, k) = (left.x, left.k);
            strips(level, &x[from * k..to * k], k, left.columns.clone(), strip);
            let product = Product {
                a: Side::strips(shape, strip),
                b: packed,
                inner,
            };
            let ahead = std::mem::replace(&mut ahead, Ahead::NONE);
            let ahead = ahead.read(&x[next.start * k..next.end * k]);
            let size = [left.columns.len(), n];
            multiply(level, &[product], size, true, left.sums, ahead);
        }
    }
    par.recycle(scratch);
}

/// [`lane`] on AMX tiles.
#[cfg(target_arch = "x86_64")]
fn tiled_lane(level: Level, par: &Par, job: Job<'_>, g: &[f32], n: usize) {
    if let Some(bias) = job.bias {
        add_rows(level, &g[job.rows.start * n..job.rows.end * n], bias);
    }
    for left in job.lefts {
        let x = Columns {
            data: left.x,
            width: left.k,
            from: left.columns.start,
            len: left.columns.len(),
        };
        let g = Columns {
            data: g,
            width: n,
            from: 0,
            len: n,
        };
        amx_gradient::add_product(par, job.rows.clone(), x, g, left.sums);
    }
}

mod across;
#[cfg(test)]
mod tests;
