//! A request becomes a plan, or is refused. Nothing has been started or written yet.

mod data;
mod slow_link;

pub use data::DataFacts;

use crate::datasets::unreadable;
use crate::error::{Error, Result};
use crate::forecast::{Foreseen, Foresight, Machine, expected};
use crate::host::Host;
use crate::mpi::{Mpi, on_path};
use crate::store;
use crate::transport::{self, Between, Facts};
use data::check_patience;
use gnn_core::checkpoint;
use gnn_core::dataset::{self, Dataset};
use gnn_core::memory::Memory;
use gnn_core::partition::{self, Cache, Cut, Limits, Masks, Method, Parts, Report, Request};
use gnn_core::plan::Plan;
use gnn_core::spec::{Launch, RunSpec};
use gnn_core::strategy::{self, Determinism, Entry};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// Ranks that a core may have to carry before they are refused.
const CROWD: usize = 32;

/// Threads for each of those.
const THREADS: usize = 4;

/// How ranks will be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Starter {
    /// One worker process, ranks as its threads.
    Threads,
    /// One process a rank, by an MPI on this machine.
    Mpi(Mpi),
    /// One process a rank, by `srun` inside an allocation.
    Slurm,
}

impl Starter {
    /// The word in manifests and events.
    pub fn label(&self) -> &'static str {
        match self {
            Starter::Threads => "threads",
            Starter::Mpi(_) => "mpi",
            Starter::Slurm => "slurm",
        }
    }
}

/// A request with everything decided.
pub struct Resolved {
    /// What every rank reads.
    pub plan: Plan,
    /// Part of each vertex, with more than one part: its owner, where there is one part a rank.
    pub owner: Option<Vec<u32>>,
    /// The part of each vertex within its own, where parts are cut again.
    pub nested: Option<Vec<u32>>,
    /// The cut as a whole, with more than one part.
    pub report: Option<Report>,
    /// How ranks are started.
    pub starter: Starter,
    /// The strategy's entry.
    pub entry: &'static Entry,
    /// The data, in numbers.
    pub data: DataFacts,
    /// The data as the user wrote it.
    pub data_name: String,
    /// This machine.
    pub host: Host,
    /// What a reader of the results should know.
    pub notes: Vec<String>,
    /// What a checkpoint must have to be of this run.
    pub digest: u64,
    /// Where it goes on from, if it does not begin anew.
    pub from: Option<crate::resume::Origin>,
    /// What is foreseen of each rank; empty where finding out does not pay.
    pub foreseen: Vec<Foreseen>,
    /// What is said of a modelled link that takes longer than anybody waits.
    pub slow_link: Option<String>,
}

/// Decides everything that can be decided before a rank starts: checks the combination, finds the
/// MPI, loads the data set, cuts it (or takes the cut from the cache of cuts).
///
/// # Errors
/// Whatever is wrong with the request: [`Error::Core`] for data and combinations,
/// [`Error::Refused`] for what this machine cannot do, [`Error::PlanRefused`] for what would not fit.
pub fn resolve(strategies: &'static [Entry], spec: RunSpec) -> Result<Resolved> {
    let cache = crate::partition::cache();
    resolve_with(strategies, spec, Some(&cache), false)
}

/// [`resolve`] with cuts taken from a cache and kept there, or cut anew without one; with `force` also
/// what by its plan does not fit.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(
    strategies: &'static [Entry],
    spec: RunSpec,
    cache: Option<&Cache>,
    force: bool,
) -> Result<Resolved> {
    let decided = Decided::of(strategies, &spec)?;
    decided.refuse_crowds(&spec, force)?;
    let foresight = Foresight::now(force);
    let data =
        Arc::new(dataset::load_for(spec.data_spec(), &store::verdicts()).map_err(unreadable)?);
    let mut resolved = decided.on(spec, cache, &data)?;
    resolved.foreseen = expected(&resolved, &data, strategies, foresight)?;
    resolved.slow_link = slow_link::note(&resolved);
    resolved.notes.extend(resolved.slow_link.clone());
    Ok(resolved)
}

/// [`resolve`] on data that is there already, without looking whether the run would fit.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_on(
    strategies: &'static [Entry],
    spec: RunSpec,
    cache: Option<&Cache>,
    data: &Dataset,
) -> Result<Resolved> {
    Decided::of(strategies, &spec)?.on(spec, cache, data)
}

