//! Traced runs and ranks that are slowed down, as a user meets them.
//!
//! Can catch: spans that do not reach the frames, the trace file or the plot, ranks of several processes
//! that are not on one clock, a delay that is not told or changes a bit. Sums and overlaps are tested over
//! all strategies in `gnn-core`. Cannot catch: clocks of several hosts, or what only an eye sees.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::runs::{Store, numbers};
use tests::{Outcome, skip};

const RUN: &str = "--data sbm:nodes=600,classes=4,feat=16 --hidden 16 --epochs 3 -n 2 -s halo";

fn traced(launch: &str) -> Outcome {
    let store = Store::new()?;
    store.train(&format!("{RUN} --launch {launch} --trace --slow 1:3x"))?;
    let spans = store.frame("latest", "spans")?;
    let of = |row: &Value, column: &str| row[column].as_i64().unwrap_or(-1);
    for rank in 0..2 {
        for epoch in 0..3 {
            let mine = |row: &&Value| of(row, "rank") == rank && of(row, "epoch") == epoch;
            ensure!(spans.iter().filter(mine).count() > 5, "{rank}, {epoch}");
        }
    }
    ensure!(spans.iter().all(|row| row["skew_us"] == 0.0), "one host");
    ensure!(spans.iter().all(|row| row["slow"] == "1:3x"));
    let traced = store.frame("latest", "traced")?;
    ensure!(traced.len() == 6 && numbers(&traced, "dropped") == [0.0; 6]);
    // Nothing is received before it was sent: the clocks are one.
    for epoch in 0..3 {
        let first = |phase: &str, rank: i64| {
            let all = spans.iter().filter(|row| {
                row["phase"] == phase && of(row, "rank") == rank && of(row, "epoch") == epoch
            });
            let at = |row: &Value| of(row, "start_us") + of(row, "dur_us");
            all.map(at).min().context("none")
        };
        for (from, to) in [(0, 1), (1, 0)] {
            ensure!(first("send", from)? <= first("receive", to)? + 1);
        }
    }

    let file = store.home().join("trace.json");
    let path = file.display();
    let told = store.halobook(&format!("trace latest -o {path}"))?;
    ensure!(
        told.status.success() && told.stdout.contains("perfetto"),
        "{told}"
    );
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let events = trace["traceEvents"].as_array().context("events")?;
    let count = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
    ensure!(count("X") > 0 && count("s") > 0 && count("s") == count("f"));
    ensure!(count("b") == count("e") && trace["otherData"]["slow"] == "1:3x");

    let figure = store.home().join("gantt.svg");
    let drawn = store.halobook(&format!("plot latest gantt -o {}", figure.display()))?;
    ensure!(
        drawn.status.success() && drawn.stdout.contains("critical path"),
        "{drawn}"
    );
    ensure!(std::fs::read_to_string(&figure)?.contains("rank 1 slowed 3x on purpose"));
    let none = store.halobook("plot latest gantt --epoch 7")?;
    ensure!(none.status.code() == Some(2), "{none}");

    let page = store.halobook("run latest")?;
    ensure!(page.stdout.contains("slowed down on purpose"), "{page}");
    for row in store.frame("latest", "ranks")? {
        let of = |column: &str| row[column].as_f64().unwrap_or(f64::NAN);
        let injected = of("injected_ms");
        match row["rank"].as_u64() {
            Some(1) => ensure!(
                injected >= 2.0 * (of("compute_ms") - injected) - 1e-6,
                "{row}"
            ),
            _ => ensure!(injected == 0.0, "{row}"),
        }
    }
    let slow = numbers(&store.frame("latest", "epochs")?, "train_loss");
    store.train(&format!("{RUN} --launch {launch}"))?;
    let plain = store.frame("latest", "epochs")?;
    ensure!(
        slow == numbers(&plain, "train_loss"),
        "neither changes a bit"
    );
    ensure!(plain.iter().all(|row| row["slow"].is_null()));
    ensure!(store.frame("latest", "spans")?.is_empty());
    let refused = store.halobook("trace latest")?;
    ensure!(
        refused.status.code() == Some(2) && refused.stderr.contains("--trace"),
        "{refused}"
    );
    Ok(())
}

#[test]
fn threads_are_traced_and_slowed_down() -> Outcome {
    traced("threads")
}

#[test]
fn processes_are_traced_and_slowed_down() -> Outcome {
    match skip::mpi() {
        true => traced("mpi"),
        false => Ok(()),
    }
}

#[test]
fn a_slow_rank_that_there_is_not_is_refused() -> Outcome {
    let store = Store::new()?;
    for slow in ["2:3x", "3x", "1:0.5x"] {
        let ended = store.halobook(&format!("train {RUN} --slow {slow}"))?;
        ensure!(ended.status.code() == Some(2), "{slow}: {ended}");
    }
    ensure!(store.runs().is_empty(), "something was started");
    Ok(())
}
