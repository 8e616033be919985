//! Magics carried out: runs outside this process, watched through their run folders.

mod background;
pub mod bound;
mod card;
pub mod catalogue;
mod check;
mod follow;
mod grouped;
pub mod interrupt;
mod lane;
mod lines;
mod params;
mod partition;
mod plan;
mod pool;
mod printed;
mod program;
mod ranks;
mod replay;
mod report;
mod restore;
mod sql;
mod strategy;
mod streamed;
mod supervised;
mod sweep;
mod sweep_card;
mod train;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::cell::facts::Facts;
use crate::front::{CellOutput, Outcome};
use bound::{Bound, Thing};
use interrupt::Interrupt;
use launcher::jobs::Target;

pub use check::check;
pub use lines::line;
pub use params::{fill, params};
pub use pool::Pool;
pub use program::path as halobook_path;
pub use ranks::ranks;
pub use restore::{Lost, restore_lost};
pub use sql::query;
pub use strategy::{strategy, unprepared};
pub use sweep::sweep;
pub use train::train;

/// Finds the type of a variable.
type KindOf<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What a magic may touch of the cell it stands in.
pub struct Session<'a> {
    /// Where it prints and shows.
    pub output: &'a CellOutput,
    /// Interrupts of this cell.
    pub interrupt: &'a Interrupt,
    /// Evaluates Rust in the session.
    pub bind: Box<dyn Fn(&str) -> Outcome + 'a>,
    /// Ranks that wait for cells.
    pub pool: &'a Mutex<Option<Pool>>,
    /// What set-up prepared, if it did.
    pub facts: Option<&'a Facts>,
    /// The same before the next Rust, without waiting for it.
    pub bind_later: Box<dyn Fn(&str) + 'a>,
    /// Makes ready what the next frame cell would wait for; how long that took.
    pub warm: Box<dyn Fn() -> Duration + 'a>,
    /// What is bound so far.
    pub bound: &'a Bound,
    /// The type of a variable of the session.
    pub kind_of: Box<KindOf<'a>>,
}

impl Session<'_> {
    /// Binds a variable to something on disk.
    fn bind_as(&self, name: &str, thing: Thing) -> Outcome {
        let bound = (self.bind)(&self.binding(name, &thing))?;
        self.bound.insert(name, thing);
        Ok(bound)
    }

    /// The Rust that binds a variable; whoever had one of another type by that name is told.
    fn binding(&self, name: &str, thing: &Thing) -> String {
        let before =
            (self.kind_of)(name).filter(|kind| !name.starts_with('_') && !thing.may_be(kind));
        if let Some(before) = before {
            let now = thing.kind();
            self.output.stdout(&format!(
                "note: {name} was of type {before}; it is {now} now\n"
            ));
        }
        thing.binding(name)
    }

    /// The pool of ranks, if it is up.
    fn pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The run folder of a bound variable, one of several (`r1[0]`), an id, its beginning or `latest`.
    fn run_dir(&self, name: &str) -> launcher::Result<std::path::PathBuf> {
        if let Some((name, at)) = bound::element(name)
            && let Some(Thing::Runs(id)) = self.bound.get(name)
        {
            let runs = halobook::Runs::try_of_sweep(&id)?;
            let count = runs.len();
            return runs
                .iter()
                .nth(at)
                .map(|run| run.dir().to_owned())
                .ok_or_else(|| {
                    launcher::Error::refused(
                        format!("{name} has {count} runs, and {name}[{at}] is none of them"),
                        format!("{name}[0] is the first"),
                    )
                });
        }
        match self.bound.get(name) {
            Some(Thing::Cut(_)) => Err(launcher::Error::refused(
                format!("{name} is a partition, not a run"),
                format!("write %plot {name} partition"),
            )),
            Some(Thing::Param { .. }) => Err(launcher::Error::refused(
                format!("{name} is a parameter, not a run"),
                "%runs lists runs",
            )),
            Some(Thing::Going(_)) => Err(launcher::Error::refused(
                format!("{name} is a sweep that goes on, not a run"),
                format!("%wait {name} binds its frame, whose column run_id names the runs"),
            )),
            Some(Thing::Runs(_)) => Err(launcher::Error::refused(
                format!("{name} is several runs"),
                format!("name one of them: {name}[0]"),
            )),
            Some(Thing::Plan(_) | Thing::Sweep(_) | Thing::Frame(_)) => {
                Err(launcher::Error::refused(
                    format!("{name} is a frame, not a run"),
                    "its column run_id names the runs",
                ))
            }
            Some(Thing::Run(id)) => launcher::store::run_dir(&id),
            None => launcher::store::run_dir(name),
        }
    }

    /// The run or the sweep of a bound variable, or of an id.
    fn target(&self, name: &str) -> launcher::Result<Target> {
        match self.bound.get(name) {
            Some(thing) if thing.sweep().is_some() => {
                let id = thing.sweep().unwrap_or_default();
                launcher::sweep::dir(id).map(Target::Sweep)
            }
            Some(_) => self.run_dir(name).map(Target::Run),
            None if bound::element(name).is_some() => self.run_dir(name).map(Target::Run),
            None => Target::of(name),
        }
    }

    /// The folder of the cut that a variable is bound to.
    fn cut_dir(&self, name: &str) -> Option<launcher::Result<std::path::PathBuf>> {
        match self.bound.get(name)? {
            Thing::Cut(id) => Some(launcher::partition::dir(&id)),
            _ => None,
        }
    }
}
