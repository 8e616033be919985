//! A run in the store, as cells hold it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use launcher::Result;
use launcher::probe::Probe;
use polars::prelude::DataFrame;

use crate::in_words::or_end;
use crate::interrupt;
use crate::plot::{Band, Case, Kind, Plot, PlotError, Setting, View, gantt};
use crate::source::{self, Manifest};

/// A run: its id and its folder, nothing else.
///
/// Every question is answered from the disk at the moment it is asked, so a `Run` stays true while
/// the run goes on, and a copy costs nothing.
///
/// ```no_run
/// use halobook::prelude::*;
/// let r1 = Run::open("latest");
/// let slow = r1.epochs().lazy().filter(col("wait_ms").gt(1.0)).collect()?;
/// r1.plot("stack");
/// # Ok::<(), PolarsError>(())
/// ```
///
/// Frames come as plain [`DataFrame`]s because a cell reads better without `?` on every line: what
/// cannot be answered ends the cell with one line what is wrong. Use [`Run::try_open`],
/// [`Run::try_frame`] and [`Run::try_plot`] in code that handles errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    id: String,
    dir: PathBuf,
}

impl Run {
    /// The run called `id`: a whole id, a beginning that fits one run only, a name, or `latest`.
    ///
    /// # Panics
    /// When the store has no such run.
    #[track_caller]
    pub fn open(id: &str) -> Run {
        or_end(Run::try_open(id))
    }

    /// Like [`Run::open`].
    ///
    /// # Errors
    /// When the store has no such run, or several.
    pub fn try_open(id: &str) -> Result<Run> {
        Ok(Run::at(source::run_dir(id)?))
    }

    /// The run whose folder is `dir`, inside or outside the store.
    pub fn at(dir: impl AsRef<Path>) -> Run {
        let dir = dir.as_ref().to_path_buf();
        let id = dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Run {
            id: id.unwrap_or_default(),
            dir,
        }
    }

    /// Id in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `running`, `ok`, `interrupted`, `failed` or `stalled`.
    ///
    /// # Panics
    /// When the run's folder is gone.
    pub fn status(&self) -> String {
        self.manifest().status.label().to_owned()
    }

    /// Waits until the run has ended, however it ends; an interrupt ends the waiting, and the run goes on.
    ///
    /// # Panics
    /// When the run's folder is gone.
    pub fn wait(&self) -> &Run {
        while self.status() == "running" {
            interrupt::sleep(Duration::from_millis(100));
        }
        self
    }

    /// The manifest: the settings, the final numbers, the machine.
    ///
    /// # Panics
    /// When the run's folder is gone.
    #[track_caller]
    pub fn manifest(&self) -> Manifest {
        or_end(source::manifest(&self.dir))
    }

