//! Mini-batch training on the `Feed` seam: what such strategies share.
//!
//! Every rank takes as many batches an epoch. A step is forward, loss and backward on the blocks of a
//! batch of each of the rank's trainers, the sum of all gradients, and one step of the optimiser:
//! synchronous SGD on the mean over the seeds of all trainers. Evaluation is exact: layer by layer over all vertices, from whole
//! neighbourhoods ([`Layerwise`]).
//!
//! | module | one idea |
//! |---|---|
//! | `knobs` | blocks of knobs that a strategy may take into its list |
//! | `settings` | what they say |
//! | `part` | a rank's part of the graph |
//! | `training` | who trains on what |
//! | `base` | all of that together: what a strategy builds itself from |
//! | `beside` | the threads beside the training, and the strategy out of all |
//! | `foreseen`, `buffers` | bytes that a rank will hold |
//! | `step` | one step on a batch |
//! | `laps` | where its time goes |
//! | `sync` | how gradients of all ranks become a step of the weights |
//! | `parameter_server` | the same by servers of parts of the weights |

mod base;
mod beside;
mod buffers;
mod foreseen;
mod knobs;
mod laps;
mod parameter_server;
mod part;
mod settings;
mod step;
mod sync;
#[cfg(test)]
mod tests;
mod training;

pub(in crate::strategy) use base::Base;
pub(in crate::strategy) use foreseen::Foreseen;
pub(in crate::strategy) use knobs::{
    CACHE, DEVICE, EMBEDDINGS, GRADIENTS, LINKS, NEIGHBOURS, PREFETCH, TRAINERS, WORKERS, is_flag,
    splice,
};
pub(in crate::strategy) use laps::StepRow;
pub(in crate::strategy) use settings::{
    CacheSettings, LinkSettings, NeighbourSettings, Settings, learning,
};
#[cfg(test)]
pub(in crate::strategy) use sync::AllReduce;
pub(in crate::strategy) use sync::{GradientSync, of_request};

use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::dataset::Pair;
use crate::error::Result;
use crate::feed::{Feed, Layerwise, Server};
use crate::head::Head;
use crate::model::Model;
use crate::record::{Pass, PredictedLane};
use crate::strategy::Strategy;
use laps::{Laps, Part};
use step::Step;

/// A rank's mini-batch training state.
struct BatchTraining {
    feed: Box<dyn Feed>,
    model: Model,
    head: Head,
    sync: Box<dyn GradientSync>,
    evaluation: Layerwise,
    /// Batches of a step.
    trainers: u64,
    laps: Laps,
    /// Last, so that it answers as long as anybody asks.
    _server: Option<Server>,
}

impl BatchTraining {
    /// Bytes of weight gradients that leave this rank each epoch.
    fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        let mut lanes = self.sync.predict(cx);
        lanes
            .iter_mut()
            .for_each(|lane| lane.1 *= self.feed.batches() / self.trainers);
        lanes
    }

    /// The model's output of all of this rank's vertices, without dropout and from whole neighbourhoods.
    fn output(&mut self, cx: &mut Ctx) -> Result<Mat> {
        let input = self.feed.whole(cx)?;
        self.evaluation.output(cx, &self.model, input, None)
    }
}

impl Strategy for BatchTraining {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let mut loss = 0.0;
        self.laps.start();
        for k in 0..self.feed.batches() {
            let last = (k + 1) % self.trainers == 0;
            self.feed.begin_step(cx, k)?;
            self.laps.lap(Part::Fwd);
            let batch = self.feed.next(cx, k)?;
            self.laps.lap(Part::Mbc);
            let of = Step {
                first: k % self.trainers == 0,
                last,
                feed: self.feed.as_mut(),
                model: &mut self.model,
                head: &self.head,
                sync: self.sync.as_mut(),
                laps: &mut self.laps,
            };
            loss += of.run(cx, batch)?;
            if last {
                self.laps.step();
            }
        }
        cx.row(self.laps.row());
        if self.feed.compares() {
            cx.pass(Pass::Eval);
            let (input, feed) = (self.feed.whole(cx)?, self.feed.as_mut());
            self.evaluation.output(cx, &self.model, input, Some(feed))?;
            cx.pass(Pass::Optim);
        }
        self.feed.close(cx);
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let logits = self.output(cx)?;
        Ok(cx.backend.take(logits))
    }

    fn scores(&mut self, cx: &mut Ctx, pairs: Vec<Pair>) -> Result<Vec<f32>> {
        let z = self.output(cx)?;
        self.head.scores(cx, self.model.head_weights(), &z, pairs)
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        if cx.rank() == 0 {
            // Every rank has the same.
            let backend = cx.backend.as_ref();
            self.model.save(backend, &mut snapshot.shared);
        }
        self.sync.save(cx, snapshot);
        self.feed.save(cx, &mut snapshot.own)
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.restore(backend, &mut snapshot.shared)?;
        self.sync.restore(cx, snapshot)?;
        self.feed.restore(&mut snapshot.own)
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.sync.gradients().iter().flatten().collect()
    }
}
