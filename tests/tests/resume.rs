//! Runs that were killed and go on from their last checkpoint, and runs that end early.
//!
//! Can catch: a checkpoint that a kill at any point spoils, a resumed run whose losses, scores or
//! final state differ in a bit from those of a run that was never killed, epochs that are missing or
//! twice in its frames, a resumption that should have been refused. Cannot catch: a machine that
//! loses power.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tests::runs::{Running, Store};
use tests::{Outcome, processes, skip};

const EPOCHS: usize = 240;

/// A number below `n`, from the clock: the very point is another epoch every time.
fn any(n: u32) -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    (nanos / 97).wrapping_mul(2_654_435_761) % n
}

/// Waits until the run `id`, the last by name, has so many epochs; returns its ranks' processes.
fn wait(
    store: &Store,
    running: &mut Running,
    id: &str,
    epochs: usize,
    ranks: usize,
) -> anyhow::Result<Vec<u32>> {
    // Until its folder is there, the newest run is the one before.
    while store.runs().pop().as_deref() != Some(id) {
        ensure!(!running.has_ended()?, "{}", running.so_far());
        std::thread::sleep(Duration::from_millis(1));
    }
    let (found, pids) = store.wait_epochs(running, epochs, ranks)?;
    ensure!(found == id, "{found} is not {id}");
    Ok(pids)
}

/// What must not depend on whether a run was killed: every epoch's row but for its times.
fn epochs(store: &Store, id: &str) -> anyhow::Result<Vec<Vec<Value>>> {
    let rows = store.frame(id, "epochs")?;
    let same = [
        "epoch",
        "is_warmup",
        "train_loss",
        "val_acc",
        "test_acc",
        "bytes",
    ];
    let of_row = |row: &Value| same.map(|column| row[column].clone()).to_vec();
    Ok(rows.iter().map(of_row).collect())
}

