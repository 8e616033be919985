//! What the cell of a strategy sees, and the program it becomes.
//!
//! Four ways to write one, the narrowest first:
//!
//! - `impl Strategy for X`: [`Strategy::exchange`](prelude::Strategy) decides, layer by layer, whether halo
//!   rows and their gradients travel or those of the last time are used again;
//! - `impl Aggregate for X`, with a field `blocks: BlockRows`: Â·X for this rank's rows, over blocks of
//!   rows by owner;
//! - `impl Neighbourhood for X`: [`Neighbourhood::draw`](prelude::Neighbourhood) says which in-edges of a vertex a
//!   mini-batch takes; it runs at the vertex's owner, under `bytegnn`'s schedule;
//! - `pub const ENTRY: Entry`: the whole of it, as the built-in strategies are written.
//!
//! Fields whose types are numbers, `bool` or `String` are settings, keys of `%%gnn` like any other, with
//! the defaults of `impl Default` where there is one. Other fields begin as their types' defaults.
//!
//! [`frame!`](prelude::frame) declares a frame of the strategy's own, whose rows
//! [`Exchange::row`](prelude::Exchange::row) and [`Ctx::row`](prelude::Ctx::row) write.

pub use gnn_core::comm::Transport;
pub use gnn_core::record::frame::FrameRow;
pub use gnn_core::strategy::Entry;
pub use gnn_core::strategy::full_graph::exchange::build as build_exchange;
pub use gnn_core::strategy::written::{About, Setting, knob, on_block_rows, on_neighbourhoods};
pub use launcher::cli::MpiLibrary;

/// Imported above the cell's first line.
pub mod prelude {
    pub use gnn_core::backend::{Backend, Kept, Mat, Sparse, Write};
    pub use gnn_core::comm::Label;
    pub use gnn_core::ctx::Ctx;
    pub use gnn_core::error::{Error, Result};
    pub use gnn_core::frame;
    pub use gnn_core::model::{Aggregate, At, ModelKind, Neighbours};
    pub use gnn_core::record::Direction;
    pub use gnn_core::record::frame::{FrameDef, FrameRow};
    pub use gnn_core::sample::{Drawn, Neighbourhood, Random, Vertex};
    pub use gnn_core::spec::{Knob, Knobs, RunSpec, Value};
    pub use gnn_core::strategy::full_graph::block_rows::{BlockRows, Trip};
    pub use gnn_core::strategy::full_graph::exchange::{Exchange, ExchangeRule as Strategy};
    pub use gnn_core::strategy::{Built, Determinism, Entry, Exact, Setup};
}

/// How ranks allocate: rows of large matrices are gathered.
pub type Allocator = kernels::align::LineAligned;

/// The allocator of a strategy's program.
pub const ALLOCATOR: Allocator = kernels::align::LineAligned;

/// The command line with one strategy more.
pub fn program(entry: Entry, mpi: Option<MpiLibrary>) -> ! {
    let built_in = gnn_core::strategy::STRATEGIES.iter().copied();
    let others = built_in.filter(|other| other.name != entry.name);
    let strategies: Vec<Entry> = others.chain([entry]).collect();
    let program = launcher::cli::Program {
        strategies: strategies.leak(),
        mpi,
    };
    std::process::exit(launcher::cli::main(&program))
}
