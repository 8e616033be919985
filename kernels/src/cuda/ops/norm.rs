//! Layer normalisation: `layernorm.cu`.

use super::dense::{blocks_of, blocks_sum};
use super::{WARPS, word};
use crate::cuda::{Arg, Buf};
use crate::expect_eq;

/// `y = (x - mean) / √(var + eps) · gain + bias` row by row; `stats: [n, 2]` keeps the mean and
/// `1 / √(var + eps)` for backward. `x, y: [n, d]`, `gain, bias: [d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn layer_norm(
    x: &Buf<f32>,
    gain: &Buf<f32>,
    bias: &Buf<f32>,
    eps: f32,
    y: &mut Buf<f32>,
    stats: &mut Buf<f32>,
) {
    let (n, d) = (stats.len() / 2, gain.len());
    expect_eq("layer_norm", "x with elements", n * d, x.len());
    expect_eq("layer_norm", "y with elements", n * d, y.len());
    expect_eq("layer_norm", "a bias of length", d, bias.len());
    if d == 0 {
        return;
    }
    let mut args = vec![x.arg(), word("layer_norm", n), word("layer_norm", d)];
    args.extend([gain.arg(), bias.arg(), Arg::F32(eps), y.arg(), stats.arg()]);
    // SAFETY: layer_norm's arguments, shapes checked above.
    unsafe {
        x.device()
            .launch("layer_norm", [n.div_ceil(WARPS), 1, 1], &args)
    };
}

/// Its backward from `g: [n, d]`: writes `dx: [n, d]` and `params: [2, d]`, the gradients of gain
/// and bias.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn layer_norm_backward(
    x: &Buf<f32>,
    g: &Buf<f32>,
    gain: &Buf<f32>,
    stats: &Buf<f32>,
    dx: &mut Buf<f32>,
    params: &mut Buf<f32>,
) {
    let (n, d) = (stats.len() / 2, gain.len());
    let op = "layer_norm_backward";
    expect_eq(op, "x with elements", n * d, x.len());
    expect_eq(op, "g with elements", n * d, g.len());
    expect_eq(op, "dx with elements", n * d, dx.len());
    expect_eq(op, "params with elements", 2 * d, params.len());
    if d == 0 {
        return;
    }
    let device = x.device();
    let args = [
        x.arg(),
        g.arg(),
        word(op, n),
        word(op, d),
        gain.arg(),
        stats.arg(),
        dx.arg(),
    ];
    // SAFETY: layer_norm_backward's arguments, shapes checked above.
    unsafe { device.launch(op, [n.div_ceil(WARPS), 1, 1], &args) };
    let (rows, blocks) = blocks_of(n);
    let partial = device.fresh::<f32>(blocks * 2 * d);
    let mut args = vec![
        x.arg(),
        g.arg(),
        Arg::U64(n as u64),
        word(op, d),
        word(op, rows),
    ];
    args.extend([stats.arg(), partial.arg()]);
    // SAFETY: layer_norm_params' arguments, shapes checked above.
    unsafe { device.launch("layer_norm_params", [blocks, d.div_ceil(32), 1], &args) };
    blocks_sum(blocks, 2 * d, &partial, params);
}
