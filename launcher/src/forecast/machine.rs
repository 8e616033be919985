//! How fast this machine computes and how much the program itself takes: measured once, in well under
//! a second, and kept in the store by class of machine.
//!
//! One thread's rates, each the best of a few tries of some milliseconds: dense products, aggregated
//! elements (of rows in random order), bytes read and written; and the time from a message's sending to its arrival between two threads.
//! Nothing runs at its best rate all the time, and each model adds work of its own that is not counted: so
//! each model is trained once for a few epochs on a small graph, on all cores, and how much longer that takes
//! than the rates say ([`Machine::pace`]) is kept as well.
//!
//! All are rough on a machine that others use at the same time. Delete `$HALOBOOK_HOME/machine` to
//! have them measured again.

use super::foresee;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::manifest::{Manifest, Status};
use crate::resolve::{Resolved, Starter, resolve_with};
use crate::{Options, frames, prepare, store};
use gnn_core::backend::{Backend, Corner, Cpu, Kept, Sparse, Term, Then, Write};
use gnn_core::comm::{Progress, ThreadTransport, Transport};
use gnn_core::dataset;
use gnn_core::model::ModelKind;
use gnn_core::partition::Throughputs;
use gnn_core::rng;
use gnn_core::spec::{RunSpec, Value};
use gnn_core::strategy::STRATEGIES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One thread's rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Class of machine, as in manifests.
    pub class: String,
    /// Operations of a dense product a second.
    pub flops: f64,
    /// Elements of rows added up along edges a second.
    pub elements: f64,
    /// Bytes read and written a second.
    pub bytes: f64,
    /// Milliseconds of a message without content.
    pub message_ms: f64,
    /// Peak memory of a rank with next to no data, by how it is started.
    pub program: BTreeMap<String, u64>,
    /// How many times as long as by the rates an epoch takes, by model.
    #[serde(default)]
    pub pace: BTreeMap<String, f64>,
    /// Bytes of rows a second: between two matrices, from one rank to another, and read where they are.
    #[serde(default)]
    pub rows: Option<[f64; 3]>,
}

fn path(class: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = class.chars().map(plain).collect();
    store::home().join("machine").join(format!("{name}.json"))
}

