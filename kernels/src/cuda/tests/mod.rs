//! The kernels, executed: through the host shim on every machine, with threads in both orders, and
//! on a GPU where there is one. Against the CPU kernels, or a reference in `f64`.
//!
//! They catch wrong numbers, wrong indices, a dependence on the order of threads, writes outside a
//! buffer and reads of what nobody wrote. They cannot catch what only real parallelism shows, such
//! as a missing barrier between warps that the fibres never interleave; a GPU and its memory
//! checker do (`halobook bench gpu`).

mod attention;
mod compile;
mod dense;
mod draw;
mod edges;
mod memory;
#[cfg(feature = "cuda")]
mod nccl;
mod relation;
mod spmm;

use super::{Buf, Device, Error, Shim};
use crate::csr::tests::any_csr;
use crate::spmm::tests::matrix;
use crate::{CsrBuf, Mat};
use proptest::prelude::*;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

/// Prints a skip past libtest's capture, or fails when `HALOBOOK_REQUIRE` lists `what`.
fn skip(what: &str, reason: &str) {
    let required = std::env::var("HALOBOOK_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == what),
        "HALOBOOK_REQUIRE has `{what}`, and {reason}"
    );
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test").to_string();
    let _ = writeln!(std::io::stderr(), "skip: {test}: {reason}");
}

fn opened(what: &str, device: Result<Arc<Device>, Error>) -> Option<Arc<Device>> {
    match device {
        Ok(device) => Some(device),
        Err(e @ Error::Missing { .. }) => {
            skip(what, &e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Every device there is.
fn devices() -> &'static [Arc<Device>] {
    static ALL: OnceLock<Vec<Arc<Device>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let shim = |reverse| Ok(Device::new(Box::new(Shim::open(reverse)?)));
        let all = [
            opened("nvrtc", shim(false)),
            opened("nvrtc", shim(true)),
            opened("cuda", super::open(0)),
        ];
        all.into_iter().flatten().collect()
    })
}

/// Runs `check` on every device; all but a GPU must give the same bits as each other.
fn on_every_device<T: PartialEq + std::fmt::Debug>(check: impl Fn(&Arc<Device>) -> T) {
    let mut first: Option<(String, T)> = None;
    for device in devices() {
        let got = check(device);
        match &first {
            Some((name, want)) if name == device.name() => {
                assert!(got == *want, "results depend on the order of threads");
            }
            _ => first = Some((device.name().to_string(), got)),
        }
    }
}

/// Any sparse matrix, with what makes kernels differ: how it is cut into pieces.
fn any_cut() -> impl Strategy<Value = (CsrBuf, u32)> {
    (any_csr(), prop_oneof![Just(512u32), 1u32..20])
}

fn up(device: &Arc<Device>, x: &Mat) -> Buf<f32> {
    device.upload(x.as_slice().expect("matrices of tests are row-major"))
}

/// Both must agree to `tolerance`, relative where numbers are large.
#[track_caller]
fn assert_close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        let allowed = tolerance * w.abs().max(1.0);
        assert!((g - w).abs() <= allowed, "element {k}: {g} instead of {w}");
    }
}

fn few() -> ProptestConfig {
    ProptestConfig::with_cases(24)
}

#[test]
fn memory_moves_in_ranges() {
    for device in devices() {
        let x = device.upload(&[1.0f32, 2.0, 3.0]);
        let mut y = device.zeros::<f32>(4);
        y.copy_from(1, &x, 0, 2);
        assert_eq!(y.download(), [0.0, 1.0, 2.0, 0.0]);
        assert_eq!(y.truncate(2).download(), [0.0, 1.0]);
        assert!(device.fresh::<u64>(0).download().is_empty());
        let (from, to) = (device.mark(), device.mark());
        assert!(device.between(&from, &to) < 1_000_000_000);
    }
}

#[test]
fn the_shim_shows_what_nobody_wrote_and_who_wrote_too_far() {
    let shim = Shim::open(false).map(|shim| Device::new(Box::new(shim)));
    let Some(device) = opened("nvrtc", shim) else {
        return;
    };
    assert!(device.fresh::<f32>(3).download().iter().all(|v| v.is_nan()));
    let (short, x) = (device.fresh::<f32>(3), device.zeros::<f32>(8));
    let args = [1.0f32, 0.0].map(super::Arg::F32);
    let n = super::Arg::U64(4); // one more than fits
    let args = [args[0], x.arg(), args[1], short.arg(), n];
    // SAFETY: the element too many lies in the shim's guard.
    unsafe { device.launch("axpby", [1, 1, 1], &args) };
    let fault = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(short)));
    let words = fault.expect_err("the guard was overwritten");
    let words = words.downcast_ref::<String>().expect("a formatted message");
    assert_eq!(words, "a kernel wrote outside 12 bytes of memory");
}

#[test]
#[should_panic(expected = "axpby: takes 5 arguments, got 1")]
fn arguments_are_counted() {
    let shim = Shim::open(false).map(|shim| Device::new(Box::new(shim)));
    let Some(device) = opened("nvrtc", shim) else {
        panic!("axpby: takes 5 arguments, got 1");
    };
    // SAFETY: the shim refuses the launch before it reads an argument.
    unsafe { device.launch("axpby", [1, 1, 1], &[super::Arg::U32(0)]) };
}
