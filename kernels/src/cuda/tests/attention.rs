//! Fused attention, forward and backward, against its definition in `f64`.

use super::edges::heads;
use super::{any_cut, assert_close, few, matrix, on_every_device, up};
use crate::cuda::SparseOn;
use crate::cuda::ops::{
    AttentionOn, DropOn, GatSums, gat_destinations, gat_forward, gat_source_pass,
};
use crate::hash::{element, mix64, row};
use crate::{CsrBuf, Mat};
use proptest::prelude::*;

const SLOPE: f32 = 0.2;

/// Inputs of one layer.
struct Layer {
    a: CsrBuf,
    heads: usize,
    dim: usize,
    z: Mat,
    el: Mat,
    er: Mat,
    g: Mat,
    drop: Option<(u64, f32)>,
}

/// What comes out.
struct Answer {
    out: Vec<f32>,
    dz: Vec<f32>,
    del: Vec<f32>,
    der: Vec<f32>,
}

impl Layer {
    fn new(a: CsrBuf, (heads, dim): (usize, usize), drop: Option<(u64, f32)>) -> Layer {
        let (n_dst, n_src) = (a.rows(), a.n_cols);
        Layer {
            z: matrix(n_src, heads * dim, 1),
            el: matrix(n_src, heads, 2).mapv(|v| 3.0 * v),
            er: matrix(n_dst, heads, 3).mapv(|v| 3.0 * v),
            g: matrix(n_dst, heads * dim, 4),
            a,
            heads,
            dim,
            drop,
        }
    }

    fn ids(n: usize, seed: u32) -> Vec<u32> {
        (0..n as u32).map(|v| v * 7 + seed).collect()
    }

    /// Factor of dropout on head `h` of the edge from local `u` to local `v`.
    fn factor(&self, v: usize, u: usize, h: usize) -> f64 {
        let Some((key, p)) = self.drop else {
            return 1.0;
        };
        let (dst, src) = (Self::ids(v + 1, 3)[v], Self::ids(u + 1, 11)[u]);
        let bits = element(row(key ^ mix64(u64::from(dst)), src), h as u32) >> 8;
        if bits as f32 / (1u32 << 24) as f32 >= p {
            1.0 / (1.0 - f64::from(p))
        } else {
            0.0
        }
    }

    /// Forward, and the gradients of `z` (through the sum alone), `el` and `er`.
    fn answer(&self) -> Answer {
        let (heads, dim) = (self.heads, self.dim);
        let at = |m: &Mat, r: usize, c: usize| f64::from(m[[r, c]]);
        let mut out = vec![0f64; self.a.rows() * heads * dim];
        let mut dz = vec![0f64; self.a.n_cols * heads * dim];
        let mut del = vec![0f64; self.a.n_cols * heads];
        let mut der = vec![0f64; self.a.rows() * heads];
        for v in 0..self.a.rows() {
            let ends: Vec<usize> = self
                .a
                .view()
                .span(v)
                .map(|e| self.a.indices[e] as usize)
                .collect();
            for h in 0..heads {
                let raw: Vec<f64> = ends
                    .iter()
                    .map(|&u| at(&self.el, u, h) + at(&self.er, v, h))
                    .collect();
                let slope = |s: f64| if s > 0.0 { 1.0 } else { f64::from(SLOPE) };
                let sum: f64 = raw.iter().map(|&s| (s * slope(s)).exp()).sum();
                let alpha: Vec<f64> = raw.iter().map(|&s| (s * slope(s)).exp() / sum).collect();
                let keep: Vec<f64> = ends.iter().map(|&u| self.factor(v, u, h)).collect();
                let mut dot = vec![0f64; ends.len()];
                for c in h * dim..(h + 1) * dim {
                    for (k, &u) in ends.iter().enumerate() {
                        out[v * heads * dim + c] += alpha[k] * keep[k] * at(&self.z, u, c);
                        dz[u * heads * dim + c] += alpha[k] * keep[k] * at(&self.g, v, c);
                        dot[k] += keep[k] * at(&self.g, v, c) * at(&self.z, u, c);
                    }
                }
                let mean: f64 = alpha.iter().zip(&dot).map(|(a, d)| a * d).sum();
                for (k, &u) in ends.iter().enumerate() {
                    let ds = alpha[k] * (dot[k] - mean) * slope(raw[k]);
                    del[u * heads + h] += ds;
                    der[v * heads + h] += ds;
                }
            }
        }
        let single = |x: Vec<f64>| x.into_iter().map(|v| v as f32).collect();
        Answer {
            out: single(out),
            dz: single(dz),
            del: single(del),
            der: single(der),
        }
    }

