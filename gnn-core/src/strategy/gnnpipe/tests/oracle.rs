//! GNNPipe's definition once more: sequential, in `f64` and plain loops, chunk after chunk and vertex after
//! vertex, for tests only.
//!
//! # Definition
//! Chunks go forward in the epoch's order, each through all layers. Layer `l` of vertex `v` aggregates of
//! a neighbour `u` what the layer sends of it, after dropout: this epoch's where `u`'s chunk is `v`'s own
//! or went before, and of the first layer always; else the historical one. Chunks go back in the reverse
//! order; what a neighbour that has not gone back yet would give is zero. The historical rows of epochs
//! `[jα, (j+1)α)` are those that epoch `jα - 1` made; of the first `α` those of an exact forward pass at the
//! first weights, without dropout.

use super::vertex::{Layer, M, Placed, Row, Seen, add, stack};
use crate::dataset::{Dataset, Features};
use crate::model::ModelKind;
use crate::rng::{self, Purpose};
use crate::spec::RunSpec;

/// What can be done otherwise: the ablations, and what is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Epochs that read the same version.
    pub(super) freeze: u64,
    /// A neighbour that has not gone back yet gives what it gave an epoch before.
    pub(super) historical_gradients: bool,
    /// Wrong: a chunk's own rows are historical too.
    pub(super) stale_within: bool,
    /// Wrong: everything is this epoch's.
    pub(super) all_fresh: bool,
    /// Wrong: chunks go back in the order in which they went forward.
    pub(super) backward_in_order: bool,
    /// Wrong: versions change this many epochs later.
    pub(super) late: u64,
}

impl Rules {
    /// The paper's, with versions for so many epochs.
    pub(super) fn frozen_for(freeze: u64) -> Rules {
        Rules {
            freeze,
            historical_gradients: false,
            stale_within: false,
            all_fresh: false,
            backward_in_order: false,
            late: 0,
        }
    }
}

/// A training on one data set, cut into chunks.
pub(super) struct Oracle<'a> {
    spec: &'a RunSpec,
    data: &'a Dataset,
    layers: Vec<Placed>,
    /// Of each vertex, whom it reads and with which weight.
    reads: Vec<Vec<(usize, f64)>>,
    chunk: Vec<usize>,
    rules: Rules,
    pub(super) weights: Vec<Vec<M>>,
    /// By layer and vertex, what an epoch reads where it does not read its own.
    pub(super) history: Vec<Vec<Row>>,
    /// The gradients of aggregates of the epoch before.
    past: Vec<Vec<Row>>,
}

/// What one epoch's forward pass leaves.
pub(super) struct Forward {
    /// By layer and vertex.
    seen: Vec<Vec<Seen>>,
    /// Outputs before what follows the layer.
    y: Vec<Vec<Row>>,
    /// Sum of the losses of the training vertices.
    pub(super) loss: f64,
}

