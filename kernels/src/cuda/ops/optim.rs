//! Steps of optimisers: `optim.cu`.

use super::{THREADS, optional};
use crate::cuda::{Arg, Buf};
use crate::expect_eq;

/// Settings of one Adam step.
#[derive(Clone, Copy, Debug)]
pub struct AdamOn {
    /// Step size.
    pub lr: f32,
    /// Decays of the two means.
    pub betas: [f32; 2],
    /// Added to the root of the second mean.
    pub eps: f32,
    /// Weight decay: in the gradient, or of the weight itself when `decoupled` (AdamW).
    pub weight_decay: f32,
    /// Whether decay does not pass through the means.
    pub decoupled: bool,
    /// Step number, from 1.
    pub step: u64,
}

/// One step on weights `w` with gradient `g` and moments `m`, `v`, all of one length.
///
/// # Panics
/// When the lengths differ, the step is 0 or the device fails.
pub fn adam(on: AdamOn, w: &mut Buf<f32>, g: &Buf<f32>, m: &mut Buf<f32>, v: &mut Buf<f32>) {
    expect_eq("adam", "gradients", w.len(), g.len());
    expect_eq("adam", "first moments", w.len(), m.len());
    expect_eq("adam", "second moments", w.len(), v.len());
    assert!(on.step > 0, "adam: expected steps counted from 1, got 0");
    let correction = |beta: f32| 1.0 - f64::from(beta).powf(on.step as f64);
    let size = (f64::from(on.lr) / correction(on.betas[0])) as f32;
    let root = correction(on.betas[1]).sqrt() as f32;
    let n = w.len();
    let mut args = vec![w.arg(), g.arg(), m.arg(), v.arg(), Arg::U64(n as u64)];
    let settings = [
        size,
        root,
        on.betas[0],
        on.betas[1],
        on.eps,
        on.weight_decay,
    ];
    args.extend(settings.map(Arg::F32));
    args.extend([Arg::U32(u32::from(on.decoupled)), Arg::F32(on.lr)]);
    // SAFETY: adam's arguments, all of n elements.
    unsafe {
        w.device()
            .launch("adam", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
}

/// One step of gradient descent; `velocity` (unspecified before step 1) with momentum.
///
/// # Panics
/// When the lengths differ or the device fails.
pub fn sgd(
    [lr, momentum, weight_decay]: [f32; 3],
    step: u64,
    w: &mut Buf<f32>,
    g: &Buf<f32>,
    velocity: Option<&mut Buf<f32>>,
) {
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
    args.extend([lr, momentum, weight_decay].map(Arg::F32));
    args.push(Arg::U32(u32::from(step == 1)));
    // SAFETY: sgd's arguments, all of n elements.
    unsafe {
        w.device()
            .launch("sgd", [n.div_ceil(THREADS as usize), 1, 1], &args)
    };
}
