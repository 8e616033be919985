//! Dense layers: sums of products with what follows them, and the gradient of their weights.
//!
//! A block of output rows takes all products and then the steps of [`Then`] while it is in the
//! cache, so that memory is read and written once. Blocks depend on the shapes only and each is
//! computed by one thread: results are bit-identical for any number of threads.

#[cfg(target_arch = "x86_64")]
use crate::amx_linear;
use crate::engine::Engine;
use crate::gemm_ahead::Ahead;
use crate::gemm_block::{Product, Side, TileShape, multiply, pack_panel};
use crate::gemm_lanes as lanes;
use crate::linear_gradient::gradient_at;
use crate::linear_then::Steps;
use crate::par::{cut_mut, split_rows};
use crate::simd::Level;
use crate::{Mat, Par, expect_eq, flat, flat_mut};
use std::ops::Range;

pub use crate::linear_gradient::{
    Rows, makes_rows, naive_gradient, weight_gradient_into, weight_gradients_into,
};
pub use crate::linear_then::{Act, Dropout, Gate, Then, then_into, then_of};

/// Bytes of inputs and outputs of one block: half a first-level cache.
const BLOCK_BYTES: usize = 24 << 10;

/// Bytes of packed right operands that stay in the second-level cache; with more, blocks are
/// taller, so that each panel serves several tiles.
const RESIDENT: usize = 1 << 20;

/// Inner indices of one piece of a product: a panel of them fits into the first-level cache twice.
const PIECE: usize = 512;

/// Pieces that are summed in registers.
const PASS: usize = 4;

/// Inner length from which a product with few rows is summed in lanes.
const LONG: usize = 4096;

/// Multiply-adds below which starting threads costs more than it saves.
pub(crate) const SMALL: usize = 256 * 1024;

/// Floats of a cache line, at which packed operands begin.
const ALIGN: usize = 16;

/// One product `op(a) · op(b)`; `op` transposes when `ta` (`tb`) is set.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// Left operand; `op(a): [m, k]`.
    pub a: &'a Mat,
    /// Right operand; `op(b): [k, n]`.
    pub b: &'a Mat,
    /// Whether the left operand is transposed.
    pub ta: bool,
    /// Whether the right operand is transposed.
    pub tb: bool,
}

impl<'a> Term<'a> {
    /// `[m, k]` and `[k, n]`.
    pub(crate) fn shapes(&self) -> [(usize, usize); 2] {
        let turn = |x: &Mat, t: bool| if t { (x.ncols(), x.nrows()) } else { x.dim() };
        [turn(self.a, self.ta), turn(self.b, self.tb)]
    }

    pub(crate) fn operands(&self) -> Operands<'a> {
        Operands {
            a: Side::new(flat("linear", self.a), self.a.ncols(), self.ta),
            b: Side::new(flat("linear", self.b), self.b.ncols(), self.tb),
            inner: self.shapes()[0].1,
        }
    }
}

/// Whether a result replaces what is there or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Replace; what is there is not read.
    Set,
    /// Add.
    Add,
}

/// Scalar reference in `f64`: see [`linear_into`].
pub fn naive(terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
    for ((i, j), out) in out.indexed_iter_mut() {
        let mut sum = if write == Write::Add {
            f64::from(*out)
        } else {
            0.0
        };
        for t in terms {
            for k in 0..t.shapes()[0].1 {
                let a = if t.ta { t.a[[k, i]] } else { t.a[[i, k]] };
                let b = if t.tb { t.b[[j, k]] } else { t.b[[k, j]] };
                sum += f64::from(a) * f64::from(b);
            }
        }
        *out = sum as f32;
    }
    crate::linear_then::naive(then, out);
}

/// Writes `then(Σ terms)`, or `then(out + Σ terms)` for [`Write::Add`], to `out: [m, n]`. Without
/// terms the sum is zero.
///
/// # Panics
/// When the shapes disagree or dropout's probability is not in `[0, 1)`.
pub fn linear_into(par: &Par, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
    linear_at(Engine::detect(), par, terms, write, then, out);
}

