//! What layers do at one vertex, forward and back, in `f64` and plain loops.
//!
//! Nothing is shared with the models but the formulas and the order of the weights.

use crate::model::ModelKind;
use crate::spec::RunSpec;

/// A matrix in `f64`.
pub(super) type M = ndarray::Array2<f64>;
/// A vertex's row.
pub(super) type Row = Vec<f64>;

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Layer {
    /// `x W + b`, which may be the initial residual of later layers.
    Dense {
        begins: bool,
    },
    Gcn,
    Sage,
    Gin,
    /// With its share of the initial residual and of its weights.
    Gcnii {
        alpha: f64,
        beta: f64,
    },
    /// `x + a W + b`, where `a` aggregates what [`Layer::sends`] of `x`.
    Block,
    /// A dense layer behind normalisation.
    Last,
}

/// A layer in its place: what follows it, and whether its input is dropped out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) layer: Layer,
    pub(super) relu: bool,
    pub(super) drops: bool,
}

/// The layers of a request.
pub(super) fn stack(spec: &RunSpec) -> Vec<Placed> {
    let place = |layer, relu, drops| Placed { layer, relu, drops };
    let middle = |l: usize| match spec.model {
        ModelKind::Gcn => place(Layer::Gcn, l + 1 < spec.layers, true),
        ModelKind::Sage => place(Layer::Sage, l + 1 < spec.layers, true),
        ModelKind::Gin => place(Layer::Gin, l + 1 < spec.layers, true),
        ModelKind::Gcnii => {
            let beta = (spec.lambda / (l + 1) as f64 + 1.0).ln();
            let alpha = spec.alpha;
            place(Layer::Gcnii { alpha, beta }, true, true)
        }
        ModelKind::Resgcn => place(Layer::Block, false, false),
        other => panic!("{other} is none of the oracle's models"),
    };
    let mut all: Vec<Placed> = (0..spec.layers).map(middle).collect();
    match spec.model {
        ModelKind::Gcnii => {
            all.insert(0, place(Layer::Dense { begins: true }, true, true));
            all.push(place(Layer::Dense { begins: false }, false, true));
        }
        ModelKind::Resgcn => {
            all.insert(0, place(Layer::Dense { begins: false }, false, false));
            all.push(place(Layer::Last, false, false));
        }
        _ => {}
    }
    all
}

/// What a vertex keeps of a layer.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Its input, after dropout.
    pub(super) x: Row,
    /// What its neighbours aggregate of it.
    pub(super) t: Row,
    /// What it aggregates of them.
    pub(super) a: Row,
    /// What its weights multiply, where that is neither of them.
    pub(super) s: Row,
    /// The hidden row of an MLP.
    pub(super) u: Row,
}

/// Gradients at a vertex.
pub(super) struct Back {
    /// Of its input, but for what comes through `t`.
    pub(super) x: Row,
    /// Of its own `t`, as far as it reads that itself.
    pub(super) t: Row,
    /// Of its aggregate.
    pub(super) a: Row,
    /// Of the initial residual.
    pub(super) h0: Row,
}

pub(super) fn add(to: &mut Row, scale: f64, x: &[f64]) {
    to.resize(x.len(), 0.0);
    for (to, x) in to.iter_mut().zip(x) {
        *to += scale * x;
    }
}

fn times(x: &[f64], w: &M) -> Row {
    let column = |c: usize| (0..x.len()).map(|r| x[r] * w[[r, c]]).sum();
    (0..w.ncols()).map(column).collect()
}

fn times_t(g: &[f64], w: &M) -> Row {
    let row = |r: usize| (0..g.len()).map(|c| g[c] * w[[r, c]]).sum();
    (0..w.nrows()).map(row).collect()
}

fn outer(to: &mut M, scale: f64, x: &[f64], g: &[f64]) {
    for (r, x) in x.iter().enumerate() {
        for (c, g) in g.iter().enumerate() {
            to[[r, c]] += scale * x * g;
        }
    }
}

/// A row without mean, of deviation one; and one over its deviation.
fn normal(x: &[f64]) -> (Row, f64) {
    let d = x.len() as f64;
    let mean = x.iter().sum::<f64>() / d;
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / d;
    let scale = 1.0 / (variance + 1e-5).sqrt();
    (x.iter().map(|v| (v - mean) * scale).collect(), scale)
}

impl Layer {
    /// Whether it reads other vertices.
    pub(super) fn reads(self) -> bool {
        !matches!(self, Layer::Dense { .. } | Layer::Last)
    }

    /// What neighbours aggregate of a vertex; `mask` is dropout inside the layer, factor by column.
    pub(super) fn sends(self, x: &[f64], w: &[M], mask: &[f64]) -> Row {
        if !matches!(self, Layer::Block | Layer::Last) {
            return x.to_vec();
        }
        let (hat, _) = normal(x);
        let y = |c: usize| (hat[c] * w[0][[0, c]] + w[1][[0, c]]).max(0.0) * mask[c];
        (0..x.len()).map(y).collect()
    }