/// The most training vertices that one of `ranks` owns; all of them where nobody owns vertices.
fn most_trained(data: &Dataset, owner: Option<&Vec<u32>>, ranks: usize) -> usize {
    let trained = data.train.iter().enumerate().filter(|(_, t)| **t);
    let Some(owner) = owner else {
        return trained.count();
    };
    let mut of = vec![0; ranks];
    for (v, _) in trained {
        if let Some(count) = of.get_mut(owner[v] as usize) {
            *count += 1;
        }
    }
    of.into_iter().max().unwrap_or(0)
}

/// What is decided before the data is read.
struct Decided {
    entry: &'static Entry,
    host: Host,
    starter: Starter,
    between: Between,
}

impl Decided {
    fn of(strategies: &'static [Entry], spec: &RunSpec) -> Result<Decided> {
        let entry = strategy::find_in(strategies, &spec.strategy)?;
        entry.check(spec)?;
        let starter = starter(spec)?;
        // The machine that submits to Slurm need not have the GPUs of those that train; they refuse
        // before the first epoch.
        if starter != Starter::Slurm {
            gnn_core::backend::check(&spec.backend)?;
        }
        let between = transport::choose(spec, starter == Starter::Slurm, &Facts::of_this_machine)?;
        let host = Host::this();
        Ok(Decided {
            entry,
            host,
            starter,
            between,
        })
    }

    /// Refuses so many ranks that this machine would only be busy changing between them.
    fn refuse_crowds(&self, spec: &RunSpec, force: bool) -> Result<()> {
        let most = CROWD * self.host.cores;
        if force || self.starter == Starter::Slurm {
            return Ok(());
        }
        let threads = spec.ranks.saturating_mul(spec.threads);
        if threads > THREADS * most {
            return Err(Error::refused(
                format!(
                    "threads: {} ranks of {} threads on the {} cores of this machine",
                    spec.ranks, spec.threads, self.host.cores
                ),
                "leave --threads out: ranks share the cores; or --force starts them all the same",
            ));
        }
        if spec.ranks <= most {
            return Ok(());
        }
        Err(Error::refused(
            format!(
                "ranks: {} ranks on the {} cores of this machine",
                spec.ranks, self.host.cores
            ),
            format!(
                "use at most {most} ranks (-n), or --force where it is only to be seen that they run"
            ),
        ))
    }

    fn on(self, spec: RunSpec, cache: Option<&Cache>, data: &Dataset) -> Result<Resolved> {
        let Decided {
            entry,
            host,
            starter,
            between,
        } = self;
        let facts = DataFacts::of(data);
        facts.check_ranks(&spec)?;
        let spec = share_out(entry, spec, data);
        let parts = entry.cut_into(&spec);
        facts.check_parts(parts, entry, &spec)?;
        check_patience(&spec, data)?;
        let threads = if spec.threads > 0 {
            spec.threads
        } else {
            (host.cores / spec.ranks).max(1)
        };
        let oversubscribed = starter != Starter::Slurm && spec.ranks * threads > host.cores;
        let cut = parts
            .map(|parts| cut(&spec, parts, data, cache))
            .transpose()?;
        let data_name = spec.data.clone();
        let spec = RunSpec {
            data: absolute(&spec.data),
            transport: between.kind,
            ..spec
        };
        let digest = checkpoint::digest(&spec, data);
        let in_process = starter == Starter::Threads;
        let partition_method = cut
            .as_ref()
            .map_or_else(String::new, |c| c.0.method.clone());
        let mut notes = data.about.notes.clone();
        notes.extend(cut.iter().flat_map(|c| c.0.missed.clone()));
        let failed = cut.as_ref().and_then(|c| c.0.cache_failed.as_ref());
        notes.extend(failed.map(|why| format!("the cut is not kept: {why}")));
        if oversubscribed {
            notes.push(format!(
            "oversubscribed: {} ranks of {threads} thread(s) share {} cores; read shapes, not speed-ups",
            spec.ranks, host.cores
        ));
        }
        notes.extend(between.note);
        notes.extend(transport::note_of_sums(entry, &spec));
        if spec.backend == "cuda" && kernels::cuda::stands_in() {
            let why = "the host stands in for GPUs (HALOBOOK_CUDA)";
            notes.push(format!("{why}: times are not those of a GPU"));
        }
        if spec.sync {
            notes.push("one thing at a time (sync): nothing moves beside compute".into());
        }
        if let Some(slow) = spec.slow {
            notes.push(format!(
                "slowed down on purpose: compute of rank {} takes {} times as long; read who waits, not how long",
                slow.rank, slow.factor
            ));
        }
        let owner = cut.as_ref().map(|c| &c.0.owner);
        notes.extend((entry.notes)(&spec, most_trained(data, owner, spec.ranks)));
        let (partition_ms, partition_peak_bytes) =
            cut.as_ref().map_or((0.0, 0), |c| (c.0.ms, c.0.peak_bytes));
        let (owner, nested, report) = cut.map_or((None, None, None), |(cut, report)| {
            (Some(cut.owner), cut.nested, Some(report))
        });
        Ok(Resolved {
            plan: Plan {
                spec,
                start: 0,
                threads,
                in_process,
                oversubscribed,
                partition_ms,
                partition_peak_bytes,
                partition_method,
                verdicts: store::verdicts(),
                cuts: Some(crate::partition::folder()),
            },
            owner,
            nested,
            report,
            starter,
            entry,
            data: facts,
            data_name,
            host,
            notes,
            digest,
            from: None,
            foreseen: Vec::new(),
            slow_link: None,
        })
    }
}

