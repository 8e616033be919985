//! `halobook plan`, and the limit that `halobook train` keeps, as a user meets them.
//!
//! Can catch: bytes that are planned and not sent or the other way round, a plan of other settings than
//! the run's, a run that starts although it does not fit, a refusal without numbers. Cannot catch: how far
//! modelled items are from the machine's: that depends on what else it does, and
//! `notebooks/measured/plans.md` says what was measured.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::runs::{Ended, Store};
use tests::{Outcome, skip};

const GRAPH: &str = "sbm:nodes=1500,classes=5,feat=24,degree=10";

/// The rows of a plan, and the object of the last line.
fn plan(store: &Store, args: &str) -> anyhow::Result<(Vec<Value>, Value)> {
    let ended = store.halobook(&format!("plan {args} --json"))?;
    ensure!(ended.status.success(), "plan {args}: {ended}");
    let lines = ended.stdout.lines().map(serde_json::from_str);
    let mut rows = lines.collect::<Result<Vec<Value>, _>>()?;
    let last = rows.pop().context("nothing was printed")?;
    Ok((rows, last))
}

fn item(rows: &[Value], ranks: u64, rank: u64, item: &str) -> Option<f64> {
    let mine = |row: &&Value| row["ranks"] == ranks && row["rank"] == rank && row["item"] == item;
    rows.iter().find(mine)?["value"].as_f64()
}

/// Refused with status 2 and two lines, the first of which is returned.
fn refused(ended: &Ended) -> anyhow::Result<String> {
    ensure!(ended.status.code() == Some(2), "{ended}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [error, help] = lines.as_slice() else {
        anyhow::bail!("not two lines: {ended}");
    };
    ensure!(help.starts_with("help: use more ranks"), "{help}");
    let said = error.strip_prefix("error: HaloPlanRefused: ");
    Ok(said.context("no refusal")?.to_owned())
}

#[test]
fn planned_bytes_are_those_that_a_run_sends() -> Outcome {
    let launch = if skip::mpi() { "mpi" } else { "threads" };
    let store = Store::new()?;
    for setting in [
        "-s halo -n 3",
        "-s broadcast -n 2 --model sage",
        "-s neutrontp -n 3",
        "-s depcache -n 2",
        "-s sancus -n 2",
        "-s skipg -n 2",
        "-s halo -n 2 --model gat --heads 2",
        "-s gnnpipe -n 3 --layers 5",
        "-s gnnpipe -n 4 --layers 5 --model gcnii --set groups=2 --set interleave=2",
        "-s hongtu -n 3",
        "-s hongtu -n 2 --model gat --heads 2 --set chunks=3",
        "-s distdgl -n 2 --model sage --set batch=100 --set fanout=5",
        "-s bytegnn -n 3 --model sage --set batch=100 --set fanout=5 --set grain=20",
        "-s distgnn-mb -n 3 --model sage --set batch=50 --set fanout=5",
    ] {
        let args = format!("--data {GRAPH} --hidden 12 --launch {launch} {setting}");
        let (rows, _) = plan(&store, &args)?;
        let run = store.train(&format!("{args} --epochs 2"))?;
        let id = run["run_id"].as_str().context("no id")?;
        let comm = store.frame(id, "comm")?;
        let ranks = store.frame(id, "ranks")?;
        let count = 1 + ranks
            .iter()
            .filter_map(|r| r["rank"].as_u64())
            .max()
            .context("no rank")?;
        for rank in 0..count {
            let first = comm.iter().filter(|c| c["src"] == rank && c["epoch"] == 0);
            let sent: u64 = first.filter_map(|c| c["bytes"].as_u64()).sum();
            let planned = item(&rows, count, rank, "epoch_bytes");
            ensure!(
                planned == Some(sent as f64),
                "{setting}, rank {rank}: {planned:?} of {sent}"
            );
            for (name, column) in [("to_device", "h2d_bytes"), ("to_host", "d2h_bytes")] {
                let planned = item(&rows, count, rank, name);
                ensure!(planned.is_some() == setting.contains("hongtu"), "{setting}");
                let Some(planned) = planned else { continue };
                let moved = store.frame(id, "transfers")?;
                let first = moved
                    .iter()
                    .filter(|m| m["rank"] == rank && m["epoch"] == 0);
                let copied: u64 = first.filter_map(|m| m[column].as_u64()).sum();
                ensure!(
                    planned == copied as f64 && copied > 0,
                    "{setting}, rank {rank}, {name}: {planned} of {copied}"
                );
            }
        }
        if !setting.contains("batch=") {
            let predicted = |name: &str| ranks.iter().all(|row| row[name].as_f64() > Some(0.0));
            ensure!(predicted("predicted_mem_bytes"), "{setting}: no memory");
            ensure!(predicted("predicted_wall_ms"), "{setting}: no time");
        }
    }
    Ok(())
}

