//! Frames from handwritten rows. Cannot catch what a rank measures wrongly, only what becomes of it.

mod own;

use super::*;
use crate::manifest::tests::sample;
use gnn_core::record::rows::{MetricsRow, RankRow, Row};
use gnn_core::record::{Direction, Op};
use gnn_core::spec::Value;
use std::io::Write;

fn rank_row(epoch: u32, rank: u32) -> RankRow {
    let compute = 2.0 + f64::from(rank);
    RankRow {
        epoch,
        rank,
        host: "h".into(),
        device: "cpu".into(),
        wall_ms: compute + 1.0,
        compute_ms: compute,
        injected_ms: 0.0,
        copy_ms: 0.25,
        xfer_exposed_ms: 0.25,
        wait_ms: 0.5,
        other_ms: 0.0,
        comm_ms: 0.5,
        comm_hidden_ms: 0.25,
        overlap_pct: Some(50.0),
        cpu_ms: 1.0,
        late_ms: 0.0,
        sample_ms: 0.0,
        forward_ms: 1.0,
        classify_ms: 0.0,
        loss_ms: 0.0,
        backward_ms: 1.0,
        optim_ms: 0.0,
        bytes_tx: 100,
        bytes_rx: 100,
        msgs_tx: 2,
        rounds: 0,
        edges: 40,
        edge_elements: 640,
        edges_redundant: 0,
        owned_nodes: 10,
        halo_nodes: 3,
        train_nodes: 4,
        halo_fresh: 6,
        halo_reused: 0,
        cache_bytes: 0,
        dev_cache_bytes: 0,
        mem_peak_bytes: 1000 + u64::from(rank),
        dev_mem_peak_bytes: None,
        dev_mem_used_bytes: None,
        dev_mem_idle_bytes: None,
        predicted_mem_bytes: Some(900),
        predicted_wall_ms: None,
    }
}

fn metrics(epoch: u32, val: f64, test: f64) -> MetricsRow {
    MetricsRow {
        epoch,
        is_warmup: epoch == 0,
        train_loss: 1.0 / f64::from(epoch + 1),
        val_loss: None,
        train_acc: Some(0.5),
        val_acc: Some(val),
        test_acc: Some(test),
        train_f1: None,
        val_f1: None,
        test_f1: None,
        val_auc: None,
        test_auc: None,
        test_ap: None,
        test_mrr: None,
        eval_ms: 0.1,
    }
}

fn line<R: Row>(row: &R) -> String {
    let mut value = serde_json::to_value(row).expect("plain data");
    value["frame"] = R::FRAME.name.into();
    format!("{value}\n")
}

/// A run folder of two ranks and three epochs; rank 1 has not written the last one.
fn folder() -> tempfile::TempDir {
    folder_with(metrics)
}

/// The same with other rows of metrics out of epoch, validation and test score.
fn folder_with(metrics: impl Fn(u32, f64, f64) -> MetricsRow) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary folder");
    for part in ["rows", "frames"] {
        std::fs::create_dir(dir.path().join(part)).expect("folder");
    }
    sample("20260102-030405-abcd")
        .write(dir.path())
        .expect("manifest");
    let mut zero = String::new();
    let mut one = String::new();
    for (epoch, val, test) in [(0, 0.5, 0.4), (1, 0.7, 0.6), (2, 0.7, 0.9)] {
        zero += &line(&rank_row(epoch, 0));
        zero += &line(&metrics(epoch, val, test));
        if epoch < 2 {
            one += &line(&rank_row(epoch, 1));
            one += &line(&gnn_core::record::rows::CommRow {
                epoch,
                layer: 1,
                direction: Direction::Forward,
                src: 1,
                dst: 0,
                op: Op::Alltoall,
                bytes: 100,
                messages: 2,
                xfer_ms: 0.1,
                wait_ms: 0.1,
                predicted_bytes: None,
            });
        }
    }
    std::fs::write(dir.path().join("rows/rank-0.jsonl"), zero).expect("rows");
    std::fs::write(dir.path().join("rows/rank-1.jsonl"), one).expect("rows");
    dir
}

fn float(frame: &DataFrame, column: &str, row: usize) -> f64 {
    frame
        .column(column)
        .expect(column)
        .f64()
        .expect("f64")
        .get(row)
        .expect("a value")
}

