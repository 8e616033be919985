//! Attention: fused, by stored coefficients, and the softmax over edges.

use crate::arrays::{arrays, right, value};
use crate::{cases, each_size, refused};
use kernels::gat::{self, Attention, AttentionDropout, Positive, Sums};
use kernels::gat_backward::{self, Saved, SourceGradients};
use kernels::gat_dense::Summed;
use kernels::{Csr, Mat, Par, edge_softmax, gat_dense, sddmm};
use proptest::prelude::*;

fn attention<'a>(heads: usize, dst_ids: &'a [u32], src_ids: &'a [u32]) -> Attention<'a> {
    Attention {
        heads,
        slope: 0.2,
        dropout: Some(AttentionDropout {
            key: 11,
            p: 0.4,
            dst_ids,
            src_ids,
        }),
    }
}

/// The fused aggregation alone, with every input `fill`.
pub fn forward(par: &Par, a: Csr<'_>, heads: usize, width: usize, fill: f32) {
    let (m, n, d) = (a.rows(), a.n_cols, heads * width);
    let ids = vec![3; m.max(n)];
    let att = attention(heads, &ids[..m], &ids[..n]);
    let (z, el) = (
        Mat::from_elem((n, d), fill),
        Mat::from_elem((n, heads), fill),
    );
    let er = Mat::from_elem((m, heads), fill);
    let to = [heads, d, d, heads].map(|columns| Mat::zeros((m, columns)));
    run(par, a, &att, (&z, &el, &er), to);
}

/// One call with these outputs: logarithms, sums, and those of positive scores.
fn run(
    par: &Par,
    a: Csr<'_>,
    att: &Attention<'_>,
    from: (&Mat, &Mat, &Mat),
    [mut lse, mut out, mut above, mut share]: [Mat; 4],
) {
    let positive = Positive {
        out: &mut above,
        share: &mut share,
    };
    let to = Sums {
        lse: &mut lse,
        out: &mut out,
        positive: Some(positive),
    };
    gat::forward_into(par, a, 0..a.rows(), att, from, to);
}

/// Every attention kernel with the right sizes and with each of them off by one.
fn by_size(par: &Par, a: Csr<'_>, heads: usize, width: usize, fill: f32) {
    let (m, n, edges, d) = (a.rows(), a.n_cols, a.n_edges(), heads * width);
    let mat = |r, c| Mat::from_elem((r, c), fill);
    let right = [
        n, d, n, heads, m, heads, m, heads, m, d, m, d, m, heads, m, n,
    ];
    each_size(
        "gat",
        right,
        |[
            zr,
            zc,
            lr,
            lc,
            rr,
            rc,
            sr,
            sc,
            or,
            oc,
            pr,
            pc,
            hr,
            hc,
            dst,
            src,
        ]| {
            let ids = vec![3; dst.max(src)];
            let att = attention(heads, &ids[..dst], &ids[..src]);
            let to = [mat(sr, sc), mat(or, oc), mat(pr, pc), mat(hr, hc)];
            let (z, el, er) = (mat(zr, zc), mat(lr, lc), mat(rr, rc));
            run(par, a, &att, (&z, &el, &er), to);
        },
    );
    let at = a.transpose();
    let ids = vec![3; m.max(n)];
    let att = attention(heads, &ids[..m], &ids[..n]);
    let right = [
        n, d, n, heads, m, heads, m, heads, m, heads, m, d, n, d, n, heads,
    ];
    each_size("gat_backward", right, |s| {
        let [z, el, er, lse, c, g, mut dz, mut del] =
            std::array::from_fn(|k| mat(s[2 * k], s[2 * k + 1]));
        let saved = Saved {
            z: &z,
            el: &el,
            er: &er,
            lse: &lse,
            c: &c,
            g: &g,
        };
        let out = SourceGradients {
            dz: &mut dz,
            del: &mut del,
        };
        gat_backward::source_pass(par, at.view(), 0..n, &att, &saved, out);
    });
    each_size(
        "sddmm",
        [m, d, n, d, edges * heads],
        |[pr, pc, qr, qc, out]| {
            let mut out = vec![0.0; out];
            sddmm::sddmm_into(par, a, 0..m, heads, &mat(pr, pc), &mat(qr, qc), &mut out);
        },
    );
    each_size(
        "spmm_heads",
        [edges * heads, n, d, m, d],
        |[w, xr, xc, or, oc]| {
            let (w, x) = (vec![fill; w], mat(xr, xc));
            sddmm::spmm_heads_into(par, a, 0..m, heads, &w, &x, &mut mat(or, oc));
        },
    );
    let per_edge = edges * heads;
    each_size("edge_softmax", [per_edge; 2], |[s, alpha]| {
        let (s, mut alpha) = (vec![fill; s], vec![0.0; alpha]);
        edge_softmax::forward_into(par, a.indptr, 0..m, heads, &s, &mut alpha);
    });
    each_size(
        "edge_softmax_backward",
        [per_edge; 3],
        |[alpha, dalpha, ds]| {
            let (alpha, dalpha, mut ds) = (vec![fill; alpha], vec![fill; dalpha], vec![0.0; ds]);
            edge_softmax::backward_into(par, a.indptr, 0..m, heads, &alpha, &dalpha, &mut ds);
        },
    );
}