/// [`linear_into`] on a given engine, which the processor must have.
pub(crate) fn linear_at(
    engine: Engine,
    par: &Par,
    terms: &[Term<'_>],
    write: Write,
    then: Then<'_>,
    out: &mut Mat,
) {
    let (m, n) = out.dim();
    for t in terms {
        let [(ma, k), (kb, nb)] = t.shapes();
        expect_eq("linear", "op(b) with rows", k, kb);
        expect_eq("linear", "op(a) with rows", m, ma);
        expect_eq("linear", "op(b) with columns", n, nb);
    }
    let steps = Steps::new("linear", engine.level, then, (m, n));
    if m == 0 || n == 0 {
        return;
    }
    let mut add = write == Write::Add;
    let mut products = Vec::with_capacity(terms.len());
    for t in terms {
        let inner = t.shapes()[0].1;
        if t.ta && !t.tb && inner >= LONG {
            // Few rows and a long inner dimension: summed in lanes, as weight gradients are.
            gradient_at(engine, par, [t.a, t.b], add, out, None);
            add = true;
        } else {
            products.push(t.operands());
        }
    }
    let out = flat_mut("linear", out);
    #[cfg(target_arch = "x86_64")]
    if engine.tiles && amx_linear::pays(&products, n) {
        return amx_linear::blocks(par, &products, [m, n], add, &steps, out);
    }
    let blocks = Blocks::new(engine.level, par, &products, steps, n);
    blocks.make_all(par, m, add, out);
    blocks.recycle(par);
}

/// A product `a · b`.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    /// `[m, inner]`.
    pub a: Side<'a>,
    /// `[inner, n]`.
    pub b: Side<'a>,
    /// Inner dimension.
    pub inner: usize,
}

/// A product of at most [`PIECE`] inner indices.
struct Piece<'a> {
    a: Side<'a>,
    b: Side<'a>,
    /// First inner index.
    from: usize,
    inner: usize,
}

impl<'a> Piece<'a> {
    fn of(&Operands { a, b, inner }: &Operands<'a>) -> impl Iterator<Item = Piece<'a>> {
        (0..inner).step_by(PIECE).map(move |from| Piece {
            a: a.from(0, from),
            b: b.from(from, 0),
            from,
            inner: PIECE.min(inner - from),
        })
    }
}

/// Sums of products with what follows them, ready to be made block by block.
pub(crate) struct Blocks<'a> {
    level: Level,
    pieces: Vec<Piece<'a>>,
    /// The right operands, and where each piece's begins.
    packed: Vec<f32>,
    starts: Vec<usize>,
    /// Sums are in lanes: there are few columns.
    in_lanes: bool,
    steps: Steps<'a>,
    /// Columns.
    n: usize,
    /// Rows of a block.
    pub(crate) rows: usize,
}

impl<'a> Blocks<'a> {
    /// `steps(Σ products)` of `n` columns.
    pub(crate) fn new(
        level: Level,
        par: &Par,
        products: &[Operands<'a>],
        steps: Steps<'a>,
        n: usize,
    ) -> Blocks<'a> {
        let shape = TileShape::of(level);
        let pieces: Vec<Piece<'a>> = products.iter().flat_map(Piece::of).collect();
        let depth: usize = pieces.iter().map(|p| p.inner).sum();
        let in_lanes = lanes::fits(level, n, depth) && pieces.iter().all(|p| !p.a.is_transposed());
        let (packed, starts) = pack_all(par, shape, &pieces, (n, in_lanes));
        let tiles = if packed.len() * 4 <= RESIDENT {
            (BLOCK_BYTES / 4 / (depth + n) / shape.rows).clamp(1, 8)
        } else {
            8
        };
        Blocks {
            level,
            pieces,
            packed,
            starts,
            in_lanes,
            steps,
            n,
            rows: tiles * shape.rows,
        }
    }

    /// What making these rows will read.
    pub(crate) fn reads(&self, rows: Range<usize>, mut ahead: Ahead) -> Ahead {
        if let Some(y) = self.steps.gate_rows(rows.clone()) {
            ahead = ahead.read(y);
        }
        let whole = |p: &&Piece<'_>| p.from == 0 && !p.a.is_transposed();
        for p in self.pieces.iter().filter(whole) {
            ahead = ahead.read(p.a.stored_rows(rows.clone()));
        }
        ahead
    }