/// The request with layers shared out among ranks by what they take on this machine, and with how fast rows
/// move on it, where the strategy does that or asks for it: it is in the plan, so that a run that goes on or is repeated shares them out alike.
fn share_out(entry: &Entry, mut spec: RunSpec, data: &Dataset) -> RunSpec {
    if let Some(share) = entry.share_out {
        let machine = Machine::rates();
        let work = share.work(&spec, data);
        let times: Vec<f64> = work
            .iter()
            .map(|layer| machine.ms(layer.flops, layer.elements))
            .collect();
        for (name, value) in (share.settings)(&spec, &times) {
            spec.knobs.set(name, value);
        }
    }
    if let Some(moving) = entry.moving {
        moving(&mut spec, &Machine::throughputs());
    }
    spec
}

/// The cut that the run uses, within the memory that this machine has free.
fn cut(
    spec: &RunSpec,
    parts: Parts,
    data: &Dataset,
    cache: Option<&Cache>,
) -> Result<(Cut, Report)> {
    let limits = Limits {
        bytes: Memory::now().left(),
        ms: None,
    };
    let method = Method::parse(&spec.partition)?.for_layers(spec.layers);
    let cut = Request::of(method, data, parts.count, spec.seed)
        .nested(parts.nested)
        .within(limits)
        .cut(cache)?;
    let masks = Masks {
        train: &data.train,
        val: &data.val,
        test: &data.test,
    };
    let facts = partition::facts(data.graph.csr(), &cut.owner, parts.count, masks, 0);
    let report = Report::of(&spec.data, data, &cut, &facts, None, spec.seed);
    Ok((cut, report))
}

/// A path that a worker finds from wherever it runs; built-in names as they are.
pub(crate) fn absolute(data: &str) -> String {
    let kind = |name: &str| name.split(':').next().unwrap_or_default().trim().to_owned();
    if dataset::catalogue()
        .iter()
        .any(|entry| kind(entry.name) == kind(data))
    {
        return data.to_owned();
    }
    let full = Path::new(data).canonicalize();
    full.map_or_else(
        |_| data.to_owned(),
        |path| path.to_string_lossy().into_owned(),
    )
}

fn starter(spec: &RunSpec) -> Result<Starter> {
    let built_in = cfg!(feature = "mpi");
    match spec.launch {
        Launch::Threads => Ok(Starter::Threads),
        Launch::Auto if spec.ranks == 1 || !built_in => Ok(Starter::Threads),
        Launch::Auto => Ok(Mpi::find().map_or(Starter::Threads, Starter::Mpi)),
        Launch::Mpi if !built_in => Err(Error::refused(
            "launch: this halobook was built without MPI",
            "build it with the feature `mpi`, or use --launch threads",
        )),
        Launch::Mpi => Mpi::find().map(Starter::Mpi).ok_or_else(|| {
            Error::refused(
                "launch: no MPI was found (neither mpirun nor mpiexec is on the search path)",
                "install one (Debian: apt-get install openmpi-bin libopenmpi-dev), or use --launch threads",
            )
        }),
        Launch::Slurm if std::env::var_os("SLURM_JOB_ID").is_none() => Err(Error::refused(
            "launch: slurm needs an allocation, and this process is in none (SLURM_JOB_ID is not set)",
            format!("get one first: salloc -n {}, or sbatch; or use --launch mpi", spec.ranks),
        )),
        Launch::Slurm if on_path("srun").is_none() => Err(Error::refused(
            "launch: srun is not on the search path",
            "load the Slurm environment, or use --launch mpi",
        )),
        Launch::Slurm => Ok(Starter::Slurm),
    }
}

