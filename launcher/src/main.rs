//! The `halobook` command: one skin over the launcher's functions, and what a rank executes.

mod cli;

/// Ranks run in this program, and gather rows of large matrices.
#[global_allocator]
static ALLOCATOR: kernels::align::LineAligned = kernels::align::LineAligned;

fn main() {
    std::process::exit(cli::main());
}
