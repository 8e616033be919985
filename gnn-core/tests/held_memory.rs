//! What strategies that sample hold is what they say that they will hold. One test, alone in its program: an allocator
//! counts the bytes of everything that exists, so that the answer is the same on every machine.
//!
//! Can catch: a part of the data that nobody foresaw, a copy that is kept, a data set that outlives
//! set-up. Cannot catch: memory that an allocator needs for itself, or that it cannot use again.
//!
//! Unsafe: an allocator is an unsafe trait; this one hands everything on to the system's.
#![allow(unsafe_code)]

use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::STRATEGIES;
use gnn_core::{World, dataset, store, work};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator with what the caller gave, so its contract is kept;
// counting touches two atomics and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let more = size.saturating_sub(layout.size());
        let held = HELD.fetch_add(more, Ordering::Relaxed) + more;
        MOST.fetch_max(held, Ordering::Relaxed);
        HELD.fetch_sub(layout.size().saturating_sub(size), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn plan(data: &Path, (strategy, ranks): (&str, usize), pairs: &[(&str, &str)]) -> Plan {
    let path = data.display().to_string();
    let (ranks, fixed) = (
        ranks.to_string(),
        [("data", path.as_str()), ("strategy", strategy)],
    );
    let more = [("ranks", ranks.as_str()), ("epochs", "2"), ("dropout", "0")];
    let pairs = fixed.iter().chain(&more).chain(pairs);
    let pairs = pairs.map(|(k, v)| (*k, Value::from_word(v)));
    Plan::in_threads(RunSpec::from_pairs(pairs).expect("valid pairs"))
}

/// Bytes that a run held at most beside what there was before, and those that its ranks foresaw.
fn held(
    data: &Path,
    n: u32,
    (strategy, ranks): (&str, usize),
    pairs: &[(&str, &str)],
) -> (f64, f64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let owner: Vec<u8> = (0..n)
        .flat_map(|v| {
            (v.wrapping_mul(2_654_435_761) >> 16 & 0xFFFF)
                .wrapping_rem(ranks as u32)
                .to_le_bytes()
        })
        .collect();
    std::fs::write(folder.path().join("part.bin"), owner).expect("writes");
    let plan = plan(data, (strategy, ranks), pairs);
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work(&plan, folder.path(), World::Threads(ranks), STRATEGIES).expect("trains");
    let most = MOST.load(Ordering::Relaxed) - before;
    let foreseen = (0..ranks).map(|r| {
        let rows = folder.path().join(format!("rows/rank-{r}.jsonl"));
        let rows = std::fs::read_to_string(rows).expect("rows");
        let rows = rows
            .lines()
            .map(|l| serde_json::from_str(l).expect("a row"));
        let found = rows.filter_map(|row: serde_json::Value| row["predicted_mem_bytes"].as_u64());
        found.max().expect("there is a formula")
    });
    (most as f64, foreseen.sum::<u64>() as f64)
}

#[test]
fn ranks_hold_what_they_foresee() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, n, text) in [
        (
            "sbm",
            30_000,
            "sbm:nodes=30000,classes=8,feat=100,degree=14",
        ),
        (
            "rmat",
            1 << 15,
            "rmat:scale=15,edge-factor=8,feat=100,classes=8",
        ),
    ] {
        let path = folder.path().join(format!("{name}.halo"));
        let data = dataset::load(text, 1).expect("a built-in");
        store::save(&data, text, None, &path).expect("saves");
        drop(data);
        for model in ["gcn", "sage"] {
            for (ranks, prefetch, cache) in [(1, "0", "0"), (1, "4", "0"), (3, "2", "4000")] {
                let pairs = [
                    ("model", model),
                    ("hidden", "64"),
                    ("prefetch", prefetch),
                    ("cache", cache),
                    ("batch", "500"),
                ];
                let (most, foreseen) = held(&path, n, ("distdgl", ranks), &pairs);
                let what =
                    format!("{name}, {model}, {ranks} ranks, {prefetch} ahead, {cache} kept");
                let what = format!("{what}: {:.1} of {:.1} MB", most / 1e6, foreseen / 1e6);
                // The ranks of a process are fullest at different moments, and a queue need not be full.
                let least = if ranks == 1 && prefetch == "0" {
                    0.95
                } else {
                    0.5
                };
                assert!(most < 1.05 * foreseen, "{what}");
                assert!(most > least * foreseen, "{what}");
            }
            // Begun as long as bounds allow, batches are held as far as they do.
            for (ranks, threads, bound) in [(1, "1", "none"), (1, "2", "3MB"), (3, "1", "none")] {
                let pairs = [
                    ("model", model),
                    ("hidden", "64"),
                    ("dags", "4"),
                    ("in_flight", bound),
                    ("sample_threads", threads),
                    ("coarse", "false"),
                    ("batch", "500"),
                ];
                let (most, foreseen) = held(&path, n, ("bytegnn", ranks), &pairs);
                let what = format!("{name}, {model}, bytegnn, {ranks} ranks, bound {bound}");
                let what = format!("{what}: {:.1} of {:.1} MB", most / 1e6, foreseen / 1e6);
                assert!(most < 1.05 * foreseen, "{what}");
                assert!(most > 0.5 * foreseen, "{what}");
            }
            // Caches with room for all that is heard of, and ones that are always full.
            for (lines, pushed) in [("1000000", "2000"), ("3000", "200")] {
                let pairs = [
                    ("model", model),
                    ("hidden", "64"),
                    ("cs", lines),
                    ("nc", pushed),
                    ("batch", "500"),
                ];
                let (most, foreseen) = held(&path, n, ("distgnn-mb", 3), &pairs);
                let what = format!("{name}, {model}, distgnn-mb, {lines} lines, {pushed} pushed");
                let what = format!("{what}: {:.1} of {:.1} MB", most / 1e6, foreseen / 1e6);
                assert!(most < 1.05 * foreseen, "{what}");
                assert!(most > 0.5 * foreseen, "{what}");
            }
        }
    }
}
