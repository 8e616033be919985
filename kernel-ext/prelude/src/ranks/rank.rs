//! A rank as its cells see it.

use std::any::Any;
use std::collections::HashMap;

use super::{Part, Request};

/// `ctx` in a cell: this rank, its part of the graph, and what it keeps from cell to cell.
pub struct Rank {
    rank: usize,
    size: usize,
    request: Request,
    /// What `part` was loaded for.
    loaded: Option<(String, String, u64)>,
    part: Option<Part>,
    kept: HashMap<String, Box<dyn Any>>,
}

impl Rank {
    pub(super) fn new(rank: usize, size: usize, request: Request) -> Rank {
        Rank {
            rank,
            size,
            request,
            loaded: None,
            part: None,
            kept: HashMap::new(),
        }
    }

    /// A new cell begins.
    pub(super) fn begin(&mut self, request: Request) {
        self.request = request;
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The machine it is on.
    pub fn host(&self) -> String {
        launcher::host::name()
    }

    /// This rank's part of the cell's data set (`--data`, `--partition`), loaded when it is first asked for
    /// and kept for later cells.
    ///
    /// # Panics
    /// With the words of what is wrong with them, which ends the cell on this rank.
    pub fn graph(&mut self) -> &Part {
        let Request {
            data,
            partition,
            seed,
            ..
        } = &self.request;
        let wanted = (data.clone(), partition.clone(), *seed);
        if self.loaded.as_ref() != Some(&wanted) {
            self.part = None;
        }
        if self.part.is_none() {
            match Part::load(&self.request, self.rank, self.size) {
                Ok(part) => self.part = Some(part),
                Err(error) => panic!("{}", crate::source::in_words(&error)),
            }
            self.loaded = Some(wanted);
        }
        self.part.as_ref().expect("loaded just above")
    }

    /// Keeps a value under a name for later cells, on this rank. Its type has to be one of a library, not
    /// of a cell: each cell's types are its own.
    pub fn keep<T: 'static>(&mut self, name: &str, value: T) {
        self.kept.insert(name.to_owned(), Box::new(value));
    }

    /// What an earlier cell kept under a name, if it is of this type.
    pub fn kept<T: 'static>(&mut self, name: &str) -> Option<&mut T> {
        self.kept.get_mut(name)?.downcast_mut()
    }

    /// Names of what is kept.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.kept.keys().cloned().collect();
        names.sort();
        names
    }
}
