//! What is asked of a partitioner: the graph, the parts, the method with its knobs, and what is
//! known of the vertices.

use crate::dataset::Dataset;
use crate::graph::Graph;
use crate::knobs::{Knobs, Value};
use crate::partition::{Nested, PartitionerEntry, Parts, find};
use crate::{Error, Result};

/// A partitioner with its knobs.
#[derive(Clone)]
pub struct Method {
    /// The partitioner.
    pub entry: &'static PartitionerEntry,
    /// Its settings, complete.
    pub knobs: Knobs,
}

impl Method {
    /// A partitioner by name, its knobs from written pairs.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a partitioner or knob nobody knows, [`Error::Spec`] for a value
    /// that is not allowed.
    pub fn new(name: &str, pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Method> {
        let entry = find(name)?;
        let pairs: Vec<(String, Value)> = pairs.into_iter().collect();
        // Knobs of other partitioners are known words too: the message says whose they are.
        if let Some((key, _)) = pairs
            .iter()
            .find(|(k, _)| !entry.knobs.iter().any(|own| own.name == k))
        {
            let others = super::PARTITIONERS.iter();
            let owners: Vec<&str> = others
                .filter(|e| e.knobs.iter().any(|own| own.name == key))
                .map(|e| e.name)
                .collect();
            if !owners.is_empty() {
                return Err(Error::Unsupported {
                    what: format!("{key} with partitioner {name}"),
                    reason: format!("{name} has no such knob"),
                    help: format!("it is a knob of {}", owners.join(", ")),
                });
            }
        }
        let knobs = Knobs::parse(entry.name, entry.knobs, pairs, &[])?;
        Ok(Method { entry, knobs })
    }

    /// A partitioner as one text: `metis`, or `metis:balance=train+edges,slack=0.05`.
    ///
    /// # Errors
    /// As [`Method::new`].
    pub fn parse(text: &str) -> Result<Method> {
        let (name, knobs) = text.split_once(':').unwrap_or((text, ""));
        let mut pairs = Vec::new();
        for pair in knobs.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Error::Spec {
                    key: "partition".into(),
                    reason: format!("expected knob=value, got '{pair}'"),
                    help: format!("write {}:knob=value,knob=value", name.trim()),
                });
            };
            pairs.push((key.trim().to_owned(), Value::from_word(value.trim())));
        }
        Method::new(name.trim(), pairs)
    }

    /// The same for a model of so many layers, where a knob follows them.
    #[must_use]
    pub fn for_layers(&self, layers: usize) -> Method {
        let follows = |value: &Value| matches!(value, Value::Str(word) if word == FOLLOWS);
        let mut knobs = self.knobs.iter();
        let knob = knobs.find(|(_, value)| follows(value));
        match knob {
            Some((knob, _)) => self.with(knob, &layers.to_string()),
            None => self.clone(),
        }
    }

    /// The same with one knob set to a word that it allows.
    pub(super) fn with(&self, knob: &str, word: &str) -> Method {
        let mut method = self.clone();
        method.knobs.set(knob, Value::from_word(word));
        method
    }

    /// The text that [`Method::parse`] reads, without knobs that have their default.
    pub fn label(&self) -> String {
        let default = |name: &str| {
            let knob = self.entry.knobs.iter().find(|k| k.name == name);
            knob.map(|k| Value::from_word(k.default))
        };
        let set = self
            .knobs
            .iter()
            .filter(|(k, v)| default(k).as_ref() != Some(v));
        let set: Vec<String> = set.map(|(k, v)| format!("{k}={v}")).collect();
        if set.is_empty() {
            self.entry.name.into()
        } else {
            format!("{}:{}", self.entry.name, set.join(","))
        }
    }
}

impl std::fmt::Debug for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label())
    }
}

/// The word of a knob that follows the layers of the model that a cut is for.
pub(super) const FOLLOWS: &str = "layers";

/// What a cut may use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory beside the data set.
    pub bytes: Option<u64>,
    /// Milliseconds.
    pub ms: Option<f64>,
}

