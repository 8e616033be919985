//! What a person with GPUs finds out about them, in one go: right answers, the memory checker's word, kernels beside
//! the GPU's copies, epochs beside libraries, and one to all GPUs.

mod answers;
mod checker;
mod scaling;

pub use answers::{Answer, FAR};
pub use checker::{Checked, Outcome as CheckerOutcome};
pub use scaling::Scaled;
pub(crate) use scaling::word;

use super::epoch;
use super::python::Python;
use crate::error::{Error, Result};
use crate::request::{parse_body, parse_pairs};
use crate::{host::Host, sys};
use gnn_core::backend::lack_of_memory;
use gnn_core::model::ModelKind;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::STRATEGIES;
use kernels::bench::{GpuKernels, gpu_kernels};
use kernels::cuda::fit::{Clash, Parts};
use kernels::cuda::nccl;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// What is to be found out.
#[derive(Debug)]
pub struct Request {
    /// The `halobook` program.
    pub worker: PathBuf,
    /// GPUs at most.
    pub gpus: usize,
    /// The graph of the kernels has `2^scale` vertices.
    pub scale: u32,
    /// What epochs train on.
    pub data: String,
    /// Epochs of a training that is timed, of which two warm up.
    pub epochs: usize,
    /// How often every form trains.
    pub rounds: usize,
    /// Seconds of timed epochs after which a form of theirs ends a round early.
    pub seconds: f64,
    /// Pythons to compare with.
    pub pythons: Vec<Python>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What the first GPU is called.
    pub device: String,
    /// How many there are.
    pub gpus: usize,
    /// Whether the host stands in for them.
    pub stands_in: bool,
    /// Versions of their software.
    pub parts: Parts,
    /// What of it does not fit.
    pub clashes: Vec<Clash>,
    /// The machine around them.
    pub host: String,
}

/// What was found.
#[derive(Debug)]
pub struct Findings {
    /// The machine.
    pub facts: Facts,
    /// Losses beside the CPU's.
    pub answers: Vec<Answer>,
    /// What a memory checker says.
    pub checked: Checked,
    /// Kernels; or why they could not be timed.
    pub kernels: Option<std::result::Result<GpuKernels, String>>,
    /// Epochs, by model, likewise.
    pub epochs: Vec<std::result::Result<epoch::Outcome, String>>,
    /// Epochs by number of GPUs.
    pub scaled: Vec<Scaled>,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

impl Findings {
    /// Whether nothing was wrong.
    pub fn right(&self) -> bool {
        let kernels = self.kernels.iter().flatten().flat_map(|k| &k.lines);
        let ours = self.epochs.iter().flatten().flat_map(|o| &o.forms);
        let mut ours = ours.filter(|form| form.kind == epoch::Kind::Ours);
        self.answers.iter().all(Answer::right)
            && self.checked.clean()
            && kernels.filter_map(|k| k.off).all(|off| off < FAR)
            && self.epochs.iter().all(std::result::Result::is_ok)
            && ours.all(|form| form.failure.is_none())
            && self.scaled.iter().all(|s| s.ms.is_ok())
    }
}

/// Finds out, part by part; `save` is called with what there is behind each, so that nothing is lost where the next
/// one ends the machine's lease. `told` hears what comes next.
///
/// # Errors
/// [`Error::Refused`] where there is no GPU; when a run cannot be started or read.
pub fn run(
    request: &Request,
    save: &mut dyn FnMut(&Findings) -> Result<()>,
    told: &mut dyn FnMut(&str),
) -> Result<Findings> {
    told("opening the GPU");
    let no_gpu =
        |e: kernels::cuda::Error| Error::refused(format!("bench gpu: {e}"), "see halobook doctor");
    let gpus = kernels::cuda::gpus().map_err(no_gpu)?;
    let device = kernels::cuda::open(0).map_err(no_gpu)?;
    let parts = Parts::found();
    let mut found = Findings {
        facts: Facts {
            device: device.name().to_owned(),
            gpus,
            stands_in: kernels::cuda::stands_in(),
            clashes: parts.clashes(),
            parts,
            host: Host::this().class(),
        },
        answers: Vec::new(),
        checked: Checked::default(),
        kernels: None,
        epochs: Vec::new(),
        scaled: Vec::new(),
        interrupted: false,
    };
    save(&found)?;
    for case in answers::cases(gpus.min(request.gpus)) {
        if over(&mut found) {
            return Ok(found);
        }
        told(&format!("right answers: {case}"));
        found.answers.push(case.compare(&request.worker));
    }
    save(&found)?;
    found.checked = checker::run(&request.worker, told)?;
    save(&found)?;
    if over(&mut found) {
        return Ok(found);
    }
    let timed_kernels = catch_unwind(AssertUnwindSafe(|| {
        gpu_kernels(&device, request.scale, &mut |what| {
            told(&format!("kernels: {what}"));
        })
    }));
    found.kernels = Some(timed_kernels.map_err(|payload| {
        let lack = lack_of_memory(payload.as_ref()).map(|e| e.to_string());
        lack.unwrap_or_else(|| "the device failed; what it said is above".into())
    }));
    // Its memory is the trainings' now.
    drop(device);
    save(&found)?;
    for model in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        if over(&mut found) {
            return Ok(found);
        }
        let asked = epoch::Request {
            spec: spec_of(&timed(request, model))?,
            rounds: request.rounds,
            seconds: request.seconds,
            patience: Duration::ZERO,
            pythons: request.pythons.clone(),
        };
        let outcome = epoch::run(&asked, &request.worker, &mut |what| {
            told(&format!("epochs, {}: {what}", model.name()));
        });
        found.epochs.push(outcome.map_err(|e| e.to_string()));
        save(&found)?;
    }
    for case in scaling::cases(gpus.min(request.gpus), nccl::version().is_ok()) {
        if over(&mut found) {
            return Ok(found);
        }
        told(&format!("one to all GPUs: {case}"));
        let body = timed(request, ModelKind::Gcn);
        found.scaled.push(case.train(&body, &request.worker));
        save(&found)?;
    }
    over(&mut found);
    Ok(found)
}

fn over(found: &mut Findings) -> bool {
    found.interrupted |=
        sys::interrupts() > 0 || found.epochs.iter().flatten().any(|o| o.interrupted);
    found.interrupted
}

/// A training on a GPU that is timed: without what differs between libraries.
fn timed(request: &Request, model: ModelKind) -> String {
    let epochs = request.epochs + 2;
    let hidden = if model == ModelKind::Gat { 32 } else { 128 };
    format!(
        "data = \"{}\"; model = {}; hidden = {hidden}; backend = cuda
         epochs = {epochs}; warmup = 2; eval_every = {epochs}
         dropout = 0.0; attention_dropout = 0.0; weight_decay = 0.0",
        request.data,
        model.name()
    )
}

/// What the lines of a cell ask for.
fn spec_of(body: &str) -> Result<RunSpec> {
    parse_pairs(STRATEGIES, parse_body(body)?)
}
