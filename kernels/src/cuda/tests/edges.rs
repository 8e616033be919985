//! Numbers on edges: dot products, softmax, sums.

use super::{any_cut, assert_close, few, matrix, on_every_device, up};
use crate::cuda::ops::{
    self, edge_softmax, edge_softmax_backward, edge_sums, head_dots, head_gradient, head_outer_add,
    sddmm,
};
use crate::cuda::{Moves, SparseOn};
use crate::pairs::{self, Pairs};
use crate::{CsrBuf, Mat, Par, coefficients, linear};
use proptest::prelude::*;

/// Heads and widths that reach every layout: many narrow heads, one wide one, too wide for registers.
pub(super) fn heads() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        4 => (1usize..10, 1usize..40),
        1 => Just((8, 32)),
        1 => Just((1, 32)),
        1 => Just((40, 3)),
        1 => Just((2, 200)),
        1 => Just((3, 520)),
        1 => Just((2, 131)),
    ]
}

/// The softmax of `s` over the edges of each row, in `f64`.
fn softmax(a: &CsrBuf, heads: usize, s: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; s.len()];
    for r in 0..a.rows() {
        for h in 0..heads {
            let at: Vec<usize> = a.view().span(r).map(|e| e * heads + h).collect();
            let top = at
                .iter()
                .map(|&k| f64::from(s[k]))
                .fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = at.iter().map(|&k| (f64::from(s[k]) - top).exp()).sum();
            for k in at {
                out[k] = ((f64::from(s[k]) - top).exp() / sum) as f32;
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn coefficients_and_their_gradient_are_those_of_the_cpu((a, piece) in any_cut(), slope in 0.0f32..1.0) {
        let (csr, par, edges) = (a.view(), Par::new(1), a.indices.len());
        let [el, er] = [(a.n_cols, 1), (a.rows(), 2)].map(|(n, seed)| matrix(n, 1, seed).into_raw_vec_and_offset().0);
        let dalpha = matrix(1, edges, 3).into_raw_vec_and_offset().0;
        let mut alpha = vec![0.0; edges];
        coefficients::coefficients_into(&par, csr, slope, (&el, &er), &mut alpha);
        let made = coefficients::Made { el: &el, er: &er, alpha: &alpha };
        let (mut del, mut der) = (vec![0.0; a.n_cols], vec![0.0; a.rows()]);
        coefficients::coefficients_backward(&par, csr, slope, made, &dalpha, (&mut del, &mut der));
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, csr, piece);
            let (el, er) = (device.upload(&el), device.upload(&er));
            let mut got = device.fresh(edges);
            ops::coefficients(&on, slope, &el, &er, &mut got);
            let first = got.download();
            assert_close(&first, &alpha, 1e-5);
            let made = ops::Made { el: &el, er: &er, alpha: &device.upload(&alpha) };
            let (mut gl, mut gr) = (device.fresh(a.n_cols), device.fresh(a.rows()));
            let columns = Moves::new(device, &a.indices);
            let dalpha = device.upload(&dalpha);
            ops::coefficients_backward(&on, &columns, slope, made, &dalpha, (&mut gl, &mut gr));
            assert_close(&gl.download(), &del, 1e-4);
            assert_close(&gr.download(), &der, 1e-4);
            (first, gl.download(), gr.download())
        });
    }

    #[test]
    fn coefficients_are_dropped_by_the_same_mask((a, piece) in any_cut(), key: u64, p in 0.0f32..0.99) {
        // Rows and columns are the same vertices.
        let n = a.rows().min(a.n_cols);
        let mut square = CsrBuf::empty(n);
        for r in 0..n {
            square.indices.extend(a.indices[a.view().span(r)].iter().filter(|&&c| (c as usize) < n));
            square.indptr.push(square.indices.len() as u64);
        }
        let ids: Vec<u32> = (0..n as u32).map(|v| v * 31 + 5).collect();
        let values = matrix(1, square.indices.len(), 4).into_raw_vec_and_offset().0;
        let mut want = vec![0.0; values.len()];
        let drop = linear::Dropout { key, ids: &ids, p };
        coefficients::drop_into(&Par::new(1), square.view(), drop, &values, &mut want);
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, square.view(), piece);
            let mut out = device.fresh(values.len());
            ops::edge_dropout(&on, key, &device.upload(&ids), p, &device.upload(&values), &mut out);
            assert_eq!(out.download(), want);
        });
    }

    #[test]
    fn pairs_of_rows_are_multiplied_as_on_the_cpu(
        (n, ends) in (1usize..30).prop_flat_map(|n| {
            (Just(n), prop::collection::vec([0..n as u32, 0..n as u32], 0..80))
        }),
        d in 0usize..40,
    ) {
        let pairs = Pairs::new(n, ends).expect("rows below n");
        let (z, gp) = (matrix(n, d, 1), matrix(pairs.len(), d, 2));
        let (mut products, mut back) = (Mat::zeros((pairs.len(), d)), Mat::zeros((n, d)));
        pairs::naive::products(&pairs, &z, &mut products);
        pairs::naive::products_backward(&pairs, &z, &gp, &mut back);
        on_every_device(|device| {
            let (mut out, mut g) = (device.fresh(products.len()), device.fresh(back.len()));
            ops::pair_products(&pairs, &up(device, &z), d, &mut out);
            assert_eq!(out.download(), products.as_slice().expect("row-major"));
            ops::pair_products_backward(&pairs, &up(device, &z), &up(device, &gp), d, &mut g);
            assert_close(&g.download(), back.as_slice().expect("row-major"), 1e-5);
            g.download()
        });
    }

    #[test]
    fn sddmm_is_the_dot_product_of_both_ends((a, piece) in any_cut(), (heads, dim) in heads()) {
        let (y, x) = (matrix(a.rows(), heads * dim, 1), matrix(a.n_cols, heads * dim, 2));
        let mut want = Vec::new();
        for r in 0..a.rows() {
            for e in a.view().span(r) {
                for h in 0..heads {
                    let dot: f64 = (h * dim..(h + 1) * dim)
                        .map(|c| f64::from(y[[r, c]]) * f64::from(x[[a.indices[e] as usize, c]])).sum();
                    want.push(dot as f32);
                }
            }
        }
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, a.view(), piece);
            let mut out = device.fresh(want.len());
            sddmm(&on, heads, dim, &up(device, &y), &up(device, &x), &mut out);
            let got = out.download();
            assert_close(&got, &want, 1e-4);
            got
        });
    }

    #[test]
    fn edge_softmax_and_its_backward((a, piece) in any_cut(), heads in 1usize..40) {
        let edges = a.indices.len();
        let s = matrix(edges, heads, 3).mapv(|v| v * 20.0);
        let g = matrix(edges, heads, 4);
        let alpha = softmax(&a, heads, s.as_slice().unwrap());
        let mut back = vec![0.0; alpha.len()];
        for r in 0..a.rows() {
            for h in 0..heads {
                let c: f64 = a.view().span(r).map(|e| f64::from(alpha[e * heads + h] * g[[e, h]])).sum();
                for e in a.view().span(r) {
                    back[e * heads + h] = (f64::from(alpha[e * heads + h]) * (f64::from(g[[e, h]]) - c)) as f32;
                }
            }
        }
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, a.view(), piece);
            let (mut out, mut ds) = (device.fresh(alpha.len()), device.fresh(alpha.len()));
            edge_softmax(&on, heads, &up(device, &s), &mut out);
            assert_close(&out.download(), &alpha, 1e-5);
            edge_softmax_backward(&on, heads, &out, &up(device, &g), &mut ds);
            assert_close(&ds.download(), &back, 1e-5);
            (out.download(), ds.download())
        });
    }

    #[test]
    fn sums_over_edges_follow_the_map((a, piece) in any_cut(), heads in 1usize..40) {
        let edges = a.indices.len();
        let values = matrix(edges, heads, 5);
        let map: Vec<u32> = (0..edges as u32).rev().collect();
        let mut want = vec![0.0; a.rows() * heads];
        for r in 0..a.rows() {
            for e in a.view().span(r) {
                for h in 0..heads {
                    want[r * heads + h] += values[[map[e] as usize, h]];
                }
            }
        }
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, a.view(), piece);
            let mut out = device.fresh(want.len());
            edge_sums(&on, heads, &up(device, &values), None, Some(&device.upload(&map)), &mut out);
            assert_close(&out.download(), &want, 1e-4);
            out.download()
        });
    }

    #[test]
    fn heads_are_dotted_and_spread(n in 0usize..40, more in 0usize..5, (heads, dim) in heads()) {
        let (x, y) = (matrix(n + more, heads * dim, 6), matrix(n + more, heads * dim, 7));
        let a = matrix(1, heads * dim, 8);
        let dots = |of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
            let dot = |k: usize| {
                let (v, h) = (k / heads, k % heads);
                (h * dim..(h + 1) * dim).map(|c| f64::from(x[[v, c]]) * f64::from(of(v, c))).sum::<f64>() as f32
            };
            (0..n * heads).map(dot).collect()
        };
        let (by_row, by_vector) = (dots(&|v, c| y[[v, c]]), dots(&|_, c| a[[0, c]]));
        let s = matrix(n, heads, 9);
        let mut spread = y.clone();
        let mut gradient = vec![0f64; heads * dim];
        for v in 0..n {
            for c in 0..heads * dim {
                spread[[v, c]] += s[[v, c / dim]] * a[[0, c]];
                gradient[c] += f64::from(s[[v, c / dim]]) * f64::from(x[[v, c]]);
            }
        }
        let gradient: Vec<f32> = gradient.iter().map(|&g| g as f32).collect();
        on_every_device(|device| {
            let (xs, mut ys, on) = (up(device, &x), up(device, &y), up(device, &a));
            let mut out = device.fresh(n * heads);
            head_dots(heads, dim, 0..n, &xs, &ys, &mut out);
            // With one row both readings of y are the same.
            assert_close(&out.download(), &by_row, 1e-4);
            head_dots(heads, dim, 0..n, &xs, &on, &mut out);
            assert_close(&out.download(), &by_vector, 1e-4);
            let scores = up(device, &s);
            head_outer_add(heads, dim, &scores, &on, &mut ys);
            assert_close(&ys.download(), spread.as_slice().unwrap(), 1e-5);
            let mut da = device.fresh(heads * dim);
            head_gradient(heads, dim, &scores, &xs, &mut da);
            assert_close(&da.download(), &gradient, 1e-4);
            (out.download(), da.download())
        });
    }
}
