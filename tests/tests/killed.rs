//! Ranks that die and ranks that hang, under `mpirun`.
//!
//! Can catch: a run that outlives one of its ranks, a wrong rank, phase or signal in the report,
//! lost epochs, processes left behind. Cannot catch: a host that disappears, or a failure inside
//! the MPI library's own set-up, before a rank reports itself.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::runs::{Running, Store};
use tests::{Outcome, processes, skip, within};

const RANKS: usize = 3;

fn endless(store: &Store, more: &str) -> anyhow::Result<Running> {
    endless_with(store, "halo", more)
}

fn endless_with(store: &Store, strategy: &str, more: &str) -> anyhow::Result<Running> {
    store.start(&format!(
        "train --data sbm:nodes=600,classes=4 -s {strategy} -n {RANKS} --epochs 1000000 --launch mpi --json {more}"
    ))
}

/// A number below `n`, from the clock: the very point is another epoch every time.
fn any(n: u32) -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    (nanos / 97).wrapping_mul(2_654_435_761) % n
}

/// What every run owes that was ended from outside: whole epochs, no processes.
fn nothing_lost_nothing_left(store: &Store, id: &str, epochs: usize) -> Outcome {
    let rows = store.frame(id, "epochs")?;
    ensure!(
        rows.len() >= epochs,
        "{} epochs kept, {epochs} were finished",
        rows.len()
    );
    for (at, row) in rows.iter().enumerate() {
        ensure!(
            row["epoch"].as_u64() == Some(at as u64),
            "row {at} is {row}"
        );
        ensure!(
            row["train_loss"].as_f64().is_some_and(f64::is_finite),
            "{row}"
        );
    }
    let left = processes::wait_gone(store.home(), within::seconds(2));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn kill_one(strategy: &str, more: &str, round: u32) -> Outcome {
    kill_one_in(&Store::new()?, strategy, more, round)
}

fn kill_one_in(store: &Store, strategy: &str, more: &str, round: u32) -> Outcome {
    let mut run = endless_with(store, strategy, more)?;
    let (victim, epochs) = (any(RANKS as u32), 1 + any(40) as usize);
    // Rank 0 has finished one more: the others may be a row behind it.
    let (id, pids) = store.wait_epochs(&mut run, epochs + 1, RANKS)?;
    // Not always at the same point of an epoch.
    std::thread::sleep(Duration::from_micros(u64::from(any(20_000))));
    let killed = Instant::now();
    processes::signal(pids[victim as usize], libc::SIGKILL);
    let ended = run.wait(Duration::from_secs(20))?;
    let took = killed.elapsed();
    let context =
        || format!("{strategy} {more}, round {round}, rank {victim}, epoch {epochs}: {ended}");
    ensure!(
        took <= within::seconds(2),
        "ended {took:?} after the kill; {}",
        context()
    );
    ensure!(ended.status.code() == Some(1), "{}", context());
    let manifest = store.manifest(&id)?;
    let error = &manifest["error"];
    ensure!(manifest["status"] == "failed", "{manifest}");
    ensure!(error["name"] == "HaloRankFailed", "{error}");
    ensure!(
        error["rank"].as_u64() == Some(victim.into()),
        "not rank {victim}: {error}; {}",
        context()
    );
    let phase = error["phase"].as_str().unwrap_or_default();
    ensure!(!phase.is_empty(), "no phase: {error}");
    let signal = error["signal"].as_str().unwrap_or_default();
    ensure!(
        signal.contains("SIGKILL") || signal.contains("killed"),
        "signal: {error}"
    );
    let (wrong, _) = ended.complaint().with_context(context)?;
    ensure!(wrong.contains(&format!("rank {victim}")), "{wrong}");
    nothing_lost_nothing_left(store, &id, epochs).with_context(context)
}

#[test]
fn a_killed_rank_ends_the_run_and_is_named() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 50 } else { 5 };
    (0..rounds).try_for_each(|round| kill_one("halo", "", round))
}

/// Splits and gathers, whole and by chunks, are most of what these ranks do.
#[test]
fn a_rank_killed_in_a_split_or_gather_ends_the_run_and_is_named() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 25 } else { 2 };
    (0..rounds).try_for_each(|round| {
        kill_one("neutrontp", "", round)?;
        kill_one(
            "neutrontp",
            "--decoupled true --set pipeline=true --set chunks=4",
            round,
        )
    })
}

/// Ranks that wait in a broadcast, for a word of agreement, or behind a modelled link.
#[test]
fn a_rank_killed_inside_a_broadcast_ends_the_run_as_well() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 20 } else { 1 };
    for (strategy, more) in [
        ("broadcast", ""),
        ("sancus", "--set bound=variation=0.05"),
        ("skipg", "--set bound=epoch-adaptive=1 --link 1gbit,200us"),
    ] {
        (0..rounds).try_for_each(|round| kill_one(strategy, more, round))?;
    }
    Ok(())
}

