//! Weight gradients of all ranks, or of a group: each layer's start their all-reduce as soon as they exist,
//! and travel while earlier layers are computed. Where a rank has a layer's gradients in several parts, one
//! for each chunk of its rows, it adds them up before they travel, in the order in which they come.

use crate::backend::Mat;
use crate::comm::{Label, Message, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::Weights;
use crate::record::{Direction, PredictedLane};
use kernels::par::split_rows;

/// The gradients of a model's weights, and those on their way.
pub(super) struct Reduction {
    gradients: Vec<Weights>,
    /// Of a layer, what chunks so far have added.
    added: Vec<Weights>,
    tickets: Vec<(usize, Ticket)>,
}

/// Adds a chunk's gradients of a layer to those of the chunks before, if there are any.
pub(super) fn accumulate(cx: &Ctx, sums: &mut Weights, grads: Weights) {
    if sums.is_empty() {
        *sums = grads;
        return;
    }
    for (sum, g) in sums.iter_mut().zip(&grads) {
        cx.backend.axpby(1.0, g, 1.0, sum);
    }
}

/// Bytes that leave this rank in a step whose sums are made in parts, by layer: each rank's begins at its
/// bound.
pub(super) fn lanes(cx: &Ctx, bounds: &[Vec<usize>]) -> Vec<(PredictedLane, u64)> {
    let (me, ranks) = (cx.rank(), cx.size());
    let mut lanes = Vec::new();
    for (layer, bounds) in bounds.iter().enumerate() {
        let len = |r: usize| bounds[r + 1] - bounds[r];
        for dst in (0..ranks).filter(|&r| r != me) {
            // My share of the peer's part goes to it, then what has become of my part.
            let bytes = 4 * (len(dst) + len(me)) as u64;
            let dst = cx.comm.world_rank(dst);
            lanes.push(((layer as u16, Direction::Grad, dst as u32), bytes));
        }
    }
    lanes
}

impl Reduction {
    /// Of `weights`, zero before the first step.
    pub(super) fn new(weights: &[Weights], cx: &Ctx) -> Reduction {
        let zeros = |t: &Mat| cx.backend.zeros(t.nrows(), t.ncols());
        let of_layer = |w: &Weights| -> Weights { w.iter().map(zeros).collect() };
        Reduction {
            gradients: weights.iter().map(of_layer).collect(),
            added: weights.iter().map(|_| Weights::new()).collect(),
            tickets: Vec::new(),
        }
    }

    /// Bytes that leave this rank in one step.
    pub(super) fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        let layers = self.gradients.iter();
        let of_layer = |g: &Weights| split_rows(g.iter().map(Mat::len).sum(), cx.size());
        lanes(cx, &layers.map(of_layer).collect::<Vec<_>>())
    }

    /// A step begins.
    pub(super) fn begin(&mut self, cx: &Ctx) {
        if cx.size() == 1 {
            // The last step's would exist beside this one's.
            self.gradients.iter_mut().for_each(Weights::clear);
        }
    }

    /// One chunk's gradients of a layer are there, and more chunks' follow; the last one's are
    /// [`Reduction::ready`].
    pub(super) fn add(&mut self, cx: &Ctx, layer: usize, grads: Weights) {
        accumulate(cx, &mut self.added[layer], grads);
    }

    /// One chunk's gradients of a layer are there, of the last chunk or of one that others follow.
    ///
    /// # Errors
    /// As [`Reduction::ready`].
    pub(super) fn chunk(
        &mut self,
        cx: &mut Ctx,
        (layer, last): (usize, bool),
        grads: Weights,
    ) -> Result<()> {
        if last {
            return self.ready(cx, layer, grads);
        }
        self.add(cx, layer, grads);
        Ok(())
    }

    /// This rank's gradients of a layer are there, or those of its last chunk.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn ready(&mut self, cx: &mut Ctx, layer: usize, grads: Weights) -> Result<()> {
        let grads = if self.added[layer].is_empty() {
            grads
        } else {
            self.add(cx, layer, grads);
            std::mem::take(&mut self.added[layer])
        };
        if cx.size() == 1 {
            self.gradients[layer] = grads;
            return Ok(());
        }
        if grads.is_empty() {
            return Ok(());
        }
        let label = Label {
            layer: layer as u16,
            direction: Direction::Grad,
        };
        let parts = grads.into_iter().map(|g| cx.message(g));
        let flat = Message::joined(parts.collect());
        let ticket = cx.comm.post_all_reduce(label, flat)?;
        self.tickets.push((layer, ticket));
        Ok(())
    }

    /// Waits for the sums; alone, they are there.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn collect(&mut self, cx: &mut Ctx) -> Result<()> {
        for (layer, ticket) in self.tickets.drain(..) {
            let summed = cx.comm.finish(ticket)?.swap_remove(0);
            let gradients = &mut self.gradients[layer];
            let lens: Vec<usize> = gradients.iter().map(Mat::len).collect();
            for (gradient, mine) in gradients.iter_mut().zip(summed.cut(&lens)) {
                let (rows, cols) = gradient.dim();
                *gradient = cx.received(rows, cols, mine)?;
            }
        }
        Ok(())
    }

    /// The last step's, by layer.
    pub(super) fn gradients(&self) -> &[Weights] {
        &self.gradients
    }
}