/// The dense part of attention over `n` vertices.
fn dense_by_size(par: &Par, n: usize, heads: usize, width: usize, fill: f32) {
    let d = heads * width;
    let mat = |r, c| Mat::from_elem((r, c), fill);
    let z = mat(n, d);
    each_size("scores", [d, heads], |[a, c]| {
        gat_dense::scores_into(par, &z, &vec![fill; a], heads, 0..n, &mut mat(n, c));
    });
    each_size(
        "scores",
        [d, d, n, heads, heads],
        |[src, dst, lr, lc, rc]| {
            let a = (&vec![fill; src][..], &vec![fill; dst][..]);
            gat_dense::score_pair_into(par, &z, a, heads, &mut mat(lr, lc), &mut mat(n / 2, rc));
        },
    );
    let right = [n, d, n, d, n, heads, n, heads, n, heads];
    each_size("destination_pass", right, |s| {
        let [out, positive, share, mut c, mut der] =
            std::array::from_fn(|k| mat(s[2 * k], s[2 * k + 1]));
        let sums = Summed {
            out: &out,
            positive: &positive,
            share: &share,
        };
        gat_dense::destination_pass(par, 0.2, &z, sums, &mut c, &mut der);
    });
    each_size("score_backward", [d, d, n, d], |[a, da, r, c]| {
        let term = gat_dense::ScoreTerm {
            ds: &mat(n / 2, heads),
            a: &vec![fill; a],
            da: &mut vec![0.0; da],
        };
        gat_dense::score_backward_into(par, &z, &mut [term], &mut mat(r, c));
    });
}

/// No heads at all, or columns that are not whole heads.
fn without_whole_heads(par: &Par, a: Csr<'_>) {
    let (m, n) = (a.rows(), a.n_cols);
    let (x, y) = (Mat::zeros((n, 3)), Mat::zeros((m, 3)));
    for heads in [0, 2] {
        refused("gat", || forward_into_with(par, a, heads, &x));
        refused("sddmm", || {
            sddmm::sddmm_into(par, a, 0..m, heads, &y, &x, &mut [])
        });
        refused("scores", || {
            gat_dense::scores_into(par, &x, &[0.0; 3], heads, 0..n, &mut Mat::zeros((n, heads)));
        });
        refused("destination_pass", || {
            let [share, mut c, mut der] = [0; 3].map(|_| Mat::zeros((n, heads)));
            let sums = Summed {
                out: &x,
                positive: &x,
                share: &share,
            };
            gat_dense::destination_pass(par, 0.2, &x, sums, &mut c, &mut der);
        });
    }
    refused("edge_softmax", || {
        edge_softmax::forward_into(par, a.indptr, 0..m, 0, &[], &mut []);
    });
    refused("edge_softmax", || {
        edge_softmax::forward_into(par, &[], 0..0, 1, &[], &mut [])
    });
}

fn forward_into_with(par: &Par, a: Csr<'_>, heads: usize, z: &Mat) {
    let (m, n) = (a.rows(), a.n_cols);
    let att = Attention {
        heads,
        slope: 0.2,
        dropout: None,
    };
    let (el, er) = (Mat::zeros((n, heads)), Mat::zeros((m, heads)));
    let to = [heads, z.ncols(), z.ncols(), heads].map(|columns| Mat::zeros((m, columns)));
    run(par, a, &att, (z, &el, &er), to);
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn attention_runs_on_checked_arrays_and_refuses_wrong_sizes(
        a in right(), heads in 1usize..5, width in 1usize..20, threads in 1usize..3, fill in value(),
    ) {
        let par = Par::new(threads);
        by_size(&par, a.view(), heads, width, fill);
        dense_by_size(&par, a.indices.len(), heads, width, fill);
        without_whole_heads(&par, a.view());
    }

    #[test]
    fn attention_runs_on_whatever_passes_the_check(a in arrays(), width in 0usize..40, fill in value()) {
        prop_assume!(a.view().check().is_ok());
        forward(&Par::new(2), a.view(), 2, width, fill);
    }
}
