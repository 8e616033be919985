//! Attention: `gat.cu` and `edges.cu`.

use super::spmm::{SET, combine};
use super::{optional, variant, vector, word};
use crate::cuda::sparse::Items;
use crate::cuda::{Arg, Buf, SparseOn};
use crate::expect_eq;
use std::ops::Range;

/// Attention dropout, by counters of both ends' global ids.
#[derive(Clone, Copy, Debug)]
pub struct DropOn<'a> {
    /// Key of this draw.
    pub key: u64,
    /// Probability to drop an edge's head, in `[0, 1)`.
    pub p: f32,
    /// Global ids of the destinations: `[≥ n_dst]`.
    pub dst_ids: &'a Buf<u32>,
    /// Global ids of the sources: `[≥ n_src]`.
    pub src_ids: &'a Buf<u32>,
}

/// What the two passes share.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOn<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Width of a head.
    pub dim: usize,
    /// Slope of LeakyReLU below zero.
    pub slope: f32,
    /// Dropout of attention coefficients.
    pub dropout: Option<DropOn<'a>>,
}

impl AttentionOn<'_> {
    fn drop_args(&self) -> [Arg; 5] {
        let none = [
            Arg::U64(0),
            Arg::U64(0),
            Arg::U64(0),
            Arg::U32(0),
            Arg::F32(1.0),
        ];
        self.dropout.map_or(none, |d| {
            let (keep, scale) = crate::dropout::threshold(d.p);
            let (dst, src) = (d.dst_ids.arg(), d.src_ids.arg());
            [Arg::U64(d.key), dst, src, Arg::U32(keep), Arg::F32(scale)]
        })
    }
}

/// How a warp lies over the heads; see HEAD_ARGS.
struct Heads {
    v: usize,
    r: usize,
    args: [Arg; 7],
    tiles: usize,
}

/// `None` for heads too wide for registers.
fn lie_over(heads: usize, dim: usize) -> Option<Heads> {
    let v = vector(dim);
    let vectors = dim / v;
    let lanes = vectors.next_power_of_two().min(32);
    let (r, slots, head_step, col_step, head_tile);
    if vectors <= 32 {
        slots = (32 / lanes).min(heads.next_power_of_two());
        r = heads.div_ceil(slots).next_power_of_two().min(4);
        (head_step, col_step, head_tile) = (slots, 0, slots * r);
    } else {
        (r, slots) = (vectors.div_ceil(32).next_power_of_two(), 1);
        (head_step, col_step, head_tile) = (0, 32 * v, 1);
    }
    let args = [heads, dim, lanes, slots, head_step, col_step, head_tile];
    (r <= 4).then(|| Heads {
        v,
        r,
        args: args.map(|n| word("attention", n)),
        tiles: heads.div_ceil(head_tile),
    })
}

/// A kernel that lies over heads: its name for each shape of registers, and the name of the one that
/// takes heads of any width.
struct HeadKernel {
    of_shape: fn(usize, usize) -> &'static str,
    any: &'static str,
}

/// The [`HeadKernel`] of a stem.
macro_rules! head_kernel {
    ($stem:literal) => {
        HeadKernel {
            of_shape: |v, r| variant!($stem, v, r),
            any: concat!($stem, "_any"),
        }
    };
}

/// Launches `kernel` on `items`: behind the arguments of the graph and of the heads' shape come
/// those in `rest`.
///
/// # Safety
/// `rest` are the kernel's own arguments, their shapes checked.
unsafe fn launch_over_heads(
    a: &SparseOn,
    items: &Items,
    kernel: HeadKernel,
    [heads, dim]: [usize; 2],
    rest: &[Arg],
) {
    let mut args = a.args(items).to_vec();
    let (name, tiles) = match lie_over(heads, dim) {
        Some(on) => {
            args.extend(on.args);
            ((kernel.of_shape)(on.v, on.r), on.tiles)
        }
        None => {
            args.extend([heads, dim].map(|n| word("attention", n)));
            (kernel.any, heads)
        }
    };
    args.extend_from_slice(rest);
    // SAFETY: the caller's; both names take the shape of the heads behind the graph.
    unsafe { a.device().launch(name, [items.blocks(), tiles, 1], &args) };
}

