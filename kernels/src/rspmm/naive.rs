//! Scalar references of the typed aggregation and its gradients.

use super::Relations;
use crate::{Csr, Mat};
use std::ops::Range;

/// See [`super::rspmm_into`].
pub fn forward(a: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, x: &Mat, out: &mut Mat) {
    let d = out.ncols();
    for v in rows {
        out.row_mut(v).fill(0.0);
        for e in a.span(v) {
            for (b, k) in rel.coef.row(rel.types[e] as usize).iter().enumerate() {
                for c in 0..d {
                    let from = x[[a.indices[e] as usize, b * d + c]];
                    out[[v, c]] += a.weight(e) * k * from;
                }
            }
        }
    }
}

/// See [`super::rspmm_t_into`].
pub fn transposed(at: Csr<'_>, rows: Range<usize>, rel: &Relations<'_>, g: &Mat, dx: &mut Mat) {
    let d = g.ncols();
    for u in rows {
        dx.row_mut(u).fill(0.0);
        for e in at.span(u) {
            for (b, k) in rel.coef.row(rel.types[e] as usize).iter().enumerate() {
                for c in 0..d {
                    dx[[u, b * d + c]] += at.weight(e) * k * g[[at.indices[e] as usize, c]];
                }
            }
        }
    }
}

/// See [`super::coef_gradient_into`].
pub fn coef(a: Csr<'_>, types: &[u16], x: &Mat, g: &Mat, dcoef: &mut Mat) {
    let d = g.ncols();
    dcoef.fill(0.0);
    for v in 0..a.rows() {
        for e in a.span(v) {
            for b in 0..dcoef.ncols() {
                for c in 0..d {
                    dcoef[[types[e] as usize, b]] +=
                        a.weight(e) * g[[v, c]] * x[[a.indices[e] as usize, b * d + c]];
                }
            }
        }
    }
}
