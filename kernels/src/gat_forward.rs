//! Attention forward, row by row: [`crate::gat`] says what, `gat_sum` has the inner loop.

use std::ops::Range;
use std::slice::ChunksExact;

use crate::exp::{exp, ln};
use crate::gat::{Attention, Sums, check, chunk, destination_key};
use crate::gat_factors::{self as factors, FACTORS, OWN};
use crate::gat_layout::Layout;
use crate::gat_records::Records;
use crate::gat_scores::{Kept, drop_to, part_positive, powers, scores};
use crate::gat_sum::{Close, Edges, Gathered, Rows, Run, Sums as RowSums, sum};
use crate::gat_written::Written;
use crate::hubs::{reduce_rows, within};
use crate::simd::Level;
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, expect_rows, flat, flat_mut};

/// What every row of one forward call needs.
struct Forward<'a> {
    level: Level,
    a: Csr<'a>,
    att: &'a Attention<'a>,
    kept: Option<Kept>,
    z: Rows<'a>,
    el: &'a [f32],
    er: &'a [f32],
    /// The sources with factors of their exponentials.
    records: &'a Records<'a>,
}

const OP: &str = "gat";

/// [`forward_into`] at a level that the processor supports.
pub(crate) fn forward_at(
    level: Level,
    par: &Par,
    a: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    (z, el, er): (&Mat, &Mat, &Mat),
    to: Sums<'_>,
) {
    let width = check(OP, att, (a.rows(), a.n_cols), z, el, er);
    let (heads, d) = (att.heads, z.ncols());
    let expect = |name: &str, m: &Mat, columns| {
        expect_eq(OP, &format!("{name} with rows"), a.rows(), m.nrows());
        expect_eq(OP, &format!("{name} with columns"), columns, m.ncols());
    };
    expect("lse", to.lse, heads);
    expect("out", to.out, d);
    if let Some(positive) = &to.positive {
        expect("out of positive scores", positive.out, d);
        expect("share of positive scores", positive.share, heads);
    }
    expect_rows(OP, &rows, a.rows());
    if rows.is_empty() || d == 0 {
        return;
    }
    let edges = a.span(rows.end - 1).end - a.span(rows.start).start;
    let score = flat(OP, el);
    let records = Records::of(
        (level, par),
        z,
        heads,
        FACTORS,
        edges,
        |sources, stride, to| {
            let el = &score[sources.start * heads..sources.end * heads];
            factors::source_rows(el, heads, att.slope, stride, to);
        },
    );
    let f = &Forward {
        level,
        a,
        att,
        kept: att.dropout.map(|d| d.kept()),
        z: Rows {
            x: flat(OP, z),
            n: a.n_cols,
            heads,
            width,
            stride: d,
        },
        el: score,
        er: flat(OP, er),
        records: &records,
    };
    let of = |m, columns| {
        let all: &mut [f32] = flat_mut(OP, m);
        (&mut all[rows.start * columns..rows.end * columns], columns)
    };
    let (lse, out) = (of(to.lse, heads), of(to.out, d));
    let join = |to: Outs<'_>, parts: ChunksExact<'_, f32>| join(heads, d, to, parts);
    match to.positive {
        Some(positive) => {
            let outs = [lse, out, of(positive.out, d), of(positive.share, heads)];
            let sums = |rows: Range<usize>, edges: Range<usize>, outs: Outs<'_>| {
                at_level!(
                    level,
                    with_positive(f: &Forward<'_>, rows: Range<usize>, edges: Range<usize>, outs: Outs<'_>)
                );
            };
            reduce_rows(par, a.indptr, rows.clone(), outs, sums, join);
        }
        None => {
            let outs = [lse, out, (&mut [][..], 0), (&mut [][..], 0)];
            let sums = |rows: Range<usize>, edges: Range<usize>, outs: Outs<'_>| {
                at_level!(
                    level,
                    without(f: &Forward<'_>, rows: Range<usize>, edges: Range<usize>, outs: Outs<'_>)
                );
            };
            reduce_rows(par, a.indptr, rows.clone(), outs, sums, join);
        }
    }
    records.done(par);
}

/// Rows of `lse`, `out` and, where they are asked for, of both of [`Positive`].
type Outs<'a> = [&'a mut [f32]; 4];

#[inline(always)]
fn with_positive<V: Vector>(
    f: &Forward<'_>,
    rows: Range<usize>,
    edges: Range<usize>,
    outs: Outs<'_>,
) {
    run::<V, true>(f, rows, edges, outs);
}

#[inline(always)]
fn without<V: Vector>(f: &Forward<'_>, rows: Range<usize>, edges: Range<usize>, outs: Outs<'_>) {
    run::<V, false>(f, rows, edges, outs);
}

/// Rows whose factors and logarithms are made together.
const TOGETHER: usize = 32;

