//! Vertices at random: the baseline that every cut is measured against.

use crate::Result;
use crate::graph::Graph;
use crate::partition::{Partitioner, PartitionerEntry, check_parts};
use crate::rng::{self, Purpose};

/// Each vertex goes to a part by a hash of its id and the seed, balanced only on average.
pub struct Hash;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "hash",
    about: "by a hash of the vertex id: balanced, cuts most edges",
    partitioner: &Hash,
};

impl Partitioner for Hash {
    fn assign(&self, graph: &Graph, parts: usize, seed: u64) -> Result<Vec<u32>> {
        check_parts(parts)?;
        let key = rng::key(seed, 0, Purpose::Partition, 0);
        Ok((0..graph.n() as u64)
            .map(|v| rng::below(key, v, parts as u64) as u32)
            .collect())
    }
}
