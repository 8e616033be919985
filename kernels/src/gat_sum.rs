//! The inner loop of attention, forward and backward: sums over a run of edges of the rows that they gather,
//! each head's columns times a coefficient, and beside them the sums of those edges alone whose score is
//! positive. Coefficients are made in registers ([`Terms`]).
//!
//! Unsafe: loads and stores through pointers, behind checks in the same function.
#![allow(unsafe_code)]

use crate::gat_layout::{EACH, HALF, Layout, ONE, Part, TWICE, WHOLE, by_column, of_heads};
use crate::gat_pieces::{self as pieces, Coefficients};
use crate::spmm_tile::{AHEAD, prefetch_row};
use crate::vector::Vector;

/// Rows of `heads` heads of `width` columns that edges gather.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The first `heads·width` numbers of each row of `[n, stride]`.
    pub(crate) x: &'a [f32],
    pub(crate) n: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

impl Rows<'_> {
    /// Whether there are all of them.
    pub(crate) fn are_there(&self) -> bool {
        let d = self.heads * self.width;
        d <= self.stride && (self.n == 0 || (self.n - 1) * self.stride + d <= self.x.len())
    }
}

/// The rows that some edges gather, all of them below a bound.
#[derive(Clone, Copy)]
pub(crate) struct Gathered<'a> {
    rows: &'a [u32],
    /// The edge of the first of `rows`.
    first: usize,
    below: usize,
}

impl<'a> Gathered<'a> {
    /// Edges `span` of `indices`.
    ///
    /// # Panics
    /// When one of them gathers a row that is not below `n`.
    pub(crate) fn new(indices: &'a [u32], span: std::ops::Range<usize>, n: usize) -> Gathered<'a> {
        let rows = &indices[span.clone()];
        let most = rows.iter().fold(0, |m, &r| r.max(m)) as usize;
        assert!(
            rows.is_empty() || most < n,
            "attention: expected indices below {n}, got {most}"
        );
        Gathered {
            rows,
            first: span.start,
            below: n,
        }
    }

    /// Edges `span`, by their numbers in the graph, and those that follow, for what is asked for ahead.
    #[inline(always)]
    pub(crate) fn run(&self, span: std::ops::Range<usize>) -> Edges<'a> {
        let ahead = &self.rows[span.start - self.first..];
        Edges {
            rows: &ahead[..span.len()],
            ahead,
            below: self.below,
        }
    }
}

/// A run of edges: the rows that they gather, and those that will follow.
#[derive(Clone, Copy)]
pub(crate) struct Edges<'a> {
    rows: &'a [u32],
    /// `rows` and everything behind it, for prefetches.
    ahead: &'a [u32],
    below: usize,
}

impl<'a> Edges<'a> {
    /// The rows that they gather.
    #[inline(always)]
    pub(crate) fn rows(&self) -> &'a [u32] {
        self.rows
    }

    /// What they are below.
    #[inline(always)]
    pub(crate) fn below(&self) -> usize {
        self.below
    }

    /// The row of the edge [`AHEAD`] of the `i`-th of them. Behind the last edge, that one again: there is nothing to
    /// ask and no branch.
    ///
    /// # Safety
    /// There is an edge.
    #[inline(always)]
    pub(crate) unsafe fn later(&self, i: usize) -> usize {
        let last = self.ahead.len() - 1;
        // SAFETY: the last edge is one of them.
        unsafe { *self.ahead.get_unchecked((i + AHEAD).min(last)) as usize }
    }
}

/// What one edge adds, a lane for each head.
#[derive(Clone, Copy)]
pub(crate) struct Term<V> {
    /// The factor of the row.
    pub(crate) row: V,
    /// The same, or zero where the score is not positive.
    pub(crate) positive: V,
    /// To the total.
    pub(crate) total: V,
    /// To the total of positive scores.
    pub(crate) total_positive: V,
}

/// What is made of the sums when the last edge has been added.
#[derive(Clone, Copy)]
pub(crate) enum Close {
    /// Nothing.
    Not,
    /// All but the total are divided by the total.
    Divide,
    /// Sums of positive scores become the mean of both sums with weights `1 − slope` and `slope`: the
    /// derivative of LeakyReLU in each of their terms.
    Slope(f32),
}

