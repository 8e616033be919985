//! A budget that refuses, and copies that are counted, on the host's memory and on whatever executes
//! CUDA's kernels: the host shim, whose own books of its memory are the second witness.
//!
//! Cannot catch: times of a GPU, and what a driver takes for itself.

use super::*;
use crate::backend::{Cpu, Cuda, Metered};
use crate::record::Pass;
use crate::spec::{RunSpec, Value};
use crate::testing::{matrix, shim, world, world_on};
use proptest::prelude::*;
use std::sync::Arc;

fn budget(bytes: u64) -> (Budget, Rc<Meter>) {
    let meter = Rc::new(Meter::new(None));
    (Budget::new(bytes, Rc::clone(&meter)), meter)
}

fn refused<T>(result: Result<T>) -> String {
    result.err().expect("does not fit").to_string()
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (budget, _) = budget(100);
    let _some = budget.reserve("weights", 60).expect("fits");
    let error = budget
        .reserve("a chunk's edges", 41)
        .err()
        .expect("does not fit");
    assert_eq!(
        error.to_string(),
        "a chunk's edges: asked for 41 bytes of the device, 40 of 100 are free"
    );
    assert!(error.help().contains("device_mem"));
    assert_eq!(budget.held(), 60);
    budget.reserve("the rest", 40).expect("fits exactly");
}

#[test]
fn leases_nest_and_the_peak_is_that_of_one_moment() {
    let (budget, meter) = budget(100);
    {
        let _outer = budget.reserve("outer", 50).expect("fits");
        for inner in [20, 30, 10] {
            let _inner = budget.reserve("inner", inner).expect("fits");
            assert_eq!(budget.free(), 50 - inner);
        }
        assert_eq!(budget.held(), 50);
    }
    assert_eq!((budget.held(), meter.most_on_device()), (0, Some(80)));
}

/// Runs `f` with a device of `bytes` bytes: made of the host's memory, and the shim's.
fn on_both(bytes: u64, f: impl Fn(&mut Ctx, &BudgetedDevice, &Meter) + Sync) {
    let spec = |backend: &str| {
        let pairs = [("backend", Value::Str(backend.into()))];
        RunSpec::from_pairs(pairs).expect("valid pairs")
    };
    let run = |cx: &mut Ctx, meter: &Meter| {
        cx.pass(Pass::Forward);
        let device = BudgetedDevice::open(cx, bytes).expect("has as much");
        f(cx, &device, meter);
        device.settle();
        assert_eq!(device.budget().held(), 0);
        assert!(meter.most_on_device().unwrap_or(0) <= bytes);
        let memory = device
            .own
            .as_ref()
            .and_then(|own| own.memory().map(Arc::clone));
        if let Some(memory) = memory {
            assert_eq!(memory.used_bytes(), 0);
            assert!(memory.most_bytes() as u64 <= meter.most_on_device().unwrap_or(0));
        }
    };
    world(&spec("cpu"), 1, run);
    let Some(_) = shim() else { return };
    let open = |meter: Rc<Meter>| {
        let shim = shim().expect("was there a line above");
        Box::new(Metered::new(Cuda::new(shim), meter)) as Box<dyn Backend>
    };
    world_on(&spec("cuda"), 1, open, run);
}

fn dot(a: &kernels::Mat, b: &kernels::Mat) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// ⟨gather x, y⟩ = ⟨x, scatter y⟩ for rows that go to chosen places and come back from there, also
    /// where rows repeat.
    #[test]
    fn scattering_is_the_adjoint_of_gathering(
        (n, rows) in (1usize..20).prop_flat_map(|n| (Just(n), prop::collection::vec(0..n as u32, 0..30))),
        d in 1usize..8, extra in 0usize..4,
    ) {
        let (k, m) = (rows.len(), rows.len() + extra);
        let rows: Kept<u32> = rows.into();
        // From the last place to the first, behind some that are not used.
        let places: Vec<u32> = (0..k as u32).rev().map(|i| i + extra as u32).collect();
        let places: Kept<u32> = places.into();
        on_both(1 << 20, |cx, device, _| {
            let (x, y) = (matrix(n, d, 1), matrix(m, d, 2));
            let x_on = cx.backend.upload(x.clone());
            let mut there = device.fresh(cx, "places", m, d).expect("fits");
            let all = |n| Moved { from: Picked::From(0), to: Picked::From(0), n };
            // What is elsewhere stays, and counts for nothing.
            let zeros = cx.backend.zeros(m, d);
            device.load_rows(cx, all(m), &zeros, &mut there).expect("fits");
            let moved = Moved { from: Picked::List(&rows), to: Picked::List(&places), n: k };
            device.load_rows(cx, moved, &x_on, &mut there).expect("fits");
            let mut gathered = cx.backend.fresh(m, d);
            device.store_rows(cx, all(m), &there, &mut gathered).expect("fits");
            let y_on = cx.backend.upload(y.clone());
            device.load_rows(cx, all(m), &y_on, &mut there).expect("fits");
            let mut scattered = cx.backend.zeros(n, d);
            device.add_rows(cx, Picked::List(&places), &there, &rows, &mut scattered).expect("fits");
            let (there, back) = (dot(gathered.host(), &y), dot(&x, scattered.host()));
            assert!((there - back).abs() <= 1e-4 * there.abs().max(1.0), "{there} {back}");
        });
    }

    /// What was gathered and put back is what was there.
    #[test]
    fn rows_come_back_as_they_went(n in 1usize..20, d in 1usize..8, seed: u64) {
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|&v| crate::rng::at(seed, u64::from(v)));
        let order: Kept<u32> = order.into();
        on_both(1 << 20, |cx, device, _| {
            let x = cx.backend.upload(matrix(n, d, 3));
            let shuffled = device.load(cx, "shuffled", &x, &order).expect("fits");
            let mut second = device.fresh(cx, "second", n, d).expect("fits");
            let moved = Moved { from: Picked::List(&order), to: Picked::From(0), n };
            // Moved by the inverse, and there and back again.
            let back = Moved { from: moved.to, to: moved.from, n };
            device.move_rows(cx, back, &shuffled, &mut second).expect("fits");
            let mut out = cx.backend.fresh(n, d);
            device.store_rows(cx, Moved { from: Picked::From(0), ..moved }, &second, &mut out).expect("fits");
            assert_eq!(out.host(), x.host());
        });
    }
}

