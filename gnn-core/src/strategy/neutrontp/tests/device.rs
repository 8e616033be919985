//! Chunks on a device with a budget: kept to the byte, refused with both numbers, enough for a slice of
//! any size, on the host's memory and through the host shim. Cannot catch: times.

use super::*;
use crate::backend::{Backend, Cuda, Metered};
use crate::graph::{EdgeOptions, Graph};
use crate::record::{Meter, Route};
use crate::strategy::tests::train_on;
use crate::testing::shim;
use kernels::cuda::Device;
use std::rc::Rc;
use std::sync::Mutex;

/// Every vertex reads the `near` before it, so that a run of them reads few others.
fn ring(n: usize, near: usize, d: usize, classes: usize) -> Dataset {
    let ends = (0..n).flat_map(|v| (1..=near).map(move |k| ((v + n - k) % n, v)));
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.map(|(u, v)| (u as u32, v as u32)).unzip();
    let graph = Graph::from_edges(n, &src, &dst, EdgeOptions::AS_IS);
    Dataset {
        graph: graph.expect("edges are in range"),
        ..random_dataset(n, 0, d, classes, false, 5)
    }
}

/// Trains on devices of the host shim; the most bytes that each really had are added to `most`.
fn on_shim(spec: &RunSpec, data: &Arc<Dataset>, ranks: usize) -> Option<(Vec<Trained>, usize)> {
    shim()?;
    let made: Mutex<Vec<Arc<Device>>> = Mutex::default();
    let open = |meter: Rc<Meter>| {
        let device = shim().expect("was there above");
        made.lock()
            .expect("no rank panicked")
            .push(Arc::clone(&device));
        Box::new(Metered::new(Cuda::new(device), meter)) as Box<dyn Backend>
    };
    let entry = find("neutrontp").expect("registered");
    entry.check(spec).expect("not refused");
    let got = train_on(entry, spec, data, None, (ranks, 3), open);
    let made = made.into_inner().expect("no rank panicked");
    let most = made.iter().map(|device| device.most_bytes()).max();
    Some((got, most.unwrap_or(0)))
}

