//! How a layer reaches other vertices while one batch is computed.
//!
//! | seam | layers | what they are given |
//! |---|---|---|
//! | [`FromPlaces`], [`ToPlaces`] | whose edges have fixed weights | rows of their own; aggregates come out of the buffer and their gradients go into it |
//! | [`Known`] | that multiply first, backward | an aggregate |
//! | [`OverColumns`] | others | the rows of a block's columns |

use super::batches::Batch;
use super::host::OnHost;
use super::tier::Tier;
use crate::backend::{Corner, Kept, Mat, Sparse, Write};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{Aggregate, At, Edges};
use crate::record::Direction;

/// Aggregates of a batch, out of the rows in the buffer or known before.
pub(super) struct FromPlaces<'a> {
    pub(super) batch: &'a Batch,
    /// Its in-edges, on the device.
    pub(super) edges: &'a Sparse,
    pub(super) from: Source<'a>,
    /// Where the aggregates of all batches are kept on the host, if they are.
    pub(super) keep: Option<(&'a Tier, &'a mut OnHost)>,
}

/// Where aggregates come from.
pub(super) enum Source<'a> {
    /// The rows `[places, d]` of the batch.
    Buffer(&'a Mat),
    /// They are here: `[n, d]`.
    Known(Mat),
    /// The layer reads no others.
    Nothing,
}

impl Aggregate for FromPlaces<'_> {
    fn reads_rows(&self) -> bool {
        false
    }

    fn aggregate(&mut self, cx: &mut Ctx, _at: At, _own: &Mat) -> Result<Mat> {
        let buffer = match std::mem::replace(&mut self.from, Source::Nothing) {
            Source::Known(aggregate) => return Ok(aggregate),
            Source::Buffer(buffer) => buffer,
            Source::Nothing => {
                unreachable!("a layer aggregates once, and only one that reads others")
            }
        };
        let own = &self.batch.own;
        let mut out = cx.backend.fresh(own.len(), buffer.ncols());
        let edges = self.edges;
        cx.backend
            .spmm(edges, 0..own.len(), buffer, Write::Set, &mut out);
        if let Some((tier, to)) = &mut self.keep {
            tier.store(cx, &out, to, own.start)?;
        }
        Ok(out)
    }
}

/// What is known before.
pub(super) struct Known(Option<Mat>);

impl Known {
    /// `[n, d]`, for a layer that aggregates once.
    pub(super) fn new(aggregate: Mat) -> Known {
        Known(Some(aggregate))
    }
}

impl Aggregate for Known {
    fn aggregate(&mut self, _cx: &mut Ctx, _at: At, _x: &Mat) -> Result<Mat> {
        Ok(self.0.take().expect("a layer aggregates once"))
    }
}

/// Gradients of a batch's aggregates, into those of the rows in the buffer.
pub(super) struct ToPlaces<'a> {
    pub(super) batch: &'a Batch,
    /// Its in-edges the other way, on the device.
    pub(super) edges_t: &'a Sparse,
    /// `[places, d]`; none where nobody wants them.
    pub(super) buffer: Option<&'a mut Mat>,
    /// Whether the layer adds gradients of its own rows to what it is given back.
    pub(super) own: bool,
}

impl Aggregate for ToPlaces<'_> {
    fn aggregate(&mut self, cx: &mut Ctx, _at: At, g: &Mat) -> Result<Mat> {
        let buffer = self.buffer.as_deref_mut();
        let buffer = buffer.expect("whoever asks for gradients has room for them");
        clear(cx, buffer, &self.batch.clear);
        let edges = self.edges_t;
        cx.backend
            .spmm(edges, 0..edges.rows(), g, Write::Add, buffer);
        let own = if self.own { self.batch.own.len() } else { 0 };
        Ok(cx.backend.zeros(own, g.ncols()))
    }
}

/// Sets some rows of a buffer to zero.
pub(super) fn clear(cx: &Ctx, buffer: &mut Mat, places: &Kept<u32>) {
    let (rows, d) = buffer.dim();
    if places.len() == rows {
        // Let go before the new one is made.
        *buffer = cx.backend.fresh(0, d);
        *buffer = cx.backend.zeros(rows, d);
    } else if !places.is_empty() {
        let none = cx.backend.zeros(places.len(), d);
        let (from, to) = (Corner::at(0), Corner::of(places, 0));
        cx.backend
            .copy_block(&none, from, (places.len(), d), buffer, to);
    }
}

/// The rows of a block's columns.
pub(super) struct OverColumns<'a> {
    /// `[n, columns]`, destinations first.
    pub(super) block: &'a Block,
    /// Global vertex ids of its columns.
    pub(super) ids: &'a Kept<u32>,
}

impl Aggregate for OverColumns<'_> {
    fn edges(&mut self, _at: At) -> Option<Edges<'_>> {
        Some(Edges {
            block: self.block,
            n_interior: self.block.n_dst,
            ids: self.ids,
            neighbours: None,
        })
    }

    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let a = match at.direction {
            Direction::Backward => self.block.edges_t(),
            _ => self.block.edges(),
        };
        let mut out = cx.backend.fresh(a.rows(), x.ncols());
        cx.backend.spmm(a, 0..a.rows(), x, Write::Set, &mut out);
        Ok(out)
    }
}
