//! The stack of layers: dropout, convolution, ReLU between layers.

use super::conv::{Conv, Facts, Saved, Site, Weights};
use super::{Aggregate, At, Input, ModelKind};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::{Direction, Pass};
use crate::rng::{self, Purpose};
use crate::spec::RunSpec;
use kernels::Mat;
use std::rc::Rc;

/// A model with its weights. Every rank holds the same weights.
pub struct Model {
    kind: ModelKind,
    convs: Vec<Box<dyn Conv>>,
    dims: Vec<usize>,
    dropout: f32,
    seed: u64,
    /// Weights by layer.
    pub weights: Vec<Weights>,
}

/// What forward leaves for backward, by layer.
pub struct Tape {
    saved: Vec<Saved>,
}

/// One aggregation that an epoch will ask for: what a strategy's bytes are predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregation {
    /// Layer.
    pub layer: usize,
    /// Forward or backward.
    pub direction: Direction,
    /// Columns of the matrix that is aggregated.
    pub width: usize,
}

impl Model {
    /// The model of a request, for features of width `d_in` and `classes` outputs, with
    /// Glorot-uniform weights and zero biases from the request's seed.
    pub fn new(spec: &RunSpec, d_in: usize, classes: usize) -> Model {
        let mut dims = vec![d_in];
        dims.extend(std::iter::repeat_n(spec.hidden, spec.layers - 1));
        dims.push(classes);
        let convs: Vec<_> = dims
            .windows(2)
            .map(|d| spec.model.conv(d[0], d[1]))
            .collect();
        let weights = convs
            .iter()
            .enumerate()
            .map(|(l, conv)| init(conv.as_ref(), spec.seed, l))
            .collect();
        let dropout = spec.dropout as f32;
        Model {
            kind: spec.model,
            convs,
            dims,
            dropout,
            seed: spec.seed,
            weights,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ModelKind {
        self.kind
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.convs.len()
    }

    /// Widths: input, hidden…, classes.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// What strategies may know of its layers.
    pub fn facts(&self) -> Facts {
        self.convs[0].facts()
    }

    /// Number of weights.
    pub fn parameters(&self) -> usize {
        self.weights.iter().flatten().map(Mat::len).sum()
    }

    /// The aggregations of one training epoch, in order.
    pub fn aggregations(&self, sparse_input: bool) -> Vec<Aggregation> {
        let first = |l: usize| self.convs[l].aggregates_first(sparse_input && l == 0);
        let width = |l: usize| {
            if first(l) {
                self.dims[l]
            } else {
                self.dims[l + 1]
            }
        };
        let forward = (0..self.layers()).map(|layer| Aggregation {
            layer,
            direction: Direction::Forward,
            width: width(layer),
        });
        // The first layer's input needs no gradient: aggregated first, it has no backward.
        let backward = (0..self.layers())
            .rev()
            .filter(|&l| l > 0 || !first(l))
            .map(|layer| Aggregation {
                layer,
                direction: Direction::Backward,
                width: width(layer),
            });
        forward.chain(backward).collect()
    }

    fn key(&self, cx: &Ctx, layer: usize) -> u64 {
        rng::key(self.seed, cx.epoch, Purpose::Dropout, layer as u64)
    }

    /// Logits `[n_local, classes]`. `ids` are the global vertex ids of the rows; in training,
    /// dropout is applied and the tape kept.
    ///
    /// # Errors
    /// Whatever the aggregation meets.
    pub fn forward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        x: Input,
        ids: &[u32],
        train: bool,
    ) -> Result<(Mat, Tape)> {
        cx.pass(if train { Pass::Forward } else { Pass::Eval });
        let direction = if train {
            Direction::Forward
        } else {
            Direction::Eval
        };
        let mut tape = Tape {
            saved: Vec::with_capacity(self.layers()),
        };
        let mut x = x;
        let mut layer = 0;
        loop {
            cx.layer(layer);
            if train {
                x = x.dropout(cx, self.key(cx, layer), ids, self.dropout);
            }
            let last = layer + 1 == self.layers();
            let at = At { layer, direction };
            let site = Site {
                cx: &mut *cx,
                agg: &mut *agg,
                at,
                w: &self.weights[layer],
            };
            let (y, saved) = self.convs[layer].forward(site, x, !last)?;
            if train {
                tape.saved.push(saved);
            }
            if last {
                return Ok((y, tape));
            }
            x = Input::Dense(Rc::new(y));
            layer += 1;
        }
    }

    /// Weight gradients from `g`, the gradient of the logits `[n_local, classes]`, last layer
    /// first; `ready` gets each layer's as soon as they exist, so that they can travel while
    /// earlier layers are computed.
    ///
    /// # Errors
    /// Whatever the aggregation or `ready` meets.
    pub fn backward(
        &self,
        cx: &mut Ctx,
        agg: &mut dyn Aggregate,
        mut tape: Tape,
        ids: &[u32],
        g: Mat,
        ready: &mut dyn FnMut(&mut Ctx, usize, Weights) -> Result<()>,
    ) -> Result<()> {
        cx.pass(Pass::Backward);
        let mut g = g;
        for layer in (0..self.layers()).rev() {
            cx.layer(layer);
            let saved = tape.saved.pop().expect("forward pushed one entry a layer");
            let x = saved.x.clone();
            let at = At {
                layer,
                direction: Direction::Backward,
            };
            let site = Site {
                cx: &mut *cx,
                agg: &mut *agg,
                at,
                w: &self.weights[layer],
            };
            let (grads, gx) = self.convs[layer].backward(site, saved, g, layer > 0)?;
            ready(cx, layer, grads)?;
            let Some(mut gx) = gx else { break };
            if let Input::Dense(x) = &x {
                if self.dropout > 0.0 {
                    cx.backend
                        .dropout(self.key(cx, layer), ids, self.dropout, &mut gx);
                }
                // The input is the ReLU's output after dropout. Where dropout made it zero, the
                // gradient is zero already, so its sign pattern serves as the ReLU's.
                cx.backend.relu_backward(x, &mut gx);
            }
            g = gx;
        }
        Ok(())
    }
}

fn init(conv: &dyn Conv, seed: u64, layer: usize) -> Weights {
    let mut weights = Weights::new();
    for (i, (name, rows, cols)) in conv.shapes().into_iter().enumerate() {
        let key = rng::key(seed, i as u64, Purpose::Weights, layer as u64);
        let bound = (6.0 / (rows + cols) as f64).sqrt();
        weights.push(Mat::from_shape_fn((rows, cols), |(r, c)| {
            if name == "bias" {
                return 0.0;
            }
            let u = rng::uniform_f64(key, (r * cols + c) as u64);
            ((2.0 * u - 1.0) * bound) as f32
        }));
    }
    weights
}
