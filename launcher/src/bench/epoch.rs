//! Forms of ours and of theirs in turn, round after round.
//!
//! In each round every form trains once in a process of its own; a slow minute of the machine hits
//! all of them. Medians are over the epochs of all rounds.

use super::export::Folder;
use super::others::{Watch, wait_for_quiet};
use super::ours::{Epochs, PHASES, Runner};
use super::python::{Python, Silence, newest};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::sys;
use gnn_core::model::{Memory, ModelKind};
use gnn_core::spec::{FirstAggregate, OptimiserKind, RunSpec, TaskKind};
use kernels::bench::Spread;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What is to be timed.
#[derive(Debug)]
pub struct Request {
    /// The run; both settings of `first_aggregate` are timed where both are possible.
    pub spec: RunSpec,
    /// How often every form trains.
    pub rounds: usize,
    /// Seconds of timed epochs after which a form of theirs ends a round early.
    pub seconds: f64,
    /// How long each training waits at most for others to leave the machine.
    pub patience: Duration,
    /// Pythons to compare with.
    pub pythons: Vec<Python>,
}

/// Whose code a form is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ours.
    Ours,
    /// Layers of a library as they come.
    Stock,
    /// Written by hand on PyTorch.
    Tuned,
}

impl Kind {
    /// The word in tables.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Stock => "stock",
            Kind::Tuned => "hand-tuned",
        }
    }
}

/// One form and what it measured.
#[derive(Debug)]
pub struct Form {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// Whether the constant first aggregate is computed once.
    pub once: bool,
    /// Library and version.
    pub version: String,
    /// Milliseconds of every timed epoch, by round.
    pub rounds: Vec<Vec<f64>>,
    /// Milliseconds by phase of every timed epoch (ours).
    pub phases: Vec<[f64; PHASES.len()]>,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
    /// Of it, what was resident when the libraries were loaded and nothing else (theirs).
    pub libraries_bytes: u64,
    /// Training loss of the first and the last epoch.
    pub losses: (f64, f64),
    /// Most cores that others used during one of its rounds.
    pub others: Option<f64>,
    /// Why it has no figures.
    pub failure: Option<String>,
    python: Option<Python>,
}

/// All forms, and what they trained on.
#[derive(Debug)]
pub struct Outcome {
    /// The run as it was resolved.
    pub spec: RunSpec,
    /// Vertices, edges, features, classes.
    pub size: [usize; 4],
    /// Threads of a rank.
    pub threads: usize,
    /// What the run needs by formula, where there is one.
    pub planned: Option<Memory>,
    /// The forms, ours first.
    pub forms: Vec<Form>,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// Ours against the fastest of theirs of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// Ours.
    pub ours: &'static str,
    /// Theirs.
    pub theirs: &'static str,
    /// Kind of theirs.
    pub kind: Kind,
    /// Their median time over ours.
    pub speed: f64,
    /// Our peak memory over theirs.
    pub memory: f64,
}

impl Form {
    fn new(name: &'static str, kind: Kind, once: bool, version: String) -> Form {
        Form {
            name,
            kind,
            once,
            version,
            rounds: Vec::new(),
            phases: Vec::new(),
            peak_bytes: 0,
            libraries_bytes: 0,
            losses: (f64::NAN, f64::NAN),
            others: None,
            failure: None,
            python: None,
        }
    }

    fn theirs(name: &'static str, kind: Kind, once: bool, python: &Python) -> Form {
        let with = match kind {
            _ if name.starts_with("dgl") => {
                format!("DGL {}, ", python.dgl.as_deref().unwrap_or(""))
            }
            Kind::Stock => format!("PyG {}, ", python.pyg.as_deref().unwrap_or("")),
            _ => String::new(),
        };
        let mut form = Form::new(name, kind, once, format!("{with}torch {}", python.torch));
        form.python = Some(python.clone());
        form
    }

