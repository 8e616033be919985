//! What is written down: named tensors and named numbers.

use crate::backend::{Backend, Mat};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// What a strategy knows between two epochs, on one rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// What all ranks know. It is written by rank 0, and only what rank 0 puts here is kept; every
    /// rank gets it back.
    pub shared: State,
    /// What only this rank knows; it gets its own back.
    pub own: State,
}

/// Tensors and numbers by name. Names are made of parts, as in `weights/0/1`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Tensors.
    pub tensors: BTreeMap<String, kernels::Mat>,
    /// Numbers.
    pub numbers: BTreeMap<String, u64>,
}

impl State {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.numbers.is_empty()
    }

    /// Adds a copy of a matrix.
    pub fn put(&mut self, name: impl Into<String>, backend: &dyn Backend, x: &Mat) {
        self.put_host(name, backend.download(x));
    }

    /// Adds a matrix that is in this process's memory.
    pub fn put_host(&mut self, name: impl Into<String>, x: kernels::Mat) {
        self.tensors.insert(name.into(), x);
    }

    /// Adds a number.
    pub fn put_number(&mut self, name: impl Into<String>, number: u64) {
        self.numbers.insert(name.into(), number);
    }

    /// Takes a matrix of the same shape into the place of `x`.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none of that name and shape.
    pub fn take_into(&mut self, name: &str, backend: &dyn Backend, x: &mut Mat) -> Result<()> {
        *x = backend.upload(self.take_like(name, x.dim())?);
        Ok(())
    }

    /// Takes a tensor of this shape out.
    ///
    /// # Errors
    /// As [`State::take_into`].
    pub fn take_like(&mut self, name: &str, shape: (usize, usize)) -> Result<kernels::Mat> {
        let found = self.take(name)?;
        if found.dim() == shape {
            return Ok(found);
        }
        let (rows, cols) = found.dim();
        let reason = format!("expected {} rows of {}", shape.0, shape.1);
        Err(bad(name, format!("{reason}, got {rows} of {cols}")))
    }

    /// Takes a tensor out, whatever its shape.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none of that name.
    pub fn take(&mut self, name: &str) -> Result<kernels::Mat> {
        let found = self.tensors.remove(name);
        found.ok_or_else(|| bad(name, "there is no such tensor".into()))
    }

    /// A number.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none of that name.
    pub fn number(&self, name: &str) -> Result<u64> {
        let found = self.numbers.get(name).copied();
        found.ok_or_else(|| bad(name, "there is no such number".into()))
    }
}

fn bad(name: &str, reason: String) -> Error {
    Error::Data {
        file: "checkpoint".into(),
        place: name.into(),
        reason,
        help: "it is of another version of this program; start the run anew".into(),
    }
}
