//! A strategy of somebody else's: one file (`own_strategy/lazy.rs`) and one line in a slice of entries bring
//! its settings, its frame, its checkpoints and its plan.
//!
//! Can catch: a place beside the entry that has to know of a strategy for any of these. What its numbers
//! are worth is tested for the strategies of the registry.

#[path = "own_strategy/lazy.rs"]
mod lazy;

use gnn_core::dataset::load_for;
use gnn_core::plan::Plan;
use gnn_core::record::frame;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::{Entry, STRATEGIES, Setup, find};
use gnn_core::{Outcome, World, rehearse, work};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

/// The one line.
static ENTRIES: &[Entry] = &[lazy::ENTRY];

const VERTICES: u32 = 120;
const RANKS: usize = 3;

fn plan(entries: &[Entry], pairs: &[(&str, &str)], start: usize) -> Plan {
    let data = "sbm:nodes=120,classes=3,feat=12,degree=6";
    let ours = [
        ("data", data),
        ("hidden", "8"),
        ("seed", "5"),
        ("epochs", "6"),
    ];
    let all = ours.iter().chain(pairs);
    let pairs = all.map(|(key, value)| ((*key).to_owned(), Value::from_word(value)));
    let mut spec = RunSpec::from_pairs_in(entries, pairs).expect("a request");
    spec.ranks = RANKS;
    Plan {
        start,
        ..Plan::in_threads(spec)
    }
}

fn owner() -> Vec<u32> {
    (0..VERTICES).map(|v| v % RANKS as u32).collect()
}

fn train(folder: &Path, plan: &Plan, entries: &'static [Entry]) -> Outcome {
    let bytes: Vec<u8> = owner().iter().flat_map(|part| part.to_le_bytes()).collect();
    std::fs::write(folder.join("part.bin"), bytes).expect("writes");
    work(plan, folder, World::Threads(RANKS), entries).expect("trains")
}

/// Rows of a frame that a rank wrote.
fn rows(folder: &Path, rank: usize, frame: &str) -> Vec<Json> {
    let path = folder.join(format!("rows/rank-{rank}.jsonl"));
    let text = std::fs::read_to_string(path).expect("rows");
    let all = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"));
    all.filter(|row: &Json| row["frame"] == frame).collect()
}

fn losses(folder: &Path) -> Vec<String> {
    let metrics = rows(folder, 0, "metrics");
    metrics
        .iter()
        .map(|row| row["train_loss"].to_string())
        .collect()
}

#[test]
fn it_has_a_setting_and_is_exact_where_it_says_so() {
    let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let exact = plan(ENTRIES, &[("strategy", "lazy"), ("every", "1")], 0);
    train(ours.path(), &exact, ENTRIES);
    let broadcast = plan(STRATEGIES, &[("strategy", "broadcast")], 0);
    train(theirs.path(), &broadcast, STRATEGIES);
    assert_eq!(losses(ours.path()), losses(theirs.path()));
    let refused = |value: &str| {
        let pairs = [("strategy", "lazy"), ("every", value)];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), Value::from_word(value)));
        RunSpec::from_pairs_in(ENTRIES, pairs).is_err()
    };
    assert!(refused("0") && !refused("5"));
    assert!(find("lazy").is_err(), "it is in no registry");
}

#[test]
fn it_has_a_frame_that_the_run_folder_explains() {
    let folder = tempfile::tempdir().expect("a folder");
    train(
        folder.path(),
        &plan(ENTRIES, &[("strategy", "lazy")], 0),
        ENTRIES,
    );
    let schemas = frame::read(folder.path()).expect("reads").expect("written");
    let [schema] = &schemas[..] else {
        panic!("{schemas:?}")
    };
    assert_eq!((schema.name.as_str(), schema.columns.len()), ("lazy", 7));
    let unit = |name: &str| {
        let column = schema.columns.iter().find(|column| column.name == name);
        column.map(|column| column.unit.as_str())
    };
    assert_eq!(
        [unit("age_epochs"), unit("bytes_sent")],
        [Some("epochs"), Some("bytes")]
    );
    for rank in 0..RANKS {
        let all = rows(folder.path(), rank, "lazy");
        // Two layers, forward and backward.
        assert_eq!(all.len(), 6 * 2 * 2);
        for row in all {
            let travels = row["epoch"].as_u64().is_some_and(|epoch| epoch % 2 == 0);
            assert_eq!(row["travels"], travels, "{row}");
            assert_eq!(row["age_epochs"], u64::from(!travels), "{row}");
            assert_eq!(row["bytes_sent"].as_u64() > Some(0), travels, "{row}");
        }
        for row in rows(folder.path(), rank, "comm") {
            assert_eq!(row["bytes"], row["predicted_bytes"], "{row}");
        }
    }
}

#[test]
fn it_goes_on_from_a_checkpoint() {
    let [whole, half, rest] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let lazy = ("strategy", "lazy");
    train(whole.path(), &plan(ENTRIES, &[lazy], 0), ENTRIES);
    let early = [lazy, ("epochs", "3"), ("checkpoint_every", "3")];
    train(half.path(), &plan(ENTRIES, &early, 0), ENTRIES);
    let checkpoint = "checkpoints/epoch-00000003";
    let (from, to) = (half.path().join(checkpoint), rest.path().join(checkpoint));
    std::fs::create_dir_all(&to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a checkpoint") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
    let outcome = train(rest.path(), &plan(ENTRIES, &[lazy], 3), ENTRIES);
    assert_eq!(outcome.epochs_done, 6);
    // The fourth epoch uses rows that were sent before the checkpoint.
    assert_eq!(losses(rest.path()), losses(whole.path())[3..]);
}

#[test]
fn it_has_a_plan_which_its_run_keeps() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(ENTRIES, &[("strategy", "lazy")], 0);
    let data = Arc::new(load_for(plan.spec.data_spec(), &plan.verdicts).expect("generated"));
    let setup = Setup {
        data,
        owner: Some(Arc::new(owner())),
        nested: None,
    };
    let foreseen = rehearse(&plan, setup, ENTRIES).expect("rehearses");
    train(folder.path(), &plan, ENTRIES);
    for (rank, seen) in foreseen.iter().enumerate() {
        let first = &rows(folder.path(), rank, "ranks")[0];
        assert_eq!(first["bytes_tx"], seen.bytes());
        assert_eq!(first["edges"], seen.work.edges);
        assert!(seen.memory.is_some_and(|memory| memory.halo > 0));
    }
}
