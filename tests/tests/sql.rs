//! `halobook sql` as a user asks it.
//!
//! Can catch: tables that are missing, rows of runs that are left out, a refusal without the tables.
//! Cannot catch: what Polars gets wrong.

use anyhow::ensure;
use serde_json::Value;
use std::time::Duration;
use tests::Outcome;
use tests::runs::{Ended, Store};

fn ask(store: &Store, query: &str) -> anyhow::Result<Ended> {
    store
        .start_words(&["sql", query, "--json"])?
        .wait(Duration::from_secs(60))
}

fn rows(ended: &Ended) -> anyhow::Result<Vec<Value>> {
    ensure!(ended.status.success(), "{ended}");
    let lines = ended.stdout.lines().filter(|l| !l.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[test]
fn the_store_answers_in_sql() -> Outcome {
    let store = Store::new()?;
    ensure!(rows(&ask(&store, "SELECT * FROM runs")?)?.is_empty());
    store.train("--data karate -s halo -n 2 --epochs 4 --launch threads")?;
    store.train("--data karate -s single --epochs 3")?;
    let counted = "SELECT strategy, COUNT(*) AS n FROM runs GROUP BY strategy ORDER BY strategy";
    let counted = rows(&ask(&store, counted)?)?;
    ensure!(counted.len() == 2 && counted[0]["strategy"] == "halo" && counted[0]["n"] == 1);
    let joined =
        "SELECT r.strategy, e.epoch, e.wall_ms FROM epochs e JOIN runs r ON e.run_id = r.run_id";
    ensure!(rows(&ask(&store, joined)?)?.len() == 7);
    let ranks = rows(&ask(&store, "SELECT DISTINCT run_id, rank FROM ranks")?)?;
    ensure!(ranks.len() == 3, "{ranks:?}");
    let refused = ask(&store, "SELECT * FROM nowhere")?;
    ensure!(refused.status.code() == Some(2), "{refused}");
    ensure!(refused.stderr.contains("tables: runs, epochs"), "{refused}");
    Ok(())
}

/// A frame that is cut, and one with a flipped bit, are named; the answer is of the rest.
#[test]
fn damaged_frames_are_said() -> Outcome {
    let store = Store::new()?;
    let damaged = store.train("--data karate -s single --epochs 3")?;
    store.train("--data karate -s single --epochs 4")?;
    let id = damaged["run_id"].as_str().unwrap_or_default().to_owned();
    let file = store.run(&id).join("frames/epochs.parquet");
    let whole = std::fs::read(&file)?;
    let query = "SELECT COUNT(*) AS n FROM epochs";
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for bytes in [&whole[..500], &flipped] {
        std::fs::write(&file, bytes)?;
        let answer = ask(&store, query)?;
        ensure!(answer.status.code() == Some(1), "{answer}");
        ensure!(
            answer
                .stderr
                .contains(&format!("left out: epochs of run {id}")),
            "{answer}"
        );
        ensure!(answer.stdout.contains("\"n\":4"), "{answer}");
        let partial = store
            .start_words(&["sql", query, "--json", "--partial"])?
            .wait(Duration::from_secs(60))?;
        ensure!(
            partial.status.success() && partial.stderr.contains("left out"),
            "{partial}"
        );
        let claim = store
            .start_words(&["check", "count(epochs.epoch) == 4"])?
            .wait(Duration::from_secs(60))?;
        ensure!(
            claim.status.code() == Some(2) && claim.stderr.contains("is damaged"),
            "{claim}"
        );
        let frame = store
            .start_words(&["frames", &id, "epochs"])?
            .wait(Duration::from_secs(60))?;
        ensure!(
            !frame.status.success() && frame.stderr.contains("is damaged"),
            "{frame}"
        );
        ensure!(!frame.stderr.contains("panicked"), "{frame}");
    }
    Ok(())
}

/// Many runs are answered from a copy of their rows, and a run that is new, gone or changed since is seen all the same.
#[test]
fn a_copy_of_many_runs_rows_is_never_behind_them() -> Outcome {
    let store = Store::new()?;
    let first = store.train("--data karate -s single --epochs 3")?;
    let id = first["run_id"].as_str().unwrap_or_default().to_owned();
    let (from, manifest) = (store.run(&id), store.run(&id).join("manifest.json"));
    let manifest = std::fs::read_to_string(manifest)?;
    for k in 0..40 {
        let copy = format!("20200101-000000-{k:04x}");
        let to = store.run(&copy);
        std::fs::create_dir_all(to.join("frames"))?;
        for file in ["epochs.parquet", "epochs.sha256"] {
            std::fs::copy(from.join("frames").join(file), to.join("frames").join(file))?;
        }
        std::fs::write(to.join("manifest.json"), manifest.replace(&id, &copy))?;
    }
    let count = |store: &Store| -> anyhow::Result<u64> {
        let counted = rows(&ask(store, "SELECT COUNT(*) AS n FROM epochs")?)?;
        Ok(counted[0]["n"].as_u64().unwrap_or_default())
    };
    ensure!(count(&store)? == 41 * 3);
    let tables = store.home().join("tables");
    ensure!(tables.join("epochs.json").exists(), "no copy was made");
    ensure!(count(&store)? == 41 * 3);
    std::fs::remove_dir_all(store.run("20200101-000000-0007"))?;
    store.train("--data karate -s single --epochs 5")?;
    ensure!(count(&store)? == 40 * 3 + 5);
    // Other bytes in the file of a run that is in the copy.
    let file = store
        .run("20200101-000000-0009")
        .join("frames/epochs.parquet");
    std::fs::write(&file, &std::fs::read(&file)?[..500])?;
    let answer = ask(&store, "SELECT COUNT(*) AS n FROM epochs")?;
    ensure!(answer.status.code() == Some(1), "{answer}");
    ensure!(answer.stderr.contains("20200101-000000-0009"), "{answer}");
    // A copy that is damaged is made anew.
    for copied in std::fs::read_dir(&tables)?.flatten() {
        let bytes = std::fs::read(copied.path())?;
        std::fs::write(copied.path(), &bytes[..bytes.len() / 2])?;
    }
    std::fs::remove_dir_all(store.run("20200101-000000-0009"))?;
    ensure!(count(&store)? == 39 * 3 + 5);
    Ok(())
}
