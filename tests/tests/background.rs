//! `halobook train --bg`, `jobs`, `wait`, `attach` and `replay` as a user asks them.
//!
//! Can catch: a background run that ends with who started it, a refusal that is lost, an exit
//! status that hides a run's end, a promise of the same bits that is broken and not told. Cannot
//! catch: what a terminal shows while a run is followed.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::runs::Store;
use tests::{Outcome, processes};

const ENDLESS: &str =
    "train --bg --data sbm:nodes=400,classes=4 -s halo -n 2 --epochs 1000000 --launch threads";

#[test]
fn a_background_run_is_on_its_own() -> Outcome {
    let store = Store::new()?;
    let started = store.halobook(ENDLESS)?;
    ensure!(started.status.success(), "{started}");
    let id = started.stdout.trim().to_owned();
    ensure!(store.runs() == [id.clone()], "{started}");
    let pid = store.manifest(&id)?["pid"].as_u64().context("no pid")?;
    // A session of its own: no terminal can hang up on it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit_once(')').context("no stat")?.1;
    let session = after.split_whitespace().nth(3);
    ensure!(session == Some(pid.to_string().as_str()), "{stat}");

    let listed = store.halobook("jobs --json")?;
    let job: Value = serde_json::from_str(listed.stdout.trim())?;
    ensure!(job["run_id"] == *id && job["kind"] == "run", "{job}");
    ensure!(
        job["status"] == "running" || job["status"] == "loading",
        "{job}"
    );
    ensure!(job["epochs"] == 1_000_000 && job["ranks"] == 2, "{job}");

    let following = store.start(&format!("attach {id}"))?;
    let waiting = store.start(&format!("wait {id} --json"))?;
    ensure!(store.halobook(&format!("stop {id}"))?.status.success());
    let waited = waiting.wait(Duration::from_secs(60))?;
    ensure!(waited.status.code() == Some(130), "{waited}");
    ensure!(waited.json()?["status"] == "interrupted", "{waited}");
    let followed = following.wait(Duration::from_secs(60))?;
    ensure!(followed.status.code() == Some(130), "{followed}");
    ensure!(followed.stdout.contains(&id), "{followed}");
    ensure!(store.halobook("jobs")?.stdout.contains("no run"));
    ensure!(store.halobook("wait")?.status.success());
    let left = processes::wait_gone(store.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// Data that takes far longer to make than a run takes to be announced.
const LARGE: &str =
    "--data sbm:nodes=400000,classes=4,feat=32,degree=10 -s halo -n 2 --launch threads";

#[test]
fn a_run_is_under_way_while_its_data_is_read() -> Outcome {
    let store = Store::new()?;
    let started = store.halobook(&format!("train --bg {LARGE} --epochs 1000000"))?;
    ensure!(started.status.success(), "{started}");
    let id = started.stdout.trim().to_owned();
    ensure!(
        !store.run(&id).join("plan.json").exists(),
        "the data had been read"
    );
    let listed = store.halobook("jobs")?;
    ensure!(listed.stdout.contains("loading"), "{listed}");
    ensure!(store.halobook(&format!("stop {id}"))?.status.success());
    let waited = store.halobook(&format!("wait {id} --json"))?;
    ensure!(waited.status.code() == Some(130), "{waited}");
    ensure!(store.frame(&id, "epochs")?.is_empty());

    // What only the data shows is told to who waits.
    let started = store.halobook(&format!("train --bg {LARGE} --limit 1MB"))?;
    ensure!(started.status.success(), "{started}");
    let id = started.stdout.trim().to_owned();
    let waited = store.halobook(&format!("wait {id}"))?;
    ensure!(waited.status.code() == Some(1), "{waited}");
    ensure!(
        waited.complaint()?.0.contains("HaloPlanRefused"),
        "{waited}"
    );
    let left = processes::wait_gone(store.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_sweep_in_the_background_is_listed_waited_for_and_stopped() -> Outcome {
    let store = Store::new()?;
    let some = "sweep --bg --data karate --launch threads --in-order";
    let started = store.halobook(&format!("{some} --epochs 5 --seed [1,2] --json"))?;
    ensure!(started.status.success(), "{started}");
    let id = started.json()?["sweep_id"]
        .as_str()
        .context("no id")?
        .to_owned();
    let waited = store.halobook(&format!("wait {id}"))?;
    ensure!(waited.status.success(), "{waited}");
    ensure!(
        waited.stdout.contains("every setting has a row"),
        "{waited}"
    );
    ensure!(store.runs().len() == 2, "{:?}", store.runs());

    let started = store.halobook(&format!("{some} --epochs 100000000 --seed [1,2,3]"))?;
    let id = started.stdout.trim().to_owned();
    let listed = store.halobook("jobs --json")?;
    let job = |line: &str| serde_json::from_str::<Value>(line).ok();
    let mut jobs = listed.stdout.lines().filter_map(job);
    let sweep = jobs
        .find(|job| job["kind"] == "sweep")
        .context("no sweep")?;
    ensure!(sweep["run_id"] == *id && sweep["epochs"] == 3, "{sweep}");
    let following = store.start(&format!("attach {id}"))?;
    let until = Instant::now() + Duration::from_secs(60);
    while store.runs().len() < 3 {
        ensure!(Instant::now() < until, "no run");
        std::thread::sleep(Duration::from_millis(5));
    }
    let stopped = store.halobook(&format!("stop {id} --now"))?;
    ensure!(stopped.stdout.contains("is being ended"), "{stopped}");
    let followed = following.wait(Duration::from_secs(60))?;
    ensure!(followed.status.code() == Some(130), "{followed}");
    ensure!(store.halobook("jobs")?.stdout.contains("no run"));
    let left = processes::wait_gone(store.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    // A wrong key is refused by who asks.
    let wrong = store.halobook(&format!("{some} --epoch [1,2]"))?;
    ensure!(wrong.status.code() == Some(2), "{wrong}");
    wrong.complaint()?;
    Ok(())
}

#[test]
fn what_is_refused_is_refused_at_once_and_leaves_nothing() -> Outcome {
    let store = Store::new()?;
    for wrong in ["train --bg --data karat", "train --bg --epoch 3"] {
        let ended = store.halobook(wrong)?;
        ensure!(ended.status.code() == Some(2), "{ended}");
        ended.complaint()?;
        ensure!(ended.stdout.is_empty(), "{ended}");
    }
    ensure!(store.runs().is_empty());
    let unknown = store.halobook("replay --detach nothing")?;
    ensure!(!unknown.stderr.contains("detached"), "{unknown}");
    let dry = store.halobook("train --bg --dry-run --data karate")?;
    ensure!(dry.stdout.contains("nothing was started"), "{dry}");
    Ok(())
}

#[test]
fn a_failed_run_is_told_to_who_waits_for_it() -> Outcome {
    let store = Store::new()?;
    let started = store.halobook(&format!("{ENDLESS} --timeout 1"))?;
    let id = started.stdout.trim();
    let waited = store.halobook(&format!("wait {id}"))?;
    ensure!(waited.status.code() == Some(1), "{waited}");
    ensure!(waited.complaint()?.0.contains("HaloTimeout"), "{waited}");
    Ok(())
}

#[test]
fn a_killed_supervisor_in_the_background_leaves_no_rank() -> Outcome {
    let store = Store::new()?;
    let id = store.halobook(ENDLESS)?.stdout.trim().to_owned();
    let pid = store.manifest(&id)?["pid"].as_u64().context("no pid")?;
    processes::signal(pid.try_into()?, libc::SIGKILL);
    let killed = Instant::now();
    let waited = store.halobook(&format!("wait {id}"))?;
    ensure!(waited.status.code() == Some(1), "{waited}");
    ensure!(killed.elapsed() < Duration::from_secs(20), "{waited}");
    let left = processes::wait_gone(store.home(), Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_run_is_repeated_with_its_bits() -> Outcome {
    let store = Store::new()?;
    let (first, second) = ("one", "two");
    store.train("--data karate -s halo -n 3 --epochs 6 --launch threads --run-id one")?;
    let again = store.halobook("replay one --run-id two --json")?;
    ensure!(again.status.success(), "{again}");
    let verdict = &again.json()?["replay"];
    ensure!(
        verdict["same_epochs"] == 6 && verdict["kept"] == true,
        "{verdict}"
    );
    let page = store.halobook(&format!("run {second}"))?;
    ensure!(
        page.stdout.contains(&format!("repeats run {first}")),
        "{page}"
    );
    let parts = |id: &str| std::fs::read(store.run(id).join("part.bin"));
    ensure!(parts(first)? == parts(second)?, "another cut");

    let plan = store.run(first).join("plan.json");
    let text = std::fs::read_to_string(&plan)?;
    std::fs::write(&plan, text.replace("\"seed\": 0", "\"seed\": 5"))?;
    let id = store.halobook(&format!("replay {first} --bg"))?;
    let other = store.halobook(&format!("wait {}", id.stdout.trim()))?;
    ensure!(other.status.code() == Some(1), "{other}");
    let (what, help) = other.complaint()?;
    ensure!(what.contains("HaloReplayDiffers"), "{other}");
    ensure!(what.contains("0 of 6") && help.contains(first), "{other}");
    Ok(())
}
