//! Full-graph training on the `Aggregate` seam: what such strategies share.
//!
//! Forward, loss, backward, and one step of the optimiser an epoch. Each layer's weight gradients
//! start their all-reduce as soon as they exist and travel while earlier layers are computed.

pub mod block_rows;
pub mod exchange;
mod neighbours;
mod stale;

pub use neighbours::OverBlock;
pub use stale::{Freshness, StaleRow};

use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::dataset::{Dataset, Features, Pair};
use crate::error::Result;
use crate::graph::Relations;
use crate::head::Head;
use crate::model::{
    Aggregate, AggregateFirst, Aggregation, At, Input, Model, Optimiser, Shape, SparseInput,
};
use crate::record::rows::PartRow;
use crate::record::{Direction, Pass, PredictedLane, RankFacts};
use crate::spec::{FeatureStorage, FirstAggregate, RunSpec};
use crate::strategy::reduce::Reduction;
use crate::strategy::{Built, Rows, Setup, Strategy};
use std::rc::Rc;
use std::sync::Arc;

/// A rank's full-graph training state.
pub struct FullGraph<A> {
    aggregate: A,
    model: Model,
    input: Input,
    rows: Rows,
    head: Head,
    reduction: Reduction,
    /// Of the features, where they are learnt.
    input_gradient: Option<Mat>,
    optimiser: Optimiser,
}

/// The widths that a setup asks of a model.
pub fn shape_of(setup: &Setup, cx: &Ctx) -> Shape {
    shape(&setup.data, &cx.plan.spec)
}

/// The widths that a request asks of a model on some data.
pub fn shape(data: &Dataset, spec: &RunSpec) -> Shape {
    Shape {
        d_in: data.features.dim(),
        d_out: Head::width(data, spec),
        relations: data.graph.relations().map_or(1, Relations::count),
        aggregate_first: AggregateFirst::of(spec),
    }
}

/// The model a setup asks for.
pub fn model_of(setup: &Setup, cx: &Ctx) -> Model {
    Model::new(&cx.plan.spec, cx.backend.as_ref(), shape_of(setup, cx))
}

/// Rows `ids` of the features, as the first layer's input. All rows in their order are moved out of a
/// data set that nobody else holds, others copied.
pub fn input_of(data: Arc<Dataset>, cx: &Ctx, ids: &[u32]) -> Input {
    let all = ids.len() == data.n() && (0..data.n()).all(|v| ids[v] as usize == v);
    let rows = match Arc::try_unwrap(data) {
        Ok(alone) if all => alone.features.into_memory(),
        Ok(alone) => alone.features.select_rows(ids),
        Err(shared) => shared.features.select_rows(ids),
    };
    match rows {
        Features::Dense(x) => Input::Dense(Rc::new(match cx.plan.spec.feature_storage {
            FeatureStorage::F32 => cx.backend.upload(x),
            FeatureStorage::Bf16 => cx.backend.upload_rounded(x),
        })),
        Features::Sparse(x) => Input::Sparse(SparseInput::new(x)),
        Features::Mapped { .. } | Features::Identity(_) => {
            unreachable!("selected rows are in memory")
        }
    }
}

/// Whether the first layer's aggregate of dense features is made before the first epoch.
fn aggregates_once(model: &Model, cx: &Ctx) -> bool {
    cx.plan.spec.first_aggregate == FirstAggregate::Once && model.aggregates_features()
}

/// The aggregations of one epoch of a request, in order.
pub fn aggregations(model: &Model, sparse: bool, cx: &Ctx) -> Vec<Aggregation> {
    let mut all = model.aggregations(sparse);
    if !sparse && aggregates_once(model, cx) {
        all.retain(|a| (a.layer, a.direction) != (0, Direction::Forward));
    }
    all
}

/// What a rank's full-graph training is made of.
pub struct Prepared<A> {
    /// How it aggregates.
    pub aggregate: A,
    /// What it trains.
    pub model: Model,
    /// Features of its rows.
    pub input: Input,
    /// Its rows.
    pub rows: Rows,
    /// Remote vertices whose rows it reads.
    pub halo_nodes: usize,
    /// Bytes that its aggregations send each epoch.
    pub predicted: Vec<(PredictedLane, u64)>,
    /// Its row of the `partition` frame, where vertices were cut.
    pub part: Option<PartRow>,
}

impl<A: Aggregate + 'static> Prepared<A> {
    /// The strategy, ready to run. Collective as [`FullGraph::new`].
    ///
    /// # Errors
    /// As [`FullGraph::new`].
    pub fn build(self, cx: &mut Ctx) -> Result<Built> {
        let Prepared {
            rows,
            mut predicted,
            ..
        } = self;
        let facts = RankFacts {
            rank: cx.rank() as u32,
            owned_nodes: rows.ids.len() as u64,
            halo_nodes: self.halo_nodes as u64,
            train_nodes: rows.train_count() as u64,
            ..RankFacts::default()
        };
        let strategy = FullGraph::new(self.aggregate, self.model, self.input, rows.clone(), cx)?;
        predicted.extend(strategy.predict(cx));
        Ok(Built {
            strategy: Box::new(strategy),
            rows,
            facts,
            predicted,
            part: self.part,
        })
    }
}

