//! Heads: from a model's output to a loss, and to the numbers by which models are compared.
//!
//! | task | output of the model | loss | reported |
//! |---|---|---|---|
//! | one class a vertex | logits `[n, classes]` | softmax cross-entropy | accuracy |
//! | several classes a vertex | logits `[n, classes]` | sigmoid cross-entropy | micro-averaged F1 |
//! | links | embeddings `[n, d]` | sigmoid cross-entropy of edges and drawn pairs | AUC, average precision, MRR |

mod link;
mod metric;
mod shares;

pub use link::{LinkHead, PairBatch};
pub use metric::{Ranking, cross_entropy, micro_f1, ranking};

use crate::backend::{Mat, MultiTarget, Target};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Pair, Rows, Task};
use crate::error::{Error, Result};
use crate::model::Weights;
use crate::record::{Pass, PredictedLane};
use crate::spec::RunSpec;

/// What stands on top of a model.
pub enum Head {
    /// One class a vertex.
    Classes,
    /// Several classes a vertex.
    MultiLabel,
    /// Links between vertices.
    Links(Box<LinkHead>),
}

impl Head {
    /// Columns that the model's output needs.
    pub fn width(data: &Dataset, spec: &RunSpec) -> usize {
        match data.task {
            Task::LinkPrediction => spec.embedding,
            _ => data.n_classes,
        }
    }

    /// The head that a rank's rows ask for, behind a model of `layers` layers. Collective.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub fn of(rows: &Rows, cx: &mut Ctx, layers: usize) -> Result<Head> {
        Ok(match (&rows.links, &rows.multi_labels) {
            (Some(links), _) => Head::Links(Box::new(LinkHead::new(links, &rows.ids, layers, cx)?)),
            (None, Some(_)) => Head::MultiLabel,
            (None, None) => Head::Classes,
        })
    }

    /// Bytes that it sends from this rank each epoch, beside its weights' gradients.
    pub fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        match self {
            Head::Links(links) => links.predict(cx),
            _ => Vec::new(),
        }
    }

    /// Its own weights, which are trained like those of one more layer after the model's; there
    /// may be none.
    pub fn init(&self, cx: &Ctx, layer: usize) -> Weights {
        match self {
            Head::Links(links) => links.init(&cx.plan.spec, layer, cx.backend.as_ref()),
            _ => Weights::new(),
        }
    }

    /// The sum of the losses of this rank's part at the model's output `z: [n_local, d]`, the
    /// gradient of their mean over all ranks in `g: [n_local, d]`, and that of its own `weights`.
    /// Collective.
    ///
    /// # Errors
    /// [`Error::Shape`] when links leave the vertices; whatever the communicator meets.
    pub fn loss(
        &self,
        cx: &mut Ctx,
        rows: &Rows,
        weights: &Weights,
        z: &Mat,
        g: &mut Mat,
    ) -> Result<(f64, Weights)> {
        let scale = 1.0 / rows.train_total.max(1) as f32;
        let mask = &rows.train;
        cx.pass(Pass::Loss);
        let loss = match (self, &rows.multi_labels) {
            (Head::Links(links), _) => return links.loss(cx, weights, scale, z, g),
            (Head::MultiLabel, Some(labels)) => {
                let target = MultiTarget {
                    labels,
                    mask,
                    scale,
                };
                cx.backend.sigmoid_bce(z, target, g)
            }
            _ => {
                let labels = &rows.labels;
                let target = Target {
                    labels,
                    mask,
                    scale,
                };
                cx.backend.softmax_xent(z, target, g)
            }
        };
        Ok((loss, Weights::new()))
    }

    /// The sum of the losses of a mini-batch of pairs at the model's output `z: [n, d]`, the gradient of it
    /// times `scale` in `g: [n, d]`, and that of its own `weights`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a head of another task.
    pub fn batch_loss(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        scale: f32,
        z: &Mat,
        batch: &PairBatch,
        g: &mut Mat,
    ) -> Result<(f64, Weights)> {
        cx.pass(Pass::Classify);
        match self {
            Head::Links(links) => Ok(links.batch_loss(cx, weights, scale, z, batch, g)),
            _ => Err(no_links("this run")),
        }
    }

    /// Scores of pairs of vertices as links, the same on every rank, from this rank's
    /// `z: [n_local, d]`. Collective.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a head of another task; whatever the communicator meets.
    pub fn scores(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        z: &Mat,
        pairs: Vec<Pair>,
    ) -> Result<Vec<f32>> {
        match self {
            Head::Links(links) => links.scores(cx, weights, z, pairs),
            _ => Err(no_links("this run")),
        }
    }
}

/// Refuses to score links.
pub(crate) fn no_links(what: &str) -> Error {
    Error::Unsupported {
        what: format!("link prediction with {what}"),
        reason: "it does not score links".into(),
        help: "use strategy single or halo, or task = \"node\"".into(),
    }
}

#[cfg(test)]
mod tests;
