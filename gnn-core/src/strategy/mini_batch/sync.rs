//! How the gradients of all ranks become a step of the weights.

use super::parameter_server::ParameterServer;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Model, Optimiser, Weights};
use crate::record::PredictedLane;
use crate::strategy::reduce::Reduction;

/// Sums gradients over ranks, and changes the weights of all ranks alike. All of it is collective, in the
/// order of the calls: in every step `begin`, then `ready` for each layer, last first, then `apply`. Where a
/// step has several batches, `add` stands for `ready` in all but the last of them.
pub(in crate::strategy) trait GradientSync {
    /// Bytes that leave this rank in one step.
    fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)>;

    /// A step begins.
    fn begin(&mut self, cx: &Ctx);

    /// The gradients of a layer of one batch are there, and others of the step follow.
    fn add(&mut self, cx: &Ctx, layer: usize, grads: Weights);

    /// This rank's gradients of a layer are there, or those of its last batch; the sum may leave while others
    /// are computed.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn ready(&mut self, cx: &mut Ctx, layer: usize, grads: Weights) -> Result<()>;

    /// Makes a step of `weights`, by layer, with the sums of all ranks' gradients.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    fn apply(&mut self, cx: &mut Ctx, weights: &mut [Weights]) -> Result<()>;

    /// The last step's sums, by layer.
    fn gradients(&self) -> &[Weights];

    /// Adds what later steps need of earlier ones to `snapshot`.
    fn save(&mut self, cx: &Ctx, snapshot: &mut Snapshot);

    /// Takes it back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when something is missing.
    fn restore(&mut self, cx: &Ctx, snapshot: &mut Snapshot) -> Result<()>;
}

/// The one that a request asks for (`gradients`).
pub(in crate::strategy) fn of_request(model: &Model, cx: &Ctx) -> Box<dyn GradientSync> {
    match cx.plan.spec.knobs.word("gradients") {
        "ps" => Box::new(ParameterServer::new(model, cx)),
        _ => Box::new(AllReduce::new(model, cx)),
    }
}

/// An all-reduce a layer; every rank runs the optimiser on the same sums.
pub(in crate::strategy) struct AllReduce {
    reduction: Reduction,
    optimiser: Optimiser,
}

impl AllReduce {
    /// For the weights of `model`.
    pub(in crate::strategy) fn new(model: &Model, cx: &Ctx) -> AllReduce {
        AllReduce {
            reduction: Reduction::new(&model.weights, cx),
            optimiser: Optimiser::new(&cx.plan.spec, model, cx.backend.as_ref()),
        }
    }
}

impl GradientSync for AllReduce {
    fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        self.reduction.predict(cx)
    }

    fn begin(&mut self, cx: &Ctx) {
        self.reduction.begin(cx);
    }

    fn add(&mut self, cx: &Ctx, layer: usize, grads: Weights) {
        self.reduction.add(cx, layer, grads);
    }

    fn ready(&mut self, cx: &mut Ctx, layer: usize, grads: Weights) -> Result<()> {
        self.reduction.ready(cx, layer, grads)
    }

    fn apply(&mut self, cx: &mut Ctx, weights: &mut [Weights]) -> Result<()> {
        self.reduction.collect(cx)?;
        let gradients = self.reduction.gradients();
        self.optimiser.step(cx, weights, gradients);
        Ok(())
    }

    fn gradients(&self) -> &[Weights] {
        self.reduction.gradients()
    }

    fn save(&mut self, cx: &Ctx, snapshot: &mut Snapshot) {
        if cx.rank() == 0 {
            // Every rank has the same.
            let backend = cx.backend.as_ref();
            self.optimiser.save(backend, &mut snapshot.shared);
        }
    }

    fn restore(&mut self, cx: &Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.optimiser.restore(backend, &mut snapshot.shared)
    }
}
