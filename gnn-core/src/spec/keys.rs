//! The one table of keys that a run understands.

use super::{
    AggregateWidth, Decay, FeatureNorm, FeatureStorage, FirstAggregate, Launch, Link, ModelKind,
    OptimiserKind, RunSpec, Scorer, Slow, SumOrder, TaskKind, TransportKind, Value, VertexOrder,
};
use crate::error::{Error, Result};
use gnn_data::knobs::spelled;

/// The type of a key's value, for help and completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyType {
    /// Free text, and what stands for it in help.
    Text(&'static str),
    /// A name that a registry knows, or what it makes of other text: a path, a name with knobs.
    Name(Registry),
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

/// What a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// What an epoch computes.
    Result,
    /// How long a run is, what is looked at on the way, and where it runs: it changes no bit of an epoch.
    Course,
}

/// Where names are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// Data sets.
    Data,
    /// Strategies.
    Strategies,
    /// Partitioners.
    Partitioners,
    /// Runs there were.
    Runs,
}

impl KeyType {
    /// What stands for a value in help.
    pub const fn placeholder(self) -> &'static str {
        match self {
            KeyType::Text(placeholder) => placeholder,
            KeyType::Name(Registry::Runs) => "RUN",
            KeyType::Name(_) => "NAME",
            KeyType::Int(..) => "N",
            KeyType::Float(..) => "X",
            KeyType::Seconds(..) => "SECONDS",
            KeyType::Choice(_) => "KIND",
            KeyType::Switch => "true|false",
        }
    }
}

