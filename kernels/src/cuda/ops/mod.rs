//! How each kernel is launched: shapes checked, grids chosen, long rows combined.
//!
//! Matrices are row-major buffers; their shapes are arguments or follow from the other operands.
//! Every function returns before the device is done.

mod attention;
mod coefficients;
mod dense;
mod draw;
mod edges;
mod loss;
mod norm;
mod optim;
mod pairs;
mod relation;
mod rows;
mod spmm;

pub use attention::{AttentionOn, DropOn, GatSums, gat_destinations, gat_forward, gat_source_pass};
pub use coefficients::{Made, coefficients, coefficients_backward, edge_dropout};
pub use dense::{ActOn, DropoutOn, GateOn, ThenOn, axpby, column_sums, gemm, head_gradient, then};
pub use draw::{DrawHow, DrawnEdges, DrawnFrom};
pub use edges::{edge_softmax, edge_softmax_backward, edge_sums, head_dots, head_outer_add, sddmm};
pub use loss::{dot, sigmoid_bce, softmax_xent};
pub use norm::{layer_norm, layer_norm_backward};
pub use optim::{adam, sgd, sparse_adagrad, sparse_adam};
pub use pairs::{pair_products, pair_products_backward};
pub use relation::{ByType, TypesOn, rspmm, rspmm_coef, rspmm_t};
pub use rows::{CornerOn, PickedOn, copy_block, scatter_add, sparse_dropout};
pub use spmm::{Reduce, Stored, spmm, to_bf16};

use super::{Arg, Buf, Plain};

/// Threads of every block.
pub(super) const THREADS: u32 = 256;

/// Warps of every block.
pub(super) const WARPS: usize = 8;

/// The argument for a buffer that may be absent.
fn optional<T: Plain>(buffer: Option<&Buf<T>>) -> Arg {
    buffer.map_or(Arg::U64(0), Buf::arg)
}

/// A size as a kernel takes it.
fn word(op: &str, size: usize) -> Arg {
    Arg::U32(
        u32::try_from(size)
            .unwrap_or_else(|_| panic!("{op}: expected a size below 2³², got {size}")),
    )
}

/// Floats of one load for rows of `d` of them.
fn vector(d: usize) -> usize {
    if d.is_multiple_of(4) { 4 } else { 1 }
}

/// The name of a kernel made for vectors of `v` floats, `r` of them a lane.
macro_rules! variant {
    ($stem:literal, $v:expr, $r:expr) => {
        match ($v, $r) {
            (1, 1) => concat!($stem, "_1_1"),
            (1, 2) => concat!($stem, "_1_2"),
            (1, _) => concat!($stem, "_1_4"),
            (_, 1) => concat!($stem, "_4_1"),
            (_, 2) => concat!($stem, "_4_2"),
            (_, _) => concat!($stem, "_4_4"),
        }
    };
}
pub(crate) use variant;
