//! Scalar references of the typed aggregation and its gradients; they sum in `f64`.

use super::Relations;
use crate::{Csr, Mat};
use std::ops::Range;

/// See [`super::rspmm_into`].
pub fn forward(a: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, x: &Mat, out: &mut Mat) {
    let d = out.ncols();
    for v in rows {
        for c in 0..d {
            let mut sum = 0.0;
            for e in a.span(v) {
                for (b, &k) in rel.coef.row(rel.types[e] as usize).iter().enumerate() {
                    let from = x[[a.indices[e] as usize, b * d + c]];
                    sum += f64::from(a.weight(e)) * f64::from(k) * f64::from(from);
                }
            }
            out[[v, c]] = sum as f32;
        }
    }
}

/// See [`super::rspmm_t_into`].
pub fn transposed(at: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, g: &Mat, dx: &mut Mat) {
    let d = g.ncols();
    for u in rows {
        for b in 0..rel.coef.ncols() {
            for c in 0..d {
                let term = |e: usize| {
                    let k = rel.coef[[rel.types[e] as usize, b]];
                    let from = g[[at.indices[e] as usize, c]];
                    f64::from(at.weight(e)) * f64::from(k) * f64::from(from)
                };
                dx[[u, b * d + c]] = at.span(u).map(term).sum::<f64>() as f32;
            }
        }
    }
}

/// See [`super::coef_gradient_into`].
pub fn coef(a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
    let d = g.ncols();
    let mut sums = ndarray::Array2::<f64>::zeros(dcoef.dim());
    for v in 0..a.rows() {
        for e in a.span(v) {
            for b in 0..dcoef.ncols() {
                for c in 0..d {
                    let from = x[[a.indices[e] as usize, b * d + c]];
                    sums[[types[e] as usize, b]] +=
                        f64::from(a.weight(e)) * f64::from(g[[v, c]]) * f64::from(from);
                }
            }
        }
    }
    dcoef.assign(&sums.mapv(|x| x as f32));
}
