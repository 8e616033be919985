//! `halobook train` as a user starts it: on threads and under `mpirun`, with its answers.
//!
//! Can catch: strategies that depend on the launch or on the rank count, a `--json` object or an
//! exit status that is not the promised one, runs that leave something behind. Cannot catch:
//! anything that needs more than one host, and speed: ranks here outnumber cores.

use anyhow::{Context as _, ensure};
use std::time::Duration;
use tests::runs::{Store, numbers};
use tests::{Outcome, processes, skip};

/// Losses of two runs, epoch by epoch, to a relative tolerance.
fn same_losses(a: &[f64], b: &[f64], tolerance: f64) -> Outcome {
    ensure!(a.len() == b.len(), "{} epochs against {}", a.len(), b.len());
    for (epoch, (a, b)) in a.iter().zip(b).enumerate() {
        let off = (a - b).abs();
        ensure!(
            off <= tolerance * a.abs().max(1e-3),
            "epoch {epoch}: {a} against {b}"
        );
    }
    Ok(())
}

fn losses(store: &Store, args: &str) -> anyhow::Result<Vec<f64>> {
    store.train(args)?;
    let losses = numbers(&store.frame("latest", "epochs")?, "train_loss");
    ensure!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    Ok(losses)
}

fn equal_on(launch: &str, ranks: &[usize]) -> Outcome {
    let store = Store::new()?;
    for model in ["gcn", "sage"] {
        for data in ["karate", "sbm:nodes=203,classes=3"] {
            let run = format!(
                "--data {data} --model {model} --epochs 20 --hidden 8 --dropout 0.5 --weight-decay 5e-4 --lr 0.02 --seed 3"
            );
            let reference = losses(&store, &format!("{run} -s single -n 1"))?;
            ensure!(
                reference.first() > reference.last(),
                "it does not learn: {reference:?}"
            );
            for n in ranks {
                let args = format!("{run} -s halo -n {n} --launch {launch}");
                let found = losses(&store, &args)?;
                same_losses(&reference, &found, 1e-5).with_context(|| args.clone())?;
            }
        }
    }
    Ok(())
}

#[test]
fn halo_on_threads_trains_as_single_does() -> Outcome {
    equal_on("threads", &[1, 2, 3, 4])
}

