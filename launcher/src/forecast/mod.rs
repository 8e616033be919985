//! What a run would send, hold and take, before it is started: `halobook plan`, `%plan`, and the
//! limit that `train` keeps.
//!
//! A plan is a [rehearsal](gnn_core::rehearse) of the resolved request, with the real data and the
//! real cut; it trains nothing. Items of the `plan` frame, one row a rank:
//!
//! | `item` | `basis` | what it is |
//! |---|---|---|
//! | `graph` | exact | the rank's part of the graph and its vertices' lists |
//! | `features` | exact | its own feature rows |
//! | `halo` | exact | rows of others in the layer and direction that moves most, with their messages; for mini-batches the copies that are kept |
//! | `offloaded` | exact | rows of all layers that lie apart from the device; where there are any |
//! | `history` | exact | rows of earlier epochs that are kept for later ones; where there are any |
//! | `optimizer` | exact | weights, gradients and moments |
//! | `activations` | modelled | all other matrices, as the pool of buffers keeps them; for mini-batches of expected sizes |
//! | `device` | exact | the most that chunks hold on a device with a budget (`device_mem`) |
//! | `setup` | modelled | reading the data and cutting out the part, which is over before training starts |
//! | `program` | modelled | a rank on 34 vertices, as measured once on this class of machine |
//! | `memory` | modelled | the rank's process at its fullest: the larger of set-up and 1.2 times training (what an allocator needs beside; 1.05 times for one rank on the full graph), and the program. Ranks that are threads share data and program equally |
//! | `partitioner` | modelled | the cut, in the process that starts the ranks (rank 0 only) |
//! | `epoch_bytes` | exact | what the rank sends in its first epoch |
//! | `to_device`, `to_host` | exact | what an epoch copies to a device, and from it, where rows lie apart from it |
//! | `dense`, `along_edges`, `beside` | exact | what an epoch computes: operations of dense products, elements of rows added up along edges, bytes that all else reads and writes; without what draws batches |
//! | `epoch_time` | modelled | operations by this class of machine's rates and the model's pace on it ([`Machine::pace`]), without waits and with nothing hidden; ranks of a pipeline take as long as the slowest, and the bubble |
//! | `bubble` | modelled | the share of that in which a rank of a pipeline waits for those beside it; where there is one |
//!
//! An item that nobody can say is left out: memory of mini-batch training without a formula, time of
//! mini-batch training, over a modelled link, or on a device.
//!
//! # Measured
//! Plans beside runs, memory and time: `notebooks/measured/plans.md`.
//!
//! # Not done
//! What a pace is depends on the shape too: on a graph of a quarter of the size it was twice as high.
//! Small graphs, whose epochs take a few milliseconds, take longer than planned.

mod expected;
mod foresee;
mod limit;
mod machine;
mod refuse;
mod rows;
mod scaled;
mod wide;

pub use expected::Expected;
pub use foresee::{Foreseen, foresee};
pub use limit::{exceeds, size};
pub use machine::Machine;
pub use refuse::{Foresight, expected};
pub use rows::rows;
pub use scaled::{SCALED, scaled};
pub use wide::{Wide, wide};

use crate::error::{Error, Result};
use crate::resolve::{self, Resolved};
use crate::{frames, store};
use gnn_core::dataset;
use gnn_core::memory::Memory;
use gnn_core::record::rows::PlanRow;
use gnn_core::spec::RunSpec;
use gnn_core::strategy::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be planned.
pub struct Wanted {
    /// The strategies that there are.
    pub strategies: &'static [Entry],
    /// The request; its `limit` is what ranks are held against.
    pub spec: RunSpec,
    /// Numbers of ranks.
    pub counts: Vec<usize>,
    /// The `halobook` program.
    pub worker: PathBuf,
}

