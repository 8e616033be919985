//! Every model's forward pass and loss once more, in `f64` and plain loops, for tests only.
//!
//! Nothing is shared with the models but the formulas, the order of the weights and the counters
//! of dropout. Gradients come from central differences.

use super::ModelKind;
use super::coefficients::key_of_head;
use crate::dataset::{Dataset, Features};
use crate::rng::{self, Purpose};
use crate::spec::RunSpec;
use kernels::gat::AttentionDropout;

/// A matrix in `f64`.
pub(super) type M = ndarray::Array2<f64>;

/// One in-edge: destination, source, weight, relation.
type Edge = (usize, usize, f64, usize);

/// A model on a data set.
pub(super) struct Reference<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) data: &'a Dataset,
}

/// `f32` numbers as `f64`.
pub(super) fn wide(x: &kernels::Mat) -> M {
    x.mapv(f64::from)
}

/// The features of a data set.
pub(super) fn features(data: &Dataset) -> M {
    match &data.features {
        Features::Dense(x) => wide(x),
        Features::Sparse(s) => {
            let (s, mut x) = (s.view(), M::zeros((s.rows(), s.n_cols)));
            for v in 0..s.rows() {
                for e in s.span(v) {
                    x[[v, s.indices[e] as usize]] += f64::from(s.weight(e));
                }
            }
            x
        }
        Features::Identity(n) => M::eye(*n),
        Features::Mapped { values, dim } => {
            let x = values.iter().map(|&x| f64::from(x)).collect();
            M::from_shape_vec((values.len() / dim, *dim), x).expect("whole rows")
        }
    }
}

fn relu(x: M) -> M {
    x.mapv(|v| v.max(0.0))
}

fn elu(x: M) -> M {
    x.mapv(|v| if v > 0.0 { v } else { v.exp_m1() })
}

fn layer_norm(x: &M, gain: &M, shift: &M) -> M {
    let d = x.ncols() as f64;
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let mean = row.sum() / d;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / d;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        row.mapv_inplace(|v| (v - mean) * scale);
    }
    y * gain + shift
}

