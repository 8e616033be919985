//! Into what a run is split: stages of layers, groups of ranks, chunks of vertices.

use crate::error::{Error, Result};
use crate::model::{Model, ModelKind};
use crate::partition::{Nested, Parts};
use crate::spec::{Knob, RunSpec, Value};
use kernels::par::split_rows;
use std::ops::Range;

/// Chunks a rank where the request does not say.
const CHUNKS: usize = 4;

/// The split of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Split {
    /// Message-passing layers of each stage.
    pub(super) stages: Vec<usize>,
    /// Ranks of a stage, each with a part of every chunk.
    pub(super) groups: usize,
    /// Chunks that vertices are cut into.
    pub(super) chunks: usize,
}

/// `auto`, or a whole number from 1.
fn auto_or_count(value: &Value) -> bool {
    matches!(value, Value::Int(1..)) || *value == Value::Str("auto".into())
}

/// Numbers of layers, separated by commas.
fn counts(text: &str) -> Option<Vec<usize>> {
    let count = |word: &str| word.trim().parse().ok().filter(|&n: &usize| n > 0);
    text.split(',').map(count).collect()
}

/// Stages, groups and chunks.
pub(super) const STAGES: Knob = Knob {
    name: "stages",
    default: "auto",
    doc: "stages of about equally many layers, or how many layers each has, as in 3,3,2; auto: ranks over groups",
    check: |v| auto_or_count(v) || matches!(v, Value::Str(text) if counts(text).is_some()),
};
/// Ranks of a stage.
pub(super) const GROUPS: Knob = Knob {
    name: "groups",
    default: "auto",
    doc: "ranks of a stage, each with a part of every chunk; auto: the fewest with which no stage is without a layer",
    check: auto_or_count,
};
/// Chunks.
pub(super) const CHUNK_COUNT: Knob = Knob {
    name: "chunks",
    default: "auto",
    doc: "chunks that stream through the stages; auto: 4 a rank, 1 for one stage",
    check: auto_or_count,
};

fn refused(what: String, reason: String, help: String) -> Error {
    Error::Unsupported { what, reason, help }
}

/// The numbers next to `ranks` that are multiples of `of`, in words.
fn nearest(ranks: usize, of: usize) -> String {
    let below = ranks / of * of;
    match below {
        0 => format!("set ranks (-n) to {of}"),
        _ => format!("set ranks (-n) to {below} or {}", below + of),
    }
}

impl Split {
    /// Of a request.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for ranks that stages and groups do not share out, and for stages without a
    /// layer.
    pub(super) fn of(spec: &RunSpec) -> Result<Split> {
        let (ranks, layers, knobs) = (spec.ranks, spec.layers, &spec.knobs);
        let count = |name: &str| Some(knobs.count(name)).filter(|&n| n > 0);
        let list = counts(knobs.word("stages"));
        let stages = list.as_ref().map(Vec::len).or(count("stages"));
        let (stages, groups) = match (stages, count("groups")) {
            (Some(stages), Some(groups)) => (stages, groups),
            (Some(stages), None) => (stages, (ranks / stages).max(1)),
            (None, Some(groups)) => ((ranks / groups).max(1), groups),
            (None, None) => {
                let fits = |g: &usize| ranks.is_multiple_of(*g) && ranks / g <= layers;
                let groups = (1..=ranks).find(fits).unwrap_or(ranks);
                (ranks / groups, groups)
            }
        };
        if stages * groups != ranks {
            let of = match (count("groups"), knobs.written("stages") == "auto") {
                (Some(_), false) => stages * groups,
                (Some(groups), true) => groups,
                (None, _) => stages,
            };
            return Err(refused(
                format!("{ranks} ranks in {stages} stages of {groups}"),
                format!("that is {} ranks", stages * groups),
                format!("{}, or leave stages or groups out", nearest(ranks, of)),
            ));
        }
        if stages > layers {
            return Err(refused(
                format!("{stages} stages of a model of {layers} layers"),
                "a stage has at least one layer that reads neighbours".into(),
                format!("set stages to {layers} or fewer, or groups, so that ranks share a stage"),
            ));
        }
        let list = list.unwrap_or_else(|| {
            let bounds = split_rows(layers, stages);
            bounds.windows(2).map(|b| b[1] - b[0]).collect()
        });
        if list.iter().sum::<usize>() != layers {
            return Err(refused(
                format!("stages of {} layers", knobs.word("stages")),
                format!("the model has {layers}"),
                "write numbers whose sum that is, or only how many stages".into(),
            ));
        }
        let auto = if stages == 1 { 1 } else { CHUNKS * ranks };
        Ok(Split {
            stages: list,
            groups,
            chunks: count("chunks").unwrap_or(auto),
        })
    }

    /// Into what vertices are cut: chunks, each again into a part for every rank of a stage.
    pub(super) fn parts(&self) -> Parts {
        let nested = match self.groups {
            1 => Nested::No,
            groups => Nested::Again(groups),
        };
        Parts::of(self.chunks).each(nested)
    }

    /// The layers of each stage of `whole`, of which no weights are read. Layers that read no neighbours
    /// are with those they stand beside: before the first such layer in the first stage, after the last in
    /// the last.
    pub(super) fn layers(&self, whole: &Model) -> Vec<Range<usize>> {
        let reads = |l: &usize| whole.layer(*l).facts().is_some();
        let lead = (0..whole.layers()).find(reads).unwrap_or(0);
        let last = self.stages.len() - 1;
        let mut end = lead;
        let stage = |(s, count): (usize, &usize)| {
            let start = if s == 0 { 0 } else { end };
            end += count;
            start..if s == last { whole.layers() } else { end }
        };
        self.stages.iter().enumerate().map(stage).collect()
    }
}

/// Refuses what cannot be trained so.
///
/// # Errors
/// As [`Split::of`]; [`Error::Unsupported`] for models and tasks that chunks cannot carry.
pub(super) fn refuse(spec: &RunSpec) -> Result<()> {
    let split = Split::of(spec)?;
    if spec.decoupled {
        return Err(refused(
            "a decoupled model in stages".into(),
            "its rounds of propagation are one step, whose weights are all before it".into(),
            "set decoupled = false, or choose another strategy, for example neutrontp".into(),
        ));
    }
    let chunked = split.chunks > 1;
    let one = || "set chunks = 1, which is exact, or choose another strategy, for example halo";
    if chunked && matches!(spec.model, ModelKind::Gat | ModelKind::Rgcn) {
        let reason = match spec.model {
            ModelKind::Gat => {
                "attention is normalised over a vertex's neighbours, of which some would be historical and some not"
            }
            _ => {
                "what travels of a vertex is a product with each relation's weights, which would be old ones"
            }
        };
        return Err(refused(
            format!("{} in {} chunks", spec.model, split.chunks),
            reason.into(),
            one().into(),
        ));
    }
    if spec.first_aggregate == crate::spec::FirstAggregate::Once {
        return Err(refused(
            "features aggregated once in stages".into(),
            "chunks aggregate them as they come".into(),
            "leave first_aggregate out".into(),
        ));
    }
    Ok(())
}
