//! Frames of real runs, read back through `halobook frames`.
//!
//! Can catch: rows that do not add up, frames that miss epochs, ranks or columns, bytes that
//! differ from the closed form of a graph that this file writes and cuts itself. Cannot catch: a
//! clock that is wrong but consistent, or bytes that the transport copies beyond the payload.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use tests::folder::Known;
use tests::rows::{adds_up, number};
use tests::runs::{Store, numbers};
use tests::{Outcome, skip};

/// More ranks than a tiny test needs only where an MPI is there.
fn launches() -> Vec<&'static str> {
    match skip::mpi() {
        true => vec!["threads", "mpi"],
        false => vec!["threads"],
    }
}

#[test]
fn the_parts_of_every_row_sum_to_its_wall_time() -> Outcome {
    let store = Store::new()?;
    for launch in launches() {
        let args = format!("--data karate --model sage -s halo -n 3 --epochs 7 --launch {launch}");
        let run = store.train(&args)?;
        let id = run["run_id"].as_str().context("no run_id")?;
        for (frame, rows) in [("epochs", 7), ("ranks", 21)] {
            let found = store.frame(id, frame)?;
            ensure!(
                found.len() == rows,
                "{frame}: {} rows, not {rows}",
                found.len()
            );
            found.iter().try_for_each(adds_up)?;
        }
    }
    Ok(())
}

#[test]
fn an_epoch_row_is_its_slowest_rank_and_the_sum_of_bytes() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s halo -n 4 --epochs 5 --launch threads")?;
    let (epochs, ranks) = (
        store.frame("latest", "epochs")?,
        store.frame("latest", "ranks")?,
    );
    for row in &epochs {
        let of_epoch = |r: &&Value| r["epoch"] == row["epoch"];
        let ranks: Vec<&Value> = ranks.iter().filter(of_epoch).collect();
        let mut slowest = 0.0_f64;
        let (mut tx, mut rx) = (0.0, 0.0);
        for rank in &ranks {
            slowest = slowest.max(number(rank, "wall_ms")?);
            tx += number(rank, "bytes_tx")?;
            rx += number(rank, "bytes_rx")?;
        }
        ensure!(
            (number(row, "wall_ms")? - slowest).abs() < 1e-6,
            "wall_ms of {row}"
        );
        ensure!(tx == rx, "sent {tx}, received {rx}");
        ensure!(number(row, "bytes")? == tx, "{} is not {tx}", row["bytes"]);
    }
    Ok(())
}

#[test]
fn one_rank_sends_nothing() -> Outcome {
    let store = Store::new()?;
    for strategy in ["single", "halo"] {
        store.train(&format!("--data karate -s {strategy} -n 1 --epochs 3"))?;
        for row in store.frame("latest", "epochs")? {
            ensure!(number(&row, "bytes")? == 0.0, "{strategy}: {row}");
        }
        ensure!(
            store.frame("latest", "comm")?.is_empty(),
            "{strategy}: comm has rows"
        );
    }
    Ok(())
}

#[test]
fn halo_bytes_are_the_closed_form_for_every_partition_method() -> Outcome {
    // Wider than hidden, hidden wider than classes: each layer sends after its dense part.
    let (features, hidden, classes) = (24, 16, 5);
    let known = Known::new(101, features, classes);
    let store = Store::new()?;
    let folder = store.home().join("known");
    known.write(&folder)?;
    for launch in launches() {
        for method in ["metis", "chunk", "hash"] {
            for ranks in [2, 3, 4] {
                let run = store.train(&format!(
                    "--data {} --model gcn --layers 2 --hidden {hidden} -s halo -n {ranks} \
                     --partition {method} --launch {launch} --epochs 2 --dropout 0.5",
                    folder.display()
                ))?;
                let id = run["run_id"].as_str().context("no run_id")?;
                check_bytes(&store, id, &known, &[hidden, classes])
                    .with_context(|| format!("{method}, {ranks} ranks, {launch}"))?;
            }
        }
    }
    Ok(())
}

