//! Products of pairs of rows: `pairs.cu`.

use super::{THREADS, word};
use crate::cuda::{Arg, Buf};
use crate::expect_eq;
use crate::pairs::Pairs;

/// `out[e, :] = z[u, :] · z[v, :]`, element by element, for each pair; `z: [n, d]`, `out: [pairs, d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn pair_products(pairs: &Pairs, z: &Buf<f32>, d: usize, out: &mut Buf<f32>) {
    expect_eq("pairs", "z with elements", pairs.rows() * d, z.len());
    expect_eq("pairs", "out with elements", pairs.len() * d, out.len());
    let ends = z.device().upload(pairs.ends().as_flattened());
    let args = [
        ends.arg(),
        Arg::U64(pairs.len() as u64),
        word("pairs", d),
        z.arg(),
        out.arg(),
    ];
    let grid = [out.len().div_ceil(THREADS as usize), 1, 1];
    // SAFETY: pair_products' arguments, shapes checked above; pairs are of rows that there are.
    unsafe { z.device().launch("pair_products", grid, &args) };
}

/// The gradient of the rows `z: [n, d]` into `g: [n, d]`, from that of their products `gp: [pairs, d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn pair_products_backward(
    pairs: &Pairs,
    z: &Buf<f32>,
    gp: &Buf<f32>,
    d: usize,
    g: &mut Buf<f32>,
) {
    expect_eq("pairs", "z with elements", pairs.rows() * d, z.len());
    expect_eq("pairs", "gp with elements", pairs.len() * d, gp.len());
    expect_eq("pairs", "g with elements", z.len(), g.len());
    let device = z.device();
    let (start, entries) = pairs.by_row();
    let (start, entries) = (device.upload(start), device.upload(entries));
    let ends = device.upload(pairs.ends().as_flattened());
    let args = [
        start.arg(),
        entries.arg(),
        ends.arg(),
        Arg::U64(pairs.rows() as u64),
        word("pairs", d),
        z.arg(),
        gp.arg(),
        g.arg(),
    ];
    let grid = [g.len().div_ceil(THREADS as usize), 1, 1];
    // SAFETY: pair_gradients' arguments, shapes checked above; entries are of pairs that there are.
    unsafe { device.launch("pair_gradients", grid, &args) };
}