/// Where coefficients come from.
///
/// # Safety of `own` and `term`
/// The caller runs at the level of `V`, has called [`Terms::check`] with the heads and rows of what is gathered, and
/// `head`, `head + lanes of the mask` are within the heads, `i` within the edges, `row` within the rows.
pub(crate) trait Terms<V: Vector>: Copy {
    /// What does not change from edge to edge, of the heads of a vector.
    type Own: Copy;
    /// Whether there are totals.
    const TOTALS: bool;

    /// Panics unless there is something for each of so many heads, rows and edges.
    fn check(&self, heads: usize, rows: usize, edges: usize);
    /// Loads what does not change.
    unsafe fn own<const HEADS: u8>(&self, head: usize, mask: V::Mask) -> Self::Own;
    /// What edge `i`, which gathers row `row`, adds.
    unsafe fn term<const HEADS: u8>(
        &self,
        own: &Self::Own,
        i: usize,
        row: usize,
        head: usize,
        mask: V::Mask,
    ) -> Term<V>;
    /// Asks for what the edges of this row need beside it.
    fn ask(&self, row: usize);
    /// By column, how many numbers for each head lie before the columns of a record.
    const NUMBERS: usize = 0;
    /// By column, where the record of a row begins; a pointer beyond them all for a row that is not there.
    fn record(&self, _row: usize) -> *const f32 {
        std::ptr::null()
    }
    /// By column, numbers from one record to the next.
    fn stride(&self) -> usize {
        0
    }
    /// Those that have been written, if they have.
    fn written(&self) -> Option<Coefficients<'_>> {
        None
    }
}

/// Sums of one row, which are added to unless they begin.
pub(crate) struct Sums<'a> {
    /// All edges: `[heads·width]`.
    pub(crate) row: &'a mut [f32],
    /// Positive scores: as many, or none.
    pub(crate) positive: &'a mut [f32],
    /// `[heads]`, or none.
    pub(crate) total: &'a mut [f32],
    /// `[heads]`, or none.
    pub(crate) total_positive: &'a mut [f32],
}

impl Sums<'_> {
    /// Zeros.
    pub(crate) fn clear(&mut self) {
        let Sums {
            row,
            positive,
            total,
            total_positive,
        } = self;
        [row, positive, total, total_positive]
            .into_iter()
            .for_each(|all| all.fill(0.0));
    }

    /// What [`sum`] makes of them behind the last edge, one by one: for sums that have seen it.
    pub(crate) fn close(&mut self, how: Close) {
        let width = self.row.len() / self.total.len();
        match how {
            Close::Not => {}
            Close::Divide => {
                let columns = self
                    .row
                    .iter_mut()
                    .zip(0..)
                    .chain(self.positive.iter_mut().zip(0..));
                columns.for_each(|(x, column)| *x *= 1.0 / self.total[column / width]);
                let shares = self.total_positive.iter_mut().zip(&*self.total);
                shares.for_each(|(x, total)| *x *= 1.0 / total);
            }
            Close::Slope(slope) => {
                let rows = self.positive.iter_mut().zip(&*self.row);
                let totals = self.total_positive.iter_mut().zip(&*self.total);
                rows.chain(totals)
                    .for_each(|(above, all)| *above = *above * (1.0 - slope) + all * slope);
            }
        }
    }
}

/// Which edges of a row a run has.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first ones: sums begin at zero.
    pub(crate) begins: bool,
    /// The last ones.
    pub(crate) close: Close,
}

