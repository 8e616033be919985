//! Into what a run is split: stages of layers, groups of ranks, chunks of vertices.

use super::schedule;
use crate::error::{Error, Result};
use crate::model::{AggregateFirst, Model, ModelKind};
use crate::partition::{Nested, Parts};
use crate::spec::{Knob, RunSpec, Value};
use crate::strategy::ShareOut;
use kernels::par::split_rows;
use std::ops::Range;

/// Chunks a rank where the request does not say.
const CHUNKS: usize = 4;

/// The split of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Split {
    /// Stages.
    pub(super) stages: usize,
    /// Pieces of layers that each stage has.
    pub(super) interleave: usize,
    /// Message-passing layers of each piece; piece `k` is of stage `k % stages`.
    pub(super) layers: Vec<usize>,
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
    doc: "stages of about equal work, or how many layers each has (each piece, where stages are interleaved), as in 3,3,2; auto: ranks over groups",
    check: |v| auto_or_count(v) || matches!(v, Value::Str(text) if counts(text).is_some()),
};
/// Pieces of layers a stage.
pub(super) const INTERLEAVE: Knob = Knob {
    name: "interleave",
    default: "1",
    doc: "pieces of layers that each stage has, so that chunks go round so many times and the bubble is that much shorter",
    check: |v| matches!(v, Value::Int(1..)),
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

/// Which ranks are side by side.
pub(super) const MAPPING: Knob = Knob {
    name: "mapping",
    default: "stages",
    doc: "ranks side by side, which share a host: those of one stage (stages), or one of each stage (pipelines)",
    check: |v| matches!(v, Value::Str(word) if word == "stages" || word == "pipelines"),
};
/// Ranks of a host.
pub(super) const PER_HOST: Knob = Knob {
    name: "per_host",
    default: "all",
    doc: "ranks that share a host, by which bytes within and between hosts are told apart; all: every rank does",
    check: |v| matches!(v, Value::Int(1..)) || *v == Value::Str("all".into()),
};
/// The order of forward and backward.
pub(super) const SCHEDULE: Knob = Knob {
    name: "schedule",
    default: "all-forward",
    doc: "chunks go back when all have gone forward (all-forward); 1f1b is refused, with the reason",
    check: |v| matches!(v, Value::Str(word) if word == "all-forward" || word == "1f1b"),
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
        let interleave = knobs.count("interleave");
        let list = counts(knobs.word("stages"));
        let listed = list.as_ref().map(|list| list.len().div_ceil(interleave));
        let stages = listed.or(count("stages"));
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
        if interleave > 1 && stages == 1 {
            return Err(refused(
                format!("{interleave} pieces of layers in one stage"),
                "chunks would go round on one rank, which nobody waits for".into(),
                "set interleave = 1, or more stages".into(),
            ));
        }
        let pieces = stages * interleave;
        if pieces > layers {
            let what = match interleave {
                1 => format!("{stages} stages of a model of {layers} layers"),
                _ => format!("{stages} stages of {interleave} pieces each of {layers} layers"),
            };
            let shared = "or groups, so that ranks share a stage";
            let help = match (layers / interleave, interleave) {
                (most @ 2.., _) | (most, 1) => format!("set stages to {most} at most, {shared}"),
                _ => format!("set interleave to {} at most", (layers / stages).max(1)),
            };
            let reason = "each has at least one layer that reads neighbours";
            return Err(refused(what, reason.into(), help));
        }
        let list = list.unwrap_or_else(|| {
            let bounds = split_rows(layers, pieces);
            bounds.windows(2).map(|b| b[1] - b[0]).collect()
        });
        if list.len() != pieces {
            return Err(refused(
                format!("stages of {} layers", knobs.word("stages")),
                format!("{stages} stages of {interleave} pieces are {pieces}"),
                "write as many numbers, or only how many stages".into(),
            ));
        }
        if list.iter().sum::<usize>() != layers {
            return Err(refused(
                format!("stages of {} layers", knobs.word("stages")),
                format!("the model has {layers}"),
                "write numbers whose sum that is, or only how many stages".into(),
            ));
        }
        let auto = if stages == 1 { 1 } else { CHUNKS * ranks };
        Ok(Split {
            stages,
            interleave,
            layers: list,
            groups,
            chunks: count("chunks").unwrap_or(auto),
        })
    }

    /// The share of an epoch in which a rank is expected to idle for others. Input gradients are taken to
    /// cost what forward does, and weight gradients two fifths of that.
    pub(super) fn bubble(&self, spec: &RunSpec) -> Option<f64> {
        let shape = (self.stages, self.chunks, self.interleave);
        let split = spec.knobs.flag("late_weights");
        (self.stages > 1).then(|| schedule::bubble(shape, [1.0, 0.4], split))
    }

    /// What is asked of layers that may multiply before they aggregate.
    pub(super) fn aggregate_first(&self) -> AggregateFirst {
        match self.chunks {
            1 => AggregateFirst::Narrower,
            // A product would be of old weights where rows are historical.
            _ => AggregateFirst::Always,
        }
    }

    /// Into what vertices are cut: chunks, each again into a part for every rank of a stage.
    pub(super) fn parts(&self) -> Parts {
        let nested = match self.groups {
            1 => Nested::No,
            groups => Nested::Again(groups),
        };
        Parts::of(self.chunks).each(nested)
    }

    /// The layers of each piece of `whole`, of which no weights are read. Layers that read no neighbours
    /// are with those they stand beside: before the first such layer in the first piece, after the last in
    /// the last.
    pub(super) fn ranges(&self, whole: &Model) -> Vec<Range<usize>> {
        let reads = |l: &usize| whole.layer(*l).facts().is_some();
        let lead = (0..whole.layers()).find(reads).unwrap_or(0);
        let last = self.layers.len() - 1;
        let mut end = lead;
        let piece = |(s, count): (usize, &usize)| {
            let start = if s == 0 { 0 } else { end };
            end += count;
            start..if s == last { whole.layers() } else { end }
        };
        self.layers.iter().enumerate().map(piece).collect()
    }

    /// The stage of a rank, and its place among the ranks of the stage.
    pub(super) fn place(&self, spec: &RunSpec, rank: usize) -> (usize, usize) {
        match spec.knobs.word("mapping") {
            "pipelines" => (rank % self.stages, rank / self.stages),
            _ => (rank / self.groups, rank % self.groups),
        }
    }

    /// The rank at a place.
    pub(super) fn rank(&self, spec: &RunSpec, (stage, member): (usize, usize)) -> usize {
        match spec.knobs.word("mapping") {
            "pipelines" => member * self.stages + stage,
            _ => stage * self.groups + member,
        }
    }

    /// Who sends to whom: ranks of one place in stages beside each other, both ways and around.
    pub(super) fn neighbours(&self, spec: &RunSpec) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for member in 0..self.groups {
            for stage in 0..self.stages {
                let ends = [stage, (stage + 1) % self.stages];
                let [one, other] = ends.map(|stage| self.rank(spec, (stage, member)));
                pairs.extend([(one, other), (other, one)]);
            }
        }
        pairs
    }
}