impl Machine {
    /// What was measured before on a machine of this class.
    pub fn known() -> Option<Machine> {
        let bytes = std::fs::read(path(&Host::this().class())).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// What was measured before, or now: rates, the memory of `worker` when `starter` starts it, and the
    /// pace of the model. Call it from the main thread, as whatever starts ranks.
    ///
    /// # Errors
    /// [`Error::Io`] when the store cannot be written.
    pub fn with(starter: &Starter, model: ModelKind, worker: &Path) -> Result<Machine> {
        let mut machine = Machine::known().unwrap_or_else(Machine::measure);
        let before = machine.clone();
        if !machine.program.contains_key(starter.label())
            && let Some(bytes) = program(starter, worker)
        {
            machine.program.insert(starter.label().to_owned(), bytes);
        }
        if !machine.pace.contains_key(model.name())
            && let Some(times) = pace(&machine, model, worker)
        {
            machine.pace.insert(model.name().to_owned(), times);
        }
        if machine != before || Machine::known().is_none() {
            machine.keep()?;
        }
        Ok(machine)
    }

    fn keep(&self) -> Result<()> {
        let path = path(&self.class);
        let parent = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        let bytes = serde_json::to_vec_pretty(self).expect("plain numbers and texts");
        store::write_atomic(&path, &bytes)
    }

    /// How fast rows move, in bytes a second: measured before, or now and kept, so that requests are
    /// decided alike from then on.
    pub fn throughputs() -> Throughputs {
        let mut machine = Machine::rates();
        let [host, peer, reuse] = machine.rows.unwrap_or_else(|| {
            let rows = rows(&Cpu::new(1));
            machine.rows = Some(rows);
            // A store that cannot be written is told about by whoever needs it.
            let _ = machine.keep();
            rows
        });
        Throughputs { host, peer, reuse }
    }

    /// Milliseconds of one thread for so many operations of dense products and aggregated elements, at
    /// rates measured before or now.
    pub fn ms(&self, flops: f64, elements: f64) -> f64 {
        1e3 * (flops / self.flops + elements / self.elements)
    }

    /// The rates that were measured before, or now.
    pub fn rates() -> Machine {
        Machine::known().unwrap_or_else(Machine::measure)
    }

    fn measure() -> Machine {
        let cpu = Cpu::new(1);
        Machine {
            class: Host::this().class(),
            flops: flops(&cpu),
            elements: elements(&cpu),
            bytes: bytes(&cpu),
            message_ms: message_ms(),
            program: BTreeMap::new(),
            pace: BTreeMap::new(),
            rows: None,
        }
    }
}

/// The best rate of some work: as often as fits into a twentieth of a second, three times at least.
fn rate(amount: f64, mut work: impl FnMut()) -> f64 {
    work();
    let (began, mut best, mut tries) = (Instant::now(), 0f64, 0);
    while tries < 3 || began.elapsed() < Duration::from_millis(50) {
        let start = Instant::now();
        work();
        best = best.max(amount / start.elapsed().as_secs_f64().max(1e-9));
        tries += 1;
    }
    best
}

fn flops(cpu: &Cpu) -> f64 {
    let (m, k, n) = (4096, 128, 64);
    let (a, b, mut out) = (cpu.zeros(m, k), cpu.zeros(k, n), cpu.zeros(m, n));
    rate(2.0 * (m * k * n) as f64, || {
        cpu.linear(
            &[Term::plain(&a, &b)],
            Write::Set,
            Then::default(),
            &mut out,
        );
    })
}

fn elements(cpu: &Cpu) -> f64 {
    let (n, degree, d) = (1usize << 16, 8usize, 64usize);
    let indices = (0..(n * degree) as u64).map(|e| rng::below(7, e, n as u64) as u32);
    let a = Sparse::new(kernels::CsrBuf {
        indptr: (0..=n).map(|v| (v * degree) as u64).collect(),
        indices: indices.collect(),
        weights: Some(vec![1.0; n * degree]),
        n_cols: n,
    });
    let (x, mut out) = (cpu.zeros(n, d), cpu.zeros(n, d));
    rate((n * degree * d) as f64, || {
        cpu.spmm(&a, 0..n, &x, Write::Set, &mut out);
    })
}

fn bytes(cpu: &Cpu) -> f64 {
    let (n, d) = (1usize << 17, 64usize);
    let (x, mut y) = (cpu.zeros(n, d), cpu.zeros(n, d));
    rate(12.0 * (n * d) as f64, || cpu.axpby(0.5, &x, 0.5, &mut y))
}

/// Rows in random order to places in random order, as from a host to a device that is a part of its memory;
/// the same with a message of them in between, as from one rank to another; and read where they are.
fn rows(cpu: &Cpu) -> [f64; 3] {
    let (n, d) = (1usize << 15, 128usize);
    let (x, mut y, mut out) = (cpu.zeros(2 * n, d), cpu.zeros(2 * n, d), cpu.zeros(1, 1));
    let list = |seed: u64| -> Kept<u32> {
        let row = |i: u64| rng::below(seed, i, 2 * n as u64) as u32;
        (0..n as u64).map(row).collect::<Vec<_>>().into()
    };
    let (from, to) = (list(1), list(2));
    let bytes = 4.0 * (n * d) as f64;
    let host = rate(bytes, || {
        cpu.copy_block(&x, Corner::of(&from, 0), (n, d), &mut y, Corner::of(&to, 0));
    });
    let mut message = cpu.zeros(n, d);
    let peer = rate(bytes, || {
        let from = Corner::of(&from, 0);
        cpu.copy_block(&x, from, (n, d), &mut message, Corner::at(0));
        let to = Corner::of(&to, 0);
        cpu.copy_block(&message, Corner::at(0), (n, d), &mut y, to);
    });
    let reuse = rate(4.0 * (2 * n * d) as f64, || cpu.dot(&x, &x, &mut out));
    [host, peer, reuse]
}

/// Half of the best round trip between two threads.
fn message_ms() -> f64 {
    const TRIPS: usize = 200;
    let mut world = ThreadTransport::world(2);
    let pair = world.pop().zip(world.pop());
    let Some((mut far, mut near)) = pair else {
        return 0.0;
    };
    std::thread::scope(|scope| {
        // `world.pop()` gave rank 1 first.
        scope.spawn(move || (0..TRIPS).try_for_each(|_| trip(&mut far, 0, false)));
        let times = (0..TRIPS).filter_map(|_| {
            let start = Instant::now();
            trip(&mut near, 1, true).ok()?;
            Some(start.elapsed().as_secs_f64() * 500.0)
        });
        times.fold(f64::INFINITY, f64::min)
    })
}

/// Sends and receives, or the other way round.
fn trip(t: &mut ThreadTransport, to: usize, first: bool) -> gnn_core::Result<()> {
    const TAG: u16 = 1;
    if first {
        t.post_send(to, TAG, vec![0; 4])?;
    }
    let handle = t.post_recv(to, TAG, 4)?;
    while t.poll(handle)? != Progress::Done {
        std::thread::yield_now();
    }
    t.take(handle)?;
    if !first {
        t.post_send(to, TAG, vec![0; 4])?;
    }
    Ok(())
}

/// Peak memory of a rank that trains on 34 vertices; none where that does not succeed.
fn program(starter: &Starter, worker: &Path) -> Option<u64> {
    let (strategy, ranks, launch) = match starter {
        Starter::Threads => ("single", 1, "threads"),
        Starter::Mpi(_) => ("halo", 2, "mpi"),
        Starter::Slurm => ("halo", 2, "slurm"),
    };
    let pairs = [
        ("strategy", Value::from_word(strategy)),
        ("ranks", Value::Int(ranks)),
        ("launch", Value::from_word(launch)),
        ("epochs", Value::Int(2)),
    ];
    let spec = RunSpec::from_pairs(pairs).ok()?;
    let resolved = resolve_with(STRATEGIES, spec, None, true).ok()?;
    let manifest = trial(resolved, worker, |_| Some(()))?.0;
    (manifest.mem_peak_bytes > 0).then_some(manifest.mem_peak_bytes)
}

/// How many times as long as by the rates an epoch of a model takes, on all cores; none where it cannot be
/// trained on the graph that all are tried on.
fn pace(machine: &Machine, model: ModelKind, worker: &Path) -> Option<f64> {
    const DATA: &str = "sbm:nodes=40000,classes=8,feat=64,degree=16";
    const EPOCHS: i64 = 9;
    // Times eight heads.
    let hidden = if model == ModelKind::Gat { 16 } else { 64 };
    let pairs = [
        ("data", Value::from_word(DATA)),
        ("model", Value::from_word(model.name())),
        ("hidden", Value::Int(hidden)),
        ("launch", Value::from_word("threads")),
        ("epochs", Value::Int(EPOCHS)),
        ("eval-every", Value::Int(EPOCHS)),
    ];
    let spec = RunSpec::from_pairs(pairs).ok()?;
    let data = Arc::new(dataset::load_for(spec.data_spec(), &store::verdicts()).ok()?);
    let resolved = resolve_with(STRATEGIES, spec, None, true).ok()?;
    let rates = Machine {
        pace: BTreeMap::new(),
        ..machine.clone()
    };
    let foreseen = foresee(&resolved, data, STRATEGIES, Some(&rates)).ok()?;
    let by_rates = foreseen.first()?.wall_ms?;
    let times = |run_dir: &Path| {
        let frame = frames::load(run_dir, "epochs").ok()?;
        let walls = frame
            .column("wall_ms")
            .ok()?
            .f64()
            .ok()?
            .into_no_null_iter();
        let mut walls: Vec<f64> = walls.skip(2).collect();
        walls.sort_by(f64::total_cmp);
        walls.get(walls.len() / 2).copied()
    };
    let (_, took) = trial(resolved, worker, times)?;
    (by_rates > 0.0).then_some(took / by_rates)
}

/// A run that nobody asked for: what it came to, and what `look` finds in its folder before that is gone.
fn trial<T>(
    resolved: Resolved,
    worker: &Path,
    look: impl FnOnce(&Path) -> Option<T>,
) -> Option<(Manifest, T)> {
    let options = Options {
        run_id: None,
        worker: worker.to_owned(),
        replays: None,
        announced: None,
    };
    let prepared = prepare(resolved, options).ok()?;
    let run_dir = prepared.run_dir.clone();
    let manifest = prepared.run().ok();
    let ended = manifest.filter(|m| m.status == Status::Ok);
    let found = ended.and_then(|manifest| Some((manifest, look(&run_dir)?)));
    let _ = std::fs::remove_dir_all(run_dir);
    found
}
