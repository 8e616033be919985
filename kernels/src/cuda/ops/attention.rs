//! Attention in one pass: `gat.cu`; its separate steps are in `edges`.

use super::edges::head_dots;
use super::spmm::{SET, combine};
use super::{variant, vector, word};
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
pub(super) struct HeadKernel {
    pub(super) of_shape: fn(usize, usize) -> &'static str,
    pub(super) any: &'static str,
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
pub(super) use head_kernel;

/// Launches `kernel` on `items`: behind the arguments of the graph and of the heads' shape come
/// those in `rest`.
///
/// # Safety
/// `rest` are the kernel's own arguments, their shapes checked.
pub(super) unsafe fn launch_over_heads(
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
pub(super) fn head_lanes(heads: usize) -> usize {
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
pub(super) enum Scores<'a> {
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
pub(super) fn row_lse(
    a: &SparseOn,
    rows: Range<usize>,
    heads: usize,
    scores: Scores<'_>,
    lse: &mut Buf<f32>,
) {
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
