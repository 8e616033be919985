//! The one table of magics.

use super::own_flags::{BIND_RUN, PLOT_FLAGS, RANKS_FLAGS};
use super::run_flags::{GNN_FLAGS, PARTITION_FLAGS, PLAN_FLAGS, SWEEP_FLAGS};
use super::table::{Kind, Magic, Value, switch, value};

/// Every magic there is.
pub const MAGICS: &[Magic] = &[
    Magic {
        name: "gnn",
        kind: Kind::Cell,
        args: &[],
        flags: GNN_FLAGS,
        summary: "train once, on one rank or many",
        details: "\
The body holds `key = value` lines in TOML; several may share a line, separated by `;`. Keys are
the names of the flags; a strategy's own settings are keys like any other.

The run is a process of its own: completion, %runs and %stop answer while it works. The first
interrupt stops it at the end of an epoch, with what is finished bound; a second one within
three seconds ends it at once. Its result is the epoch table; `-o r1` binds `r1: halobook::Run`
with `epochs()`, `ranks()`, `comm()` and `partition()`, and `_run` is always the latest.

With `--bg` the cell returns at once, before the data has been read: r1 is bound, with the epochs that are finished when it
is asked, and the card stays in this cell and goes on. %jobs, %wait, %attach and %stop see to it. Such a run
does not end with the kernel. One that a cell waits for stops after its epoch when the kernel is shut down or
restarted, and goes on to its end when the kernel is killed; %attach finds it.

With `--repeat K` it is trained K times, with seeds from the run's seed on: `-o r1` binds `r1: halobook::Runs`, whose
frames hold all of them, r1[0] the first, and `%plot r1 curve` shows the median in its band.

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

With `--bg` the cell returns once the sweep is under way. Its card stays in this cell; %jobs, %attach and %stop
see to it by the frame's name or the sweep's id, and %wait binds the frame.

    %%sweep -o frame --repeat 3
    data = \"karate\"; epochs = 60
    strategy = [\"halo\", \"broadcast\"]
    ranks = [1, 2, 4]",
    },
    Magic {
        name: "ranks",
        kind: Kind::Cell,
        args: &[],
        flags: RANKS_FLAGS,
        summary: "run this cell's Rust on every rank of a pool that stays",
        details: "\
In scope: `rank` and `size`; `comm`, to send and receive any serialisable value, to sum, gather and
broadcast; `ctx`, this rank: `ctx.graph()` is its part of the data set, `ctx.keep(\"name\", value)` and
`ctx.kept::<T>(\"name\")` carry values to later cells. The last value becomes rows with a column `rank`:
a number, a text, a frame or `row! { a, b = f() }`. What ranks print is shown once where it is the same,
and in a long cell as it comes; `--group rank`, `order`, `type` or `none` lays it out otherwise.

Ranks that wait for each other for ever are named; a cell that fails on one rank says which. In both
cases the pool goes on. The first interrupt lets waiting ranks give up, a second one ends the pool.

    %%ranks -n 4 -o sums
    comm.send((rank + 1) % size, rank)?;
    let left: usize = comm.recv((rank + size - 1) % size)?;
    row! { left, total = comm.sum(rank as f64)? }",
    },
    Magic {
        name: "strategy",
        kind: Kind::Cell,
        args: &[("NAME", Value::Free)],
        flags: &[
            switch("no-verify", "do not compare it with single"),
            value(
                "ranks",
                Some('n'),
                "LIST",
                Value::Free,
                "numbers of ranks to compare it on (default [1,2,3,4])",
            ),
            value(
                "model",
                None,
                "NAME",
                Value::Free,
                "model to compare it with (default gcn)",
            ),
            value(
                "set",
                None,
                "KEY=VALUE",
                Value::Free,
                "a setting to compare it with",
            ),
            switch("show-trait", "show what can be implemented"),
        ],
        summary: "write a strategy in this cell, then use it by name",
        details: "\
The cell's Rust is compiled once, trained beside `single` on a small graph, and from then on NAME is a
strategy like a built-in one, in %%gnn, %%sweep and on the command line, until its cell is run again.
Numbers, bool and String among its struct's fields are its settings; `frame!` declares a frame of its own,
which %%sql and r1.frame(\"name\") read. `%%strategy --show-trait` shows what there is.

    %%strategy halo_stale --set every=1
    /// Halo rows travel every so many epochs.
    struct HaloStale { every: usize }
    impl Strategy for HaloStale {
        fn exchange(&mut self, x: &mut Exchange) -> Result<()> {
            if x.epoch() % self.every == 0 { x.fetch_fresh() } else { x.reuse_last() }
        }
    }",
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
Tables: runs; epochs, ranks, comm, spans, traced and partition of all runs, by run_id; frames that strategies
add, by their names (%lsmagic lists them); r1_epochs, r1_ranks, … of the run bound to r1; and the frames that
%%sweep, %partition and %%sql have bound, by their names. `-o frame` binds the answer as a DataFrame.

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
say how near: `+- 0.01` or `within 5 %`. Words in quotes before a colon say what is claimed. A table's row is
named by its first columns, as in fig21['SCS-E1'].bytes; `bind(\"fig21\", &frame)` in a Rust cell makes one.
`shown` before a claim judges it and does not fail: for times that the machine does not decide, say.

    %%check --figure 15b
    \"halo is exact\": r1.test ~ r2.test +- 0.001
    median(r1_epochs.wall_ms where epoch > 0) < 2 * median(r2_epochs.wall_ms where epoch > 0)
    mean(grid.test where strategy = 'halo') >= 0.9
    fig15['2 ahead'].seeds == fig15['when needed'].seeds
    shown \"and faster\" (ranks share cores): fig15['2 ahead'].ms < fig15['when needed'].ms",
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
        args: &[("RUN|FRAME", Value::Run), ("KIND", Value::Plot)],
        flags: PLOT_FLAGS,
        summary: "draw a run, or a frame",
        details: "\
curve    loss and accuracy by epoch; curve-seconds by seconds of training
stack    where each epoch's time went: compute, exposed communication, waiting
balance  the same by rank, with what each rank owns
gantt    of a run with --trace: what each rank did when, waits and the critical path
matrix   bytes from rank to rank; matrix-layers layer by layer
stale    age of reused rows, and what they saved, or how far off they are
transfers  rows between host and device (hongtu), and what copying takes
schedule   when mini-batches were begun (bytegnn), and why then
hec        what historical caches find (distgnn-mb), and what is lost without them
plan     memory and time as they were planned, against what was measured
speedup  of a sweep: what more ranks bring, and how efficiently
pareto   of a sweep: time and bytes until target, or 99 % of the best validation score
partition  the cut: a small graph by owner, a large one as edges from part to part

RUN is a bound name, an id (or its beginning) or `latest`; for `partition` also the name that
%partition has bound, and for curve, stack, plan, speedup and pareto that of a sweep.

Of a FRAME (a variable, or an expression in quotes):

line, bar    --x and --y; rows of one place and series are repeats, drawn as --err says
scatter      --x and --y, a dot a row
hist         --x
box          --x and --y: quartiles, whiskers, what lies beyond
heat         --x, --y and --value

    %plot t line --x ranks --y epoch_ms --by strategy --err std --facet data
    %plot \"r1.ranks()\" box --x rank --y compute_ms -o late.pdf --width 8.4cm --bare

The same in Rust: plot(&t).line(\"ranks\", \"epoch_ms\").by(\"strategy\").err(\"std\")",
    },
    Magic {
        name: "cite",
        kind: Kind::Line,
        args: &[("STRATEGY", Value::Strategy)],
        flags: &[],
        summary: "what a text cites that uses a strategy: its paper and Halobook, as BibTeX",
        details: "",
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
Generated data that is large (`like:reddit`) is forecast first, out of small graphs of its kind;
`--forecast` is that alone, in a few seconds, also for what no memory here would hold.

    %plan karate -s halo -n 1,2,4 --hidden 64 -o plan
    %plan --like r1 -n 8 --limit 2GB
    %plan like:ogbn-papers100M -s halo -n 16,64 --forecast",
    },
    Magic {
        name: "cluster",
        kind: Kind::Line,
        args: &[("ACTION", Value::OneOf(&["up", "down", "status"]))],
        flags: &[value(
            "ranks",
            Some('n'),
            "N",
            Value::Free,
            "number of ranks (default 2)",
        )],
        summary: "the ranks of %%ranks: start them, end them, see where they are",
        details: "",
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
        name: "trace",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[value(
            "to",
            None,
            "FILE",
            Value::Free,
            "the file to write (default trace.json in the run's folder)",
        )],
        summary: "write the spans of a run for a trace viewer",
        details: "\
For a run that was trained with --trace. The file is Chrome's JSON, which https://ui.perfetto.dev and
chrome://tracing show: a process for each rank, its messages as arrows. The result says how many spans there
are, how many there was no room for, and how far the ranks' clocks may be apart. `r1.spans()` and r1_spans in
%%sql are the same as a frame, `%plot r1 gantt` draws an epoch. From a shell: halobook trace RUN -o FILE.

    %trace r1 --to r1.json",
    },
    Magic {
        name: "stop",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[switch("now", "end its processes instead of the epoch")],
        summary: "stop a run at the end of its epoch, a sweep after what runs",
        details: "",
    },
    Magic {
        name: "jobs",
        kind: Kind::Line,
        args: &[],
        flags: &[],
        summary: "the runs and sweeps that are under way, whoever started them",
        details: "\
How far each is, how long the rest takes at the present speed, and the variable that it is bound to. From a
shell: halobook jobs.",
    },
    Magic {
        name: "wait",
        kind: Kind::Line,
        args: &[("RUN…", Value::Run)],
        flags: &[BIND_RUN],
        summary: "wait for runs and sweeps to end",
        details: "\
Without a RUN, for all that are under way. The result is what %%gnn would have shown, its table or its error.
An interrupt ends the waiting, and the run goes on. From a shell: halobook wait RUN, whose exit status is that
of the run.

    %wait r1",
    },
    Magic {
        name: "attach",
        kind: Kind::Line,
        args: &[("RUN…", Value::Run)],
        flags: &[BIND_RUN],
        summary: "show the card of a run here, and keep it up to date until the run ends",
        details: "\
Without a RUN, the cards of all that are under way, whoever started them: another kernel, or a shell. The cell
does not wait. From a shell: halobook attach RUN follows a run in the terminal.

    %attach latest -o r1",
    },
    Magic {
        name: "replay",
        kind: Kind::Line,
        args: &[("RUN", Value::Run)],
        flags: &[
            BIND_RUN,
            switch("bg", "return once the run has started; %wait compares"),
        ],
        summary: "repeat a run exactly, and compare the losses bit by bit",
        details: "\
Settings, data, cut and threads are those of RUN. The result says for how many epochs both have the same
losses, and what the run's determinism class promised; a difference where the same bits were promised is the
error HaloReplayDiffers. From a shell: halobook replay RUN.

    %replay r1 -o again",
    },
    Magic {
        name: "restore",
        kind: Kind::Line,
        args: &[],
        flags: &[],
        summary: "bind runs, frames and parameters again",
        details: "\
That happens by itself when the process that holds the variables ends: by a cell that crashes or is
interrupted. Frames are files first, so none of them is lost.",
    },
    Magic {
        name: "warm",
        kind: Kind::Line,
        args: &[],
        flags: &[],
        summary: "make ready what the next frame cell would wait for",
        details: "\
A kernel does that at its start while nobody waits. What is prepared once for all kernels is made by
halobook-kernel prepare.",
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
