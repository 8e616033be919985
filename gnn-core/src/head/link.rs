//! Link prediction: embeddings of two vertices become the score of an edge between them.
//!
//! # Paper
//! The dot product and its training against other pairs as in Kipf & Welling, "Variational Graph
//! Auto-Encoders", 2016, <https://arxiv.org/abs/1611.07308>; dense layers on the elementwise product
//! as in Hu et al., "Open Graph Benchmark", NeurIPS 2020, <https://arxiv.org/abs/2005.00687>. Unsupervised
//! training is the same with other pairs: Hamilton, Ying & Leskovec, "Inductive Representation Learning on
//! Large Graphs", NeurIPS 2017, eq. 1, <https://arxiv.org/abs/1706.02216>; its loss is summed over as many
//! other vertices as are drawn, where the paper writes Q times their expectation.
//! # Differs
//! Every epoch draws as many pairs without an edge as asked, instead of weighing all pairs.

use super::shares::Shares;
use crate::backend::{Act, Backend, Kept, Mat, MultiTarget, Product, Term, Then, Write};
use crate::ctx::Ctx;
use crate::dataset::{Links, Pair};
use crate::error::Result;
use crate::model::Weights;
use crate::record::{Direction, Pass, PredictedLane};
use crate::rng::{self, Purpose};
use crate::sample::{Nearby, Negatives};
use crate::spec::{RunSpec, Scorer};
use kernels::pairs::Pairs;
use std::ops::Range;

const W1: usize = 0;
const B1: usize = 1;
const W2: usize = 2;
const B2: usize = 3;

/// Scores pairs of vertices and trains on a rank's run of those of an epoch: the edges, then the
/// pairs drawn beside them.
pub struct LinkHead {
    shares: Shares,
    run: RunOf,
    /// 1 for each edge, then 0 for each other pair: `[run]`.
    labels: Kept<u8>,
    all: Kept<bool>,
    /// `[d, 1]`: summing a product is multiplying by this.
    ones: Mat,
    scorer: Scorer,
}

/// What a rank's run draws pairs for.
enum RunOf {
    /// The run's part of the edges, and its part of the pairs without one.
    Edges(Vec<Pair>, Range<usize>, Negatives),
    /// Vertices.
    Vertices(Vec<u32>, Nearby),
}

impl RunOf {
    /// The pairs of an epoch, those that are trained on first.
    fn pairs(&self, epoch: u64) -> Vec<Pair> {
        match self {
            RunOf::Edges(edges, drawn, negatives) => {
                let drawn = negatives.draw(epoch, drawn.clone());
                [&edges[..], &drawn].concat()
            }
            RunOf::Vertices(vertices, nearby) => {
                let near = nearby.positives(epoch, vertices);
                [near, nearby.negatives(epoch, vertices)].concat()
            }
        }
    }
}

/// Edges and pairs without one, as pairs of rows of a mini-batch's output.
pub struct PairBatch {
    /// The pairs.
    pub pairs: Pairs,
    /// 1 for an edge: `[pairs]`.
    pub labels: Kept<u8>,
    /// All are trained on: `[pairs]`.
    pub all: Kept<bool>,
}

/// What scoring leaves for backward.
struct Scored {
    /// `[pairs, d]`.
    products: Mat,
    /// `[pairs, d]`, after ReLU; only with dense layers.
    hidden: Option<Mat>,
    /// `[pairs, 1]`.
    scores: Mat,
}

impl LinkHead {
    /// For a rank with rows of the vertices `ids`, behind a model of `layers` layers. Collective.
    pub(super) fn new(links: &Links, ids: &[u32], layers: usize, cx: &mut Ctx) -> Result<LinkHead> {
        let shares = Shares::new(cx, ids, layers)?;
        let spec = &cx.plan.spec;
        let (run, labels) = match links.pairing {
            None => {
                let edges = links.train.len();
                let run = shares.run(cx, edges * (1 + links.negatives));
                let mine = links.train[run.start.min(edges)..run.end.min(edges)].to_vec();
                let drawn = run.start.max(edges) - edges..run.end.max(edges) - edges;
                let negatives = Negatives::new(shares.n(), &links.train, spec.seed);
                let labels: Vec<u8> = run.map(|k| u8::from(k < edges)).collect();
                (RunOf::Edges(mine, drawn, negatives), labels)
            }
            Some(pairing) => {
                let seeds = links.seeds();
                let mine = seeds[shares.run(cx, seeds.len())].to_vec();
                let near = mine.len() * pairing.positives();
                let all = near * (1 + links.negatives);
                let labels = (0..all).map(|k| u8::from(k < near)).collect();
                let nearby = Nearby::new(shares.n(), links, pairing, spec.seed);
                (RunOf::Vertices(mine, nearby), labels)
            }
        };
        Ok(LinkHead {
            run,
            all: vec![true; labels.len()].into(),
            labels: labels.into(),
            ones: cx.backend.upload(kernels::Mat::ones((spec.embedding, 1))),
            scorer: spec.scorer,
            shares,
        })
    }

    /// Bytes that this rank sends each epoch for embeddings.
    pub(super) fn predict(&self, cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        self.shares.predict(cx.rank(), cx.plan.spec.embedding)
    }