impl Reference<'_> {
    fn n(&self) -> usize {
        self.data.graph.n()
    }

    /// The graph's own edges, each of weight 1.
    fn edges(&self) -> Vec<Edge> {
        let graph = &self.data.graph;
        let mut edges = Vec::new();
        for v in 0..self.n() {
            let start = graph.indptr()[v] as usize;
            for (k, &u) in graph.neighbours(v).iter().enumerate() {
                let relation = graph.relations().map_or(0, |r| r.types()[start + k]);
                edges.push((v, u as usize, 1.0, usize::from(relation)));
            }
        }
        edges
    }

    /// The graph's edges with exactly one self loop a vertex.
    fn with_loops(&self) -> Vec<Edge> {
        let others = self.edges().into_iter().filter(|e| e.0 != e.1);
        others
            .chain((0..self.n()).map(|v| (v, v, 1.0, 0)))
            .collect()
    }

    fn gcn_edges(&self) -> Vec<Edge> {
        let mut edges = self.with_loops();
        let mut degree = vec![0.0f64; self.n()];
        edges.iter().for_each(|e| degree[e.0] += 1.0);
        edges
            .iter_mut()
            .for_each(|e| e.2 = 1.0 / (degree[e.0] * degree[e.1]).sqrt());
        edges
    }

    /// Edges that weigh one over their number a destination and relation.
    fn mean_edges(&self, by_relation: bool) -> Vec<Edge> {
        let edges = self.edges();
        let same = |a: &Edge, b: &Edge| a.0 == b.0 && (!by_relation || a.3 == b.3);
        let count = |e: &Edge| edges.iter().filter(|f| same(e, f)).count() as f64;
        edges
            .iter()
            .map(|e| (e.0, e.1, 1.0 / count(e), e.3))
            .collect()
    }

    fn propagate(&self, edges: &[Edge], x: &M) -> M {
        let mut y = M::zeros(x.raw_dim());
        for &(v, u, w, _) in edges {
            for c in 0..x.ncols() {
                y[[v, c]] += w * x[[u, c]];
            }
        }
        y
    }

    fn key(&self, epoch: u64, purpose: Purpose, layer: usize) -> u64 {
        rng::key(self.spec.seed, epoch, purpose, layer as u64)
    }

    /// Dropout of a layer's input, in the first epoch.
    fn drop(&self, layer: usize, mut x: M) -> M {
        let p = self.spec.dropout as f32;
        let key = self.key(0, Purpose::Dropout, layer);
        for ((v, c), value) in x.indexed_iter_mut() {
            let kept = kernels::dropout::hash(key, v as u32, c as u32) >= p;
            *value = if kept {
                *value / (1.0 - f64::from(p))
            } else {
                0.0
            };
        }
        x
    }

    /// Attention coefficients of every edge and head, before dropout: `z_src: [n, H·D]` by head;
    /// with `shared` every head scores the same `[n, D]`.
    fn coefficients(&self, edges: &[Edge], z: &M, src: &M, dst: &M, shared: bool) -> Vec<Vec<f64>> {
        let (heads, d) = src.dim();
        let score = |v: usize, h: usize, a: &M| -> f64 {
            let first = if shared { 0 } else { h * d };
            (0..d).map(|c| z[[v, first + c]] * a[[h, c]]).sum()
        };
        let mut alpha: Vec<Vec<f64>> = edges
            .iter()
            .map(|&(v, u, ..)| {
                let raw = (0..heads).map(|h| score(u, h, src) + score(v, h, dst));
                raw.map(|s| if s > 0.0 { s } else { 0.2 * s }).collect()
            })
            .collect();
        for h in 0..heads {
            let mut most = vec![f64::NEG_INFINITY; self.n()];
            let mut total = vec![0.0; self.n()];
            for (e, a) in edges.iter().zip(&alpha) {
                most[e.0] = f64::max(most[e.0], a[h]);
            }
            for (e, a) in edges.iter().zip(&mut alpha) {
                a[h] = (a[h] - most[e.0]).exp();
                total[e.0] += a[h];
            }
            for (e, a) in edges.iter().zip(&mut alpha) {
                a[h] /= total[e.0];
            }
        }
        alpha
    }

    fn gat(&self, layer: usize, x: &M, w: &[M], concat: bool) -> M {
        let [weight, src, dst, bias] = w else {
            panic!("GAT has four tensors")
        };
        let (z, edges, (heads, d)) = (x.dot(weight), self.with_loops(), src.dim());
        let alpha = self.coefficients(&edges, &z, src, dst, false);
        let p = self.spec.attention_dropout as f32;
        let key = self.key(0, Purpose::Attention, layer);
        let mut y = M::zeros((self.n(), if concat { heads * d } else { d }));
        for (&(v, u, ..), alpha) in edges.iter().zip(&alpha) {
            for (h, alpha) in alpha.iter().enumerate() {
                let keep = AttentionDropout::factor(key, p, v as u32, u as u32, h as u32);
                for c in 0..d {
                    let value = alpha * f64::from(keep) * z[[u, h * d + c]];
                    if concat {
                        y[[v, h * d + c]] += value;
                    } else {
                        y[[v, c]] += value / heads as f64;
                    }
                }
            }
        }
        y + bias
    }

    fn rgcn(&self, x: &M, w: &[M]) -> M {
        let bases = self.spec.bases;
        let (basis, root, bias) = (&w[0], &w[w.len() - 2], &w[w.len() - 1]);
        let d = root.ncols();
        let z = x.dot(basis);
        let mut y = x.dot(root) + bias;
        for (v, u, weight, r) in self.mean_edges(true) {
            for c in 0..d {
                y[[v, c]] += weight
                    * if bases == 0 {
                        z[[u, r * d + c]]
                    } else {
                        (0..bases).map(|b| w[1][[r, b]] * z[[u, b * d + c]]).sum()
                    };
            }
        }
        y
    }

    /// One message-passing layer of width to width, without activation.
    fn conv(&self, layer: usize, x: &M, w: &[M], last: bool) -> M {
        match self.spec.model {
            ModelKind::Gcn => self.propagate(&self.gcn_edges(), &x.dot(&w[0])) + &w[1],
            ModelKind::Sage => {
                let mean = self.propagate(&self.mean_edges(false), x);
                x.dot(&w[0]) + mean.dot(&w[1]) + &w[2]
            }
            ModelKind::Gin => {
                let a = x * (1.0 + w[0][[0, 0]]) + self.propagate(&self.edges(), x);
                relu(a.dot(&w[1]) + &w[2]).dot(&w[3]) + &w[4]
            }
            ModelKind::Gat => self.gat(layer, x, w, !last),
            ModelKind::Rgcn => self.rgcn(x, w),
            ModelKind::Gcnii | ModelKind::Resgcn => unreachable!("has its own stack"),
        }
    }

    fn decoupled_rgcn(&self, x: &M, w: &[Vec<M>]) -> M {
        let layers = self.spec.layers;
        let mut h = x.clone();
        for (l, w) in w[..layers - 1].iter().enumerate() {
            h = relu(self.drop(l, h).dot(&w[0]) + &w[1]);
        }
        h = self.drop(layers - 1, h);
        let w = &w[layers - 1];
        let mut y = h.dot(&w[1]) + &w[2];
        let (z, d) = (h.dot(&w[0]), w[1].ncols());
        for r in 0..z.ncols() / d {
            let edges = self.mean_edges(true);
            let edges: Vec<Edge> = edges.into_iter().filter(|e| e.3 == r).collect();
            let mut own = z.slice(ndarray::s![.., r * d..(r + 1) * d]).to_owned();
            for _ in 0..layers {
                own = self.propagate(&edges, &own);
            }
            y += &own;
        }
        y
    }

    fn decoupled(&self, x: &M, w: &[Vec<M>]) -> M {
        if self.spec.model == ModelKind::Rgcn {
            return self.decoupled_rgcn(x, w);
        }
        let layers = self.spec.layers;
        let mut x = x.clone();
        for (l, w) in w[..layers].iter().enumerate() {
            x = self.drop(l, x).dot(&w[0]) + &w[1];
            if l + 1 < layers {
                x = relu(x);
            }
        }
        let mut alpha = Vec::new();
        let edges = match self.spec.model {
            ModelKind::Gcn => self.gcn_edges(),
            ModelKind::Sage => self.mean_edges(false),
            ModelKind::Gin => self.edges(),
            ModelKind::Gat => {
                let [src, dst] = &w[layers][..] else {
                    panic!("the first round scores edges")
                };
                let edges = self.with_loops();
                alpha = self.coefficients(&edges, &x, src, dst, true);
                edges
            }
            other => unreachable!("{other} has no decoupled form"),
        };
        for (l, w) in w.iter().enumerate().skip(layers) {
            let mut edges = edges.clone();
            if self.spec.model == ModelKind::Gat {
                let p = self.spec.attention_dropout as f32;
                let key = self.key(0, Purpose::Attention, l);
                for (e, alpha) in edges.iter_mut().zip(&alpha) {
                    let of_head = |(h, alpha): (usize, &f64)| {
                        let key = key_of_head(key, h);
                        let keep = AttentionDropout::factor(key, p, e.0 as u32, e.1 as u32, 0);
                        alpha * f64::from(keep) / self.spec.heads as f64
                    };
                    e.2 = alpha.iter().enumerate().map(of_head).sum();
                }
            }
            let ax = self.propagate(&edges, &x);
            x = match self.spec.model {
                ModelKind::Sage => 0.5 * (x + ax),
                ModelKind::Gin => x * (1.0 + w[0][[0, 0]]) + ax,
                _ => ax,
            };
        }
        x
    }

    fn gcnii(&self, x: &M, w: &[Vec<M>]) -> M {
        let layers = self.spec.layers;
        let h0 = relu(self.drop(0, x.clone()).dot(&w[0][0]) + &w[0][1]);
        let edges = self.gcn_edges();
        let alpha = self.spec.alpha;
        let mut h = h0.clone();
        for (l, w) in w.iter().enumerate().take(layers + 1).skip(1) {
            let beta = (self.spec.lambda / l as f64 + 1.0).ln();
            let p = self.propagate(&edges, &self.drop(l, h));
            let s = p * (1.0 - alpha) + &h0 * alpha;
            h = relu(&s * (1.0 - beta) + s.dot(&w[0]) * beta);
        }
        self.drop(layers + 1, h).dot(&w[layers + 1][0]) + &w[layers + 1][1]
    }

    fn resgcn(&self, x: &M, w: &[Vec<M>]) -> M {
        let layers = self.spec.layers;
        let edges = self.gcn_edges();
        let mut h = x.dot(&w[0][0]) + &w[0][1];
        for (l, w) in w[1..=layers].iter().enumerate() {
            let t = self.drop(l + 1, relu(layer_norm(&h, &w[0], &w[1])));
            let inner = self.propagate(&edges, &t.dot(&w[2])) + &w[3];
            h = h + match w.get(4) {
                Some(second) => relu(inner).dot(second) + &w[5],
                None => inner,
            };
        }
        let w = &w[layers + 1];
        self.drop(layers + 1, relu(layer_norm(&h, &w[0], &w[1])))
            .dot(&w[2])
            + &w[3]
    }

    /// Logits of the first training epoch.
    pub(super) fn logits(&self, x: &M, w: &[Vec<M>]) -> M {
        match self.spec.model {
            _ if self.spec.decoupled => return self.decoupled(x, w),
            ModelKind::Gcnii => return self.gcnii(x, w),
            ModelKind::Resgcn => return self.resgcn(x, w),
            _ => {}
        }
        let mut x = x.clone();
        for (l, w_l) in w.iter().enumerate() {
            let last = l + 1 == w.len();
            x = self.conv(l, &self.drop(l, x), w_l, last);
            if !last {
                x = if self.spec.model == ModelKind::Gat {
                    elu(x)
                } else {
                    relu(x)
                };
            }
        }
        x
    }

    /// Mean softmax cross-entropy of the training vertices.
    pub(super) fn loss(&self, x: &M, w: &[Vec<M>]) -> f64 {
        let logits = self.logits(x, w);
        let (mut sum, mut count) = (0.0, 0.0);
        for v in (0..self.n()).filter(|&v| self.data.train[v]) {
            let row = logits.row(v);
            let most = row.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v));
            let total: f64 = row.iter().map(|v| (v - most).exp()).sum();
            sum += total.ln() + most - row[self.data.labels[v] as usize];
            count += 1.0;
        }
        sum / f64::max(count, 1.0)
    }
}
