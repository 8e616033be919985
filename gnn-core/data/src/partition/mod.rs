//! Cutting a graph: which rank owns which vertex, and what each rank sees of the others.
//!
//! | method | one idea | paper |
//! |---|---|---|
//! | [`Metis`] | few cut edges, several balances at once, thinned where memory or time ask | METIS; DistDGL §4.1.2 |
//! | [`Chunk`] | contiguous ids, equal vertices or equal in-edges | |
//! | [`struct@Hash`], [`Random`] | at random, balanced on average or exactly | |
//! | [`Ldg`], [`Fennel`] | one pass over the vertices | LDG; Fennel |
//! | [`ByteGnn`] | K-hop blocks around labelled vertices | ByteGNN Algorithm 2 |
//! | [`HongTu`] | METIS into devices, ranges into chunks, reorganised | HongTu Algorithm 4 |
//!
//! A [`Request`] says what is to be cut and how; [`Request::assign`] gives the owner of each
//! vertex, [`Nested`] cuts every part again, `LocalPart` is what a rank sees of it, [`facts()`] what it
//! costs.
//!
//! Adding a partitioner is a file here, its `mod` line and its entry in [`PARTITIONERS`]; listing,
//! completion and the laws in the tests read that slice.

mod balance;
mod batched;
mod border;
mod bytegnn;
mod cache;
mod chunk;
mod closure;
mod coarsening;
mod cut;
mod digest;
mod effort;
mod facts;
mod fennel;
mod hash;
mod hongtu;
mod ldg;
mod metis;
mod need;
mod nested;
mod pace;
mod parts;
mod random;
mod report;
mod request;
mod stream;
mod thin;
mod types;
mod undirected;
mod view;

pub use balance::BALANCES;
pub use batched::Batched;
pub use bytegnn::ByteGnn;
pub use cache::Cache;
pub use chunk::Chunk;
pub use closure::Closure;
pub use cut::Cut;
pub use facts::{Facts, Masks, PartFacts, facts};
pub use fennel::Fennel;
pub use hash::Hash;
pub use hongtu::{HongTu, Throughputs, TwoLevel, Volumes};
pub use ldg::Ldg;
pub use metis::Metis;
pub use need::Need;
pub use parts::{Nested, Parts};
pub use random::Random;
pub use report::{Picture, Report, Second};
pub use request::{Limits, Method, Request};
pub use types::{TypeFacts, TypeOf, types};
pub use view::LocalPart;

use crate::knobs::Knob;
use crate::{Error, Result};

/// Assigns every vertex to a part.
pub trait Partitioner: Sync {
    /// The part of each vertex, below `request.parts`: `[n]`. Called by [`Request::assign`], which
    /// has checked the request and answered the case of one part.
    ///
    /// # Errors
    /// [`Error::Partition`] when the graph cannot be cut.
    fn assign(&self, request: &Request) -> Result<Vec<u32>>;
}

/// A partitioner under its name.
pub struct PartitionerEntry {
    /// Name in a specification.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Its settings.
    pub knobs: &'static [Knob],
    /// The partitioner.
    pub partitioner: &'static dyn Partitioner,
}

/// Every partitioner, the default first.
pub static PARTITIONERS: &[PartitionerEntry] = &[
    metis::ENTRY,
    chunk::ENTRY,
    hash::ENTRY,
    random::ENTRY,
    ldg::ENTRY,
    fennel::ENTRY,
    bytegnn::ENTRY,
    hongtu::ENTRY,
];

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

#[cfg(test)]
mod tests;
