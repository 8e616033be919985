//! Backward of [`crate::gat`]: one pass over the transposed edges, and one over the rows of destinations.
//!
//! With `g` the gradient of `out` and `c[v, h] = ⟨g[v, h], out[v, h]⟩`, the gradient of an edge's score before its
//! activation is `ds_e = α_e (k_e ⟨g[v], z[u]⟩ − c[v]) · LeakyReLU'(s_e)`. No edge's is made: LeakyReLU' is one for
//! positive scores and the slope for others, so that a source's sum of them is a product of `z[u]` with two sums of
//! rows that `dz[u]` needs anyway, one of them of positive scores alone, and a destination's follows from forward's
//! ([`crate::gat_dense::destination_pass`]). Coefficients are made again from the scores and the kept `lse` (`gat_factors`).
//!
//! The caller completes `dz` with the scores' part ([`crate::gat_dense::score_backward_into`]).

use std::ops::Range;

use crate::gat::{Attention, check, chunk, destination_key};
use crate::gat_factors::{self as factors, PACKED};
use crate::gat_layout::Layout;
use crate::gat_records::Records;
use crate::gat_scores::{Kept, again, drop_from, part_positive};
use crate::gat_sum::{Close, Gathered, Rows, Run, Sums, sum};
use crate::gat_written::Written;
use crate::head_dots::{ask_ahead, head_dots};
use crate::hubs::{reduce_rows, within};
use crate::simd::Level;
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, expect_rows, flat, flat_mut};

/// What backward reads beside the graph.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Projected sources: `[n_src, heads·width]`.
    pub z: &'a Mat,
    /// Source scores: `[n_src, heads]`.
    pub el: &'a Mat,
    /// Destination scores: `[n_dst, heads]`.
    pub er: &'a Mat,
    /// Logarithms of the softmax's denominators: `[n_dst, heads]`.
    pub lse: &'a Mat,
    /// `⟨g[v, h], out[v, h]⟩`: `[n_dst, heads]`.
    pub c: &'a Mat,
    /// Gradient of the output: `[n_dst, heads·width]`.
    pub g: &'a Mat,
}

/// What [`source_pass`] writes.
#[derive(Debug)]
pub struct SourceGradients<'a> {
    /// The aggregation's part of the gradient of `z`: `[n_src, heads·width]`.
    pub dz: &'a mut Mat,
    /// Gradient of `el`: `[n_src, heads]`.
    pub del: &'a mut Mat,
}

/// Gradients of the scalar reference, in double precision.
#[derive(Debug)]
pub struct NaiveGradients {
    /// As [`SourceGradients::dz`].
    pub dz: ndarray::Array2<f64>,
    /// Gradient of `el`.
    pub del: ndarray::Array2<f64>,
    /// Gradient of `er`.
    pub der: ndarray::Array2<f64>,
}

/// Scalar reference in double precision: the gradients of `Σ g · out` by the chain rule, softmax by
/// its full Jacobian.
pub fn naive(
    a: Csr<'_>,
    att: &Attention<'_>,
    z: &ndarray::Array2<f64>,
    el: &ndarray::Array2<f64>,
    er: &ndarray::Array2<f64>,
    g: &ndarray::Array2<f64>,
) -> NaiveGradients {
    let (heads, width) = (att.heads, z.ncols() / att.heads);
    let mut out = NaiveGradients {
        dz: ndarray::Array2::zeros(z.dim()),
        del: ndarray::Array2::zeros(el.dim()),
        der: ndarray::Array2::zeros(er.dim()),
    };
    for v in 0..a.rows() {
        for h in 0..heads {
            let sources: Vec<usize> = a.span(v).map(|e| a.indices[e] as usize).collect();
            let raw: Vec<f64> = sources.iter().map(|&u| el[[u, h]] + er[[v, h]]).collect();
            let slope = |x: f64| if x > 0.0 { 1.0 } else { f64::from(att.slope) };
            let powers: Vec<f64> = raw.iter().map(|&x| (x * slope(x)).exp()).collect();
            let total: f64 = powers.iter().sum();
            let mut dalpha = Vec::new();
            for (&u, p) in sources.iter().zip(&powers) {
                let k = f64::from(crate::gat::factor(att, v, u, h));
                let columns = h * width..(h + 1) * width;
                dalpha.push(k * columns.clone().map(|c| g[[v, c]] * z[[u, c]]).sum::<f64>());
                columns.for_each(|c| out.dz[[u, c]] += p / total * k * g[[v, c]]);
            }
            for (i, &u) in sources.iter().enumerate() {
                let mut ds = 0.0;
                for (j, dalpha) in dalpha.iter().enumerate() {
                    let same = if i == j { 1.0 } else { 0.0 };
                    ds += dalpha * powers[j] / total * (same - powers[i] / total);
                }
                ds *= slope(raw[i]);
                out.del[[u, h]] += ds;
                out.der[[v, h]] += ds;
            }
        }
    }
    out
}