/// Every file of the last checkpoint, by name.
fn last_checkpoint(run: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let folder = run.join(format!("checkpoints/epoch-{EPOCHS:08}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((name, std::fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

fn killed_and_resumed(how: &str, ranks: usize) -> Outcome {
    let store = Store::new()?;
    let run = format!(
        "train --data sbm:nodes=900,classes=4 -n {ranks} {how} --epochs {EPOCHS} --dropout 0.5 --checkpoint-every 5 --json"
    );
    let ended = store.halobook(&format!("{run} --run-id a-whole"))?;
    ensure!(ended.status.success(), "{ended}");
    let mut before: Option<String> = None;
    for id in ["b-killed", "c-killed-again"] {
        let words = match &before {
            None => format!("{run} --run-id {id}"),
            Some(before) => format!("train --resume {before} --json --run-id {id}"),
        };
        let mut running = store.start(&words)?;
        let epochs = match before {
            None => 8 + any(60) as usize,
            Some(_) => 100 + any(40) as usize,
        };
        let pids = wait(&store, &mut running, id, epochs, ranks)?;
        std::thread::sleep(Duration::from_micros(u64::from(any(5_000))));
        processes::signal(pids[any(ranks as u32) as usize], libc::SIGKILL);
        let ended = running.wait(Duration::from_secs(20))?;
        ensure!(ended.status.code() == Some(1), "{ended}");
        before = Some(id.to_owned());
    }
    let killed = store.manifest("c-killed-again")?;
    ensure!(killed["resumed"]["run_id"] == "b-killed", "{killed}");
    let ended = store.halobook("train --resume c-killed-again --json --run-id d-rest")?;
    ensure!(ended.status.success(), "{ended}");
    let rest = ended.json()?;
    ensure!(
        rest["status"] == "ok" && rest["epochs_done"] == EPOCHS,
        "{rest}"
    );
    ensure!(rest["resumed"]["run_id"] == "c-killed-again", "{rest}");
    let kept = rest["resumed"]["epochs"].as_u64().unwrap_or(0);
    ensure!(kept >= 95 && kept % 5 == 0, "{kept} epochs kept");
    let (mut want, mut got) = (epochs(&store, "a-whole")?, epochs(&store, "d-rest")?);
    if how.contains("sancus") || how.contains("distgnn-mb") {
        // Features, which they send once, travel once more.
        let rows = want.iter_mut().chain(&mut got);
        rows.for_each(|row| drop(row.pop()));
    }
    ensure!(want.len() == EPOCHS, "{} epochs", want.len());
    for (want, got) in want.iter().zip(&got) {
        ensure!(want == got, "{how}: {want:?} against {got:?}");
    }
    ensure!(got.len() == want.len(), "{} epochs", got.len());
    let [want, got] = ["a-whole", "d-rest"].map(|id| last_checkpoint(&store.run(id)));
    ensure!(want? == got?, "{how}: other bits after the last epoch");
    Ok(())
}

#[test]
fn a_killed_run_of_threads_goes_on_with_the_same_bits() -> Outcome {
    killed_and_resumed("-s single --launch threads", 1)?;
    killed_and_resumed("-s halo --launch threads", 3)
}

#[test]
fn a_run_with_a_killed_mpi_rank_goes_on_with_the_same_bits() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    killed_and_resumed("-s halo --launch mpi", 2)?;
    let batches = "-s distdgl --set fanout=5 --set batch=40 --launch mpi";
    let learnt = format!("{batches} --set vertex_embedding=8 --set embedding_sync=true");
    killed_and_resumed(&learnt, 2)?;
    let scheduled = "-s bytegnn --set fanout=5 --set batch=40 --set grain=16 --launch mpi";
    killed_and_resumed(scheduled, 2)?;
    // Caches are older than the checkpoint.
    let historical = "-s distgnn-mb --model sage --set fanout=5 --set batch=40 --set ls=6";
    killed_and_resumed(&format!("{historical} --launch mpi"), 2)?;
    // A version of historical rows lasts ten epochs, a checkpoint comes every five.
    let stages = "-s gnnpipe --model gcnii --layers 4 --launch mpi";
    killed_and_resumed(stages, 2)?;
    killed_and_resumed("-s hongtu --model gcnii --layers 4 --launch mpi", 2)?;
    if !skip::soak() {
        return Ok(());
    }
    killed_and_resumed("-s neutrontp --launch mpi", 3)?;
    killed_and_resumed(&format!("{stages} --set groups=2 --set interleave=2"), 4)?;
    for round in 0..25 {
        // Two kills each.
        let how = if round % 2 == 0 { batches } else { &learnt };
        killed_and_resumed(how, 2)?;
    }
    killed_and_resumed("-s sancus --set bound=epoch-fixed=3 --launch mpi", 3)
}

#[test]
fn a_run_that_was_interrupted_or_is_finished_goes_on_further() -> Outcome {
    let store = Store::new()?;
    let run = "train --data karate -s halo -n 2 --launch threads --json";
    for (epochs, id) in [(20, "a-whole"), (10, "b-half")] {
        let more = format!("--checkpoint-every 100 --epochs {epochs} --run-id {id}");
        let ended = store.halobook(&format!("{run} {more}"))?;
        ensure!(ended.status.success(), "{ended}");
    }
    let ended = store.halobook("train --resume b-half --epochs 20 --json --run-id c-rest")?;
    ensure!(ended.status.success(), "{ended}");
    ensure!(
        epochs(&store, "a-whole")? == epochs(&store, "c-rest")?,
        "not the same"
    );
    let mut running = store.start(&format!(
        "{run} --epochs 1000000 --checkpoint-every 1000000 --run-id d-stopped"
    ))?;
    wait(&store, &mut running, "d-stopped", 3, 2)?;
    processes::signal(running.pid(), libc::SIGINT);
    let ended = running.wait(Duration::from_secs(15))?;
    ensure!(ended.status.code() == Some(130), "{ended}");
    let done = ended.json()?["epochs_done"]
        .as_u64()
        .context("epochs_done")?;
    let more = done + 5;
    let ended = store.halobook(&format!("train --resume d-stopped --epochs {more} --json"))?;
    ensure!(ended.status.success(), "{ended}");
    let rest = ended.json()?;
    ensure!(
        rest["epochs_done"] == more && rest["resumed"]["epochs"] == done,
        "{rest}"
    );
    Ok(())
}

#[test]
fn what_cannot_go_on_is_refused() -> Outcome {
    let store = Store::new()?;
    let run = "train --data karate --epochs 4 --json";
    for more in ["--run-id plain", "--run-id kept --checkpoint-every 2"] {
        let ended = store.halobook(&format!("{run} {more}"))?;
        ensure!(ended.status.success(), "{ended}");
    }
    for (args, says) in [
        ("--resume plain --epochs 9", "--checkpoint-every"),
        ("--resume kept", "--epochs"),
        ("--resume kept --epochs 9 --lr 0.5", "lr"),
        ("--resume kept --epochs 9 -s halo", "strategy"),
        ("--resume kept --epochs 9 --data sbm:nodes=50", "data"),
        ("--resume kept --epochs 9 --epohcs 3", "epochs"),
        ("--resume nobody", "nobody"),
        ("--resume", "needs a value"),
    ] {
        let ended = store.halobook(&format!("train {args}"))?;
        ensure!(ended.status.code() == Some(2), "{args}: {ended}");
        let (wrong, help) = ended.complaint()?;
        let both = format!("{wrong}\n{help}");
        ensure!(both.contains(says), "{args}: `{says}` is not said: {both}");
    }
    ensure!(store.runs() == ["kept", "plain"], "{:?}", store.runs());
    // Damage is told, and the checkpoint before is taken.
    let path = store.run("kept").join("checkpoints/epoch-00000004/shared");
    let mut bytes = std::fs::read(&path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes)?;
    let ended = store.halobook("train --resume kept --json --run-id rest")?;
    ensure!(ended.status.success(), "{ended}");
    ensure!(ended.json()?["resumed"]["epochs"] == 2, "{ended}");
    let notes = store.manifest("rest")?["notes"].to_string();
    ensure!(notes.contains("damaged"), "{notes}");
    Ok(())
}

#[test]
fn patience_ends_a_run_at_the_same_epoch_on_one_rank_and_two() -> Outcome {
    let store = Store::new()?;
    let run = "--data karate --epochs 300 --seed 1 --launch threads";
    let endless = store.train(&format!("{run} --run-id endless"))?;
    ensure!(
        endless["stopped_early"] == false && endless["epochs_done"] == 300,
        "{endless}"
    );
    let mut done = Vec::new();
    for (more, id) in [("-s single", "one"), ("-s halo -n 2", "two")] {
        let patient = format!("--patience 10 --checkpoint-every 50 --run-id {id}");
        let ended = store.train(&format!("{run} {more} {patient}"))?;
        ensure!(
            ended["status"] == "ok" && ended["stopped_early"] == true,
            "{ended}"
        );
        ensure!(store.manifest(id)?["stopped_early"] == true, "{id}");
        let best = ended["final"]["best_epoch"].as_u64();
        let epochs = ended["epochs_done"].as_u64();
        ensure!(epochs == best.map(|best| best + 11), "{ended}");
        done.push(epochs);
    }
    ensure!(done[0] == done[1], "{done:?}");
    let ended = store.halobook("train --resume two")?;
    ensure!(ended.status.code() == Some(2), "{ended}");
    ensure!(ended.complaint()?.1.contains("--patience"), "{ended}");
    let rest = store.train("--resume two --patience 0")?;
    ensure!(rest["epochs_done"] == 300, "{rest}");
    Ok(())
}
