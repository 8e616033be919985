//! Runs that go on from a checkpoint against runs that never stopped, and files that are damaged.
//!
//! Can catch: anything that later epochs need and that is not written down, for every strategy that
//! says it resumes; checkpoints that are taken for whole and are not. Cannot catch: a kill of a real
//! process (the tests from outside do that), or a disk that lies about what it has written.

use super::*;
use crate::plan::Plan;
use crate::spec::{RunSpec, Value};
use crate::strategy::tests::stages;
use crate::strategy::{self, Entry, STRATEGIES, find_in};
use crate::{Outcome, World, work};
use std::path::Path;

const DATA: &str = "sbm:nodes=120,classes=3,feat=12,degree=6";

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn with<'a>(pairs: Pairs<'a>, more: Pairs<'a>) -> Vec<(&'a str, &'a str)> {
    [pairs, more].concat()
}

/// The strategies there are, and one whose ranks hold some layers each.
fn entries() -> &'static [Entry] {
    static ALL: std::sync::OnceLock<Vec<Entry>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| [STRATEGIES, &[stages::ENTRY]].concat())
}

/// Trains in `folder`, from `start` epochs on.
fn run(folder: &Path, ranks: usize, pairs: Pairs<'_>, start: usize) -> Outcome {
    let ours = [("data", DATA), ("hidden", "8"), ("seed", "5")];
    let all = ours.iter().chain(pairs);
    let all = all.map(|(k, v)| (*k, Value::from_word(v)));
    let all = all.map(|(k, v)| (k.to_owned(), v));
    let mut spec = RunSpec::from_pairs_in(entries(), all).expect("valid pairs");
    spec.ranks = ranks;
    let n = if spec.data == "karate" { 34 } else { 120u32 };
    let entry = find_in(entries(), &spec.strategy).expect("registered");
    let (parts, nested) = entry.cut_into(&spec).map_or((1, 1), |parts| {
        (parts.count as u32, parts.nested.count() as u32)
    });
    let write = |name: &str, part: &dyn Fn(u32) -> u32| {
        let bytes: Vec<u8> = (0..n).flat_map(|v| part(v).to_le_bytes()).collect();
        std::fs::write(folder.join(name), bytes).expect("writes");
    };
    write("part.bin", &|v| v % parts);
    if nested > 1 {
        write("nested.bin", &|v| v / parts % nested);
    }
    let plan = Plan {
        start,
        ..Plan::in_threads(spec)
    };
    work(&plan, folder, World::Threads(ranks), entries()).expect("trains")
}

/// What rank 0 wrote of each epoch, but for times.
fn epochs(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("rows/rank-0.jsonl")).expect("rows");
    let rows = text.lines().filter(|l| l.contains(r#""frame":"metrics""#));
    let timeless = |line: &str| {
        let mut row: serde_json::Value = serde_json::from_str(line).expect("a row");
        row.as_object_mut().expect("an object").remove("eval_ms");
        row.to_string()
    };
    rows.map(timeless).collect()
}

fn epoch(folder: &Path, epochs: usize) -> std::path::PathBuf {
    folder.join(format!("checkpoints/epoch-{epochs:08}"))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

/// Every file of a checkpoint.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a checkpoint");
    let entries = entries.map(|e| e.expect("an entry"));
    let read = |e: std::fs::DirEntry| {
        let name = e.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(e.path()).expect("reads"))
    };
    let mut all: Vec<_> = entries.map(read).collect();
    all.sort();
    all
}

/// Six epochs, against three and three more, and against the last two after a checkpoint of six.
fn goes_on(ranks: usize, pairs: Pairs<'_>) {
    let what = format!("{ranks} ranks, {pairs:?}");
    let folders = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
    let [whole, half, rest, late] = folders.each_ref().map(|f| f.path());
    run(
        whole,
        ranks,
        &with(pairs, &[("epochs", "6"), ("checkpoint_every", "2")]),
        0,
    );
    run(
        half,
        ranks,
        &with(pairs, &[("epochs", "3"), ("checkpoint_every", "5")]),
        0,
    );
    let all = epochs(whole);
    assert_eq!(all.len(), 6, "{what}");
    assert_eq!(epochs(half), all[..3], "{what}");
    for (folder, from, start) in [(rest, half, 3), (late, whole, 4)] {
        copy(&epoch(from, start), &epoch(folder, start));
        let again = with(pairs, &[("epochs", "6"), ("checkpoint_every", "9")]);
        let outcome = run(folder, ranks, &again, start);
        assert_eq!(outcome.epochs_done, 6, "{what}");
        assert_eq!(epochs(folder), all[start..], "{what} from {start}");
        // Weights, moments, steps and what is kept of old rows, to the last bit.
        let (got, want) = (files(&epoch(folder, 6)), files(&epoch(whole, 6)));
        assert!(got == want, "{what} from {start}: other bits");
    }
}

