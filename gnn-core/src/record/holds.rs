//! Bytes that a rank holds, by what they are for.

use serde::{Deserialize, Serialize};

/// Bytes at the fullest moment of training. The program itself is not in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holds {
    /// The rank's part of the graph, with what is known of its vertices.
    pub graph: usize,
    /// Features of its vertices.
    pub features: usize,
    /// What forward made and backward needs, gradients of it, and batches.
    pub activations: usize,
    /// Rows of other ranks: those that travel, or copies that are kept.
    pub halo: usize,
    /// Rows of earlier epochs that are kept for later ones.
    #[serde(default)]
    pub history: usize,
    /// Rows of all layers that lie apart from the device, for strategies that load them from there.
    #[serde(default)]
    pub offloaded: usize,
    /// Weights, their gradients and the optimiser's state.
    pub parameters: usize,
}

impl Holds {
    /// All together.
    pub fn total(&self) -> usize {
        let moving = self.activations + self.halo + self.history + self.offloaded;
        self.graph + self.features + moving + self.parameters
    }
}
