//! What works row by row or element by element: layer normalisation, losses, pairs of rows, and the
//! optimisers.

use crate::arrays::value;
use crate::{cases, each_size, refused};
use kernels::layernorm::{Normed, layer_norm_backward_into, layer_norm_into};
use kernels::pairs::{Pairs, products_backward_into, products_into};
use kernels::sgd::{SgdParams, sgd_step};
use kernels::sparse_optim::{AdagradParams, RowGradients, sparse_adagrad, sparse_adam};
use kernels::{Mat, Par, adam, bce};
use proptest::prelude::*;

fn layer_norm_by_size(par: &Par, n: usize, d: usize, fill: f32) {
    let mat = |r, c| Mat::from_elem((r, c), fill);
    let x = mat(n, d);
    each_size(
        "layer_norm",
        [d, d, n, 2, n, d],
        |[w, b, sr, sc, yr, yc]| {
            let (gain, bias) = (vec![fill; w], vec![fill; b]);
            layer_norm_into(
                par,
                &x,
                &gain,
                &bias,
                1e-5,
                &mut mat(sr, sc),
                &mut mat(yr, yc),
            );
        },
    );
    let right = [d, n, 2, n, d, n, d, d, d];
    each_size(
        "layer_norm_backward",
        right,
        |[w, sr, sc, gr, gc, xr, xc, gw, gb]| {
            let (gain, stats) = (&vec![fill; w], &mat(sr, sc));
            let normed = Normed { x: &x, gain, stats };
            let (mut ggain, mut gbias) = (vec![0.0; gw], vec![0.0; gb]);
            let (g, mut gx) = (mat(gr, gc), mat(xr, xc));
            layer_norm_backward_into(par, normed, &g, &mut gx, &mut ggain, &mut gbias);
        },
    );
}

fn bce_by_size(par: &Par, n: usize, c: usize, fill: f32) {
    let logits = Mat::from_elem((n, c), fill);
    each_size("sigmoid_bce", [n * c, n, n, c], |[labels, mask, gr, gc]| {
        let labels: Vec<u8> = (0..labels).map(|k| (k % 2) as u8).collect();
        let mask: Vec<bool> = (0..mask).map(|k| k % 3 != 0).collect();
        bce::sigmoid_bce(par, &logits, &labels, &mask, 0.5, &mut Mat::zeros((gr, gc)));
    });
}

fn pairs_by_size(par: &Par, pairs: &Pairs, d: usize, fill: f32) {
    let (n, e) = (pairs.rows(), pairs.len());
    let mat = |r, c| Mat::from_elem((r, c), fill);
    each_size("pairs", [n, d, e, d], |[zr, zc, or, oc]| {
        products_into(par, pairs, &mat(zr, zc), &mut mat(or, oc));
    });
    each_size("pairs", [n, d, e, d, n, d], |[zr, zc, pr, pc, gr, gc]| {
        products_backward_into(par, pairs, &mat(zr, zc), &mat(pr, pc), &mut mat(gr, gc));
    });
}

fn optimisers_by_size(par: &Par, n: usize, fill: f32) {
    each_size("sgd_step", [n; 2], |[g, u]| {
        let (mut w, g, mut u) = (vec![fill; n], vec![fill; g], vec![fill; u]);
        sgd_step(par, SgdParams::default(), &mut w, &g, Some(&mut u));
    });
    each_size("sgd_step", [n], |[g]| {
        sgd_step(
            par,
            SgdParams::default(),
            &mut vec![fill; n],
            &vec![fill; g],
            None,
        );
    });
    for decoupled in [false, true] {
        let params = adam::AdamParams {
            decoupled,
            weight_decay: 0.1,
            ..adam::AdamParams::default()
        };
        let run = |t, [g, m, v]: [usize; 3]| {
            let [mut w, mut m, mut v] = [n, m, v].map(|len| vec![fill; len]);
            adam::adam_step(par, params, t, &mut w, &vec![fill; g], &mut m, &mut v);
        };
        each_size("adam_step", [n; 3], |sizes| run(1, sizes));
        refused("adam_step", || run(0, [n; 3]));
    }
}

/// A table of `n` rows and the gradients of `rows` of them, which may not exist.
fn sparse_by_size(par: &Par, n: usize, d: usize, rows: &[u32], fill: f32) {
    let mat = |r, c| Mat::from_elem((r, c), fill);
    let adagrad = |[gr, gc, wr, wc, sr, sc]: [usize; 6]| {
        let grads = &mat(gr, gc);
        let of = RowGradients { rows, grads };
        let params = AdagradParams::default();
        sparse_adagrad(par, params, of, &mut mat(wr, wc), &mut mat(sr, sc));
    };
    let adam = |t, [gr, gc, wr, wc, mr, mc, vr, vc]: [usize; 8]| {
        let grads = &mat(gr, gc);
        let of = RowGradients { rows, grads };
        let (mut w, mut m, mut v) = (mat(wr, wc), mat(mr, mc), mat(vr, vc));
        sparse_adam(
            par,
            adam::AdamParams::default(),
            t,
            of,
            &mut w,
            &mut m,
            &mut v,
        );
    };
    let k = rows.len();
    if rows.iter().any(|&v| v as usize >= n) {
        refused("sparse_adagrad", || adagrad([k, d, n, d, n, d]));
        refused("sparse_adam", || adam(1, [k, d, n, d, n, d, n, d]));
    } else {
        each_size("sparse_adagrad", [k, d, n, d, n, d], adagrad);
        each_size("sparse_adam", [k, d, n, d, n, d, n, d], |sizes| {
            adam(1, sizes)
        });
        refused("sparse_adam", || adam(0, [k, d, n, d, n, d, n, d]));
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn layer_norm_and_bce_take_any_value_and_refuse_wrong_sizes(
        n in 0usize..30, d in 0usize..40, threads in 1usize..3, fill in value(),
    ) {
        let par = Par::new(threads);
        layer_norm_by_size(&par, n, d, fill);
        bce_by_size(&par, n, d, fill);
    }

    #[test]
    fn pairs_within_the_rows_run_and_others_are_refused(
        n in 0usize..8, ends in prop::collection::vec([0u32..9, 0u32..9], 0..12), d in 0usize..20,
        fill in value(),
    ) {
        let right = ends.iter().flatten().all(|&v| (v as usize) < n);
        match Pairs::new(n, ends) {
            Ok(pairs) => {
                prop_assert!(right);
                pairs_by_size(&Par::new(2), &pairs, d, fill);
            }
            Err(e) => {
                prop_assert!(!right);
                prop_assert!(e.to_string().starts_with("pairs: expected "), "{}", e);
            }
        }
    }

    #[test]
    fn optimisers_take_any_value_and_refuse_wrong_sizes(
        n in 0usize..40, d in 0usize..20, rows in prop::collection::vec(0u32..12, 0..20),
        threads in 1usize..3, fill in value(),
    ) {
        let par = Par::new(threads);
        optimisers_by_size(&par, n, fill);
        sparse_by_size(&par, n, d, &rows, fill);
    }
}