/// What the results of a run may be compared with: hash of the strategy's name, paper, knobs and
/// this version of Halobook.
pub fn strategy_hash(entry: &Entry, spec: &RunSpec) -> String {
    let knobs = serde_json::to_string(&spec.knobs).expect("knobs are plain values with text keys");
    let text = [entry.name, entry.paper, &knobs, env!("CARGO_PKG_VERSION")].join("\n");
    short(&Sha256::digest(text))
}

/// Which vertex is in which part, in sixteen hexadecimal digits; none where nothing is cut.
pub fn partition_hash(resolved: &Resolved) -> Option<String> {
    let owner = resolved.owner.as_ref()?;
    let mut hash = Sha256::new();
    for part in [owner]
        .into_iter()
        .chain(&resolved.nested)
        .flat_map(|level| level.chunks(4096))
    {
        let bytes: Vec<u8> = part.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        hash.update(bytes);
    }
    Some(short(&hash.finalize()))
}

/// The versions of all that this program was built from, in sixteen hexadecimal digits.
pub fn lock_hash() -> String {
    short(&Sha256::digest(include_bytes!("../../Cargo.lock")))
}

fn short(digest: &[u8]) -> String {
    let bytes = digest.iter().take(8);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The word for a promise about repeating a run.
pub fn determinism(entry: &Entry, spec: &RunSpec) -> &'static str {
    match (entry.determinism)(spec) {
        _ if transport::sums_in_any_order(entry, spec) => "statistical",
        Determinism::Bitwise => "bitwise",
        Determinism::SameRanks => "same_ranks",
        Determinism::Statistical => "statistical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::spec::Value;
    use gnn_core::strategy::STRATEGIES;

    fn refuse(pairs: &[(&str, Value)]) -> Error {
        let spec = RunSpec::from_pairs(pairs.iter().cloned()).expect("a well-formed request");
        match resolve_with(STRATEGIES, spec, None, false) {
            Ok(_) => panic!("{pairs:?} should have been refused"),
            Err(error) => error,
        }
    }

    fn word(text: &str) -> Value {
        Value::from_word(text)
    }

    #[test]
    fn what_cannot_run_is_refused_with_a_way_out() {
        for (pairs, what) in [
            (
                vec![("strategy", word("single")), ("ranks", word("2"))],
                "single",
            ),
            (
                vec![("strategy", word("halo")), ("ranks", word("40"))],
                "34 vertices",
            ),
            (vec![("data", word("karat"))], "karate"),
            (vec![("data", word("/nowhere/at/all"))], "/nowhere/at/all"),
            (vec![("data", word("sbm:nodes=many"))], "nodes"),
        ] {
            let error = refuse(&pairs);
            assert!(error.to_string().contains(what), "{error}");
            assert!(!error.help().is_empty() && !error.help().contains('\n'));
        }
        if std::env::var_os("SLURM_JOB_ID").is_none() {
            assert!(
                refuse(&[("launch", word("slurm"))])
                    .to_string()
                    .contains("allocation")
            );
        }
    }

    #[test]
    fn a_cut_gives_every_vertex_an_owner() {
        let pairs = [
            ("strategy", word("halo")),
            ("ranks", word("3")),
            ("launch", word("threads")),
        ];
        let spec = RunSpec::from_pairs(pairs).expect("valid");
        let resolved = resolve_with(STRATEGIES, spec, None, false).expect("runs");
        let owner = resolved.owner.expect("more than one rank");
        assert_eq!(owner.len(), 34);
        assert!(owner.iter().all(|&r| r < 3));
        assert!(resolved.plan.in_process && resolved.plan.threads >= 1);
        assert_eq!(strategy_hash(resolved.entry, &resolved.plan.spec).len(), 16);
    }
}
