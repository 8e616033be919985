//! The stack of layers, with activations and dropout between them.

use super::kind::{Drop, Shape, Stage};
use super::layer::{Facts, Flow, Grad, Init, Layer, Round, Saved, Weights};
use super::site::Site;
use super::{Aggregate, At, Crossing, Input, ModelKind, RoundSite};
use crate::backend::{Backend, Dropout, Kept, Mat};
use crate::checkpoint::State;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::record::{Direction, Pass};
use crate::rng::{self, Purpose};
use crate::spec::RunSpec;
use std::ops::Range;

/// A model with its weights, or some of its layers with theirs. Ranks that hold a layer hold the same
/// weights of it.
pub struct Model {
    kind: ModelKind,
    pub(super) stages: Vec<Stage>,
    /// The layers whose weights are here.
    held: Range<usize>,
    dropout: f32,
    seed: u64,
    /// Whether backward gives the gradient of the features, for features that are learnt.
    pub input_gradient: bool,
    /// Weights by layer; of a layer that is not held, none.
    pub weights: Vec<Weights>,
}

/// What forward leaves for backward, by layer.
pub struct Tape {
    pub(super) saved: Vec<Saved>,
}

/// One aggregation that an epoch will ask for: what a strategy's bytes are predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregation {
    /// Layer.
    pub layer: usize,
    /// Forward or backward.
    pub direction: Direction,
    /// Columns of the matrix that is aggregated, or whose rows travel.
    pub width: usize,
}

/// Who takes each layer's weight gradients as soon as they exist.
pub type Ready<'a> = &'a mut dyn FnMut(&mut Ctx, usize, Weights) -> Result<()>;

impl Model {
    /// The model of a request, with weights from the request's seed, on the device.
    pub fn new(spec: &RunSpec, backend: &dyn Backend, shape: Shape) -> Model {
        Model::of_layers(spec, backend, shape, 0..Model::count(spec, shape))
    }

    /// Number of layers that the model of a request has, those included that read no other vertex.
    pub fn count(spec: &RunSpec, shape: Shape) -> usize {
        spec.model.stages(spec, shape).len()
    }

    /// Some layers of the model of a request, with the weights that they have in the whole. It goes
    /// forward and back by [`Model::forward_layers`] and [`Model::backward_layers`]; what passes between
    /// its ends and the ranks that hold the layers beside them is a [`Crossing`].
    ///
    /// # Panics
    /// When the model has no such layers.
    pub fn of_layers(
        spec: &RunSpec,
        backend: &dyn Backend,
        shape: Shape,
        held: Range<usize>,
    ) -> Model {
        let stages = spec.model.stages(spec, shape);
        assert!(
            held.start <= held.end && held.end <= stages.len(),
            "layers {held:?} of {}",
            stages.len()
        );
        let weights = stages
            .iter()
            .enumerate()
            .map(|(l, stage)| {
                if !held.contains(&l) {
                    return Weights::new();
                }
                first_weights(stage.layer.as_ref(), backend, spec.seed, l)
            })
            .collect();
        Model {
            kind: spec.model,
            stages,
            held,
            dropout: spec.dropout as f32,
            seed: spec.seed,
            input_gradient: false,
            weights,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ModelKind {
        self.kind
    }

    /// Number of layers, those included that read no other vertex and those that are not held.
    pub fn layers(&self) -> usize {
        self.stages.len()
    }

    /// The layers whose weights are here.
    pub fn held(&self) -> Range<usize> {
        self.held.clone()
    }

    /// What passes to layer `layer` from the one before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] between rounds of attention, which have their coefficients in common.
    pub fn crossing(&self, layer: usize) -> Result<Crossing> {
        let (before, after) = self.stages.split_at(layer);
        Crossing::between(before, after).ok_or_else(|| Error::Unsupported {
            what: format!("a decoupled {} cut before layer {layer}", self.kind),
            reason: "its rounds of attention share the coefficients that the first one makes"
                .into(),
            help: "keep the rounds on one rank, or set decoupled = false".into(),
        })
    }

    /// A layer.
    pub fn layer(&self, layer: usize) -> &dyn Layer {
        self.stages[layer].layer.as_ref()
    }

    /// What strategies may know of its layers: what is true of all that read other vertices.
    pub fn facts(&self) -> Facts {
        let facts = self.stages.iter().filter_map(|s| s.layer.facts());
        facts.fold(Facts::FIXED_WEIGHTS, |a, b| Facts {
            linear: a.linear && b.linear,
            edge_parameters: a.edge_parameters || b.edge_parameters,
            swappable: a.swappable && b.swappable,
        })
    }

    /// Weights of the head, which are trained like those of one more layer; empty where it has none.
    pub fn head_weights(&self) -> &Weights {
        let own = self.weights.get(self.layers());
        own.unwrap_or(const { &Weights::new() })
    }

    /// Number of weights of the layers that are held.
    pub fn parameters(&self) -> usize {
        self.weights.iter().flatten().map(Mat::len).sum()
    }

    /// Adds the weights to `state`.
    pub fn save(&self, backend: &dyn Backend, state: &mut State) {
        for (l, layer) in self.weights.iter().enumerate() {
            for (i, w) in layer.iter().enumerate() {
                state.put(format!("weights/{l}/{i}"), backend, w);
            }
        }
    }

    /// Takes them back.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when one is missing or of another shape.
    pub fn restore(&mut self, backend: &dyn Backend, state: &mut State) -> Result<()> {
        for (l, layer) in self.weights.iter_mut().enumerate() {
            for (i, w) in layer.iter_mut().enumerate() {
                state.take_into(&format!("weights/{l}/{i}"), backend, w)?;
            }
        }
        Ok(())
    }

    /// Whether the first layer aggregates dense features themselves, rather than a product of them.
    pub fn aggregates_features(&self) -> bool {
        self.stages[0].layer.aggregates_features()
    }

    /// How many columns the weights have that the first layer multiplies features of `d` columns with.
    pub(crate) fn feature_products(&self, d: usize) -> impl Iterator<Item = usize> {
        let all = self.weights[0].iter();
        all.filter(move |w| w.nrows() == d).map(Mat::ncols)
    }

    /// The aggregations of one training epoch in the layers that are held, in order.
    pub fn aggregations(&self, sparse: bool) -> Vec<Aggregation> {
        let widths = |l: usize| {
            let wanted = l > 0 || self.input_gradient;
            self.stages[l].layer.widths(sparse && l == 0, wanted)
        };
        let aggregation = |layer: usize, direction: Direction, width: Option<usize>| {
            width.map(|width| Aggregation {
                layer,
                direction,
                width,
            })
        };
        let forward = self
            .held()
            .filter_map(|l| aggregation(l, Direction::Forward, widths(l).forward));
        let backward = self
            .held()
            .rev()
            .filter_map(|l| aggregation(l, Direction::Backward, widths(l).backward));
        forward.chain(backward).collect()
    }

    fn drop<'a>(&self, cx: &Ctx, layer: usize, ids: &'a Kept<u32>) -> Option<Dropout<'a>> {
        (self.dropout > 0.0).then(|| Dropout {
            key: dropout_key(self.seed, cx.epoch, layer),
            ids,
            p: self.dropout,
        })
    }