/// Owners that somebody waits for: with neighbours to be drawn, with rows to be pulled.
#[test]
fn an_owner_killed_in_the_middle_of_a_pull_ends_the_run() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 25 } else { 2 };
    (0..rounds).try_for_each(|round| {
        kill_one("distdgl", "--set batch=20 --set fanout=8", round)?;
        kill_one(
            "distdgl",
            "--set batch=20 --set fanout=8 --set prefetch=0",
            round,
        )?;
        // Whoever waits for a push that will not come.
        let learnt = "--set batch=20 --set vertex_embedding=8 --set embedding_sync=true";
        kill_one("distdgl", learnt, round)?;
        let fine = "--set batch=20 --set fanout=8 --set grain=5 --set sample_threads=2";
        kill_one("bytegnn", fine, round)?;
        kill_one("bytegnn", &format!("{fine} --set gradients=ps"), round)?;
        // Whoever waits for rows that peers push.
        kill_one("distgnn-mb", "--set batch=20 --set fanout=8", round)
    })
}

/// Ranks that wait for each other on their devices, where nobody looks at a wire.
#[test]
fn a_rank_killed_while_rows_pass_from_gpu_to_gpu_ends_the_run() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 25 } else { 2 };
    let small = "--backend cuda --data sbm:nodes=100,classes=4 --hidden 8";
    for round in 0..rounds {
        for strategy in ["halo", "neutrontp", "gnnpipe"] {
            if let Some(store) = Store::with_gpus(RANKS, "")? {
                kill_one_in(&store, strategy, small, round)?;
            }
        }
    }
    Ok(())
}

/// Stages that wait for each other's chunks, ranks of one stage for each other's rows, and pieces of layers
/// that go round.
#[test]
fn a_stage_killed_between_two_chunks_ends_the_run() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 25 } else { 2 };
    (0..rounds).try_for_each(|round| {
        kill_one("gnnpipe", "--layers 6", round)?;
        kill_one("gnnpipe", "--layers 6 --set interleave=2", round)?;
        kill_one("gnnpipe", "--set groups=3 --set chunks=4", round)
    })
}

/// Devices that wait for what others load.
#[test]
fn a_device_killed_between_two_batches_ends_the_run() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let rounds = if skip::soak() { 25 } else { 2 };
    (0..rounds).try_for_each(|round| {
        kill_one("hongtu", "--set chunks=6", round)?;
        kill_one("hongtu", "--set dedup=none --set memory=recompute", round)
    })
}

#[test]
fn a_killed_launcher_leaves_no_rank_behind() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let mut run = endless(&store, "")?;
    // Rank 0 has finished three; the others, who may be a row behind it, two at least.
    let (id, _) = store.wait_epochs(&mut run, 3, RANKS)?;
    processes::signal(run.pid(), libc::SIGKILL);
    run.wait(Duration::from_secs(5))?;
    let left = processes::wait_gone(store.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    // What the list says is what the frames have.
    let epochs = store.frame(&id, "epochs")?.len() as u64;
    let listed = store.frame(&id, "runs")?;
    ensure!(
        epochs >= 2 && listed[0]["epochs_done"] == epochs,
        "{epochs}: {listed:?}"
    );
    ensure!(listed[0]["status"] == "failed", "{listed:?}");
    Ok(())
}

#[test]
fn a_stalled_rank_is_named_with_those_who_wait_for_it() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let mut run = endless(&store, "--stall 2")?;
    // Rank 0 has finished four; the others, who may be a row behind it, three at least.
    let (id, pids) = store.wait_epochs(&mut run, 4, RANKS)?;
    processes::signal(pids[1], libc::SIGSTOP);
    let stopped = Instant::now();
    let ended = run.wait(Duration::from_secs(30))?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    ensure!(
        stopped.elapsed() < Duration::from_secs(10),
        "after {:?}",
        stopped.elapsed()
    );
    let manifest = store.manifest(&id)?;
    let error = &manifest["error"];
    ensure!(
        manifest["status"] == "stalled" && error["name"] == "HaloStalled",
        "{manifest}"
    );
    let waits = error["waits"].as_array().context("no table of who waits")?;
    let of = |rank: u64| {
        waits
            .iter()
            .find(|wait| wait["rank"].as_u64() == Some(rank))
    };
    for rank in [0, 2] {
        let wait = of(rank).with_context(|| format!("rank {rank} is not in {waits:?}"))?;
        ensure!(
            wait["op"].is_string(),
            "rank {rank} waits in no operation: {wait}"
        );
        ensure!(
            wait["waiting_s"].as_f64().is_some_and(|s| s >= 1.0),
            "{wait}"
        );
    }
    ensure!(
        ended.stderr.contains("rank 1"),
        "rank 1 is not named: {ended}"
    );
    nothing_lost_nothing_left(&store, &id, 3)
}

#[test]
fn a_time_limit_ends_the_run() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let mut run = endless(&store, "--timeout 4")?;
    let (id, _) = store.wait_epochs(&mut run, 2, RANKS)?;
    let ended = run.wait(Duration::from_secs(20))?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    let error: &Value = &store.manifest(&id)?["error"];
    ensure!(error["name"] == "HaloTimeout", "{error}");
    nothing_lost_nothing_left(&store, &id, 1)
}
