//! `halobook-kernel`: the Jupyter kernel of Halobook.
//!
//! One binary, four parts that it plays, told apart before anything else happens:
//!
//! 1. called `cargo` or `rustup` (a link inside a kernel's own scratch folder) it is the
//!    [`cell::shim`] that lets a cell be compiled without cargo;
//! 2. started by evcxr it is the process that holds the user's variables ([`evcxr::runtime_hook`]);
//! 3. `run` is the kernel itself;
//! 4. `install`, `uninstall` and `prepare` are for set-up.
#![deny(unsafe_code)]

#[cfg(test)]
mod at_random;
mod cell;
mod cli;
mod compile;
mod depth;
mod figure;
mod front;
mod install;
mod live;
mod magic;
mod text;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before `runtime_hook`: the shim is also called by processes that carry evcxr's marks in
    // their environment, and must not be mistaken for them.
    if let Some(code) = cell::shim::dispatch() {
        return code;
    }
    // A cell's process has those marks, too, and asks for figures.
    if std::env::args().nth(1).as_deref() == Some("figure") {
        return cli::main();
    }
    launcher::sys::end_by_sent_faults();
    if std::env::var_os("EVCXR_IS_RUNTIME").is_some() {
        launcher::sys::settle_frames();
        launcher::sys::end_when_orphaned();
    }
    evcxr::runtime_hook();
    cli::main()
}