/// Heads beside each other in a warp of one column a lane.
fn head_lanes(heads: usize) -> usize {
    heads.next_power_of_two().min(32)
}

/// What [`gat_forward`] writes.
#[derive(Debug)]
pub struct GatSums<'a> {
    /// Logarithms of the denominators: `[n_dst, H]`.
    pub lse: &'a mut Buf<f32>,
    /// The weighted sums: `[n_dst, H·D]`.
    pub out: &'a mut Buf<f32>,
    /// The part of the edges with positive scores in the sums, `[n_dst, H·D]`, and in the softmax before dropout,
    /// `[n_dst, H]`, where [`gat_destinations`] follows.
    pub positive: Option<(&'a mut Buf<f32>, &'a mut Buf<f32>)>,
}

/// The attention-weighted sums of the projected sources, of the rows in `rows`, the others stay. `from` are
/// `z: [n_src, H·D]`, `el: [n_src, H]` and `er: [n_dst, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn gat_forward(
    a: &SparseOn,
    rows: Range<usize>,
    att: &AttentionOn<'_>,
    from: [&Buf<f32>; 3],
    to: GatSums<'_>,
) {
    let (heads, dim) = (att.heads, att.dim);
    let width = heads * dim;
    let GatSums { lse, out, positive } = to;
    let expect = |what, rows: usize, per, buffer: &Buf<f32>| {
        expect_eq("gat", what, rows * per, buffer.len());
    };
    let [z, el, er] = from;
    expect("z with elements", a.n_cols(), width, z);
    expect("el with elements", a.n_cols(), heads, el);
    expect("er with elements", a.rows(), heads, er);
    expect("lse with elements", a.rows(), heads, lse);
    expect("out with elements", a.rows(), width, out);
    if let Some((above, share)) = &positive {
        expect(
            "sums of positive scores with elements",
            a.rows(),
            width,
            above,
        );
        expect("their share with elements", a.rows(), heads, share);
    }
    check_ids(att, a.rows(), a.n_cols());
    let slope = att.slope;
    row_lse(a, rows.clone(), heads, Scores::Ends { el, er, slope }, lse);
    let items = a.items("gat", rows);
    if width == 0 {
        return;
    }
    let (device, pieces) = (a.device(), items.pieces.len());
    let asked = usize::from(positive.is_some()) * pieces;
    let part = device.fresh::<f32>(pieces * width);
    let part_above = device.fresh::<f32>(asked * width);
    let part_share = device.fresh::<f32>(asked * heads);
    let none = Arg::U64(0);
    let (above, share) = match &positive {
        Some((above, share)) => (above.arg(), share.arg()),
        None => (none, none),
    };
    let tail = [
        z.arg(),
        el.arg(),
        er.arg(),
        lse.arg(),
        Arg::F32(slope),
        part.arg(),
        out.arg(),
        part_above.arg(),
        above,
        part_share.arg(),
        share,
    ];
    let rest = [&att.drop_args()[..], &tail].concat();
    // SAFETY: gat_sum_body's arguments, shapes checked above.
    unsafe { launch_over_heads(a, &items, head_kernel!("gat_sum"), [heads, dim], &rest) };
    combine(a, &items, &part, width, SET, out);
    if let Some((above, share)) = positive {
        combine(a, &items, &part_above, width, SET, above);
        combine(a, &items, &part_share, heads, SET, share);
    }
}