/// Numbers for some edges of one row.
struct Buffers {
    /// [`Layout::room`].
    room: [Vec<f32>; 2],
    /// Factors of dropout, or coefficients: `[edges, heads]`.
    p: Vec<f32>,
    /// Scores, then coefficients of positive ones: `[edges, heads]`.
    positive: Vec<f32>,
    /// The largest scores before these edges: `[heads]`.
    before: Vec<f32>,
}

/// What those of the edges of `rows` give that lie in `edges`.
#[inline(always)]
fn run<V: Vector, const POSITIVE: bool>(
    f: &Forward<'_>,
    rows: Range<usize>,
    edges: Range<usize>,
    [lse, out, positive, share]: Outs<'_>,
) {
    let (heads, d) = (f.z.heads, f.z.heads * f.z.width);
    // Where nobody asks, these are empty.
    let (wide, narrow) = if POSITIVE { (d, heads) } else { (0, 0) };
    let gathered = Gathered::new(f.a.indices, edges.clone(), f.z.n);
    // SAFETY: this runs at the level of `V`.
    #[allow(unsafe_code)]
    let (layout, of_records) = unsafe {
        (
            &Layout::<V>::new(heads, f.z.width),
            &f.records.layout::<V>(),
        )
    };
    let room = || vec![0.0; chunk(heads) * heads];
    let mut buffers = Buffers {
        room: layout.room(),
        p: room(),
        positive: room(),
        before: vec![0.0; heads],
    };
    let (mut m, mut t) = ([0.0; TOGETHER].repeat(heads), [0.0; TOGETHER].repeat(heads));
    let mut own = vec![0.0; TOGETHER * OWN * heads];
    let (x, mut laid) = (f.records.rows(), f.records.room());
    let mut made = factors::room(TOGETHER, heads);
    for first in rows.clone().step_by(TOGETHER) {
        let some = first..(first + TOGETHER).min(rows.end);
        let er = &f.er[some.start * heads..some.end * heads];
        let (m, t) = (&mut m[..er.len()], &mut t[..er.len()]);
        factors::of_destinations(f.level, er, heads, f.att.slope, m, &mut own, &mut made);
        for (k, r) in some.clone().enumerate() {
            let (at, h) = (r - rows.start, k * heads..(k + 1) * heads);
            let mut sums = RowSums {
                row: &mut out[at * d..(at + 1) * d],
                positive: &mut positive[at * wide..(at + 1) * wide],
                total: &mut t[h.clone()],
                total_positive: &mut share[at * narrow..(at + 1) * narrow],
            };
            let span = within(f.a.span(r), &edges);
            if span.is_empty() {
                sums.row.fill(0.0);
                sums.positive.fill(0.0);
                sums.total_positive.fill(0.0);
                // Whose logarithm is zero.
                sums.total.fill(1.0);
                m[h].fill(f32::NEG_INFINITY);
                continue;
            }
            let own = &own[k * OWN * heads..(k + 1) * OWN * heads];
            let of = (r, span, gathered);
            let mut to = f.records.sums(&mut laid, &mut sums);
            by_factors::<V, POSITIVE>(f, of.clone(), own, (x, of_records), &mut buffers, &mut to);
            f.records.lay_back(&laid, &mut sums);
            if !factors::good(sums.total) {
                by_largest::<V, POSITIVE>(f, of, layout, &mut buffers, &mut m[h], &mut sums);
            }
        }
        let to = &mut lse[(some.start - rows.start) * heads..(some.end - rows.start) * heads];
        for ((lse, &m), &t) in to.iter_mut().zip(&*m).zip(&*t) {
            *lse = m + ln(t);
        }
    }
}

/// A row, its edges, and what they gather.
type Of<'a> = (usize, Range<usize>, Gathered<'a>);

/// The sums of one row by factors of exponentials; without dropout in one go.
#[inline(always)]
fn by_factors<V: Vector, const POSITIVE: bool>(
    f: &Forward<'_>,
    (r, span, gathered): Of<'_>,
    own: &[f32],
    (x, layout): (Rows<'_>, &Layout<V>),
    buffers: &mut Buffers,
    sums: &mut RowSums<'_>,
) {
    let heads = f.z.heads;
    let most = match f.kept {
        Some(_) => chunk(heads),
        None => span.len(),
    };
    let step = layout.edges_at_a_time().min(most);
    for at in span.clone().step_by(step) {
        let end = (at + step).min(span.end);
        let edges = gathered.run(at..end);
        let run = Run {
            begins: at == span.start,
            close: if end == span.end {
                Close::Divide
            } else {
                Close::Not
            },
        };
        let kept = if f.kept.is_some() {
            (end - at) * heads
        } else {
            0
        };
        let kept = &mut buffers.p[..kept];
        kept.fill(1.0);
        if drop_out(f, r, edges, kept) {
            let terms = terms::<true>(f, own, kept);
            sum::<V, _, POSITIVE>(x, edges, layout, terms, run, &mut buffers.room, sums);
        } else {
            let terms = terms::<false>(f, own, &[]);
            sum::<V, _, POSITIVE>(x, edges, layout, terms, run, &mut buffers.room, sums);
        }
    }
}

fn terms<'a, const DROPS: bool>(
    f: &'a Forward<'_>,
    own: &'a [f32],
    kept: &'a [f32],
) -> factors::Forward<'a, DROPS> {
    factors::Forward {
        from: f.records.numbers(),
        stride: f.records.stride(),
        own,
        kept,
        heads: f.z.heads,
    }
}

