//! The library of a reproduction over run folders on disk: runs by name, their numbers, figures, claims.
//!
//! Can catch: a number that is not the frame's, a figure without its stamp or with a bar too few, a
//! missing column that is drawn as nothing. Cannot catch: what a figure looks like.

mod common;

use std::fs::{self, File};
use std::path::Path;

use halobook::paper::{Named, Published};
use halobook::prelude::*;

/// A finished run's folder with the frames of `common`.
fn folder(root: &Path, id: &str, strategy: &str, ranks: u32) -> Run {
    let dir = root.join("runs").join(id);
    fs::create_dir_all(dir.join("frames")).expect("temporary folders can be made");
    let manifest = serde_json::json!({
        "run_id": id, "name": "", "started": "2026-01-01T12:00:00.000Z", "status": "ok", "pid": 1,
        "spec": {}, "ranks": ranks, "strategy": strategy, "strategy_hash": "00", "model": "gcn",
        "data": "rmat:scale=8", "backend": "cpu", "seed": 7, "determinism": "bitwise",
        "launch": "threads", "threads_per_rank": 1, "oversubscribed": ranks > 2, "host_class": "2 cores",
        "mpi": null, "version": "0", "epochs_done": 12, "wall_ms": 1.0, "final": null,
        "error": null, "notes": [],
    });
    fs::write(dir.join("manifest.json"), manifest.to_string()).expect("writes");
    let frames = [
        ("epochs", common::epochs(12, ranks)),
        ("ranks", common::ranks(12, ranks)),
        ("comm", common::comm(12, ranks)),
        ("stale", common::stale(12, ranks)),
    ];
    for (name, mut frame) in frames {
        let path = dir.join("frames").join(format!("{name}.parquet"));
        let file = File::create(path).expect("creates");
        ParquetWriter::new(file).finish(&mut frame).expect("writes");
    }
    Run::at(dir)
}

/// Two methods on 2 and 4 ranks.
fn family(root: &Path) -> Named {
    let mut named = Named::new(&["shape", "method"]);
    for ranks in [2, 4] {
        for method in ["CAGNET", "SCS-E1"] {
            let run = folder(root, &format!("r-{method}-{ranks}"), method, ranks);
            named.push(&[&format!("{ranks} ranks"), method], run);
        }
    }
    named
}

#[test]
fn runs_are_found_by_their_labels_and_measured() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let named = family(root.path());
    assert_eq!(named.of("SCS-E1").id(), "r-SCS-E1-2");
    assert_eq!(named.at("4 ranks", "CAGNET").id(), "r-CAGNET-4");
    assert_eq!(named.only(&["SCS-E1"]).each().len(), 2);
    let table = named.measure("ranks", |r| r.per_rank("compute_ms").len() as f64);
    assert_eq!(table.at("4 ranks", "SCS-E1", "ranks"), 4.0);
    assert_eq!(table.of("SCS-E1", "ranks"), 3.0, "the median of 2 and 4");
    let rel = named
        .measure("id", |r| r.id().len() as f64)
        .relative("id", "CAGNET");
    assert_eq!(rel.at("2 ranks", "SCS-E1", "id_rel"), 1.0);
    let frame = table.rows();
    let names: Vec<&str> = frame
        .get_column_names()
        .iter()
        .map(|name| name.as_str())
        .collect();
    assert_eq!(names, ["shape", "method", "ranks"]);
    assert_eq!(frame.height(), 4);
    let missing = std::panic::catch_unwind(|| named.of("SCS-E2").clone()).expect_err("no such run");
    let words = missing
        .downcast_ref::<String>()
        .expect("a panic with words");
    assert!(words.contains("2 ranks, SCS-E1"), "{words}");
}

#[test]
fn numbers_are_those_of_the_frames() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let run = folder(root.path(), "r", "halo", 4);
    // Rank r computes 4·(1 + r/4) ms, in the first epoch, the warm-up, five times that.
    assert_eq!(run.per_rank_ms("compute_ms"), [4.0, 5.0, 6.0, 7.0]);
    assert!((run.per_rank("compute_ms")[0] - 4.0 * 16.0 / 12.0).abs() < 1e-12);
    assert!((run.uneven("compute_ms") - 7.0 / 5.5).abs() < 1e-12);
    assert_eq!(run.per_rank("owned_nodes"), [500.0, 520.0, 540.0, 560.0]);
    let comm = run.comm();
    let of = |word: &str| {
        let rows = comm.clone().lazy().filter(col("direction").eq(lit(word)));
        let sum = rows.select([col("bytes").sum()]).collect().expect("a sum");
        sum.column("bytes")
            .expect("the sum")
            .get(0)
            .expect("a row")
            .try_extract::<f64>()
            .expect("a number")
    };
    assert_eq!(run.bytes_of(("direction", "forward")) * 12.0, of("forward"));
    assert_eq!(run.row_bytes() * 12.0, of("forward") + of("backward"));
    let sent = run.broadcasts(0, 1);
    assert_eq!(sent, [0.0, 3.0, 6.0, 9.0]);
    assert_eq!(distances(&sent), [3.0; 3]);
    // Odd ranks send an epoch later.
    assert_eq!(run.broadcasts(None, 1)[..4], [0.0, 1.0, 3.0, 4.0]);
    assert_eq!(run.apart(&run), 0.0);
    assert_eq!(run.typical("ranks", "compute_ms"), 5.5);
    assert_eq!(run.an_epoch("ranks", "owned_nodes"), 2120.0);
}

