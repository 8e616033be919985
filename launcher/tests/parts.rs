//! Cuts into other numbers of parts than ranks, each part cut again: from a strategy's entry through the cache
//! and the run folder to its ranks. That such a cut is right is tested beside the partitioners.

use gnn_core::ctx::Ctx;
use gnn_core::error::Result;
use gnn_core::partition::{Cache, Nested, Parts};
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::{Built, Entry, Setup, find};
use gnn_core::{PART_FILES, World, work};
use launcher::resolve::{Resolved, partition_hash, resolve_with};
use std::sync::Arc;

/// Ranks own four chunks each, which are cut again into two.
const CHUNKED: Entry = Entry {
    name: "chunked",
    parts: |spec| Parts::of(4 * spec.ranks).each(Nested::Again(2)),
    build: of_chunks,
    ..Entry::BASE
};

/// The same in as many ranges.
const RANGED: Entry = Entry {
    name: "ranged",
    parts: |spec| Parts::of(4 * spec.ranks).each(Nested::Ranges(2)),
    ..CHUNKED
};

const NONE: Entry = Entry {
    name: "none",
    parts: |_| Parts::of(0),
    ..CHUNKED
};

const ENTRIES: &[Entry] = &[CHUNKED, RANGED, NONE];

fn of_chunks(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let chunk = setup.owner.as_ref().expect("cut");
    assert_eq!(
        setup.nested.as_ref().map(|place| place.len()),
        Some(chunk.len())
    );
    let owner = chunk.iter().map(|c| c / 4).collect();
    (find("halo")?.build)(Setup::of(setup.data, Some(Arc::new(owner))), cx)
}

fn resolve(strategy: &str, ranks: usize, data: &str, cache: &Cache) -> launcher::Result<Resolved> {
    let pairs = [
        ("strategy", Value::Str(strategy.into())),
        ("ranks", Value::Int(ranks as i64)),
        ("data", Value::Str(data.into())),
        ("launch", Value::Str("threads".into())),
        ("epochs", Value::Int(2)),
    ];
    let spec = RunSpec::from_pairs_in(ENTRIES, pairs)?;
    resolve_with(ENTRIES, spec, Some(cache), false)
}

const DATA: &str = "sbm:nodes=200,classes=4,degree=6,feat=4";

#[test]
fn what_an_entry_asks_for_is_cut_kept_and_brought_to_its_ranks() {
    let kept = tempfile::tempdir().expect("a folder");
    let cache = Cache::new(kept.path());
    for ranks in [1, 2] {
        let resolved = resolve("chunked", ranks, DATA, &cache).expect("runs");
        let (owner, nested) = (resolved.owner.as_ref(), resolved.nested.as_ref());
        let most = |level: &Vec<u32>| level.iter().max().copied();
        assert_eq!(owner.and_then(most), Some(4 * ranks as u32 - 1));
        assert_eq!(nested.and_then(most), Some(1));
        let report = resolved.report.as_ref().expect("cut");
        assert_eq!((report.parts, report.cached), (4 * ranks as u32, false));
        assert_eq!(report.nested.as_ref().map(|n| n.each), Some(2));
        assert!(report.predicted_bytes > 0 && report.predicted_ms > 0.0);
        let again = resolve("chunked", ranks, DATA, &cache).expect("runs");
        assert!(again.report.as_ref().is_some_and(|r| r.cached));
        assert_eq!(
            (&again.owner, &again.nested),
            (&resolved.owner, &resolved.nested)
        );
        let ranged = resolve("ranged", ranks, DATA, &cache).expect("runs");
        assert_eq!(ranged.owner, resolved.owner);
        assert_ne!(partition_hash(&ranged), partition_hash(&resolved));
        // A run folder with it, and a run.
        let run = tempfile::tempdir().expect("a folder");
        launcher::launch::write_plan(run.path(), &resolved).expect("writes");
        for (name, level) in PART_FILES.iter().zip([owner, nested]) {
            let bytes = std::fs::read(run.path().join(name)).expect("written");
            let written = bytes
                .chunks_exact(4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            assert_eq!(Some(&written.collect::<Vec<_>>()), level, "{name}");
        }
        let world = World::Threads(ranks);
        let outcome = work(&resolved.plan, run.path(), world, ENTRIES).expect("trains");
        assert_eq!(outcome.epochs_done, 2);
    }
}

#[test]
fn what_cannot_be_cut_is_refused_in_words() {
    let kept = tempfile::tempdir().expect("a folder");
    let cache = Cache::new(kept.path());
    let refused = |strategy, ranks| {
        let error = resolve(strategy, ranks, "karate", &cache)
            .err()
            .expect("refused");
        (error.to_string(), error.help())
    };
    let (text, help) = refused("chunked", 5);
    let what = "partition: strategy chunked cuts into 20 parts, each cut again into 2, and karate has 34 vertices";
    assert_eq!(text, what);
    assert!(help.contains("at most 34 parts in all"), "{help}");
    let (text, _) = refused("ranged", 5);
    assert!(text.contains("20 parts of 2 ranges each"), "{text}");
    let (text, _) = refused("none", 1);
    assert!(text.contains("cuts into 0 parts, which are none"), "{text}");
}
