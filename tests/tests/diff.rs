//! `halobook diff` as a user asks it.
//!
//! Can catch: a setting that differs and is not shown, results of the wrong run, losses that are said to be
//! the same and are not.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::time::Duration;
use tests::Outcome;
use tests::runs::Store;

fn rows(store: &Store, left: &str, right: &str) -> anyhow::Result<Vec<Value>> {
    let ended = store
        .start_words(&["diff", left, right, "--json"])?
        .wait(Duration::from_secs(60))?;
    ensure!(ended.status.success(), "{ended}");
    Ok(ended
        .stdout
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

fn row<'a>(rows: &'a [Value], what: &str) -> anyhow::Result<&'a Value> {
    rows.iter()
        .find(|r| r["what"] == what)
        .with_context(|| format!("no {what}: {rows:?}"))
}

#[test]
fn settings_that_differ_and_all_results_are_shown() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s single --epochs 6 --name a")?;
    store.train("--data karate -s single --epochs 6 --name b")?;
    store.train("--data karate -s single --epochs 12 --lr 0.5 --name c")?;
    let same = rows(&store, "a", "b")?;
    let settings = |rows: &[Value]| -> Vec<String> {
        let of = rows.iter().filter(|r| r["kind"] == "setting");
        of.map(|r| r["what"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    ensure!(settings(&same) == ["name"], "{same:?}");
    let losses = row(&same, "losses")?;
    ensure!(
        losses["left"] == "the same bits in all 6 epochs that both have",
        "{losses}"
    );
    ensure!(row(&same, "test")?["ratio"] == 1.0);
    let other = rows(&store, "a", "c")?;
    ensure!(settings(&other) == ["epochs", "lr", "name"], "{other:?}");
    let lr = row(&other, "lr")?;
    ensure!(
        lr["left"] == "0.01" && lr["right"] == "0.5" && lr["ratio"] == 50.0,
        "{lr}"
    );
    ensure!(row(&other, "epochs_done")?["ratio"] == 2.0);
    // The first loss is that of the weights before any step.
    ensure!(row(&other, "losses")?["left"] == "the same bits in 1 of 6 epochs");
    let missing = store
        .start_words(&["diff", "a", "nobody"])?
        .wait(Duration::from_secs(60))?;
    ensure!(missing.status.code() == Some(2), "{missing}");
    Ok(())
}

/// SANCUS sends in some epochs and not in others, broadcasts in all: bytes of an epoch are a mean, and of equally many epochs as far
/// apart as the totals.
#[test]
fn bytes_of_an_epoch_are_a_mean() -> Outcome {
    let store = Store::new()?;
    let common = "--data karate -n 2 --launch threads --epochs 21 --warmup 0";
    store.train(&format!("{common} -s sancus --name a"))?;
    store.train(&format!("{common} -s broadcast --name b"))?;
    let rows = rows(&store, "a", "b")?;
    let ratio = |what: &str| anyhow::Ok(row(&rows, what)?["ratio"].as_f64().context("no ratio")?);
    let (epoch, total) = (ratio("epoch_bytes")?, ratio("bytes_total")?);
    ensure!((epoch / total - 1.0).abs() < 0.02, "{epoch} and {total}");
    Ok(())
}
