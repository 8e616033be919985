//! Dense layers: products by the driver, what follows them by `then.cu`, sums by `columns.cu`.

use super::{THREADS, optional, vector, word};
use crate::cuda::{Arg, Buf, Gemm};
use crate::expect_eq;

/// Activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActOn {
    /// The identity.
    #[default]
    None,
    /// `max(0, x)`, keeping NaN.
    Relu,
    /// `x` where positive, `e^x - 1` elsewhere.
    Elu,
}

/// Counter-based dropout, as [`crate::dropout`].
#[derive(Clone, Copy, Debug)]
pub struct DropoutOn<'a> {
    /// Key of this draw.
    pub key: u64,
    /// Global vertices of the rows: `[n]`.
    pub ids: &'a Buf<u32>,
    /// Probability to drop an element, in `[0, 1)`.
    pub p: f32,
}

/// The derivative of an activation (with dropout behind it), from its output.
#[derive(Clone, Copy, Debug)]
pub struct GateOn<'a> {
    /// The output: `[n, d]`.
    pub y: &'a Buf<f32>,
    /// The activation: ReLU passes `g · scale` where `y > 0`, ELU `g · (y / scale + 1)` where not.
    pub act: ActOn,
    /// Factor of dropout's survivors, 1 without.
    pub scale: f32,
}

/// Steps in the order of the fields; see [`crate::linear::then_into`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ThenOn<'a> {
    /// Added to every row: `[d]`.
    pub bias: Option<&'a Buf<f32>>,
    /// Applied to every element.
    pub act: ActOn,
    /// Zeroes elements and scales the others.
    pub dropout: Option<DropoutOn<'a>>,
    /// Multiplies with an activation's derivative.
    pub gate: Option<GateOn<'a>>,
}

/// Applies the steps to `x: [n, d]` in one pass.
///
/// # Panics
/// When the shapes disagree, a probability is not in `[0, 1)` or the device fails.
pub fn then(steps: &ThenOn<'_>, n: usize, d: usize, x: &mut Buf<f32>) {
    expect_eq("then", "x with elements", n * d, x.len());
    if let Some(bias) = steps.bias {
        expect_eq("then", "a bias of length", d, bias.len());
    }
    let drop = steps.dropout.and_then(|drop| {
        expect_eq("then", "dropout ids (one a row)", n, drop.ids.len());
        let (keep, scale) = crate::dropout::threshold(drop.p);
        (keep > 0).then_some((drop, keep, scale))
    });
    if let Some(gate) = steps.gate {
        expect_eq("then", "a gate with elements", n * d, gate.y.len());
    }
    let idle = steps.bias.is_none() && steps.act == ActOn::None && steps.gate.is_none();
    if idle && drop.is_none() {
        return;
    }
    let v = vector(d);
    let kernel = if v == 4 { "then_4" } else { "then_1" };
    let mut args = vec![
        x.arg(),
        Arg::U64(n as u64),
        word("then", d),
        optional(steps.bias),
    ];
    args.push(Arg::U32(steps.act as u32));
    args.extend(match drop {
        Some((on, keep, scale)) => [
            Arg::U64(on.key),
            on.ids.arg(),
            Arg::U32(keep),
            Arg::F32(scale),
        ],
        None => [Arg::U64(0), Arg::U64(0), Arg::U32(0), Arg::F32(1.0)],
    });
    args.extend(match steps.gate {
        Some(gate) => {
            let scale = if gate.act == ActOn::Elu {
                1.0 / gate.scale
            } else {
                gate.scale
            };
            [gate.y.arg(), Arg::U32(gate.act as u32), Arg::F32(scale)]
        }
        None => [Arg::U64(0), Arg::U32(0), Arg::F32(1.0)],
    });
    let grid = [(n * d / v).div_ceil(THREADS as usize), 1, 1];
    // SAFETY: then_body's arguments, shapes checked above.
    unsafe { x.device().launch(kernel, grid, &args) };
}