/// For the sources `u` in `rows`: `dz[u] = Σ α_e k_e g[v]` over the out-edges, and `del[u] = Σ ds_e`. Other
/// sources stay as they are.
///
/// `at: [n_src, n_dst]` is the transposed graph; its weights are not used.
///
/// # Panics
/// When the shapes disagree, `rows` exceeds `n_src`, an index of `at` is not below `n_dst`, or a
/// setting is out of range.
pub fn source_pass(
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    saved: &Saved<'_>,
    out: SourceGradients<'_>,
) {
    source_pass_at(Level::detect(), par, at, rows, att, saved, out);
}

/// What every source of one call needs.
struct Backward<'a> {
    level: Level,
    at: Csr<'a>,
    slope: f32,
    drop: Option<(Kept, Vec<u64>, &'a [u32])>,
    g: Rows<'a>,
    z: &'a [f32],
    el: &'a [f32],
    /// Factors of its exponentials: `[n_src, 2·heads]`.
    own: &'a [f32],
    /// The destinations with what an edge needs of them beside `g`.
    records: &'a Records<'a>,
    lse: &'a [f32],
}

/// [`source_pass`] at a level that the processor supports.
pub(crate) fn source_pass_at(
    level: Level,
    par: &Par,
    at: Csr<'_>,
    rows: Range<usize>,
    att: &Attention<'_>,
    saved: &Saved<'_>,
    out: SourceGradients<'_>,
) {
    let width = check_all(at, &rows, att, saved, &out);
    let (heads, d) = (att.heads, saved.z.ncols());
    if rows.is_empty() || d == 0 {
        return;
    }
    let edges = at.span(rows.end - 1).end - at.span(rows.start).start;
    let all = [saved.er, saved.lse, saved.c].map(|x| flat(OP, x));
    let write = |to: Range<usize>, stride, packed: &mut [f32]| {
        let [er, lse, c] = all.map(|x| &x[to.start * heads..to.end * heads]);
        factors::pack_rows(er, lse, c, heads, att.slope, stride, packed);
    };
    let records = Records::of((level, par), saved.g, heads, PACKED, edges, write);
    let own = factors::of_sources(par, flat(OP, saved.el), heads, att.slope);
    let drop = att.dropout.map(|d| {
        let keys = d
            .dst_ids
            .iter()
            .map(|&v| destination_key(d.key, v))
            .collect();
        (d.kept(), keys, d.src_ids)
    });
    let b = &Backward {
        level,
        at,
        slope: att.slope,
        drop,
        g: Rows {
            x: flat(OP, saved.g),
            n: at.n_cols,
            heads,
            width,
            stride: d,
        },
        z: flat(OP, saved.z),
        el: flat(OP, saved.el),
        own: &own,
        records: &records,
        lse: flat(OP, saved.lse),
    };
    let dz = &mut flat_mut(OP, out.dz)[rows.start * d..rows.end * d];
    let del = &mut flat_mut(OP, out.del)[rows.start * heads..rows.end * heads];
    let sums = |rows: Range<usize>, edges: Range<usize>, outs: [&mut [f32]; 2]| {
        at_level!(
            level,
            run(b: &Backward<'_>, rows: Range<usize>, edges: Range<usize>, outs: [&mut [f32]; 2])
        );
    };
    let outs = [(dz, d), (del, heads)];
    reduce_rows(par, at.indptr, rows, outs, sums, |[dz, del], parts| {
        dz.fill(0.0);
        del.fill(0.0);
        for part in parts {
            let to = dz.iter_mut().chain(del.iter_mut());
            to.zip(part).for_each(|(to, from)| *to += from);
        }
    });
    records.done(par);
    par.recycle(own);
}

const OP: &str = "gat_backward";

/// Checks the shapes of one call and returns the width of a head.
fn check_all(
    at: Csr<'_>,
    rows: &Range<usize>,
    att: &Attention<'_>,
    saved: &Saved<'_>,
    out: &SourceGradients<'_>,
) -> usize {
    let Saved {
        z,
        el,
        er,
        lse,
        c,
        g,
    } = *saved;
    let (n_src, n_dst) = (at.rows(), at.n_cols);
    let width = check(OP, att, (n_dst, n_src), z, el, er);
    let (heads, d) = (att.heads, z.ncols());
    for (name, m, columns) in [("lse", lse, heads), ("c", c, heads), ("g", g, d)] {
        expect_eq(OP, &format!("{name} with rows"), n_dst, m.nrows());
        expect_eq(OP, &format!("{name} with columns"), columns, m.ncols());
    }
    expect_eq(OP, "dz with rows", n_src, out.dz.nrows());
    expect_eq(OP, "dz with columns", d, out.dz.ncols());
    expect_eq(OP, "del with rows", n_src, out.del.nrows());
    expect_eq(OP, "del with columns", heads, out.del.ncols());
    expect_rows(OP, rows, n_src);
    width
}

/// Numbers for some edges of one source: factors of dropout or coefficients, positive ones and those times
/// `c`, all `[edges, heads]`.
struct Buffers {
    /// [`Layout::room`].
    room: [Vec<f32>; 2],
    p: Vec<f32>,
    positive: Vec<f32>,
    pc: Vec<f32>,
    pc_positive: Vec<f32>,
}

/// What those of the edges of the sources `rows` give that lie in `edges`.
#[inline(always)]
fn run<V: Vector>(
    b: &Backward<'_>,
    rows: Range<usize>,
    edges: Range<usize>,
    [dz, del]: [&mut [f32]; 2],
) {
    let (heads, d) = (b.g.heads, b.g.heads * b.g.width);
    let gathered = Gathered::new(b.at.indices, edges.clone(), b.g.n);
    // SAFETY: this runs at the level of `V`.
    #[allow(unsafe_code)]
    let (layout, of_records) = unsafe {
        (
            &Layout::<V>::new(heads, b.g.width),
            &b.records.layout::<V>(),
        )
    };
    let room = || vec![0.0; chunk(heads) * heads];
    let mut buffers = Buffers {
        room: layout.room(),
        p: room(),
        positive: room(),
        pc: room(),
        pc_positive: room(),
    };
    // Sums with the activation's derivative, `[heads·width]`, totals and theirs.
    let (mut mix, mut total, mut total_mix) = (vec![0.0; d], vec![0.0; heads], vec![0.0; heads]);
    let (x, mut laid) = (b.records.rows(), b.records.room());
    let outputs = dz.chunks_exact_mut(d).zip(del.chunks_exact_mut(heads));
    for (u, (dz, del)) in rows.zip(outputs) {
        let span = within(b.at.span(u), &edges);
        if span.is_empty() {
            dz.fill(0.0);
            del.fill(0.0);
            continue;
        }
        let z = &b.z[u * d..(u + 1) * d];
        ask_ahead(z);
        let of = (u, span, gathered);
        let mut sums = Sums {
            row: dz,
            positive: &mut mix,
            total: &mut total,
            total_positive: &mut total_mix,
        };
        if factors::near(&b.el[u * heads..(u + 1) * heads]) {
            let mut to = b.records.sums(&mut laid, &mut sums);
            by_factors::<V>(b, of, (x, of_records), &mut buffers, &mut to);
            b.records.lay_back(&laid, &mut sums);
        } else {
            by_exponentials::<V>(b, of, layout, &mut buffers, &mut sums);
        }
        head_dots::<V>(z, &mix, b.g.width, del);
        for (del, total) in del.iter_mut().zip(&total_mix) {
            *del -= total;
        }
    }
}

/// A source, its edges, and what they gather.
type Of<'a> = (usize, Range<usize>, Gathered<'a>);

