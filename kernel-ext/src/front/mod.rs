//! The front: what a Jupyter client talks to.
//!
//! Three kinds of threads. The runtime's tasks move messages between sockets and channels and
//! answer everything that needs no evaluation. The *executor* thread takes cells in order. The
//! *evaluation* thread ([`crate::cell::engine`]) owns evcxr and nothing else, so a long run,
//! a completion and an interrupt never wait for each other.

mod answer;
mod executor;
mod history;
mod outcome;
mod output;
mod printed;
mod read;
mod serve;
mod user_error;
mod wire;

pub use outcome::{Failure, Outcome, Shown};
pub use output::CellOutput;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use jupyter_protocol::ConnectionInfo;

/// Runs the kernel until a client asks it to shut down.
///
/// # Errors
/// When the connection file cannot be read or a socket cannot be bound.
pub fn run(connection_file: &Path) -> Result<ExitCode> {
    let text = std::fs::read_to_string(connection_file)
        .with_context(|| format!("cannot read {}", connection_file.display()))?;
    let connection: ConnectionInfo = serde_json::from_str(&text)
        .with_context(|| format!("{} is no connection file", connection_file.display()))?;
    // Enters the kernel's own scratch folder; the first call replaces this process and returns
    // in the second, inside the prepared environment.
    let scratch = crate::cell::scratch::Scratch::enter()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve::serve(&connection, &scratch))?;
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    scratch.remove();
    Ok(ExitCode::SUCCESS)
}
