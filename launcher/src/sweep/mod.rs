//! Many settings of one request, one run each, and a frame with a row for every one.
//!
//! ```text
//! sweeps/<id>/events.jsonl    what happened: begin, start, row, end; appended
//!            /sweep.json      the process that carries it out
//!            /stop            asks it to finish what runs, or to end it
//!            /frame.parquet   the rows so far, rewritten after each
//!            /setting-3.txt   what a setting wrote on standard error
//! ```
//!
//! Every setting is a `halobook train` of its own: one that is refused or fails is a row like any
//! other. Settings are run in a drawn order, so that a machine that slows down over the hours does not
//! look like an effect of what was swept.
//!
//! # Not done
//! What is reused is found by the request, not by the content of a file that it names: after changing
//! data under the same name, leave out `resume`.

mod condition;
mod going;
mod grid;
mod row;

pub use condition::Condition;
pub use going::{Standing, going, standing, stop, wait};
pub use grid::{Axis, Grid};
pub use row::{Numbers, Row, frame};

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::request::{Pair, parse_pairs};
use crate::{frames, store, sys};
use gnn_core::rng;
use gnn_core::spec::Value;
use gnn_core::strategy::{Entry, Exact, find_in};
use polars::prelude::DataFrame;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often running settings are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be done.
#[derive(Clone)]
pub struct Request {
    /// The strategies there are.
    pub strategies: &'static [Entry],
    /// What is swept.
    pub grid: Grid,
    /// All lists side by side instead of crossed.
    pub side_by_side: bool,
    /// Settings at a time.
    pub jobs: usize,
    /// In the order of the lists.
    pub in_order: bool,
    /// Finished runs of equal requests in earlier sweeps are taken as they are.
    pub resume: bool,
    /// Settings are started even where their plan does not fit.
    pub force: bool,
    /// No further setting once a row meets it.
    pub stop_if: Option<Condition>,
}

impl Request {
    /// The settings in the order in which they are run.
    ///
    /// # Errors
    /// [`Error::Refused`] for a key or a value that no run would take.
    fn drawn(&self) -> Result<Vec<Setting>> {
        let grid = &self.grid;
        let sets = grid.settings(self.side_by_side)?;
        let mut settings = Vec::with_capacity(sets.len());
        for set in sets {
            let pairs: Vec<Pair> = grid.fixed.iter().chain(&set).cloned().collect();
            let spec = parse_pairs(self.strategies, pairs.clone())?;
            let mut request = spec.to_pairs();
            // A strategy written in a cell is another one when its source is.
            let entry = find_in(self.strategies, &spec.strategy)?;
            if entry.exact == Exact::Unclaimed {
                request.push(("source".into(), Value::Str(entry.paper.into())));
            }
            let request = serde_json::to_string(&request);
            settings.push(Setting {
                row: Row {
                    set,
                    request: request.expect("pairs are plain values"),
                    ..Row::default()
                },
                pairs,
            });
        }
        if !self.in_order {
            rng::shuffle(rng::key(0, 0, rng::Purpose::Shuffle, 0), &mut settings);
        }
        for (setting, order) in settings.iter_mut().zip(0..) {
            setting.row.order = order;
        }
        Ok(settings)
    }

    /// The settings as words, in the order in which they are run.
    ///
    /// # Errors
    /// As [`Sweep::run`].
    pub fn settings(&self) -> Result<Vec<String>> {
        Ok(self.drawn()?.iter().map(|s| s.row.words()).collect())
    }
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// Every setting has a row.
    Whole,
    /// A row met the condition.
    Met,
    /// Somebody asked for it.
    Interrupted,
}

/// What happened, for whoever watches.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// So many settings are to be run.
    Begin {
        /// How many.
        settings: usize,
    },
    /// One begins.
    Start {
        /// Its place, from 0.
        order: u32,
        /// What is set.
        words: String,
        /// Its run.
        run_id: String,
    },
    /// One is done.
    Row(Box<Row>),
    /// The sweep is over.
    End {
        /// How.
        how: Ended,
        /// After how long, ms; none where an earlier version wrote it.
        #[serde(default)]
        wall_ms: Option<f64>,
    },
}

