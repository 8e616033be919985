//! `halobook sweep` as a user runs it.
//!
//! Can catch: settings that are missing or run twice, a failure that ends the others, rows whose parts
//! do not add up, finished work that an interrupt loses or that is done again. Cannot catch: whether a
//! drawn order hides drift.

use anyhow::ensure;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tests::runs::{Ended, Store};
use tests::{Outcome, processes};

/// The rows of a sweep, in the order in which they ended.
fn rows(store: &Store, id: &str) -> Vec<Value> {
    let path = store.home().join("sweeps").join(id).join("events.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    events.filter(|e: &Value| e["event"] == "row").collect()
}

/// What was set in a row, in words.
fn set(row: &Value) -> String {
    let pairs = row["set"].as_array().cloned().unwrap_or_default();
    let word = |pair: &Value| format!("{}={}", pair[0].as_str().unwrap_or("?"), pair[1]);
    pairs.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn sweep(store: &Store, args: &str) -> anyhow::Result<Ended> {
    store.halobook(&format!(
        "sweep --data karate --epochs 6 --launch threads --json {args}"
    ))
}

#[test]
fn every_setting_is_a_row_also_one_that_cannot_be_run() -> Outcome {
    let store = Store::new()?;
    let ended = sweep(
        &store,
        "--strategy [single,halo] --ranks [1,2] --sweep-id a",
    )?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    let said = ended.json()?;
    ensure!(said["ended"] == "whole" && said["rows"] == 4, "{said}");
    ensure!(
        said["frame"]
            .as_str()
            .is_some_and(|path| std::path::Path::new(path).is_file()),
        "{said}"
    );
    let rows = rows(&store, "a");
    let sets: BTreeSet<String> = rows.iter().map(set).collect();
    ensure!(sets.len() == 4, "{sets:?}");
    for row in &rows {
        let refused = set(row) == "strategy=\"single\" ranks=2";
        ensure!((row["status"] == "refused") == refused, "{row}");
        if refused {
            let why = row["error"].as_str().unwrap_or_default();
            ensure!(why.contains("one rank"), "{row}");
            continue;
        }
        ensure!(row["status"] == "ok" && row["epochs_done"] == 6.0, "{row}");
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        ensure!(number("epoch_ms") > 0.0 && number("test") > 0.0, "{row}");
        let id = row["run_id"].as_str().unwrap_or_default();
        ensure!(store.manifest(id)?["status"] == "ok", "{row}");
    }
    let order: Vec<u64> = rows.iter().filter_map(|r| r["order"].as_u64()).collect();
    ensure!(order == [0, 1, 2, 3], "{order:?}");
    Ok(())
}

#[test]
fn a_wrong_key_is_refused_before_anything_starts() -> Outcome {
    let store = Store::new()?;
    for (args, part) in [
        ("--strateg [halo,single]", "strategy"),
        ("--ranks [1,two]", "ranks"),
        ("--lr [0.1,0.2] --ranks [1] --zip", "lr has 2 values"),
        ("--stop-if tset>1 --seed [1,2]", "did you mean 'test'"),
        ("--seed [1,2] --repeat 2", "seeds"),
    ] {
        let ended = sweep(&store, args)?;
        ensure!(ended.status.code() == Some(2), "{args}: {ended}");
        ensure!(ended.stderr.contains(part), "{args}: {ended}");
        ensure!(store.runs().is_empty(), "{args}: a run was started");
    }
    Ok(())
}

#[test]
fn repeats_are_seeds_and_finished_runs_are_taken_over() -> Outcome {
    let store = Store::new()?;
    let first = sweep(&store, "--lr [0.01,0.02] --repeat 2 --sweep-id a")?;
    ensure!(first.status.success(), "{first}");
    let more = sweep(
        &store,
        "--lr [0.01,0.02,0.03] --repeat 2 --resume --sweep-id b",
    )?;
    ensure!(more.status.success(), "{more}");
    ensure!(store.runs().len() == 6, "{:?}", store.runs());
    let (before, after) = (rows(&store, "a"), rows(&store, "b"));
    ensure!(before.iter().all(|row| row["reused"] == false));
    ensure!(after.len() == 6);
    for row in &after {
        let same = before.iter().find(|b| set(b) == set(row));
        ensure!(row["reused"] == same.is_some(), "{row}");
        ensure!(same.is_none_or(|b| b["run_id"] == row["run_id"]), "{row}");
    }
    // Without being asked to, nothing is taken over.
    let again = sweep(&store, "--lr [0.01] --sweep-id c")?;
    ensure!(
        again.status.success() && rows(&store, "c")[0]["reused"] == false,
        "{again}"
    );
    Ok(())
}

#[test]
fn a_run_with_several_seeds_is_a_sweep_of_one_setting() -> Outcome {
    let store = Store::new()?;
    let keys = "--data karate --epochs 6 --launch threads --seed 3";
    let ended = store.halobook(&format!("train {keys} --repeat 3 --json"))?;
    ensure!(ended.status.success(), "{ended}");
    let id = ended.json()?["sweep_id"].as_str().map(str::to_owned);
    let rows = rows(&store, &id.unwrap_or_default());
    let sets: Vec<String> = rows.iter().map(set).collect();
    ensure!(sets == ["seed=3", "seed=4", "seed=5"], "{sets:?}");
    for other in ["--verify", "--run-id mine", "--resume latest"] {
        let ended = store.halobook(&format!("train {keys} --repeat 3 {other}"))?;
        ensure!(ended.status.code() == Some(2), "{other}: {ended}");
        ensure!(ended.stderr.contains("about several"), "{ended}");
    }
    Ok(())
}

#[test]
fn a_row_that_meets_the_condition_ends_the_sweep() -> Outcome {
    let store = Store::new()?;
    let ended = sweep(
        &store,
        "--seed [1,2,3] --in-order --stop-if epochs_done>=6 --sweep-id a",
    )?;
    ensure!(ended.status.success(), "{ended}");
    ensure!(ended.json()?["ended"] == "met", "{ended}");
    ensure!(rows(&store, "a").len() == 1, "{ended}");
    let listed = store.halobook("sweep --data karate --seed [1,2,3] --in-order --dry-run")?;
    ensure!(
        listed.stdout.lines().collect::<Vec<_>>()
            == [
                "3 settings, in this order:",
                "  seed = 1",
                "  seed = 2",
                "  seed = 3"
            ],
        "{listed}"
    );
    Ok(())
}

#[test]
fn an_interrupt_finishes_what_runs_and_a_second_one_ends_it() -> Outcome {
    let store = Store::new()?;
    let long = "sweep --data sbm:nodes=600,classes=3 --launch threads --json";
    // Long enough to be met while it runs, short enough to be waited for.
    let some = format!("{long} --seed [1,2,3] --in-order --epochs 400");
    let mut running = store.start(&format!("{some} --sweep-id a"))?;
    let until = Instant::now() + Duration::from_secs(60);
    while store.runs().is_empty() {
        ensure!(
            Instant::now() < until && !running.has_ended()?,
            "{}",
            running.so_far()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    processes::signal(running.pid(), libc::SIGINT);
    let ended = running.wait(Duration::from_secs(60))?;
    ensure!(ended.status.code() == Some(130), "{ended}");
    let kept = rows(&store, "a");
    ensure!(kept.len() == 1 && kept[0]["status"] == "ok", "{kept:?}");

    let other = Store::new()?;
    let mut running = other.start(&format!(
        "{long} --seed [1,2,3] --in-order --epochs 100000000 --sweep-id b"
    ))?;
    other.wait_epochs(&mut running, 3, 1)?;
    processes::signal(running.pid(), libc::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    ensure!(!running.has_ended()?, "the first interrupt ended it");
    processes::signal(running.pid(), libc::SIGINT);
    let ended = running.wait(Duration::from_secs(30))?;
    ensure!(ended.status.code() == Some(130), "{ended}");
    let ended_early = rows(&other, "b");
    ensure!(
        ended_early.len() == 1 && ended_early[0]["status"] == "interrupted",
        "{ended_early:?}"
    );
    let left = processes::wait_gone(other.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");

    let rest = store.halobook(&format!("{some} --resume --sweep-id c"))?;
    ensure!(rest.status.success(), "{rest}");
    let reused: Vec<bool> = rows(&store, "c")
        .iter()
        .map(|r| r["reused"] == true)
        .collect();
    ensure!(reused == [true, false, false], "{reused:?}");
    Ok(())
}
