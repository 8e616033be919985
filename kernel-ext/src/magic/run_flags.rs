//! Flags of the magics that train.

use super::table::{Flag, METHODS, Value, switch, value};

/// Flags of a run. They have the names of the command line and of a run file; `output` is the
/// kernel's own.
const TRAIN_FLAGS: &[Flag] = &[
    value("ranks", Some('n'), "N", Value::Free, "number of ranks"),
    value(
        "strategy",
        Some('s'),
        "NAME",
        Value::Strategy,
        "how the ranks share the work",
    ),
    value(
        "output",
        Some('o'),
        "NAME",
        Value::Free,
        "bind the run to this variable",
    ),
    value(
        "data",
        None,
        "NAME",
        Value::Data,
        "data set: a name, a built-in or a path",
    ),
    value(
        "model",
        None,
        "NAME",
        Value::OneOf(&["gcn", "sage", "gin", "gat", "rgcn", "gcnii", "resgcn"]),
        "the model",
    ),
    value("layers", None, "N", Value::Free, "number of layers"),
    value(
        "hidden",
        None,
        "N",
        Value::Free,
        "width of the hidden layers",
    ),
    value("epochs", None, "N", Value::Free, "number of epochs"),
    value("lr", None, "X", Value::Free, "learning rate"),
    value("weight-decay", None, "X", Value::Free, "weight decay"),
    value(
        "weight-decay-dense",
        None,
        "X",
        Value::Free,
        "weight decay of layers that read no other vertex",
    ),
    value(
        "decay",
        None,
        "KIND",
        Value::OneOf(&["all", "first"]),
        "layers whose weights decay",
    ),
    value(
        "optimizer",
        None,
        "KIND",
        Value::OneOf(&["adam", "adamw", "sgd"]),
        "how weights follow their gradients",
    ),
    value("momentum", None, "X", Value::Free, "momentum of sgd"),
    value(
        "decoupled",
        None,
        "BOOL",
        Value::OneOf(&["true", "false"]),
        "dense layers first, then rounds of propagation",
    ),
    value("heads", None, "N", Value::Free, "attention heads (gat)"),
    value(
        "out-heads",
        None,
        "N",
        Value::Free,
        "attention heads of the last layer (gat)",
    ),
    value(
        "attention-dropout",
        None,
        "P",
        Value::Free,
        "share of attention coefficients dropped (gat)",
    ),
    value(
        "bases",
        None,
        "N",
        Value::Free,
        "bases that relations share (rgcn)",
    ),
    value(
        "alpha",
        None,
        "X",
        Value::Free,
        "share of the initial residual (gcnii)",
    ),
    value(
        "lambda",
        None,
        "X",
        Value::Free,
        "identity mapping's decay with depth (gcnii)",
    ),
    value(
        "dropout",
        None,
        "P",
        Value::Free,
        "share of values dropped in training",
    ),
    value(
        "feature-norm",
        None,
        "KIND",
        Value::OneOf(&["none", "row"]),
        "feature normalisation",
    ),
    value("seed", None, "N", Value::Free, "seed of everything random"),
    value("threads", None, "N", Value::Free, "threads per rank"),
    value(
        "launch",
        None,
        "KIND",
        Value::OneOf(&["threads", "mpi", "slurm"]),
        "how ranks start",
    ),
    value(
        "backend",
        None,
        "KIND",
        Value::OneOf(&["cpu", "cuda"]),
        "where tensors live",
    ),
    value(
        "partition",
        None,
        "KIND",
        Value::OneOf(METHODS),
        "partitioner; knobs after a colon, metis:balance=train+edges",
    ),
    value(
        "eval-every",
        None,
        "N",
        Value::Free,
        "epochs between evaluations",
    ),
    value(
        "stall",
        None,
        "SECONDS",
        Value::Free,
        "call a run stalled after this silence",
    ),
    value(
        "timeout",
        None,
        "SECONDS",
        Value::Free,
        "end the run after this time",
    ),
    value(
        "split",
        None,
        "NAME",
        Value::Free,
        "which split of the data: standard, a number or a name",
    ),
    value(
        "task",
        None,
        "KIND",
        Value::OneOf(&["node", "link"]),
        "what to learn: classes of vertices, or links",
    ),
    value(
        "scorer",
        None,
        "KIND",
        Value::OneOf(&["dot", "mlp"]),
        "how two embeddings become the score of a link",
    ),
    value(
        "embedding",
        None,
        "N",
        Value::Free,
        "width of the embeddings that links are scored with",
    ),
    value(
        "negatives",
        None,
        "N",
        Value::Free,
        "pairs without an edge for each training edge",
    ),
    value(
        "feature-storage",
        None,
        "KIND",
        Value::OneOf(&["f32", "bf16"]),
        "how features are stored",
    ),
    value(
        "first-aggregate",
        None,
        "WHEN",
        Value::OneOf(&["every-epoch", "once"]),
        "when the features are aggregated",
    ),
    value(
        "vertex-order",
        None,
        "KIND",
        Value::OneOf(&["auto", "given", "degree"]),
        "order of vertices in memory",
    ),
    value(
        "target",
        None,
        "SCORE",
        Value::Free,
        "validation score until which training is timed",
    ),
    value(
        "patience",
        None,
        "N",
        Value::Free,
        "end after so many evaluations without a better score",
    ),
    value(
        "checkpoint-every",
        None,
        "N",
        Value::Free,
        "epochs between checkpoints",
    ),
    value(
        "link",
        None,
        "RATE,LATENCY",
        Value::Free,
        "a modelled link between ranks: 1gbit,50us",
    ),
    value("name", None, "TEXT", Value::Free, "a name for the run"),
    value(
        "warmup",
        None,
        "N",
        Value::Free,
        "epochs that do not count in timings",
    ),
    value(
        "config",
        None,
        "FILE",
        Value::Free,
        "read keys from a run file first",
    ),
    value(
        "set",
        None,
        "KEY=VALUE",
        Value::Free,
        "set any key, also a strategy's own",
    ),
    value(
        "limit",
        None,
        "SIZE",
        Value::Free,
        "memory that a rank may need by its plan: 2GB",
    ),
    value(
        "slow",
        None,
        "R:Fx",
        Value::Free,
        "slow one rank down on purpose: 2:3x makes rank 2's compute take 3 times as long",
    ),
    switch(
        "trace",
        "keep what each rank did when: r1.spans(), %plot r1 gantt, %trace r1",
    ),
    switch(
        "sync",
        "one thing at a time: every collective and every operation of a device is waited for",
    ),
    switch("force", "start also what by its plan does not fit"),
    switch("dry-run", "resolve and check, start nothing"),
];

