//! What is known of one call.

use crate::record::Pass;

/// One call of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The operation: a method of [`super::Backend`].
    pub op: &'static str,
    /// Layer.
    pub layer: usize,
    /// Pass of the model.
    pub pass: Pass,
    /// Nanoseconds.
    pub ns: u64,
    /// Nanoseconds that threads spent in its jobs, all together; what is not in jobs one thread does alone.
    pub busy_ns: u64,
    /// Bytes that it reads and writes at least.
    pub bytes: f64,
    /// Operations.
    pub flops: f64,
    /// Rows that it reads one by one, as a list says.
    pub gathered: Gathered,
}

/// Rows that an operation reads one by one; none for what reads everything in its order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gathered {
    /// One for each entry of the list.
    pub rows: f64,
    /// Columns of one.
    pub columns: usize,
    /// Which list.
    pub list: Listed,
}

/// The lists that say which rows are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// A graph's edges: rows of their sources.
    #[default]
    Edges,
    /// Elements of sparse features: rows of weights, or of their sums.
    Features,
}
