//! Numbers on edges: dot products, softmax, sums.

use super::{any_cut, assert_close, few, matrix, on_every_device, up};
use crate::CsrBuf;
use crate::cuda::SparseOn;
use crate::cuda::ops::{
    edge_softmax, edge_softmax_backward, edge_sums, head_dots, head_gradient, head_outer_add, sddmm,
};
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