    /// One row an epoch: loss, accuracy, and where the time went.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn epochs(&self) -> DataFrame {
        or_end(self.try_frame("epochs"))
    }

    /// One row an epoch and rank: time, traffic and memory of each rank.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn ranks(&self) -> DataFrame {
        or_end(self.try_frame("ranks"))
    }

    /// One row an epoch, layer, direction, pair of ranks and operation: bytes and messages.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn comm(&self) -> DataFrame {
        or_end(self.try_frame("comm"))
    }

    /// One row an epoch, layer, owner of rows and their reader: whether they were sent, how old the
    /// ones used were, and what that saved. Empty for strategies that reuse nothing.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn stale(&self) -> DataFrame {
        or_end(self.try_frame("stale"))
    }

    /// One row an epoch and rank of mini-batches: time to make them, and how much of it was hidden; rows
    /// by where they came from. Empty for strategies that train on the whole graph.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn batches(&self) -> DataFrame {
        or_end(self.try_frame("batches"))
    }

    /// One row an epoch, rank and layer of mini-batches: sizes of blocks, and how often a vertex was
    /// computed. Empty for strategies that train on the whole graph.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn hops(&self) -> DataFrame {
        or_end(self.try_frame("hops"))
    }

    /// One row a mini-batch that was begun by a launch score: why then, with which queue and use of the cores.
    /// Empty for other strategies than `bytegnn`.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn schedule(&self) -> DataFrame {
        or_end(self.try_frame("schedule"))
    }

    /// One row an epoch, rank and layer: what historical caches found of other ranks' vertices, what was dropped, and
    /// what was pushed. Empty for other strategies than `distgnn-mb`.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn hec(&self) -> DataFrame {
        or_end(self.try_frame("hec"))
    }

    /// One row an epoch and rank of mini-batches: where the time of its steps went, by the clock.
    /// Empty for strategies that train on the whole graph.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn steps(&self) -> DataFrame {
        or_end(self.try_frame("steps"))
    }

    /// One row a vertex: its class and set, where it has any, and what the model makes of it in the end, a
    /// column each. Of runs with `keep_embeddings = true`.
    ///
    /// # Panics
    /// When the run has kept none.
    #[track_caller]
    pub fn embeddings(&self) -> DataFrame {
        or_end(self.try_frame("embeddings"))
    }

    /// What those are worth for the classes of vertices: a linear probe, fitted to the training vertices.
    ///
    /// # Panics
    /// When the run has kept none, or its data has no classes.
    #[track_caller]
    pub fn probe(&self) -> Probe {
        or_end(launcher::probe::probe(&self.embeddings()))
    }

    /// One row a span: what each rank did when. Empty for runs without `trace = true`.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn spans(&self) -> DataFrame {
        or_end(self.try_frame("spans"))
    }

    /// One row a part of the graph: nodes, edges, halo, cut.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn partition(&self) -> DataFrame {
        or_end(self.try_frame("partition"))
    }

    /// The run in one row: its setting, its status, its results.
    ///
    /// # Panics
    /// When the frame cannot be read.
    #[track_caller]
    pub fn summary(&self) -> DataFrame {
        or_end(self.try_frame("runs"))
    }

    /// Any frame by name: those of every run, and those that strategies add
    /// ([`Run::frames`] names them).
    ///
    /// # Panics
    /// An unknown name, or a frame that cannot be read.
    #[track_caller]
    pub fn frame(&self, name: &str) -> DataFrame {
        or_end(self.try_frame(name))
    }

    /// Names of the run's frames: those of every run, and those that its strategy adds.
    ///
    /// # Panics
    /// When the run's folder cannot be read.
    #[track_caller]
    pub fn frames(&self) -> Vec<String> {
        or_end(source::frames_of(&self.dir))
    }

    /// Like [`Run::frame`].
    ///
    /// # Errors
    /// An unknown name, or what the disk says.
    pub fn try_frame(&self, name: &str) -> Result<DataFrame> {
        source::load(&self.dir, name)
    }

    /// A plot of this run: `curve`, `stack`, `balance`, `gantt`, `matrix`, `stale`, `plan`,
    /// `partition` ([`KINDS`](crate::plot::KINDS)).
    ///
    /// # Panics
    /// An unknown kind, or a frame that cannot be read.
    #[track_caller]
    pub fn plot(&self, kind: &str) -> Plot {
        or_end(self.try_plot(kind))
    }

    /// The plot `gantt` of one epoch, or of a part of one.
    ///
    /// # Errors
    /// An epoch that has no spans, a part beyond its end, or a frame that cannot be read.
    pub fn try_gantt(&self, view: View) -> std::result::Result<Plot, PlotError> {
        let words = |e: launcher::Error| PlotError::Run(source::in_words(&e));
        let case = Case {
            setting: self.setting().map_err(words)?,
            frame: self.try_frame("spans").map_err(words)?,
            cut: None,
        };
        if let Some(epoch) = view.epoch
            && case.frame.height() > 0
            && !source::has_epoch(&case.frame, epoch).map_err(words)?
        {
            return Err(PlotError::Run(format!(
                "epoch {epoch} of run {} has no spans\nhelp: %%sql says which have: \
                 SELECT DISTINCT epoch FROM spans",
                self.id
            )));
        }
        gantt(&case, view)
    }

    /// Like [`Run::plot`].
    ///
    /// # Errors
    /// An unknown kind, or a frame that cannot be read.
    pub fn try_plot(&self, kind: &str) -> std::result::Result<Plot, PlotError> {
        try_compare(&[self], kind)
    }

    /// The setting that plots are stamped with.
    ///
    /// # Errors
    /// When the manifest cannot be read.
    pub fn setting(&self) -> Result<Setting> {
        Ok(source::setting(&source::manifest(&self.dir)?))
    }
}

/// Several runs in one plot, in the order given: `curve`, `stack` and `plan`.
///
/// # Panics
/// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
#[track_caller]
pub fn compare(runs: &[&Run], kind: &str) -> Plot {
    or_end(try_compare(runs, kind))
}

/// Like [`compare`].
///
/// # Errors
/// An unknown kind, a kind that shows one run only, or a frame that cannot be read.
pub fn try_compare(runs: &[&Run], kind: &str) -> std::result::Result<Plot, PlotError> {
    compare_with(runs, kind, Band::default())
}

