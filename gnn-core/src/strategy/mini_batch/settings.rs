//! What the family's knobs say, read.

#[cfg(doc)]
use super::{CACHE, DEVICE, EMBEDDINGS, LINKS, NEIGHBOURS, TRAINERS};
use crate::error::{Error, Result};
use crate::feed::{Halo, LEAST, Learning, Room, RowOptimiser, SeedsBy, Turn};
use crate::sample::{FanOut, Neighbourhood};
use crate::spec::{RunSpec, TaskKind};
use std::sync::Arc;

/// How batches are drawn and made.
pub(in crate::strategy) struct Settings {
    pub(in crate::strategy) neighbours: NeighbourSettings,
    pub(in crate::strategy) links: LinkSettings,
    pub(in crate::strategy) cache: CacheSettings,
    /// Who trains on what, and who draws the in-edges of others' vertices.
    pub(in crate::strategy) seeds: SeedsBy,
    pub(in crate::strategy) halo: Halo,
    /// Batches of a rank in one step.
    pub(in crate::strategy) trainers: usize,
    /// Threads that make batches, and whether they do so beside the training.
    pub(in crate::strategy) workers: usize,
    pub(in crate::strategy) background: bool,
    /// Batches that may be ahead of the one that is trained on.
    pub(in crate::strategy) ahead: usize,
    /// Bytes of those batches at most; none for any number.
    pub(in crate::strategy) room: Option<u64>,
    /// Rows of a hop that are asked for in one go.
    pub(in crate::strategy) grain: usize,
    /// Who of other ranks is answered first.
    pub(in crate::strategy) turn: Turn,
    /// What a device of its own does and holds.
    pub(in crate::strategy) device: DeviceSettings,
    /// What is learnt of vertices.
    pub(in crate::strategy) learning: Option<Learning>,
    /// Evaluation takes no fewer rows apart.
    pub(in crate::strategy) least: usize,
    /// What random waits before answers are made of.
    #[cfg(test)]
    pub(in crate::strategy) delays: Option<u64>,
}

impl Settings {
    /// What [`NEIGHBOURS`], [`TRAINERS`], [`LINKS`], [`CACHE`], [`DEVICE`] and [`EMBEDDINGS`] say: seeds are shared out
    /// evenly, owners draw, and a batch is made when it is needed.
    ///
    /// # Errors
    /// [`Error::Spec`] for what cannot be read.
    pub(in crate::strategy) fn of(spec: &RunSpec) -> Result<Settings> {
        Ok(Settings {
            neighbours: NeighbourSettings::of(spec)?,
            trainers: spec.knobs.count("trainers"),
            links: LinkSettings::of(spec),
            cache: CacheSettings::of(spec)?,
            seeds: SeedsBy::Share,
            halo: Halo::Drawn,
            workers: 1,
            background: false,
            ahead: 0,
            room: None,
            grain: usize::MAX,
            turn: Turn::Arrival,
            device: DeviceSettings::of(spec),
            learning: learning(spec),
            least: LEAST,
            #[cfg(test)]
            delays: None,
        })
    }

