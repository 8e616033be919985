//! `halobook partition` and the cache of cuts, as several processes at once meet it.
//!
//! Can catch: a cut made twice, a damaged or half-written file that is believed, a frame that
//! misses columns, a refusal without numbers. Cannot catch: a file system that reorders a rename
//! before the data it names after a power failure.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tests::runs::{Ended, Store};
use tests::{Outcome, processes};

const SOON: Duration = Duration::from_secs(120);
const GRAPH: &str = "rmat:scale=12,edge-factor=8,feat=4";

/// The last line's object, and the rows before it.
fn read(ended: &Ended) -> anyhow::Result<(Value, Vec<Value>)> {
    ensure!(ended.status.success(), "{ended}");
    let lines = ended.stdout.lines().map(serde_json::from_str::<Value>);
    let mut rows = lines.collect::<Result<Vec<Value>, _>>()?;
    let summary = rows.pop().context("nothing was printed")?;
    Ok((summary, rows))
}

fn cuts(store: &Store) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store.home().join("partitions"));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    paths
        .filter(|p| p.extension().is_some_and(|e| e == "cut"))
        .collect()
}

#[test]
fn processes_that_ask_for_the_same_cut_make_it_once_and_a_run_takes_it() -> Outcome {
    let store = Store::new()?;
    let ask = format!("partition --data {GRAPH} -n 4 --method metis --json");
    let running = (0..4)
        .map(|_| store.start(&ask))
        .collect::<Result<Vec<_>, _>>()?;
    let mut made = 0;
    let mut took = Vec::new();
    for process in running {
        let (summary, rows) = read(&process.wait(SOON)?)?;
        made += usize::from(summary["cached"] == false);
        ensure!(rows.len() == 4, "{} rows of 4 parts", rows.len());
        took.push(summary["partition_ms"].as_f64().context("no time")?);
    }
    ensure!(made == 1, "made {made} times");
    ensure!(took.iter().all(|ms| *ms == took[0]), "{took:?}");
    ensure!(cuts(&store).len() == 1, "{:?}", cuts(&store));
    let train = format!("--data {GRAPH} -s halo -n 4 --launch threads --epochs 1");
    store.train(&train)?;
    for row in store.frame("latest", "partition")? {
        ensure!(
            row["partition_ms"] == took[0],
            "the run has cut again: {row}"
        );
    }
    // Bits go bad: the file is found out, and made again with the same parts.
    let file = &cuts(&store)[0];
    let whole = std::fs::read(file)?;
    std::fs::write(file, &whole[..whole.len() / 2])?;
    let (summary, _) = read(&store.halobook(&ask)?)?;
    ensure!(summary["cached"] == false, "half a file was believed");
    let again = std::fs::read(file)?;
    // Magic, key, vertices and parts; then what it took and what was foreseen; then the owners, up to
    // the checksum.
    ensure!(
        again[..40] == whole[..40] && again[72..again.len() - 16] == whole[72..whole.len() - 16]
    );
    Ok(())
}

#[test]
fn a_killed_writer_leaves_nothing_that_is_believed() -> Outcome {
    let store = Store::new()?;
    let ask = format!("partition --data {GRAPH} -n 8 --json");
    for ms in [5, 20, 40, 60, 80, 120, 160, 200] {
        let process = store.start(&ask)?;
        std::thread::sleep(Duration::from_millis(ms));
        processes::signal(process.pid(), libc::SIGKILL);
        process.wait(SOON)?;
    }
    let (_, rows) = read(&store.halobook(&ask)?)?;
    let (_, anew) = read(&store.halobook(&format!("{ask} --no-cache"))?)?;
    for (row, new) in rows.iter().zip(&anew) {
        for column in ["nodes", "edges", "halo_nodes", "cut_edges", "train_nodes"] {
            ensure!(row[column] == new[column], "{column}: {row} and {new}");
        }
    }
    Ok(())
}

#[test]
fn every_method_gives_the_frame_and_beats_or_is_the_baseline() -> Outcome {
    let store = Store::new()?;
    for method in [
        "metis",
        "chunk:by=edges",
        "hash",
        "random",
        "ldg",
        "fennel",
        "bytegnn",
        "hongtu",
    ] {
        let ended = store.halobook(&format!("partition karate -n 3 --method {method} --json"))?;
        let (summary, rows) = read(&ended)?;
        ensure!(summary["method"] == method, "{summary}");
        let sum = |column: &str| rows.iter().filter_map(|r| r[column].as_u64()).sum::<u64>();
        ensure!(sum("nodes") == 34 && sum("edges") == 156, "{rows:?}");
        let alpha = sum("halo_nodes") as f64 / 34.0;
        for row in &rows {
            ensure!(row["synthetic"] == false, "{row}");
            ensure!(
                (row["alpha"].as_f64().context("alpha")? - alpha).abs() < 1e-9,
                "{row}"
            );
            for column in [
                "halo_share",
                "feature_bytes",
                "peers",
                "node_balance",
                "edge_balance",
                "train_balance",
                "hash_cut_edges",
                "hash_halo_nodes",
                "partition_ms",
                "partition_peak_bytes",
            ] {
                ensure!(row[column].is_number(), "{column}: {row}");
            }
        }
        if method == "hash" {
            ensure!(sum("cut_edges") == sum("hash_cut_edges"));
        }
    }
    let text = store.halobook("partition karate -n 2 --balance train,edges")?;
    ensure!(
        text.status.success() && text.stdout.contains("metis:balance=train+edges"),
        "{text}"
    );
    Ok(())
}

#[test]
fn what_cannot_be_cut_is_refused_with_a_way_out() -> Outcome {
    let store = Store::new()?;
    for (args, says, help) in [
        (
            format!("{GRAPH} -n 4 --mem 2kB"),
            "MB of memory beside",
            "memory",
        ),
        (
            format!("{GRAPH} -n 4 --method metis:thin=never --mem 1MB"),
            "MB of memory beside",
            "needs",
        ),
        (
            "karate -n 40".to_owned(),
            "40 parts for the 34 vertices",
            "at most 34",
        ),
        (
            "karate --method mettis".to_owned(),
            "did you mean 'metis'",
            "known",
        ),
        (
            "karate --method ldg --balance train".to_owned(),
            "balance with partitioner ldg",
            "metis",
        ),
        ("karate --mem much".to_owned(), "expected a size", "2GB"),
        ("-n 2".to_owned(), "no data set", "--data"),
    ] {
        let ended = store.halobook(&format!("partition {args}"))?;
        ensure!(ended.status.code() == Some(2), "{args}: {ended}");
        ensure!(ended.stderr.contains(says), "{args}: {ended}");
        ensure!(ended.stderr.contains(help), "{args}: {ended}");
    }
    let thin = store.halobook(&format!("partition {GRAPH} -n 4 --mem 1500kB --json"))?;
    let (summary, _) = read(&thin)?;
    let method = summary["method"].as_str().unwrap_or_default();
    ensure!(
        method.starts_with("metis:thin="),
        "limits chose nothing: {summary}"
    );
    let dry = store.halobook(&format!("partition {GRAPH} -n 4 --dry-run --json"))?;
    let need: Value = serde_json::from_str(dry.stdout.trim())?;
    ensure!(need["predicted_bytes"].as_u64() > Some(1_000_000), "{need}");
    Ok(())
}
