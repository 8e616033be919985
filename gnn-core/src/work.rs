//! The only loop over epochs.

mod origin;
mod told;
mod train;

pub use train::DIVERGED;

use crate::backend::Backend;
use crate::comm::{
    Post, ThreadTransport, Transport, behind_link, same_clock, sleep_exactly, with_hub,
};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, load_for};
use crate::error::{Error, Result};
use crate::partition::Nested;
use crate::plan::Plan;
use crate::record::state::StatePage;
use crate::record::{Meter, Recorder, frame};
use crate::strategy::{Entry, Setup, find_in};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Where ranks run: data, not a second code path.
pub enum World {
    /// All ranks as threads of this process.
    Threads(usize),
    /// This process is one rank of a world that a transport reaches.
    Transport(Box<dyn Transport>),
}

/// How a run ended on this process's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Epochs finished.
    pub epochs_done: usize,
    /// Whether a stop request ended it early.
    pub interrupted: bool,
    /// Whether it ended early because the validation score no longer improved.
    pub stopped_early: bool,
}

/// The files of a run folder that a rank touches.
struct Folder(PathBuf);

impl Folder {
    fn stop(&self) -> PathBuf {
        self.0.join("stop")
    }

    fn of_rank(&self, kind: &str, rank: usize, ending: &str) -> Result<PathBuf> {
        let folder = self.0.join(kind);
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        Ok(folder.join(format!("rank-{rank}{ending}")))
    }
}

/// Trains what `plan` says, as the rank or ranks of `world`; rows go to `folder`.
///
/// # Errors
/// Whatever a rank meets. A failing rank ends its in-process peers; ending other processes is the
/// caller's part ([`Transport::abort`]).
pub fn work(
    plan: &Plan,
    folder: &Path,
    world: World,
    entries: &'static [Entry],
) -> Result<Outcome> {
    let plan = Arc::new(plan.clone());
    match world {
        World::Transport(transport) => {
            let setup = read_setup(&plan, folder, entries)?;
            run_rank(&plan, folder, setup, transport, entries)
        }
        World::Threads(ranks) => {
            let setup = read_setup(&plan, folder, entries)?;
            on_threads(&plan, folder, ranks, setup, entries)
        }
    }
}

fn on_threads(
    plan: &Arc<Plan>,
    folder: &Path,
    ranks: usize,
    setup: Setup,
    entries: &'static [Entry],
) -> Result<Outcome> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = ThreadTransport::world(ranks)
            .into_iter()
            .enumerate()
            // The last rank gets the set-up itself: nobody keeps the data set afterwards.
            .zip(std::iter::repeat_n(setup, ranks))
            .map(|((rank, transport), setup)| {
                std::thread::Builder::new()
                    .name(format!("rank-{rank}"))
                    .spawn_scoped(scope, move || {
                        run_rank(plan, folder, setup, Box::new(transport), entries)
                    })
                    .map_err(|e| Error::io("thread", e))
            })
            .collect();
        // Every thread is joined before the first error is returned.
        let results: Vec<Result<Outcome>> = threads
            .into_iter()
            .map(|t| match t?.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        first_cause(results)
    })
}