#[test]
fn products_are_those_of_the_host_and_bytes_are_counted() {
    let mut a = CsrBuf::empty(4);
    a.indices = vec![0, 1, 3, 2, 2];
    a.indptr = vec![0, 3, 3, 5];
    a.weights = Some(vec![1.0, -2.0, 0.5, 3.0, 1.5]);
    on_both(1 << 16, |cx, device, meter| {
        let x = cx.backend.upload(matrix(6, 5, 4));
        let rows: Kept<u32> = vec![1, 2, 4, 5].into();
        let (forms, matrices) = (device.stores().sparse(true).rows(a.view()), [4 * 5, 3 * 5]);
        {
            let topology = device.topology(cx, "edges", a.view(), 5).expect("fits");
            let read = device.load(cx, "rows", &x, &rows).expect("fits");
            let mut sums = device.fresh(cx, "sums", 3, 5).expect("fits");
            device.spmm(cx, &topology, &read, &mut sums);
            let mut out = cx.backend.zeros(5, 5);
            let moved = Moved {
                from: Picked::From(0),
                to: Picked::From(1),
                n: 3,
            };
            device.store_rows(cx, moved, &sums, &mut out).expect("fits");
            let mut want = kernels::Mat::zeros((5, 5));
            for r in 0..3 {
                for e in a.view().span(r) {
                    let row = x.host().row(rows[a.indices[e] as usize] as usize);
                    let mut to = want.row_mut(r + 1);
                    to.scaled_add(a.view().weight(e), &row);
                }
            }
            let apart = (out.host() - &want)
                .iter()
                .fold(0f32, |m, x| m.max(x.abs()));
            assert!(apart <= 1e-5, "{apart}");
        }
        device.settle();
        let copies = meter.take_copies();
        // Three lists of the matrix (and on a device of its own that no row is cut), rows of five.
        let lists = 8 * 4 + 4 * 5 + 4 * 5;
        let more = if device.own.is_some() { 4 } else { 0 };
        assert_eq!(forms.copied(), lists + more);
        assert_eq!(
            copies[Route::HostToDevice].bytes,
            forms.copied() + 4 * matrices[0]
        );
        assert_eq!(copies[Route::DeviceToHost].bytes, 4 * matrices[1]);
        assert_eq!(copies[Route::OnDevice].bytes, 0);
        assert!(copies[Route::HostToDevice].ns > 0 && copies[Route::DeviceToHost].ns > 0);
        let most = forms.held(5) + 4 * (matrices[0] + matrices[1]);
        assert_eq!(meter.most_on_device(), Some(most));
    });
}

#[test]
fn a_piece_that_does_not_fit_is_refused_before_anything_is_copied() {
    on_both(100, |cx, device, meter| {
        let x = cx.backend.upload(matrix(10, 3, 5));
        let rows: Kept<u32> = (0..10).collect::<Vec<u32>>().into();
        let words = refused(device.load(cx, "all rows", &x, &rows));
        assert_eq!(
            words,
            "all rows: asked for 120 bytes of the device, 100 of 100 are free"
        );
        let _held = device.fresh(cx, "some rows", 8, 3).expect("fits");
        let words = refused(device.fresh(cx, "more rows", 1, 3));
        assert_eq!(
            words,
            "more rows: asked for 12 bytes of the device, 4 of 100 are free"
        );
        assert_eq!(meter.take_copies()[Route::HostToDevice].bytes, 0);
    });
}

/// Evaluation moves rows too, and is no part of an epoch.
#[test]
fn copies_of_evaluation_are_not_counted() {
    on_both(1 << 10, |cx, device, meter| {
        let x = cx.backend.upload(matrix(4, 2, 5));
        let rows: Kept<u32> = vec![0, 3].into();
        cx.pass(Pass::Eval);
        drop(device.load(cx, "rows", &x, &rows).expect("fits"));
        assert_eq!(meter.take_copies(), crate::record::Copies::default());
    });
}

#[test]
fn the_host_takes_the_place_of_a_device_of_its_own() {
    let Some(shim) = shim() else { return };
    let open = |meter: Rc<Meter>| {
        let cuda = Cuda::new(Arc::clone(&shim));
        Box::new(Metered::new(cuda, meter)) as Box<dyn Backend>
    };
    let spec = RunSpec::from_pairs([("backend", Value::Str("cuda".into()))]).expect("valid pairs");
    world_on(&spec, 1, open, |cx, _| {
        assert!(cx.backend.memory().is_some());
        let device = cx.take_device().expect("it has one");
        assert!(cx.take_device().is_none());
        let host = Cpu::new(1);
        assert_eq!(
            (cx.backend.device(), device.device()),
            (host.device(), "host shim")
        );
    });
}