#[test]
fn halo_under_mpirun_trains_as_single_does() -> Outcome {
    match skip::mpi() {
        true => equal_on("mpi", &[1, 2, 3, 4]),
        false => Ok(()),
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_one_does_not() -> Outcome {
    let store = Store::new()?;
    let run = "--data karate -s halo -n 3 --epochs 10 --launch threads --dropout 0.5";
    let first = losses(&store, &format!("{run} --seed 5"))?;
    let again = losses(&store, &format!("{run} --seed 5"))?;
    ensure!(first == again, "{first:?} against {again:?}");
    let other = losses(&store, &format!("{run} --seed 6"))?;
    ensure!(first != other, "the seed does nothing");
    Ok(())
}

#[test]
fn threads_and_mpi_give_the_same_bits() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let run = "--data sbm:nodes=203,classes=3 -s halo -n 3 --epochs 10 --dropout 0.5 --launch";
    let threads = losses(&store, &format!("{run} threads"))?;
    let mpi = losses(&store, &format!("{run} mpi"))?;
    ensure!(threads == mpi, "{threads:?} against {mpi:?}");
    Ok(())
}

#[test]
fn json_is_the_promised_object() -> Outcome {
    let store = Store::new()?;
    let run = store.train("--data karate -n 2 -s halo --epochs 5 --launch threads --name shape")?;
    let id = run["run_id"].as_str().context("no run_id")?;
    ensure!(run["status"] == "ok" && run["epochs_done"] == 5, "{run}");
    ensure!(run["wall_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{run}");
    for key in ["train_loss", "train_acc", "val_acc", "test_acc"] {
        ensure!(run["final"][key].is_number(), "no final.{key}: {run}");
    }
    let frames = run["frames"].as_object().context("no frames")?;
    for name in ["runs", "epochs", "ranks", "comm", "partition"] {
        let path = frames.get(name).and_then(|path| path.as_str());
        let path = path.with_context(|| format!("no frames.{name}"))?;
        let bytes = std::fs::read(path).with_context(|| path.to_string())?;
        ensure!(bytes.starts_with(b"PAR1"), "{path} is no Parquet file");
    }
    let manifest = store.manifest(id)?;
    ensure!(
        manifest["status"] == "ok" && manifest["name"] == "shape",
        "{manifest}"
    );
    Ok(())
}

#[test]
fn flags_a_file_and_set_are_the_same_request() -> Outcome {
    let store = Store::new()?;
    let file = store.home().join("run.toml");
    std::fs::write(
        &file,
        "data = \"karate\"\nstrategy = \"halo\"\nranks = 2\nepochs = 4\nweight_decay = 1e-3\nlaunch = \"threads\"\n",
    )?;
    let flags = losses(
        &store,
        "--data karate --strategy halo --ranks 2 --epochs 4 --weight-decay 1e-3 --launch threads",
    )?;
    let toml = losses(&store, &format!("--config {}", file.display()))?;
    let set = losses(
        &store,
        "--set data=karate --set strategy=halo --set ranks=2 --set epochs=4 --set weight_decay=1e-3 --set launch=threads",
    )?;
    ensure!(
        flags == toml && flags == set,
        "{flags:?}, {toml:?}, {set:?}"
    );
    let both = losses(&store, &format!("--config {} --epochs 2", file.display()))?;
    ensure!(both.len() == 2, "a flag does not win over the file");
    Ok(())
}

#[test]
fn a_dry_run_starts_nothing() -> Outcome {
    let store = Store::new()?;
    let ended = store.halobook("train --data karate -s halo -n 2 --dry-run")?;
    ensure!(ended.status.code() == Some(0), "{ended}");
    ensure!(store.runs().is_empty(), "a run folder: {:?}", store.runs());
    Ok(())
}

fn interrupted(launch: &str, by: impl Fn(&Store, &tests::runs::Running) -> Outcome) -> Outcome {
    let store = Store::new()?;
    let mut run = store.start(&format!(
        "train --data sbm:nodes=400,classes=4 -s halo -n 2 --epochs 1000000 --launch {launch} --json"
    ))?;
    let (id, _) = store.wait_epochs(&mut run, 3, 2)?;
    by(&store, &run)?;
    let ended = run.wait(Duration::from_secs(15))?;
    ensure!(ended.status.code() == Some(130), "{ended}");
    let manifest = store.manifest(&id)?;
    ensure!(manifest["status"] == "interrupted", "{manifest}");
    let epochs = store.frame(&id, "epochs")?;
    ensure!(epochs.len() >= 3, "{} epochs kept", epochs.len());
    let done = manifest["epochs_done"].as_u64();
    ensure!(
        done == Some(epochs.len() as u64),
        "{done:?} done, {} kept",
        epochs.len()
    );
    let left = processes::wait_gone(store.home(), Duration::from_secs(2));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn control_c(_: &Store, run: &tests::runs::Running) -> Outcome {
    processes::signal(run.pid(), libc::SIGINT);
    Ok(())
}

#[test]
fn an_interrupt_ends_threads_at_an_epoch_and_keeps_them_all() -> Outcome {
    interrupted("threads", control_c)
}

#[test]
fn an_interrupt_ends_mpi_ranks_at_an_epoch_and_keeps_them_all() -> Outcome {
    match skip::mpi() {
        true => interrupted("mpi", control_c),
        false => Ok(()),
    }
}

#[test]
fn halobook_stop_ends_a_run_from_another_terminal() -> Outcome {
    interrupted("threads", |store, _| {
        let ended = store.halobook("stop latest")?;
        ensure!(ended.status.success(), "{ended}");
        Ok(())
    })
}

#[test]
fn runs_and_log_and_doctor_answer() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -n 2 -s halo --epochs 2 --launch threads --name listed")?;
    let runs = store.halobook("runs")?;
    ensure!(
        runs.status.success() && runs.stdout.contains("karate"),
        "{runs}"
    );
    let json = store.halobook("runs --json")?;
    ensure!(
        json.status.success() && json.stdout.contains("\"listed\""),
        "{json}"
    );
    let log = store.halobook("log latest --rank 0 --tail 5")?;
    ensure!(log.status.success(), "{log}");
    let doctor = store.halobook("doctor --json")?;
    ensure!(doctor.status.success(), "{doctor}");
    doctor.json().map(|_| ())
}