impl<'a> Oracle<'a> {
    /// Of `chunk: [n]`, the chunk of each vertex, at these weights.
    pub(super) fn new(
        spec: &'a RunSpec,
        data: &'a Dataset,
        chunk: Vec<usize>,
        rules: Rules,
        weights: Vec<Vec<M>>,
    ) -> Oracle<'a> {
        let layers = stack(spec);
        let mut oracle = Oracle {
            spec,
            data,
            reads: reads(data, spec.model),
            chunk,
            rules,
            weights,
            history: Vec::new(),
            past: vec![vec![Row::new(); data.n()]; layers.len()],
            layers,
        };
        let exact = oracle.forward(None, &[]);
        oracle.history = sent(&exact);
        oracle
    }

    fn n(&self) -> usize {
        self.data.n()
    }

    fn members(&self, chunk: usize) -> Vec<usize> {
        (0..self.n()).filter(|&v| self.chunk[v] == chunk).collect()
    }

    /// The factors of dropout for one vertex's row; all 1 without an epoch.
    fn mask(&self, epoch: Option<u64>, layer: usize, v: usize, width: usize) -> Row {
        let p = self.spec.dropout;
        let Some(epoch) = epoch.filter(|_| p > 0.0) else {
            return vec![1.0; width];
        };
        let key = rng::key(self.spec.seed, epoch, Purpose::Dropout, layer as u64);
        let kept = |c: usize| kernels::dropout::hash(key, v as u32, c as u32) >= p as f32;
        let factor = |c: usize| if kept(c) { 1.0 / (1.0 - p) } else { 0.0 };
        (0..width).map(factor).collect()
    }

    /// The input of a vertex at a layer, and what the layer sends of it.
    fn enter(&self, epoch: Option<u64>, at: (usize, usize), below: &[Vec<Row>]) -> Seen {
        let (l, v) = at;
        let mut x = match l.checked_sub(1) {
            None => features(self.data, v),
            Some(b) if self.layers[b].relu => below[b][v].iter().map(|y| y.max(0.0)).collect(),
            Some(b) => below[b][v].clone(),
        };
        let placed = &self.layers[l];
        let mask = self.mask(epoch, l, v, x.len());
        if placed.drops {
            x.iter_mut().zip(&mask).for_each(|(x, m)| *x *= m);
        }
        let t = placed.layer.sends(&x, &self.weights[l], &mask);
        let (a, x) = (vec![0.0; t.len()], x);
        Seen {
            x,
            t,
            a,
            ..Seen::default()
        }
    }

    /// One forward pass over the chunks in `order`; without an epoch, exact and without dropout.
    pub(super) fn forward(&self, epoch: Option<u64>, order: &[usize]) -> Forward {
        let (n, layers) = (self.n(), self.layers.len());
        let mut seen = vec![vec![Seen::default(); n]; layers];
        let mut y = vec![vec![Row::new(); n]; layers];
        let mut h0 = vec![Row::new(); n];
        seen[0] = (0..n).map(|v| self.enter(epoch, (0, v), &y)).collect();
        let whole = epoch.is_none() || self.rules.all_fresh;
        let turns: Vec<Vec<usize>> = match whole {
            true => vec![(0..n).collect()],
            false => order.iter().map(|&k| self.members(k)).collect(),
        };
        let mut done = vec![false; n];
        for chunk in turns {
            if !self.rules.stale_within || whole {
                chunk.iter().for_each(|&v| done[v] = true);
            }
            for l in 0..layers {
                for &v in chunk.iter().filter(|_| l > 0) {
                    seen[l][v] = self.enter(epoch, (l, v), &y);
                }
                for &v in &chunk {
                    let layer = self.layers[l].layer;
                    for &(u, w) in self.reads[v].iter().filter(|_| layer.reads()) {
                        let t = match l == 0 || done[u] {
                            true => seen[l][u].t.clone(),
                            false => self.history[l][u].clone(),
                        };
                        add(&mut seen[l][v].a, w, &t);
                    }
                    y[l][v] = layer.forward(&mut seen[l][v], &self.weights[l], &h0[v]);
                    if layer == (Layer::Dense { begins: true }) {
                        h0[v] = y[l][v].iter().map(|y| y.max(0.0)).collect();
                    }
                }
            }
            chunk.iter().for_each(|&v| done[v] = true);
        }
        let mut loss = 0.0;
        for v in (0..n).filter(|&v| self.data.train[v]) {
            loss += loss_of(self.data, v, &y[layers - 1][v]).0;
        }
        Forward { seen, y, loss }
    }

    /// The gradients of the mean loss.
    pub(super) fn backward(
        &mut self,
        epoch: u64,
        order: &[usize],
        forward: &Forward,
    ) -> Vec<Vec<M>> {
        let (n, layers) = (self.n(), self.layers.len());
        let mut dw: Vec<Vec<M>> = self.weights.iter().map(zeros).collect();
        // By layer, of what every vertex aggregates.
        let mut da = vec![vec![Row::new(); n]; layers];
        let mut readers = vec![Vec::new(); n];
        for v in 0..n {
            for &(u, w) in &self.reads[v] {
                readers[u].push((v, w));
            }
        }
        let mut turns = order.to_vec();
        if !self.rules.backward_in_order {
            turns.reverse();
        }
        let scale = 1.0 / terms(self.data).max(1) as f64;
        let mut done = vec![false; n];
        let turns: Vec<Vec<usize>> = match self.rules.all_fresh {
            true => vec![(0..n).collect()],
            false => turns.into_iter().map(|k| self.members(k)).collect(),
        };
        for chunk in turns {
            chunk.iter().for_each(|&v| done[v] = true);
            let mut g = vec![Row::new(); n];
            let mut gh0 = vec![Row::new(); n];
            for &v in &chunk {
                let logits = &forward.y[layers - 1][v];
                g[v] = vec![0.0; logits.len()];
                if self.data.train[v] {
                    add(&mut g[v], scale, &loss_of(self.data, v, logits).1);
                }
            }
            for l in (0..layers).rev() {
                let Placed { layer, drops, .. } = self.layers[l];
                let mut back = Vec::new();
                for &v in &chunk {
                    if layer == (Layer::Dense { begins: true }) {
                        for c in 0..gh0[v].len() {
                            g[v][c] += gh0[v][c] * step(forward.y[l][v][c]);
                        }
                    }
                    let seen = &forward.seen[l][v];
                    let b = layer.backward(seen, &self.weights[l], &g[v], &mut dw[l]);
                    add(&mut gh0[v], 1.0, &b.h0);
                    da[l][v] = b.a.clone();
                    back.push(b);
                }
                for (&u, b) in chunk.iter().zip(back) {
                    let mut gt = b.t;
                    for &(v, w) in readers[u].iter().filter(|_| layer.reads()) {
                        if done[v] {
                            add(&mut gt, w, &da[l][v]);
                        } else if self.rules.historical_gradients && !self.past[l][v].is_empty() {
                            add(&mut gt, w, &self.past[l][v]);
                        }
                    }
                    let (seen, w) = (&forward.seen[l][u], &self.weights[l]);
                    let mask = self.mask(Some(epoch), l, u, seen.x.len());
                    let mut gx = layer.sends_back(seen, w, &mask, &gt, &mut dw[l]);
                    add(&mut gx, 1.0, &b.x);
                    let Some(below) = l.checked_sub(1) else {
                        continue;
                    };
                    for (c, gx) in gx.iter_mut().enumerate() {
                        let dropped = if drops { mask[c] } else { 1.0 };
                        let open = !self.layers[below].relu || forward.y[below][u][c] > 0.0;
                        *gx *= dropped * f64::from(u8::from(open));
                    }
                    g[u] = gx;
                }
            }
        }
        self.past = da;
        dw
    }

    /// One epoch with a step of gradient descent: the sum of losses, and the gradients.
    pub(super) fn epoch(&mut self, epoch: u64, order: &[usize]) -> (f64, Vec<Vec<M>>) {
        let forward = self.forward(Some(epoch), order);
        let gradients = self.backward(epoch, order, &forward);
        for (w, g) in self
            .weights
            .iter_mut()
            .flatten()
            .zip(gradients.iter().flatten())
        {
            w.zip_mut_with(g, |w, g| *w -= self.spec.lr * g);
        }
        let next = epoch + 1;
        if next >= self.rules.late && (next - self.rules.late).is_multiple_of(self.rules.freeze) {
            self.history = sent(&forward);
        }
        (forward.loss, gradients)
    }

    /// The outputs without dropout, every neighbour this epoch's.
    pub(super) fn logits(&self) -> Vec<Row> {
        let mut exact = self.forward(None, &[]);
        exact.y.pop().expect("there is a layer")
    }
}