fn check_bytes(store: &Store, id: &str, known: &Known, widths: &[usize]) -> Outcome {
    let owner = std::fs::read(store.run(id).join("part.bin"))?;
    let owner: Vec<u32> = owner
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    ensure!(
        owner.len() == known.n,
        "{} owners of {} vertices",
        owner.len(),
        known.n
    );
    let boundary = known.boundary(&owner);
    ensure!(boundary > 0, "nothing is cut, so nothing is tested");
    let comm = store.frame(id, "comm")?;
    for epoch in 0..2 {
        for (layer, width) in widths.iter().enumerate() {
            for direction in ["forward", "backward"] {
                let lane = comm.iter().filter(|row| {
                    row["epoch"] == epoch && row["layer"] == layer && row["direction"] == direction
                });
                let mut measured = 0;
                for row in lane {
                    let bytes = row["bytes"].as_u64().context("no bytes")?;
                    if let Some(predicted) = row["predicted_bytes"].as_u64() {
                        ensure!(predicted == bytes, "predicted {predicted}: {row}");
                    }
                    measured += bytes;
                }
                let expected = (4 * width * boundary) as u64;
                ensure!(
                    measured == expected,
                    "epoch {epoch}, layer {layer}, {direction}: {measured} bytes, not {expected} \
                     = 4 · {width} · {boundary}"
                );
            }
        }
    }
    let halo: f64 = store
        .frame(id, "partition")?
        .iter()
        .map(|row| number(row, "halo_nodes"))
        .sum::<anyhow::Result<f64>>()?;
    ensure!(
        halo == boundary as f64,
        "partition says {halo} halo nodes, the graph {boundary}"
    );
    Ok(())
}

#[test]
fn every_frame_has_the_columns_of_the_contract() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s halo -n 2 --epochs 3 --launch threads --name columns")?;
    let wanted: [(&str, usize, &[&str]); 5] = [
        (
            "runs",
            1,
            &[
                "run_id",
                "name",
                "started",
                "status",
                "data",
                "model",
                "strategy",
                "ranks",
                "seed",
                "determinism",
                "epochs_done",
                "wall_ms",
                "best_val_acc",
                "test_acc",
                "metric",
                "best_val",
                "test",
                "target",
                "time_to_target_ms",
                "bytes_total",
                "oversubscribed",
                "host_class",
                "synthetic",
            ],
        ),
        (
            "epochs",
            3,
            &[
                "run_id",
                "epoch",
                "is_warmup",
                "wall_ms",
                "train_loss",
                "val_acc",
                "test_acc",
                "val_f1",
                "test_f1",
                "val_auc",
                "test_auc",
                "test_ap",
                "test_mrr",
                "compute_ms",
                "copy_ms",
                "xfer_exposed_ms",
                "wait_ms",
                "other_ms",
                "comm_ms",
                "comm_hidden_ms",
                "overlap_pct",
                "imbalance",
                "slowest_rank",
                "bytes",
                "messages",
                "edges_per_s",
                "nodes_per_s",
                "mem_peak_bytes",
            ],
        ),
        (
            "ranks",
            6,
            &[
                "run_id",
                "epoch",
                "rank",
                "host",
                "cpu_ms",
                "late_ms",
                "sample_ms",
                "forward_ms",
                "classify_ms",
                "loss_ms",
                "backward_ms",
                "optim_ms",
                "bytes_tx",
                "bytes_rx",
                "msgs_tx",
                "rounds",
                "edges",
                "edge_elements",
                "owned_nodes",
                "halo_nodes",
                "train_nodes",
                "halo_fresh",
                "halo_reused",
                "mem_peak_bytes",
                "dev_mem_peak_bytes",
                "dev_mem_used_bytes",
                "dev_mem_idle_bytes",
                "predicted_mem_bytes",
                "predicted_wall_ms",
            ],
        ),
        (
            "comm",
            1,
            &[
                "run_id",
                "epoch",
                "layer",
                "direction",
                "src",
                "dst",
                "op",
                "bytes",
                "messages",
                "xfer_ms",
                "wait_ms",
            ],
        ),
        (
            "partition",
            2,
            &[
                "part",
                "nodes",
                "edges",
                "halo_nodes",
                "halo_share",
                "cut_edges",
                "train_nodes",
                "val_nodes",
                "test_nodes",
                "feature_bytes",
                "peers",
                "node_balance",
                "edge_balance",
                "train_balance",
                "alpha",
                "method",
                "partition_ms",
                "partition_peak_bytes",
            ],
        ),
    ];
    for (frame, rows, columns) in wanted {
        let found = store.frame("latest", frame)?;
        ensure!(found.len() >= rows, "{frame}: {} rows", found.len());
        ensure!(
            found.iter().all(|row| row["synthetic"] == false),
            "{frame}: karate is marked synthetic"
        );
        let mut there = BTreeSet::new();
        for row in &found {
            let object = row
                .as_object()
                .with_context(|| format!("not a row: {row}"))?;
            there.extend(object.keys().map(String::as_str));
        }
        for column in columns {
            ensure!(
                there.contains(column),
                "{frame} has no `{column}`, only {there:?}"
            );
        }
    }
    Ok(())
}