#[test]
fn figures_carry_their_stamp_and_their_numbers() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let named = family(root.path());
    let table = named
        .measure("compute", |r| r.epoch_ms("compute_ms"))
        .measure("communicate", |r| r.communicate_ms());
    let grouped = bars(&table, "shape", &["compute"])
        .by("method")
        .title("By ranks")
        .unit("ms")
        .plot();
    for word in [
        "By ranks",
        "rmat:scale=8 (synthetic)",
        "r-CAGNET-2",
        "more ranks than cores",
    ] {
        assert!(
            grouped.svg.contains(word) && grouped.text.contains(word),
            "{word}:\n{}",
            grouped.text
        );
    }
    assert!(grouped.text.contains("CAGNET  SCS-E1"), "{}", grouped.text);
    // Of one method there are two rows a group when shapes are not told apart: repeats.
    let repeats = bars(&table, "method", &["compute", "communicate"]).plot();
    assert!(
        repeats.text.contains("median of 2") && repeats.text.contains(" to "),
        "{}",
        repeats.text
    );
    let bars_drawn = |plot: &Plot| plot.svg.matches("<rect").count();
    let stacked = bars(&table, "shape", &["compute", "communicate"])
        .stacked()
        .mark("paper", 3.0)
        .plot();
    assert!(
        bars_drawn(&stacked) >= 8 && stacked.text.contains("paper: 3"),
        "{}",
        stacked.text
    );
    let by_rank = named.by_rank("edges", |r| r.per_rank("owned_nodes"));
    let lined = lines(&by_rank, "rank", &["edges"]).by("shape").plot();
    assert!(
        lined.text.contains("rank 3") && lined.svg.contains("<polyline"),
        "{}",
        lined.text
    );
    let frame = df!("epoch" => [0, 2, 4], "rank" => [0.0, 1.0, 0.0]).expect("a frame");
    assert!(
        scatter(&frame, "epoch", &["rank"])
            .plot()
            .svg
            .contains("<circle")
    );
}

