//! The blocks of a rank, for those who use them.

use super::block::{Block, Key};
use super::memory::{Disk, Memory, Mode, STAGING};
use super::order::{Round, Use};
use super::scratch::Scratch;
use crate::backend::Mat;
use crate::error::{Error, Result};
use crate::record::Meter;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// All blocks of a rank.
pub(in super::super) struct Pages(RefCell<Memory>);

impl Pages {
    /// Pages of which the order is noted.
    pub(in super::super) fn noting(meter: &Rc<Meter>) -> Pages {
        Pages(RefCell::new(Memory::new(Mode::Noting, meter, u64::MAX)))
    }

    /// The same, with their order known, in `room` bytes; what does not fit is in a file in `folder`, or
    /// nowhere when nothing is computed.
    ///
    /// # Errors
    /// [`Error::Budget`] for less room than a few blocks take, [`Error::Io`] for a disk without room.
    pub(in super::super) fn known(&self, room: u64, folder: Option<&Path>) -> Result<Pages> {
        let noted = self.0.borrow();
        let staging = STAGING * noted.largest;
        // One that is used, and one that is read ahead.
        if room < staging + 2 * noted.largest {
            return Err(Error::Budget {
                of: "host",
                item: "rows that are used next, and those that are being written".into(),
                asked: staging + 2 * noted.largest,
                free: room,
                budget: room,
            });
        }
        let mode = match folder {
            Some(folder) => {
                let bytes = noted.blocks.iter().map(Block::bytes).sum();
                Mode::Working(Scratch::create(folder, bytes)?)
            }
            None => Mode::Counting,
        };
        Ok(Pages(RefCell::new(noted.known(mode, room - staging))))
    }

    /// Whether blocks have elements.
    pub(in super::super) fn is_working(&self) -> bool {
        matches!(self.0.borrow().mode, Mode::Working(_))
    }

    /// The most bytes that were in memory, with what is being written.
    pub(in super::super) fn most(&self) -> u64 {
        let of = self.0.borrow();
        match of.mode {
            Mode::Noting => of.most,
            _ => of.most + STAGING * of.largest,
        }
    }

    /// Bytes for blocks and what is being written.
    pub(in super::super) fn room(&self) -> u64 {
        let of = self.0.borrow();
        of.room + STAGING * of.largest
    }

    /// What the disk did since the last training began.
    pub(in super::super) fn disk(&self) -> Disk {
        self.0.borrow().disk
    }

    /// Begins a training or an evaluation.
    ///
    /// # Errors
    /// [`Error::Io`] of what could not be read or written before.
    pub(in super::super) fn begin(&self, round: Round) -> Result<()> {
        self.0.borrow_mut().begin(round)
    }

    /// A matrix by its key, in blocks that begin at these rows; it is made when it is asked for first.
    pub(super) fn matrix(&self, key: Key, d: usize, starts: &Rc<[usize]>) -> usize {
        let mut of = self.0.borrow_mut();
        let found = of.matrices.iter().position(|m| m.key == key);
        found.unwrap_or_else(|| of.add(key, d, starts))
    }

    /// The first rows of a matrix' blocks, and how many there are.
    pub(super) fn starts(&self, matrix: usize) -> Rc<[usize]> {
        Rc::clone(&self.0.borrow().matrices[matrix].starts)
    }

    /// Nobody wants a matrix' elements any more; it is zero.
    pub(super) fn clear(&self, matrix: usize) {
        self.0.borrow_mut().clear(matrix);
    }

    /// Does something with block `k` of a matrix.
    ///
    /// # Errors
    /// [`Error::Io`] of what could not be read or written.
    pub(super) fn with(
        &self,
        (matrix, k): (usize, usize),
        how: Use,
        f: impl FnOnce(&mut Mat),
    ) -> Result<()> {
        let (block, mut data) = {
            let mut of = self.0.borrow_mut();
            let block = of.matrices[matrix].first + k as u32;
            (block, of.take(block, how)?)
        };
        f(&mut data);
        self.0.borrow_mut().put(block, data)
    }
}