/// A run's scores are those of its task, in the last line of `train`, in every frame and for people.
#[test]
fn links_and_several_classes_show_their_own_scores() -> anyhow::Result<()> {
    let sbm = "sbm:nodes=300,degree=12,feat=16,signal=3,homophily=0.95";
    let cases = [
        ("auc", format!("--data {sbm} --task link -s halo -n 2")),
        ("f1", format!("--data {sbm},multilabel=true -s halo -n 2")),
        ("acc", "--data karate".to_owned()),
    ];
    let store = Store::new()?;
    for (metric, request) in &cases {
        let ended = store.train(&format!("{request} --epochs 10 --eval-every 3"))?;
        let result = &ended["final"];
        ensure!(result["score"]["metric"] == *metric, "{request}: {result}");
        let best = result["best_epoch"].as_u64().context("a best epoch")?;
        let epochs = store.frame("latest", "epochs")?;
        for (of, column) in [("val", "val"), ("test", "test")] {
            let at_best = &epochs[best as usize][format!("{column}_{metric}")];
            ensure!(
                at_best.is_f64() && *at_best == result["score"][of],
                "{request}: {of} {at_best} is not that of {result}"
            );
        }
        for (other, _) in cases.iter().filter(|(other, _)| other != metric) {
            let column = format!("val_{other}");
            ensure!(
                epochs.iter().all(|row| row[&column].is_null()),
                "{request}: {column} has values"
            );
        }
        // Not every epoch is evaluated: 3, 6, 9 and the last one are.
        let known = numbers(&epochs, &format!("val_{metric}"));
        ensure!(known.len() == 4, "{request}: {known:?}");
        let runs = store.frame("latest", "runs")?;
        ensure!(runs[0]["metric"] == *metric, "{}", runs[0]);
        let generated = *metric != "acc";
        ensure!(runs[0]["synthetic"] == generated, "{}", runs[0]);
        ensure!(epochs[0]["synthetic"] == generated, "{}", epochs[0]);
        ensure!(runs[0]["best_val"] == result["score"]["val"], "{}", runs[0]);
    }
    let plain = store.halobook(&format!("train {} --epochs 3", cases[0].1))?;
    for words in ["val AUC", "test AUC", "test AP", "test MRR", "best epoch"] {
        ensure!(plain.stdout.contains(words), "no `{words}`: {plain}");
    }
    Ok(())
}