/// Folder of all sweeps.
pub fn sweeps_dir() -> PathBuf {
    store::home().join("sweeps")
}

/// Folder of a sweep: by its id, or `latest`.
///
/// # Errors
/// [`Error::Refused`] when there is none.
pub fn dir(id: &str) -> Result<PathBuf> {
    let none = || {
        Error::refused(
            format!("there is no sweep {id:?}"),
            "`halobook sweep` says the id of the one it runs; latest is the newest",
        )
    };
    let plain = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
    if id != "latest" {
        let dir = sweeps_dir().join(id);
        return if plain && dir.is_dir() {
            Ok(dir)
        } else {
            Err(none())
        };
    }
    all().pop().ok_or_else(none)
}

/// Folders of all sweeps, by name, which begins with the time.
fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sweeps_dir()).into_iter().flatten();
    let mut dirs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs
}

/// The rows of a sweep so far, as a frame.
///
/// # Errors
/// When it cannot be read.
pub fn load(dir: &Path) -> Result<DataFrame> {
    frames::read_named(&dir.join("frame.parquet"), "sweep")
}

/// The rows of a sweep so far. A line that is not whole is left out.
fn rows(dir: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
    let rows = text
        .lines()
        .filter_map(|line| match serde_json::from_str(line) {
            Ok(Event::Row(row)) => Some(*row),
            _ => None,
        });
    rows.collect()
}

/// A setting that is to be run.
struct Setting {
    row: Row,
    pairs: Vec<Pair>,
}

/// A setting that runs.
struct Running {
    row: Row,
    child: Child,
    run_dir: PathBuf,
    stderr: PathBuf,
}

/// A sweep under way.
pub struct Sweep<'a> {
    dir: PathBuf,
    program: PathBuf,
    request: Request,
    events: File,
    told: &'a mut dyn FnMut(&Event),
    rows: Vec<Row>,
    began: Instant,
}