/// Writes figures into the folder `HALOBOOK_FIGURES`, for whoever wants to look at them.
#[test]
fn figures_can_be_looked_at() {
    let Some(out) = std::env::var_os("HALOBOOK_FIGURES") else {
        return;
    };
    let out = Path::new(&out);
    fs::create_dir_all(out).expect("the folder can be made");
    let root = tempfile::tempdir().expect("a temporary folder");
    let named = family(root.path());
    let table = named
        .measure("compute", |r| r.epoch_ms("compute_ms"))
        .measure("communicate", |r| r.communicate_ms());
    let stacked = bars(&table, "method", &["compute", "communicate"]).stacked();
    let methods = [
        "CAGNET", "SkipG", "SCS-E1", "SCS-E2", "SCS-E3", "SCS-A1", "SCS-A2", "SCS-A3", "SCS-H1",
        "SCS-H2", "SCS-H3",
    ];
    let values: Vec<f64> = (0..11).map(|k| 50.0 - 3.1 * f64::from(k)).collect();
    let many = df!("method" => methods, "bytes" => values.clone(), "time" => values.iter().map(|v| v / 3.0).collect::<Vec<_>>());
    let many = many.expect("a frame");
    let by_rank = named.by_rank("nodes", |r| r.per_rank("owned_nodes"));
    let sizes = df!("ranks" => [2, 4, 8, 2, 4, 8, 2, 4, 8], "halo" => [3.0, 5.0, 9.0, 3.5, 5.5, 9.5, 2.5, 4.5, 8.0],
        "TP" => [4.0, 5.0, 6.0, 4.2, 5.1, 6.3, 3.9, 4.8, 5.9]).expect("a frame");
    let sent = df!("epoch" => [0, 2, 4, 6, 0, 1, 3, 6], "method" => ["SCS-E1", "SCS-E1", "SCS-E1", "SCS-E1", "SCS-H1", "SCS-H1", "SCS-H1", "SCS-H1"]).expect("a frame");
    let dots = df!("epoch" => [0, 2, 4, 6, 0, 1, 3, 6], "rank" => [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).expect("a frame");
    for (name, plot) in [
        (
            "stacked",
            stacked
                .title("Figure 21: time by method")
                .unit("ms an epoch")
                .plot(),
        ),
        (
            "many",
            bars(&many, "method", &["bytes", "time"])
                .title("Figure 21: bytes and time")
                .unit("MB, ms")
                .mark("paper: 32.5", 32.5)
                .plot(),
        ),
        (
            "grouped",
            bars(&by_rank, "shape", &["nodes"])
                .by("rank")
                .title("Vertices of each rank")
                .unit("vertices")
                .plot(),
        ),
        (
            "lines",
            lines(&sizes, "ranks", &["halo", "TP"])
                .title("Rows that travel")
                .unit("MB")
                .plot(),
        ),
        (
            "lanes",
            scatter(&sent, "epoch", &[])
                .by("method")
                .title("Figure 24: epochs that broadcast")
                .plot(),
        ),
        (
            "scatter",
            scatter(&dots, "epoch", &["rank"])
                .title("Figure 24: epochs that broadcast")
                .unit("rank")
                .plot(),
        ),
    ] {
        plot.save(out.join(format!("{name}.svg")))
            .expect("the figure can be written");
    }
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let frame = df!("method" => ["a", "b"], "x" => [1.0, f64::NAN]).expect("a frame");
    let wrong = bars(&frame, "method", &["y"])
        .try_plot()
        .expect_err("no such column");
    assert!(wrong.to_string().contains("no column \"y\""), "{wrong}");
    let wrong = scatter(&frame, "method", &["x"])
        .try_plot()
        .expect_err("words are no place");
    assert!(wrong.to_string().contains("help:"), "{wrong}");
    let gap = bars(&frame, "method", &["x"]).plot();
    assert!(
        gap.text
            .lines()
            .any(|line| line.starts_with("b") && line.ends_with('-')),
        "{}",
        gap.text
    );
    let many: Vec<f64> = (0..7).map(f64::from).collect();
    let names: Vec<String> = (0..7).map(|k| format!("s{k}")).collect();
    let frame = df!("x" => vec![0.0; 7], "y" => many, "s" => names).expect("a frame");
    assert!(
        lines(&frame, "x", &["y"]).by("s").try_plot().is_err(),
        "seven cannot be told apart"
    );
}

#[test]
fn times_fail_only_where_the_machine_decides() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let (two, four) = (
        folder(root.path(), "two", "halo", 2),
        folder(root.path(), "four", "halo", 4),
    );
    let slow = || claims("Figure 12").time("faster", 3.0, "<", 2.0, 0.05, &[&two]);
    assert!(
        std::panic::catch_unwind(|| slow().check()).is_err(),
        "every rank has a core"
    );
    let near = claims("Figure 12")
        .time("faster", 2.05, "<", 2.0, 0.05, &[&two])
        .check();
    assert!(
        near.verdicts()[0]
            .remark()
            .is_some_and(|r| r.contains("less than 5 %"))
    );
    let crowded = claims("Figure 12")
        .time("faster", 3.0, "<", 2.0, 0.05, &[&two, &four])
        .check();
    assert!(
        crowded.verdicts()[0]
            .remark()
            .is_some_and(|r| r.contains("share cores"))
    );
}

/// Table 5 of GNNPipe, whose pipeline's column has a closed form of sizes alone, in GiB.
#[test]
fn a_column_of_a_table_is_its_closed_form() {
    let paper = published("gnnpipe");
    let pipelines = paper.table("Table 5").only(&["Pipeline"]);
    assert_eq!(pipelines.columns, ["Pipeline"]);
    assert_eq!(pipelines.at(&["Reddit", "GCNII"], "Pipeline"), 2.43);
    let of = |labels: &[&str], _: &str| {
        let (n, hidden) = match labels[0] {
            "Squirrel" => (5201.0, 1000.0),
            "Physics" => (34_493.0, 100.0),
            "Flickr" => (89_250.0, 100.0),
            _ => (232_965.0, 100.0),
        };
        let columns = if labels[1] == "GCNII" { 2.0 } else { 1.0 } * hidden;
        closed::pipeline_bytes(8.0, n, columns) / 1024f64.powi(3)
    };
    let held = claims("Table 5").printed(&pipelines, of).check();
    assert_eq!(held.verdicts().len(), 16);
    let wrong = claims("Table 5").printed(&pipelines, |labels, column| 1.1 * of(labels, column));
    assert!(std::panic::catch_unwind(|| wrong.check()).is_err());
}

#[test]
fn table_6_is_its_closed_form() {
    let sancus: Published = published("sancus");
    let sizes = sancus.table("Table 4");
    let held = claims("Table 6")
        .printed(sancus.table("Table 6"), |labels, gpus| {
            let ranks: f64 = gpus
                .trim_end_matches(" GPUs")
                .parse()
                .expect("a number of GPUs");
            let (v, f) = (sizes.at(labels, "vertices"), sizes.at(labels, "features"));
            closed::printed_cache_bytes(ranks, v, f)
        })
        .check();
    assert_eq!(held.verdicts().len(), 12);
}
