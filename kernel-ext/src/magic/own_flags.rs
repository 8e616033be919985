//! Flags of magics that train nothing.

use super::table::{Flag, Value, switch, value};

/// Layouts of what ranks print.
pub const GROUPS: &[&str] = &["same", "rank", "order", "type", "none"];

/// Binds the run that a line magic is about.
pub(super) const BIND_RUN: Flag = value(
    "output",
    Some('o'),
    "NAME",
    Value::Free,
    "bind the run to this variable",
);

/// Flags of `%%ranks`.
pub(super) const RANKS_FLAGS: &[Flag] = &[
    value(
        "ranks",
        Some('n'),
        "N",
        Value::Free,
        "number of ranks (default: those there are, else 2)",
    ),
    value(
        "targets",
        Some('t'),
        "LIST",
        Value::Free,
        "only these ranks: 0,2..3",
    ),
    value(
        "input",
        Some('i'),
        "NAME",
        Value::Free,
        "give the cell this variable of the notebook",
    ),
    value(
        "output",
        Some('o'),
        "NAME",
        Value::Free,
        "bind what ranks return as a frame",
    ),
    value(
        "timeout",
        None,
        "SECONDS",
        Value::Free,
        "most time the cell may take",
    ),
    value(
        "stall",
        None,
        "SECONDS",
        Value::Free,
        "how long all ranks may wait before they are given up (default 3)",
    ),
    value(
        "data",
        None,
        "NAME",
        Value::Data,
        "data set of ctx.graph() (default karate)",
    ),
    value(
        "partition",
        None,
        "NAME",
        Value::Partitioner,
        "how it is cut (default metis)",
    ),
    value(
        "group",
        None,
        "LAYOUT",
        Value::OneOf(GROUPS),
        "what ranks print: same lines once (same, default), by rank, in the order it came (order), \
         standard error apart (type), or as it is (none)",
    ),
    switch("fresh", "end the ranks there are and start new ones"),
];
