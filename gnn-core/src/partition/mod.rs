//! Cutting a graph: which rank owns which vertex, and what each rank sees of the others.

mod chunk;
mod facts;
mod hash;
mod metis;
mod view;

pub use chunk::Chunk;
pub use facts::{PartFacts, facts};
pub use hash::Hash;
pub use metis::Metis;
pub use view::LocalPart;

use crate::graph::Graph;
use crate::{Error, Result};

/// Assigns every vertex to a part.
pub trait Partitioner: Sync {
    /// The part of each vertex, below `parts`: `[n]`. The same arguments give the same parts.
    /// Parts may be empty.
    ///
    /// # Errors
    /// [`Error::Partition`] when the graph cannot be cut; [`Error::Spec`] for no parts at all.
    fn assign(&self, graph: &Graph, parts: usize, seed: u64) -> Result<Vec<u32>>;
}

/// A partitioner under its name.
pub struct PartitionerEntry {
    /// Name in a specification.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The partitioner.
    pub partitioner: &'static dyn Partitioner,
}

/// Every partitioner, the default first.
pub static PARTITIONERS: &[PartitionerEntry] = &[metis::ENTRY, chunk::ENTRY, hash::ENTRY];

/// The partitioner of that name.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest one.
pub fn find(name: &str) -> Result<&'static PartitionerEntry> {
    PARTITIONERS.iter().find(|e| e.name == name).ok_or_else(|| {
        let known: Vec<&str> = PARTITIONERS.iter().map(|e| e.name).collect();
        Error::unknown("partitioner", name, &known)
    })
}

/// Refuses a cut that makes no sense before any partitioner sees it.
fn check_parts(parts: usize) -> Result<()> {
    if parts == 0 || parts > u32::MAX as usize {
        return Err(Error::Spec {
            key: "ranks".into(),
            reason: format!("expected 1 to {} parts, got {parts}", u32::MAX),
            help: "choose at least one rank".into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
