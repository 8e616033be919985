//! What nobody means to do, and what has to come of it.
//!
//! Can catch: a loss that is no number and passes for success, names that Rust has for itself, a store that others
//! read. Cannot catch: what only a full disk or another user would show.

use anyhow::ensure;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::kernel::Kernel;
use tests::runs::Store;
use tests::{Outcome, processes, skip};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_loss_that_is_no_number_is_no_success() -> Outcome {
    let store = Store::new()?;
    let train = |more: &[&str]| {
        let words = [
            "train", "--data", "karate", "-s", "halo", "-n", "2", "--launch", "threads",
            "--epochs", "9", "--lr", "900000", "--layers", "8",
        ];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        store.start_words(&words)?.wait(LIMIT)
    };
    let ended = train(&["--json"])?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    ensure!(
        ended
            .stderr
            .contains("HaloDiverged: the training loss of epoch"),
        "{ended}"
    );
    let epochs = store.frame("latest", "epochs")?;
    ensure!((1..9).contains(&epochs.len()), "{} epochs", epochs.len());
    let runs = store.frame("latest", "runs")?;
    ensure!(runs[0]["status"] == "failed", "{:?}", runs[0]);
    // Where it began is the same in every exact schedule of the layers.
    let said = ["halo", "gnnpipe", "hongtu", "neutrontp"].map(|strategy| train(&["-s", strategy]));
    for ended in said {
        let ended = ended?;
        let began = "it began in the output of layer 5 (from 0); the largest norm of a vertex's row before it";
        ensure!(ended.stderr.contains(began), "{ended}");
    }
    let on = train(&["--stop-on-nan", "false", "--json"])?;
    ensure!(on.status.success(), "{on}");
    ensure!(store.frame("latest", "epochs")?.len() == 9);
    Ok(())
}

/// Weights that a process with this limit cannot hold: three gigabytes of address space, and six of parameters.
#[test]
fn a_process_with_a_limit_is_asked_before_anything_is_allocated() -> Outcome {
    let store = Store::new()?;
    let train = |more: &str| -> anyhow::Result<(Option<i32>, String)> {
        let halobook = tests::binaries::find("halobook");
        let line = format!(
            "ulimit -v 3000000; exec '{}' train --data karate --epochs 1 --hidden 20000 --layers 3 {more}",
            halobook.display()
        );
        let ended = std::process::Command::new("sh")
            .args(["-c", &line])
            .env("HALOBOOK_HOME", store.home())
            .current_dir(store.home())
            .output()?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Ok((ended.status.code(), said))
    };
    for more in ["-s single", "-s halo -n 2 --launch threads"] {
        let (code, said) = train(more)?;
        ensure!(code == Some(2), "{more}: {code:?} {said}");
        ensure!(said.contains("HaloPlanRefused"), "{more}: {said}");
        ensure!(said.contains("that its limits leave it"), "{more}: {said}");
    }
    let (code, said) = train("-s halo -n 2 --launch threads --force")?;
    ensure!(code == Some(1), "{code:?} {said}");
    ensure!(said.contains("ran out of memory"), "{said}");
    Ok(())
}