    /// Makes the rows from `first` on that `block: [_, n]` holds, onto what is there when asked;
    /// `ahead` is fetched meanwhile.
    pub(crate) fn make(&self, first: usize, block: &mut [f32], mut add: bool, mut ahead: Ahead) {
        if self.pieces.is_empty() && !add {
            block.fill(0.0);
        }
        for (pieces, starts) in self.pieces.chunks(PASS).zip(self.starts.chunks(PASS)) {
            let mut products = [Product::NONE; PASS];
            for ((to, p), &start) in products.iter_mut().zip(pieces).zip(starts) {
                *to = Product {
                    a: p.a.from(first, 0),
                    b: &self.packed[start..],
                    inner: p.inner,
                };
            }
            let (size, products) = ([block.len() / self.n, self.n], &products[..pieces.len()]);
            match self.in_lanes {
                true => lanes::multiply(self.level, products, size, add, block),
                false => multiply(self.level, products, size, add, block, ahead),
            }
            (add, ahead) = (true, Ahead::NONE);
        }
        self.steps.apply(first, block);
    }

    /// Makes `out: [m, n]`.
    fn make_all(&self, par: &Par, m: usize, add: bool, out: &mut [f32]) {
        let (n, rows) = (self.n, self.rows);
        let depth: usize = self.pieces.iter().map(|p| p.inner).sum();
        let bounds = cuts(par, m, rows, m * n * depth.max(1));
        par.run(cut_mut(out, n, &bounds), |(start, out)| {
            let end = start + out.len() / n;
            for (first, block) in (start..end).step_by(rows).zip(out.chunks_mut(rows * n)) {
                let next = (first + rows).min(end)..(first + 2 * rows).min(end);
                let ahead = Ahead::NONE.write(block.as_ptr_range().end, next.len() * n);
                self.make(first, block, add, self.reads(next, ahead));
            }
        });
    }

    /// Hands the buffers back.
    pub(crate) fn recycle(self, par: &Par) {
        par.recycle(self.packed);
    }
}

/// Bounds of the runs of `m` rows that threads take: whole blocks of `rows`, for so many
/// multiply-adds in all.
pub(crate) fn cuts(par: &Par, m: usize, rows: usize, work: usize) -> Vec<usize> {
    let parts = if par.threads() == 1 || work <= SMALL {
        1
    } else {
        (par.threads() * 8).min(m.div_ceil(rows))
    };
    let bounds = split_rows(m.div_ceil(rows), parts).into_iter();
    bounds.map(|b| (b * rows).min(m)).collect()
}

