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
