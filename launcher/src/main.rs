//! The `halobook` command: one skin over the launcher's functions, and what a rank executes.

mod cli;

fn main() {
    std::process::exit(cli::main());
}
