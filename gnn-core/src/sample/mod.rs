//! Sampling: mini-batches of seeds with a few of their in-neighbours, hop by hop.
//!
//! ```text
//! seeds = rows of the last block ◀─ its columns = rows of the block before ◀─ … ◀─ inputs
//! ```
//!
//! A hop takes some in-edges of each of its rows ([`FanOut`]); their sources, after the rows
//! themselves, are the columns of its [`Block`], which are numbered anew in the order of their first
//! appearance. Models run on these blocks as on any other.
//!
//! # Determinism
//! What is drawn for a vertex is a function of (seed, epoch, batch, layer, vertex) alone: neither ranks,
//! threads nor the other vertices of the batch can change it.
//!
//! # Weights
//! A sum over in-edges is estimated without bias: the weight of a drawn edge is that of the whole
//! graph over the probability to be drawn, given what was drawn else. With uniform draws that is the
//! factor `d / k`, which makes the means of GraphSAGE means of what was drawn. By type, it is that of
//! the edges of the type.

mod among;
mod compact;
mod draw;
mod hop;
mod links;
mod nearby;
mod negative;
mod neighbourhood;
mod sampler;
#[cfg(test)]
mod tests;

pub use compact::Compact;
pub(crate) use hop::Hop;
pub use links::{LinkBatch, Links, Negative};
pub(crate) use links::{TrainEdges, Without};
pub(crate) use nearby::Nearby;
pub use negative::Negatives;
pub use neighbourhood::{Drawn, Neighbourhood, Random, Vertex};
pub use sampler::Sampler;

use crate::graph::Block;

/// How many in-edges of a vertex a hop takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FanOut {
    /// All of them.
    All,
    /// So many; all where there are fewer and none is drawn twice.
    Of(u32),
    /// So many of each type of edges, likewise: `[types]`.
    PerType(Vec<u32>),
}

impl FanOut {
    /// How many of group `g` are drawn; all where absent.
    pub(crate) fn of(&self, g: usize) -> Option<u32> {
        match self {
            FanOut::All => None,
            FanOut::Of(k) => Some(*k),
            FanOut::PerType(each) => Some(each[g]),
        }
    }
}

/// A batch: seeds, and the blocks that lead to them.
#[derive(Debug, Clone)]
pub struct MiniBatch {
    /// The vertices that the batch is about; rows of the last block.
    pub seeds: Vec<u32>,
    /// The vertices whose features are read: columns of the first block.
    pub inputs: Vec<u32>,
    /// One block a layer, in the order in which layers run. The first rows of a block's columns are
    /// its rows.
    pub blocks: Vec<Block>,
}
