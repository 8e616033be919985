//! Steps of optimisers: `optim.cu`.

use super::{THREADS, optional, rows::check_bound, word};
use crate::adam::{AdamParams, Step};
use crate::cuda::{Arg, Buf, Moves};
use crate::expect_eq;
use crate::sgd::SgdParams;
use crate::sparse_optim::AdagradParams;

/// Step `t` (counted from 1) of Adam or AdamW on weights `w` with gradient `g` and moments `m`,
/// `v`, all of one length; the moments are zero before the first step.
///
/// # Panics
/// When the lengths differ, the step is 0 or the device fails.
pub fn adam(
    p: AdamParams,
    t: u64,
    w: &mut Buf<f32>,
    g: &Buf<f32>,
    m: &mut Buf<f32>,
    v: &mut Buf<f32>,
) {
    expect_eq("adam", "gradients", w.len(), g.len());
    expect_eq("adam", "first moments", w.len(), m.len());
    expect_eq("adam", "second moments", w.len(), v.len());
    assert!(t > 0, "adam: expected steps counted from 1, got 0");
    let n = w.len();
    let mut args = vec![w.arg(), g.arg(), m.arg(), v.arg(), Arg::U64(n as u64)];
    args.extend(settings(p, t));
    // SAFETY: adam's arguments, all of n elements.
    unsafe {
        w.device()
            .launch("adam", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
}

/// Adam's settings and the corrections of step `t`.
fn settings(p: AdamParams, t: u64) -> [Arg; 8] {
    let Step { size, root } = Step::new(p, t);
    let [size, root, beta1, beta2, eps, decay, lr] =
        [size, root, p.beta1, p.beta2, p.eps, p.weight_decay, p.lr].map(Arg::F32);
    let decoupled = Arg::U32(u32::from(p.decoupled));
    [size, root, beta1, beta2, eps, decay, decoupled, lr]
}

/// One step of gradient descent on weights `w` with gradient `g`; the `velocity`, zero before the
/// first step, is there with momentum. All of one length.
///
/// # Panics
/// When the lengths differ or the device fails.
pub fn sgd(p: SgdParams, w: &mut Buf<f32>, g: &Buf<f32>, velocity: Option<&mut Buf<f32>>) {
    expect_eq("sgd", "gradients", w.len(), g.len());
    if let Some(u) = &velocity {
        expect_eq("sgd", "velocities", w.len(), u.len());
    }
    let n = w.len();
    let mut args = vec![
        w.arg(),
        g.arg(),
        optional(velocity.as_deref()),
        Arg::U64(n as u64),
    ];
    args.extend([p.lr, p.momentum, p.weight_decay].map(Arg::F32));
    // SAFETY: sgd's arguments, all of n elements.
    unsafe {
        w.device()
            .launch("sgd", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
}

/// One AdaGrad step on the rows of the table `w: [n, d]` that `rows: [m]` names, with gradients
/// `g: [m, d]`; `squares: [n, d]` is zero before the first step.
///
/// # Panics
/// When the shapes disagree, a row is not below `n` or the device fails.
pub fn sparse_adagrad(
    p: AdagradParams,
    rows: &Moves,
    g: &Buf<f32>,
    d: usize,
    w: &mut Buf<f32>,
    squares: &mut Buf<f32>,
) {
    let mut args = touched("sparse_adagrad", rows, g, d, [&*w, &*squares]);
    args.extend([p.lr, p.eps].map(Arg::F32));
    // SAFETY: sparse_adagrad's arguments, shapes checked by `touched`.
    unsafe { w.device().launch("sparse_adagrad", grid(rows, d), &args) };
}

/// Step `t` (counted from 1, over the whole table) of Adam or AdamW on the rows of the table
/// `w: [n, d]` that `rows: [m]` names, with gradients `g: [m, d]`; the moments `m, v: [n, d]` are
/// zero before the first step.
///
/// # Panics
/// When the shapes disagree, a row is not below `n`, the step is 0 or the device fails.
pub fn sparse_adam(
    (p, t): (AdamParams, u64),
    rows: &Moves,
    g: &Buf<f32>,
    d: usize,
    [w, m, v]: [&mut Buf<f32>; 3],
) {
    assert!(t > 0, "sparse_adam: expected steps counted from 1, got 0");
    let mut args = touched("sparse_adam", rows, g, d, [&*w, &*m, &*v]);
    args.extend(settings(p, t));
    // SAFETY: sparse_adam's arguments, shapes checked by `touched`.
    unsafe { w.device().launch("sparse_adam", grid(rows, d), &args) };
}

/// Checks shapes; the arguments that say which rows of the `table` take which gradients, and it.
fn touched<const K: usize>(
    op: &str,
    rows: &Moves,
    g: &Buf<f32>,
    d: usize,
    table: [&Buf<f32>; K],
) -> Vec<Arg> {
    expect_eq(op, "gradients with elements", rows.rows() * d, g.len());
    for state in &table[1..] {
        expect_eq(op, "state with elements", table[0].len(), state.len());
    }
    check_bound(op, rows, d, table[0]);
    let mut args = rows.by_target().to_vec();
    args.extend([g.arg(), word(op, d)]);
    args.extend(table.map(Buf::arg));
    args
}

/// One thread an element of a touched row.
fn grid(rows: &Moves, d: usize) -> [usize; 3] {
    [(rows.targets() * d).div_ceil(THREADS as usize), 1, 1]
}
