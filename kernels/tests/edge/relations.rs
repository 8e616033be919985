//! Aggregation over typed edges.

use crate::arrays::{arrays, right, value};
use crate::{cases, each_size, refused};
use kernels::rspmm::{Relations, coef_gradient_into, rspmm_into, rspmm_t_into};
use kernels::{Csr, Mat, Par};
use proptest::prelude::*;

const TYPES: usize = 3;

fn types(n: usize) -> Vec<u16> {
    (0..n).map(|e| (e % TYPES) as u16).collect()
}

/// The aggregation with every input `fill`.
pub fn forward(par: &Par, a: Csr<'_>, bases: usize, d: usize, fill: f32) {
    let (coef, x) = (
        Mat::from_elem((TYPES, bases), fill),
        Mat::from_elem((a.n_cols, bases * d), fill),
    );
    let rel = Relations {
        types: &types(a.indices.len()),
        coef: &coef,
    };
    let mut out = Mat::zeros((a.rows(), d));
    rspmm_into(par, a, 0..a.rows(), &rel, &x, &mut out);
}

/// The three directions with the right sizes and with each of them off by one.
fn by_size(par: &Par, a: Csr<'_>, bases: usize, d: usize, fill: f32) {
    let (m, n, edges, wide) = (a.rows(), a.n_cols, a.n_edges(), bases * d);
    let mat = |r, c| Mat::from_elem((r, c), fill);
    let at = a.transpose();
    type Sum = fn(&Par, Csr<'_>, std::ops::Range<usize>, &Relations<'_>, &Mat, &mut Mat);
    for (op, run, a, from, to) in [
        ("rspmm", rspmm_into as Sum, a, [n, wide], [m, d]),
        ("rspmm_t", rspmm_t_into as Sum, at.view(), [m, d], [n, wide]),
    ] {
        let right = [edges, bases, from[0], from[1], to[0], to[1]];
        each_size(op, right, |[e, b, fr, fc, tr, tc]| {
            let rel = Relations {
                types: &types(e),
                coef: &mat(TYPES, b),
            };
            run(par, a, 0..a.rows(), &rel, &mat(fr, fc), &mut mat(tr, tc));
        });
    }
    let right = [edges, n, wide, m, d, bases];
    each_size("coef_gradient", right, |[e, xr, xc, gr, gc, b]| {
        let mut dcoef = mat(TYPES, b);
        coef_gradient_into(par, a, &types(e), &mat(xr, xc), &mat(gr, gc), &mut dcoef);
    });
    if edges >= TYPES {
        let coef = mat(TYPES - 1, bases);
        let rel = Relations {
            types: &types(edges),
            coef: &coef,
        };
        refused("rspmm", || {
            rspmm_into(par, a, 0..m, &rel, &mat(n, wide), &mut mat(m, d));
        });
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn relations_run_on_checked_arrays_and_refuse_wrong_sizes(
        a in right(), bases in 1usize..6, d in 1usize..40, threads in 1usize..3, fill in value(),
    ) {
        by_size(&Par::new(threads), a.view(), bases, d, fill);
    }

    #[test]
    fn relations_run_on_whatever_passes_the_check(
        a in arrays(), bases in 0usize..3, d in 0usize..20, fill in value(),
    ) {
        prop_assume!(a.view().check().is_ok());
        forward(&Par::new(2), a.view(), bases, d, fill);
    }
}
