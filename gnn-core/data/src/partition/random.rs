//! Vertices dealt out in a random order: random, and balanced exactly.

use crate::Result;
use crate::partition::{Partitioner, PartitionerEntry, Request};
use crate::rng::{self, Purpose};

/// Vertices are shuffled by the seed and dealt out in turn: counts of vertices differ by at most
/// one.
pub struct Random;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "random",
    about: "shuffled and dealt out: exactly equal counts, cuts most edges",
    knobs: &[],
    partitioner: &Random,
};

impl Partitioner for Random {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let parts = request.parts as u32;
        let mut owner: Vec<u32> = (0..request.graph.n() as u32).map(|v| v % parts).collect();
        rng::shuffle(rng::key(request.seed, 0, Purpose::Partition, 2), &mut owner);
        Ok(owner)
    }
}
