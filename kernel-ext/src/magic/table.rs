//! The one table of magics: flags, documentation and what completes where.

use super::run_flags::{PLAN_FLAGS, SWEEP_FLAGS, TRAIN_FLAGS};

/// Where a magic stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `%%name`: owns its cell.
    Cell,
    /// `%name` or `:name`: one line, Rust may follow.
    Line,
}

/// What can be written in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Anything; nothing is proposed.
    Free,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A data set's name.
    Data,
    /// A strategy's name.
    Strategy,
    /// A run: a bound name, an id or `latest`.
    Run,
}

/// A flag of a magic.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its long name, with dashes.
    pub long: &'static str,
    /// Its one-letter name.
    pub short: Option<char>,
    /// What it takes; `None` for a switch.
    pub value: Option<(&'static str, Value)>,
    /// One line.
    pub doc: &'static str,
}

/// A magic.
#[derive(Debug)]
pub struct Magic {
    /// Its name without `%`.
    pub name: &'static str,
    /// Where it stands.
    pub kind: Kind,
    /// What stands beside its flags: a name for it and what completes there.
    pub args: &'static [(&'static str, Value)],
    /// Its flags.
    pub flags: &'static [Flag],
    /// One line.
    pub summary: &'static str,
    /// The rest of the manual page.
    pub details: &'static str,
}

pub(super) const fn value(
    long: &'static str,
    short: Option<char>,
    name: &'static str,
    value: Value,
    doc: &'static str,
) -> Flag {
    Flag {
        long,
        short,
        value: Some((name, value)),
        doc,
    }
}

pub(super) const fn switch(long: &'static str, doc: &'static str) -> Flag {
    Flag {
        long,
        short: None,
        value: None,
        doc,
    }
}

/// The kinds of `%plot`.
pub const PLOTS: &[&str] = &["curve", "stack", "balance", "matrix", "plan", "partition"];

/// The partitioners.
pub const METHODS: &[&str] = &[
    "metis", "chunk", "hash", "random", "ldg", "fennel", "bytegnn", "hongtu",
];