/// One key: its name, its type, what it means, and how it is read and written.
pub struct Key {
    /// Name in a TOML file and a cell.
    pub name: &'static str,
    /// The same as a flag, with `-` for `_`.
    pub flag: &'static str,
    /// Short flag, if it has one.
    pub short: Option<char>,
    /// What it is about; a run that goes on may have other values of [`Role::Course`].
    pub role: Role,
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
        KeyType::Text(_) | KeyType::Name(_) => "text".to_owned(),
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
    ($($name:ident $role:ident $short:expr, $kind:expr, $doc:literal, $read:ident => $into:expr, $get:expr;)*) => {
        /// Every key of a run, in the order in which help lists them.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            flag: {
                const DASHED: [u8; stringify!($name).len()] = dashed(stringify!($name));
                match std::str::from_utf8(&DASHED) {
                    Ok(flag) => flag,
                    Err(_) => panic!("a key's name is ASCII"),
                }
            },
            role: Role::$role,
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

/// A key's name as a flag.
const fn dashed<const N: usize>(name: &str) -> [u8; N] {
    let mut flag = [0; N];
    let mut k = 0;
    while k < N {
        let byte = name.as_bytes()[k];
        flag[k] = if byte == b'_' { b'-' } else { byte };
        k += 1;
    }
    flag
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
/// The value that a word of [`KeyType::Choice`] names.
fn named<T>(found: Option<T>) -> T {
    found.expect("the choices are the type's own names")
}
fn number(x: &f64) -> Value {
    Value::Float(*x)
}

keys! {
    data Result None, KeyType::Name(Registry::Data), "catalogue name, karate, sbm:…, rmat:…, or a path", word => same, |s: &String| text(s);
    split Result None, KeyType::Text("NAME"), "which split of the data: standard, a number or a name", word => same, |s: &String| text(s);
    task Result None, KeyType::Choice(TaskKind::NAMES), "what to learn: the classes of vertices, links, or unsupervised, embeddings near to those of neighbours", word => |s: String| named(TaskKind::from_name(&s)), |v: &TaskKind| text(v.name());
    scorer Result None, KeyType::Choice(Scorer::NAMES), "how two embeddings become the score of a link", word => |s: String| named(Scorer::from_name(&s)), |v: &Scorer| text(v.name());
    embedding Result None, KeyType::Int(1, MAX_WIDTH), "width of the embeddings that links are scored with", int => size, count;
    negatives Result None, KeyType::Int(1, 1000), "pairs without an edge drawn for each pair that is trained on", int => size, count;
    walks Result None, KeyType::Int(1, 1000), "unsupervised: walks from each vertex; what they visit is near to it", int => size, count;
    walk_length Result None, KeyType::Int(1, 1000), "unsupervised: steps of a walk; 1 visits direct neighbours", int => size, count;
    window Result None, KeyType::Int(1, 1000), "unsupervised: first steps of a walk that count, at most walk_length", int => size, count;
    negative_power Result None, KeyType::Float(0.0, 10.0), "unsupervised: others are drawn in proportion to their degree to the power of this; 0 is uniformly", float => |x| x, number;
    model Result None, KeyType::Choice(ModelKind::NAMES), "model to train", word => |s: String| named(ModelKind::from_name(&s)), |v: &ModelKind| text(v.name());
    layers Result None, KeyType::Int(1, MAX_LAYERS), "number of layers", int => size, count;
    hidden Result None, KeyType::Int(1, MAX_WIDTH), "hidden width", int => size, count;
    decoupled Result None, KeyType::Choice(&["true", "false"]), "dense layers first, then as many rounds of propagation", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    heads Result None, KeyType::Int(1, 1024), "GAT: attention heads, of the hidden width each, but for the last layer; decoupled, those averaged in every round", int => size, count;
    out_heads Result None, KeyType::Int(1, 1024), "GAT: attention heads of the last layer, averaged", int => size, count;
    attention_dropout Result None, KeyType::Float(0.0, 1.0), "GAT: probability of dropping an attention coefficient", float => |x| x, number;
    bases Result None, KeyType::Int(0, 1 << 16), "R-GCN: bases that relations share; 0 gives each a weight of its own", int => size, count;
    alpha Result None, KeyType::Float(0.0, 1.0), "GCNII: share of the initial residual", float => |x| x, number;
    lambda Result None, KeyType::Float(0.0, 1e6), "GCNII: layer l maps by (1 - b) I + b W, b = ln(lambda / l + 1)", float => |x| x, number;
    strategy Result Some('s'), KeyType::Name(Registry::Strategies), "how the work is divided among ranks", word => same, |s: &String| text(s);
    ranks Result Some('n'), KeyType::Int(1, MAX_RANKS), "number of ranks", int => size, count;
    epochs Course None, KeyType::Int(1, 1_000_000_000), "number of epochs", int => size, count;
    lr Result None, KeyType::Float(0.0, 1e6), "learning rate", float => |x| x, number;
    optimizer Result None, KeyType::Choice(OptimiserKind::NAMES), "how weights follow their gradients", word => |s: String| named(OptimiserKind::from_name(&s)), |v: &OptimiserKind| text(v.name());
    momentum Result None, KeyType::Float(0.0, 1.0), "momentum of sgd", float => |x| x, number;
    weight_decay Result None, KeyType::Float(0.0, 1e6), "weight decay: L2 in the gradient, or beside it with adamw", float => |x| x, number;
    weight_decay_dense Result None, KeyType::Float(-1.0, 1e6), "weight decay of layers that read no other vertex (GCNII's first and last); below 0, the same", float => |x| x, number;
    decay Result None, KeyType::Choice(Decay::NAMES), "layers whose weights decay", word => |s: String| named(Decay::from_name(&s)), |v: &Decay| text(v.name());
    dropout Result None, KeyType::Float(0.0, 1.0), "probability of dropping a layer's input element", float => |x| x, number;
    feature_norm Result None, KeyType::Choice(FeatureNorm::NAMES), "scale feature rows to sum 1", word => |s: String| named(FeatureNorm::from_name(&s)), |v: &FeatureNorm| text(v.name());
    feature_storage Result None, KeyType::Choice(FeatureStorage::NAMES), "how features are stored; bf16 rounds them to 8 bits and halves what the first aggregation reads", word => |s: String| named(FeatureStorage::from_name(&s)), |v: &FeatureStorage| text(v.name());
    first_aggregate Result None, KeyType::Choice(FirstAggregate::NAMES), "when the features, which never change, are aggregated; once needs dropout 0", word => |s: String| named(FirstAggregate::from_name(&s)), |v: &FirstAggregate| text(v.name());
    aggregate_width Result None, KeyType::Choice(AggregateWidth::NAMES), "which side of a layer's product is aggregated: the narrower, or in all layers the hidden width, as some papers count (GCN, SAGE, GIN)", word => |s: String| named(AggregateWidth::from_name(&s)), |v: &AggregateWidth| text(v.name());
    block_layers Result None, KeyType::Int(1, 2), "dense layers of a ResGCN+ block", int => size, count;
    vertex_order Result None, KeyType::Choice(VertexOrder::NAMES), "order of vertices in memory: as given, by community, by degree, or auto for what aggregation gains from", word => |s: String| named(VertexOrder::from_name(&s)), |v: &VertexOrder| text(v.name());
    seed Result None, KeyType::Int(0, MAX), "seed of everything random", int => |i: i64| i as u64, |s: &u64| Value::Int(*s as i64);
    threads Course None, KeyType::Int(0, 4096), "compute threads a rank; 0 shares the cores", int => size, count;
    launch Course None, KeyType::Choice(Launch::NAMES), "where ranks run", word => |s: String| named(Launch::from_name(&s)), |v: &Launch| text(v.name());
    backend Result None, KeyType::Choice(super::DEVICES), "device of the matrices", word => same, |s: &String| text(s);
    transport Course None, KeyType::Choice(TransportKind::NAMES), "how rows pass between ranks: through the host, by NCCL from device to device (backend = cuda, a GPU for each rank), or auto for NCCL where it can be", word => |s: String| named(TransportKind::from_name(&s)), |v: &TransportKind| text(v.name());
    sums Result None, KeyType::Choice(SumOrder::NAMES), "order of sums over ranks by NCCL: ordered is that of the ranks, with the same bits as through the host, any is NCCL's own and promises none, auto is ordered where the run promises bits", word => |s: String| named(SumOrder::from_name(&s)), |v: &SumOrder| text(v.name());
    partition Result None, KeyType::Name(Registry::Partitioners), "partitioner; knobs after a colon, metis:slack=0.1; auto is the strategy's own, metis:balance=train+edges for distdgl and metis for others; halobook partition --help lists them", word => same, |s: &String| text(s);
    eval_every Course None, KeyType::Int(1, MAX), "evaluate every so many epochs", int => size, count;
    patience Course None, KeyType::Int(0, MAX), "end after so many evaluations without a better validation score; 0 is never", int => size, count;
    stop_on_nan Course None, KeyType::Choice(&["true", "false"]), "end, as failed, with the epoch whose training loss is no finite number", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    target Course None, KeyType::Float(0.0, 1.0), "validation score until which training is timed, time_to_target_ms in the frame runs; 0: 99 % of the run's own best", float => |x| x, number;
    checkpoint_every Course None, KeyType::Int(0, MAX), "write a checkpoint every so many epochs and after the last, for --resume; 0 is never", int => size, count;
    warmup Course None, KeyType::Int(0, MAX), "epochs flagged as warm-up", int => size, count;
    stall Course None, KeyType::Seconds(0.1, 1e9), "seconds without progress that count as a stall", float => |x| x, number;
    timeout Course None, KeyType::Seconds(0.0, 1e9), "seconds after which the run is ended; 0 is never", float => |x| x, number;
    limit Course None, KeyType::Text("SIZE"), "memory that a rank may need by its plan, 2GB; a run that would need more is refused, none never", limit => |n| n, |n: &u64| if *n == 0 { text(NONE) } else { text(&n.to_string()) };
    link Course None, KeyType::Text("RATE,LATENCY"), "modelled link between ranks, rate and latency as in 1gbit,50us, or none", link => |l| l, |l: &Option<Link>| l.map_or(text(NONE), |l| text(&l.to_string()));
    slow Course None, KeyType::Text("R:Fx"), "slow one rank down on purpose, for teaching: 2:3x makes rank 2's compute take 3 times as long; or none", slow => |s| s, |s: &Option<Slow>| s.map_or(text(NONE), |s| text(&s.to_string()));
    trace Course None, KeyType::Switch, "keep what each rank did when: the frame spans, halobook trace, the plot gantt", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    keep_embeddings Course None, KeyType::Switch, "keep what the model makes of every vertex in the end: the frame embeddings, halobook probe", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    sync Course None, KeyType::Switch, "finish every collective where it is posted and every operation of a device where it is asked for: slower, with the same results; the first thing to try when a run fails", word => |s: String| s == "true", |b: &bool| Value::Bool(*b);
    name Course None, KeyType::Text("TEXT"), "free name of the run", word => same, |s: &String| text(s);
}
