//! A strategy's entry in the registry.

use super::{Built, STRATEGIES, Setup};
use crate::ctx::Ctx;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::graph::Relations;
use crate::head::Head;
use crate::model::{AggregateFirst, LayerWork, ModelKind, Shape, work_of};
use crate::partition::{Parts, Throughputs};
use crate::record::frame::FrameDef;
use crate::spec::{AggregateWidth, KEYS, Knob, Knobs, RunSpec, SumOrder, Value};
use serde::{Deserialize, Serialize};

/// When a strategy gives exactly what `single` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// Always.
    Always,
    /// With these knobs.
    With(&'static [(&'static str, &'static str)]),
    /// Nobody has said so; whoever wants to know compares it with `single`.
    Unclaimed,
}

/// What is promised about repeating a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Determinism {
    /// The same bits for any number of ranks.
    Bitwise,
    /// The same bits for the same number of ranks.
    SameRanks,
    /// The same distribution.
    Statistical,
}

/// Settings that are filled in for a request, by name.
pub type Settings = Vec<(&'static str, Value)>;

/// How a strategy shares layers out.
#[derive(Clone, Copy)]
pub struct ShareOut {
    /// What it asks of layers that may multiply before they aggregate.
    pub first: fn(&RunSpec) -> AggregateFirst,
    /// From the time that each layer takes, in any unit, to settings that the request leaves open.
    pub settings: fn(&RunSpec, &[f64]) -> Settings,
}

impl ShareOut {
    /// What each layer of a request's model computes, as the strategy asks for it.
    pub fn work(&self, spec: &RunSpec, data: &Dataset) -> Vec<LayerWork> {
        let shape = Shape {
            d_in: data.features.dim(),
            d_out: Head::width(data, spec),
            relations: data.graph.relations().map_or(1, Relations::count),
            aggregate_first: (self.first)(spec),
        };
        work_of(spec, data, shape)
    }
}

/// All that is known of a strategy without running it.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name in a cell.
    pub name: &'static str,
    /// Link to the paper, or `baseline`.
    pub paper: &'static str,
    /// One line for listings.
    pub summary: &'static str,
    /// Models it can run.
    pub models: &'static [ModelKind],
    /// Fewest and most ranks.
    pub ranks: (usize, usize),
    /// Its settings.
    pub knobs: &'static [Knob],
    /// The frames it adds: what rows it writes with [`Ctx::row`].
    pub frames: &'static [FrameDef],
    /// When it is exact.
    pub exact: Exact,
    /// What is promised about repeating a run of this request.
    pub determinism: fn(&RunSpec) -> Determinism,
    /// Whether vertices are cut by the run's partitioner; if not, the strategy gives them owners itself,
    /// and [`Setup::owner`] is none.
    pub cut: bool,
    /// By which partitioner, where the request says `partition = auto` or nothing.
    pub partition: &'static str,
    /// Into what that partitioner cuts, one part a rank unless an entry says otherwise; [`Setup::owner`]
    /// and [`Setup::nested`] are the two levels.
    pub parts: fn(&RunSpec) -> Parts,
    /// Whether parts may be without vertices, so that there may be more of them than vertices.
    pub empty_parts: bool,
    /// Whether it works in the background and so needs letters beside collectives.
    pub background: bool,
    /// Whether it writes down what later epochs need ([`Strategy::save`](super::Strategy::save)), so
    /// that a run can go on from a checkpoint.
    pub resumes: bool,
    /// Fills in run keys that its own settings stand for.
    pub settle: fn(&mut RunSpec) -> Result<()>,
    /// Refuses combinations of settings that it cannot run, with words.
    pub refuse: fn(&RunSpec) -> Result<()>,
    /// What a reader of a run's results should know of it, by the request and the most training vertices that a
    /// rank has.
    pub notes: fn(&RunSpec, usize) -> Vec<String>,
    /// Settings that share a model's layers out among ranks, decided before the run and kept in its plan,
    /// from the time that each layer takes; none where there is nothing to share out.
    pub share_out: Option<ShareOut>,
    /// Settings that depend on how fast this machine moves rows, decided likewise from what was measured on
    /// it; none where there are none.
    pub moving: Option<fn(&mut RunSpec, &Throughputs)>,
    /// Builds it on a rank. Collective.
    pub build: fn(Setup, &mut Ctx) -> Result<Built>,
}