/// A graph to be cut. Masks and types are empty where a data set has none.
#[derive(Clone)]
pub struct Request<'a> {
    /// How.
    pub method: Method,
    /// What: `n` vertices.
    pub graph: &'a Graph,
    /// Into how many parts.
    pub parts: usize,
    /// How each part is cut again; [`Request::assign`] does not look at it.
    pub nested: Nested,
    /// Seed of whatever the method draws.
    pub seed: u64,
    /// Training vertices: `[n]` or none.
    pub train: &'a [bool],
    /// Validation vertices: `[n]` or none.
    pub val: &'a [bool],
    /// Test vertices: `[n]` or none.
    pub test: &'a [bool],
    /// Type of each vertex: `[n]` or none.
    pub node_types: &'a [u16],
    /// What the method may use; those that can do with less then do.
    pub limits: Limits,
}

impl<'a> Request<'a> {
    /// A graph of which nothing more is known.
    pub fn new(method: Method, graph: &'a Graph, parts: usize, seed: u64) -> Request<'a> {
        Request {
            method,
            graph,
            parts,
            nested: Nested::No,
            seed,
            train: &[],
            val: &[],
            test: &[],
            node_types: &[],
            limits: Limits::default(),
        }
    }

    /// The graph of a data set, with its masks and types.
    pub fn of(method: Method, data: &'a Dataset, parts: usize, seed: u64) -> Request<'a> {
        Request {
            train: &data.train,
            val: &data.val,
            test: &data.test,
            node_types: data.node_types.as_deref().unwrap_or_default(),
            ..Request::new(method, &data.graph, parts, seed)
        }
    }

    /// The same with every part cut again.
    pub fn nested(self, nested: Nested) -> Request<'a> {
        Request { nested, ..self }
    }

    /// The same with limits.
    pub fn within(self, limits: Limits) -> Request<'a> {
        Request { limits, ..self }
    }

    /// The part of each vertex, below `parts`: `[n]`. The same request gives the same parts,
    /// whatever the number of threads. Parts may be empty.
    ///
    /// # Errors
    /// [`Error::Spec`] for no parts at all, [`Error::Shape`] when a mask does not fit the graph,
    /// [`Error::Partition`] when the graph cannot be cut.
    pub fn assign(&self) -> Result<Vec<u32>> {
        self.check()?;
        if self.parts == 1 {
            return Ok(vec![0; self.graph.n()]);
        }
        self.method.entry.partitioner.assign(self)
    }

    /// Refuses a cut that makes no sense before any partitioner sees it.
    pub(super) fn check(&self) -> Result<()> {
        if self.parts == 0 || self.parts > u32::MAX as usize {
            return Err(Error::Spec {
                key: "ranks".into(),
                reason: format!("expected 1 to {} parts, got {}", u32::MAX, self.parts),
                help: "choose at least one rank".into(),
            });
        }
        if self.nested.count() == 0 || self.total() > u32::MAX as usize {
            return Err(Error::Spec {
                key: "parts".into(),
                reason: format!(
                    "expected 1 to {} parts in all, got {} times {}",
                    u32::MAX,
                    self.parts,
                    self.nested.count()
                ),
                help: "cut each part into at least one".into(),
            });
        }
        let n = self.graph.n();
        for (name, len) in [
            ("train mask", self.train.len()),
            ("val mask", self.val.len()),
            ("test mask", self.test.len()),
            ("node types", self.node_types.len()),
        ] {
            if len != n && len != 0 {
                return Err(Error::Shape {
                    op: "partition".into(),
                    expected: format!("{name} of {n} vertices"),
                    got: len.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Into what both levels cut.
    pub(super) fn both(&self) -> Parts {
        Parts::of(self.parts).each(self.nested)
    }

    /// Parts of both levels together.
    pub(super) fn total(&self) -> usize {
        self.both().total()
    }

    /// A knob's number.
    pub(super) fn number(&self, knob: &str) -> f64 {
        self.method.knobs.number(knob)
    }

    /// A knob's word.
    pub(super) fn word(&self, knob: &str) -> &str {
        self.method.knobs.word(knob)
    }

    /// [`Error::Partition`] of this method.
    pub(super) fn failed(&self, reason: impl Into<String>) -> Error {
        Error::Partition {
            method: self.method.entry.name.into(),
            reason: reason.into(),
        }
    }
}

/// Checks that knobs share.
pub(super) mod allowed {
    use crate::knobs::Value;

    /// A whole number of at least one.
    pub fn positive(value: &Value) -> bool {
        matches!(value, Value::Int(1..=0xffff_ffff))
    }

    /// A number of at least zero.
    pub fn amount(value: &Value) -> bool {
        value.as_f64().is_some_and(|x| (0.0..1e18).contains(&x))
    }
}