    /// Weights of the scorer: those of two dense layers, or none.
    pub(super) fn init(&self, spec: &RunSpec, layer: usize, backend: &dyn Backend) -> Weights {
        if self.scorer == Scorer::Dot {
            return Weights::new();
        }
        let d = spec.embedding;
        let glorot = |tensor: u64, rows: usize, cols: usize| {
            let key = rng::key(spec.seed, tensor, Purpose::Weights, layer as u64);
            let bound = (6.0 / (rows + cols) as f64).sqrt();
            kernels::Mat::from_shape_fn((rows, cols), |(r, c)| {
                let u = rng::uniform_f64(key, (r * cols + c) as u64);
                ((2.0 * u - 1.0) * bound) as f32
            })
        };
        let zeros = |cols: usize| kernels::Mat::zeros((1, cols));
        [glorot(0, d, d), zeros(d), glorot(1, d, 1), zeros(1)]
            .map(|w| backend.upload(w))
            .into()
    }

    fn score(&self, cx: &Ctx, weights: &Weights, pairs: &Pairs, z: &Mat) -> Scored {
        let (m, d) = (pairs.len(), z.ncols());
        let mut products = cx.backend.fresh(m, d);
        cx.backend.pair_products(pairs, z, &mut products);
        let product = |a: &Mat, b: &Mat, then: Then<'_>| {
            let product = Product::Plain;
            let mut out = cx.backend.fresh(a.nrows(), b.ncols());
            let terms = [Term { product, a, b }];
            cx.backend.linear(&terms, Write::Set, then, &mut out);
            out
        };
        let biased = |bias, act| Then {
            bias: Some(bias),
            act,
            ..Then::default()
        };
        if self.scorer == Scorer::Dot {
            let scores = product(&products, &self.ones, Then::default());
            return Scored {
                products,
                hidden: None,
                scores,
            };
        }
        let hidden = product(&products, &weights[W1], biased(&weights[B1], Act::Relu));
        let scores = product(&hidden, &weights[W2], biased(&weights[B2], Act::None));
        Scored {
            products,
            hidden: Some(hidden),
            scores,
        }
    }

    /// Loss of this rank's run of the epoch's pairs; in `g: [n_local, d]` the gradient of the loss of
    /// all runs; and the run's part of the weights' gradients. All but the loss times `scale`.
    /// Collective.
    pub(super) fn loss(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        scale: f32,
        z: &Mat,
        g: &mut Mat,
    ) -> Result<(f64, Weights)> {
        let pairs = cx.sample(|| self.shares.pairs(self.run.pairs(cx.epoch)))?;
        let gathered = self.shares.gather(cx, Direction::Forward, z)?;
        let batch = (&pairs, &self.labels, &self.all);
        let Some(all) = gathered else {
            return Ok(self.trained(cx, weights, scale, z, batch, g));
        };
        let mut gz = cx.backend.fresh(all.nrows(), all.ncols());
        let found = self.trained(cx, weights, scale, &all, batch, &mut gz);
        *g = self.shares.reduce(cx, &gz)?;
        Ok(found)
    }

    /// The loss of a mini-batch of pairs of rows of `z: [n, d]`, its gradient in `g: [n, d]`, and that of
    /// `weights`; all but the loss times `scale`.
    pub(super) fn batch_loss(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        scale: f32,
        z: &Mat,
        batch: &PairBatch,
        g: &mut Mat,
    ) -> (f64, Weights) {
        let PairBatch { pairs, labels, all } = batch;
        self.trained(cx, weights, scale, z, (pairs, labels, all), g)
    }

    /// Scores, loss and backward of pairs of rows of `z`.
    fn trained(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        scale: f32,
        z: &Mat,
        (pairs, labels, all): (&Pairs, &Kept<u8>, &Kept<bool>),
        gz: &mut Mat,
    ) -> (f64, Weights) {
        let (m, d) = (pairs.len(), z.ncols());
        cx.pass(Pass::Classify);
        let scored = self.score(cx, weights, pairs, z);
        let backend = cx.backend.as_ref();
        let mut gs = backend.fresh(m, 1);
        let target = MultiTarget {
            labels,
            mask: all,
            scale,
        };
        cx.pass(Pass::Loss);
        let loss = backend.sigmoid_bce(&scored.scores, target, &mut gs);
        cx.pass(Pass::Classify);
        // `g · wᵀ`, the gradient of a dense layer's input.
        let back = |g: &Mat, w: &Mat, then: Then<'_>| {
            let mut out = backend.fresh(g.nrows(), w.nrows());
            let product = Product::RightT;
            let terms = [Term {
                product,
                a: g,
                b: w,
            }];
            backend.linear(&terms, Write::Set, then, &mut out);
            out
        };
        let mut gradients = Weights::new();
        let gp = match &scored.hidden {
            None => back(&gs, &self.ones, Then::default()),
            Some(y) => {
                let gh = back(&gs, &weights[W2], Then::relu_gate(y, 1.0));
                for (x, g, columns) in [(&scored.products, &gh, d), (y, &gs, 1)] {
                    let mut gw = backend.fresh(d, columns);
                    let mut gb = backend.fresh(1, columns);
                    backend.weight_gradient(x, g, &mut gw, Some(&mut gb));
                    gradients.extend([gw, gb]);
                }
                back(&gh, &weights[W1], Then::default())
            }
        };
        backend.pair_products_backward(pairs, z, &gp, gz);
        (loss, gradients)
    }

    /// Scores of pairs of vertices, the same on every rank; `z: [n_local, d]`. Collective.
    pub(super) fn scores(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        z: &Mat,
        pairs: Vec<Pair>,
    ) -> Result<Vec<f32>> {
        let count = pairs.len();
        let run = self.shares.run(cx, count);
        let pairs = self.shares.pairs(pairs[run].to_vec())?;
        let gathered = self.shares.gather(cx, Direction::Eval, z)?;
        let scored = self.score(cx, weights, &pairs, gathered.as_ref().unwrap_or(z));
        let scores = cx.message(scored.scores).floats();
        self.shares.join(cx, scores, count)
    }
}
