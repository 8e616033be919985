//! The whole system from outside: the binaries as a user starts them, a real Jupyter client, runs
//! on real MPI ranks, killed processes. Nothing here looks inside a crate.
//!
//! - [`answer`]: what one request to a kernel brought back.
//! - [`binaries`]: where the release binaries lie, and what to do when they do not.
//! - [`kernel`]: a Jupyter client over ZMQ.
//! - `place`: which kernels run side by side, `ports` where they listen, and `request` what they are asked.
//! - [`runs`]: starting `halobook`, watching it, reading back what it left.
//! - [`rows`]: what every row of a frame must satisfy.
//! - [`folder`]: data sets written on the spot, whole and damaged.
//! - [`skip`]: what happens when this machine lacks something.
//! - [`within`]: how long a machine may take that others use as well.

pub mod answer;
pub mod binaries;
pub mod deaf;
pub mod folder;
pub mod kernel;
mod place;
mod ports;
pub mod processes;
mod request;
pub mod rows;
pub mod runs;
pub mod skip;
pub mod within;

/// What a test returns: any error fails it, with its chain of causes.
pub type Outcome = anyhow::Result<()>;
