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
    let on = train(&["--stop-on-nan", "false", "--json"])?;
    ensure!(on.status.success(), "{on}");
    ensure!(store.frame("latest", "epochs")?.len() == 9);
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
const LOOPBACK: [&str; 2] = ["0100007F:", "00000000000000000000000001000000:"];

/// Inodes and addresses of the sockets that wait for connections from other hosts.
fn listening(pid: u32) -> Vec<String> {
    let tables =
        ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let lines = tables
        .iter()
        .flatten()
        .flat_map(|text| text.lines().skip(1));
    let waiting = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, inode) = (*words.get(1)?, *words.get(9)?);
        let own = LOOPBACK
            .iter()
            .any(|loopback| address.starts_with(loopback));
        (words.get(3) == Some(&"0A") && !own).then(|| format!("{inode} {address}"))
    });
    let own = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let own: Vec<String> = own
        .filter_map(|fd| {
            Some(
                std::fs::read_link(fd.path())
                    .ok()?
                    .to_string_lossy()
                    .into_owned(),
            )
        })
        .collect();
    waiting
        .filter(|inode| {
            let inode = inode.split(' ').next().unwrap_or_default();
            own.contains(&format!("socket:[{inode}]"))
        })
        .collect()
}

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
    let open: Vec<Vec<String>> = pids.iter().map(|pid| listening(*pid)).collect();
    store.halobook(&format!("stop {id} --now"))?;
    running.wait(LIMIT)?;
    ensure!(open.iter().all(Vec::is_empty), "{open:?}");
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
    refused("not a regular file")
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
