//! Plots: pure functions of frames to a static SVG and its text twin.
//!
//! | kind | reads | shows |
//! |---|---|---|
//! | [`curve()`] | `epochs` | loss and accuracy by epoch or second, best validation epoch, early ends |
//! | [`stack()`] | `epochs` | where each epoch's time went, hidden communication outlined above |
//! | [`balance()`] | `ranks` | compute and wait of each rank, with the nodes it holds |
//! | [`gantt()`] | `spans` | what each rank did when, in one epoch |
//! | [`matrix()`] | `comm` | bytes from rank to rank |
//! | [`stale()`] | `stale`, or `hec` | which epochs sent rows, and how far old ones were from the present |
//! | [`transfers()`] | `transfers` | rows that devices load, and the time of copying |
//! | [`schedule()`] | `schedule` | when mini-batches were begun, and why then |
//! | [`hec()`] | `hec` | what historical caches find, what is lost, and what they cost |
//! | [`plan()`] | `ranks` | memory and time as they were planned, against what was measured |
//! | [`speedup()`] | `epochs` of many runs | what more ranks bring, and how efficiently |
//! | [`pareto()`] | `epochs` of many runs | time and bytes until a score is reached |
//! | [`partition()`] | a cut's report | a small graph by owner, a large one as edges from part to part |
//!
//! Nothing here reads a file: a [`Case`] carries a run's [`Setting`] and frame. A frame that has
//! no rows yet gives a sheet that says so. Every figure names its data, marks generated data
//! *synthetic*, and is stamped with the setting it was measured in.

pub(crate) mod axes;
mod balance;
mod curve;
mod curve_panel;
mod facets;
mod gantt;
mod gantt_chunks;
mod gantt_lanes;
mod gantt_zoom;
mod group;
mod hec;
pub(crate) mod ink;
mod interactive;
mod matrix;
mod matrix_grid;
mod panels;
pub(crate) mod paper;
mod pareto;
mod partition;
mod partition_graph;
mod places;
mod plan;
mod read;
mod saved;
mod schedule;
pub(crate) mod setting;
pub(crate) mod sheet;
mod speedup;
mod stack;
mod stack_epochs;
mod stack_runs;
mod stale;
pub(crate) mod text;
mod transfers;
pub(crate) mod units;

pub use balance::balance;
pub use curve::{Axis, Band, curve};
pub use gantt::{View, gantt};
pub use hec::hec;
pub use interactive::{MIME as INTERACTIVE, interactive};
pub use matrix::{matrix, matrix_by_layer};
pub use pareto::pareto;
pub use partition::{cut, partition};
pub use plan::plan;
pub use schedule::schedule;
pub use setting::{Case, Setting};
pub use speedup::speedup;
pub use stack::{parts, stack};
pub use stale::stale;
pub use transfers::transfers;

pub use crate::run::compare;

pub(crate) use matrix_grid::ink_on;
pub(crate) use paper::escape;
pub(crate) use read::{need, warmup, words};
pub(crate) use units::{digits, median};

use sheet::{Head, Type, sheet, word};

/// A static figure and its text twin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// A whole SVG document without scripts or outside references.
    pub svg: String,
    /// The same facts as a small table, for consoles and screen readers.
    pub text: String,
}

/// Why there is no plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// No kind of that name.
    #[error("no plot kind \"{asked}\"{}\nhelp: kinds are {}", near(.asked), names())]
    Kind {
        /// What was asked for.
        asked: String,
    },
    /// A frame lacks a column the plot cannot do without.
    #[error(
        "the {frame} frame has no column \"{column}\"\nhelp: pass the run's own {frame} frame, unprojected"
    )]
    Column {
        /// The frame's name.
        frame: String,
        /// The missing column.
        column: String,
    },
    /// The kind shows another number of runs.
    #[error("plot {kind} shows one run, got {got}\nhelp: plot them one by one")]
    OneRun {
        /// The kind.
        kind: &'static str,
        /// How many runs were given.
        got: usize,
    },
    /// A run or one of its frames could not be read.
    #[error("{0}")]
    Run(String),
    /// Drawing failed.
    #[error("drawing failed: {0}")]
    Draw(String),
}

impl PlotError {
    pub(crate) fn draw(error: impl std::fmt::Display) -> Self {
        PlotError::Draw(error.to_string())
    }
}

/// A kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`curve()`] over epochs.
    Curve,
    /// [`curve()`] over training seconds.
    CurveSeconds,
    /// [`stack()`].
    Stack,
    /// [`balance()`].
    Balance,
    /// [`gantt()`].
    Gantt,
    /// [`matrix()`].
    Matrix,
    /// [`matrix_by_layer`].
    MatrixLayers,
    /// [`stale()`].
    Stale,
    /// [`transfers()`].
    Transfers,
    /// [`schedule()`].
    Schedule,
    /// [`hec()`].
    Hec,
    /// [`plan()`].
    Plan,
    /// [`speedup()`].
    Speedup,
    /// [`pareto()`].
    Pareto,
    /// [`partition()`].
    Partition,
}

