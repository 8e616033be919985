//! Backward of [`crate::gat`]: one pass over the transposed edges, and a sum over stored slopes.
//!
//! With `g` the gradient of `out` and `c[v, h] = ⟨g[v, h], out[v, h]⟩`, the softmax needs no pass of
//! its own: `ds_e = α_e (k_e ⟨g[v], z[u]⟩ − c[v]) · LeakyReLU'(s_e)`. Source by source, the row
//! `g[v]` is gathered once for both `dz[u]` and `ds_e`; coefficients are made again from the scores
//! and the kept `lse` (`gat_factors`). Only `ds: [edges, heads]` is stored, because the sums of the destinations
//! run over the edges in their other order.
//!
//! The caller completes `dz` with the scores' part ([`crate::gat_dense::score_backward_into`]).

use std::ops::Range;

use crate::gat::{Attention, check, chunk, destination_key, level_for};
use crate::gat_factors::{self as factors, PACKED};
use crate::gat_fused::{self, Source};
use crate::gat_scores::{Kept, again, drop_from, gather_sums, slopes};
use crate::gat_tile::{Block, Edges, Rows, blocks, gather_and_dot, products};
use crate::hubs::{Piece, pieces};
use crate::par::{cut_mut, split_edges};
use crate::simd::Level;
use crate::vector::{Vector, at_level};
use crate::{Csr, Mat, Par, expect_eq, expect_indptr, expect_rows, flat, flat_mut};

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
    /// Gradient of the score before its activation, edge by edge in the transposed order:
    /// `[edges, heads]`.
    pub ds: &'a mut [f32],
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

/// For the sources `u` in `rows`: `dz[u] = Σ α_e k_e g[v]` over the out-edges, `del[u] = Σ ds_e`,
/// and every out-edge's `ds_e`. Other sources stay as they are.
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
    let level = level_for(saved.z.ncols() / att.heads.max(1));
    source_pass_at(level, par, at, rows, att, saved, out);
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
    /// What an edge needs of its destination, in one place: `[n_dst, 4·heads]`.
    packed: &'a [f32],
    lse: &'a [f32],
}

/// Some sources, or some edges of one; `dz` and `del` are theirs, `ds` that of the edges.
struct Job<'o> {
    rows: Range<usize>,
    edges: Range<usize>,
    dz: &'o mut [f32],
    del: &'o mut [f32],
    ds: &'o mut [f32],
}

/// A hub: its parts among the partial results, and its outputs.
struct Hub<'o> {
    parts: Range<usize>,
    dz: &'o mut [f32],
    del: &'o mut [f32],
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
    let packed = pack(par, saved, heads, att.slope);
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
        },
        z: flat(OP, saved.z),
        el: flat(OP, saved.el),
        own: &own,
        packed: &packed,
        lse: flat(OP, saved.lse),
    };
    let pieces = pieces(at.indptr, rows.clone(), par.threads());
    let part = |p: &&Piece| matches!(p, Piece::Part { .. });
    let n_parts = pieces.iter().filter(part).count();
    let stride = d + heads;
    let mut scratch = par.scratch(n_parts * stride);
    let (jobs, hubs) = share_out(b, rows, pieces, out, &mut scratch);
    par.run(jobs, |job| {
        at_level!(level, run(b: &Backward<'_>, job: Job<'_>));
    });
    for hub in hubs {
        hub.dz.fill(0.0);
        hub.del.fill(0.0);
        for part in scratch[hub.parts.start * stride..hub.parts.end * stride].chunks_exact(stride) {
            for (to, from) in hub.dz.iter_mut().chain(hub.del.iter_mut()).zip(part) {
                *to += from;
            }
        }
    }
    par.recycle(scratch);
    par.recycle(packed);
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
    expect_eq(OP, "ds with numbers", at.n_edges() * heads, out.ds.len());
    expect_rows(OP, rows, n_src);
    width
}

