//! Benchmarks: what this machine can do, and how near each kernel comes to it.
//!
//! | module | one idea |
//! |---|---|
//! | `clock` | repeat, and keep the quartiles |
//! | `memory` | copy and triad bandwidth by working set |
//! | `flops` | multiply-adds a second, by SIMD level and on tiles |
//! | `gather` | fetching rows in the order of a graph's edges |
//! | `gpu` | the CUDA kernels beside a GPU's own copies |
//! | `limits` | both together: which one binds a kernel, and what share of it was reached |
//! | `cases` | one entry a kernel: its inputs, its answer checked, its work counted |
//!
//! A kernel's *compulsory bytes* are those of its arguments and results, each counted once: a row
//! that is read for many edges counts once, as if caches were perfect. So the share of the
//! bandwidth can be low for a reason (a graph whose rows do not fit into the cache), but never
//! above what a better kernel could reach. Its FLOPs count a multiply-add as two.
//!
//! Nothing here is a test that can fail for being slow; a wrong answer is an error of the case.

mod cases;
mod clock;
mod flops;
mod gather;
mod gpu;
mod limits;
mod memory;

pub use cases::{Input, KERNELS, Line, Outcome, kernels};
pub use clock::{Clock, Spread};
pub use flops::peak as peak_gflops;
pub use gather::gather;
pub use gpu::{GpuKernels, OnGpu, gpu_kernels};
pub use limits::{Bound, Limits};
pub use memory::{Bandwidth, bandwidth, working_sets};