/// The device holds a quarter of a slice `[n, own columns]`, whose in-neighbours go there chunk by chunk,
/// both ways.
#[test]
fn a_slice_four_times_the_budget_trains_as_single() {
    let (n, wide, ranks) = (400, 16, 2);
    let slice = (4 * n * wide / ranks) as u64;
    let plain = Arc::new(ring(n, 3, wide, wide));
    let typed = Arc::new(with_relations(ring(n, 3, wide, wide), 2, 5));
    for &model in ModelKind::ALL {
        for decoupled in [false, true] {
            let naive = !decoupled && model.has_edge_parameters();
            if naive || decoupled && !model.decouples() {
                continue;
            }
            let data = if model == ModelKind::Rgcn {
                &typed
            } else {
                &plain
            };
            let base = [
                ("hidden", wide.to_string()),
                ("decoupled", decoupled.to_string()),
            ];
            let single = request("single", model, &base);
            let single = train(&STRATEGIES[0], &single, data, None, 1);
            let with = |more: &[(&'static str, String)]| {
                let pairs: Vec<_> = base.iter().chain(more).cloned().collect();
                request("neutrontp", model, &pairs)
            };
            let train = |more: &[(&'static str, String)]| trained(&with(more), data, ranks);
            let what = format!("{model}, decoupled {decoupled}");
            let budget = ("device_mem", (slice / 4).to_string());
            let (whole, got) = (train(&[]), train(std::slice::from_ref(&budget)));
            assert_same(&what, model, &single[0], &got);
            for (rank, all) in got.iter().zip(&whole) {
                rank.assert_predicted(&what);
                assert_eq!(rank.work, all.work, "{what}");
                let most = rank.on_device.expect("a budget");
                assert!(most <= slice / 4 && most > slice / 8, "{what}: {most}");
                assert_eq!(rank.copies[Route::OnDevice].bytes, 0);
            }
            // With the same chunks not a bit is another.
            let chunks = ("chunks", "30".to_owned());
            let both = [chunks, budget.clone()];
            let (cut, on_device) = (train(&both[..1]), train(&both));
            assert!(numbers(&cut) == numbers(&on_device), "{what}");
            let spec = with(&[budget, ("backend", "cuda".into())]);
            if let Some((got, most)) = on_shim(&spec, data, ranks) {
                assert_same(
                    &format!("{what}, through the shim"),
                    model,
                    &single[0],
                    &got,
                );
                let counted = got.iter().filter_map(|rank| rank.on_device).max();
                // The books are those of the device, to the byte.
                assert_eq!(counted, Some(most as u64), "{what}");
                assert!(most as u64 <= slice / 4, "{what}: {most}");
            }
        }
    }
}

/// Bytes that cross in an epoch are those of the chunks: their edges and in-neighbours to the device, the
/// rows that they make back.
#[test]
fn what_crosses_is_counted_to_the_byte() {
    let (n, d, near, chunks) = (120usize, 6usize, 2usize, 5usize);
    let data = Arc::new(ring(n, near, d, d));
    let pairs = [
        ("hidden", d.to_string()),
        ("decoupled", "true".into()),
        ("layers", "1".into()),
        ("chunks", chunks.to_string()),
        ("device_mem", "1000000".into()),
    ];
    // Sums over the edges themselves, without values.
    let got = trained(&request("neutrontp", ModelKind::Gin, &pairs), &data, 1);
    let edges = n * near;
    let lists = 8 * (n + chunks) + 4 * edges;
    // A run of vertices reads all but its last, and those just before it.
    let read = n + chunks * (near - 1);
    let both_ways = |bytes: usize| 2 * bytes as u64;
    let copies = got[0].copies;
    assert_eq!(
        copies[Route::HostToDevice].bytes,
        both_ways(lists + 4 * read * d)
    );
    assert_eq!(copies[Route::DeviceToHost].bytes, both_ways(4 * n * d));
    assert!(copies[Route::HostToDevice].ns > 0 && copies[Route::DeviceToHost].ns > 0);
}

/// Without a budget all of it runs on the device, attention's coefficients too.
#[test]
fn without_a_budget_it_trains_through_the_shim_as_on_the_host() {
    let data = Arc::new(random_dataset(40, 160, 6, 5, false, 8));
    for (model, decoupled) in [
        (ModelKind::Gcn, false),
        (ModelKind::Sage, true),
        (ModelKind::Gat, true),
    ] {
        let base = [("hidden", "7".into()), ("decoupled", decoupled.to_string())];
        let single = request("single", model, &base);
        let single = train(&STRATEGIES[0], &single, &data, None, 1);
        let mut pairs = base.to_vec();
        pairs.push(("backend", "cuda".into()));
        if let Some((got, _)) = on_shim(&request("neutrontp", model, &pairs), &data, 3) {
            assert_same(
                &format!("{model} through the shim"),
                model,
                &single[0],
                &got,
            );
            assert!(got.iter().all(|rank| rank.on_device.is_none()));
        }
    }
}

/// The budget is kept, found automatically with more chunks as it gets smaller, and refused with both
/// numbers where one vertex does not fit.
#[test]
fn a_device_holds_its_budget_and_no_more() {
    let data = Arc::new(random_dataset(300, 1500, 8, 8, false, 8));
    let entry = find("neutrontp").expect("registered");
    for decoupled in ["false", "true"] {
        let spec = |bytes: u64| {
            let pairs = [
                ("hidden", "8".into()),
                ("decoupled", decoupled.into()),
                ("device_mem", bytes.to_string()),
            ];
            request("neutrontp", ModelKind::Sage, &pairs)
        };
        let peak = |bytes: u64| {
            let ranks = trained(&spec(bytes), &data, 2);
            let peaks = ranks.iter().map(|r| r.on_device.expect("a budget"));
            peaks.max().expect("two ranks")
        };
        let whole = peak(1 << 30);
        // The rows that are read, those that are made, the topology.
        assert!(whole > 4 * 300 * 4 * 2 && peak(whole) == whole, "{whole}");
        for budget in [whole - 1, whole * 3 / 4, whole / 2] {
            let peak = peak(budget);
            assert!(peak <= budget && peak > budget / 2, "{peak} of {budget}");
        }
        crate::testing::world(&spec(60), 2, |cx, _| {
            let setup = Setup::of(Arc::clone(&data), None);
            let error = (entry.build)(setup, cx)
                .err()
                .expect("does not fit")
                .to_string();
            assert!(
                error.contains("which has 60") && error.contains("needs "),
                "{error}"
            );
        });
    }
}