/// What tests compare of a step.
#[cfg(test)]
pub(crate) struct Evaluated {
    /// Mean loss.
    pub(crate) loss: f64,
    /// By layer and tensor.
    pub(crate) gradients: Vec<Vec<kernels::Mat>>,
    /// Of the features, if the model was asked for it.
    pub(crate) input: Option<kernels::Mat>,
}

impl<A: Aggregate> FullGraph<A> {
    /// Training of `model` on `rows` with the features `input`. Collective where the request has
    /// the features aggregated once.
    ///
    /// # Errors
    /// Whatever that aggregation meets.
    pub fn new(
        mut aggregate: A,
        mut model: Model,
        input: Input,
        rows: Rows,
        cx: &mut Ctx,
    ) -> Result<Self> {
        let input = match input {
            Input::Dense(x) if aggregates_once(&model, cx) => {
                let at = At {
                    layer: 0,
                    direction: Direction::Eval,
                };
                let ax = Rc::new(aggregate.aggregate(cx, at, &x)?);
                Input::Aggregated { x, ax }
            }
            other => other,
        };
        let head = Head::of(&rows, cx, model.layers())?;
        // The head's weights are trained like those of one more layer.
        let own = head.init(cx, model.layers());
        if !own.is_empty() {
            model.weights.push(own);
        }
        Ok(FullGraph {
            aggregate,
            optimiser: Optimiser::new(&cx.plan.spec, &model, cx.backend.as_ref()),
            reduction: Reduction::new(&model.weights, cx),
            input_gradient: None,
            model,
            input,
            rows,
            head,
        })
    }

    /// Bytes beside the aggregations' that leave this rank each epoch: the weight gradients'
    /// all-reduce, and the head's.
    pub fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        let mut lanes = self.head.predict(cx);
        lanes.extend(self.reduction.predict(cx));
        lanes
    }

    /// The model's output without dropout.
    fn output(&mut self, cx: &mut Ctx) -> Result<Mat> {
        let FullGraph {
            aggregate,
            model,
            input,
            rows,
            ..
        } = self;
        let (output, _) = model.forward(cx, aggregate, input.clone(), &rows.ids, false)?;
        Ok(output)
    }

    /// Forward, loss and backward. The weight gradients are on their way when it returns.
    fn forward_backward(&mut self, cx: &mut Ctx) -> Result<f64> {
        let FullGraph {
            aggregate,
            model,
            input,
            rows,
            head,
            reduction,
            input_gradient,
            ..
        } = self;
        reduction.begin(cx);
        let ids = &rows.ids;
        let (logits, tape) = model.forward(cx, aggregate, input.clone(), ids, true)?;
        let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
        let (loss, own) = head.loss(cx, rows, model.head_weights(), &logits, &mut g)?;
        drop(logits);
        let mut ready = |cx: &mut Ctx, layer, grads| reduction.ready(cx, layer, grads);
        if !own.is_empty() {
            ready(cx, model.layers(), own)?;
        }
        *input_gradient = model.backward(cx, aggregate, tape, ids, g, &mut ready)?;
        Ok(loss)
    }

    fn step(&mut self, cx: &mut Ctx) {
        let weights = &mut self.model.weights;
        self.optimiser.step(cx, weights, self.reduction.gradients());
    }

    /// Loss and gradients of a world of one at the current weights, without a step.
    #[cfg(test)]
    pub(crate) fn evaluate(&mut self, cx: &mut Ctx) -> Result<Evaluated> {
        let loss = self.forward_backward(cx)?;
        self.reduction.collect(cx)?;
        let host = |layer: &Vec<Mat>| layer.iter().map(|g| cx.backend.download(g)).collect();
        Ok(Evaluated {
            loss: loss / self.rows.train_total.max(1) as f64,
            gradients: self.reduction.gradients().iter().map(host).collect(),
            input: self.input_gradient.take().map(|g| cx.backend.take(g)),
        })
    }

    /// The model, for tests that move its weights.
    #[cfg(test)]
    pub(crate) fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}

impl<A: Aggregate> Strategy for FullGraph<A> {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        let loss = self.forward_backward(cx)?;
        cx.pass(Pass::Optim);
        self.reduction.collect(cx)?;
        self.step(cx);
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

    fn gradients(&self) -> Vec<&Mat> {
        self.reduction.gradients().iter().flatten().collect()
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        if cx.rank() == 0 {
            // Every rank has the same.
            let backend = cx.backend.as_ref();
            self.model.save(backend, &mut snapshot.shared);
            self.optimiser.save(backend, &mut snapshot.shared);
        }
        self.aggregate.save(cx, &mut snapshot.own);
        Ok(())
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.restore(backend, &mut snapshot.shared)?;
        self.optimiser.restore(backend, &mut snapshot.shared)?;
        self.aggregate.restore(cx, &mut snapshot.own)
    }
}