/// [`Backward::packed`].
fn pack(par: &Par, saved: &Saved<'_>, heads: usize, slope: f32) -> Vec<f32> {
    let mut packed = par.scratch_of_any(saved.er.nrows() * PACKED * heads);
    let all = [saved.er, saved.lse, saved.c].map(|x| flat(OP, x));
    par.rows_mut(&mut packed, PACKED * heads, |first, to| {
        let rows = first * heads..first * heads + to.len() / PACKED;
        let [er, lse, c] = all.map(|x| &x[rows.clone()]);
        factors::pack_rows(er, lse, c, heads, slope, to);
    });
    packed
}

/// A job for each of `pieces` of the sources `rows`, with what it writes: rows of `out`, or for a part of
/// a hub a place in `scratch`, from which the hub is added up.
fn share_out<'o: 's, 's>(
    b: &Backward<'_>,
    rows: Range<usize>,
    pieces: Vec<Piece>,
    out: SourceGradients<'o>,
    scratch: &'s mut [f32],
) -> (Vec<Job<'s>>, Vec<Hub<'o>>) {
    let (indptr, heads, d) = (b.at.indptr, b.g.heads, b.g.heads * b.g.width);
    let mut dz = &mut flat_mut(OP, out.dz)[rows.start * d..rows.end * d];
    let mut del = &mut flat_mut(OP, out.del)[rows.start * heads..rows.end * heads];
    let mut take = |n: usize| {
        let (z, z_rest) = std::mem::take(&mut dz).split_at_mut(n * d);
        let (l, l_rest) = std::mem::take(&mut del).split_at_mut(n * heads);
        (dz, del) = (z_rest, l_rest);
        (z, l)
    };
    let first = indptr[rows.start] as usize;
    let mut ds = &mut out.ds[first * heads..indptr[rows.end] as usize * heads];
    let mut partials = scratch.chunks_exact_mut(d + heads);
    let (mut jobs, mut hubs, mut part) =
        (Vec::with_capacity(pieces.len()), Vec::<Hub<'_>>::new(), 0);
    for piece in pieces {
        let (rows, edges, dz, del) = match piece {
            Piece::Rows(rows) => {
                let edges = indptr[rows.start] as usize..indptr[rows.end] as usize;
                let (dz, del) = take(rows.len());
                (rows, edges, dz, del)
            }
            Piece::Part { row, edges } => {
                if edges.start as u64 == indptr[row] {
                    let (dz, del) = take(1);
                    hubs.push(Hub {
                        parts: part..part,
                        dz,
                        del,
                    });
                }
                part += 1;
                hubs.last_mut()
                    .expect("a hub's first part comes first")
                    .parts
                    .end = part;
                let partial = partials.next().expect("one for each part");
                let (dz, del) = partial.split_at_mut(d);
                (row..row + 1, edges, dz, del)
            }
        };
        let (mine, rest) = std::mem::take(&mut ds).split_at_mut(edges.len() * heads);
        ds = rest;
        jobs.push(Job {
            rows,
            edges,
            dz,
            del,
            ds: mine,
        });
    }
    (jobs, hubs)
}

/// Buffers for one run of edges: coefficients, coefficients times `c`, derivatives, dot products and what
/// they are sums of.
struct Buffers {
    p: Vec<f32>,
    pc: Vec<f32>,
    d: Vec<f32>,
    dots: Vec<f32>,
    products: Vec<f32>,
}

#[inline(always)]
fn run<V: Vector>(b: &Backward<'_>, job: Job<'_>) {
    let (heads, d) = (b.g.heads, b.g.heads * b.g.width);
    let blocks = blocks::<V>(heads, b.g.width);
    let empty = || vec![0.0; chunk(heads) * heads];
    let mut buffers = Buffers {
        p: empty(),
        pc: empty(),
        d: empty(),
        dots: empty(),
        products: vec![0.0; products::<V>(heads, b.g.width, chunk(heads))],
    };
    let mut ds = job.ds;
    let outputs = job
        .dz
        .chunks_exact_mut(d)
        .zip(job.del.chunks_exact_mut(heads));
    for (u, (dz, del)) in job.rows.zip(outputs) {
        let span = b.at.span(u);
        let edges = span.start.max(job.edges.start)..span.end.min(job.edges.end);
        let (mine, rest) = std::mem::take(&mut ds).split_at_mut(edges.len() * heads);
        ds = rest;
        dz.fill(0.0);
        del.fill(0.0);
        source::<V>(b, u, edges, &blocks, &mut buffers, (dz, del, mine));
    }
}

/// Some out-edges of source `u`.
#[inline(always)]
fn source<V: Vector>(
    b: &Backward<'_>,
    u: usize,
    edges: Range<usize>,
    blocks: &[Block],
    buffers: &mut Buffers,
    (dz, del, ds): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let (heads, d) = (b.g.heads, b.g.heads * b.g.width);
    let el = &b.el[u * heads..(u + 1) * heads];
    let own = &b.own[2 * u * heads..2 * (u + 1) * heads];
    let near = factors::near(el);
    let z = &b.z[u * d..(u + 1) * d];
    let step = buffers.p.len() / heads;
    let mut at = edges.start;
    for ds in ds.chunks_mut(step * heads) {
        let n = ds.len();
        let some = Edges::new(b.at.indices, at..at + n / heads);
        some.expect_below(b.g.n);
        let (p, pc) = (&mut buffers.p[..n], &mut buffers.pc[..n]);
        let (slope, dots) = (&mut buffers.d[..n], &mut buffers.dots[..n]);
        if near && gat_fused::fits::<V>(heads, b.g.width) {
            if let Some((kept, keys, src_ids)) = &b.drop {
                p.fill(1.0);
                drop_from(b.level, *kept, keys, src_ids[u], heads, some.rows, p);
            }
            let (source, kept) = (Source { el, own, z }, b.drop.is_some().then_some(&*p));
            gat_fused::backward::<V>(b.g, some, (b.packed, b.slope), source, kept, (dz, del, ds));
            at += n / heads;
            continue;
        }
        if near {
            factors::again(b.level, el, own, b.packed, b.slope, some, p, pc, slope);
        } else {
            again(
                b.level, el, b.packed, b.lse, b.slope, some.rows, p, pc, slope,
            );
        }
        if let Some((kept, keys, src_ids)) = &b.drop {
            drop_from(b.level, *kept, keys, src_ids[u], heads, some.rows, p);
        }
        let products = &mut buffers.products;
        gather_and_dot::<V>(b.g, some, p, z, blocks, dz, dots, products);
        slopes(b.level, p, dots, pc, slope, ds, del);
        at += n / heads;
    }
}

/// `der[v, h] = Σ ds` over the in-edges of `v` in their order. `indptr: [n_dst + 1]` and
/// `t_of: [edges]`, the position of each edge in the transposed order ([`Csr::transpose_map`]), are
/// of the original graph; `ds: [edges, heads]` is in the transposed order, `der: [n_dst, heads]`.
///
/// # Panics
/// When the shapes disagree or a position is not below the number of edges.
pub fn destination_sums(
    par: &Par,
    indptr: &[u64],
    t_of: &[u32],
    heads: usize,
    ds: &[f32],
    der: &mut Mat,
) {
    const OP: &str = "destination_sums";
    assert!(heads > 0, "{OP}: expected at least one head, got 0");
    expect_eq(OP, "der with rows", expect_indptr(OP, indptr), der.nrows());
    expect_eq(OP, "der with columns", heads, der.ncols());
    expect_eq(OP, "ds with numbers", t_of.len() * heads, ds.len());
    let n = der.nrows();
    expect_eq(OP, "positions", indptr[n] as usize, t_of.len());
    let parts = if par.threads() == 1 {
        1
    } else {
        par.threads() * 8
    };
    let bounds = split_edges(indptr, 0..n, parts);
    let level = Level::detect();
    par.run(
        cut_mut(flat_mut(OP, der), heads, &bounds),
        |(first, der)| {
            let indptr = &indptr[first..=first + der.len() / heads];
            let span = indptr[0] as usize..indptr[indptr.len() - 1] as usize;
            gather_sums(level, ds, indptr, &t_of[span], heads, der);
        },
    );
}