#[test]
fn a_plan_says_what_is_counted_and_leaves_out_what_nobody_knows() -> Outcome {
    let store = Store::new()?;
    let args = format!("--data {GRAPH} -s halo --dropout 0 --launch threads -n 1,2,4");
    let (rows, last) = plan(&store, &args)?;
    ensure!(last["fits"] == true, "{last}");
    let whole = item(&rows, 1, 0, "features").context("no features")?;
    ensure!(whole == 1500.0 * 24.0 * 4.0, "{whole}");
    ensure!(item(&rows, 1, 0, "epoch_bytes") == Some(0.0));
    for count in [2, 4] {
        let parts = (0..count).filter_map(|rank| item(&rows, count, rank, "features"));
        ensure!(parts.sum::<f64>() == whole, "parts of the features");
        ensure!(item(&rows, count, 0, "partitioner").is_some(), "no cut");
        ensure!(item(&rows, count, 1, "partitioner").is_none(), "one cut");
    }
    for row in &rows {
        let exact = [
            "graph",
            "features",
            "halo",
            "optimizer",
            "epoch_bytes",
            "dense",
            "along_edges",
            "beside",
        ];
        let is_exact = exact.iter().any(|name| row["item"] == *name);
        let basis = if is_exact { "exact" } else { "modelled" };
        ensure!(
            row["basis"] == basis && row["limit"].is_null() && row["fits"] == true,
            "{row}"
        );
    }
    // No formula for attention in mini-batches, nor for the time of any.
    let (rows, _) = plan(
        &store,
        &format!("--data {GRAPH} -s distdgl --model gat -n 2 --launch threads"),
    )?;
    for name in ["memory", "activations", "epoch_time", "dense"] {
        ensure!(item(&rows, 2, 0, name).is_none(), "{name} is invented");
    }
    ensure!(item(&rows, 2, 0, "epoch_bytes") > Some(0.0));
    Ok(())
}

#[test]
fn like_takes_a_runs_settings_and_keys_go_over_them() -> Outcome {
    let store = Store::new()?;
    store.train(&format!(
        "--data {GRAPH} -s halo -n 2 --hidden 20 --launch threads --epochs 1 --name base"
    ))?;
    let (like, _) = plan(&store, "--like base")?;
    let (same, _) = plan(
        &store,
        &format!("--data {GRAPH} -s halo -n 2 --hidden 20 --launch threads"),
    )?;
    let bytes = |rows: &[Value]| item(rows, 2, 1, "epoch_bytes");
    ensure!(
        bytes(&like).is_some() && bytes(&like) == bytes(&same),
        "{like:?}"
    );
    let (wider, _) = plan(&store, "--like base --hidden 40 -n 2,4")?;
    let weights = |rows: &[Value]| item(rows, 2, 1, "optimizer");
    ensure!(weights(&wider) > weights(&like), "{wider:?}");
    ensure!(
        item(&wider, 4, 3, "epoch_bytes").is_some(),
        "no fourth rank"
    );
    let wrong = store.halobook("plan --like base --hiden 40")?;
    ensure!(
        wrong.status.code() == Some(2) && wrong.stderr.contains("hidden"),
        "{wrong}"
    );
    Ok(())
}

#[test]
fn what_exceeds_its_limit_is_named_and_not_started() -> Outcome {
    let store = Store::new()?;
    let args = format!("--data {GRAPH} -s halo -n 2 --launch threads --hidden 512");
    let (rows, last) = plan(&store, &format!("{args} --limit 9MB"))?;
    ensure!(rows.iter().all(|row| row["limit"] == 9e6), "{rows:?}");
    ensure!(rows.iter().any(|row| row["fits"] == false), "{rows:?}");
    let line = last["refused"][0].as_str().context("no line")?;
    ensure!(
        line.starts_with("2 rank(s): rank ") && line.contains(" of 9.0 MB: "),
        "{line}"
    );
    let runs = store.runs().len();
    let said = refused(&store.halobook(&format!("train {args} --epochs 1 --limit 9MB"))?)?;
    ensure!(
        said.contains(" would need ") && said.contains(" of 9.0 MB: "),
        "{said}"
    );
    ensure!(
        store.runs().len() == runs,
        "a refused run has left a folder"
    );
    store.train(&format!("{args} --epochs 1 --limit 9MB --force"))?;
    store.train(&format!("{args} --epochs 1 --limit 2GB"))?;
    let wrong = store.halobook(&format!("train {args} --limit much"))?;
    ensure!(
        wrong.status.code() == Some(2) && wrong.stderr.contains("512MiB"),
        "{wrong}"
    );
    Ok(())
}

#[test]
fn what_the_machine_has_no_memory_for_is_refused_unasked() -> Outcome {
    let store = Store::new()?;
    // A terabyte of activations on little data.
    let args =
        "train --data sbm:nodes=100000,classes=4,feat=16,degree=4 --hidden 1048576 --epochs 1";
    let said = refused(&store.halobook(&format!("{args} --launch threads"))?)?;
    ensure!(
        said.contains(" that this machine has free") && said.contains(" is activations "),
        "{said}"
    );
    ensure!(store.runs().is_empty(), "a refused run has left a folder");
    Ok(())
}

/// A device or a host that is too small is known before a rank starts; with --force a rank finds out.
#[test]
fn budgets_that_are_too_small_are_refused_before_a_rank_starts() -> Outcome {
    let store = Store::new()?;
    for (run, of) in [
        ("-s hongtu -n 2 --set device_mem=400", "device"),
        ("-s hongtu-im --set device_mem=400", "device"),
        ("-s hongtu --set host_mem=400", "host"),
    ] {
        let train = format!("train --data karate --epochs 2 --launch threads {run}");
        let ended = store.halobook(&train)?;
        ensure!(ended.status.code() == Some(2), "{run}: {ended}");
        let says = format!("bytes of the {of}, 400 of 400 are free");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let [error, help] = lines.as_slice() else {
            anyhow::bail!("not two lines: {ended}");
        };
        ensure!(
            error.contains(&says) && help.starts_with("help: "),
            "{ended}"
        );
        let forced = store.halobook(&format!("{train} --force"))?;
        ensure!(forced.stderr.contains("HaloRankFailed"), "{run}: {forced}");
    }
    Ok(())
}
