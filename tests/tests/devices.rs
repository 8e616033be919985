//! Ranks that are processes, each with a GPU of its own for which the host stands in.
//!
//! Can catch: messages that arrive on a device before or after their turn, other numbers by NCCL than through the
//! host, a way of rows other than the one that is named, a lack of memory that is not told. Cannot catch: what
//! real GPUs, their drivers and NCCL itself do otherwise.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use tests::runs::Store;
use tests::{Outcome, skip};

const GRAPH: &str = "--data sbm:nodes=120,classes=4 --hidden 8 --epochs 3";

/// What a run's rows say of learning, and who sent how many bytes to whom.
fn result(store: &Store, args: &str) -> anyhow::Result<(Vec<Value>, Vec<Value>, String)> {
    let said = store.train(&format!("{args} --backend cuda {GRAPH}"))?;
    let id = said["run_id"].as_str().context("a run")?;
    let of = |frame: &str, columns: &[&str]| -> anyhow::Result<Vec<Value>> {
        let rows = store.frame(id, frame)?;
        ensure!(!rows.is_empty(), "{frame} is empty");
        let only = |row: &Value| columns.iter().map(|&c| row[c].clone()).collect();
        Ok(rows.iter().map(only).collect())
    };
    let notes = store.manifest(id)?["notes"].to_string();
    Ok((
        of("epochs", &["epoch", "train_loss", "val_acc"])?,
        of(
            "comm",
            &["epoch", "layer", "direction", "src", "dst", "bytes"],
        )?,
        notes,
    ))
}

#[test]
fn processes_learn_the_same_from_gpu_to_gpu_as_through_the_host() -> Outcome {
    if !skip::mpi() {
        return Ok(());
    }
    let Some(store) = Store::with_gpus(3, "")? else {
        return Ok(());
    };
    for strategy in ["halo", "broadcast", "neutrontp", "gnnpipe", "distdgl"] {
        let ranks = format!("-n 3 -s {strategy}");
        let by_nccl = result(&store, &format!("{ranks} --launch mpi"))?;
        let through_host = result(&store, &format!("{ranks} --launch mpi --transport host"))?;
        let threads = result(&store, &format!("{ranks} --launch threads"))?;
        let (nccl, host) = (&by_nccl.2, &through_host.2);
        ensure!(
            nccl.contains("from GPU to GPU by NCCL"),
            "{strategy}: {nccl}"
        );
        ensure!(nccl.contains("stands in for GPUs"), "{strategy}: {nccl}");
        ensure!(!host.contains("NCCL"), "{strategy}: {host}");
        ensure!(
            by_nccl.0 == through_host.0,
            "{strategy}: {by_nccl:?} {through_host:?}"
        );
        ensure!(
            by_nccl.0 == threads.0,
            "{strategy}: {by_nccl:?} {threads:?}"
        );
        ensure!(
            by_nccl.1 == through_host.1,
            "{strategy}: {by_nccl:?} {through_host:?}"
        );
    }
    Ok(())
}

/// With sums in NCCL's own order a run promises no bits, and says so; through the host the order is the ranks'.
#[test]
fn sums_in_any_order_are_asked_for_and_promise_no_bits() -> Outcome {
    let Some(store) = Store::with_gpus(3, "")? else {
        return Ok(());
    };
    let run = |more: &str| -> anyhow::Result<(Value, String)> {
        let said = store.train(&format!(
            "-n 3 -s halo --launch threads --backend cuda {GRAPH} {more}"
        ))?;
        let id = said["run_id"].as_str().context("a run")?;
        let manifest = store.manifest(id)?;
        Ok((
            manifest["determinism"].clone(),
            manifest["notes"].to_string(),
        ))
    };
    let own = "NCCL's own order";
    for (more, class, noted) in [
        ("", "same_ranks", false),
        ("--sums any", "statistical", true),
        ("--sums any --transport host", "same_ranks", false),
    ] {
        let (got, notes) = run(more)?;
        ensure!(got == class, "{more}: {got}");
        ensure!(notes.contains(own) == noted, "{more}: {notes}");
    }
    Ok(())
}