/// Adds what the edges gather to the sums of one row; with `POSITIVE`, to those of positive scores, too.
/// `layout` is that of the rows of `x`, `room` its [`Layout::room`], and there are as many edges as it allows at a time,
/// if coefficients have not been written.
#[inline(always)]
pub(crate) fn sum<V: Vector, T: Terms<V>, const POSITIVE: bool>(
    x: Rows<'_>,
    edges: Edges<'_>,
    layout: &Layout<V>,
    terms: T,
    run: Run,
    room: &mut [Vec<f32>; 2],
    to: &mut Sums<'_>,
) {
    let d = x.heads * x.width;
    assert!(layout.is_of(x.heads, x.width) && edges.below <= x.n);
    assert!(x.are_there() && to.row.len() == d);
    assert!(!POSITIVE || to.positive.len() == d);
    if T::TOTALS {
        assert!(to.total.len() == x.heads && (!POSITIVE || to.total_positive.len() == x.heads));
    }
    terms.check(x.heads, edges.below, edges.rows.len());
    if V::BY_PIECES
        && let Some(pieces) = layout.pieces()
    {
        let by = match terms.written() {
            Some(by) => by,
            None => pieces::write::<V, T, POSITIVE>(pieces, edges, x.heads, terms, run, room, to),
        };
        return pieces::add::<POSITIVE>(pieces, x, edges, by, run, to);
    }
    for part in layout.parts() {
        macro_rules! by_vectors {
            ($($n:literal)*) => {
                match (part.vectors, part.how_many) {
                    $(($n, ONE) => of_part::<V, T, POSITIVE, $n, ONE>(x, edges, part, terms, run, to),
                    ($n, HALF) => of_part::<V, T, POSITIVE, $n, HALF>(x, edges, part, terms, run, to),
                    ($n, WHOLE) => of_part::<V, T, POSITIVE, $n, WHOLE>(x, edges, part, terms, run, to),)*
                    (n, _) => unreachable!("a part of {n} vectors"),
                }
            };
        }
        macro_rules! by_column {
            ($($n:literal)*) => {
                match (part.vectors, part.how_many) {
                    $(($n, EACH) => of_part::<V, T, POSITIVE, $n, EACH>(x, edges, part, terms, run, to),
                    ($n, TWICE) => of_part::<V, T, POSITIVE, $n, TWICE>(x, edges, part, terms, run, to),)*
                    (n, _) => unreachable!("a part of {n} vectors by column"),
                }
            };
        }
        match by_column(part.how_many) {
            true if V::BY_COLUMN && T::TOTALS => {
                let columns = terms.record(0).wrapping_add(T::NUMBERS * x.heads);
                assert!(columns == x.x.as_ptr() && terms.stride() == x.stride);
                by_column!(1 2 3 4);
            }
            true => unreachable!("rows of these vectors do not lie by column"),
            false => by_vectors!(1 2 3 4 8),
        }
    }
}

