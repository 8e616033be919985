//! A rank that fails inside an epoch, in a world of threads: its peers, which wait for it, are
//! woken, the first cause is what comes out, and finished epochs stay readable. Also shows that a
//! strategy defined elsewhere runs by being in the slice that `work` is given. What this cannot
//! catch: failures of processes (the tests from outside kill those).

use gnn_core::backend::Mat;
use gnn_core::ctx::Ctx;
use gnn_core::plan::Plan;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::{Built, Entry, Setup, Strategy, find};
use gnn_core::{Error, Result, World, work};
use std::path::Path;

const FATAL_EPOCH: u64 = 3;
const FATAL_RANK: usize = 1;

/// A strategy, but one rank fails before its part of an epoch.
struct Failing {
    inner: Box<dyn Strategy>,
    fail: fn() -> Error,
}

impl Strategy for Failing {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        if cx.epoch == FATAL_EPOCH && cx.rank() == FATAL_RANK {
            return Err((self.fail)());
        }
        self.inner.epoch(cx)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        self.inner.logits(cx)
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.inner.gradients()
    }
}

fn build_failing(setup: Setup, cx: &mut Ctx, fail: fn() -> Error) -> Result<Built> {
    let name = cx.plan.spec.strategy.clone();
    let Built {
        strategy: inner,
        rows,
        facts,
        predicted,
        part,
    } = (find(&name)?.build)(setup, cx)?;
    Ok(Built {
        strategy: Box::new(Failing { inner, fail }),
        rows,
        facts,
        predicted,
        part,
    })
}

fn an_error() -> Error {
    Error::Partition {
        method: "test".into(),
        reason: "the first cause".into(),
    }
}

fn a_panic() -> Error {
    panic!("a rank panicked on purpose")
}

fn entry(name: &str, build: fn(Setup, &mut Ctx) -> Result<Built>) -> &'static [Entry] {
    let known = find(name).expect("registered");
    Box::leak(Box::new([Entry { build, ..*known }]))
}

fn run(folder: &Path, entries: &'static [Entry]) -> Result<gnn_core::Outcome> {
    let spec = RunSpec::from_pairs([
        ("data", Value::Str("karate".into())),
        ("strategy", Value::Str(entries[0].name.into())),
        ("ranks", Value::Int(3)),
        ("epochs", Value::Int(50)),
    ])
    .expect("valid pairs");
    let owner: Vec<u8> = (0..34u32).flat_map(|v| (v % 3).to_le_bytes()).collect();
    std::fs::write(folder.join("part.bin"), owner).expect("writes");
    let plan = Plan::in_threads(spec);
    work(&plan, folder, World::Threads(3), entries)
}

fn finished_epochs(folder: &Path) -> usize {
    let rows = std::fs::read_to_string(folder.join("rows/rank-0.jsonl")).expect("rows");
    rows.lines()
        .filter(|line| line.contains("\"frame\":\"metrics\""))
        .count()
}

#[test]
fn an_error_on_one_rank_ends_all_and_is_the_one_reported() {
    // Peers wait for boundary rows, or in a split.
    for name in ["halo", "neutrontp"] {
        let folder = tempfile::tempdir().expect("temporary folder");
        let entries = entry(name, |setup, cx| build_failing(setup, cx, an_error));
        let error = run(folder.path(), entries).expect_err("one rank fails");
        assert!(error.to_string().contains("the first cause"), "{error}");
        assert_eq!(finished_epochs(folder.path()), FATAL_EPOCH as usize);
    }
}

#[test]
fn a_panic_on_one_rank_ends_all() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let entries = entry("halo", |setup, cx| build_failing(setup, cx, a_panic));
    let path = folder.path().to_owned();
    let ended = std::thread::spawn(move || run(&path, entries)).join();
    let panic = ended.expect_err("the panic comes out");
    assert_eq!(
        panic.downcast_ref::<&str>(),
        Some(&"a rank panicked on purpose")
    );
    assert_eq!(finished_epochs(folder.path()), FATAL_EPOCH as usize);
}
