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
    /// Rows that edges read, one for each edge, and the columns of one; zero for what has no edges.
    pub gathered: (f64, usize),
}