/// [`sum`] of one part of the columns; the caller has checked all lengths.
#[inline(always)]
fn of_part<V: Vector, T: Terms<V>, const POSITIVE: bool, const N: usize, const HEADS: u8>(
    x: Rows<'_>,
    edges: Edges<'_>,
    part: &Part<V>,
    terms: T,
    run: Run,
    to: &mut Sums<'_>,
) {
    let (head, stride) = (part.head, x.stride);
    let totals = T::TOTALS && part.totals;
    // A vector's lanes are those of the coefficients, and all of them are columns.
    let straight = by_column(HEADS);
    // SAFETY: this runs at the level of `V`, as making the layout proves. Columns of a part lie within those of a row
    // and its heads within all heads (`Layout::new`); edges gather rows below `edges.below`, of which `x` has as
    // many; `to` and `terms` have as many numbers as `sum` checked, and by column the rows of `x` lie where it checked.
    unsafe {
        let zero = V::splat(0.0);
        let own = terms.own::<HEADS>(head, part.heads);
        let (row, positive) = (
            to.row.as_mut_ptr().add(part.column),
            to.positive.as_mut_ptr().wrapping_add(part.column),
        );
        let (mut acc, mut above) = ([zero; N], [zero; N]);
        let (mut total, mut total_above) = (zero, zero);
        if !run.begins {
            acc = load::<V, N>(row, straight, part.tail);
            if POSITIVE {
                above = load::<V, N>(positive, straight, part.tail);
            }
            if totals {
                total = of_heads::<V, HEADS>(to.total.as_ptr().add(head), part.heads);
                if POSITIVE {
                    total_above =
                        of_heads::<V, HEADS>(to.total_positive.as_ptr().add(head), part.heads);
                }
            }
        }
        // Kept apart, so that they stay in registers.
        let (x, heads, tail) = (x.x.as_ptr().add(part.column), part.heads, part.tail);
        let head_of: [V::Lanes; N] = std::array::from_fn(|n| part.head_of[n]);
        let opens = part.column == 0;
        // Numbers before the columns of a record.
        let numbers = match HEADS {
            TWICE => T::NUMBERS * V::LANES / 2,
            _ => T::NUMBERS * V::LANES,
        };
        for (i, &r) in edges.rows.iter().enumerate() {
            let (r, next) = (r as usize, edges.later(i));
            let from = match straight {
                true => {
                    prefetch_row(terms.record(next), numbers + N * V::LANES);
                    terms.record(r).add(numbers)
                }
                false => {
                    prefetch_row(x.wrapping_add(next * stride), N * V::LANES);
                    if opens {
                        terms.ask(next);
                    }
                    x.add(r * stride)
                }
            };
            let term = terms.term::<HEADS>(&own, i, r, head, heads);
            if T::TOTALS {
                total = total.add(term.total);
                if POSITIVE {
                    total_above = total_above.add(term.total_positive);
                }
            }
            let from = load::<V, N>(from, straight, tail);
            for n in 0..N {
                let (mut p, mut q) = (term.row, term.positive);
                if HEADS != ONE && !straight {
                    p = p.pick(head_of[n]);
                    q = q.pick(head_of[n]);
                }
                acc[n] = from[n].mul_add(p, acc[n]);
                if POSITIVE {
                    above[n] = from[n].mul_add(q, above[n]);
                }
            }
        }
        match run.close {
            Close::Not => {}
            Close::Divide => {
                assert!(T::TOTALS, "a total to divide by");
                // The first part of these heads has left it there.
                if !totals {
                    total = of_heads::<V, HEADS>(to.total.as_ptr().add(head), part.heads);
                }
                let by = V::splat(1.0).over(total);
                for n in 0..N {
                    let by = match HEADS == ONE || straight {
                        true => by,
                        false => by.pick(part.head_of[n]),
                    };
                    acc[n] = acc[n].mul(by);
                    above[n] = above[n].mul(by);
                }
                total_above = total_above.mul(by);
            }
            Close::Slope(slope) => {
                let (one, other) = (V::splat(1.0 - slope), V::splat(slope));
                for n in 0..N {
                    above[n] = above[n].mul_add(one, acc[n].mul(other));
                }
                total_above = total_above.mul_add(one, total.mul(other));
            }
        }
        store::<V, N>(acc, row, straight, part.tail);
        if POSITIVE {
            store::<V, N>(above, positive, straight, part.tail);
        }
        if totals {
            total.store_first(to.total.as_mut_ptr().add(head), part.heads);
            if POSITIVE {
                let to = to.total_positive.as_mut_ptr().add(head);
                total_above.store_first(to, part.heads);
            }
        }
    }
}

/// `N` vectors at `p`, of which the last ends with `tail`, unless it is `whole`.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(p: *const f32, whole: bool, tail: V::Mask) -> [V; N] {
    // SAFETY: passed on to the caller.
    unsafe {
        let mut all = [V::splat(0.0); N];
        for (n, v) in all.iter_mut().enumerate().take(N - 1) {
            *v = V::load(p.add(n * V::LANES));
        }
        let last = p.add((N - 1) * V::LANES);
        all[N - 1] = match whole {
            true => V::load(last),
            false => V::load_first(last, tail),
        };
        all
    }
}

/// The store of [`load`].
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(all: [V; N], p: *mut f32, whole: bool, tail: V::Mask) {
    // SAFETY: passed on to the caller.
    unsafe {
        for (n, v) in all.iter().enumerate().take(N - 1) {
            v.store(p.add(n * V::LANES));
        }
        let (v, last) = (all[N - 1], p.add((N - 1) * V::LANES));
        match whole {
            true => v.store(last),
            false => v.store_first(last, tail),
        }
    }
}
