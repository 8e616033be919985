//! Lists of a chunk's edges on the device: there for good, or copied for each use.

use crate::backend::Sparse;
use crate::ctx::Ctx;
use crate::graph::Block;
use crate::record::Route;
use kernels::CsrBuf;
use std::borrow::Cow;

/// Bytes of a sparse matrix' lists.
pub(super) fn bytes(a: &Sparse) -> u64 {
    let a = a.view();
    (8 * a.indptr.len() + 4 * a.indices.len() + a.weights.map_or(0, |w| 4 * w.len())) as u64
}

/// Bytes of a block's lists, both ways.
pub(super) fn block_bytes(block: &Block) -> u64 {
    let types = block.types().map_or(0, |types| 2 * types.len());
    bytes(block.edges()) + bytes(block.edges_t()) + types as u64
}

/// A matrix on the device, where it is `pinned` or else for as long as it is used.
pub(super) fn on_device<'a>(cx: &Ctx, pinned: bool, a: &'a Sparse) -> Cow<'a, Sparse> {
    if pinned {
        return Cow::Borrowed(a);
    }
    cx.meter().copying(Route::HostToDevice, bytes(a), || {
        let a = a.view();
        Cow::Owned(Sparse::brief(CsrBuf {
            indptr: a.indptr.to_vec(),
            indices: a.indices.to_vec(),
            weights: a.weights.map(<[f32]>::to_vec),
            n_cols: a.n_cols,
        }))
    })
}

/// The same of a block.
pub(super) fn block_on_device<'a>(cx: &Ctx, pinned: bool, block: &'a Block) -> Cow<'a, Block> {
    if pinned {
        return Cow::Borrowed(block);
    }
    let copy = || Cow::Owned(block.clone());
    cx.meter()
        .copying(Route::HostToDevice, block_bytes(block), copy)
}
