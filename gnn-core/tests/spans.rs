//! Spans of traced runs and ranks that are slowed down, over the registry: spans add up to the breakdown
//! of every epoch and do not overlap, delays are as long as they were asked to be, and neither changes a
//! bit.
//!
//! Can catch: time that the breakdown counts and no span shows, or the reverse; spans on top of each
//! other; messages that are missing; training that a trace disturbs. Cannot catch: a clock of another
//! host (ranks are threads here), or the cost of a trace (`halobook bench` and the README have that).

use gnn_core::plan::Plan;
use gnn_core::record::rows::{RankRow, SpanRow, TracedRow};
use gnn_core::record::{SpanPhase, Stream};
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::{Exact, STRATEGIES};
use gnn_core::{World, work};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

const VERTICES: u32 = 60;
const DATA: &str = "sbm:nodes=60,classes=3,feat=12,degree=6";

/// Trains with one of the strategies, or says that it cannot.
fn run(folder: &Path, ranks: usize, pairs: &[(&str, &str)]) -> Option<()> {
    let ours = [("data", DATA), ("epochs", "3"), ("hidden", "8")];
    let pairs = ours.iter().chain(pairs);
    let mut spec = RunSpec::from_pairs(pairs.map(|(k, v)| (*k, Value::from_word(v)))).ok()?;
    spec.ranks = ranks;
    let entry = STRATEGIES.iter().find(|e| e.name == spec.strategy)?;
    entry.check(&spec).ok()?;
    let parts = entry.cut_into(&spec);
    let count = parts.map_or(1, |parts| parts.count as u32);
    let nested = parts.map_or(1, |parts| parts.nested.count() as u32);
    let levels: [(&str, &dyn Fn(u32) -> u32); 2] = [
        ("part.bin", &|v| v % count),
        ("nested.bin", &|v| v / count % nested),
    ];
    for (name, part) in levels {
        let bytes = (0..VERTICES).flat_map(|v| part(v).to_le_bytes());
        std::fs::write(folder.join(name), bytes.collect::<Vec<u8>>()).expect("writes");
    }
    let plan = Plan::in_threads(spec);
    work(&plan, folder, World::Threads(ranks), STRATEGIES).expect("trains");
    Some(())
}

/// A rank's rows of one frame.
fn rows<R: DeserializeOwned>(folder: &Path, rank: usize, frame: &str) -> Vec<R> {
    let path = folder.join(format!("rows/rank-{rank}.jsonl"));
    let text = std::fs::read_to_string(path).expect("rows");
    let tag = format!(r#""frame":"{frame}""#);
    let lines = text.lines().filter(|line| line.contains(&tag));
    lines
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

/// The column that a phase is part of.
fn column(phase: SpanPhase) -> &'static str {
    match phase {
        SpanPhase::Copy => "copy",
        SpanPhase::Transfer => "transfer",
        SpanPhase::Wait => "wait",
        SpanPhase::Hidden => "hidden",
        SpanPhase::Send | SpanPhase::Receive => "",
        _ => "compute",
    }
}

fn adds_up(what: &str, spans: &[SpanRow], row: &RankRow) {
    // Threads that make batches work beside the rank's own, and beside each other.
    let of_rank = |s: &&SpanRow| s.stream != Stream::Sampler;
    let leaves = || {
        spans
            .iter()
            .filter(of_rank)
            .filter(|s| !column(s.phase).is_empty())
    };
    let mut sums: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for span in leaves() {
        let sum = sums.entry(column(span.phase)).or_default();
        *sum = (sum.0 + span.dur_us as f64, sum.1 + 1);
    }
    for (name, ms) in [
        ("compute", row.compute_ms),
        ("copy", row.copy_ms),
        ("transfer", row.xfer_exposed_ms),
        ("wait", row.wait_ms),
        ("hidden", row.comm_hidden_ms),
    ] {
        let (us, n) = sums.get(name).copied().unwrap_or_default();
        // Both ends of a span are rounded down to a microsecond.
        let off = (us - ms * 1e3).abs();
        assert!(off <= n as f64 + 1.0, "{what}: {name} {us} us of {ms} ms");
    }
    let mut ends: BTreeMap<&str, i64> = BTreeMap::new();
    for span in leaves() {
        let end = ends.entry(span.stream.label()).or_insert(i64::MIN);
        assert!(
            span.start_us >= *end,
            "{what}: {span:?} begins before {end}"
        );
        *end = span.start_us + span.dur_us;
    }
}

#[test]
fn spans_add_up_to_the_breakdown_and_do_not_overlap() {
    let mut sent = 0;
    for entry in STRATEGIES {
        for ranks in 1..=3 {
            let folder = tempfile::tempdir().expect("a folder");
            let pairs = [("strategy", entry.name), ("trace", "true")];
            let Some(()) = run(folder.path(), ranks, &pairs) else {
                continue;
            };
            for rank in 0..ranks {
                let all: Vec<SpanRow> = rows(folder.path(), rank, "spans");
                let epochs: Vec<RankRow> = rows(folder.path(), rank, "ranks");
                let traced: Vec<TracedRow> = rows(folder.path(), rank, "traced");
                assert_eq!((epochs.len(), traced.len()), (3, 3), "{}", entry.name);
                for (row, traced) in epochs.iter().zip(traced) {
                    let what = format!("{} {rank} of {ranks}, epoch {}", entry.name, row.epoch);
                    let of = all.iter().filter(|s| s.epoch == row.epoch);
                    let spans: Vec<SpanRow> = of.cloned().collect();
                    assert_eq!((traced.dropped, traced.spans), (0, spans.len() as u64));
                    adds_up(&what, &spans, row);
                    // Letters of background threads leave no spans.
                    let sends = spans.iter().filter(|s| s.phase == SpanPhase::Send);
                    let bytes: u64 = sends.filter_map(|s| s.bytes).sum();
                    assert!(bytes <= row.bytes_tx, "{what}: {bytes}");
                    assert!(entry.background || bytes == row.bytes_tx, "{what}: {bytes}");
                    sent += bytes;
                }
            }
        }
    }
    assert!(sent > 0);
}

#[test]
fn a_trace_changes_no_loss_and_without_one_there_are_no_spans() {
    let losses = |trace| {
        let folder = tempfile::tempdir().expect("a folder");
        let pairs = [("strategy", "halo"), ("trace", trace)];
        run(folder.path(), 2, &pairs).expect("halo runs on two ranks");
        let metrics: Vec<serde_json::Value> = rows(folder.path(), 0, "metrics");
        let spans: Vec<SpanRow> = rows(folder.path(), 0, "spans");
        let losses = metrics.iter().map(|m| m["train_loss"].to_string());
        (losses.collect::<Vec<_>>(), spans.len())
    };
    let ((with, many), (without, none)) = (losses("true"), losses("false"));
    assert_eq!(with, without);
    assert!(many > 0 && none == 0);
}

#[test]
fn every_message_that_is_waited_for_names_its_sender() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs = [("strategy", "halo"), ("trace", "true")];
    run(folder.path(), 3, &pairs).expect("halo runs on three ranks");
    let mut lanes: BTreeMap<(u32, u32, u32), [u64; 2]> = BTreeMap::new();
    for rank in 0..3 {
        for span in rows::<SpanRow>(folder.path(), rank, "spans") {
            let (peer, bytes) = (span.peer.unwrap_or(9), span.bytes.unwrap_or(0));
            match span.phase {
                SpanPhase::Send => {
                    lanes.entry((span.epoch, span.rank, peer)).or_default()[0] += bytes
                }
                SpanPhase::Receive => {
                    lanes.entry((span.epoch, peer, span.rank)).or_default()[1] += bytes;
                }
                SpanPhase::Wait => assert!(peer < 3 && peer != span.rank, "{span:?}"),
                _ => {}
            }
        }
    }
    assert!(lanes.len() >= 3);
    for (lane, [sent, received]) in lanes {
        assert_eq!(sent, received, "{lane:?}");
    }
}

