//! What is kept of a layer between forward and backward.

use crate::spec::{Knob, Knobs, Value};

/// Of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remember {
    /// All that backward reads, on the device.
    All,
    /// The aggregate, on the host, where the output lies as well: backward computes nothing once more.
    Output,
    /// The aggregate, on the host: backward computes the update once more.
    Aggregate,
    /// Nothing: backward loads the neighbours again, and computes the layer once more.
    Nothing,
}

/// The setting.
pub(super) const KNOB: Knob = Knob {
    name: "memory",
    default: "hybrid",
    doc: "what is kept of a layer for the way back: keep (all, on the device), cached (its aggregate and its output, on the host, for layers of GCN and SAGE that aggregate first; others as with hybrid), hybrid (its aggregate, on the host, where edges have no parameters: the update is computed once more, as in the paper), recompute (nothing), auto (of each layer as much as fits into device_mem, from the last one on; everything, and no chunks, where that fits)",
    check: |v| matches!(v, Value::Str(text) if ["keep", "cached", "hybrid", "recompute", "auto"].contains(&text.as_str())),
};

impl Remember {
    /// Of layers that aggregate with fixed weights, where backward reads nothing else of them and where it
    /// does, and of others.
    pub(super) fn of(knobs: &Knobs) -> [Remember; 3] {
        match knobs.word("memory") {
            "keep" => [Remember::All; 3],
            "cached" | "auto" => [Remember::Output, Remember::Aggregate, Remember::Nothing],
            "hybrid" => [Remember::Aggregate, Remember::Aggregate, Remember::Nothing],
            _ => [Remember::Nothing; 3],
        }
    }

    /// Whether the aggregate is kept on the host.
    pub(super) fn has_aggregate(self) -> bool {
        matches!(self, Remember::Output | Remember::Aggregate)
    }

    /// Of a layer that aggregates with fixed weights, where everything is chosen: whether the rows that an
    /// aggregate comes and goes as, twice `rows`, are fewer than those that are loaded and added up to make
    /// it once more.
    pub(super) fn cheapest(rows: u64, loaded: u64, edges: u64) -> Remember {
        match 2 * rows <= loaded + edges {
            true => Remember::Aggregate,
            false => Remember::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_kept_where_it_is_cheaper_than_its_neighbours() {
        assert_eq!(Remember::cheapest(10, 12, 50), Remember::Aggregate);
        assert_eq!(Remember::cheapest(10, 3, 4), Remember::Nothing);
    }
}
