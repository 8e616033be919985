//! Following rank 0's rows: finished epochs become events.

use crate::frames::metrics_row;
use crate::tail::Tail;
use serde_json::{Value, json};
use std::path::Path;

/// How far a run has come.
pub(crate) struct Progress {
    tail: Tail,
    /// Epochs that rank 0 has finished.
    pub done: u32,
    epochs: usize,
    wall_ms: Option<f64>,
}

impl Progress {
    /// Follows the run in `run_dir`, which is to have so many epochs.
    pub fn new(run_dir: &Path, epochs: usize) -> Progress {
        let tail = Tail::open(run_dir.join("rows/rank-0.jsonl"));
        Progress {
            tail,
            done: 0,
            epochs,
            wall_ms: None,
        }
    }

    /// One `epoch` event for every epoch finished since the last call.
    pub fn poll(&mut self) -> Vec<Value> {
        // A rank that cannot be read now is read at the next poll; frames report what stays wrong.
        let lines = self.tail.next_lines().unwrap_or_default();
        lines.iter().filter_map(|line| self.take(line)).collect()
    }

    fn take(&mut self, line: &str) -> Option<Value> {
        if line.contains(r#""frame":"ranks""#) {
            let row: Value = serde_json::from_str(line).ok()?;
            self.wall_ms = row.get("wall_ms").and_then(Value::as_f64);
            return None;
        }
        if !line.contains(r#""frame":"metrics""#) {
            return None;
        }
        let row = metrics_row(line.as_bytes()).ok()?;
        self.done = row.epoch + 1;
        let score = row.score();
        Some(json!({
            "epoch": row.epoch,
            "train_loss": row.train_loss,
            "val_acc": row.val_acc,
            "test_acc": row.test_acc,
            "metric": score.map(|s| s.metric),
            "val": score.and_then(|s| s.val),
            "wall_ms": self.wall_ms,
            "epochs": self.epochs,
        }))
    }
}
