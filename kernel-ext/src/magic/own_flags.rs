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

/// Flags of `%plot`.
pub(super) const PLOT_FLAGS: &[Flag] = &[
    value(
        "epoch",
        None,
        "K",
        Value::Free,
        "gantt: this epoch (default one of median length)",
    ),
    value(
        "zoom",
        None,
        "FROM..TO",
        Value::Free,
        "gantt: this part of the epoch, ms; messages are drawn where there are few enough",
    ),
    value(
        "band",
        None,
        "KIND",
        Value::OneOf(&["range", "std"]),
        "curve: seeds as median and smallest to largest value (default), or mean and standard deviation",
    ),
    switch(
        "interactive",
        "curve, gantt: zoom, and values under the pointer, where the front end draws Vega-Lite (JupyterLab does)",
    ),
    value("x", None, "COLUMN", Value::Free, "of a frame: the x axis"),
    value("y", None, "COLUMN", Value::Free, "of a frame: the y axis"),
    value(
        "value",
        None,
        "COLUMN",
        Value::Free,
        "of a frame: what heat colours show",
    ),
    value(
        "by",
        None,
        "COLUMN",
        Value::Free,
        "of a frame: a series for each value",
    ),
    value(
        "facet",
        None,
        "COLUMN",
        Value::Free,
        "of a frame: a panel for each value",
    ),
    value(
        "err",
        None,
        "WHAT",
        Value::Free,
        "of a frame: repeats as range (default), std, ci (95 %) or none, or a column of half widths",
    ),
    value(
        "bins",
        None,
        "N",
        Value::Free,
        "of a frame: hist, about how many intervals",
    ),
    value("title", None, "WORDS", Value::Free, "of a frame: the title"),
    value(
        "to",
        Some('o'),
        "FILE",
        Value::Free,
        "write it to this file as well: .svg, .pdf or .png",
    ),
    value(
        "width",
        None,
        "LENGTH",
        Value::Free,
        "of the file: 8.4cm, 84mm, 3.3in, 240pt or 600px",
    ),
    value(
        "font",
        None,
        "FAMILY",
        Value::Free,
        "of the file's words, where the machine has it",
    ),
    switch("bare", "the file without title, card and footer"),
];