/// All kinds with their names and what they show, in the order help lists them.
pub const KINDS: &[(&str, Kind, &str)] = &[
    ("curve", Kind::Curve, "loss and accuracy by epoch"),
    (
        "curve-seconds",
        Kind::CurveSeconds,
        "loss and accuracy by training seconds",
    ),
    ("stack", Kind::Stack, "where the time of each epoch went"),
    (
        "balance",
        Kind::Balance,
        "compute, wait and nodes of each rank",
    ),
    (
        "gantt",
        Kind::Gantt,
        "what each rank did when, in one epoch of a traced run",
    ),
    ("matrix", Kind::Matrix, "bytes from rank to rank"),
    (
        "matrix-layers",
        Kind::MatrixLayers,
        "bytes from rank to rank, layer by layer",
    ),
    (
        "stale",
        Kind::Stale,
        "epochs that sent rows, age and drift of reused ones",
    ),
    (
        "transfers",
        Kind::Transfers,
        "rows between host and device, and what copying takes",
    ),
    (
        "schedule",
        Kind::Schedule,
        "when mini-batches were begun, and why then",
    ),
    (
        "hec",
        Kind::Hec,
        "what historical caches find, and what is lost without them",
    ),
    (
        "plan",
        Kind::Plan,
        "planned memory and time against measured ones",
    ),
    (
        "speedup",
        Kind::Speedup,
        "speed-up and efficiency by number of ranks",
    ),
    (
        "pareto",
        Kind::Pareto,
        "time and bytes until a score is reached",
    ),
    (
        "partition",
        Kind::Partition,
        "the graph by owner, or edges from part to part",
    ),
];

impl Kind {
    /// The kind called `name`.
    ///
    /// # Errors
    /// [`PlotError::Kind`] with the nearest name.
    pub fn parse(name: &str) -> Result<Kind, PlotError> {
        let asked = name.trim().replace('_', "-").to_ascii_lowercase();
        KINDS
            .iter()
            .find(|(known, ..)| *known == asked)
            .map(|(_, kind, _)| *kind)
            .ok_or_else(|| PlotError::Kind {
                asked: name.to_owned(),
            })
    }

    /// The frame this kind reads of a run that has `frames`: rows of historical caches are old ones, too.
    pub fn frame_of(self, frames: &[String]) -> &'static str {
        match self {
            Kind::Stale if frames.iter().any(|name| name == "hec") => "hec",
            kind => kind.frame(),
        }
    }

    /// The frame this kind reads: `epochs`, `ranks`, `comm`, `stale`, `transfers`, `schedule`, `hec`,
    /// `spans` or `partition`.
    pub fn frame(self) -> &'static str {
        match self {
            Kind::Curve | Kind::CurveSeconds | Kind::Stack | Kind::Speedup | Kind::Pareto => {
                "epochs"
            }
            Kind::Balance | Kind::Plan => "ranks",
            Kind::Gantt => "spans",
            Kind::Matrix | Kind::MatrixLayers => "comm",
            Kind::Stale => "stale",
            Kind::Transfers => "transfers",
            Kind::Schedule => "schedule",
            Kind::Hec => "hec",
            Kind::Partition => "partition",
        }
    }

    /// Draws `cases`.
    ///
    /// # Errors
    /// A missing column, or more runs than the kind can show.
    pub fn draw(self, cases: &[Case]) -> Result<Plot, PlotError> {
        self.draw_with(cases, Band::default())
    }

    /// Like [`Kind::draw`], with what seeds become in curves.
    ///
    /// # Errors
    /// As there.
    pub fn draw_with(self, cases: &[Case], band: Band) -> Result<Plot, PlotError> {
        match self {
            Kind::Curve => curve(cases, Axis::Epoch, band),
            Kind::CurveSeconds => curve(cases, Axis::Seconds, band),
            Kind::Stack => stack(cases),
            Kind::Balance => balance(one(cases, "balance")?),
            Kind::Gantt => gantt(one(cases, "gantt")?, View::default()),
            Kind::Matrix => matrix(one(cases, "matrix")?),
            Kind::MatrixLayers => matrix_by_layer(one(cases, "matrix-layers")?),
            Kind::Stale => stale(one(cases, "stale")?),
            Kind::Transfers => transfers(one(cases, "transfers")?),
            Kind::Schedule => schedule(one(cases, "schedule")?),
            Kind::Hec => hec(one(cases, "hec")?),
            Kind::Plan => plan(cases),
            Kind::Speedup => speedup(cases),
            Kind::Pareto => pareto(cases),
            Kind::Partition => partition(one(cases, "partition")?),
        }
    }
}

fn one<'a>(cases: &'a [Case], kind: &'static str) -> Result<&'a Case, PlotError> {
    match cases {
        [case] => Ok(case),
        _ => Err(PlotError::OneRun {
            kind,
            got: cases.len(),
        }),
    }
}

fn names() -> String {
    let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
    names.join(", ")
}

fn near(asked: &str) -> String {
    let near = gnn_core::error::nearest(asked, KINDS.iter().map(|kind| kind.0));
    near.map_or(String::new(), |name| format!("; did you mean \"{name}\"?"))
}

/// A sheet without data, saying why.
pub(crate) fn blank(title: &str, why: &str, settings: &[&Setting]) -> Result<Plot, PlotError> {
    let foot = setting::stamp(settings);
    let head = Head {
        title: title.to_owned(),
        subtitle: String::new(),
        desc: why.to_owned(),
        legend: Vec::new(),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (760, 110), |area| {
        word(area, why, (380, 50), Type::new(14).faint().centered())
    })?;
    let text = twin(title, &[why.to_owned()], "", &foot);
    Ok(Plot { svg, text })
}

/// The text twin's frame: title, notes, table, stamp.
pub(crate) fn twin(title: &str, notes: &[String], table: &str, foot: &[String]) -> String {
    let mut out = format!("{title}\n");
    for note in notes.iter().filter(|n| !n.is_empty()) {
        out += &format!("{note}\n");
    }
    if !table.is_empty() {
        out += &format!("\n{table}\n");
    }
    for line in foot {
        out += &format!("{line}\n");
    }
    out
}