#[test]
fn a_run_that_goes_on_has_the_bits_of_one_that_never_stopped() {
    for entry in STRATEGIES.iter().filter(|e| e.resumes) {
        for ranks in [1, 2, 3] {
            if ranks <= entry.ranks.1 {
                goes_on(ranks, &[("strategy", entry.name)]);
            }
        }
    }
}

#[test]
fn so_has_one_that_reads_rows_of_several_versions() {
    for more in [
        ("freeze", "2"),
        ("freeze", "4"),
        ("history_gradients", "true"),
    ] {
        for (ranks, groups) in [(1, "1"), (2, "1"), (2, "2"), (4, "2")] {
            let pairs = [
                ("strategy", "gnnpipe"),
                ("groups", groups),
                ("chunks", "3"),
                more,
            ];
            goes_on(ranks, &pairs);
        }
    }
}

#[test]
fn so_has_one_of_every_bound_on_staleness() {
    for name in ["sancus", "skipg"] {
        for bound in ["epoch-fixed=2", "epoch-adaptive=1", "variation=0.5"] {
            goes_on(3, &[("strategy", name), ("bound", bound)]);
        }
    }
}

/// Batches of the epochs that are left, made ahead as if those before had been trained.
#[test]
fn so_has_one_of_mini_batches() {
    let sampled: Pairs<'_> = &[("strategy", "distdgl"), ("fanout", "3"), ("batch", "4")];
    for prefetch in ["0", "2"] {
        goes_on(3, &[sampled, &[("prefetch", prefetch)]].concat());
    }
    // Each server has the moments of its own part.
    goes_on(3, &[sampled, &[("gradients", "ps")]].concat());
}

#[test]
fn so_has_one_of_every_optimiser_and_model_and_of_links() {
    let two: Pairs<'_> = &[("strategy", "halo")];
    let momentum: Pairs<'_> = &[("optimizer", "sgd"), ("momentum", "0.9")];
    let gat: Pairs<'_> = &[("model", "gat"), ("heads", "2")];
    let links: Pairs<'_> = &[("task", "link"), ("scorer", "mlp"), ("embedding", "4")];
    for more in [
        momentum,
        &[("optimizer", "sgd")],
        &[("optimizer", "adamw")],
        gat,
        &[("model", "gcnii"), ("layers", "3")],
        links,
        &[("first_aggregate", "once"), ("dropout", "0")],
    ] {
        goes_on(2, &[two, more].concat());
    }
    let decoupled: Pairs<'_> = &[("decoupled", "true"), ("pipeline", "true")];
    goes_on(3, &[&[("strategy", "neutrontp")], decoupled].concat());
}

/// Every rank writes the layers that it holds, and takes them back.
#[test]
fn so_has_one_whose_ranks_hold_some_layers_each() {
    for (ranks, model) in [(2, "gcnii"), (4, "sage"), (4, "resgcn")] {
        let stages: Pairs<'_> = &[("strategy", "stages"), ("layers", "3"), ("model", model)];
        goes_on(ranks, stages);
    }
}

#[test]
fn the_last_two_whole_checkpoints_are_kept_and_damaged_ones_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let pairs: Pairs<'_> = &[
        ("strategy", "sancus"),
        ("epochs", "5"),
        ("checkpoint_every", "1"),
    ];
    run(folder, 2, pairs, 0);
    let mut names: Vec<_> = std::fs::read_dir(folder.join("checkpoints"))
        .expect("there")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["epoch-00000004", "epoch-00000005"]);
    let found = find(folder).expect("whole");
    assert_eq!((found.epochs, found.passed_over.len()), (5, 0));
    // One that was being written when the run was killed.
    std::fs::create_dir(epoch(folder, 6)).expect("a folder");
    std::fs::write(epoch(folder, 6).join("rank-0"), b"HALO").expect("writes");
    std::fs::write(epoch(folder, 6).join("shared.tmp"), b"HALO").expect("writes");
    assert_eq!(find(folder).expect("whole").epochs, 5);
    // Any bit of any file.
    for name in ["shared", "rank-0", "rank-1"] {
        let path = epoch(folder, 5).join(name);
        let bytes = std::fs::read(&path).expect("reads");
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 9) {
            let mut other = bytes.clone();
            other[at] ^= 4;
            std::fs::write(&path, &other).expect("writes");
            let found = find(folder).expect("the one before");
            assert_eq!(
                (found.epochs, found.passed_over.len()),
                (4, 1),
                "{name} {at}"
            );
            std::fs::write(&path, &other[..at]).expect("writes");
            assert_eq!(find(folder).expect("the one before").epochs, 4);
        }
        std::fs::write(&path, &bytes).expect("writes");
    }
    std::fs::remove_file(epoch(folder, 5).join("rank-1")).expect("removes");
    assert_eq!(find(folder).expect("the one before").epochs, 4);
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let (one, other) = (tempfile::tempdir(), tempfile::tempdir());
    let (one, other) = (one.expect("a folder"), other.expect("a folder"));
    let (one, other) = (one.path(), other.path());
    run(one, 1, &[("epochs", "2"), ("checkpoint_every", "2")], 0);
    copy(&epoch(one, 2), &epoch(other, 2));
    let ended = std::panic::catch_unwind(|| {
        run(other, 1, &[("epochs", "3"), ("lr", "0.02")], 2);
    });
    let text = ended.expect_err("another rate");
    let text = text.downcast_ref::<String>().expect("words");
    assert!(text.contains("another run"), "{text}");
}

