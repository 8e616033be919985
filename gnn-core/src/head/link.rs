//! Link prediction: embeddings of two vertices become the score of an edge between them.
//!
//! # Paper
//! The dot product and its training against other pairs as in Kipf & Welling, "Variational Graph
//! Auto-Encoders", 2016, <https://arxiv.org/abs/1611.07308>; dense layers on the elementwise product
//! as in Hu et al., "Open Graph Benchmark", NeurIPS 2020, <https://arxiv.org/abs/2005.00687>.
//! # Differs
//! Every epoch draws as many pairs without an edge as asked, instead of weighing all pairs.

use kernels::pairs::Pairs;

use super::negative::Negatives;
use crate::backend::{Act, Backend, Gate, Kept, Mat, MultiTarget, Product, Term, Then, Write};
use crate::ctx::Ctx;
use crate::dataset::{Links, Pair};
use crate::error::Result;
use crate::model::Weights;
use crate::record::Phase;
use crate::rng::{self, Purpose};
use crate::spec::{RunSpec, Scorer};

const W1: usize = 0;
const B1: usize = 1;
const W2: usize = 2;
const B2: usize = 3;

/// Scores pairs of one rank's rows and trains on those of its graph.
pub struct LinkHead {
    train: Vec<Pair>,
    negatives: Negatives,
    /// Pairs without an edge for each edge.
    each: usize,
    /// 1 for each edge, then 0 for each other pair.
    labels: Kept<u8>,
    all: Kept<bool>,
    /// `[d, 1]`: summing a product is multiplying by this.
    ones: Mat,
    scorer: Scorer,
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
    /// For a graph of `n` vertices.
    pub(super) fn new(links: &Links, n: usize, spec: &RunSpec, backend: &dyn Backend) -> LinkHead {
        let edges = links.train.len();
        let pairs = edges * (1 + links.negatives);
        let label = |k: usize| u8::from(k < edges);
        LinkHead {
            train: links.train.clone(),
            negatives: Negatives::new(n, &links.train, spec.seed),
            each: links.negatives,
            labels: (0..pairs).map(label).collect::<Vec<_>>().into(),
            all: vec![true; pairs].into(),
            ones: backend.upload(kernels::Mat::ones((spec.embedding, 1))),
            scorer: spec.scorer,
        }
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

    /// Loss of this epoch's pairs, its gradient in `g: [n, d]`, and the weights' gradients; all but
    /// the loss times `scale`.
    pub(super) fn loss(
        &self,
        cx: &mut Ctx,
        weights: &Weights,
        scale: f32,
        z: &Mat,
        g: &mut Mat,
    ) -> Result<(f64, Weights)> {
        let before = cx.enter(Phase::Sample);
        let mut ends = self.train.clone();
        ends.extend(self.negatives.draw(cx.epoch, ends.len() * self.each));
        let pairs = Pairs::new(z.nrows(), ends)?;
        cx.enter(before);
        let (m, d) = (pairs.len(), z.ncols());
        let scored = self.score(cx, weights, &pairs, z);
        let backend = cx.backend.as_ref();
        let mut gs = backend.fresh(m, 1);
        let target = MultiTarget {
            labels: &self.labels,
            mask: &self.all,
            scale,
        };
        let loss = backend.sigmoid_bce(&scored.scores, target, &mut gs);
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
                let gate = Gate {
                    y,
                    act: Act::Relu,
                    scale: 1.0,
                };
                let gate = Then {
                    gate: Some(gate),
                    ..Then::default()
                };
                let gh = back(&gs, &weights[W2], gate);
                for (x, g, columns) in [(&scored.products, &gh, d), (y, &gs, 1)] {
                    let mut gw = backend.fresh(d, columns);
                    let mut gb = backend.fresh(1, columns);
                    backend.weight_gradient(x, g, &mut gw, Some(&mut gb));
                    gradients.extend([gw, gb]);
                }
                back(&gh, &weights[W1], Then::default())
            }
        };
        backend.pair_products_backward(&pairs, z, &gp, g);
        Ok((loss, gradients))
    }

    /// Scores of pairs of rows of `z: [n, d]`.
    pub(super) fn scores(
        &self,
        cx: &Ctx,
        weights: &Weights,
        z: &Mat,
        pairs: Vec<Pair>,
    ) -> Result<Vec<f32>> {
        let pairs = Pairs::new(z.nrows(), pairs)?;
        let scored = self.score(cx, weights, &pairs, z);
        Ok(cx.backend.take(scored.scores).into_raw_vec_and_offset().0)
    }
}