/// Flags that only `%plan` has; they are those of `halobook plan`.
const PLAN_OWN: &[Flag] = &[value(
    "like",
    None,
    "RUN",
    Value::Run,
    "the settings of a run; keys that are given go over them",
)];

/// Flags of `%plan`: its own, and those of a run but for its last flags.
pub(super) const PLAN_FLAGS: &[Flag] = &{
    let mut all = [PLAN_OWN[0]; PLAN_OWN.len() + TRAIN_FLAGS.len() - 5];
    let mut k = PLAN_OWN.len();
    while k < all.len() {
        all[k] = TRAIN_FLAGS[k - PLAN_OWN.len()];
        k += 1;
    }
    all
};

/// Flags that only `%%sweep` has; they are those of `halobook sweep`.
pub const SWEEP_OWN: &[Flag] = &[
    value(
        "repeat",
        None,
        "K",
        Value::Free,
        "each setting with K seeds",
    ),
    value("jobs", None, "K", Value::Free, "settings at a time"),
    value(
        "stop-if",
        None,
        "CONDITION",
        Value::Free,
        "no further setting once a row meets it: \"test >= 0.8\"",
    ),
    switch("zip", "lists side by side instead of crossed"),
    switch(
        "in-order",
        "in the order of the lists instead of a drawn one",
    ),
    switch(
        "resume",
        "take over finished runs of equal requests from earlier sweeps",
    ),
    switch(
        "bg",
        "return once it is under way; its card stays in this cell and goes on",
    ),
];

/// Flags that only `%%gnn` has.
const GNN_OWN: &[Flag] = &[
    value(
        "repeat",
        None,
        "K",
        Value::Free,
        "train K times, each with a seed of its own, from the run's seed on",
    ),
    switch(
        "bg",
        "return at once; the run's card stays in this cell and goes on",
    ),
    switch(
        "verify",
        "first train the strategy beside single on a small graph; what came of it is noted",
    ),
];

/// Flags of `%%gnn`: its own, and those of a run.
pub(super) const GNN_FLAGS: &[Flag] =
    &joined::<{ GNN_OWN.len() + TRAIN_FLAGS.len() }>(GNN_OWN, TRAIN_FLAGS);

/// Flags of `%%sweep`: its own, and those of a run.
pub(super) const SWEEP_FLAGS: &[Flag] =
    &joined::<{ SWEEP_OWN.len() + TRAIN_FLAGS.len() }>(SWEEP_OWN, TRAIN_FLAGS);

const fn joined<const N: usize>(own: &[Flag], shared: &[Flag]) -> [Flag; N] {
    let mut all = [own[0]; N];
    let mut k = 0;
    while k < N {
        all[k] = if k < own.len() {
            own[k]
        } else {
            shared[k - own.len()]
        };
        k += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::spec::KEYS;

    #[test]
    fn every_key_of_a_run_is_a_flag() {
        for key in KEYS {
            let name = key.name.replace('_', "-");
            let flag = TRAIN_FLAGS.iter().find(|flag| flag.long == name);
            assert!(flag.is_some(), "{name}");
        }
        for key in ["slow", "trace", "sync", "force", "dry-run"] {
            assert!(PLAN_FLAGS.iter().all(|flag| flag.long != key), "{key}");
        }
    }
}
