//! Spans as a Chrome trace, which <https://ui.perfetto.dev> and `chrome://tracing` show.
//!
//! A rank is a process; its streams are threads. Spans of `host` and `device` are slices, `hidden` is a
//! slice of `net`, and messages are asynchronous events with an arrow from the sender's slice to the
//! receiver's. Format: *Trace Event Format*, Google, 2016.
//!
//! # Not done
//! An arrow joins the k-th message of a lane (epoch, pair of ranks, layer, operation, pass) that was sent
//! with the k-th that was received; where spans were dropped there are no arrows.

use crate::error::{Error, Result};
use crate::frames::rows::Rows;
use crate::manifest::Manifest;
use gnn_core::record::rows::{SpanRow, TracedRow};
use gnn_core::record::{Op, SpanPhase, Stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What identifies a lane of messages.
type Lane<'a> = (u32, u32, u32, Option<u16>, Option<Op>, &'a str);

/// The trace of a run as one JSON object.
///
/// # Errors
/// [`Error::Refused`] for a run without spans, else what reading reports.
pub fn chrome(run_dir: &Path) -> Result<String> {
    let manifest = Manifest::read(run_dir)?;
    let rows = Rows::read(run_dir, manifest.ranks)?;
    if rows.traced.is_empty() {
        return Err(untraced(&manifest.run_id));
    }
    Ok(events(&rows.spans, &rows.traced, &manifest).to_string())
}

/// The refusal of a run that kept no spans.
pub(crate) fn untraced(run_id: &str) -> Error {
    Error::refused(
        format!("run {run_id} has no spans"),
        "train with trace = true (--trace) to keep what each rank did when",
    )
}

/// What a trace holds, rank by rank: spans, spans dropped, the clock's offset and how sure it is.
///
/// # Errors
/// As [`chrome`].
pub fn summary(run_dir: &Path) -> Result<String> {
    let manifest = Manifest::read(run_dir)?;
    let rows = Rows::read(run_dir, manifest.ranks)?;
    if rows.traced.is_empty() {
        return Err(untraced(&manifest.run_id));
    }
    let mut text = format!(
        "{:>4}  {:>6}  {:>8}  {:>8}  {:>12}  {:>9}\n",
        "rank", "epochs", "spans", "dropped", "offset us", "+- us"
    );
    for rank in 0..manifest.ranks {
        let of = || rows.traced.iter().filter(|t| t.rank == rank);
        let Some(last) = of().next_back() else {
            continue;
        };
        let sum = |f: fn(&TracedRow) -> u64| of().map(f).sum::<u64>();
        text.push_str(&format!(
            "{rank:>4}  {:>6}  {:>8}  {:>8}  {:>12.1}  {:>9.1}\n",
            of().count(),
            sum(|t| t.spans),
            sum(|t| t.dropped),
            last.offset_us,
            last.skew_us
        ));
    }
    Ok(text)
}

fn events(spans: &[SpanRow], traced: &[TracedRow], run: &Manifest) -> Value {
    let mut events = Vec::with_capacity(spans.len() + 8);
    for rank in 0..run.ranks {
        let name = format!("rank {rank}");
        events.push(json!({
            "ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": { "name": name }
        }));
        for &stream in Stream::ALL {
            events.push(json!({
                "ph": "M", "name": "thread_name", "pid": rank, "tid": stream as u8,
                "args": { "name": stream.label() }
            }));
        }
    }
    for (id, span) in spans.iter().enumerate() {
        let mut event = json!({
            "name": span.phase.label(), "cat": span.pass, "pid": span.rank,
            "tid": span.stream as u8, "ts": span.start_us, "args": args(span),
        });
        if is_message(span) {
            event["id"] = json!(id);
            event["ph"] = json!("b");
            let mut end = event.clone();
            end["ph"] = json!("e");
            end["ts"] = json!(span.start_us + span.dur_us);
            events.extend([event, end]);
        } else {
            event["ph"] = json!("X");
            event["dur"] = json!(span.dur_us);
            events.push(event);
        }
    }
    let dropped: u64 = traced.iter().map(|t| t.dropped).sum();
    if dropped == 0 {
        events.extend(arrows(spans));
    }
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "run": run.run_id, "data": run.data, "strategy": run.strategy, "dropped": dropped,
            "slow": run.slow(),
        },
    })
}

