//! Magics carried out: runs outside this process, watched through their run folders.

mod card;
pub mod catalogue;
mod check;
pub mod interrupt;
mod lines;
mod params;
mod partition;
mod plan;
mod program;
mod report;
mod sql;
mod sweep;
mod train;

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::front::{CellOutput, Outcome};
use interrupt::Interrupt;

pub use check::check;
pub use lines::line;
pub use params::{fill, params};
pub use program::path as halobook_path;
pub use sql::query;
pub use sweep::sweep;
pub use train::train;

/// What is bound in this session: variable to run id, or `partition:`, `plan:`, `sweep:` or `frame:` and the id
/// of such a thing, or `param:` and a value.
pub type Bound = Mutex<BTreeMap<String, String>>;

/// Before the id of a cut.
const CUT: &str = "partition:";
/// Before the id of a plan.
const PLAN: &str = "plan:";
/// Before the id of a sweep.
const SWEEP: &str = "sweep:";
/// Before the id of a query's answer.
const FRAME: &str = "frame:";

/// Before the value of a parameter.
const PARAM: &str = "param:";

/// What a magic may touch of the cell it stands in.
pub struct Session<'a> {
    /// Where it prints and shows.
    pub output: &'a CellOutput,
    /// Interrupts of this cell.
    pub interrupt: &'a Interrupt,
    /// Evaluates Rust in the session.
    pub bind: Box<dyn Fn(&str) -> Outcome + 'a>,
    /// The runs bound so far.
    pub bound: &'a Bound,
}

impl Session<'_> {
    /// What is bound to a variable.
    fn of(&self, name: &str) -> Option<String> {
        let bound = self
            .bound
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        bound.get(name).cloned()
    }

    /// The run folder of a bound variable, an id, its beginning or `latest`.
    fn run_dir(&self, name: &str) -> launcher::Result<std::path::PathBuf> {
        match self.of(name) {
            Some(id) if id.starts_with(CUT) => Err(launcher::Error::refused(
                format!("{name} is a partition, not a run"),
                format!("write %plot {name} partition"),
            )),
            Some(id) if id.starts_with(PARAM) => Err(launcher::Error::refused(
                format!("{name} is a parameter, not a run"),
                "%runs lists runs",
            )),
            Some(id) if id.contains(':') => Err(launcher::Error::refused(
                format!("{name} is a frame, not a run"),
                "its column run_id names the runs",
            )),
            Some(id) => launcher::store::run_dir(&id),
            None => launcher::store::run_dir(name),
        }
    }

    /// The folder of the cut that a variable is bound to.
    fn cut_dir(&self, name: &str) -> Option<launcher::Result<std::path::PathBuf>> {
        let id = self.of(name)?;
        id.strip_prefix(CUT).map(launcher::partition::dir)
    }

    /// Remembers what a variable is bound to.
    fn remember(&self, name: &str, to: &str) {
        let mut bound = self
            .bound
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        bound.insert(name.to_owned(), to.to_owned());
    }
}
