//! What is kept of a layer between forward and backward.

use crate::spec::{Knob, Knobs, Value};

/// Of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remember {
    /// All that backward reads, on the device.
    All,
    /// The aggregate, on the host: backward computes the update once more.
    Aggregate,
    /// Nothing: backward loads the neighbours again, and computes the layer once more.
    Nothing,
}

/// The setting.
pub(super) const KNOB: Knob = Knob {
    name: "memory",
    default: "hybrid",
    doc: "what is kept of a layer for the way back: keep (all, on the device), hybrid (its aggregate, on the host, where edges have no parameters), recompute (nothing)",
    check: |v| matches!(v, Value::Str(text) if ["keep", "hybrid", "recompute"].contains(&text.as_str())),
};

impl Remember {
    /// Of layers that aggregate with fixed weights, and of others.
    pub(super) fn of(knobs: &Knobs) -> [Remember; 2] {
        match knobs.word("memory") {
            "keep" => [Remember::All; 2],
            "hybrid" => [Remember::Aggregate, Remember::Nothing],
            _ => [Remember::Nothing; 2],
        }
    }
}