/// What the ranks and then the supervisor write fills a disk of a few megabytes, in a name space of its own.
#[test]
fn a_full_disk_ends_the_run_says_so_and_keeps_the_finished_epochs() -> Outcome {
    let home = tempfile::tempdir()?;
    let script = home.path().join("fill");
    // The disk goes with its name space: everything is asked inside.
    std::fs::write(
        &script,
        "mount -t tmpfs -o size=$2k tmpfs \"$1/disk\" 2>/dev/null || exit 77\n\
         export HALOBOOK_HOME=\"$1/disk\"\n\
         \"$3\" train --data karate -s halo -n 2 --launch $4 --epochs 100000 >/dev/null 2>\"$1/said\"\n\
         echo $? > \"$1/status\"\n\
         \"$3\" frames latest runs --json > \"$1/runs\"\n\
         \"$3\" frames latest epochs --json | wc -l > \"$1/epochs\"\n\
         ls \"$1\"/disk/runs/*/ > \"$1/left\"\n",
    )?;
    std::fs::create_dir(home.path().join("disk"))?;
    let halobook = tests::binaries::find("halobook");
    for (kib, launch) in [("1400", "threads"), ("3000", "threads"), ("2200", "mpi")] {
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh"])
            .arg(&script);
        command.arg(home.path()).arg(kib).arg(&halobook).arg(launch);
        match command.status() {
            Ok(status) if status.success() => {}
            other => {
                skip::skip(
                    "a full disk",
                    &format!("nothing can be mounted here: {other:?}"),
                );
                return Ok(());
            }
        }
        let read = |name: &str| std::fs::read_to_string(home.path().join(name));
        let said = read("said")?;
        ensure!(read("status")?.trim() == "1", "{launch}: {said}");
        ensure!(said.contains("HaloDiskFull"), "{launch}: {said}");
        ensure!(said.contains("free some disk space"), "{launch}: {said}");
        let run: serde_json::Value = serde_json::from_str(read("runs")?.trim())?;
        ensure!(run["status"] == "failed", "{run}");
        let error = run["error"].as_str().unwrap_or_default();
        ensure!(error.contains("No space left on device"), "{run}");
        let epochs: u64 = read("epochs")?.trim().parse()?;
        ensure!(
            epochs > 50 && run["epochs_done"] == epochs,
            "{epochs}: {run}"
        );
        let left = read("left")?;
        ensure!(
            !left.contains("reserve") && !left.contains(".tmp"),
            "{left}"
        );
    }
    Ok(())
}

#[test]
fn names_that_rust_has_are_refused_before_anything_runs() -> Outcome {
    let mut kernel = Kernel::start()?;
    for cell in [
        "%%gnn -o self\ndata = \"karate\"; epochs = 3",
        "%%gnn -o a -o b\ndata = \"karate\"; epochs = 3",
        "%%sweep -o super\ndata = \"karate\"; epochs = 3; seed = [0, 1]",
        "%%sql -o match\nSELECT * FROM runs",
        "%%ranks -o async\n1",
        "%partition karate -n 2 -o _",
    ] {
        let answer = kernel.execute(cell)?;
        ensure!(
            answer.content()["ename"] == "HaloConfigError",
            "{cell}: {}",
            answer.reply
        );
    }
    let answer = kernel.execute("runs().height()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("0"),
        "something ran: {:?}",
        answer.iopub
    );
    Ok(())
}

/// How addresses begin that only this host reaches: 127.0.0.1 and ::1.
/// Ranks of one host have no port that another host could reach.
#[test]
fn ranks_of_one_host_listen_to_nobody() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let store = Store::new()?;
    let mut running =
        store.start("train --data karate -s halo -n 2 --launch mpi --epochs 10000000")?;
    let (id, pids) = store.wait_epochs(&mut running, 3, 2)?;
    ensure!(pids.len() == 2, "{pids:?}");
    // Ranks, their starter and who watches them.
    let all = processes::naming(store.home());
    let open: Vec<_> = all
        .iter()
        .map(|(pid, words)| (processes::listening(*pid), words))
        .collect();
    store.halobook(&format!("stop {id} --now"))?;
    running.wait(LIMIT)?;
    ensure!(open.len() > 3, "{open:?}");
    ensure!(open.iter().all(|(ports, _)| ports.is_empty()), "{open:?}");
    Ok(())
}

#[test]
fn a_new_store_is_its_owners_alone() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate --epochs 2")?;
    let mode = std::fs::metadata(store.home().join("runs"))?
        .permissions()
        .mode()
        & 0o777;
    ensure!(mode == 0o700, "{mode:o}");
    Ok(())
}

#[test]
fn a_run_whose_supervisor_is_stopped_says_that_nobody_watches() -> Outcome {
    let store = Store::new()?;
    let mut running =
        store.start("train --data karate -s halo -n 2 --launch threads --epochs 10000000")?;
    let (id, _) = store.wait_epochs(&mut running, 3, 2)?;
    processes::signal(running.pid(), libc::SIGSTOP);
    let stopped = store.halobook("jobs --json");
    processes::signal(running.pid(), libc::SIGCONT);
    let on = store.halobook("jobs --json");
    store.halobook(&format!("stop {id} --now"))?;
    running.wait(LIMIT)?;
    let (stopped, on) = (stopped?, on?);
    ensure!(stopped.stdout.contains("unwatched"), "{stopped}");
    ensure!(on.stdout.contains("running"), "{on}");
    Ok(())
}