impl<'a> Sweep<'a> {
    /// Makes the folder `id`; settings are runs of `program train`, and `told` hears what happens.
    ///
    /// # Errors
    /// When the id is taken, or the store cannot be written.
    pub fn new(
        id: &str,
        program: PathBuf,
        request: Request,
        told: &'a mut dyn FnMut(&Event),
    ) -> Result<Sweep<'a>> {
        let all = sweeps_dir();
        store::make(&all)?;
        let dir = all.join(id);
        std::fs::create_dir(&dir).map_err(Error::io(&dir))?;
        let path = dir.join("events.jsonl");
        let events = File::create(&path).map_err(Error::io(&path))?;
        going::Owner::this().write(&dir)?;
        Ok(Sweep {
            dir,
            program,
            request,
            events,
            told,
            rows: Vec::new(),
            began: Instant::now(),
        })
    }

    /// Runs all settings. Interrupts are counted by [`sys::catch_interrupts`], and [`stop()`] is like them: at
    /// the first, what runs is finished and the rest is left; at the second it is ended.
    ///
    /// # Errors
    /// When a request is wrong before anything starts, or the store cannot be written.
    pub fn run(mut self) -> Result<(Ended, Vec<Row>)> {
        let settings = self.request.drawn()?;
        let known = match self.request.resume {
            true => finished(&self.dir),
            false => Vec::new(),
        };
        self.tell(Event::Begin {
            settings: settings.len(),
        })?;
        let mut waiting = settings.into_iter();
        let mut running: Vec<Running> = Vec::new();
        let (mut met, mut ended_early) = (false, false);
        loop {
            let asked = sys::interrupts().max(going::asked(&self.dir));
            while asked == 0 && !met && running.len() < self.request.jobs.max(1) {
                let Some(setting) = waiting.next() else { break };
                let same = known.iter().find(|row| row.request == setting.row.request);
                match same {
                    Some(same) => met |= self.reuse(setting.row, same)?,
                    None => running.push(self.start(setting)?),
                }
            }
            if asked > 1 && !ended_early {
                ended_early = true;
                for one in &running {
                    // A run that has no folder yet is ended by its group.
                    if !crate::stop(&one.run_dir, true).is_ok_and(|was| was) {
                        sys::signal_group(one.child.id(), libc::SIGKILL);
                    }
                }
            }
            let mut k = 0;
            while k < running.len() {
                let done = running[k].child.try_wait();
                if matches!(done, Ok(None)) {
                    k += 1;
                    continue;
                }
                let one = running.swap_remove(k);
                met |= self.close(one)?;
            }
            let over = asked > 0 || met || waiting.len() == 0;
            if running.is_empty() && over {
                let how = match (met, waiting.len()) {
                    (true, _) => Ended::Met,
                    (false, 0) if !ended_early => Ended::Whole,
                    _ => Ended::Interrupted,
                };
                let wall_ms = Some(self.began.elapsed().as_secs_f64() * 1e3);
                self.tell(Event::End { how, wall_ms })?;
                return Ok((how, self.rows));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn start(&mut self, setting: Setting) -> Result<Running> {
        let run_id = store::new_id();
        let order = setting.row.order;
        let stderr = self.dir.join(format!("setting-{order}.txt"));
        let file = File::create(&stderr).map_err(Error::io(&stderr))?;
        let mut command = Command::new(&self.program);
        command.args(["train", "--quiet", "--run-id", &run_id]);
        if self.request.force {
            command.arg("--force");
        }
        for (key, value) in &setting.pairs {
            let value = match value {
                Value::Str(text) => toml::Value::String(text.clone()).to_string(),
                other => other.to_string(),
            };
            command.arg("--set").arg(format!("{key}={value}"));
        }
        // A group of its own: an interrupt of the terminal is ours to pass on.
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(Error::io(&self.program))?;
        self.tell(Event::Start {
            order,
            words: setting.row.words(),
            run_id: run_id.clone(),
        })?;
        Ok(Running {
            row: setting.row,
            child,
            run_dir: store::runs_dir().join(run_id),
            stderr,
        })
    }

    /// A setting has ended. Whether its row meets the condition.
    fn close(&mut self, one: Running) -> Result<bool> {
        let Running {
            mut row,
            run_dir,
            stderr,
            ..
        } = one;
        match Manifest::read(&run_dir) {
            Ok(manifest) => row.take(&run_dir, &manifest),
            Err(_) => {
                row.status = "refused".into();
                let said = std::fs::read_to_string(&stderr).unwrap_or_default();
                let line = |start: &str| said.lines().find_map(|l| l.strip_prefix(start));
                let why = line("error: ").unwrap_or("it ended without a word");
                let todo = line("help: ").map_or(String::new(), |h| format!(" ({h})"));
                row.error = Some(format!("{why}{todo}"));
            }
        }
        self.add(row)
    }

    fn reuse(&mut self, row: Row, same: &Row) -> Result<bool> {
        self.add(Row {
            order: row.order,
            set: row.set,
            reused: true,
            ..same.clone()
        })
    }

    fn add(&mut self, row: Row) -> Result<bool> {
        let met = self.request.stop_if.as_ref().is_some_and(|c| c.holds(&row));
        self.rows.push(row.clone());
        self.rows.sort_by_key(|row| row.order);
        let path = self.dir.join("frame.parquet");
        frames::write_named(&path, "sweep", &mut frame(&self.rows)?)?;
        self.tell(Event::Row(Box::new(row)))?;
        Ok(met)
    }

    fn tell(&mut self, event: Event) -> Result<()> {
        let mut line = serde_json::to_string(&event).expect("events are plain data");
        line.push('\n');
        let written = self.events.write_all(line.as_bytes());
        written.map_err(Error::io(&self.dir.join("events.jsonl")))?;
        (self.told)(&event);
        Ok(())
    }
}

/// The rows of finished runs of earlier sweeps whose runs are still there, the newest first.
fn finished(but: &Path) -> Vec<Row> {
    let dirs = all().into_iter().rev().filter(|dir| dir != but);
    let rows = dirs.flat_map(|dir| rows(&dir));
    let there = |row: &Row| {
        let run = row.run_id.as_ref().map(|id| store::runs_dir().join(id));
        let manifest = run.and_then(|dir| Manifest::read(&dir).ok());
        manifest.is_some_and(|m| m.version == env!("CARGO_PKG_VERSION"))
    };
    rows.filter(|row| row.status == "ok" && there(row))
        .collect()
}
