//! The `halobook` command: one skin over the launcher's functions, and what a rank executes.

/// Ranks run in this program, and gather rows of large matrices.
#[global_allocator]
static ALLOCATOR: kernels::align::LineAligned = kernels::align::LineAligned;

fn main() {
    let program = launcher::cli::Program {
        strategies: gnn_core::strategy::STRATEGIES,
        mpi: mpi(),
    };
    std::process::exit(launcher::cli::main(&program));
}

#[cfg(feature = "mpi")]
fn mpi() -> Option<launcher::cli::MpiLibrary> {
    Some(launcher::cli::MpiLibrary {
        init: || Ok(Box::new(gnn_mpi::init()?)),
        name: gnn_mpi::library,
    })
}

#[cfg(not(feature = "mpi"))]
fn mpi() -> Option<launcher::cli::MpiLibrary> {
    None
}