#[test]
fn keys_that_may_change_are_keys_and_all_others_count() {
    let data = crate::dataset::load_for(
        RunSpec::default().data_spec(),
        &crate::store::Verdicts::none(),
    )
    .expect("karate");
    let of = |pairs: Pairs<'_>| {
        let pairs = pairs.iter().map(|(k, v)| (*k, Value::from_word(v)));
        digest(&RunSpec::from_pairs(pairs).expect("valid pairs"), &data)
    };
    assert!(may_change("epochs") && !may_change("lr") && !may_change("bound"));
    let plain = of(&[]);
    let free = [
        ("epochs", "7"),
        ("patience", "3"),
        ("name", "x"),
        ("threads", "2"),
    ];
    assert_eq!(of(&free), plain);
    for pair in [
        ("lr", "0.5"),
        ("seed", "1"),
        ("strategy", "halo"),
        ("model", "gat"),
    ] {
        assert_ne!(of(&[pair]), plain, "{pair:?}");
    }
    let sancus = |bound| of(&[("strategy", "sancus"), ("bound", bound)]);
    assert_ne!(sancus("variation=0.1"), sancus("variation=0.2"));
}

#[test]
fn a_strategy_without_checkpoints_is_refused_before_anything_starts() {
    let pairs = [("checkpoint_every", Value::Int(1))];
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    let single = strategy::find("single").expect("registered");
    assert!(single.check(&spec).is_ok());
    let other = strategy::Entry {
        resumes: false,
        ..*single
    };
    let error = other.check(&spec).expect_err("it has none");
    assert!(error.help().contains("checkpoint_every = 0"), "{error}");
}

/// Epochs until the score no longer improves, and how the run ended.
fn patient(ranks: usize, pairs: Pairs<'_>) -> (Vec<String>, Outcome, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let outcome = run(folder.path(), ranks, pairs, 0);
    let rows = std::fs::read_to_string(folder.path().join("rows/rank-0.jsonl")).expect("rows");
    let told = rows.lines().any(|l| l.contains(r#""frame":"ended""#));
    (epochs(folder.path()), outcome, told)
}

#[test]
fn patience_ends_a_run_at_the_same_epoch_on_any_number_of_ranks() {
    for more in [
        &[("eval_every", "1")][..],
        &[("eval_every", "3")],
        &[("task", "link"), ("patience", "3")],
    ] {
        let of = |ranks, patience| {
            let ours = [
                ("strategy", "halo"),
                ("epochs", "80"),
                ("patience", patience),
            ];
            let last = if patience == "0" { &[][..] } else { more };
            let pairs = [&more[..1], &ours, last].concat();
            patient(ranks, &pairs)
        };
        let (endless, outcome, told) = of(1, "0");
        assert!(endless.len() == 80 && !told && !outcome.stopped_early);
        let (one, outcome, told) = of(1, "5");
        assert!(outcome.stopped_early && told && !outcome.interrupted);
        assert!(
            one.len() < 80 && one[..] == endless[..one.len()],
            "{more:?}"
        );
        for ranks in [2, 3] {
            let (several, outcome, told) = of(ranks, "5");
            assert!(outcome.stopped_early && told);
            assert_eq!(several.len(), one.len(), "{more:?}");
        }
    }
}

#[test]
fn patience_is_kept_over_a_checkpoint() {
    let pairs = |epochs: &'static str| {
        [
            ("epochs", epochs),
            ("patience", "6"),
            ("checkpoint_every", "1000"),
        ]
    };
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let [whole, part, rest] = folders.each_ref().map(|f| f.path());
    let ended = run(whole, 1, &pairs("80"), 0);
    assert!(ended.stopped_early);
    // In the middle of the wait.
    let start = ended.epochs_done - 3;
    run(
        part,
        1,
        &[&pairs("80")[..], &[("epochs", &start.to_string())]].concat(),
        0,
    );
    copy(&epoch(part, start), &epoch(rest, start));
    assert_eq!(run(rest, 1, &pairs("80"), start), ended);
    assert_eq!(
        files(&epoch(rest, ended.epochs_done)),
        files(&epoch(whole, ended.epochs_done))
    );
}