fn is_message(span: &SpanRow) -> bool {
    matches!(span.phase, SpanPhase::Send | SpanPhase::Receive)
}

fn args(span: &SpanRow) -> Value {
    let mut args = json!({ "epoch": span.epoch, "skew_us": span.skew_us });
    let known = [
        ("layer", span.layer.map(u64::from)),
        ("chunk", span.chunk.map(u64::from)),
        ("peer", span.peer.map(u64::from)),
        ("bytes", span.bytes),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            args[name] = json!(value);
        }
    }
    if let Some(op) = span.op {
        args["op"] = json!(op.label());
    }
    args
}

/// Two flow events a message, on the ranks' own threads.
fn arrows(spans: &[SpanRow]) -> Vec<Value> {
    let mut lanes: BTreeMap<Lane<'_>, [Vec<&SpanRow>; 2]> = BTreeMap::new();
    for span in spans {
        let Some(peer) = span.peer else { continue };
        let (src, dst, side) = match span.phase {
            SpanPhase::Send => (span.rank, peer, 0),
            SpanPhase::Receive => (peer, span.rank, 1),
            _ => continue,
        };
        let lane = (
            span.epoch,
            src,
            dst,
            span.layer,
            span.op,
            span.pass.as_str(),
        );
        lanes.entry(lane).or_default()[side].push(span);
    }
    let pairs = lanes
        .into_values()
        .flat_map(|[sent, got]| sent.into_iter().zip(got));
    let host = Stream::Host as u8;
    pairs
        .enumerate()
        .flat_map(|(id, (sent, got))| {
            let end = got.start_us + got.dur_us;
            [
                json!({
                    "ph": "s", "id": id, "name": "message", "cat": "message", "pid": sent.rank,
                    "tid": host, "ts": sent.start_us
                }),
                json!({
                    "ph": "f", "bp": "e", "id": id, "name": "message", "cat": "message",
                    "pid": got.rank, "tid": host, "ts": end
                }),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::sample;

    fn span(rank: u32, phase: SpanPhase, stream: Stream, start_us: i64) -> SpanRow {
        SpanRow {
            epoch: 0,
            rank,
            stream,
            phase,
            pass: "forward".into(),
            layer: Some(0),
            chunk: None,
            op: Some(Op::P2p),
            start_us,
            dur_us: 5,
            bytes: Some(64),
            peer: Some(1 - rank),
            skew_us: 0.5,
        }
    }

    fn traced(dropped: u64) -> TracedRow {
        TracedRow {
            epoch: 0,
            rank: 0,
            spans: 3,
            dropped,
            offset_us: 0.0,
            skew_us: 0.5,
        }
    }

    #[test]
    fn slices_messages_and_arrows() {
        let spans = [
            span(0, SpanPhase::Send, Stream::Net, 10),
            span(1, SpanPhase::Wait, Stream::Host, 11),
            span(1, SpanPhase::Receive, Stream::Net, 16),
        ];
        let mut run = sample("r");
        run.ranks = 2;
        let all = events(&spans, &[traced(0)], &run);
        let of = |ph: &str| {
            let events = all["traceEvents"].as_array().expect("events").iter();
            events
                .filter(|e| e["ph"] == ph)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!((of("X").len(), of("b").len(), of("e").len()), (1, 2, 2));
        assert_eq!(
            (of("X")[0]["ts"].clone(), of("X")[0]["dur"].clone()),
            (json!(11), json!(5))
        );
        let (from, to) = (&of("s")[0], &of("f")[0]);
        assert_eq!((&from["pid"], &from["ts"]), (&json!(0), &json!(10)));
        assert_eq!((&to["pid"], &to["ts"]), (&json!(1), &json!(21)));
        let torn = events(&spans, &[traced(7)], &run);
        assert_eq!(torn["otherData"]["dropped"], 7);
        assert!(!torn.to_string().contains(r#""ph":"s""#));
    }
}
