//! Mini-batches drawn, ours and theirs in turn, round after round.
//!
//! A round has a new order of the training vertices, cut into the same batches for every form. An epoch
//! of a form draws all of them and numbers their vertices into blocks. Forms draw different edges, so
//! they are compared by edges a second. What each form drew is checked before it is timed.

use super::export::{self, Folder};
use super::others::{Watch, wait_for_quiet};
use super::python::{Python, Silence, newest};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::sys;
use gnn_core::graph::{Block, Propagation};
use gnn_core::rng::{self, Purpose};
use gnn_core::sample::{Compact, FanOut, MiniBatch, Sampler};
use kernels::Par;
use kernels::bench::Spread;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Batches that a thread has drawn at most before they are used up.
const AHEAD: usize = 4;

/// Epochs of a round at most.
const EPOCHS: usize = 50;

/// What is to be timed.
#[derive(Debug)]
pub struct Request {
    /// The graph and its training vertices.
    pub data: String,
    /// In-edges of a vertex by layer, the first layer first.
    pub fan_outs: Vec<u32>,
    /// Seeds of a batch.
    pub batch: usize,
    /// Threads of every form.
    pub threads: usize,
    /// How often every form draws.
    pub rounds: usize,
    /// Timed seconds after which a form ends a round.
    pub seconds: f64,
    /// How long each round of a form waits at most for others to leave the machine.
    pub patience: Duration,
    /// Pythons to compare with.
    pub pythons: Vec<Python>,
}

/// One form and what it measured.
#[derive(Debug)]
pub struct Form {
    /// Its name.
    pub name: &'static str,
    /// Whether it is ours.
    pub ours: bool,
    /// Library and version.
    pub version: String,
    /// Milliseconds of every timed epoch.
    pub ms: Vec<f64>,
    /// Millions of edges a second in each of them.
    pub rates: Vec<f64>,
    /// Edges that the last epoch drew.
    pub edges: u64,
    /// Rows that had not as many edges as they should, or edges that are none.
    pub wrong_rows: u64,
    /// Most cores that others used during one of its rounds.
    pub others: Option<f64>,
    /// Why it has no figures.
    pub failure: Option<String>,
}

/// All forms, and what they drew from.
#[derive(Debug)]
pub struct Outcome {
    /// Vertices, edges, training vertices.
    pub size: [usize; 3],
    /// The forms, ours first.
    pub forms: Vec<Form>,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

impl Form {
    fn new(name: &'static str, ours: bool, version: String) -> Form {
        Form {
            name,
            ours,
            version,
            ms: Vec::new(),
            rates: Vec::new(),
            edges: 0,
            wrong_rows: 0,
            others: None,
            failure: None,
        }
    }

    /// Quartiles of millions of edges a second; `None` when it failed.
    pub fn rate(&self) -> Option<Spread> {
        Spread::of(&self.rates).filter(|_| self.failure.is_none())
    }

    fn add(&mut self, ms: f64, edges: u64) {
        self.ms.push(ms);
        self.rates.push(edges as f64 / ms / 1e3);
        self.edges = edges;
    }