/// The sums of one source's edges by factors of exponentials; without dropout in one go.
#[inline(always)]
fn by_factors<V: Vector>(
    b: &Backward<'_>,
    (u, span, gathered): Of<'_>,
    (x, layout): (Rows<'_>, &Layout<V>),
    buffers: &mut Buffers,
    sums: &mut Sums<'_>,
) {
    let heads = b.g.heads;
    let most = match b.drop {
        Some(_) => chunk(heads),
        None => span.len(),
    };
    let step = layout.edges_at_a_time().min(most);
    for at in span.clone().step_by(step) {
        let end = (at + step).min(span.end);
        let edges = gathered.run(at..end);
        let run = Run {
            begins: at == span.start,
            close: match end == span.end {
                true => Close::Slope(b.slope),
                false => Close::Not,
            },
        };
        if let Some((kept, keys, src_ids)) = &b.drop {
            let p = &mut buffers.p[..(end - at) * heads];
            p.fill(1.0);
            drop_from(b.level, *kept, keys, src_ids[u], heads, edges.rows(), p);
            let terms = terms::<true>(b, u, p);
            sum::<V, _, true>(x, edges, layout, terms, run, &mut buffers.room, sums);
        } else {
            let terms = terms::<false>(b, u, &[]);
            sum::<V, _, true>(x, edges, layout, terms, run, &mut buffers.room, sums);
        }
    }
}

fn terms<'a, const DROPS: bool>(
    b: &'a Backward<'_>,
    u: usize,
    kept: &'a [f32],
) -> factors::Backward<'a, DROPS> {
    let heads = b.g.heads;
    factors::Backward {
        packed: b.records.numbers(),
        stride: b.records.stride(),
        el: &b.el[u * heads..(u + 1) * heads],
        own: &b.own[2 * u * heads..2 * (u + 1) * heads],
        kept,
    }
}

