//! The one table of keys that a run understands.

use super::{
    Decay, FeatureNorm, FeatureStorage, FirstAggregate, Launch, Link, ModelKind, OptimiserKind,
    RunSpec, Scorer, Slow, TaskKind, Value, VertexOrder,
};
use crate::error::{Error, Result};
use gnn_data::knobs::spelled;

/// The type of a key's value, for help and completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyType {
    /// Free text.
    Text,
    /// A whole number in a range.
    Int(i64, i64),
    /// A decimal number in a half-open range.
    Float(f64, f64),
    /// Seconds in a half-open range, also with a unit: `30s`, `2min`.
    Seconds(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`; a flag that is only named says `true`.
    Switch,
}

/// One key: its name, its type, what it means, and how it is read and written.
pub struct Key {
    /// Name in a TOML file and a cell; a flag writes `-` for `_`.
    pub name: &'static str,
    /// Short flag, if it has one.
    pub short: Option<char>,
    /// What values it takes.
    pub kind: KeyType,
    /// One line for help.
    pub doc: &'static str,
    /// Checks and stores a value.
    pub set: fn(&mut RunSpec, &Value) -> Result<()>,
    /// Reads it back.
    pub get: fn(&RunSpec) -> Value,
}

/// The spelling used inside: `weight-decay` becomes `weight_decay`.
pub fn normalise(key: &str) -> String {
    let key = spelled(key);
    match key.as_str() {
        "s" => "strategy".into(),
        "n" => "ranks".into(),
        _ => key,
    }
}

/// The entry of a key, if there is one.
pub fn find_key(name: &str) -> Option<&'static Key> {
    let name = normalise(name);
    KEYS.iter().find(|k| k.name == name)
}

fn wrong(key: &Key, got: &Value) -> Error {
    let expected = match key.kind {
        KeyType::Text => "text".to_owned(),
        KeyType::Int(lo, hi) => format!("a whole number from {lo} to {hi}"),
        KeyType::Float(lo, hi) => format!("a number from {lo} to below {hi}"),
        KeyType::Seconds(lo, hi) => format!("seconds from {lo} to below {hi}, such as 30s"),
        KeyType::Choice(words) => format!("one of {}", words.join(", ")),
        KeyType::Switch => "true or false".to_owned(),
    };
    Error::Spec {
        key: key.name.into(),
        reason: format!("expected {expected}, got {got}"),
        help: format!("{}: {}", key.name, key.doc),
    }
}

fn key(name: &str) -> &'static Key {
    find_key(name).expect("called with a name of the table below")
}

fn int(name: &str, value: &Value) -> Result<i64> {
    let k = key(name);
    let KeyType::Int(lo, hi) = k.kind else {
        return Err(wrong(k, value));
    };
    match value {
        Value::Int(i) if (lo..=hi).contains(i) => Ok(*i),
        _ => Err(wrong(k, value)),
    }
}

fn float(name: &str, value: &Value) -> Result<f64> {
    let k = key(name);
    let (KeyType::Float(lo, hi) | KeyType::Seconds(lo, hi)) = k.kind else {
        return Err(wrong(k, value));
    };
    let timed = matches!(k.kind, KeyType::Seconds(..));
    let x = match value {
        Value::Int(i) => Some(*i as f64),
        Value::Float(x) => Some(*x),
        Value::Str(text) if timed => super::seconds(text),
        _ => None,
    };
    let Some(x) = x else {
        return Err(wrong(k, value));
    };
    if x >= lo && x < hi {
        Ok(x)
    } else {
        Err(wrong(k, value))
    }
}

fn word(name: &str, value: &Value) -> Result<String> {
    let k = key(name);
    let text = value.to_string();
    match k.kind {
        KeyType::Choice(words) if !words.contains(&text.as_str()) => {
            match crate::error::nearest(&text, words.iter().copied()) {
                Some(near) => Err(Error::UnknownName {
                    kind: k.name.into(),
                    got: text,
                    nearest: Some(near.to_owned()),
                    known: words.iter().map(|w| (*w).to_owned()).collect(),
                }),
                None => Err(wrong(k, value)),
            }
        }
        KeyType::Switch if !matches!(value, Value::Bool(_)) => Err(wrong(k, value)),
        _ => Ok(text),
    }
}

fn link(name: &str, value: &Value) -> Result<Option<Link>> {
    match word(name, value)?.as_str() {
        NONE => Ok(None),
        text => Link::parse(text).map(Some),
    }
}

fn slow(name: &str, value: &Value) -> Result<Option<Slow>> {
    match word(name, value)?.as_str() {
        NONE => Ok(None),
        text => Slow::parse(text).map(Some),
    }
}

fn limit(name: &str, value: &Value) -> Result<u64> {
    match word(name, value)?.as_str() {
        NONE => Ok(0),
        text => super::bytes(text).ok_or_else(|| Error::Spec {
            key: name.into(),
            reason: format!("expected a size, got {text}"),
            help: "write limit = 2GB, 512MiB, bytes, or none".into(),
        }),
    }
}

/// What stands for no link, no limit and no slow rank.
const NONE: &str = "none";

macro_rules! keys {
    ($($name:ident $short:expr, $kind:expr, $doc:literal, $read:ident => $into:expr, $get:expr;)*) => {
        /// Every key of a run, in the order in which help lists them.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            short: $short,
            kind: $kind,
            doc: $doc,
            set: |spec, value| {
                let read = $read(stringify!($name), value)?;
                #[allow(clippy::redundant_closure_call)]
                { spec.$name = ($into)(read); }
                Ok(())
            },
            #[allow(clippy::redundant_closure_call)]
            get: |spec| ($get)(&spec.$name),
        }),*];
    };
}

const MAX: i64 = i64::MAX;
const MAX_LAYERS: i64 = 128;
const MAX_WIDTH: i64 = 1 << 20;
const MAX_RANKS: i64 = 1 << 16;

fn count(n: &usize) -> Value {
    Value::Int(*n as i64)
}
fn text(s: &str) -> Value {
    Value::Str(s.to_owned())
}
fn same(s: String) -> String {
    s
}
fn size(n: i64) -> usize {
    n as usize
}
fn number(x: &f64) -> Value {
    Value::Float(*x)
}

keys! {
    data None, KeyType::Text, "catalogue name, karate, sbm:…, rmat:…, or a path", word => same, |s: &String| text(s);
    split None, KeyType::Text, "which split of the data: standard, a number or a name", word => same, |s: &String| text(s);
    task None, KeyType::Choice(&["node", "link"]), "what to learn: the classes of vertices, or links", word => |s: String| if s == "link" { TaskKind::Link } else { TaskKind::Node }, |t: &TaskKind| text(if *t == TaskKind::Link { "link" } else { "node" });
    scorer None, KeyType::Choice(&["dot", "mlp"]), "how two embeddings become the score of a link", word => |s: String| if s == "mlp" { Scorer::Mlp } else { Scorer::Dot }, |s: &Scorer| text(if *s == Scorer::Mlp { "mlp" } else { "dot" });
    embedding None, KeyType::Int(1, MAX_WIDTH), "width of the embeddings that links are scored with", int => size, count;
    negatives None, KeyType::Int(1, 1000), "pairs without an edge drawn for each training edge", int => size, count;
    model None, KeyType::Choice(ModelKind::NAMES), "model to train", word => |s: String| ModelKind::from_name(&s).expect("the choice list is ModelKind::NAMES"), |m: &ModelKind| text(m.name());
    layers None, KeyType::Int(1, MAX_LAYERS), "number of layers", int => size, count;
    hidden None, KeyType::Int(1, MAX_WIDTH), "hidden width", int => size, count;
    decoupled None, KeyType::Choice(&["true", "false"]), "dense layers first, then as many rounds of propagation", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    heads None, KeyType::Int(1, 1024), "GAT: attention heads, of the hidden width each, but for the last layer", int => size, count;
    out_heads None, KeyType::Int(1, 1024), "GAT: attention heads of the last layer, averaged", int => size, count;
    attention_dropout None, KeyType::Float(0.0, 1.0), "GAT: probability of dropping an attention coefficient", float => |x| x, number;
    bases None, KeyType::Int(0, 1 << 16), "R-GCN: bases that relations share; 0 gives each a weight of its own", int => size, count;
    alpha None, KeyType::Float(0.0, 1.0), "GCNII: share of the initial residual", float => |x| x, number;
    lambda None, KeyType::Float(0.0, 1e6), "GCNII: layer l maps by (1 - b) I + b W, b = ln(lambda / l + 1)", float => |x| x, number;
    strategy Some('s'), KeyType::Text, "how the work is divided among ranks", word => same, |s: &String| text(s);
    ranks Some('n'), KeyType::Int(1, MAX_RANKS), "number of ranks", int => size, count;
    epochs None, KeyType::Int(1, 1_000_000_000), "number of epochs", int => size, count;
    lr None, KeyType::Float(0.0, 1e6), "learning rate", float => |x| x, number;
    optimizer None, KeyType::Choice(OptimiserKind::NAMES), "how weights follow their gradients", word => |s: String| match s.as_str() { "sgd" => OptimiserKind::Sgd, "adamw" => OptimiserKind::Adamw, _ => OptimiserKind::Adam }, |o: &OptimiserKind| text(o.name());
    momentum None, KeyType::Float(0.0, 1.0), "momentum of sgd", float => |x| x, number;
    weight_decay None, KeyType::Float(0.0, 1e6), "weight decay: L2 in the gradient, or beside it with adamw", float => |x| x, number;
    weight_decay_dense None, KeyType::Float(-1.0, 1e6), "weight decay of layers that read no other vertex (GCNII's first and last); below 0, the same", float => |x| x, number;
    decay None, KeyType::Choice(&["all", "first"]), "layers whose weights decay", word => |s: String| if s == "first" { Decay::First } else { Decay::All }, |d: &Decay| text(if *d == Decay::First { "first" } else { "all" });
    dropout None, KeyType::Float(0.0, 1.0), "probability of dropping a layer's input element", float => |x| x, number;
    feature_norm None, KeyType::Choice(&["none", "row"]), "scale feature rows to sum 1", word => |s: String| if s == "row" { FeatureNorm::Row } else { FeatureNorm::None }, |f: &FeatureNorm| text(if *f == FeatureNorm::Row { "row" } else { "none" });
    feature_storage None, KeyType::Choice(&["f32", "bf16"]), "how features are stored; bf16 rounds them to 8 bits and halves what the first aggregation reads", word => |s: String| if s == "bf16" { FeatureStorage::Bf16 } else { FeatureStorage::F32 }, |f: &FeatureStorage| text(if *f == FeatureStorage::Bf16 { "bf16" } else { "f32" });
    first_aggregate None, KeyType::Choice(&["every-epoch", "once"]), "when the features, which never change, are aggregated; once needs dropout 0", word => |s: String| if s == "once" { FirstAggregate::Once } else { FirstAggregate::EveryEpoch }, |f: &FirstAggregate| text(if *f == FirstAggregate::Once { "once" } else { "every-epoch" });
    vertex_order None, KeyType::Choice(VertexOrder::NAMES), "order of vertices in memory: as given, by degree, or auto for by degree where aggregation gains from it", word => |s: String| VertexOrder::of(&s), |o: &VertexOrder| text(o.name());
    seed None, KeyType::Int(0, MAX), "seed of everything random", int => |i: i64| i as u64, |s: &u64| Value::Int(*s as i64);
    threads None, KeyType::Int(0, 4096), "compute threads a rank; 0 shares the cores", int => size, count;
    launch None, KeyType::Choice(&["auto", "threads", "mpi", "slurm"]), "where ranks run", word => |s: String| match s.as_str() { "threads" => Launch::Threads, "mpi" => Launch::Mpi, "slurm" => Launch::Slurm, _ => Launch::Auto }, |l: &Launch| text(match l { Launch::Auto => "auto", Launch::Threads => "threads", Launch::Mpi => "mpi", Launch::Slurm => "slurm" });
    backend None, KeyType::Choice(super::DEVICES), "device of the matrices", word => same, |s: &String| text(s);
    partition None, KeyType::Text, "partitioner: metis, chunk, hash, random, ldg, fennel, bytegnn or hongtu; knobs after a colon, metis:balance=train+edges", word => same, |s: &String| text(s);
    eval_every None, KeyType::Int(1, MAX), "evaluate every so many epochs", int => size, count;
    patience None, KeyType::Int(0, MAX), "end after so many evaluations without a better validation score; 0 is never", int => size, count;
    target None, KeyType::Float(0.0, 1.0), "validation score until which training is timed, time_to_target_ms in the frame runs; 0: 99 % of the run's own best", float => |x| x, number;
    checkpoint_every None, KeyType::Int(0, MAX), "write a checkpoint every so many epochs and after the last, for --resume; 0 is never", int => size, count;
    warmup None, KeyType::Int(0, MAX), "epochs flagged as warm-up", int => size, count;
    stall None, KeyType::Seconds(0.1, 1e9), "seconds without progress that count as a stall", float => |x| x, number;
    timeout None, KeyType::Seconds(0.0, 1e9), "seconds after which the run is ended; 0 is never", float => |x| x, number;
    limit None, KeyType::Text, "memory that a rank may need by its plan, 2GB; a run that would need more is refused, none never", limit => |n| n, |n: &u64| if *n == 0 { text(NONE) } else { text(&n.to_string()) };
    link None, KeyType::Text, "modelled link between ranks, rate and latency as in 1gbit,50us, or none", link => |l| l, |l: &Option<Link>| l.map_or(text(NONE), |l| text(&l.to_string()));
    slow None, KeyType::Text, "slow one rank down on purpose, for teaching: 2:3x makes rank 2's compute take 3 times as long; or none", slow => |s| s, |s: &Option<Slow>| s.map_or(text(NONE), |s| text(&s.to_string()));
    trace None, KeyType::Switch, "keep what each rank did when: the frame spans, halobook trace, the plot gantt", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    sync None, KeyType::Switch, "finish every collective where it is posted and every operation of a device where it is asked for: slower, with the same results; the first thing to try when a run fails", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    name None, KeyType::Text, "free name of the run", word => same, |s: &String| text(s);
}