    /// Refuses combinations that cannot be run.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what to do instead.
    pub(in crate::strategy) fn refuse(&self, spec: &RunSpec) -> Result<()> {
        let unsupported = |what: &str, reason: &str, help: &str| {
            Err(Error::Unsupported {
                what: format!("{what} with strategy {}", spec.strategy),
                reason: reason.into(),
                help: help.into(),
            })
        };
        if spec.decoupled {
            return unsupported(
                "decoupled = true",
                "it draws a neighbourhood for every layer, and dense layers read none",
                "set decoupled = false, or use neutrontp",
            );
        }
        if spec.knobs.flag("embedding_alone") && self.learning.is_none() {
            return unsupported(
                "embedding_alone = true",
                "nothing is learnt of vertices, so they would have no input",
                "set vertex_embedding to a width, for example 64",
            );
        }
        let drawn = &self.neighbours;
        let special = drawn.replace || drawn.by_degree || self.links.exclude;
        let by_type = drawn
            .fan_outs
            .iter()
            .any(|f| matches!(f, FanOut::PerType(_)));
        if drawn.rule.is_some() && (special || by_type) {
            return unsupported(
                "replace, bias, exclude or fan-outs by type",
                "its sampling function says how neighbours are drawn",
                "leave them out, or let the function have settings of its own",
            );
        }
        if drawn.rule.is_some() && self.cache.by == CacheBy::Inclusion {
            return unsupported(
                "cache_by = inclusion",
                "its sampling function does not say how likely it takes an edge",
                "set cache_by = presample, which counts",
            );
        }
        if self.device.draws && spec.backend != "cuda" {
            return unsupported(
                "draw_on = device",
                "there is no device with backend = cpu",
                "set backend = cuda, or leave draw_on out",
            );
        }
        if self.device.draws && (drawn.by_degree || self.links.exclude || by_type) {
            return unsupported(
                "draw_on = device and bias, exclude or fan-outs by type",
                "a device draws uniformly, from all edges",
                "leave draw_on out: the host draws them",
            );
        }
        if self.device.draws && drawn.rule.is_some() {
            return unsupported(
                "draw_on = device",
                "its sampling function is the host's",
                "leave draw_on out",
            );
        }
        if self.device.features == FeaturesOn::Host && spec.backend != "cuda" {
            return unsupported(
                "features_on = host",
                "there is nowhere else with backend = cpu",
                "set backend = cuda, or leave features_on out",
            );
        }
        if spec.task == TaskKind::Unsupervised && self.links.in_batch {
            return unsupported(
                "negative = in-batch and task = unsupervised",
                "others are drawn among all vertices that are not joined with one",
                "leave negative out",
            );
        }
        if self.trainers > 1 && self.learning.is_some_and(|l| l.synchronous) {
            return unsupported(
                "embedding_sync = true and several trainers",
                "embeddings of vertices are pulled and pushed by the batch, not by the step",
                "set trainers = 1, or embedding_sync = false",
            );
        }
        Ok(())
    }
}

/// What [`NEIGHBOURS`] say.
pub(in crate::strategy) struct NeighbourSettings {
    /// By layer.
    pub(in crate::strategy) fan_outs: Vec<FanOut>,
    /// Seeds of a trainer in one step; 0 for all.
    pub(in crate::strategy) batch: usize,
    pub(in crate::strategy) replace: bool,
    /// In-neighbours are drawn in proportion to their degree.
    pub(in crate::strategy) by_degree: bool,
    /// They are drawn by a rule that is written elsewhere.
    pub(in crate::strategy) rule: Option<Arc<dyn Neighbourhood>>,
}

/// What [`DEVICE`] says.
pub(in crate::strategy) struct DeviceSettings {
    /// It draws neighbours.
    pub(in crate::strategy) draws: bool,
    pub(in crate::strategy) features: FeaturesOn,
}

/// Where a rank's features lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::strategy) enum FeaturesOn {
    /// On the device where they fit, else in the host's memory.
    Auto,
    Device,
    /// In the host's memory, which the device reads.
    Host,
}

impl DeviceSettings {
    pub(in crate::strategy) fn of(spec: &RunSpec) -> DeviceSettings {
        DeviceSettings {
            draws: spec.knobs.word("draw_on") == "device",
            features: match spec.knobs.word("features_on") {
                "device" => FeaturesOn::Device,
                "host" => FeaturesOn::Host,
                _ => FeaturesOn::Auto,
            },
        }
    }
}

/// What [`LINKS`] say.
pub(in crate::strategy) struct LinkSettings {
    /// Negatives are of the same batch, and blocks without its edges.
    pub(in crate::strategy) in_batch: bool,
    pub(in crate::strategy) exclude: bool,
}

