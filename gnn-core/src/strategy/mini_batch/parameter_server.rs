//! Weights that ranks serve: each owns a part of every layer's, sums all ranks' gradients of it, makes the
//! step, and gives the part back to everybody, in every step (bulk-synchronous).
//!
//! # Paper
//! ByteGNN (PVLDB 15(6), 2022), § 4.2: a parameter server beside each worker, synchronised by BSP. Which part a
//! server has is ours.
//!
//! # Exact when
//! Always: parts are those that the all-reduce sums, in the same order of ranks, and a step changes each weight
//! by itself, so that weights are those of [`super::AllReduce`] bit by bit. As many bytes travel: gradients to
//! their servers, and weights back in the place of sums.

use super::GradientSync;
use crate::checkpoint::Snapshot;
use crate::comm::{Label, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Model, Optimiser, Weights};
use crate::record::{Direction, PredictedLane};
use crate::strategy::reduce::{accumulate, lanes};
use kernels::par::split_rows;

/// A rank's part of the weights, and of the sums of gradients.
pub(in crate::strategy) struct ParameterServer {
    /// By layer, where each rank's part of the weights begins, one tensor behind the other, and the last ends.
    bounds: Vec<Vec<usize>>,
    /// By layer, this rank's part as one row, or nothing where the layer has no weights; none before the first
    /// step.
    served: Option<Vec<Weights>>,
    /// The last step's sums of its gradients, likewise.
    sums: Vec<Weights>,
    optimiser: Optimiser,
    /// Of a layer, what batches of this step so far have added.
    added: Vec<Weights>,
    pushed: Vec<(usize, Ticket<Vec<f32>>)>,
}

fn label(layer: usize) -> Label {
    Label {
        layer: layer as u16,
        direction: Direction::Grad,
    }
}

/// A row of some numbers, as a layer's only tensor.
fn row(cx: &Ctx, numbers: Vec<f32>) -> Weights {
    let row = kernels::Mat::from_shape_vec((1, numbers.len()), numbers);
    vec![cx.backend.upload(row.expect("one row"))]
}

impl ParameterServer {
    /// For the weights of `model`.
    pub(in crate::strategy) fn new(model: &Model, cx: &Ctx) -> ParameterServer {
        let (me, ranks) = (cx.rank(), cx.size());
        let len = |layer: &Weights| layer.iter().map(|w| w.len()).sum::<usize>();
        let bounds: Vec<Vec<usize>> = model
            .weights
            .iter()
            .map(|layer| split_rows(len(layer), ranks))
            .collect();
        let part = |(layer, bounds): (&Weights, &Vec<usize>)| match layer.is_empty() {
            true => Weights::new(),
            false => vec![cx.backend.zeros(1, bounds[me + 1] - bounds[me])],
        };
        let sums: Vec<Weights> = model.weights.iter().zip(&bounds).map(part).collect();
        let backend = cx.backend.as_ref();
        ParameterServer {
            optimiser: Optimiser::over(&cx.plan.spec, model, backend, &sums),
            added: sums.iter().map(|_| Weights::new()).collect(),
            bounds,
            served: None,
            sums,
            pushed: Vec::new(),
        }
    }

    /// Adds up what all ranks have pushed, in their order.
    fn summed(&mut self, cx: &mut Ctx) -> Result<()> {
        for (layer, ticket) in std::mem::take(&mut self.pushed) {
            let mut parts = cx.comm.finish(ticket)?.into_iter();
            let mut sum = parts.next().unwrap_or_default();
            for part in parts {
                sum.iter_mut().zip(part).for_each(|(sum, g)| *sum += g);
            }
            self.sums[layer] = row(cx, sum);
        }
        Ok(())
    }

    /// This rank's part of `weights`.
    fn part(&self, cx: &Ctx, weights: &[Weights]) -> Vec<Weights> {
        let part = |(layer, bounds): (&Weights, &Vec<usize>)| {
            if layer.is_empty() {
                return Weights::new();
            }
            let all: Vec<f32> = layer
                .iter()
                .flat_map(|w| cx.backend.download(w).into_raw_vec_and_offset().0)
                .collect();
            row(cx, all[bounds[cx.rank()]..bounds[cx.rank() + 1]].to_vec())
        };
        weights.iter().zip(&self.bounds).map(part).collect()
    }

    /// Every rank's part to everybody.
    fn pulled(&self, cx: &mut Ctx, served: &[Weights], weights: &mut [Weights]) -> Result<()> {
        let mut tickets = Vec::new();
        for (layer, part) in served.iter().enumerate() {
            let Some(part) = part.first() else { continue };
            let mine = cx.backend.download(part).into_raw_vec_and_offset().0;
            let lens: Vec<usize> = self.bounds[layer].windows(2).map(|b| b[1] - b[0]).collect();
            let ticket = cx.comm.post_all_gather_v(label(layer), mine, &lens)?;
            tickets.push((layer, ticket));
        }
        for (layer, ticket) in tickets {
            let mut all = cx.comm.finish(ticket)?.concat();
            for w in weights[layer].iter_mut() {
                let rest = all.split_off(w.len());
                let own = kernels::Mat::from_shape_vec(w.dim(), std::mem::replace(&mut all, rest));
                *w = cx.backend.upload(own.expect("split at this length"));
            }
        }
        Ok(())
    }
}

impl GradientSync for ParameterServer {
    fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        lanes(cx, &self.bounds)
    }

    fn begin(&mut self, _cx: &Ctx) {}

    fn add(&mut self, cx: &Ctx, layer: usize, grads: Weights) {
        accumulate(cx, &mut self.added[layer], grads);
    }

    fn ready(&mut self, cx: &mut Ctx, layer: usize, grads: Weights) -> Result<()> {
        if !self.added[layer].is_empty() {
            self.add(cx, layer, grads);
            let grads = std::mem::take(&mut self.added[layer]);
            return self.ready(cx, layer, grads);
        }
        if grads.is_empty() {
            return Ok(());
        }
        let flat: Vec<f32> = grads
            .into_iter()
            .flat_map(|g| cx.message(g).floats())
            .collect();
        let bounds = &self.bounds[layer];
        let parts = bounds.windows(2).map(|b| flat[b[0]..b[1]].to_vec());
        let mine = bounds[cx.rank() + 1] - bounds[cx.rank()];
        let lens = vec![mine; cx.size()];
        let pushed = cx
            .comm
            .post_all_to_all_v(label(layer), parts.collect(), &lens)?;
        self.pushed.push((layer, pushed));
        Ok(())
    }

    fn apply(&mut self, cx: &mut Ctx, weights: &mut [Weights]) -> Result<()> {
        self.summed(cx)?;
        let mut served = match self.served.take() {
            Some(served) => served,
            None => self.part(cx, weights),
        };
        self.optimiser.step(cx, &mut served, &self.sums);
        self.pulled(cx, &served, weights)?;
        self.served = Some(served);
        Ok(())
    }

    fn gradients(&self) -> &[Weights] {
        &self.sums
    }

    fn save(&mut self, cx: &Ctx, snapshot: &mut Snapshot) {
        self.optimiser.save(cx.backend.as_ref(), &mut snapshot.own);
    }

    fn restore(&mut self, cx: &Ctx, snapshot: &mut Snapshot) -> Result<()> {
        // The part is that of the weights that come back.
        self.served = None;
        self.optimiser
            .restore(cx.backend.as_ref(), &mut snapshot.own)
    }
}