/// A plan.
pub struct Done {
    /// Name of its folder.
    pub id: String,
    /// Its folder, with `plan.parquet`.
    pub dir: PathBuf,
    /// One row a rank count, rank and item.
    pub rows: Vec<PlanRow>,
    /// What does not fit, one line a rank count.
    pub refused: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Folder of all plans.
pub fn folder() -> PathBuf {
    store::home().join("plans")
}

/// Where the frame of a plan lies.
///
/// # Errors
/// [`Error::Refused`] when there is no such plan.
pub fn path(id: &str) -> Result<PathBuf> {
    let path = folder().join(id).join("plan.parquet");
    let plain = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
    match plain && path.exists() {
        true => Ok(path),
        false => Err(Error::refused(
            format!("there is no plan {id:?}"),
            "make one: halobook plan --data karate -s halo -n 2",
        )),
    }
}

/// Rehearses the request on each number of ranks, and leaves the frame in a folder of its own. A number
/// of ranks that the request cannot have is a note, unless it is the only one.
///
/// # Errors
/// As [`resolve::resolve`] and [`foresee`]; [`Error::Refused`] where the data alone would fill the
/// machine's memory when a part of it is kept once more.
pub fn plan(wanted: &Wanted) -> Result<Done> {
    let free = Memory::now().left();
    let data = dataset::load_for(wanted.spec.data_spec(), &store::verdicts());
    let data = Arc::new(data.map_err(crate::datasets::unreadable)?);
    room(free, data.features.bytes() as u64)?;
    let mut done = Done {
        id: store::new_id(),
        dir: PathBuf::new(),
        rows: Vec::new(),
        refused: Vec::new(),
        notes: Vec::new(),
    };
    for &ranks in &wanted.counts {
        let spec = RunSpec {
            ranks,
            ..wanted.spec.clone()
        };
        let cache = crate::partition::cache();
        let resolved = resolve::resolve_on(wanted.strategies, spec, Some(&cache), &data);
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(error) if wanted.counts.len() > 1 => {
                done.notes.push(format!("{ranks} rank(s): {error}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let machine = Machine::with(&resolved.starter, wanted.spec.model, &wanted.worker)?;
        let data = Arc::clone(&data);
        let seen = foresee(&resolved, data, wanted.strategies, Some(&machine))?;
        add(&mut done, &resolved, &seen);
    }
    done.keep()
}

impl Done {
    /// Writes the frame.
    fn keep(mut self) -> Result<Done> {
        self.dir = folder().join(&self.id);
        store::make(&self.dir)?;
        frames::write_plan(&self.dir.join("plan.parquet"), &self.rows)?;
        Ok(self)
    }
}

fn add(done: &mut Done, resolved: &Resolved, seen: &[Foreseen]) {
    let spec = &resolved.plan.spec;
    done.rows.extend(rows(resolved, seen));
    let over = (spec.limit > 0).then(|| exceeds(seen, spec.limit));
    if let Some(over) = over.flatten() {
        let count = spec.ranks;
        done.refused.push(format!("{count} rank(s): {over}"));
    }
    for note in &resolved.notes {
        let new = !done.notes.contains(note);
        done.notes.extend(new.then(|| note.clone()));
    }
}

/// Refuses to keep parts of what hardly fits once.
fn room(free: Option<u64>, features: u64) -> Result<()> {
    match free {
        Some(free) if 2 * features > free => Err(Error::refused(
            format!(
                "a plan keeps the features a second time: twice {} of {} free",
                size(features),
                size(free)
            ),
            "plan a smaller part of the data, or on a machine with more memory",
        )),
        _ => Ok(()),
    }
}

/// Writes what was foreseen of a run into its folder.
///
/// # Errors
/// When it cannot be written.
pub fn write_foreseen(run_dir: &Path, ranks: &[Foreseen]) -> Result<()> {
    let path = run_dir.join(FORESEEN);
    let bytes = serde_json::to_vec(ranks).expect("plain numbers");
    store::write_atomic(&path, &bytes)
}

/// What was foreseen of a run; nothing where nothing was.
pub fn read_foreseen(run_dir: &Path) -> Vec<Foreseen> {
    let bytes = std::fs::read(run_dir.join(FORESEEN));
    let read = bytes.ok().and_then(|b| serde_json::from_slice(&b).ok());
    read.unwrap_or_default()
}

const FORESEEN: &str = "foreseen.json";
