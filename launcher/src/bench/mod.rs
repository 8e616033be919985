//! Benchmarks of whole epochs, and the comparison with libraries that a Python has.
//!
//! The kernels and the machine are measured by [`kernels::bench`]; this is what needs processes.
//!
//! | module | one idea |
//! |---|---|
//! | [`epoch`] | forms of ours and of theirs in turn, round after round |
//! | [`profile`] | where the time of an epoch goes, beside the machine's limits |
//! | [`held`] | what the order of vertices in memory makes of such an epoch |
//! | [`grid`], [`heat`] | a map of such epochs over shapes, and its picture |
//! | [`sample`] | mini-batches drawn, ours and theirs in turn |
//! | [`ours`] | epochs of a real worker, on the ordinary run path |
//! | [`python`] | a Python, what it has, and its answers |
//! | [`export`] | a data set as arrays that any Python reads |
//! | [`others`] | how much of the machine somebody else used meanwhile |
//!
//! Forms are compared like with like: training that aggregates the constant features in every
//! epoch with theirs that does, and training that did so once with theirs that did; stock layers
//! and hand-tuned code apart. Each form of theirs runs in its fastest setting, in a process of its
//! own, with an allocator that keeps freed pages and large ones.
//!
//! # Measured
//! Epochs and single operations beside DGL and PyG: `notebooks/measured/epochs.md`.

pub mod epoch;
pub mod export;
pub mod gpu;
pub mod grid;
pub mod heat;
pub mod held;
pub mod others;
pub mod ours;
pub mod profile;
pub mod python;
pub mod sample;