fn compare_with(runs: &[&Run], kind: &str, band: Band) -> std::result::Result<Plot, PlotError> {
    let kind = Kind::parse(kind)?;
    kind.draw_with(&cases(runs, kind)?, band)
}

/// The same runs as a figure that a front end draws, with zoom ([`interactive`](crate::plot::interactive)).
///
/// # Errors
/// As there, and an unknown kind.
pub fn interactive(
    runs: &[&Run],
    kind: &str,
    view: View,
) -> std::result::Result<serde_json::Value, PlotError> {
    let kind = Kind::parse(kind)?;
    crate::plot::interactive(kind, &cases(runs, kind)?, view)
}

/// The runs as a plot of `kind` reads them.
fn cases(runs: &[&Run], kind: Kind) -> std::result::Result<Vec<Case>, PlotError> {
    let case = |run: &&Run| {
        Ok(Case {
            setting: run.setting()?,
            frame: run.try_frame(kind.frame_of(&source::frames_of(&run.dir)?))?,
            cut: match kind {
                Kind::Partition => source::cut(&run.dir.join("partition.json"))?,
                _ => None,
            },
        })
    };
    let cases: Result<Vec<Case>> = runs.iter().map(case).collect();
    cases.map_err(|e| PlotError::Run(source::in_words(&e)))
}

/// A plot of all runs of a sweep that have ended well: `curve`, `stack`, `plan`, `speedup` or `pareto`; a `curve`
/// has seeds as `band` says.
///
/// # Errors
/// A kind that shows one run only, or a sweep that cannot be read.
pub fn plot_sweep(id: &str, kind: &str, band: Band) -> std::result::Result<Plot, PlotError> {
    let words = |e: launcher::Error| PlotError::Run(source::in_words(&e));
    let runs: Result<Vec<Run>> = source::sweep_runs(id)
        .map_err(words)?
        .iter()
        .map(|id| Ok(Run::at(source::run_dir(id)?)))
        .collect();
    let runs = runs.map_err(words)?;
    compare_with(&runs.iter().collect::<Vec<_>>(), kind, band)
}

/// The frame of a cut by its id, as `%partition -o` binds it.
///
/// # Panics
/// When there is no such cut.
#[track_caller]
pub fn partition(id: &str) -> DataFrame {
    or_end(source::cut_frame(id))
}

/// The frame of a plan by its id, as `%plan -o` binds it.
///
/// # Panics
/// When there is no such plan.
#[track_caller]
pub fn plan(id: &str) -> DataFrame {
    or_end(source::plan(id))
}

/// The plot of the cut whose folder is `dir`: `partition`.
///
/// # Errors
/// Another kind, or a folder that cannot be read.
pub fn plot_partition(dir: impl AsRef<Path>, kind: &str) -> std::result::Result<Plot, PlotError> {
    if Kind::parse(kind)? != Kind::Partition {
        return Err(PlotError::Run(format!(
            "plot {kind} shows a run, and this is a partition\nhelp: its kind is partition"
        )));
    }
    let dir = dir.as_ref();
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    let words = |e: launcher::Error| PlotError::Run(source::in_words(&e));
    let report = source::cut(&dir.join("report.json")).map_err(words)?;
    let report = report.ok_or_else(|| PlotError::Run(format!("there is no partition {id}")))?;
    crate::plot::cut(&report, &id)
}

/// The frame of a sweep by its id, or `latest`: one row a setting, as `%%sweep -o` binds it.
///
/// # Panics
/// When there is no such sweep, or no setting of it has ended.
#[track_caller]
pub fn sweep(id: &str) -> DataFrame {
    or_end(source::sweep(id))
}

/// The answer of a query, as `%%sql -o` binds it.
///
/// # Panics
/// When there is none of that id.
#[track_caller]
pub fn kept(id: &str) -> DataFrame {
    or_end(source::kept(id))
}

/// Every run in the store, one row each, the oldest first.
///
/// # Panics
/// When the store cannot be read.
#[track_caller]
pub fn runs() -> DataFrame {
    or_end(source::runs())
}

/// One line: `run 20260101-120000-ab12: ok, halo on 4 ranks, gcn on karate, 200 epochs`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}", self.id)?;
        let Ok(manifest) = source::manifest(&self.dir) else {
            return write!(f, ": its folder cannot be read");
        };
        let setting = source::setting(&manifest);
        write!(
            f,
            ": {}, {} on {}, {} on {}, {}",
            setting.status,
            setting.strategy,
            plural(u64::from(setting.ranks), "rank"),
            setting.model,
            setting.data_label(),
            plural(u64::from(manifest.epochs_done), "epoch"),
        )
    }
}

pub(crate) fn plural(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}