/// The same by an exponential for each edge.
#[inline(always)]
fn by_exponentials<V: Vector>(
    b: &Backward<'_>,
    (u, span, gathered): Of<'_>,
    layout: &Layout<V>,
    buffers: &mut Buffers,
    sums: &mut Sums<'_>,
) {
    let heads = b.g.heads;
    let el = &b.el[u * heads..(u + 1) * heads];
    sums.clear();
    for at in span.clone().step_by(chunk(heads)) {
        let edges = gathered.run(at..(at + chunk(heads)).min(span.end));
        let n = edges.rows().len() * heads;
        let [p, positive, pc, pc_positive] = [
            &mut buffers.p,
            &mut buffers.positive,
            &mut buffers.pc,
            &mut buffers.pc_positive,
        ]
        .map(|all| &mut all[..n]);
        again(
            b.level,
            el,
            (b.records.numbers(), b.records.stride()),
            b.lse,
            b.slope,
            edges.rows(),
            p,
            positive,
            pc,
        );
        pc_positive.copy_from_slice(positive);
        part_positive(b.level, pc, pc_positive, sums.total, sums.total_positive);
        if let Some((kept, keys, src_ids)) = &b.drop {
            drop_from(b.level, *kept, keys, src_ids[u], heads, edges.rows(), p);
        }
        positive_of(p, positive);
        let terms = Written {
            row: p,
            positive,
            heads,
        };
        let run = Run {
            begins: false,
            close: Close::Not,
        };
        sum::<V, _, true>(b.g, edges, layout, terms, run, &mut buffers.room, sums);
    }
    sums.close(Close::Slope(b.slope));
}

/// `p` where `by` is positive, zero elsewhere, in the place of `by`.
#[inline(always)]
fn positive_of(p: &[f32], by: &mut [f32]) {
    for (by, &p) in by.iter_mut().zip(p) {
        *by = if *by > 0.0 { p } else { 0.0 };
    }
}
