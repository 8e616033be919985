//! What lies on the host, cut into blocks.

use super::order::{NEVER, Use};
use crate::backend::Mat;
use std::rc::Rc;

/// A block is at most so much of the room there is, ...
const OF_ROOM: u64 = 64;

/// ... and so many bytes.
const BLOCK: u64 = 1 << 20;

/// Which matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Key {
    /// The input of a layer.
    Input(usize),
    /// What a layer aggregates.
    Aggregate(usize),
    /// Products of a layer's input, or their gradients.
    Product(usize),
    /// Gradients of a layer's input.
    Gradient(usize),
    /// The initial residual, and its gradients.
    Residual(usize),
    /// Edges of all chunks.
    Edges,
}

/// A matrix in blocks.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) key: Key,
    /// The first row of each block, and the number of rows.
    pub(super) starts: Rc<[usize]>,
    /// Its first block.
    pub(super) first: u32,
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Nowhere: it is zero.
    Zero,
    /// Nowhere: it was not worth writing.
    Lost,
    /// In the file.
    Disk,
    /// In memory, or on its way there.
    Memory,
}

/// A block of a matrix.
#[derive(Debug)]
pub(super) struct Block {
    /// Elements.
    pub(super) len: usize,
    /// Columns.
    pub(super) d: usize,
    /// Where it is in the file.
    pub(super) offset: u64,
    pub(super) at: At,
    /// Its elements, once they are in memory, and while nobody uses them.
    pub(super) data: Option<Mat>,
    /// Whether they are being read.
    pub(super) comes: bool,
    /// Whether the file has other elements, or none.
    pub(super) dirty: bool,
    /// When it is wanted next, and how.
    pub(super) next: (u64, Use),
}

impl Block {
    /// One of so many rows, which are zero.
    pub(super) fn new(rows: usize, d: usize) -> Block {
        Block {
            len: rows * d,
            d,
            offset: 0,
            at: At::Zero,
            data: None,
            comes: false,
            dirty: false,
            next: (NEVER, Use::Write),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        4 * self.len as u64
    }

    pub(super) fn rows(&self) -> usize {
        self.len / self.d.max(1)
    }
}

/// Rows of a block that is `room / 64`, but no more than a mebibyte, where a row has `d` columns.
pub(in super::super) fn rows_of_block(room: u64, d: usize) -> usize {
    let bytes = (room / OF_ROOM).min(BLOCK);
    ((bytes / (4 * d.max(1) as u64)) as usize).max(1)
}

impl Matrix {
    /// Its blocks.
    pub(super) fn blocks(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.starts.len() as u32 - 1
    }
}
