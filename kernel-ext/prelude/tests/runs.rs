//! A `Run` over a run folder on disk: what a cell gets from it, and what it says when it cannot.

mod common;

use std::fs::{self, File};
use std::path::Path;

use halobook::Run;
use halobook::prelude::*;

/// A finished run's folder with the frames of `common`.
fn folder(root: &Path, id: &str, ranks: u32) -> Run {
    let dir = root.join("runs").join(id);
    fs::create_dir_all(dir.join("frames")).expect("temporary folders can be made");
    let manifest = serde_json::json!({
        "run_id": id, "name": "", "started": "2026-01-01T12:00:00.000Z", "status": "ok", "pid": 1,
        "spec": {}, "ranks": ranks, "strategy": "halo", "strategy_hash": "00", "model": "gcn",
        "data": "rmat:scale=8", "backend": "cpu", "seed": 7, "determinism": "bitwise",
        "launch": "threads", "threads_per_rank": 1, "oversubscribed": true, "host_class": "2 cores",
        "mpi": null, "version": "0", "epochs_done": 12, "wall_ms": 1.0, "final": null,
        "error": null, "notes": [],
    });
    fs::write(dir.join("manifest.json"), manifest.to_string()).expect("writes");
    let frames = [
        ("epochs", common::epochs(12, ranks)),
        ("ranks", common::ranks(12, ranks)),
        ("comm", common::comm(12, ranks)),
    ];
    for (name, mut frame) in frames {
        let path = dir.join("frames").join(format!("{name}.parquet"));
        let file = File::create(path).expect("creates");
        ParquetWriter::new(file).finish(&mut frame).expect("writes");
    }
    Run::at(dir)
}

#[test]
fn a_run_answers_from_its_folder() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let run = folder(root.path(), "20260101-120000-aaaa", 4);
    assert_eq!(run.id(), "20260101-120000-aaaa");
    assert_eq!(run.status(), "ok");
    assert_eq!(run.epochs().height(), 12);
    assert_eq!(run.ranks().height(), 48);
    assert_eq!(run.manifest().epochs_done, 12);
    assert_eq!(run.summary().height(), 1);
    assert_eq!(
        run.to_string(),
        "run 20260101-120000-aaaa: ok, halo on 4 ranks, gcn on rmat:scale=8 (synthetic), 12 epochs"
    );
    assert!(run.bundle().get("text/html").is_some());
    for (kind, ..) in plot::KINDS {
        let plot = run.plot(kind);
        assert!(plot.svg.contains("20260101-120000-aaaa"), "{kind}");
        assert!(plot.text.contains("more ranks than cores"), "{kind}");
    }
}

#[test]
fn runs_are_compared_side_by_side() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let (a, b) = (
        folder(root.path(), "20260101-120000-aaaa", 1),
        folder(root.path(), "20260101-120000-bbbb", 4),
    );
    assert!(compare(&[&a, &b], "curve").svg.contains("halo · 4 ranks"));
    assert!(compare(&[&a, &b], "stack").text.contains("halo · 1 rank"));
    let error = halobook::try_compare(&[&a, &b], "balance").expect_err("one run only");
    assert!(error.to_string().contains("help:"));
}

#[test]
fn what_cannot_be_answered_is_said_in_words() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let run = folder(root.path(), "20260101-120000-aaaa", 2);
    let frame = run.try_frame("epoch").expect_err("no such frame");
    assert!(
        frame.to_string().contains("did you mean 'epochs'"),
        "{frame}"
    );
    let kind = run.try_plot("curv").expect_err("no such kind");
    assert!(
        kind.to_string().contains("did you mean \"curve\""),
        "{kind}"
    );
    let gone = Run::at(root.path().join("runs/none"));
    assert!(gone.try_frame("epochs").is_err() && gone.try_plot("curve").is_err());
    assert_eq!(gone.to_string(), "run none: its folder cannot be read");
    assert!(gone.bundle().get("text/plain").is_some());
    let end = std::panic::catch_unwind(|| gone.epochs()).expect_err("a cell ends");
    let words = end.downcast_ref::<String>().expect("a panic with words");
    assert!(words.contains("\nhelp: "), "{words}");
}
