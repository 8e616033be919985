//! Flags of magics that train nothing.

use super::table::{Flag, Value, switch, value};

/// The partitioners.
pub const METHODS: &[&str] = &[
    "metis", "chunk", "hash", "random", "ldg", "fennel", "bytegnn", "hongtu",
];

/// Layouts of what ranks print.
pub const GROUPS: &[&str] = &["same", "rank", "order", "type", "none"];

/// Flags of `%partition`, those of `halobook partition` and `output`.
pub(super) const PARTITION_FLAGS: &[Flag] = &[
    value("ranks", Some('n'), "N", Value::Free, "number of parts"),
    value(
        "output",
        Some('o'),
        "NAME",
        Value::Free,
        "bind the frame to this variable",
    ),
    value(
        "data",
        None,
        "NAME",
        Value::Data,
        "data set: a name, a built-in or a path",
    ),
    value(
        "method",
        None,
        "NAME",
        Value::OneOf(METHODS),
        "partitioner; knobs after a colon, metis:slack=0.1",
    ),
    value(
        "balance",
        None,
        "LIST",
        Value::OneOf(gnn_core::partition::BALANCES),
        "what METIS balances; several separated by commas",
    ),
    value(
        "set",
        None,
        "KNOB=VALUE",
        Value::Free,
        "a knob of the partitioner",
    ),
    value("seed", None, "N", Value::Free, "seed"),
    value("split", None, "NAME", Value::Free, "split of the data"),
    value(
        "mem",
        None,
        "SIZE",
        Value::Free,
        "memory the partitioner may use: 2GB",
    ),
    value("time", None, "SECONDS", Value::Free, "time it may use"),
    switch("no-cache", "cut anew, keep nothing"),
    switch("dry-run", "say what it would need, cut nothing"),
];

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
        Value::OneOf(METHODS),
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