/// What became of all ranks: the first cause is the one that is not about a lost peer.
fn first_cause(results: Vec<Result<Outcome>>) -> Result<Outcome> {
    let (mut lost_peer, mut outcome) = (None, None);
    for result in results {
        match result {
            Ok(o) => outcome = Some(o),
            Err(e @ Error::Comm { .. }) => lost_peer = lost_peer.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    match (lost_peer, outcome) {
        (Some(e), _) => Err(e),
        (None, Some(o)) => Ok(o),
        (None, None) => Ok(Outcome {
            epochs_done: 0,
            interrupted: false,
            stopped_early: false,
        }),
    }
}

/// The data set of a request, features scaled as it asks.
///
/// # Errors
/// What [`load_for`] refuses.
pub(crate) fn read_data(plan: &Plan) -> Result<Dataset> {
    load_for(plan.spec.data_spec(), &plan.verdicts)
}

/// The file of a run folder with the part of each vertex, and that with its part within the part, where
/// parts are cut again: four bytes a vertex, little-endian.
pub const PART_FILES: [&str; 2] = ["part.bin", "nested.bin"];

fn read_setup(plan: &Plan, folder: &Path, entries: &[Entry]) -> Result<Setup> {
    let parts = find_in(entries, &plan.spec.strategy)?.cut_into(&plan.spec);
    let data = Arc::new(read_data(plan)?);
    let read = |level: usize, count: usize| {
        read_parts(&folder.join(PART_FILES[level]), data.graph.n(), count).map(Arc::new)
    };
    let owner = parts.map(|p| read(0, p.count)).transpose()?;
    let nested = parts.filter(|p| p.nested != Nested::No);
    let nested = nested.map(|p| read(1, p.nested.count())).transpose()?;
    Ok(Setup {
        data,
        owner,
        nested,
    })
}

fn read_parts(path: &Path, n: usize, parts: usize) -> Result<Vec<u32>> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    let bad = |place: String, reason: String| Error::Data {
        file: path.display().to_string(),
        place,
        reason,
        help: "start the run again; the launcher writes this file".into(),
    };
    if bytes.len() != 4 * n {
        return Err(bad(
            "length".into(),
            format!("expected {} bytes, got {}", 4 * n, bytes.len()),
        ));
    }
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("chunks of four bytes"));
    let owner: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    match owner.iter().position(|&r| r as usize >= parts) {
        Some(v) => Err(bad(
            format!("vertex {v}"),
            format!("owner {} of {parts} ranks", owner[v]),
        )),
        None => Ok(owner),
    }
}

fn run_rank(
    plan: &Arc<Plan>,
    folder: &Path,
    setup: Setup,
    mut transport: Box<dyn Transport>,
    entries: &'static [Entry],
) -> Result<Outcome> {
    if plan.spec.link.is_some()
        && let Err(e) = same_clock(transport.as_mut())
    {
        transport.abort(1);
        return Err(e);
    }
    sleep_exactly();
    let transport = behind_link(plan.spec.link, transport);
    if !find_in(entries, &plan.spec.strategy)?.background {
        return run_on(plan, folder, setup, transport, None, entries);
    }
    let name = format!("rank-{}", transport.rank());
    with_hub(transport, name, |port, post| {
        run_on(plan, folder, setup, Box::new(port), Some(post), entries)
    })
}

/// [`run_rank`] on the thread that trains.
fn run_on(
    plan: &Arc<Plan>,
    folder: &Path,
    setup: Setup,
    mut transport: Box<dyn Transport>,
    post: Option<Post>,
    entries: &'static [Entry],
) -> Result<Outcome> {
    let folder = Folder(folder.to_owned());
    let rank = transport.rank();
    let Opened {
        meter,
        mut recorder,
        backend,
    } = match open(plan, &folder, rank, entries) {
        Ok(opened) => opened,
        Err(e) => {
            transport.abort(1);
            return Err(e);
        }
    };
    let mut cx = Ctx::new(Arc::clone(plan), transport, backend, meter);
    cx.post = post;
    cx.scratch = folder.0.clone();
    let entry = find_in(entries, &plan.spec.strategy);
    let connected = entry.and_then(|entry| cx.connect(entry.sums_in_order(&plan.spec)));
    let result =
        connected.and_then(|()| train::train(&mut cx, &mut recorder, setup, &folder, entries));
    if result.is_err() {
        cx.comm.abort(1);
    }
    result
}

/// What a rank has of its own before it trains.
struct Opened {
    meter: Rc<Meter>,
    recorder: Recorder,
    backend: Box<dyn Backend>,
}

/// Opens the files and the device of a rank. Rank 0 writes what frames the strategy adds.
fn open(plan: &Plan, folder: &Folder, rank: usize, entries: &'static [Entry]) -> Result<Opened> {
    let frames = find_in(entries, &plan.spec.strategy)?.frames;
    let page = StatePage::create(&folder.of_rank("state", rank, "")?)?;
    if rank == 0 {
        frame::write(&folder.0, frames)?;
    }
    let meter = Meter::new(Some(page));
    let meter = match plan.spec.slow.filter(|slow| slow.rank as usize == rank) {
        Some(slow) => meter.slowed(slow.factor),
        None => meter,
    };
    let meter = Rc::new(if plan.spec.trace {
        meter.tracing()
    } else {
        meter
    });
    let rows = folder.of_rank("rows", rank, ".jsonl")?;
    let recorder = Recorder::new(Rc::clone(&meter), &rows, plan.start > 0, frames)?;
    let backend = crate::backend::open(plan, rank, Rc::clone(&meter))?;
    Ok(Opened {
        meter,
        recorder,
        backend,
    })
}
