//! Losses: `loss.cu`.

use super::{WARPS, word};
use crate::cuda::{Arg, Buf, Plain};
use crate::expect_eq;

/// Numbers that one block of `sum_f64` adds.
const BLOCK: usize = 2048;

/// Sum over the rows in `mask: [n]` (0 or 1) of `-ln softmax(logits)[label]`, and its gradient times
/// `scale` in `grad`; zeros outside the mask. `logits, grad: [n, classes]`, `labels: [n]`. Waits
/// for the device.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn softmax_xent(
    logits: &Buf<f32>,
    labels: &Buf<i32>,
    mask: &Buf<u8>,
    scale: f32,
    grad: &mut Buf<f32>,
) -> f64 {
    rows(
        "softmax_xent",
        logits,
        labels,
        labels.len(),
        mask,
        scale,
        grad,
    )
}

/// Sum over the rows in `mask` of the sigmoid binary cross-entropies of all classes, and its
/// gradient times `scale` in `grad`. `logits, grad: [n, classes]`, `labels: [n, classes]` of 0 and 1. Waits for the device.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn sigmoid_bce(
    logits: &Buf<f32>,
    labels: &Buf<u8>,
    mask: &Buf<u8>,
    scale: f32,
    grad: &mut Buf<f32>,
) -> f64 {
    expect_eq("sigmoid_bce", "labels", logits.len(), labels.len());
    rows("sigmoid_bce", logits, labels, mask.len(), mask, scale, grad)
}

fn rows<L: Plain>(
    op: &'static str,
    logits: &Buf<f32>,
    labels: &Buf<L>,
    n: usize,
    mask: &Buf<u8>,
    scale: f32,
    grad: &mut Buf<f32>,
) -> f64 {
    expect_eq(op, "a mask of length", n, mask.len());
    expect_eq(op, "grad with elements", logits.len(), grad.len());
    let classes = logits.len() / n.max(1);
    expect_eq(op, "logits with elements", n * classes, logits.len());
    if n == 0 || classes == 0 {
        return 0.0;
    }
    let device = logits.device();
    let losses = device.fresh::<f64>(n);
    let mut args = vec![
        logits.arg(),
        labels.arg(),
        mask.arg(),
        word(op, n),
        word(op, classes),
    ];
    args.extend([Arg::F32(scale), grad.arg(), losses.arg()]);
    // SAFETY: softmax_xent's and sigmoid_bce's arguments, shapes checked above.
    unsafe { device.launch(op, [n.div_ceil(WARPS), 1, 1], &args) };
    sum(losses)
}

/// The sum of `x`, in blocks and then over the blocks.
fn sum(x: Buf<f64>) -> f64 {
    summed(x).download()[0]
}

/// The same, left on the device: `[1]`.
fn summed(mut x: Buf<f64>) -> Buf<f64> {
    while x.len() > 1 {
        let blocks = x.len().div_ceil(BLOCK);
        let next = x.device().fresh::<f64>(blocks);
        let args = [x.arg(), Arg::U64(x.len() as u64), next.arg()];
        // SAFETY: sum_f64's arguments; one number a block.
        unsafe { x.device().launch("sum_f64", [blocks, 1, 1], &args) };
        x = next;
    }
    x
}

/// `Σ a · b` over all elements, in double precision, to `out: [1]`.
///
/// # Panics
/// When the lengths differ or the device fails.
pub fn dot(a: &Buf<f32>, b: &Buf<f32>, out: &mut Buf<f32>) {
    expect_eq("dot", "b with elements", a.len(), b.len());
    expect_eq("dot", "out with elements", 1, out.len());
    let device = a.device();
    let blocks = a.len().div_ceil(BLOCK).max(1);
    let sums = device.fresh::<f64>(blocks);
    let args = [a.arg(), b.arg(), Arg::U64(a.len() as u64), sums.arg()];
    // SAFETY: dot_f64's arguments; one number a block.
    unsafe { device.launch("dot_f64", [blocks, 1, 1], &args) };
    let sum = summed(sums);
    // SAFETY: to_f32's arguments, one number each.
    unsafe { device.launch("to_f32", [1, 1, 1], &[sum.arg(), out.arg()]) };
}