#[test]
fn requests_that_no_machine_fulfils_are_refused_at_once() -> Outcome {
    let store = Store::new()?;
    for (request, said) in [
        (
            "-s gnnpipe -n 2 --launch threads --chunks 1000000000",
            "at most 1024 parts",
        ),
        ("--threads 4096", "threads: 1 ranks of 4096 threads"),
        ("--hidden 1048576 --layers 3", "HaloPlanRefused"),
        (
            "-s hongtu -n 2 --launch threads --device-mem 1",
            "of the device",
        ),
    ] {
        let ended = store
            .start(&format!("train --data karate {request}"))?
            .wait(LIMIT)?;
        ensure!(ended.status.code() == Some(2), "{request}: {ended}");
        ensure!(ended.stderr.contains(said), "{request}: {ended}");
    }
    Ok(())
}

#[test]
fn data_that_declares_too_much_or_is_no_file_is_refused() -> Outcome {
    let store = Store::new()?;
    let dir = store.home().join("data");
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("edges.csv"), "0,1\n1,2\n2,3\n3,0\n")?;
    std::fs::write(dir.join("labels.csv"), "0\n1\n0\n1\n")?;
    let meta = dir.join("meta.json");
    let refused = |said: &str| -> Outcome {
        let words = ["train", "--data", "data", "--epochs", "2"];
        let ended = store.start_words(&words)?.wait(LIMIT)?;
        ensure!(ended.status.code() == Some(2), "{said}: {ended}");
        ensure!(ended.stderr.contains(said), "{said}: {ended}");
        Ok(())
    };
    for classes in ["2147483647", "4294967299"] {
        std::fs::write(&meta, format!("{{\"num_classes\": {classes}}}"))?;
        refused("are more than 65536")?;
    }
    std::fs::remove_file(&meta)?;
    std::os::unix::fs::symlink("/dev/zero", &meta)?;
    refused("not a regular file")?;
    std::fs::remove_file(&meta)?;
    let made = std::process::Command::new("mkfifo").arg(&meta).status()?;
    ensure!(made.success(), "no pipe");
    refused("not a regular file")?;
    // The same where nothing else is.
    let alone = store.home().join("alone");
    std::fs::create_dir(&alone)?;
    std::fs::rename(&meta, alone.join("meta.json"))?;
    let ended = store.start("train --data ./alone")?.wait(LIMIT)?;
    ensure!(ended.status.code() == Some(2), "{ended}");
    let said = "meta.json: is not a regular file";
    ensure!(ended.stderr.contains(said), "{ended}");
    Ok(())
}

#[test]
fn a_link_that_takes_for_ever_says_so_before() -> Outcome {
    let store = Store::new()?;
    let words = "train --data karate -s halo -n 2 --launch threads --link 1bit,1s --timeout 2";
    let ended = store.start(words)?.wait(LIMIT)?;
    ensure!(
        ended.stderr.contains("link: an epoch takes at least"),
        "{ended}"
    );
    Ok(())
}

#[test]
fn a_fault_from_outside_ends_ranks_and_supervisors_as_any_signal_does() -> Outcome {
    let store = Store::new()?;
    let words = "train --data karate -s halo -n 2 --launch threads --epochs 10000000";
    let mut running = store.start(words)?;
    let (id, pids) = store.wait_epochs(&mut running, 3, 2)?;
    processes::signal(pids[0], libc::SIGSEGV);
    let ended = running.wait(LIMIT)?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    let manifest = store.manifest(&id)?;
    ensure!(manifest["status"] == "failed", "{manifest}");
    let mut running = store.start(words)?;
    let (id, _) = store.wait_epochs(&mut running, 3, 2)?;
    processes::signal(running.pid(), libc::SIGSEGV);
    let ended = running.wait(LIMIT)?;
    ensure!(ended.status.code().is_none(), "{ended}");
    let left = processes::wait_gone(&store.run(&id), Duration::from_secs(10));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}