/// Features that do not fit beside the rest stay in the host's memory, and what a device draws is what the host
/// draws. The device says what it holds.
#[test]
fn features_that_do_not_fit_stay_with_the_host_and_devices_draw_the_same() -> Outcome {
    let batches = "-s distdgl --launch threads --set fanout=1 --set batch=10 --model sage";
    let graph = "--data sbm:nodes=120,classes=4,feat=400 --hidden 2 --dropout 0 --epochs 2";
    let Some(wide) = Store::with_gpus(1, "")? else {
        return Ok(());
    };
    let losses = |store: &Store, more: &str| -> anyhow::Result<Vec<f64>> {
        let said = store.train(&format!("{batches} {graph} {more}"))?;
        let id = said["run_id"].as_str().context("a run")?;
        if more.contains("cuda") {
            for row in store.frame(id, "ranks")? {
                let of = |column: &str| row[column].as_f64().context("a number");
                ensure!(of("dev_mem_used_bytes")? > 0.0, "{row}");
                ensure!(of("dev_mem_idle_bytes")? >= 0.0, "{row}");
            }
        }
        let rows = store.frame(id, "epochs")?;
        rows.iter()
            .map(|row| row["train_loss"].as_f64().context("a loss"))
            .collect()
    };
    let want = losses(&wide, "")?;
    let same = |got: Vec<f64>| {
        let mut both = got.iter().zip(&want);
        got.len() == want.len() && both.all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0))
    };
    for draw_on in ["host", "device"] {
        let got = losses(&wide, &format!("--backend cuda --set draw_on={draw_on}"))?;
        ensure!(same(got), "{draw_on}: not {want:?}");
    }
    // Features take 192 000 bytes, and evaluation reads all of them.
    let Some(narrow) = Store::with_gpus(1, ":230000")? else {
        return Ok(());
    };
    let got = losses(&narrow, "--backend cuda --set draw_on=device")?;
    ensure!(same(got), "not {want:?}");
    let ended = narrow.halobook(&format!(
        "train {batches} {graph} --backend cuda --set features_on=device"
    ))?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    for (more, why) in [
        ("--set draw_on=device", "there is no device"),
        ("--set features_on=host", "nowhere else"),
        (
            "--backend cuda --set draw_on=device --set bias=degree",
            "draws uniformly",
        ),
    ] {
        let refused = wide.halobook(&format!("train {batches} {graph} {more}"))?;
        ensure!(refused.status.code() == Some(2), "{more}: {refused}");
        ensure!(refused.stderr.contains(why), "{more}: {refused}");
    }
    Ok(())
}

#[test]
fn ranks_that_share_a_gpu_are_told_so() -> Outcome {
    let Some(store) = Store::with_gpus(1, "")? else {
        return Ok(());
    };
    let (_, _, notes) = result(&store, "-n 2 -s halo --launch threads")?;
    ensure!(notes.contains("2 ranks share 1 GPU"), "{notes}");
    let ended = store.halobook(&format!(
        "train -n 2 -s halo --launch threads --backend cuda --transport nccl {GRAPH}"
    ))?;
    ensure!(ended.status.code() == Some(2), "{ended}");
    ensure!(ended.stderr.contains("2 ranks share 1 GPU"), "{ended}");
    Ok(())
}

#[test]
fn a_gpu_without_memory_ends_the_run_with_what_was_to_be_there_and_what_is_free() -> Outcome {
    let Some(store) = Store::with_gpus(1, ":20000")? else {
        return Ok(());
    };
    let ended = store.halobook(&format!("train -s single --backend cuda {GRAPH}"))?;
    ensure!(ended.status.code() == Some(1), "{ended}");
    let (wrong, _) = ended.complaint()?;
    ensure!(wrong.contains("rank 0 failed"), "{wrong}");
    ensure!(wrong.contains("of the device"), "{wrong}");
    ensure!(wrong.contains("of 20000 are free"), "{wrong}");
    Ok(())
}

/// A memory checker that finds nothing, with the options and the words of NVIDIA's.
const CHECKER: &str = "#!/bin/sh
tool=$2
while [ \"${1#--}\" != \"$1\" ]; do shift 2; done
\"$@\" || exit 1
echo \"========= $tool\"
echo '========= ERROR SUMMARY: 0 errors'
";

#[test]
fn a_rehearsal_of_what_a_gpu_shows_fills_every_part_of_its_file() -> Outcome {
    let Some(mut store) = Store::with_gpus(2, "")? else {
        return Ok(());
    };
    let bin = store.home().join("bin");
    std::fs::create_dir(&bin)?;
    let checker = bin.join("compute-sanitizer");
    std::fs::write(&checker, CHECKER)?;
    std::fs::set_permissions(&checker, std::fs::Permissions::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    store.set("PATH", format!("{}:{path}", bin.display()));
    let ended = store.halobook(
        "bench gpu --scale 4 --data sbm:nodes=60,classes=4,feat=4 --epochs 1 --out found.md",
    )?;
    ensure!(ended.status.success(), "{ended}");
    let page = std::fs::read_to_string(store.home().join("found.md"))?;
    ensure!(ended.stdout.starts_with(&page), "{ended}");
    for part in [
        "this is a rehearsal",
        "| `hongtu` | gcn | 2 |",
        "| `single` | gat | 1 |",
        "| memcheck | gcn | 0 |",
        "| initcheck | rgcn | 0 |",
        "| sums of rows of 128 |",
        "halobook-once",
        "| `neutrontp` | 2 | NCCL |",
    ] {
        ensure!(page.contains(part), "no {part} in {page}");
    }
    ensure!(
        !page.contains("**wrong**") && !page.contains("**failed**"),
        "{page}"
    );
    ensure!(store.runs().is_empty(), "runs are left: {:?}", store.runs());
    Ok(())
}
