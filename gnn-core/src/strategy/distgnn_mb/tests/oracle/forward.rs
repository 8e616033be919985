//! Layers and losses of a batch, row by row.

use super::{Drawn, M, Oracle, Row, STEP};
use crate::model::ModelKind;
use crate::rng::{self, Purpose};
use std::collections::HashMap;

impl Oracle<'_> {
    fn dropped(&self, layer: usize, epoch: u64, v: u32, mut row: Row) -> Row {
        let p = self.of.spec.dropout as f32;
        let key = rng::key(self.of.spec.seed, epoch, Purpose::Dropout, layer as u64);
        for (c, x) in row.iter_mut().enumerate() {
            let kept = kernels::dropout::hash(key, v, c as u32) >= p;
            *x = if kept { *x / (1.0 - f64::from(p)) } else { 0.0 };
        }
        row
    }

    /// By layer, the rows that it reads of the layer below, and the loss of each seed.
    pub(super) fn forward(&self, batch: &Drawn, epoch: u64) -> (Vec<M>, Row) {
        let layers = batch.rows.len();
        let to_matrix = |rows: Vec<Row>, d: usize| {
            let n = rows.len();
            M::from_shape_vec((n, d), rows.concat()).expect("rows of one width")
        };
        let feature = |v: u32| self.dropped(0, epoch, v, self.features.row(v as usize).to_vec());
        let first = batch.below[0].iter().map(|&v| feature(v)).collect();
        let mut x = to_matrix(first, self.features.ncols());
        let mut made = Vec::new();
        for layer in 0..layers {
            made.push(x.clone());
            let below = &batch.below[layer];
            let place: HashMap<u32, usize> = below.iter().zip(0..).map(|(&v, k)| (v, k)).collect();
            let read = |u: u32| match batch.cached[layer].get(&u) {
                // Features have no dropout yet.
                Some(row) if layer == 0 => self.dropped(0, epoch, u, row.clone()),
                Some(row) => row.clone(),
                None => x.row(place[&u]).to_vec(),
            };
            let last = layer + 1 == layers;
            let weights = &self.weights[layer];
            let out: Vec<Row> = batch.rows[layer]
                .iter()
                .zip(&batch.edges[layer])
                .enumerate()
                .map(|(row, (_, edges))| {
                    let own = x.row(row).to_vec();
                    let of = edges.iter().map(|&(u, w)| (read(u), w));
                    self.conv(weights, &own, &of.collect::<Vec<_>>(), last)
                })
                .collect();
            let width = out
                .first()
                .map_or(weights[weights.len() - 1].ncols(), Vec::len);
            let after = |(row, &v): (Row, &u32)| {
                if last {
                    return row;
                }
                let act = |x: f64| match self.of.spec.model {
                    ModelKind::Gat if x < 0.0 => x.exp_m1(),
                    // A unit at 0, as of a row that reads nothing, is off in its neighbourhood.
                    ModelKind::Gcn | ModelKind::Sage if x < 2.0 * STEP => 0.0,
                    _ => x,
                };
                self.dropped(layer + 1, epoch, v, row.into_iter().map(act).collect())
            };
            let rows = out.into_iter().zip(&batch.rows[layer]).map(after).collect();
            x = to_matrix(rows, width);
        }
        let loss = x
            .rows()
            .into_iter()
            .zip(&batch.rows[layers - 1])
            .map(|(row, &v)| {
                let most = row.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
                let total: f64 = row.iter().map(|x| (x - most).exp()).sum();
                total.ln() + most - row[self.of.data.labels[v as usize] as usize]
            });
        let losses = loss.collect();
        (made, losses)
    }

    /// One row of a layer, without activation.
    fn conv(&self, w: &[M], own: &[f64], edges: &[(Row, f64)], last: bool) -> Row {
        let d = own.len();
        let times = |x: &[f64], w: &M| -> Row {
            (0..w.ncols())
                .map(|c| (0..x.len()).map(|k| x[k] * w[[k, c]]).sum())
                .collect()
        };
        let sum = |edges: &[(Row, f64)]| -> Row {
            (0..d)
                .map(|c| edges.iter().map(|(x, w)| x[c] * w).sum())
                .collect()
        };
        let plus = |a: Row, b: &[f64]| -> Row { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let bias = w[w.len() - 1].row(0).to_vec();
        match self.of.spec.model {
            ModelKind::Gcn => plus(times(&sum(edges), &w[0]), &bias),
            ModelKind::Sage => {
                let mean = times(&sum(edges), &w[1]);
                plus(plus(times(own, &w[0]), &mean), &bias)
            }
            ModelKind::Gat => {
                let (heads, width) = w[1].dim();
                let z: Vec<Row> = edges.iter().map(|(x, _)| times(x, &w[0])).collect();
                let mine = times(own, &w[0]);
                let mut out = vec![0.0; if last { width } else { heads * width }];
                for h in 0..heads {
                    let score = |z: &Row, a: &M| -> f64 {
                        (0..width).map(|c| z[h * width + c] * a[[h, c]]).sum()
                    };
                    let raw = z.iter().map(|z| score(z, &w[1]) + score(&mine, &w[2]));
                    let raw: Row = raw.map(|s| if s > 0.0 { s } else { 0.2 * s }).collect();
                    let most = raw.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
                    let total: f64 = raw.iter().map(|s| (s - most).exp()).sum();
                    for (z, s) in z.iter().zip(&raw) {
                        let alpha = (s - most).exp() / total;
                        for c in 0..width {
                            let value = alpha * z[h * width + c];
                            match last {
                                true => out[c] += value / heads as f64,
                                false => out[h * width + c] += value,
                            }
                        }
                    }
                }
                plus(out, &bias)
            }
            other => unreachable!("{other} is not run"),
        }
    }
}