    /// Quartiles of all timed epochs; `None` when it failed.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.rounds.concat()).filter(|_| self.failure.is_none())
    }

    /// Median milliseconds of each phase (ours).
    pub fn phase_medians(&self) -> Vec<f64> {
        let median = |k: usize| {
            let of: Vec<f64> = self.phases.iter().map(|p| p[k]).collect();
            Spread::of(&of).map_or(0.0, |s| s.median)
        };
        (0..PHASES.len()).map(median).collect()
    }
}

/// Fan-outs and seeds of a request that trains on mini-batches, where they are plain numbers; none for one that
/// trains on the full graph.
fn drawn(spec: &RunSpec) -> Option<Result<(Vec<usize>, usize)>> {
    let entry = gnn_core::strategy::find(&spec.strategy).ok()?;
    if !entry.knobs.iter().any(|knob| knob.name == "fanout") {
        return None;
    }
    let written = spec.knobs.written("fanout");
    let numbers: Option<Vec<usize>> = written.split(',').map(|k| k.trim().parse().ok()).collect();
    let plain = !spec.knobs.flag("replace") && spec.knobs.word("bias") == "uniform";
    let numbers = numbers
        .filter(|_| plain)
        .map(|fan_outs| match fan_outs[..] {
            [k] => vec![k; spec.layers],
            _ => fan_outs,
        });
    let refused = || {
        Error::refused(
            "against python: theirs draw so many in-neighbours, uniformly, none twice",
            "write numbers for fanout, one a layer, and leave out replace and bias",
        )
    };
    Some(
        numbers
            .ok_or_else(refused)
            .map(|fan_outs| (fan_outs, spec.knobs.count("batch"))),
    )
}

/// The forms of a request, ours first.
fn forms(spec: &RunSpec, pythons: &[Python]) -> Vec<Form> {
    let own = |name, once| Form::new(name, Kind::Ours, once, env!("CARGO_PKG_VERSION").to_owned());
    if drawn(spec).is_some() {
        let mut forms = vec![own("halobook", false)];
        if let Some(python) = newest(pythons, |p| p.dgl.as_deref()) {
            for name in ["dgl-plain", "dgl-graphbolt", "dgl-graphbolt-ahead"] {
                forms.push(Form::theirs(name, Kind::Stock, false, python));
            }
        }
        if let Some(python) = newest(pythons, |p| p.pyg.as_deref()) {
            forms.push(Form::theirs("pyg-sample", Kind::Stock, false, python));
        }
        return forms;
    }
    // Attention depends on what is learned, so nothing of its first layer is constant.
    let sums = matches!(spec.model, ModelKind::Gcn | ModelKind::Sage);
    let both = sums && spec.dropout == 0.0 && !spec.decoupled;
    let mut forms = vec![own("halobook", false)];
    if both {
        forms.push(own("halobook-once", true));
    }

    if let Some(python) = newest(pythons, |p| p.dgl.as_deref()) {
        forms.push(Form::theirs("dgl", Kind::Stock, false, python));
        if sums {
            forms.push(Form::theirs("dgl-pre", Kind::Stock, true, python));
        }
    }
    if let Some(python) = newest(pythons, |p| p.pyg.as_deref()) {
        if sums {
            forms.push(Form::theirs("pyg-csr", Kind::Stock, false, python));
        }
        // Beside fused products, gathering and scattering can only be the faster form on a GPU.
        if !sums || spec.backend != "cpu" {
            forms.push(Form::theirs("pyg-mp", Kind::Stock, false, python));
        }
    }
    if let Some(python) = newest(pythons, |p| Some(&p.torch)) {
        forms.push(Form::theirs("tuned", Kind::Tuned, false, python));
        if sums {
            forms.push(Form::theirs("tuned-pre", Kind::Tuned, true, python));
        }
    }
    forms
}

