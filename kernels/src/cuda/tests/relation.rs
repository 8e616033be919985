//! Aggregation by relation, against its definition in `f64`.

use super::attention::transpose_map;
use super::{any_cut, assert_close, few, matrix, on_every_device, up};
use crate::cuda::SparseOn;
use crate::cuda::ops::{ByType, TypesOn, rspmm, rspmm_coef, rspmm_t};
use proptest::prelude::*;

proptest! {
    #![proptest_config(few())]

    #[test]
    fn relations_equal_their_definition((a, piece) in any_cut(), types in 1usize..6, bases in 1usize..5, d in 1usize..50) {
        let csr = a.view();
        let of: Vec<u16> = (0..csr.n_edges()).map(|e| (crate::hash::element(9, e as u32) as usize % types) as u16).collect();
        let (x, g) = (matrix(csr.n_cols, bases * d, 1), matrix(csr.rows(), d, 2));
        let coef = matrix(types, bases, 3);
        let mut out = vec![0f64; csr.rows() * d];
        let mut dx = vec![0f64; csr.n_cols * bases * d];
        let mut dcoef = vec![0f64; types * bases];
        for v in 0..csr.rows() {
            for e in csr.span(v) {
                let (u, t, w) = (csr.indices[e] as usize, usize::from(of[e]), f64::from(csr.weight(e)));
                for b in 0..bases {
                    for c in 0..d {
                        let (k, xe, ge) = (f64::from(coef[[t, b]]), f64::from(x[[u, b * d + c]]), f64::from(g[[v, c]]));
                        out[v * d + c] += w * k * xe;
                        dx[(u * bases + b) * d + c] += w * k * ge;
                        dcoef[t * bases + b] += w * xe * ge;
                    }
                }
            }
        }
        let [out, dx, dcoef] = [out, dx, dcoef].map(|x| x.into_iter().map(|v| v as f32).collect::<Vec<_>>());
        let t = csr.transpose();
        let mut of_t = vec![0u16; of.len()];
        for (e, &at) in transpose_map(&a).iter().enumerate() {
            of_t[at as usize] = of[e];
        }
        on_every_device(|device| {
            let (on, on_t) = (SparseOn::with_pieces(device, csr, piece), SparseOn::with_pieces(device, t.view(), piece));
            let (ts, ks) = (device.upload(&of), up(device, &coef));
            let on_types = TypesOn { types: &ts, coef: &ks, bases };
            let (xs, gs) = (up(device, &x), up(device, &g));
            let mut to = device.fresh(out.len());
            rspmm(&on, 0..on.rows(), on_types, &xs, d, &mut to);
            assert_close(&to.download(), &out, 2e-4);
            let mut back = device.fresh(dx.len());
            let ts_t = device.upload(&of_t);
            rspmm_t(&on_t, 0..on_t.rows(), TypesOn { types: &ts_t, ..on_types }, &gs, d, &mut back);
            assert_close(&back.download(), &dx, 2e-4);
            let by = ByType::new(device, csr, &of, types);
            let mut dk = device.fresh(dcoef.len());
            rspmm_coef(&on, &by, bases, &xs, &gs, d, &mut dk);
            assert_close(&dk.download(), &dcoef, 1e-3);
            (to.download(), back.download(), dk.download())
        });
    }
}
