//! Making mini-batches, as operations of an epoch's profile: `draw` of each layer's hop, and `collect` of feature rows.
//!
//! A batch is made by [`crate::feed`], not by the backend. Times and sizes are those of the frames `batches` and `hops`;
//! a layer's share of the time is that of its edges.

use crate::backend::{Call, Gathered};
use crate::feed::{BatchRow, HopRow};
use crate::record::Pass;
use crate::record::frame::Noted;
use serde::de::DeserializeOwned;

/// Bytes of an edge that is drawn: its source is read, and its number in the batch written.
const EDGE: f64 = 8.0;

/// Bytes of a vertex whose in-edges are drawn: where they begin and end is read, and where they begin in the batch written.
const ROW: f64 = 24.0;

/// Bytes of a vertex that is read by a hop: its number in the graph is kept.
const COLUMN: f64 = 4.0;

fn rows_of<R: DeserializeOwned>(frame: &str, rows: &[serde_json::Value]) -> Vec<R> {
    let of = |row: &&serde_json::Value| row["frame"] == frame;
    let read = |row: &serde_json::Value| serde_json::from_value(row.clone()).ok();
    rows.iter().filter(of).filter_map(read).collect()
}

/// The operations that made the batches which `noted` tells of: `row` bytes a row of features, `busy_ns` of their
/// threads, which is shared out by time. None without batches.
pub(super) fn calls(noted: Vec<Noted>, row: f64, busy_ns: u64) -> Vec<Call> {
    let rows: Vec<_> = noted.into_iter().map(Noted::into_json).collect();
    let Some(made) = rows_of::<BatchRow>("batches", &rows).pop() else {
        return Vec::new();
    };
    let hops = rows_of::<HopRow>("hops", &rows);
    let ns = |ms: f64| (1e6 * ms) as u64;
    let both = (made.draw_ms + made.collect_ms).max(1e-9);
    let call = |op, layer: usize, ms: f64, bytes| Call {
        op,
        layer,
        pass: Pass::Sample,
        ns: ns(ms),
        busy_ns: (busy_ns as f64 * ms / both) as u64,
        bytes,
        flops: 0.0,
        gathered: Gathered::default(),
    };
    let edges: u64 = hops.iter().map(|hop| hop.edges).sum();
    let draw = |hop: &HopRow| {
        let [rows, columns, e] = [hop.rows, hop.columns, hop.edges].map(|x| x as f64);
        let share = e / edges.max(1) as f64;
        call(
            "draw",
            hop.layer.into(),
            made.draw_ms * share,
            ROW * rows + EDGE * e + COLUMN * columns,
        )
    };
    let mut calls: Vec<Call> = hops.iter().map(draw).collect();
    // Rows that a first layer sums where they lie are not copied: its operations read them.
    let in_place = |hop: &&HopRow| hop.layer == 0 && hop.columns == 0;
    let moved = match hops.iter().find(in_place) {
        Some(hop) => EDGE * hop.edges as f64 + 2.0 * row * hop.rows as f64,
        None => 2.0 * row * (made.rows_local + made.rows_cached) as f64,
    };
    calls.push(call("collect", 0, made.collect_ms, moved));
    calls
}
