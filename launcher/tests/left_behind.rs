//! What a run leaves behind, with random changes, through everything that reads it: an error or what the file says,
//! never a panic. A frame with its hash is the one that was written, or refused.
//!
//! Cannot catch an allocation that the system refuses other than as the end of this test's process.
//! `HALOBOOK_RANDOM_INPUTS` is how many changes of each file are tried.

use gnn_core::at_random::{Dice, inputs};
use gnn_core::plan::Plan;
use launcher::frames;
use launcher::manifest::Manifest;
use launcher::partition::read_report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

const FEW: u64 = 100;
const MANY: u64 = 1_000_000;
/// Of what takes milliseconds each.
const SLOW: u64 = 200_000;
/// Of what waits for a writer that may be at work.
const WAITING: [u64; 2] = [20, 5_000];

/// A store with one finished run, and the run's folder.
fn trained() -> (tempfile::TempDir, PathBuf) {
    // In memory, where there is such a folder.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let home = home.expect("a folder");
    let words = "train --data karate -s halo -n 2 --launch threads --epochs 3 --trace";
    let done = Command::new(env!("CARGO_BIN_EXE_halobook"))
        .args(words.split(' '))
        .env("HALOBOOK_HOME", home.path())
        .output()
        .expect("built with this test");
    assert!(done.status.success(), "{done:?}");
    let runs = std::fs::read_dir(home.path().join("runs")).expect("runs");
    let run = runs.flatten().next().expect("one run").path();
    (home, run)
}

/// Reads the changed `file` by `read`, which says what is wrong with what came out.
fn try_all(
    run: &Path,
    file: &str,
    [few, many]: [u64; 2],
    read: impl Fn(&Path, u64) -> Result<(), String>,
) {
    let path = run.join(file);
    let whole = std::fs::read(&path).expect("there");
    for seed in 0..inputs(few, many) {
        let mut bytes = whole.clone();
        Dice::new(seed).change(&mut bytes);
        std::fs::write(&path, &bytes).expect("written");
        let tried = catch_unwind(AssertUnwindSafe(|| read(run, seed)));
        let wrong = match tried {
            Ok(Ok(())) => continue,
            Ok(Err(wrong)) => wrong,
            Err(panic) => match panic.downcast_ref::<String>() {
                Some(said) => format!("panicked: {said}"),
                None => "panicked".into(),
            },
        };
        panic!(
            "{file}, seed {seed}: {wrong}\n{}",
            String::from_utf8_lossy(&bytes)
        );
    }
    std::fs::write(&path, &whole).expect("written");
}

/// Loads one of the frames, and writes it as people read it.
fn a_frame(run: &Path, seed: u64) -> Result<(), String> {
    let names = frames::names_of(run).unwrap_or_default();
    let name = names.get(seed as usize % names.len().max(1));
    if let Some(made) = name.and_then(|name| frames::load(run, name).ok()) {
        let _ = frames::text(&made);
    }
    Ok(())
}

#[test]
fn manifests_plans_and_reports() {
    let (_home, run) = trained();
    try_all(&run, "manifest.json", [FEW, MANY], |run, _| {
        if let Ok(manifest) = Manifest::read(run) {
            let _ = (
                manifest.link().is_some(),
                manifest.is_loading(),
                manifest.number("target"),
            );
            let _ = frames::load(run, "runs").map(|made| frames::text(&made));
        }
        Ok(())
    });
    try_all(&run, "plan.json", [FEW, MANY], |run, _| {
        let bytes = std::fs::read(run.join("plan.json")).map_err(|e| e.to_string())?;
        if let Ok(plan) = serde_json::from_slice::<Plan>(&bytes) {
            let _ = plan.spec.to_pairs();
        }
        Ok(())
    });
    try_all(&run, "partition.json", [FEW, MANY], |run, _| {
        let _ = read_report(&run.join("partition.json"));
        Ok(())
    });
}

#[test]
fn rows_of_ranks() {
    let (_home, run) = trained();
    std::fs::remove_dir_all(run.join("frames")).expect("there");
    for file in ["rows/rank-0.jsonl", "rows/rank-1.jsonl", "foreseen.json"] {
        try_all(&run, file, [3 * FEW, SLOW], a_frame);
    }
}

#[test]
fn frames_with_their_hash_are_what_was_written() {
    let (_home, run) = trained();
    for name in ["epochs", "ranks"] {
        let whole = frames::load(&run, name).expect("written");
        try_all(
            &run,
            &format!("frames/{name}.parquet"),
            WAITING,
            |run, _| match frames::load(run, name) {
                Ok(made) if !made.equals_missing(&whole) => Err("another frame".into()),
                _ => Ok(()),
            },
        );
    }
}

/// Frames of older versions have no hash, and are made from the rows: a reader of damaged Parquet may panic, or ask
/// for more memory than there is and end the process.
#[test]
fn frames_without_a_hash_are_what_the_rows_say() {
    let (_home, run) = trained();
    for name in ["epochs", "comm"] {
        let whole = frames::load(&run, name).expect("written");
        std::fs::remove_file(run.join(format!("frames/{name}.sha256"))).expect("there");
        let file = format!("frames/{name}.parquet");
        try_all(&run, &file, [FEW, SLOW], |run, _| {
            match frames::load(run, name) {
                Ok(made) if made.equals_missing(&whole) => Ok(()),
                Ok(_) => Err("another frame".into()),
                Err(e) => Err(e.to_string()),
            }
        });
    }
    // Where the rows are gone the file is all there is, and is not taken for an empty frame.
    std::fs::remove_dir_all(run.join("rows")).expect("there");
    let epochs = frames::load(&run, "epochs").expect("written");
    assert_eq!(epochs.height(), 3);
}