fn sent(forward: &Forward) -> Vec<Vec<Row>> {
    let of_layer = |layer: &Vec<Seen>| layer.iter().map(|s| s.t.clone()).collect();
    forward.seen.iter().map(of_layer).collect()
}

fn zeros(layer: &Vec<M>) -> Vec<M> {
    layer.iter().map(|w| M::zeros(w.raw_dim())).collect()
}

fn step(y: f64) -> f64 {
    f64::from(u8::from(y > 0.0))
}

/// Terms of the loss.
fn terms(data: &Dataset) -> usize {
    let train = data.train.iter().filter(|&&t| t).count();
    match data.multi_labels {
        Some(_) => train * data.n_classes,
        None => train,
    }
}

/// A vertex's loss, and its gradient.
fn loss_of(data: &Dataset, v: usize, logits: &[f64]) -> (f64, Row) {
    if let Some(labels) = &data.multi_labels {
        let label = |c: usize| f64::from(labels[v * data.n_classes + c]);
        let each = logits.iter().enumerate();
        let loss = each
            .clone()
            .map(|(c, y)| y.max(0.0) - y * label(c) + (-y.abs()).exp().ln_1p());
        let g = each.map(|(c, y)| 1.0 / (1.0 + (-y).exp()) - label(c));
        return (loss.sum(), g.collect());
    }
    let most = logits.iter().fold(f64::NEG_INFINITY, |m, y| m.max(*y));
    let total: f64 = logits.iter().map(|y| (y - most).exp()).sum();
    let right = data.labels[v] as usize;
    let mut g: Row = logits.iter().map(|y| (y - most).exp() / total).collect();
    g[right] -= 1.0;
    (total.ln() + most - logits[right], g)
}

fn features(data: &Dataset, v: usize) -> Row {
    match &data.features {
        Features::Dense(x) => x.row(v).iter().map(|&x| f64::from(x)).collect(),
        Features::Sparse(x) => {
            let x = x.view();
            let mut row = vec![0.0; x.n_cols];
            for e in x.span(v) {
                row[x.indices[e] as usize] += f64::from(x.weight(e));
            }
            row
        }
        other => panic!("{other:?}: not for the oracle"),
    }
}

/// Whom every vertex reads, with the weights that a model gives its edges.
fn reads(data: &Dataset, model: ModelKind) -> Vec<Vec<(usize, f64)>> {
    let n = data.n();
    let near = |v: usize| data.graph.neighbours(v).iter().map(|&u| u as usize);
    let loops = matches!(model, ModelKind::Gcn | ModelKind::Gcnii | ModelKind::Resgcn);
    let rows: Vec<Vec<usize>> = (0..n)
        .map(|v| match loops {
            // Exactly one loop each.
            true => near(v).filter(|&u| u != v).chain([v]).collect(),
            false => near(v).collect(),
        })
        .collect();
    let degree = |v: usize| rows[v].len() as f64;
    let weight = |v: usize, u: usize| match model {
        ModelKind::Sage => 1.0 / degree(v),
        ModelKind::Gin => 1.0,
        _ => 1.0 / (degree(v) * degree(u)).sqrt(),
    };
    let of = |v: usize| rows[v].iter().map(|&u| (u, weight(v, u))).collect();
    (0..n).map(of).collect()
}
