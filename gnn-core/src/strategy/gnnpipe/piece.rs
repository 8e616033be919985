//! Consecutive layers of a rank, and how a chunk goes through them.

use super::over_chunks::OverChunks;
use crate::backend::{Kept, Mat};
use crate::comm::Communicator;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, Flow, Grad, Input, Model, Optimiser, Tape};
use crate::strategy::full_graph::OverBlock;
use crate::strategy::halo::Halo;
use crate::strategy::reduce::Reduction;
use std::ops::Range;
use std::rc::Rc;

/// How layers reach other vertices.
pub(super) enum Seam {
    /// One chunk: nothing is historical.
    One(OverBlock<Halo>),
    /// Several.
    Several(OverChunks),
}

impl Seam {
    pub(super) fn seam(&mut self) -> &mut dyn Aggregate {
        match self {
            Seam::One(over) => over,
            Seam::Several(over) => over,
        }
    }

    /// The chunks, where there are several.
    pub(super) fn several(&mut self) -> Option<&mut OverChunks> {
        match self {
            Seam::One(_) => None,
            Seam::Several(over) => Some(over),
        }
    }
}

/// What the first layer of a piece reads.
pub(super) enum Source {
    /// What the piece before sends.
    Before,
    /// Features, chunk by chunk: the first layer reads no neighbours, or there is one chunk.
    Chunks(Vec<Input>),
    /// Features of all sources: the first layer aggregates them.
    Sources(Input),
    /// Features of all rows: the first layer aggregates a product of them, so it runs on all rows before
    /// the first chunk, and back after the last.
    Rows(Input),
}

/// A rank's layers that follow each other.
pub(super) struct Piece {
    pub(super) source: Source,
    pub(super) model: Model,
    pub(super) reduction: Reduction,
    pub(super) optimiser: Optimiser,
}

/// The first layer on all rows, where it goes before the chunks.
pub(super) struct First {
    pub(super) output: Rc<Mat>,
    pub(super) tape: Tape,
    /// Of its output, filled chunk by chunk.
    pub(super) grad: Mat,
}

/// Where a piece runs: the ranks of the stage, the way to other vertices, and the rows that come.
pub(super) struct Place<'a> {
    pub(super) group: &'a mut Communicator,
    pub(super) seam: &'a mut Seam,
    /// Global vertex ids of the rows.
    pub(super) ids: &'a Kept<u32>,
    /// The chunk that they are; none for all rows.
    pub(super) chunk: Option<usize>,
}

impl Place<'_> {
    fn enter(&mut self) {
        if let Some(over) = self.seam.several() {
            over.at = self.chunk;
        }
    }
}

/// How a piece goes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Back {
    /// Whether these are the last rows: sums of weight gradients are handed over.
    pub(super) last: bool,
    /// Whether weight gradients are made when the input's have gone on.
    pub(super) split: bool,
}

impl Piece {
    /// Layers that chunks go through.
    pub(super) fn layers(&self) -> Range<usize> {
        let Range { start, end } = self.model.held();
        match self.source {
            Source::Rows(_) => start + 1..end,
            _ => start..end,
        }
    }

    /// Some layers, forward.
    pub(super) fn through(
        &self,
        cx: &mut Ctx,
        mut at: Place<'_>,
        layers: Range<usize>,
        flow: Flow,
        train: bool,
    ) -> Result<(Flow, Tape)> {
        at.enter();
        let Place {
            group, seam, ids, ..
        } = at;
        let seam = seam.seam();
        cx.within(group, |cx| {
            self.model
                .forward_layers(cx, seam, layers, flow, ids, train)
        })
    }

    /// Some layers, back; `gone` takes the gradient of their input.
    pub(super) fn back(
        &mut self,
        cx: &mut Ctx,
        mut at: Place<'_>,
        (layers, tape, grad): (Range<usize>, Tape, Grad),
        how: Back,
        gone: &mut dyn FnMut(&mut Ctx, &Model, Grad) -> Result<()>,
    ) -> Result<()> {
        at.enter();
        let Place {
            group, seam, ids, ..
        } = at;
        let seam = seam.seam();
        let Piece {
            model, reduction, ..
        } = self;
        let mut ready = |cx: &mut Ctx, layer, grads| match how.last {
            true => reduction.ready(cx, layer, grads),
            false => {
                reduction.add(cx, layer, grads);
                Ok(())
            }
        };
        if !how.split {
            let grad = cx.within(group, |cx| {
                model.backward_layers(cx, seam, layers, tape, ids, grad, &mut ready)
            })?;
            return grad.map_or(Ok(()), |grad| gone(cx, model, grad));
        }
        let (grad, owed) = cx.within(group, |cx| {
            model.backward_of_inputs(cx, seam, layers, tape, ids, grad)
        })?;
        if let Some(grad) = grad {
            gone(cx, model, grad)?;
        }
        cx.within(group, |cx| owed.pay(cx, &mut ready))
    }

    /// A chunk's rows of this pass's features.
    pub(super) fn of_features(cx: &Ctx, over: &OverChunks, chunk: usize) -> Flow {
        let x = over.features.as_ref().expect("set when the pass began");
        let chunk = &over.chunks().all[chunk];
        let first = chunk.seen.start;
        Flow::from(cx.backend.rows(x, first..first + chunk.rows()))
    }
}