#[test]
fn epochs_join_metrics_with_the_slowest_rank() {
    let dir = folder();
    let frame = load(dir.path(), "epochs").expect("builds");
    assert_eq!(
        frame.height(),
        2,
        "the epoch that rank 1 did not finish is left out"
    );
    assert_eq!(frame.get_column_names()[0], "run_id");
    assert_eq!(float(&frame, "wall_ms", 1), 4.0);
    assert_eq!(float(&frame, "compute_ms", 1), 3.0);
    assert_eq!(float(&frame, "imbalance", 0), 3.0 / 2.5);
    assert_eq!(float(&frame, "edges_per_s", 0), 80.0 / 4e-3);
    assert_eq!(
        frame
            .column("bytes")
            .expect("bytes")
            .u64()
            .expect("u64")
            .get(0),
        Some(200)
    );
    let slowest = frame
        .column("slowest_rank")
        .expect("column")
        .u32()
        .expect("u32")
        .get(0);
    assert_eq!(slowest, Some(1));
}

#[test]
fn links_and_several_classes_have_their_own_scores_and_a_best_epoch() {
    let bare = |epoch, val, test| MetricsRow {
        train_acc: None,
        val_acc: None,
        test_acc: None,
        ..metrics(epoch, val, test)
    };
    let links = folder_with(|epoch, val, test| MetricsRow {
        val_auc: Some(val),
        test_auc: Some(test),
        test_ap: Some(test - 0.1),
        test_mrr: Some(0.2),
        ..bare(epoch, val, test)
    });
    let labels = folder_with(|epoch, val, test| MetricsRow {
        train_f1: Some(0.8),
        val_f1: Some(val),
        test_f1: Some(test),
        ..bare(epoch, val, test)
    });
    for (dir, metric, train) in [(&links, "auc", None), (&labels, "f1", Some(0.8))] {
        let epochs = load(dir.path(), "epochs").expect("builds");
        assert_eq!(float(&epochs, &format!("val_{metric}"), 1), 0.7);
        assert_eq!(float(&epochs, &format!("test_{metric}"), 1), 0.6);
        for empty in ["val_acc", "test_acc"] {
            assert_eq!(epochs.column(empty).expect(empty).null_count(), 2);
        }
        let mut manifest = sample("20260102-030405-abcd");
        write_all(dir.path(), &mut manifest).expect("writes");
        let result = manifest.result.expect("two epochs");
        let score = result.score.expect("evaluated");
        assert_eq!(score.metric.name(), metric);
        assert_eq!(
            (score.train, score.val, score.test),
            (train, Some(0.7), Some(0.6))
        );
        assert_eq!((result.best_epoch, result.test_acc), (Some(1), None));
        let runs = load(dir.path(), "runs").expect("runs");
        assert_eq!(
            (float(&runs, "best_val", 0), float(&runs, "test", 0)),
            (0.7, 0.6)
        );
        assert_eq!(runs.column("best_val_acc").expect("there").null_count(), 1);
        let line = &json_lines(&runs)[0];
        assert!(line.contains(&format!(r#""metric":"{metric}""#)), "{line}");
    }
    let mut manifest = sample("20260102-030405-abcd");
    write_all(links.path(), &mut manifest).expect("writes");
    let result = manifest.result.expect("two epochs");
    assert_eq!((result.test_ap, result.test_mrr), (Some(0.5), Some(0.2)));
}

#[test]
fn training_is_timed_until_a_validation_score() {
    let dir = folder();
    // Scores 0.5, then 0.7; each epoch takes as long as its slowest rank.
    let epochs = load(dir.path(), "epochs").expect("builds");
    let wall = |epoch| float(&epochs, "wall_ms", epoch);
    let both = wall(0) + wall(1);
    for (asked, until, time) in [
        (0.0, 0.99 * 0.7, Some(both)),
        (0.45, 0.45, Some(wall(0))),
        (0.65, 0.65, Some(both)),
        (0.75, 0.75, None),
    ] {
        let mut manifest = sample("20260102-030405-abcd");
        manifest.spec.insert("target".into(), Value::Float(asked));
        write_all(dir.path(), &mut manifest).expect("writes");
        let result = manifest.result.expect("two epochs");
        assert_eq!(
            (result.target, result.time_to_target_ms),
            (Some(until), time)
        );
        let runs = load(dir.path(), "runs").expect("runs");
        let times = runs.column("time_to_target_ms").expect("there");
        assert_eq!(times.null_count(), usize::from(time.is_none()));
        assert_eq!(float(&runs, "target", 0), until);
    }
}

#[test]
fn written_frames_load_again_and_the_manifest_learns_the_totals() {
    let dir = folder();
    let mut manifest = sample("20260102-030405-abcd");
    write_all(dir.path(), &mut manifest).expect("writes");
    assert_eq!((manifest.epochs_done, manifest.bytes_total), (2, 400));
    assert_eq!(manifest.mem_peak_bytes, 1001);
    let result = manifest.result.expect("two epochs");
    assert_eq!(
        (result.val_acc, result.test_acc, result.best_epoch),
        (Some(0.7), Some(0.6), Some(1))
    );
    std::fs::remove_dir_all(dir.path().join("rows")).expect("only Parquet is left");
    for name in &names() {
        let frame = load(dir.path(), name).expect(name);
        assert_eq!(frame.get_column_names()[0], "run_id", "{name}");
        assert_eq!(json_lines(&frame).len(), frame.height());
    }
    let runs = load(dir.path(), "runs").expect("runs");
    assert!(json_lines(&runs)[0].contains(r#""started":"2026-01-02T03:04:05.000Z""#));
    let comm = load(dir.path(), "comm").expect("comm");
    assert!(
        json_lines(&comm)[0].contains(r#""direction":"forward","src":1,"dst":0,"op":"alltoall""#)
    );
}

#[test]
fn a_row_that_does_not_add_up_is_found_and_named() {
    let dir = folder();
    let mut bad = rank_row(1, 1);
    bad.other_ms = 0.001;
    let good = line(&rank_row(1, 1));
    let path = dir.path().join("rows/rank-1.jsonl");
    let text = std::fs::read_to_string(&path).expect("rows");
    std::fs::write(&path, text.replace(&good, &line(&bad))).expect("rows");
    let error = load(dir.path(), "ranks").unwrap_err();
    assert!(
        matches!(
            error,
            Error::Identity {
                rank: 1,
                epoch: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("rank 1 in epoch 1"), "{error}");
}

#[test]
fn time_counted_twice_is_found_too() {
    let mut row = rank_row(0, 0);
    row.compute_ms += 5.0;
    row.other_ms -= 5.0;
    assert!(check_identity(&[row]).is_err());
}

#[test]
fn much_unaccounted_time_is_noted() {
    let mut row = rank_row(3, 0);
    assert_eq!(identity::note(&[row.clone()]), None);
    let quiet = row.clone();
    row.compute_ms -= 1.0;
    row.other_ms += 1.0;
    let note = identity::note(std::slice::from_ref(&row)).expect("a note");
    assert!(note.contains("of rank 0 is unaccounted for"), "{note}");
    // One epoch among many is no matter, and neither is what every clock takes.
    let among = |n: usize| std::iter::repeat_n(quiet.clone(), n).chain([row.clone()]);
    assert_eq!(identity::note(&among(60).collect::<Vec<_>>()), None);
    // Memory that is touched for the first time.
    let first = RankRow {
        epoch: row.epoch - 1,
        ..row.clone()
    };
    assert_eq!(identity::note(&[first, quiet]), None);
    let scaled = |by: f64| RankRow {
        wall_ms: row.wall_ms * by,
        other_ms: row.other_ms * by,
        ..row.clone()
    };
    assert_eq!(identity::note(&[scaled(0.01)]), None);
}

#[test]
fn a_torn_last_line_is_ignored_and_a_torn_middle_one_is_not() {
    let dir = folder();
    let path = dir.path().join("rows/rank-0.jsonl");
    let mut file = std::fs::File::options()
        .append(true)
        .open(&path)
        .expect("rows");
    file.write_all(br#"{"epoch":3,"ra"#).expect("tears");
    assert_eq!(
        load(dir.path(), "epochs").expect("still builds").height(),
        2
    );
    file.write_all(b"\n{}\n").expect("goes on");
    assert!(matches!(
        load(dir.path(), "epochs"),
        Err(Error::Json { .. })
    ));
}

#[test]
fn a_loss_that_is_not_a_number_keeps_its_epoch() {
    let row = br#"{"epoch":0,"is_warmup":false,"train_loss":null,"train_acc":null,"val_acc":null,"test_acc":null,"eval_ms":0.0,"frame":"metrics"}"#;
    assert!(metrics_row(row).expect("reads").train_loss.is_nan());
}

#[test]
fn an_unknown_frame_names_the_nearest() {
    let dir = folder();
    let error = load(dir.path(), "epoch").unwrap_err();
    assert!(error.to_string().contains("'epochs'"), "{error}");
}
