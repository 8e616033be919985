//! `halobook run`, `pin`, `rm` and `gc` as a user asks them.
//!
//! Can catch: a run that is deleted and should not be, a page without what was asked for.

use anyhow::ensure;
use std::time::Duration;
use tests::Outcome;
use tests::runs::{Ended, Store};

fn ask(store: &Store, words: &[&str]) -> anyhow::Result<Ended> {
    store.start_words(words)?.wait(Duration::from_secs(60))
}

#[test]
fn a_pinned_run_stays_and_another_goes() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s single --epochs 4 --lr 0.05 --name a")?;
    store.train("--data karate -s single --epochs 4 --name b")?;
    let page = ask(&store, &["run", "a"])?;
    ensure!(page.status.success(), "{page}");
    for what in [
        "single",
        "4 epochs",
        "lr = 0.05",
        "name = a",
        "seed 0, bitwise",
    ] {
        ensure!(page.stdout.contains(what), "{what}: {page}");
    }
    ensure!(!page.stdout.contains("hidden ="), "a default: {page}");
    ensure!(ask(&store, &["pin", "a"])?.status.success());
    let refused = ask(&store, &["rm", "a"])?;
    ensure!(refused.status.code() == Some(2), "{refused}");
    ensure!(refused.stderr.contains("is pinned"), "{refused}");
    ensure!(ask(&store, &["run", "a"])?.stdout.contains("pinned"));
    ensure!(ask(&store, &["rm", "b"])?.status.success());
    ensure!(ask(&store, &["run", "b"])?.status.code() == Some(2));
    ensure!(ask(&store, &["pin", "a", "--off"])?.status.success());
    ensure!(ask(&store, &["rm", "a"])?.status.success());
    let left = ask(&store, &["runs", "--json"])?;
    ensure!(left.stdout.trim().is_empty(), "{left}");
    Ok(())
}

#[test]
fn a_store_is_made_smaller_by_its_oldest_runs() -> Outcome {
    let store = Store::new()?;
    for name in ["a", "b", "c", "d"] {
        store.train(&format!("--data karate -s single --epochs 2 --name {name}"))?;
    }
    ensure!(ask(&store, &["pin", "a"])?.status.success());
    ensure!(ask(&store, &["gc"])?.status.code() == Some(2));
    ensure!(ask(&store, &["gc", "--size", "big"])?.status.code() == Some(2));
    let seen = ask(&store, &["gc", "--keep", "2", "--dry-run"])?;
    ensure!(seen.stdout.contains("1 runs would go"), "{seen}");
    ensure!(ask(&store, &["run", "b"])?.status.success());
    let done = ask(&store, &["gc", "--keep", "2"])?;
    ensure!(
        done.stdout.contains("3 are left") && done.stdout.contains("1 pinned"),
        "{done}"
    );
    ensure!(ask(&store, &["run", "b"])?.status.code() == Some(2));
    ensure!(ask(&store, &["gc", "--size", "1kB"])?.status.success());
    ensure!(
        ask(&store, &["run", "a"])?.status.success(),
        "a pinned run is gone"
    );
    ensure!(ask(&store, &["run", "d"])?.status.code() == Some(2));
    Ok(())
}
