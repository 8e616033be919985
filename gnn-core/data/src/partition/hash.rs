//! Vertices at random: the baseline that every cut is measured against.

use crate::Result;
use crate::partition::{Partitioner, PartitionerEntry, Request};
use crate::rng::{self, Purpose};

/// Each vertex goes to a part by a hash of its id and the seed, balanced only on average: a part's
/// vertices deviate from `n / parts` by a few times the square root of it.
pub struct Hash;

/// The registry entry.
pub(super) const ENTRY: PartitionerEntry = PartitionerEntry {
    name: "hash",
    about: "by a hash of the vertex id: balanced, cuts most edges",
    knobs: &[],
    partitioner: &Hash,
};

impl Partitioner for Hash {
    fn assign(&self, request: &Request) -> Result<Vec<u32>> {
        let key = rng::key(request.seed, 0, Purpose::Partition, 0);
        let parts = request.parts as u64;
        Ok((0..request.graph.n() as u64)
            .map(|v| rng::below(key, v, parts) as u32)
            .collect())
    }
}