/// Without a name, what frames there are and what their columns are.
#[test]
fn frames_are_listed_with_types_units_and_words() -> Outcome {
    let store = Store::new()?;
    let all = store.halobook("frames")?.stdout;
    for line in [
        "epochs: ",
        "stale: ",
        "hops: ",
        "  wall_ms  ",
        "  seeds_per_s   f64   1/s",
    ] {
        ensure!(all.contains(line), "no `{line}`: {all}");
    }
    store.train("--data karate -s distdgl -n 2 --epochs 3 --launch threads")?;
    let own = store.halobook("frames latest --json")?.stdout;
    let own: Vec<Value> = own
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let names: Vec<&str> = own
        .iter()
        .filter_map(|frame| frame["name"].as_str())
        .collect();
    let known = [
        "runs",
        "epochs",
        "ranks",
        "comm",
        "batches",
        "hops",
        "steps",
        "spans",
        "traced",
        "partition",
    ];
    ensure!(names == known, "{names:?}");
    for schema in &own {
        let name = schema["name"].as_str().context("a name")?;
        let columns = schema["columns"].as_array().context("columns")?;
        for row in store.frame("latest", name)?.iter().take(1) {
            let listed = columns.iter().filter_map(|column| column["name"].as_str());
            for column in listed {
                ensure!(row.get(column).is_some(), "no {column} in {row}");
            }
        }
    }
    Ok(())
}

/// On a device with a budget every route has a row an epoch, what chunks need crosses, and the device
/// never holds more than it may; without one there are none.
#[test]
fn copies_to_and_from_a_budgeted_device_are_a_frame() -> Outcome {
    let store = Store::new()?;
    let run = "--data karate -s neutrontp -n 2 --epochs 3 --launch threads --decoupled true";
    store.train(run)?;
    ensure!(store.frame("latest", "copies")?.is_empty(), "no device");
    store.train(&format!("{run} --set device_mem=4000"))?;
    let copies = store.frame("latest", "copies")?;
    ensure!(copies.len() == 2 * 3 * 3, "{} rows", copies.len());
    for row in &copies {
        let bytes = number(row, "bytes")?;
        ensure!((bytes == 0.0) == (row["route"] == "on_device"), "{row}");
        ensure!(number(row, "copy_ms")? >= 0.0, "{row}");
        ensure!(number(row, "dev_mem_peak_bytes")? <= 4000.0, "{row}");
    }
    Ok(())
}

/// Every third epoch sends; the bytes sent and saved are the rows' own, and the frame of a strategy
/// that reuses nothing is empty.
#[test]
fn the_stale_frame_says_what_was_reused_and_what_that_saved() -> Outcome {
    let store = Store::new()?;
    let run = "--data karate --hidden 8 -n 2 --epochs 6 --launch threads";
    store.train(&format!("{run} -s sancus --set bound=epoch-fixed=2"))?;
    let ranks = store.frame("latest", "ranks")?;
    let stale = store.frame("latest", "stale")?;
    ensure!(stale.len() == 6 * 2 * 2, "{} rows", stale.len());
    for row in &stale {
        let epoch = row["epoch"].as_u64().context("no epoch")?;
        let owner = ranks
            .iter()
            .find(|r| r["rank"] == row["rank"])
            .context("a rank")?;
        let rows = number(owner, "owned_nodes")?;
        let width = if row["layer"] == 0 { 8.0 } else { 4.0 };
        let sends = epoch.is_multiple_of(3);
        let (sent, saved) = if sends { (1.0, 0.0) } else { (0.0, 1.0) };
        let bytes = 4.0 * width * rows;
        ensure!(
            row["state"] == if sends { "active" } else { "stale" },
            "{row}"
        );
        ensure!(
            number(row, "age_mean_epochs")? == (epoch % 3) as f64,
            "{row}"
        );
        ensure!(number(row, "bytes_sent")? == sent * bytes, "{row}");
        ensure!(number(row, "bytes_saved")? == saved * bytes, "{row}");
        ensure!(number(row, "rows_reused")? == saved * rows, "{row}");
        ensure!(
            row["direction"] == "forward" && row["drift_l2"].is_null(),
            "{row}"
        );
    }
    for row in store.frame("latest", "comm")? {
        ensure!(row["bytes"] == row["predicted_bytes"], "{row}");
    }
    let last = ranks.last().context("rows")?;
    ensure!(number(last, "cache_bytes")? > 0.0, "{last}");
    store.train(&format!("{run} -s halo"))?;
    ensure!(
        store.frame("latest", "stale")?.is_empty(),
        "halo reuses nothing"
    );
    Ok(())
}
