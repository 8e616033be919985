//! `cargo quickstart` and `cargo verify`.
//!
//! This crate has no dependencies, so that a fresh machine can build it before anything else is
//! installed: it then finds or installs an MPI, libclang and what else is missing, builds the
//! workspace once, and either shows Halobook ([`quickstart`]) or checks it ([`verify`]).
//!
//! Every step has a name, a clock and a limit ([`flow`]), and is skipped when nothing it reads has
//! changed ([`stamp`]). Exit status: 0 done, 1 a step or a check failed, 2 something has to be
//! installed by hand first.

mod aarch64;
mod browser;
mod compile;
mod counts;
mod differential;
mod environment;
mod exec;
mod flow;
mod fuzz;
mod links;
mod memory;
mod notebook;
mod parts;
mod places;
mod python;
mod quickstart;
mod stamp;
mod system;
mod table;
mod toolchain;
mod verify;

use flow::Stop;
use std::process::ExitCode;

const USAGE: &str = "\
cargo quickstart            install what is missing, build, execute the first notebook
cargo verify                every check there is; the last line counts them
cargo verify --only NAME    one stage: format, clippy, test, docs, environment, links, notebooks, memory, aarch64, fuzz
cargo verify --soak         also the slow checks, the kernels under Miri, the address sanitizer and an emulated aarch64, and
                            every reader under a fuzzer
Environment: CARGO_TARGET_DIR, HALOBOOK_PYTHON (a Python to use), HALOBOOK_NO_INSTALL=1 (never call apt-get)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["quickstart"] => quickstart::main(),
        ["verify", rest @ ..] => verify::Options::parse(rest).and_then(verify::main),
        ["--help" | "-h" | "help"] | [_, "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Stop::by_hand(
            format!("no such command: `{}`", args.join(" ")),
            USAGE.to_string(),
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            stop.print();
            ExitCode::from(stop.code)
        }
    }
}