/// Flags of `%partition`, those of `halobook partition` and `output`.
const PARTITION_FLAGS: &[Flag] = &[
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

/// Every magic there is.
pub const MAGICS: &[Magic] = &[
    Magic {
        name: "gnn",
        kind: Kind::Cell,
        args: &[],
        flags: TRAIN_FLAGS,
        summary: "train once, on one rank or many",
        details: "\
The body holds `key = value` lines in TOML; several may share a line, separated by `;`. Keys are
the names of the flags; a strategy's own settings are keys like any other.

The run is a process of its own: completion, %runs and %stop answer while it works. The first
interrupt stops it at the end of an epoch, with what is finished bound; a second one within
three seconds ends it at once. Its result is the epoch table; `-o r1` binds `r1: halobook::Run`
with `epochs()`, `ranks()`, `comm()` and `partition()`, and `_run` is always the latest.

    %%gnn -n 4 -s halo -o r1
    data = \"karate\"; model = \"gcn\"; hidden = 16
    epochs = 60",
    },
    Magic {
        name: "sweep",
        kind: Kind::Cell,
        args: &[],
        flags: SWEEP_FLAGS,
        summary: "train many settings: lists of values, crossed",
        details: "\
The body is that of %%gnn, where a value may also be a list: `ranks = [1, 2, 4]`. Several lists are
crossed, or with `--zip` taken side by side. Each setting is a run of its own, in a drawn order; one
that is refused or fails is a row like any other. `-o frame` binds a DataFrame with a row for each:
what was set, scores, medians of an epoch's time and of its parts, bytes, the run's id.

The first interrupt finishes the setting that runs and leaves the rest; a second one within three
seconds ends it. Finished rows are bound, and `--resume` takes them over.

    %%sweep -o frame --repeat 3
    data = \"karate\"; epochs = 60
    strategy = [\"halo\", \"broadcast\"]
    ranks = [1, 2, 4]",
    },
    Magic {
        name: "sql",
        kind: Kind::Cell,
        args: &[],
        flags: &[value(
            "output",
            Some('o'),
            "NAME",
            Value::Free,
            "bind the answer to this variable",
        )],
        summary: "ask what is bound and the run store, without a compiler",
        details: "\
Tables: runs; epochs, ranks, comm, stale, batches, hops and partition of all runs, by run_id;
r1_epochs, r1_ranks, … of the run bound to r1; and the frames that %%sweep, %partition and %%sql
have bound, by their names. `-o frame` binds the answer as a DataFrame.

    %%sql -o waits
    SELECT rank, AVG(wait_ms) AS wait_ms FROM r1_ranks GROUP BY rank ORDER BY rank",
    },
    Magic {
        name: "params",
        kind: Kind::Cell,
        args: &[],
        flags: &[],
        summary: "name parameters with defaults, that the environment may override",
        details: "\
Lines of TOML. Each is bound as a variable (i64, f64, bool, String or a Vec of them), and `$name` stands for
its value in the cells of %%gnn, %%sweep, %%sql and %%check, on their first lines as well.
HALOBOOK_PARAMS, with lines like those of the cell, overrides defaults by values of the same type, so that
a notebook can be executed with others.

    %%params
    data = \"karate\"; epochs = 60
    ranks = [1, 2, 4]

    %%sweep -o grid
    data = $data; epochs = $epochs; ranks = $ranks",
    },
    Magic {
        name: "check",
        kind: Kind::Cell,
        args: &[],
        flags: &[
            value(
                "tol",
                None,
                "PART",
                Value::Free,
                "what is near (~) where a claim does not say so: a part of its right side (default 0.05)",
            ),
            value(
                "figure",
                None,
                "NAME",
                Value::Free,
                "the figure or table that the claims are about",
            ),
        ],
        summary: "check claims about runs and frames; one that does not hold is an error",
        details: "\
One claim a line: two numbers with <, <=, ==, !=, ~ (near), >= or > between them. r1.test is a column of
r1's row in `runs`; mean, median, min, max, sum, std, count, first and last take TABLE.COLUMN, if need be
with a condition in SQL. Tables are those of %%sql. Numbers may be added, multiplied and so on; near may
say how near: `+- 0.01` or `within 5 %`. Words in quotes before a colon say what is claimed.

    %%check --figure 15b
    \"halo is exact\": r1.test ~ r2.test +- 0.001
    median(r1_epochs.wall_ms where epoch > 0) < 2 * median(r2_epochs.wall_ms where epoch > 0)
    mean(grid.test where strategy = 'halo') >= 0.9",
    },
    Magic {
        name: "runs",
        kind: Kind::Line,
        args: &[],
        flags: &[value(
            "last",
            None,
            "N",
            Value::Free,
            "only the last N (default 20)",
        )],
        summary: "the runs of the run store, latest last",
        details: "",
    },
    Magic {
        name: "plot",
        kind: Kind::Line,
        args: &[("RUN", Value::Run), ("KIND", Value::OneOf(PLOTS))],
        flags: &[],
        summary: "draw a run",
        details: "\
curve    loss and accuracy by epoch
stack    where each epoch's time went: compute, exposed communication, waiting
balance  the same by rank, with what each rank owns
matrix   bytes from rank to rank
plan     memory and time as they were planned, against what was measured
partition  the cut: a small graph by owner, a large one as edges from part to part

RUN is a bound name, an id (or its beginning) or `latest`; for `partition` also the name that
%partition has bound.",
    },
    Magic {
        name: "partition",
        kind: Kind::Line,
        args: &[("DATA", Value::Data)],
        flags: PARTITION_FLAGS,
        summary: "cut a graph and see what that costs, before any training",
        details: "\
Its result is the partition frame: one row a part, with the hash baseline beside it; `-o part`
binds it as a DataFrame, and `%plot part partition` draws the cut. Cuts are kept by the content
of what was cut, and training takes them from there.

    %partition karate -n 4 --method metis --balance train -o part",
    },
    Magic {
        name: "plan",
        kind: Kind::Line,
        args: &[("DATA", Value::Data)],
        flags: PLAN_FLAGS,
        summary: "what a run would send, hold and take, before any training",
        details: "\
Its result is the plan frame: one row a rank count, rank and item, with its basis: `exact` for what is
counted from the real data and the real cut, `modelled` for the rest. `-n 1,2,4` compares numbers of
ranks, `--like r1` takes the settings of a run, `--limit 2GB` names the rank and the item that do not
fit, and `-o plan` binds the frame as a DataFrame. A run with a limit is refused (HaloPlanRefused)
before a rank starts, unless it has `--force`. `%plot r1 plan` holds a plan against its run.

    %plan karate -s halo -n 1,2,4 --hidden 64 -o plan
    %plan --like r1 -n 8 --limit 2GB",
    },
    Magic {
        name: "run",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[],
        summary: "one run in a page: what was asked for, where it ran, what it came to",
        details: "",
    },
    Magic {
        name: "pin",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[switch("off", "let it be deleted again")],
        summary: "keep a run from being deleted",
        details: "",
    },
    Magic {
        name: "rm",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[],
        summary: "delete a run with its frames, logs and checkpoints",
        details: "RUN has to be named; one that is pinned or still runs is not deleted.",
    },
    Magic {
        name: "diff",
        kind: Kind::Line,
        args: &[("RUN", Value::Run), ("RUN", Value::Run)],
        flags: &[],
        summary: "which settings of two runs differ, and what that came to",
        details: "\
A row for each setting that differs, then results side by side, with the ratio of the second run's to the
first one's, and for how many epochs both have the same losses bit by bit.

    %diff r1 r2",
    },
    Magic {
        name: "log",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[
            value("rank", None, "K", Value::Free, "only this rank's log"),
            value(
                "tail",
                None,
                "N",
                Value::Free,
                "only the last N lines (default 50)",
            ),
            value(
                "grep",
                None,
                "TEXT",
                Value::Free,
                "only lines that hold TEXT",
            ),
        ],
        summary: "what the ranks of a run printed",
        details: "",
    },
    Magic {
        name: "stop",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[switch("now", "end its processes instead of the epoch")],
        summary: "stop a run at the end of its epoch",
        details: "",
    },
    Magic {
        name: "doctor",
        kind: Kind::Line,
        args: &[],
        flags: &[],
        summary: "what this machine offers and what is missing",
        details: "",
    },
    Magic {
        name: "lsmagic",
        kind: Kind::Line,
        args: &[],
        flags: &[],
        summary: "list the magics",
        details: "",
    },
];

/// The magic of that name.
pub fn find(name: &str) -> Option<&'static Magic> {
    MAGICS.iter().find(|magic| magic.name == name)
}

impl Magic {
    /// The name as it is written.
    pub fn spelling(&self) -> String {
        match self.kind {
            Kind::Cell => format!("%%{}", self.name),
            Kind::Line => format!("%{}", self.name),
        }
    }

    /// The flag with this long or short name (no dashes; `_` counts as `-`).
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        let mut letters = name.chars();
        let letter = letters.next().filter(|_| letters.next().is_none());
        self.flags
            .iter()
            .find(|flag| flag.long == name || (letter.is_some() && flag.short == letter))
    }
}

/// Whether a line of a cell's head is a magic's: `%` or, for our own names, `:` at column 0.
pub fn looks_like_magic(line: &str) -> bool {
    match line.strip_prefix('%') {
        Some(rest) => {
            let rest = rest.strip_prefix('%').unwrap_or(rest);
            rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '?')
        }
        None => line.strip_prefix(':').is_some_and(|rest| {
            let name = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            find(name).is_some_and(|magic| magic.kind == Kind::Line)
        }),
    }
}