/// What cannot be compared is refused before anything runs.
fn check(request: &Request) -> Result<()> {
    let spec = &request.spec;
    if request.pythons.is_empty() {
        return Ok(());
    }
    let known = ["gcn", "sage", "gat"];
    if !known.contains(&spec.model.name()) {
        return Err(Error::refused(
            format!(
                "against python: no form of {} is written",
                spec.model.name()
            ),
            format!("compare {}", known.join(", ")),
        ));
    }
    let gat = spec.model == ModelKind::Gat;
    let plain = spec.dropout == 0.0
        && spec.weight_decay == 0.0
        && spec.optimizer == OptimiserKind::Adam
        && (!gat || (spec.attention_dropout == 0.0 && spec.out_heads == 1));
    if !plain || spec.decoupled || spec.ranks > 1 || spec.task != TaskKind::Node {
        return Err(Error::refused(
            "against python: theirs classify vertices on one rank, by Adam, without dropout and weight decay",
            "leave out the keys about ranks, task, optimizer, dropout, weight decay and output heads",
        ));
    }
    drawn(spec).transpose().map(drop)
}

/// Times every form; `told` hears what comes next.
///
/// # Errors
/// When the request is refused, or a run of ours fails. A form of theirs that fails is no error: it
/// says why.
pub fn run(request: &Request, worker: &Path, told: &mut dyn FnMut(&str)) -> Result<Outcome> {
    check(request)?;
    let spec = &request.spec;
    told("loading the data");
    let data = gnn_core::dataset::load(&spec.data, spec.seed)?;
    let block = data.graph.propagation(spec.model.propagation());
    let planned = Memory::of(spec, &data, &block);
    drop(block);
    let folder = (!request.pythons.is_empty())
        .then(|| -> Result<Folder> {
            let folder = Folder::make()?;
            super::export::write(&data, folder.path())?;
            Ok(folder)
        })
        .transpose()?;
    let size = [
        data.n(),
        data.graph.n_edges(),
        data.features.dim(),
        data.n_classes,
    ];
    drop(data);
    let mut outcome = Outcome {
        spec: spec.clone(),
        size,
        threads: 0,
        planned,
        forms: forms(spec, &request.pythons),
        interrupted: false,
    };
    let runners: Vec<Option<Runner<'_>>> = outcome
        .forms
        .iter()
        .map(|form| runner(form, spec, worker))
        .collect::<Result<_>>()?;
    outcome.threads = runners
        .iter()
        .flatten()
        .map(Runner::threads)
        .max()
        .unwrap_or(1);
    let theirs = their_request(&outcome);
    for round in 0..request.rounds {
        for (form, runner) in outcome.forms.iter_mut().zip(&runners) {
            if form.failure.is_some() {
                continue;
            }
            told(&format!(
                "round {} of {}: {}",
                round + 1,
                request.rounds,
                form.name
            ));
            wait_for_quiet(request.patience);
            let watch = Watch::start();
            let finished = match (runner, &folder) {
                (Some(runner), _) => form.take_ours(runner.run()?),
                (None, Some(folder)) => form.take_theirs(&theirs, request, folder.path()),
                (None, None) => true,
            };
            form.others = match (watch.others(), form.others) {
                (Some(now), Some(before)) => Some(now.max(before)),
                (now, before) => now.or(before),
            };
            if !finished || sys::interrupts() > 0 {
                outcome.interrupted = true;
                return Ok(outcome);
            }
        }
    }
    same_answers(&mut outcome.forms);
    Ok(outcome)
}

fn runner<'a>(form: &Form, spec: &RunSpec, worker: &'a Path) -> Result<Option<Runner<'a>>> {
    if form.kind != Kind::Ours {
        return Ok(None);
    }
    let first_aggregate = if form.once {
        FirstAggregate::Once
    } else {
        FirstAggregate::EveryEpoch
    };
    let spec = RunSpec {
        first_aggregate,
        ..spec.clone()
    };
    Runner::new(spec, worker).map(Some)
}