    /// Checks every device; `piece` cuts the rows.
    fn check(&self, piece: u32) {
        let (heads, dim) = (self.heads, self.dim);
        let want = self.answer();
        let t = self.a.view().transpose();
        on_every_device(|device| {
            let (dst, src) = (Self::ids(self.a.rows(), 3), Self::ids(self.a.n_cols, 11));
            let (dst, src) = (device.upload(&dst), device.upload(&src));
            let dropout = self.drop.map(|(key, p)| DropOn {
                key,
                p,
                dst_ids: &dst,
                src_ids: &src,
            });
            let att = AttentionOn {
                heads,
                dim,
                slope: SLOPE,
                dropout,
            };
            let [z, el, er, g] = [&self.z, &self.el, &self.er, &self.g].map(|m| up(device, m));
            let on = SparseOn::with_pieces(device, self.a.view(), piece);
            let on_t = SparseOn::with_pieces(device, t.view(), piece);
            let mut lse = device.fresh(er.len());
            let mut out = device.fresh(g.len());
            let (mut above, mut share) = (device.fresh(g.len()), device.fresh(er.len()));
            let to = GatSums {
                lse: &mut lse,
                out: &mut out,
                positive: Some((&mut above, &mut share)),
            };
            gat_forward(&on, 0..self.a.rows(), &att, [&z, &el, &er], to);
            assert_close(&out.download(), &want.out, 2e-5);
            let mut alone = device.fresh(g.len());
            let to = GatSums {
                lse: &mut lse,
                out: &mut alone,
                positive: None,
            };
            gat_forward(&on, 0..self.a.rows(), &att, [&z, &el, &er], to);
            assert_eq!(alone.download(), out.download());
            let (mut c, mut der) = (device.fresh(er.len()), device.fresh(er.len()));
            let sums = [&out, &above, &share];
            gat_destinations([heads, dim], SLOPE, &g, sums, &mut c, &mut der);
            let (mut dz, mut del) = (device.fresh(z.len()), device.fresh(el.len()));
            gat_source_pass(
                &on_t,
                0..self.a.n_cols,
                &att,
                &z,
                [&el, &er, &lse, &c],
                &g,
                &mut dz,
                &mut del,
            );
            assert_close(&dz.download(), &want.dz, 5e-5);
            assert_close(&del.download(), &want.del, 2e-4);
            assert_close(&der.download(), &want.der, 2e-4);
            (
                out.download(),
                dz.download(),
                del.download(),
                der.download(),
            )
        });
    }
}

/// Place of each edge in the transposed matrix.
pub(super) fn transpose_map(a: &CsrBuf) -> Vec<u32> {
    let mut next = a.view().transpose().indptr;
    let place = |&c: &u32| {
        next[c as usize] += 1;
        (next[c as usize] - 1) as u32
    };
    a.indices.iter().map(place).collect()
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn attention_equals_its_definition(
        (a, piece) in any_cut(), shape in heads(), key: u64, p in prop_oneof![Just(None), (0.0f32..0.9).prop_map(Some)],
    ) {
        Layer::new(a, shape, p.map(|p| (key, p))).check(piece);
    }
}

#[test]
fn a_row_without_edges_is_zero_and_a_hub_is_cut() {
    let mut a = CsrBuf::empty(20);
    for r in 0..20u32 {
        let edges = match r {
            4 => 900,
            5 => 0,
            _ => 3,
        };
        a.indices.extend((0..edges).map(|k| (k * 7 + r) % 20));
        a.indptr.push(a.indices.len() as u64);
    }
    Layer::new(a.clone(), (8, 8), None).check(512);
    Layer::new(a, (2, 7), Some((5, 0.6))).check(100);
}

#[test]
fn rows_outside_the_range_stay() {
    let layer = Layer::new(
        CsrBuf {
            indptr: vec![0, 2, 3, 5],
            indices: vec![0, 1, 1, 2, 0],
            weights: None,
            n_cols: 3,
        },
        (2, 4),
        None,
    );
    let want = layer.answer();
    on_every_device(|device| {
        let att = AttentionOn {
            heads: 2,
            dim: 4,
            slope: SLOPE,
            dropout: None,
        };
        let [z, el, er] = [&layer.z, &layer.el, &layer.er].map(|m| up(device, m));
        let on = SparseOn::new(device, layer.a.view());
        let (mut lse, mut out) = (device.zeros(6), device.upload(&[7.0f32; 24]));
        let to = GatSums {
            lse: &mut lse,
            out: &mut out,
            positive: None,
        };
        gat_forward(&on, 1..3, &att, [&z, &el, &er], to);
        let got = out.download();
        assert_eq!(got[..8], [7.0; 8]);
        assert_close(&got[8..], &want.out[8..], 1e-5);
    });
}