    /// Dropout of the input of a layer, if it has any.
    pub(super) fn drop_input<'a>(
        &self,
        cx: &Ctx,
        layer: usize,
        ids: &'a Kept<u32>,
    ) -> Option<Dropout<'a>> {
        let drops = self
            .stages
            .get(layer)
            .is_some_and(|s| s.drop == Drop::Input);
        drops.then(|| self.drop(cx, layer, ids)).flatten()
    }

    /// Whether training drops elements of the features.
    pub fn drops_features(&self) -> bool {
        self.dropout > 0.0 && self.stages[0].drop == Drop::Input
    }

    /// Whether a layer drops elements of what it makes of its input, and so wants the vertex ids of that.
    pub fn drops_inside(&self, layer: usize) -> bool {
        self.stages[layer].drop == Drop::Inside
    }

    /// The features with elements dropped, as training wants them; `ids` are the global vertex ids of the
    /// rows.
    pub fn drop_features(&self, cx: &Ctx, x: Input, ids: &Kept<u32>) -> Input {
        match self.drop_input(cx, 0, ids) {
            Some(d) => x.dropout(cx, d.key, d.ids, d.p),
            None => x,
        }
    }

    pub(super) fn site<'a>(
        &'a self,
        cx: &'a mut Ctx,
        agg: &'a mut dyn Aggregate,
        at: At,
        ids: &'a Kept<u32>,
    ) -> Site<'a> {
        let drops = self.stages[at.layer].drop == Drop::Inside && at.direction != Direction::Eval;
        let inside = drops.then(|| self.drop(cx, at.layer, ids)).flatten();
        Site {
            cx,
            agg,
            at,
            w: &self.weights[at.layer],
            ids,
            seed: self.seed,
            inside,
            owed: None,
        }
    }

    /// Logits `[n_local, d_out]` of a whole model. `ids` are the global vertex ids of the rows; in
    /// training, dropout is applied and the tape kept.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn forward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        x: Input,
        ids: &Kept<u32>,
        train: bool,
    ) -> Result<(Mat, Tape)> {
        let mut flow = Flow::from(x);
        if train {
            flow.x = self.drop_features(cx, flow.x, ids);
        }
        let dense = self.dense_layers(cx.backend.as_ref());
        if dense == self.layers() || agg.rounds().is_none() {
            let (flow, tape) = self.forward_layers(cx, agg, 0..self.layers(), flow, ids, train)?;
            return Ok((flow.x.into_mat(), tape));
        }
        let (flow, mut tape) = self.forward_layers(cx, agg, 0..dense, flow, ids, train)?;
        cx.layer(dense);
        let direction = if train {
            Direction::Forward
        } else {
            Direction::Eval
        };
        let kept_weights = cx.watch.weights();
        let weights = kept_weights.as_ref().map_or(&self.weights, |kept| kept);
        let sites = self.round_sites(cx, weights, dense, direction);
        let rounds = agg.rounds().expect("asked above");
        let (y, saved) = rounds.forward(cx, &sites, flow)?;
        cx.watch.look(cx.backend.as_ref(), Some(dense), Some(&y));
        tape.saved.push(saved);
        Ok((y, tape))
    }

    /// Number of layers before the rounds of propagation; all layers where there are no rounds.
    pub fn dense_layers(&self, backend: &dyn Backend) -> usize {
        let is_round = |l: &usize| {
            let layer = self.layer(*l);
            layer.round(backend, &self.weights[*l]).is_some()
        };
        (0..self.layers()).find(is_round).unwrap_or(self.layers())
    }

    /// What the rounds of propagation behind the dense layers do; none where there are no rounds.
    pub fn rounds(&self, backend: &dyn Backend) -> Vec<Round> {
        let round = |l| self.layer(l).round(backend, &self.weights[l]);
        (0..self.layers()).filter_map(round).collect()
    }

    /// The rounds of propagation from layer `first` on, with `weights` by layer.
    fn round_sites<'a>(
        &self,
        cx: &Ctx,
        weights: &'a [Weights],
        first: usize,
        direction: Direction,
    ) -> Vec<RoundSite<'a>> {
        let site = |layer: usize| {
            let w = &weights[layer];
            let round = self.layer(layer).round(cx.backend.as_ref(), w);
            let drops = |p: f32| p > 0.0 && direction != Direction::Eval;
            let key = match round {
                Some(Round::Attention { dropout, .. }) if drops(dropout) => Some(rng::key(
                    self.seed,
                    cx.epoch,
                    Purpose::Attention,
                    layer as u64,
                )),
                _ => None,
            };
            RoundSite {
                at: At { layer, direction },
                round: round.expect("rounds follow the dense layers without a gap"),
                w,
                key,
            }
        };
        (first..self.layers()).map(site).collect()
    }

    /// Weight gradients of a whole model from `g`, the gradient of the logits `[n_local, d_out]`, last layer
    /// first; `ready` gets each layer's as soon as they exist, so that they can travel while
    /// earlier layers are computed. Gives the gradient of the features if
    /// [`Model::input_gradient`] asks for it.
    ///
    /// # Errors
    /// Whatever the aggregation or `ready` meets.
    pub fn backward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        tape: Tape,
        ids: &Kept<u32>,
        g: Mat,
        ready: Ready<'_>,
    ) -> Result<Option<Mat>> {
        let dense = self.dense_layers(cx.backend.as_ref());
        let (mut tape, mut upto, mut grad) = (tape, self.layers(), Grad::from(g));
        if dense < upto && agg.rounds().is_some() {
            cx.pass(Pass::Backward);
            cx.layer(dense);
            let saved = tape
                .saved
                .pop()
                .expect("forward pushed one entry for the rounds");
            let sites = self.round_sites(cx, &self.weights, dense, Direction::Backward);
            let rounds = agg.rounds().expect("asked above");
            let (back, weights) = rounds.backward(cx, &sites, saved, grad.g)?;
            for (layer, w) in (dense..upto).zip(weights).rev() {
                ready(cx, layer, w)?;
            }
            (grad, upto) = (back, dense);
        }
        let grad = self.backward_layers(cx, agg, 0..upto, tape, ids, grad, ready)?;
        Ok(grad.map(|grad| grad.g))
    }
}

/// The key of the mask that dropout has for the input of a layer in an epoch.
pub(crate) fn dropout_key(seed: u64, epoch: u64, layer: usize) -> u64 {
    rng::key(seed, epoch, Purpose::Dropout, layer as u64)
}

fn first_weights(layer: &dyn Layer, backend: &dyn Backend, seed: u64, at: usize) -> Weights {
    let tensors = layer.tensors().into_iter().enumerate();
    let made = tensors.map(|(i, tensor)| {
        let key = rng::key(seed, i as u64, Purpose::Weights, at as u64);
        let shape = (tensor.rows, tensor.cols);
        let element = |(r, c): (usize, usize)| match tensor.init {
            Init::Constant(value) => value,
            Init::Glorot(widths) => {
                let bound = (6.0 / widths as f64).sqrt();
                let u = rng::uniform_f64(key, (r * shape.1 + c) as u64);
                ((2.0 * u - 1.0) * bound) as f32
            }
        };
        backend.upload_made(shape, &|| kernels::Mat::from_shape_fn(shape, element))
    });
    made.collect()
}