/// Layers shared out so that the piece that takes longest takes as short as can be.
pub(super) const SHARE_OUT: ShareOut = ShareOut {
    first: |spec| Split::of(spec).map_or(AggregateFirst::Narrower, |split| split.aggregate_first()),
    settings: |spec, times| {
        let open = counts(spec.knobs.word("stages")).is_none();
        let Some(split) = Split::of(spec)
            .ok()
            .filter(|split| open && split.stages > 1)
        else {
            return Vec::new();
        };
        let lead = times.len().saturating_sub(spec.layers).min(1);
        let mut own: Vec<f64> = times[lead..][..spec.layers].to_vec();
        // Layers that read no neighbours are with those that they stand beside.
        own[0] += times[..lead].iter().sum::<f64>();
        own[spec.layers - 1] += times[lead + spec.layers..].iter().sum::<f64>();
        let list = evenly(&own, split.layers.len());
        let list: Vec<String> = list.iter().map(usize::to_string).collect();
        vec![("stages", Value::Str(list.join(",")))]
    },
};

/// Cuts a list into so many runs, none of them empty, of which the largest sum is the smallest: how long
/// each is. Of several such cuts one with runs about equally long.
fn evenly(times: &[f64], runs: usize) -> Vec<usize> {
    let n = times.len();
    let mut sums = vec![0.0];
    sums.extend(times.iter().scan(0.0, |sum, t| {
        *sum += t;
        Some(*sum)
    }));
    // The least largest sum of the first `end` in `k` runs, then the least sum of squared lengths.
    let mut best = vec![vec![(f64::INFINITY, usize::MAX, 0); n + 1]; runs + 1];
    best[0][0] = (0.0, 0, 0);
    for k in 1..=runs {
        for end in k..=n {
            for start in k - 1..end {
                let (largest, squares, _) = best[k - 1][start];
                let (here, length) = (sums[end] - sums[start], end - start);
                let found = (
                    largest.max(here),
                    squares.saturating_add(length * length),
                    start,
                );
                let (most, few, _) = best[k][end];
                let close = (found.0 - most).abs() <= 1e-9 * most;
                if found.0 < most && !close || close && found.1 < few {
                    best[k][end] = found;
                }
            }
        }
    }
    let mut lengths = vec![0; runs];
    let mut end = n;
    for k in (1..=runs).rev() {
        let start = best[k][end].2;
        (lengths[k - 1], end) = (end - start, start);
    }
    lengths
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
    if spec.knobs.word("schedule") == "1f1b" {
        return Err(refused(
            "one chunk forward, one backward (1f1b)".into(),
            "chunks go back in the reverse order, so that gradients are exact: the first to go back is the last to go forward".into(),
            "leave schedule out; interleave and late_weights shorten the bubble too".into(),
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

#[cfg(test)]
mod tests {
    use super::evenly;

    #[test]
    fn the_longest_run_is_as_short_as_can_be_and_equal_work_is_cut_equally() {
        assert_eq!(evenly(&[1.0; 8], 4), [2, 2, 2, 2]);
        assert_eq!(evenly(&[1.0; 7], 3).iter().max(), Some(&3));
        assert_eq!(evenly(&[6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2), [1, 6]);
        assert_eq!(evenly(&[3.0, 1.0, 1.0, 1.0], 4), [1, 1, 1, 1]);
        let mut times: Vec<f64> = (0..9).map(|k| f64::from((k * 7) % 5 + 1)).collect();
        times[4] = 4.0;
        for runs in 1..=4 {
            let lengths = evenly(&times, runs);
            assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (runs, 9));
            let largest = |lengths: &[usize]| {
                let mut start = 0;
                let sum = |n: &usize| {
                    start += n;
                    times[start - n..start].iter().sum::<f64>()
                };
                lengths.iter().map(sum).fold(0.0, f64::max)
            };
            let found = largest(&lengths);
            // All other cuts.
            for cut in 0..1u32 << 8 {
                if cut.count_ones() as usize + 1 == runs {
                    let mut other = vec![0];
                    for k in 0..9 {
                        *other.last_mut().expect("one") += 1;
                        if k < 8 && cut >> k & 1 == 1 {
                            other.push(0);
                        }
                    }
                    assert!(found <= largest(&other) + 1e-9, "{lengths:?}, {other:?}");
                }
            }
        }
    }
}