/// What [`CACHE`] says.
pub(in crate::strategy) struct CacheSettings {
    /// Rows of others that are kept.
    pub(in crate::strategy) room: Room,
    pub(in crate::strategy) by: CacheBy,
}

/// Which rows of others are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::strategy) enum CacheBy {
    /// Those of the highest degree.
    Degree,
    /// Those that an epoch drawn before reads most often.
    Presample,
    /// Those that a batch most likely reads.
    Inclusion,
}

impl NeighbourSettings {
    /// # Errors
    /// [`Error::Spec`] for fan-outs that cannot be read, or of another number of layers.
    pub(in crate::strategy) fn of(spec: &RunSpec) -> Result<NeighbourSettings> {
        let knobs = &spec.knobs;
        Ok(NeighbourSettings {
            fan_outs: fan_outs(spec)?,
            batch: knobs.count("batch"),
            replace: knobs.flag("replace"),
            by_degree: knobs.word("bias") == "degree",
            rule: None,
        })
    }
}

impl LinkSettings {
    pub(in crate::strategy) fn of(spec: &RunSpec) -> LinkSettings {
        LinkSettings {
            in_batch: spec.knobs.word("negative") == "in-batch",
            exclude: spec.knobs.flag("exclude"),
        }
    }
}

impl CacheSettings {
    /// # Errors
    /// [`Error::Spec`] for room that cannot be read.
    pub(in crate::strategy) fn of(spec: &RunSpec) -> Result<CacheSettings> {
        Ok(CacheSettings {
            room: Room::read(&spec.knobs.written("cache"))?,
            by: match spec.knobs.word("cache_by") {
                "presample" => CacheBy::Presample,
                "inclusion" => CacheBy::Inclusion,
                _ => CacheBy::Degree,
            },
        })
    }
}

/// What [`EMBEDDINGS`] say; none where nothing is learnt of vertices.
pub(in crate::strategy) fn learning(spec: &RunSpec) -> Option<Learning> {
    let knobs = &spec.knobs;
    let width = knobs.count("vertex_embedding");
    (width > 0).then(|| Learning {
        width,
        alone: knobs.flag("embedding_alone"),
        optimiser: match knobs.word("embedding_optimizer") {
            "adam" => RowOptimiser::Adam,
            _ => RowOptimiser::Adagrad,
        },
        lr: knobs.number("embedding_lr") as f32,
        synchronous: knobs.flag("embedding_sync"),
    })
}

/// A fan-out a layer.
fn fan_outs(spec: &RunSpec) -> Result<Vec<FanOut>> {
    let wrong = |reason: String| Error::Spec {
        key: "fanout".into(),
        reason,
        help: "write one number for all layers, or one a layer in the order in which they run, as \
               in fanout = \"10,25\"; all takes every in-neighbour, and 5/0/10 so many by type of \
               edges"
            .into(),
    };
    let written = spec.knobs.written("fanout");
    let one = |word: &str| fan_out(word).ok_or_else(|| wrong(format!("'{word}' is no number")));
    let mut fan_outs = written.split(',').map(one).collect::<Result<Vec<_>>>()?;
    if fan_outs.len() == 1 {
        fan_outs = vec![fan_outs[0].clone(); spec.layers];
    }
    if fan_outs.len() != spec.layers {
        let (has, layers) = (fan_outs.len(), spec.layers);
        return Err(wrong(format!("{has} fan-outs for {layers} layers")));
    }
    Ok(fan_outs)
}

/// `all`, a number, or numbers by type of edges as in `5/0/10`.
pub(super) fn fan_out(word: &str) -> Option<FanOut> {
    let number = |word: &str| word.trim().parse().ok();
    match word.trim() {
        "all" => Some(FanOut::All),
        word if word.contains('/') => {
            let each = word.split('/').map(number).collect::<Option<_>>();
            each.map(FanOut::PerType)
        }
        word => number(word).map(FanOut::Of),
    }
}