#[test]
fn a_slow_rank_takes_as_long_as_asked_and_changes_no_bit() {
    const FACTOR: f64 = 3.0;
    let mut slowed = 0;
    for entry in STRATEGIES {
        let losses = |slow: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let pairs = [("strategy", entry.name), ("ranks", "2"), ("slow", slow)];
            run(folder.path(), 2, &pairs)?;
            let metrics: Vec<serde_json::Value> = rows(folder.path(), 0, "metrics");
            let losses = metrics.iter().map(|m| m["train_loss"].to_string());
            let ranks = [0, 1].map(|rank| rows::<RankRow>(folder.path(), rank, "ranks"));
            Some((losses.collect::<Vec<_>>(), ranks))
        };
        let Some(((plain, _), (slow, [free, held]))) = losses("none").zip(losses("1:3x")) else {
            continue;
        };
        if entry.exact == Exact::Always {
            assert_eq!(plain, slow, "{}", entry.name);
        }
        assert!(
            free.iter().all(|row| row.injected_ms == 0.0),
            "{}",
            entry.name
        );
        for row in held {
            let own = row.compute_ms - row.injected_ms;
            // Ranks that got no work have nothing to take longer for.
            assert!(
                row.injected_ms >= (FACTOR - 1.0) * own - 1e-6,
                "{}: {row:?}",
                entry.name
            );
            slowed += usize::from(row.injected_ms > 0.0);
        }
    }
    assert!(slowed > 3 * 5, "{slowed} epochs were slowed down");
}

#[test]
fn one_thing_at_a_time_hides_nothing_and_changes_no_bit() {
    let mut hidden = 0.0;
    for entry in STRATEGIES {
        for ranks in [2, 3] {
            let trained = |sync: &str| {
                let folder = tempfile::tempdir().expect("a folder");
                run(
                    folder.path(),
                    ranks,
                    &[
                        ("strategy", entry.name),
                        ("sync", sync),
                        ("link", "100mbit,200us"),
                    ],
                )?;
                let metrics: Vec<serde_json::Value> = rows(folder.path(), 0, "metrics");
                let losses = metrics.iter().map(|m| m["train_loss"].to_string());
                let times: Vec<RankRow> = (0..ranks)
                    .flat_map(|rank| rows(folder.path(), rank, "ranks"))
                    .collect();
                Some((losses.collect::<Vec<_>>(), times))
            };
            let Some(((free, before), (held, after))) = trained("false").zip(trained("true"))
            else {
                continue;
            };
            if entry.exact == Exact::Always {
                assert_eq!(free, held, "{} on {ranks}", entry.name);
            }
            let sum = |rows: &[RankRow]| rows.iter().map(|row| row.comm_hidden_ms).sum::<f64>();
            hidden += sum(&before);
            // Letters are hidden from the thread that trains; nothing else is.
            if !entry.background {
                assert_eq!(sum(&after), 0.0, "{} on {ranks}", entry.name);
            }
            let bytes = |rows: &[RankRow]| rows.iter().map(|row| row.bytes_tx).sum::<u64>();
            if entry.exact == Exact::Always {
                assert_eq!(bytes(&before), bytes(&after), "{}", entry.name);
            }
        }
    }
    assert!(hidden > 0.0, "some strategy hides something without sync");
}