/// `y = alpha · x + beta · y`; with `beta = 0` the old `y` is not read.
///
/// # Panics
/// When the lengths differ or the device fails.
pub fn axpby(alpha: f32, x: &Buf<f32>, beta: f32, y: &mut Buf<f32>) {
    expect_eq("axpby", "y with elements", x.len(), y.len());
    let n = x.len();
    let args = [
        Arg::F32(alpha),
        x.arg(),
        Arg::F32(beta),
        y.arg(),
        Arg::U64(n as u64),
    ];
    // SAFETY: axpby's arguments, both of n elements.
    unsafe {
        x.device()
            .launch("axpby", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
}

/// `out = op(a) · op(b) + beta · out` with `op(a): [m, k]`, `op(b): [k, n]`, `out: [m, n]`; `t` says
/// which of the two is stored transposed. With `beta = 0` the old `out` is not read.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn gemm(
    t: [bool; 2],
    [m, n, k]: [usize; 3],
    a: &Buf<f32>,
    b: &Buf<f32>,
    beta: f32,
    out: &mut Buf<f32>,
) {
    expect_eq("gemm", "a with elements", m * k, a.len());
    expect_eq("gemm", "b with elements", k * n, b.len());
    expect_eq("gemm", "out with elements", m * n, out.len());
    if m == 0 || n == 0 {
        return;
    }
    let product = Gemm {
        ta: t[0],
        tb: t[1],
        m,
        n,
        k,
        a: a.at(0),
        b: b.at(0),
        beta,
        out: out.at(0),
    };
    // SAFETY: shapes checked above; `out` is borrowed alone, so it overlaps neither operand.
    unsafe { out.device().gemm(product) };
}

/// Rows of one block of a column sum: a function of `n` alone, so that the order of sums is.
fn block_rows(n: usize) -> usize {
    n.div_ceil(1024).max(64)
}

/// Sums of the columns of `g: [n, d]` to `out: [d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn column_sums(n: usize, d: usize, g: &Buf<f32>, out: &mut Buf<f32>) {
    two_stages(n, d, g, None, out);
}

/// `out[h, c] = Σ_v s[v, h] · z[v, h, c]` over the first `s.len() / H` rows of `z: [≥ n, H·D]`:
/// the gradient of attention's score vectors. `s: [n, H]`, `out: [H·D]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn head_gradient(heads: usize, dim: usize, s: &Buf<f32>, z: &Buf<f32>, out: &mut Buf<f32>) {
    let n = s.len() / heads.max(1);
    two_stages(n, heads * dim, z, Some((s, heads, dim)), out);
}

/// Column sums of `g`, optionally weighted by row and head, in blocks and then over the blocks.
fn two_stages(
    n: usize,
    d: usize,
    g: &Buf<f32>,
    weights: Option<(&Buf<f32>, usize, usize)>,
    out: &mut Buf<f32>,
) {
    assert!(
        n * d <= g.len(),
        "column_sums: expected {n} rows of {d}, got {} elements",
        g.len()
    );
    expect_eq("column_sums", "out of length", d, out.len());
    let device = g.device();
    let rows = block_rows(n);
    let blocks = n.div_ceil(rows).max(1);
    let partial = device.fresh::<f32>(blocks * d);
    let tiles = d.div_ceil(32);
    let (w, heads, dim) = weights.map_or((Arg::U64(0), 1, 1), |(w, h, d)| (w.arg(), h, d));
    let size = |n| word("column_sums", n);
    let mut args = vec![g.arg(), Arg::U64(n as u64), size(d), size(rows), w];
    args.extend([size(heads), size(dim), partial.arg()]);
    // SAFETY: column_sums' arguments, shapes checked above.
    unsafe { device.launch("column_sums", [blocks, tiles, 1], &args) };
    blocks_sum(blocks, d, &partial, out);
}

/// Sums of the rows of `partial: [blocks, d]`, in order.
pub(super) fn blocks_sum(blocks: usize, d: usize, partial: &Buf<f32>, out: &mut Buf<f32>) {
    let size = |n| word("column_sums", n);
    let mut args = vec![
        partial.arg(),
        Arg::U64(blocks as u64),
        size(d),
        size(blocks),
    ];
    args.extend([Arg::U64(0), Arg::U32(1), Arg::U32(1), out.arg()]);
    // SAFETY: column_sums' arguments; callers give these shapes.
    unsafe {
        out.device()
            .launch("column_sums", [1, d.div_ceil(32), 1], &args)
    };
}

/// Rows of a block, and how many blocks, of sums over `n` rows.
pub(super) fn blocks_of(n: usize) -> (usize, usize) {
    let rows = block_rows(n);
    (rows, n.div_ceil(rows).max(1))
}