/// `c[v, h] = ⟨g, out⟩` and the gradient of the destinations' scores, `der[v, h] = (1 − slope) · (⟨g, above⟩ − c ·
/// share)`, of every row, from the sums `[out, above, share]` of [`gat_forward`]. `g: [n_dst, H·D]`, `c, der:
/// [n_dst, H]`, with `heads = [H, D]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn gat_destinations(
    heads: [usize; 2],
    slope: f32,
    g: &Buf<f32>,
    [out, above, share]: [&Buf<f32>; 3],
    c: &mut Buf<f32>,
    der: &mut Buf<f32>,
) {
    let n = share.len();
    for (what, buffer, per) in [
        ("g with elements", g, heads[1]),
        ("out with elements", out, heads[1]),
        ("sums of positive scores with elements", above, heads[1]),
        ("c with elements", &*c, 1),
        ("der with elements", &*der, 1),
    ] {
        expect_eq("gat_destinations", what, n * per, buffer.len());
    }
    let rows = n / heads[0].max(1);
    head_dots(heads[0], heads[1], 0..rows, g, out, c);
    head_dots(heads[0], heads[1], 0..rows, g, above, der);
    let args = [
        c.arg(),
        share.arg(),
        Arg::F32(1.0 - slope),
        Arg::U64(n as u64),
        der.arg(),
    ];
    let grid = [n.div_ceil(super::THREADS as usize), 1, 1];
    // SAFETY: gat_destinations' arguments, shapes checked above.
    unsafe { der.device().launch("gat_destinations", grid, &args) };
}

fn check_ids(att: &AttentionOn<'_>, n_dst: usize, n_src: usize) {
    if let Some(d) = att.dropout {
        let (dst, src) = (d.dst_ids.len(), d.src_ids.len());
        assert!(
            dst >= n_dst,
            "gat: expected {n_dst} ids of destinations, got {dst}"
        );
        assert!(
            src >= n_src,
            "gat: expected {n_src} ids of sources, got {src}"
        );
    }
}

/// Where the scores of edges come from.
enum Scores<'a> {
    /// Both ends, through LeakyReLU.
    Ends {
        el: &'a Buf<f32>,
        er: &'a Buf<f32>,
        slope: f32,
    },
    /// Stored: `[E, H]`.
    Stored(&'a Buf<f32>),
}

/// `lse[v, h] = ln Σ_e exp(score)` over the edges of each row.
fn row_lse(a: &SparseOn, rows: Range<usize>, heads: usize, scores: Scores<'_>, lse: &mut Buf<f32>) {
    let items = a.items("gat", rows);
    let device = a.device();
    let (top, sum) = (
        device.fresh::<f32>(items.pieces.len() * heads),
        device.fresh::<f32>(items.pieces.len() * heads),
    );
    let lanes = head_lanes(heads);
    let (el, er, slope, stored) = match scores {
        Scores::Ends { el, er, slope } => (el.arg(), er.arg(), slope, 0),
        Scores::Stored(s) => (s.arg(), Arg::U64(0), 1.0, 1),
    };
    let mut args = a.args(&items).to_vec();
    args.extend([
        el,
        er,
        word("gat", heads),
        word("gat", lanes),
        Arg::F32(slope),
    ]);
    args.extend([Arg::U32(stored), top.arg(), sum.arg(), lse.arg()]);
    let grid = [items.blocks(), heads.div_ceil(lanes), 1];
    // SAFETY: gat_lse's arguments; callers checked the shapes.
    unsafe { device.launch("gat_lse", grid, &args) };
    let mut args = a.long_args(&items).to_vec();
    args.extend([top.arg(), sum.arg(), word("gat", heads), lse.arg()]);
    let grid = [items.long.len(), heads.div_ceil(32), 1];
    // SAFETY: combine_lse's arguments; the partials were written by the kernel above.
    unsafe { device.launch("combine_lse", grid, &args) };
}

