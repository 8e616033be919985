//! `halobook check` as a user asks it.
//!
//! Can catch: a claim that is judged wrongly on real runs, an exit status that says something else.
//! What claims look like is tested where they are read.

use anyhow::ensure;
use std::time::Duration;
use tests::Outcome;
use tests::runs::{Ended, Store};

fn check(store: &Store, words: &[&str]) -> anyhow::Result<Ended> {
    let words = [&["check"], words].concat();
    store.start_words(&words)?.wait(Duration::from_secs(60))
}

#[test]
fn claims_about_runs_hold_or_not() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s single --epochs 6 --name alone")?;
    store.train("--data karate -s halo -n 2 --epochs 6 --launch threads")?;
    let claims = "latest.epochs_done == 6\n\
                  count(epochs.epoch) == 12\n\
                  sum(epochs.epoch where epoch > 70) == 0\n\
                  max(latest_epochs.epoch) == 5\n\
                  max(one_epochs.epoch) == 5 # bound below\n\
                  \"halo is exact\": mean(runs.test where strategy = 'halo') ~ \
                  mean(runs.test where name = 'alone') +- 0.001";
    let held = check(&store, &[claims, "--run", "one=latest"])?;
    ensure!(held.status.success(), "{held}");
    ensure!(
        held.stdout.lines().all(|l| l.starts_with("holds")),
        "{held}"
    );
    ensure!(held.stdout.contains("halo is exact: "), "{held}");
    let fails = check(&store, &["latest.epochs_done < 3", "1 < 2", "--json"])?;
    ensure!(fails.status.code() == Some(1), "{fails}");
    let lines: Vec<serde_json::Value> = fails
        .stdout
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    ensure!(lines[0]["holds"] == false && lines[0]["left"] == 6.0 && lines[0]["right"] == 3.0);
    ensure!(lines[1]["holds"] == true);
    for (claim, what) in [
        ("latest.nothing > 1", "nothing"),
        ("nobody.test > 1", "nobody"),
        ("max(latest.epochs_done) > 1", "latest_epochs"),
        ("mean(runs.test where ranks > 70) > 0", "is no number"),
        ("mean(runs.strategy) > 0", "not supported"),
        ("1 <", "line 1"),
    ] {
        let refused = check(&store, &[claim])?;
        ensure!(refused.status.code() == Some(2), "{claim}: {refused}");
        ensure!(refused.stderr.contains(what), "{claim}: {refused}");
    }
    Ok(())
}