    /// Takes an answer of theirs; false when it was interrupted.
    fn take(&mut self, answer: std::result::Result<Value, Silence>) -> bool {
        match answer {
            Ok(answer) => {
                let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
                let (ms, edges) = (list("ms"), list("edges"));
                for (ms, edges) in ms.iter().zip(&edges) {
                    self.add(ms.as_f64().unwrap_or(f64::NAN), edges.as_u64().unwrap_or(0));
                }
                self.wrong_rows += answer["wrong_rows"].as_u64().unwrap_or(0);
            }
            Err(Silence::Interrupted) => return false,
            Err(silence) => self.failure = Some(silence.to_string()),
        }
        true
    }
}

impl Outcome {
    /// The fastest of ours, the fastest of theirs that drew what it should, and their ratio.
    pub fn ratio(&self) -> Option<(&Form, &Form, f64)> {
        let fastest = |ours: bool| {
            let right = self
                .forms
                .iter()
                .filter(|f| f.ours == ours && f.wrong_rows == 0);
            right
                .filter_map(|f| Some((f, f.rate()?.median)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let (ours, theirs) = (fastest(true)?, fastest(false)?);
        Some((ours.0, theirs.0, ours.1 / theirs.1))
    }
}

fn forms(request: &Request) -> Vec<Form> {
    let own = |name| Form::new(name, true, env!("CARGO_PKG_VERSION").to_owned());
    let mut forms = vec![own("halobook")];
    if request.threads > 1 {
        forms.push(own("halobook-one"));
    }
    if let Some(python) = newest(&request.pythons, |p| p.dgl.as_deref()) {
        let version = python.dgl.as_deref().unwrap_or_default();
        let names = [
            "dgl-fused",
            "dgl-plain",
            "dgl-graphbolt",
            "dgl-graphbolt-calls",
        ];
        forms.extend(names.map(|name| Form::new(name, false, format!("DGL {version}"))));
    }
    forms
}

/// Times every form; `told` hears what comes next.
///
/// # Errors
/// When the data cannot be had or exported. A form of theirs that fails is no error: it says why.
pub fn run(request: &Request, told: &mut dyn FnMut(&str)) -> Result<Outcome> {
    told("loading the data");
    let data = gnn_core::dataset::load(&request.data, 0)?;
    let graph = Arc::new(data.graph.propagation(Propagation::Sum));
    let mut order: Vec<u32> = (0..data.n() as u32).collect();
    order.retain(|&v| data.train[v as usize]);
    let python = newest(&request.pythons, |p| p.dgl.as_deref());
    if python.is_none() && !request.pythons.is_empty() {
        return Err(Error::refused(
            "against python: none of these has DGL",
            "name one that has, or leave out --against",
        ));
    }
    let folder = python.map(|_| -> Result<Folder> {
        let folder = Folder::make()?;
        export::write(&data, folder.path())?;
        Ok(folder)
    });
    let folder = folder.transpose()?;
    drop(data);
    let mut outcome = Outcome {
        size: [graph.n_dst, graph.n_edges(), order.len()],
        forms: forms(request),
        interrupted: false,
    };
    let fan_outs = request.fan_outs.iter().map(|&k| FanOut::Of(k)).collect();
    let sampler = Sampler::new(Arc::clone(&graph), fan_outs, 0);
    let par = Par::new(request.threads);
    for round in 0..request.rounds {
        rng::shuffle(rng::key(0, round as u64, Purpose::Shuffle, 0), &mut order);
        if let Some(folder) = &folder {
            export::write_order(&order, folder.path())?;
        }
        for form in outcome.forms.iter_mut().filter(|f| f.failure.is_none()) {
            told(&format!(
                "round {} of {}: {}",
                round + 1,
                request.rounds,
                form.name
            ));
            wait_for_quiet(request.patience);
            let watch = Watch::start();
            let finished = match (form.ours, python.zip(folder.as_ref())) {
                (false, Some((python, folder))) => {
                    let ask = json!({
                        "form": form.name, "folder": folder.path(), "fan_outs": request.fan_outs,
                        "batch": request.batch, "threads": request.threads, "seconds": request.seconds,
                        "epochs": EPOCHS, "seed": round, "device": "cpu",
                        "memory_bytes": Host::this().memory_bytes / 10 * 7,
                    });
                    let limit = Duration::from_secs_f64(600.0 + 10.0 * request.seconds);
                    form.take(python.ask("sample", &ask, folder.path(), limit))
                }
                _ => {
                    ours(form, request, &sampler, &graph, &order, &par)?;
                    true
                }
            };
            let now = watch.others();
            form.others = now.into_iter().chain(form.others).reduce(f64::max);
            if !finished || sys::interrupts() > 0 {
                outcome.interrupted = true;
                return Ok(outcome);
            }
        }
    }
    Ok(outcome)
}

/// A round of ours: one epoch that is checked, then those that are timed.
fn ours(
    form: &mut Form,
    request: &Request,
    sampler: &Sampler,
    graph: &Block,
    order: &[u32],
    par: &Par,
) -> Result<()> {
    let lists: Vec<&[u32]> = order.chunks(request.batch).collect();
    let (mut compacts, mut compact) = (Vec::new(), Compact::default());
    let begun = Instant::now();
    for epoch in 0..=EPOCHS as u64 {
        let (mut ms, mut edges) = (0.0, 0);
        let at_once = match form.name {
            "halobook-one" => 1,
            _ => request.threads * AHEAD,
        };
        for (w, window) in lists.chunks(at_once).enumerate() {
            let first = (epoch, (w * at_once) as u64);
            let start = Instant::now();
            let batches = match window {
                [seeds] => vec![sampler.batch(first, seeds, par, &mut compact)?],
                _ => sampler.batches(first, window, par, &mut compacts)?,
            };
            let blocks = batches.iter().flat_map(|b| &b.blocks);
            edges += blocks.map(|b| b.n_edges() as u64).sum::<u64>();
            if epoch == 0 {
                let wrong = batches
                    .iter()
                    .map(|b| wrong_rows(graph, &request.fan_outs, b));
                form.wrong_rows += wrong.sum::<u64>();
            }
            drop(batches);
            ms += start.elapsed().as_secs_f64() * 1e3;
        }
        if epoch > 0 {
            form.add(ms, edges);
        }
        if epoch >= 3 && begun.elapsed().as_secs_f64() > request.seconds {
            break;
        }
    }
    Ok(())
}

/// Rows whose in-edges are not so many of the graph's, each once.
fn wrong_rows(graph: &Block, fan_outs: &[u32], batch: &MiniBatch) -> u64 {
    let whole = graph.csr();
    let mut wrong = 0;
    for (block, &k) in batch.blocks.iter().zip(fan_outs) {
        let a = block.csr();
        for (r, &v) in batch.inputs[..block.n_dst].iter().enumerate() {
            let all = &whole.indices[whole.span(v as usize)];
            let drawn = a.indices[a.span(r)]
                .iter()
                .map(|&c| batch.inputs[c as usize]);
            // Both are ascending; what is drawn must be found one after the other.
            let mut rest = all.iter();
            let found = drawn.clone().all(|s| rest.any(|&other| other == s));
            let count = drawn.len() == all.len().min(k as usize);
            wrong += u64::from(!(found && count));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            data: "sbm:nodes=400,classes=4,feat=2,degree=12".into(),
            fan_outs: vec![3, 5],
            batch: 30,
            threads: 2,
            rounds: 2,
            seconds: 0.0,
            patience: Duration::ZERO,
            pythons: Vec::new(),
        }
    }

    #[test]
    fn ours_draw_what_they_should() {
        let outcome = run(&request(), &mut |_| ()).expect("draws");
        assert_eq!(outcome.forms.len(), 2);
        for form in &outcome.forms {
            assert_eq!((form.wrong_rows, form.ms.len()), (0, 6), "{}", form.name);
            assert!(form.edges > 0 && form.rate().is_some());
        }
        assert!(outcome.ratio().is_none());
    }

    #[test]
    fn wrong_rows_are_counted() {
        let graph = Block::new(3, 3, vec![0, 2, 3, 3], vec![1, 2, 0], None).expect("fits");
        let batch = |indptr: &[u64], indices: &[u32]| MiniBatch {
            seeds: vec![0, 1],
            inputs: vec![0, 1, 2],
            blocks: vec![Block::new(2, 3, indptr.to_vec(), indices.to_vec(), None).expect("fits")],
        };
        assert_eq!(wrong_rows(&graph, &[1], &batch(&[0, 1, 2], &[2, 0])), 0);
        // Too few, one that is no edge, one twice.
        assert_eq!(wrong_rows(&graph, &[1], &batch(&[0, 0, 1], &[0])), 1);
        assert_eq!(wrong_rows(&graph, &[1], &batch(&[0, 1, 2], &[2, 2])), 1);
        assert_eq!(wrong_rows(&graph, &[2], &batch(&[0, 2, 3], &[2, 2, 0])), 1);
    }

    #[test]
    fn a_form_that_draws_too_little_is_not_compared_with() {
        let mut outcome = run(&request(), &mut |_| ()).expect("draws");
        let mut theirs = Form::new("dgl-fused", false, "DGL".into());
        let answer = json!({ "ms": [2.0], "edges": [4000], "wrong_rows": 3 });
        assert!(theirs.take(Ok(answer.clone())));
        assert_eq!((theirs.rates[0], theirs.wrong_rows), (2.0, 3));
        outcome.forms.push(theirs);
        assert!(outcome.ratio().is_none());
        let mut right = Form::new("dgl-plain", false, "DGL".into());
        right.take(Ok(json!({ "ms": [2.0], "edges": [4000], "wrong_rows": 0 })));
        outcome.forms.push(right);
        assert_eq!(outcome.ratio().expect("one is right").1.name, "dgl-plain");
        let failed = &mut outcome.forms[3];
        failed.take(Err(Silence::TooLong(3)));
        assert!(failed.rate().is_none() && !failed.take(Err(Silence::Interrupted)));
    }
}