/// The backward pass over the sources in `rows`, the others stay: `at: [n_src, n_dst]` is the
/// transposed block, `c: [n_dst, H]` the dots of the gradient with the output, `g: [n_dst, H·D]`. Writes `dz: [n_src, H·D]` and
/// `del: [n_src, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
#[allow(clippy::too_many_arguments)]
pub fn gat_source_pass(
    at: &SparseOn,
    rows: Range<usize>,
    att: &AttentionOn<'_>,
    z: &Buf<f32>,
    [el, er, lse, c]: [&Buf<f32>; 4],
    g: &Buf<f32>,
    dz: &mut Buf<f32>,
    del: &mut Buf<f32>,
) {
    let (heads, dim) = (att.heads, att.dim);
    let width = heads * dim;
    let (n_src, n_dst) = (at.rows(), at.n_cols());
    for (what, rows, buffer, per) in [
        ("z with elements", n_src, z, width),
        ("el with elements", n_src, el, heads),
        ("er with elements", n_dst, er, heads),
        ("lse with elements", n_dst, lse, heads),
        ("c with elements", n_dst, c, heads),
        ("g with elements", n_dst, g, width),
        ("dz with elements", n_src, dz, width),
        ("del with elements", n_src, del, heads),
    ] {
        expect_eq("gat_backward", what, rows * per, buffer.len());
    }
    check_ids(att, n_dst, n_src);
    let items = at.items("gat_backward", rows);
    let device = at.device();
    let part_dz = device.fresh::<f32>(items.pieces.len() * width);
    let part_del = device.fresh::<f32>(items.pieces.len() * heads);
    let tail = [
        z.arg(),
        el.arg(),
        er.arg(),
        lse.arg(),
        c.arg(),
        g.arg(),
        Arg::F32(att.slope),
        part_dz.arg(),
        part_del.arg(),
        dz.arg(),
        del.arg(),
    ];
    let rest = [&att.drop_args()[..], &tail].concat();
    // SAFETY: gat_source_body's arguments, shapes checked above.
    unsafe { launch_over_heads(at, &items, head_kernel!("gat_source"), [heads, dim], &rest) };
    combine(at, &items, &part_dz, width, SET, dz);
    combine(at, &items, &part_del, heads, SET, del);
}

/// `out[v, h] = Σ_e values[at(e), h]` over the edges of each row, times `other[at(e), h]` when
/// given; `at(e) = map[e]`, or `e` without a map. `values, other: [E, H]`, `out: [rows, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_sums(
    a: &SparseOn,
    heads: usize,
    values: &Buf<f32>,
    other: Option<&Buf<f32>>,
    map: Option<&Buf<u32>>,
    out: &mut Buf<f32>,
) {
    expect_eq("edge_sums", "values", a.n_edges() * heads, values.len());
    expect_eq(
        "edge_sums",
        "out with elements",
        a.rows() * heads,
        out.len(),
    );
    if let Some(other) = other {
        expect_eq("edge_sums", "factors", values.len(), other.len());
    }
    if let Some(map) = map {
        expect_eq("edge_sums", "a map of length", a.n_edges(), map.len());
    }
    let items = a.items("edge_sums", 0..a.rows());
    let lanes = head_lanes(heads);
    let partial = a.device().fresh::<f32>(items.pieces.len() * heads);
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_sums", heads),
        word("edge_sums", lanes),
        values.arg(),
    ]);
    args.extend([optional(other), optional(map), partial.arg(), out.arg()]);
    let grid = [items.blocks(), heads.div_ceil(lanes), 1];
    // SAFETY: edge_sum's arguments, shapes checked above; a map holds edges of the same graph.
    unsafe { a.device().launch("edge_sum", grid, &args) };
    combine(a, &items, &partial, heads, SET, out);
}

/// `out[e, h] = ⟨y[v, h, :], x[u, h, :]⟩` for every edge. `y: [rows, H·D]`, `x: [n_cols, H·D]`,
/// `out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn sddmm(
    a: &SparseOn,
    heads: usize,
    dim: usize,
    y: &Buf<f32>,
    x: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    expect_eq("sddmm", "y with elements", a.rows() * heads * dim, y.len());
    expect_eq(
        "sddmm",
        "x with elements",
        a.n_cols() * heads * dim,
        x.len(),
    );
    expect_eq("sddmm", "out with elements", a.n_edges() * heads, out.len());
    let items = a.items("sddmm", 0..a.rows());
    let tail = [y.arg(), x.arg(), out.arg()];
    // SAFETY: sddmm_body's arguments, shapes checked above.
    unsafe { launch_over_heads(a, &items, head_kernel!("sddmm"), [heads, dim], &tail) };
}