impl Entry {
    /// What most strategies are, for `Entry { name, build, ..Entry::BASE }`: a baseline that runs every
    /// model on any number of ranks over the run's cut, and claims nothing. It cannot be built.
    pub const BASE: Entry = Entry {
        name: "",
        paper: "baseline",
        summary: "",
        models: ModelKind::ALL,
        ranks: (1, usize::MAX),
        knobs: &[],
        frames: &[],
        exact: Exact::Unclaimed,
        determinism: |_| Determinism::SameRanks,
        cut: true,
        partition: "metis",
        parts: |spec| Parts::of(spec.ranks),
        empty_parts: false,
        background: false,
        resumes: false,
        settle: |_| Ok(()),
        refuse: |_| Ok(()),
        notes: |_, _| Vec::new(),
        share_out: None,
        moving: None,
        build: |_, cx| {
            Err(Error::Unsupported {
                what: format!("strategy {}", cx.plan.spec.strategy),
                reason: "its entry does not say how it is built".into(),
                help: "set `build` in its entry".into(),
            })
        },
    };

    /// Into what the vertices of a run are cut before its ranks start; none where nothing is cut.
    pub fn cut_into(&self, spec: &RunSpec) -> Option<Parts> {
        let parts = (self.parts)(spec);
        (self.cut && parts.total() != 1).then_some(parts)
    }

    /// Whether sums over ranks of this request are in the order of the ranks wherever they pass.
    pub fn sums_in_order(&self, spec: &RunSpec) -> bool {
        match spec.sums {
            SumOrder::Ordered => true,
            SumOrder::Any => false,
            SumOrder::Auto => (self.determinism)(spec) != Determinism::Statistical,
        }
    }

    /// Settings out of the pairs that no run key took.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a key nobody knows, [`Error::Spec`] for a value that is not
    /// allowed.
    pub fn parse_knobs(&self, pairs: Vec<(String, Value)>) -> Result<Knobs> {
        let run: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
        let read = Knobs::parse(self.name, self.knobs, pairs, &run);
        read.map_err(|error| match &error {
            Error::UnknownName { got, .. } => self.knob_of_others(got).unwrap_or(error),
            _ => error,
        })
    }

    /// What is said of a knob that other strategies have; none where no other has it.
    fn knob_of_others(&self, key: &str) -> Option<Error> {
        let has = |entry: &&Entry| entry.knobs.iter().any(|knob| knob.name == key);
        let owners: Vec<&str> = STRATEGIES
            .iter()
            .filter(has)
            .map(|entry| entry.name)
            .collect();
        (!owners.is_empty()).then(|| Error::Spec {
            key: key.to_owned(),
            reason: format!(
                "is a knob of {}, and this is {}",
                owners.join(" and "),
                self.name
            ),
            help: format!("leave it out, or choose strategy = {}", owners[0]),
        })
    }

    /// Refuses what this strategy cannot run.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what to do instead.
    pub fn check(&self, spec: &RunSpec) -> Result<()> {
        let (model, ranks) = (spec.model, spec.ranks);
        if !self.models.contains(&model) {
            let known: Vec<&str> = self.models.iter().map(|m| m.name()).collect();
            return Err(Error::Unsupported {
                what: format!("model {model} with strategy {}", self.name),
                reason: "this strategy does not run that model".into(),
                help: format!("{} runs {}", self.name, known.join(", ")),
            });
        }
        let (least, most) = self.ranks;
        if ranks < least || ranks > most {
            let wanted = if most == 1 {
                "one rank".into()
            } else {
                format!("{least} to {most} ranks")
            };
            return Err(Error::Unsupported {
                what: format!("{ranks} ranks with strategy {}", self.name),
                reason: format!("it runs on {wanted}"),
                help: "set ranks (-n), or choose another strategy, for example halo".into(),
            });
        }
        if self.background && spec.aggregate_width == AggregateWidth::Hidden {
            return Err(Error::Unsupported {
                what: format!("aggregate_width = hidden with strategy {}", self.name),
                reason: "layers of a mini-batch aggregate what they read before they multiply"
                    .into(),
                help: "leave the key out, or choose a full-graph strategy, for example halo".into(),
            });
        }
        if spec.checkpoint_every > 0 && !self.resumes {
            return Err(crate::checkpoint::unsupported(self.name));
        }
        self.check_frames()?;
        (self.refuse)(spec)
    }

    /// Refuses frames that cannot be, or that a built-in strategy of the same frame declares otherwise.
    fn check_frames(&self) -> Result<()> {
        for frame in self.frames {
            frame.check()?;
            let same_name = |other: &&Entry| other.frames.iter().any(|f| f.name == frame.name);
            let of = STRATEGIES.iter().find(same_name);
            if let Some(other) = of.filter(|other| !other.frames.contains(frame)) {
                return Err(Error::Unsupported {
                    what: format!("frame {:?} of strategy {}", frame.name, self.name),
                    reason: format!("it is one of {}, with other columns", other.name),
                    help: "call it otherwise".into(),
                });
            }
        }
        Ok(())
    }
}