/// Packs the right operands of all pieces; returns the buffer and where each begins in it.
fn pack_all(
    par: &Par,
    shape: TileShape,
    pieces: &[Piece<'_>],
    (n, in_lanes): (usize, bool),
) -> (Vec<f32>, Vec<usize>) {
    let len = |p: &Piece<'_>| match in_lanes {
        true => lanes::packed_len(p.inner),
        false => shape.packed_len(p.inner, n).next_multiple_of(ALIGN),
    };
    let total: usize = pieces.iter().map(len).sum();
    let mut packed = par.scratch_of_any(total + ALIGN);
    let mut start = packed.as_ptr().align_offset(4 * ALIGN).min(ALIGN);
    let mut rest = &mut packed[start..];
    let (mut starts, mut jobs) = (Vec::with_capacity(pieces.len()), Vec::new());
    for p in pieces {
        let (to, tail) = std::mem::take(&mut rest).split_at_mut(len(p));
        rest = tail;
        starts.push(start);
        start += to.len();
        if in_lanes {
            lanes::pack(p.b, p.inner, n, to);
            continue;
        }
        let panels = to.chunks_mut(p.inner * shape.cols);
        jobs.extend((0..n).step_by(shape.cols).zip(panels).map(|j| (p, j)));
    }
    let pack = |(p, (first, to)): (&Piece<'_>, (usize, &mut [f32]))| {
        pack_panel(shape, p.b, [p.inner, n], first, to)
    };
    if total <= SMALL {
        jobs.into_iter().for_each(pack)
    } else {
        par.run(jobs, pack)
    }
    (packed, starts)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers in `[-1, 1]` that depend on position and seed.
    pub(crate) fn matrix(rows: usize, cols: usize, seed: u64) -> Mat {
        Mat::from_shape_fn((rows, cols), |(r, c)| {
            crate::hash::element(crate::hash::row(seed, r as u32), c as u32) as f32
                / 2_147_483_648.0
                - 1.0
        })
    }

    /// Panics unless every element is close to the reference, absolutely or relative to it.
    #[track_caller]
    pub(crate) fn close(got: &Mat, want: &Mat, tolerance: f32) {
        assert_eq!(got.dim(), want.dim());
        for (at, g) in got.indexed_iter() {
            let w = want[at];
            assert!(
                (g - w).abs() <= tolerance * w.abs().max(1.0),
                "{g} instead of {w} at {at:?}"
            );
        }
    }

    fn check(m: usize, n: usize, ks: &[(usize, bool, bool)], write: Write) {
        let mats: Vec<(Mat, Mat)> = ks
            .iter()
            .enumerate()
            .map(|(i, &(k, ta, tb))| {
                let turn = |r, c, t, seed| {
                    if t {
                        matrix(c, r, seed)
                    } else {
                        matrix(r, c, seed)
                    }
                };
                (
                    turn(m, k, ta, 2 * i as u64),
                    turn(k, n, tb, 2 * i as u64 + 1),
                )
            })
            .collect();
        let terms: Vec<_> = mats
            .iter()
            .zip(ks)
            .map(|((a, b), &(_, ta, tb))| Term { a, b, ta, tb })
            .collect();
        let bias = matrix(1, n, 99);
        let y = matrix(m, n, 98);
        let ids: Vec<u32> = (0..m as u32).map(|v| v * 3).collect();
        let thens = [
            Then::default(),
            Then {
                bias: Some(flat("", &bias)),
                act: Act::Relu,
                ..Then::default()
            },
            Then {
                dropout: Some(Dropout {
                    key: 5,
                    ids: &ids,
                    p: 0.4,
                }),
                gate: Some(Gate::Relu { y: &y, scale: 2.0 }),
                ..Then::default()
            },
        ];
        let start = match write {
            Write::Set => Mat::from_elem((m, n), f32::NAN),
            Write::Add => matrix(m, n, 97),
        };
        let inner: usize = ks.iter().map(|k| k.0).sum();
        let tolerance = 4e-6 * (inner as f32).sqrt().max(8.0);
        for then in thens {
            let mut want = start.clone();
            naive(&terms, write, then, &mut want);
            let run = |threads| {
                let mut got = start.clone();
                linear_into(&Par::new(threads), &terms, write, then, &mut got);
                got
            };
            let one = run(1);
            close(&one, &want, tolerance);
            for engine in Engine::available() {
                let mut got = start.clone();
                linear_at(engine, &Par::new(2), &terms, write, then, &mut got);
                close(&got, &want, tolerance);
            }
            for threads in [2, 3, 8] {
                assert_eq!(run(threads), one, "{threads} threads");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn linear_equals_naive(
            m in 0usize..150, n in 0usize..120, add: bool,
            ks in prop::collection::vec((0usize..130, any::<bool>(), any::<bool>()), 0..4),
        ) {
            check(m, n, &ks, if add { Write::Add } else { Write::Set });
        }
    }

    #[test]
    fn many_rows_many_blocks_and_long_inner_dimensions() {
        check(
            1500,
            33,
            &[(65, false, false), (17, false, true)],
            Write::Set,
        );
        check(
            70,
            9,
            &[(LONG + 5, true, false), (6, false, false)],
            Write::Add,
        );
        check(130, 300, &[(600, false, false)], Write::Set);
        check(
            45,
            50,
            &[(2100, false, true), (33, false, false)],
            Write::Add,
        );
    }

    #[test]
    #[should_panic(expected = "linear: expected op(b) with columns 5, got 4")]
    fn wrong_shapes_name_both_sides() {
        let (a, b) = (Mat::zeros((2, 3)), Mat::zeros((3, 4)));
        let term = Term {
            a: &a,
            b: &b,
            ta: false,
            tb: false,
        };
        linear_into(
            &Par::new(1),
            &[term],
            Write::Set,
            Then::default(),
            &mut Mat::zeros((2, 5)),
        );
    }
}
