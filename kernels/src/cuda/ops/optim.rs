//! Steps of optimisers: `optim.cu`.

use super::{THREADS, optional};
use crate::adam::{AdamParams, Step};
use crate::cuda::{Arg, Buf};
use crate::expect_eq;
use crate::sgd::SgdParams;

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
    let Step { size, root } = Step::new(p, t);
    let n = w.len();
    let mut args = vec![w.arg(), g.arg(), m.arg(), v.arg(), Arg::U64(n as u64)];
    let settings = [size, root, p.beta1, p.beta2, p.eps, p.weight_decay];
    args.extend(settings.map(Arg::F32));
    args.extend([Arg::U32(u32::from(p.decoupled)), Arg::F32(p.lr)]);
    // SAFETY: adam's arguments, all of n elements.
    unsafe {
        w.device()
            .launch("adam", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
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