/// Softmax over the edges of each row: `scores, out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_softmax(a: &SparseOn, heads: usize, scores: &Buf<f32>, out: &mut Buf<f32>) {
    expect_eq("edge_softmax", "scores", a.n_edges() * heads, scores.len());
    expect_eq("edge_softmax", "out with elements", scores.len(), out.len());
    let mut lse = a.device().fresh::<f32>(a.rows() * heads);
    row_lse(a, 0..a.rows(), heads, Scores::Stored(scores), &mut lse);
    let items = a.items("edge_softmax", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_softmax", heads),
        scores.arg(),
        lse.arg(),
        out.arg(),
    ]);
    // SAFETY: edge_softmax's arguments, shapes checked above.
    unsafe {
        a.device()
            .launch("edge_softmax", [items.blocks(), 1, 1], &args)
    };
}

/// Its backward: `out = α ⊙ (g − Σ_row α ⊙ g)`; `alpha, g, out: [E, H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn edge_softmax_backward(
    a: &SparseOn,
    heads: usize,
    alpha: &Buf<f32>,
    g: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    expect_eq(
        "edge_softmax_backward",
        "out with elements",
        g.len(),
        out.len(),
    );
    let mut c = a.device().fresh::<f32>(a.rows() * heads);
    edge_sums(a, heads, alpha, Some(g), None, &mut c);
    let items = a.items("edge_softmax_backward", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        word("edge_softmax", heads),
        alpha.arg(),
        g.arg(),
        c.arg(),
        out.arg(),
    ]);
    // SAFETY: edge_softmax_backward's arguments, shapes checked above and in `edge_sums`.
    unsafe {
        a.device()
            .launch("edge_softmax_backward", [items.blocks(), 1, 1], &args)
    };
}

/// `out[v, h] = ⟨x[v, h, :], y[h, :]⟩` with `y: [H·D]` (scores), or `⟨x[v, h, :], y[v, h, :]⟩` with
/// `y: [n, H·D]`, for the rows `v` in `rows`, the others stay. `x: [n, H·D]`, `out: [.., H]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn head_dots(
    heads: usize,
    dim: usize,
    rows: Range<usize>,
    x: &Buf<f32>,
    y: &Buf<f32>,
    out: &mut Buf<f32>,
) {
    let (width, last) = (heads * dim, rows.end);
    let by_row = y.len() != width;
    for (what, has, per) in [("x", x.len(), width), ("out", out.len(), heads)] {
        assert!(
            last * per <= has,
            "head_dots: expected {what} with {last} rows at least"
        );
    }
    assert!(
        !by_row || last * width <= y.len(),
        "head_dots: expected y with {last} rows at least"
    );
    let lanes = dim.next_power_of_two().min(32);
    let y_at = if by_row { rows.start * width } else { 0 };
    let mut args = vec![Arg::U64(x.at(rows.start * width)), Arg::U64(y.at(y_at))];
    args.push(Arg::U32(u32::from(by_row)));
    args.extend([rows.len(), heads, dim, lanes].map(|k| word("head_dots", k)));
    args.push(Arg::U64(out.at(rows.start * heads)));
    let grid = [rows.len().div_ceil(super::WARPS), 1, 1];
    // SAFETY: head_dots' arguments, shapes checked above.
    unsafe { out.device().launch("head_dots", grid, &args) };
}

/// `x[v, h, :] += s[v, h] · a[h, :]` for the rows of `s: [n, H]`; `a: [H·D]`, `x: [≥ n, H·D]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn head_outer_add(heads: usize, dim: usize, s: &Buf<f32>, a: &Buf<f32>, x: &mut Buf<f32>) {
    let n = s.len() / heads.max(1);
    expect_eq("head_outer_add", "s with elements", n * heads, s.len());
    expect_eq("head_outer_add", "a with elements", heads * dim, a.len());
    assert!(
        n * heads * dim <= x.len(),
        "head_outer_add: expected x with {n} rows at least"
    );
    let mut args = vec![s.arg(), a.arg()];
    args.extend([n, heads, dim].map(|k| word("head_outer_add", k)));
    args.push(x.arg());
    let grid = [(n * heads * dim).div_ceil(super::THREADS as usize), 1, 1];
    // SAFETY: head_outer_add's arguments, shapes checked above.
    unsafe { x.device().launch("head_outer_add", grid, &args) };
}