    /// From the gradient of that, the input's; gain and shift get theirs.
    pub(super) fn sends_back(
        self,
        seen: &Seen,
        w: &[M],
        mask: &[f64],
        g: &[f64],
        dw: &mut [M],
    ) -> Row {
        if !matches!(self, Layer::Block | Layer::Last) {
            return g.to_vec();
        }
        let (hat, scale) = normal(&seen.x);
        let d = hat.len();
        let open = |c: usize| f64::from(u8::from(hat[c] * w[0][[0, c]] + w[1][[0, c]] > 0.0));
        let gy: Row = (0..d).map(|c| g[c] * mask[c] * open(c)).collect();
        for c in 0..d {
            dw[0][[0, c]] += gy[c] * hat[c];
            dw[1][[0, c]] += gy[c];
        }
        let gh: Row = (0..d).map(|c| gy[c] * w[0][[0, c]]).collect();
        let mean = gh.iter().sum::<f64>() / d as f64;
        let along = gh.iter().zip(&hat).map(|(g, h)| g * h).sum::<f64>() / d as f64;
        (0..d)
            .map(|c| scale * (gh[c] - mean - hat[c] * along))
            .collect()
    }

    /// Its output before what follows it.
    pub(super) fn forward(self, seen: &mut Seen, w: &[M], h0: &[f64]) -> Row {
        let Seen { x, t, a, s, u } = seen;
        let mut y = match self {
            Layer::Dense { .. } => times(x, &w[0]),
            Layer::Gcn => times(a, &w[0]),
            Layer::Last => times(t, &w[2]),
            Layer::Block => {
                let mut y = times(a, &w[2]);
                if let Some(second) = w.get(4) {
                    add(&mut y, 1.0, w[3].as_slice().expect("one row"));
                    y.iter_mut().for_each(|v| *v = v.max(0.0));
                    *u = y;
                    y = times(u, second);
                }
                add(&mut y, 1.0, x);
                y
            }
            Layer::Sage => {
                let mut y = times(x, &w[0]);
                add(&mut y, 1.0, &times(a, &w[1]));
                y
            }
            Layer::Gin => {
                *s = a.clone();
                add(s, 1.0 + w[0][[0, 0]], x);
                *u = times(s, &w[1]);
                add(u, 1.0, w[2].as_slice().expect("one row"));
                u.iter_mut().for_each(|v| *v = v.max(0.0));
                times(u, &w[3])
            }
            Layer::Gcnii { alpha, beta } => {
                s.clear();
                add(s, 1.0 - alpha, a);
                add(s, alpha, h0);
                let mut y = Row::new();
                add(&mut y, 1.0 - beta, s);
                add(&mut y, beta, &times(s, &w[0]));
                return y;
            }
        };
        let bias = w.last().expect("the bias is last");
        add(&mut y, 1.0, bias.as_slice().expect("one row"));
        y
    }

    /// From the gradient `g` of that output, all others; the weights' are added to `dw`.
    pub(super) fn backward(self, seen: &Seen, w: &[M], g: &[f64], dw: &mut [M]) -> Back {
        let Seen { x, t, a, s, u } = seen;
        let mut back = Back {
            x: vec![0.0; x.len()],
            t: vec![0.0; t.len()],
            a: Row::new(),
            h0: Row::new(),
        };
        let ones = [1.0];
        if !matches!(self, Layer::Gcnii { .. }) {
            outer(dw.last_mut().expect("the bias is last"), 1.0, &ones, g);
        }
        match self {
            Layer::Dense { .. } => {
                outer(&mut dw[0], 1.0, x, g);
                back.x = times_t(g, &w[0]);
            }
            Layer::Gcn => {
                outer(&mut dw[0], 1.0, a, g);
                back.a = times_t(g, &w[0]);
            }
            Layer::Last => {
                outer(&mut dw[2], 1.0, t, g);
                back.t = times_t(g, &w[2]);
            }
            Layer::Block => {
                let mut inner = g.to_vec();
                if let Some(second) = w.get(4) {
                    outer(&mut dw[4], 1.0, u, g);
                    inner = times_t(g, second);
                    for (g, u) in inner.iter_mut().zip(u) {
                        *g *= f64::from(u8::from(*u > 0.0));
                    }
                    for (c, g) in inner.iter().enumerate() {
                        dw[3][[0, c]] += g;
                    }
                }
                outer(&mut dw[2], 1.0, a, &inner);
                back.a = times_t(&inner, &w[2]);
                back.x = g.to_vec();
            }
            Layer::Sage => {
                outer(&mut dw[0], 1.0, x, g);
                outer(&mut dw[1], 1.0, a, g);
                back.x = times_t(g, &w[0]);
                back.a = times_t(g, &w[1]);
            }
            Layer::Gin => {
                outer(&mut dw[3], 1.0, u, g);
                let mut gu = times_t(g, &w[3]);
                for (g, u) in gu.iter_mut().zip(u) {
                    *g *= f64::from(u8::from(*u > 0.0));
                }
                outer(&mut dw[1], 1.0, s, &gu);
                outer(&mut dw[2], 1.0, &ones, &gu);
                back.a = times_t(&gu, &w[1]);
                dw[0][[0, 0]] += back.a.iter().zip(x).map(|(g, x)| g * x).sum::<f64>();
                add(&mut back.x, 1.0 + w[0][[0, 0]], &back.a);
            }
            Layer::Gcnii { alpha, beta } => {
                outer(&mut dw[0], beta, s, g);
                let mut gs = Row::new();
                add(&mut gs, 1.0 - beta, g);
                add(&mut gs, beta, &times_t(g, &w[0]));
                add(&mut back.a, 1.0 - alpha, &gs);
                add(&mut back.h0, alpha, &gs);
            }
        }
        back
    }
}
