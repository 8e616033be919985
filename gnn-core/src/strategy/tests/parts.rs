//! Cuts into other numbers of parts than ranks, each part cut again: what a run folder holds reaches the
//! strategy. The launcher's tests show that it gets there.

use super::*;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::partition::{Nested, Parts};
use crate::plan::Plan;
use crate::strategy::{Built, find};
use crate::{Outcome, PART_FILES, World, work};
use std::path::Path;

/// Chunks of a rank, and parts of a chunk.
const CHUNKS: usize = 4;
const EACH: usize = 2;

/// `halo` on ranks that own four chunks each, of two parts each.
const CHUNKED: Entry = Entry {
    name: "chunked",
    parts: |spec| Parts::of(CHUNKS * spec.ranks).each(Nested::Again(EACH)),
    build: of_chunks,
    ..Entry::BASE
};

fn of_chunks(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let (chunk, place) = (setup.owner.as_ref(), setup.nested.as_ref());
    let (chunk, place) = (chunk.expect("cut"), place.expect("cut again"));
    let most = |level: &[u32]| level.iter().max().map(|p| *p as usize + 1);
    assert_eq!(most(chunk), Some(CHUNKS * cx.size()));
    assert_eq!((most(place), place.len()), (Some(EACH), chunk.len()));
    let owner = chunk.iter().map(|c| c / CHUNKS as u32).collect();
    let setup = Setup::of(setup.data, Some(Arc::new(owner)));
    (find("halo")?.build)(setup, cx)
}

const ENTRIES: &[Entry] = &[super::super::single::ENTRY, CHUNKED];

fn trained(folder: &Path, strategy: &str, ranks: usize) -> Result<Outcome> {
    let pairs = [
        ("strategy", strategy),
        ("data", "karate"),
        ("epochs", "3"),
        ("ranks", &ranks.to_string()),
    ];
    let pairs = pairs.map(|(k, v)| (k.to_owned(), Value::from_word(v)));
    let spec = RunSpec::from_pairs_in(ENTRIES, pairs)?;
    let plan = Plan::in_threads(spec);
    work(&plan, folder, World::Threads(ranks), ENTRIES)
}

fn losses(folder: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join("rows/rank-0.jsonl")).expect("rows");
    let rows = text.lines().filter(|l| l.contains(r#""frame":"metrics""#));
    let loss = |l: &str| {
        serde_json::from_str::<serde_json::Value>(l).expect("a row")["train_loss"].as_f64()
    };
    rows.map(|l| loss(l).expect("a number")).collect()
}

fn write(folder: &Path, level: usize, part: impl Fn(u32) -> u32) {
    let bytes: Vec<u8> = (0..34).flat_map(|v| part(v).to_le_bytes()).collect();
    std::fs::write(folder.join(PART_FILES[level]), bytes).expect("writes");
}

#[test]
fn a_strategy_gets_both_levels_of_the_cut_that_its_entry_asks_for() {
    let single = tempfile::tempdir().expect("a folder");
    trained(single.path(), "single", 1).expect("trains");
    for ranks in [1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let parts = (CHUNKS * ranks) as u32;
        write(folder, 0, |v| v % parts);
        let error = trained(folder, "chunked", ranks).expect_err("one level is missing");
        assert!(error.to_string().contains("nested.bin"), "{error}");
        write(folder, 1, |v| v / 17 + u32::from(v == 33));
        let error = trained(folder, "chunked", ranks).expect_err("there is no such part");
        assert!(error.to_string().contains("owner 2 of 2"), "{error}");
        write(folder, 1, |v| v / 17);
        trained(folder, "chunked", ranks).expect("trains");
        for (a, b) in losses(folder).iter().zip(losses(single.path())) {
            assert!((a - b).abs() < 1e-5 * b, "{ranks} ranks: {b}, got {a}");
        }
    }
}