/// What every form of theirs is asked; the rest is the form's.
fn their_request(outcome: &Outcome) -> Value {
    let spec = &outcome.spec;
    let (fan_outs, batch) = drawn(spec).and_then(Result::ok).unwrap_or_default();
    json!({
        "fan_outs": fan_outs, "batch": batch,
        "model": spec.model.name(), "layers": spec.layers, "hidden": spec.hidden,
        "heads": spec.heads, "head_dim": spec.hidden,
        "classes": outcome.size[3], "lr": spec.lr, "seed": spec.seed,
        "threads": outcome.threads, "epochs": spec.epochs - spec.warmup, "warmup": spec.warmup,
        "device": spec.backend,
        "memory_bytes": Host::this().memory_bytes / 10 * 7,
    })
}

impl Form {
    /// Takes a run of ours; false when it was interrupted.
    fn take_ours(&mut self, epochs: Option<Epochs>) -> bool {
        let Some(epochs) = epochs else {
            return false;
        };
        self.rounds.push(epochs.ms);
        self.phases.extend(epochs.phases);
        self.peak_bytes = self.peak_bytes.max(epochs.peak_bytes);
        self.losses = epochs.losses;
        self.must_be_finite();
        true
    }

    /// Has theirs train; false when it was interrupted.
    fn take_theirs(&mut self, common: &Value, request: &Request, folder: &Path) -> bool {
        let Some(python) = &self.python else {
            return true;
        };
        let mut ask = common.clone();
        ask["form"] = self.name.into();
        ask["folder"] = folder.to_string_lossy().into();
        ask["seconds"] = request.seconds.into();
        // Loading and preparing a large graph takes them minutes.
        let limit = Duration::from_secs_f64(600.0 + 10.0 * request.seconds);
        match python.ask("epoch", &ask, folder, limit) {
            Ok(answer) => {
                let numbers = |key: &str| -> Vec<f64> {
                    let list = answer[key].as_array().into_iter().flatten();
                    list.filter_map(Value::as_f64).collect()
                };
                let (ms, losses) = (numbers("ms"), numbers("losses"));
                self.rounds.push(ms);
                let bytes = |key: &str| answer[key].as_u64().unwrap_or(0);
                self.peak_bytes = self.peak_bytes.max(bytes("peak_bytes"));
                self.libraries_bytes = bytes("libraries_bytes");
                let end = |loss: Option<&f64>| loss.copied().unwrap_or(f64::NAN);
                self.losses = (end(losses.first()), end(losses.last()));
                self.must_be_finite();
                true
            }
            Err(Silence::Interrupted) => false,
            Err(silence) => {
                self.failure = Some(silence.to_string());
                true
            }
        }
    }

    fn must_be_finite(&mut self) {
        if !self.losses.1.is_finite() {
            self.failure = Some(format!("the loss became {}", self.losses.1));
        }
    }
}

/// Ours must have trained the same with the first aggregate computed once: rounding is all that may
/// differ.
fn same_answers(forms: &mut [Form]) {
    let own: Vec<f64> = forms
        .iter()
        .filter(|f| f.kind == Kind::Ours)
        .map(|f| f.losses.1)
        .collect();
    if let [every, once] = own[..]
        && (every - once).abs() > 1e-3 * (1.0 + every.abs())
    {
        forms[1].failure = Some(format!("its loss is {once}, and {every} without"));
    }
}

impl Outcome {
    /// Ours against the fastest of theirs, form against form.
    pub fn ratios(&self) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for ours in self.forms.iter().filter(|f| f.kind == Kind::Ours) {
            let Some(mine) = ours.spread() else {
                continue;
            };
            for kind in [Kind::Stock, Kind::Tuned] {
                let fastest = self
                    .forms
                    .iter()
                    .filter(|f| f.kind == kind && f.once == ours.once)
                    .filter_map(|f| Some((f, f.spread()?.median)))
                    .min_by(|a, b| a.1.total_cmp(&b.1));
                if let Some((theirs, median)) = fastest {
                    ratios.push(Ratio {
                        ours: ours.name,
                        theirs: theirs.name,
                        kind,
                        speed: median / mine.median,
                        memory: ours.peak_bytes as f64 / theirs.peak_bytes.max(1) as f64,
                    });
                }
            }
        }
        ratios
    }
}

#[cfg(test)]
mod tests;
