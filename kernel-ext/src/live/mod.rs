//! Magics carried out: runs outside this process, watched through their run folders.

mod card;
pub mod catalogue;
pub mod interrupt;
mod lines;
mod report;
mod train;

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::front::{CellOutput, Outcome};
use interrupt::Interrupt;

pub use lines::line;
pub use train::train;

/// The runs bound in this session: variable to run id.
pub type Bound = Mutex<BTreeMap<String, String>>;

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
    /// The run folder of a bound variable, an id, its beginning or `latest`.
    fn run_dir(&self, name: &str) -> launcher::Result<std::path::PathBuf> {
        let bound = self
            .bound
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        launcher::store::run_dir(bound.get(name).map_or(name, String::as_str))
    }
}