/// The sums of one row relative to the largest score so far, `m: [heads]`; they are rescaled when a larger one
/// comes.
#[inline(always)]
fn by_largest<V: Vector, const POSITIVE: bool>(
    f: &Forward<'_>,
    (r, span, gathered): Of<'_>,
    layout: &Layout<V>,
    buffers: &mut Buffers,
    m: &mut [f32],
    sums: &mut RowSums<'_>,
) {
    let heads = f.z.heads;
    let er = &f.er[r * heads..(r + 1) * heads];
    let mut ignored = vec![0.0; heads];
    m.fill(f32::NEG_INFINITY);
    sums.clear();
    for at in span.clone().step_by(chunk(heads)) {
        let edges = gathered.run(at..(at + chunk(heads)).min(span.end));
        let n = edges.rows().len() * heads;
        let (p, positive) = (&mut buffers.p[..n], &mut buffers.positive[..n]);
        buffers.before.copy_from_slice(m);
        scores(f.level, f.el, er, f.att.slope, edges.rows(), p, m);
        if at > span.start && buffers.before != m {
            rescale(&buffers.before, m, sums);
        }
        positive.copy_from_slice(p);
        powers(f.level, m, p);
        let total_positive = if POSITIVE {
            &mut *sums.total_positive
        } else {
            &mut ignored[..]
        };
        part_positive(f.level, p, positive, sums.total, total_positive);
        drop_out(f, r, edges, p);
        drop_out(f, r, edges, positive);
        let terms = Written {
            row: p,
            positive,
            heads,
        };
        let run = Run {
            begins: false,
            close: Close::Not,
        };
        sum::<V, _, POSITIVE>(f.z, edges, layout, terms, run, &mut buffers.room, sums);
    }
    sums.close(Close::Divide);
}

/// Multiplies `p: [edges, heads]` by the dropout factors of the edges to row `r`; whether there are any.
#[inline(always)]
fn drop_out(f: &Forward<'_>, r: usize, edges: Edges<'_>, p: &mut [f32]) -> bool {
    let (Some(kept), Some(drop)) = (f.kept, f.att.dropout) else {
        return false;
    };
    let key = destination_key(drop.key, drop.dst_ids[r]);
    drop_to(f.level, kept, key, drop.src_ids, f.z.heads, edges.rows(), p);
    true
}

/// Takes sums relative to the maxima `before` to those relative to `m`.
fn rescale(before: &[f32], m: &[f32], sums: &mut RowSums<'_>) {
    let width = sums.row.len() / m.len();
    for h in 0..m.len() {
        let by = exp(before[h] - m[h]);
        let columns = h * width..(h + 1) * width;
        let rows = sums.row[columns.clone()].iter_mut();
        let positive = sums.positive.get_mut(columns).into_iter().flatten();
        rows.chain(positive).for_each(|o| *o *= by);
        sums.total[h] *= by;
        sums.total_positive
            .get_mut(h)
            .into_iter()
            .for_each(|t| *t *= by);
    }
}

/// Joins the parts of a hub in their order, each of them closed: the logarithms of their denominators are
/// their weights.
fn join(
    heads: usize,
    d: usize,
    [lse, out, positive, share]: Outs<'_>,
    parts: ChunksExact<'_, f32>,
) {
    let width = d / heads;
    let mut m = vec![f32::NEG_INFINITY; heads];
    for part in parts.clone() {
        for (m, &other) in m.iter_mut().zip(part) {
            *m = m.max(other);
        }
    }
    let mut t = vec![0.0; heads];
    for part in parts.clone() {
        for h in 0..heads {
            t[h] += exp(part[h] - m[h]);
        }
    }
    for (lse, (&m, &t)) in lse.iter_mut().zip(m.iter().zip(&t)) {
        *lse = m + ln(t);
    }
    out.fill(0.0);
    positive.fill(0.0);
    share.fill(0.0);
    for part in parts {
        let (of_part, rest) = part.split_at(heads);
        let (sums, rest) = rest.split_at(d);
        let (sums_positive, shares) = rest.split_at(positive.len());
        for h in 0..heads {
            let weight = exp(of_part[h] - m[h]) / t[h];
            let columns = h * width..(h + 1) * width;
            for (to, from) in [(&mut *out, sums), (&mut *positive, sums_positive)] {
                let from = from.get(columns.clone()).into_iter().flatten();
                let to = to.get_mut(columns.clone()).into_iter().flatten();
                to.zip(from).for_each(|(to, from)| *to += weight * from);
            }
            share
                .get_mut(h)
                .into_iter()
                .for_each(|to| *to += weight * shares[h]);
        }
    }
}
