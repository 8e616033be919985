//! Tests of the attention kernels: against double precision at every level, the reference against
//! central differences, hubs and threads bit by bit. They cannot catch a wrong definition shared by
//! kernel and reference; the models' golden values can.

use crate::csr::tests::any_csr;
use crate::gat::{Attention, AttentionDropout, Positive, Sums, forward_at, forward_into, naive};
use crate::gat_backward::{self as backward, Saved, SourceGradients};
use crate::gat_dense::{ScoreTerm, Summed, score_backward_into, score_pair_into, scores_into};
use crate::simd::Level;
use crate::spmm::tests::{matrix, star};
use crate::{CsrBuf, Mat, Par};
use ndarray::Array2;
use proptest::prelude::*;

/// All inputs of one layer on a graph.
struct Case {
    a: CsrBuf,
    heads: usize,
    z: Mat,
    el: Mat,
    er: Mat,
    g: Mat,
    dst_ids: Vec<u32>,
    src_ids: Vec<u32>,
    p: Option<f32>,
}

impl Case {
    fn new(a: CsrBuf, heads: usize, width: usize, p: Option<f32>) -> Case {
        let (m, n, d) = (a.rows(), a.n_cols, heads * width);
        let scores = |rows, seed| matrix(rows, heads, seed).mapv(|x| 3.0 * x);
        Case {
            heads,
            z: matrix(n, d, 1),
            el: scores(n, 2),
            er: scores(m, 3),
            g: matrix(m, d, 4),
            dst_ids: (0..m as u32).map(|v| v * 7 + 1).collect(),
            src_ids: (0..n as u32).map(|v| v * 3 + 2).collect(),
            p,
            a,
        }
    }

    fn attention(&self) -> Attention<'_> {
        Attention {
            heads: self.heads,
            slope: 0.2,
            dropout: self.p.map(|p| AttentionDropout {
                key: 77,
                p,
                dst_ids: &self.dst_ids,
                src_ids: &self.src_ids,
            }),
        }
    }

    /// `(lse, out)` of the rows from `first`; the others hold 7.
    fn forward(&self, level: Level, threads: usize, first: usize) -> (Mat, Mat) {
        let [lse, out, ..] = self.forward_with(level, threads, first, true);
        (lse, out)
    }

    /// All sums of the rows from `first`: `lse`, `out` and, where they are asked for, of positive scores the rows and
    /// the share; what is not written holds 7.
    fn forward_with(&self, level: Level, threads: usize, first: usize, positive: bool) -> [Mat; 4] {
        let (m, d) = (self.a.rows(), self.z.ncols());
        let mut all =
            [self.heads, d, d, self.heads].map(|columns| Mat::from_elem((m, columns), 7.0));
        let [lse, out, above, share] = &mut all;
        let positive = positive.then_some(Positive { out: above, share });
        let (par, from) = (Par::new(threads), (&self.z, &self.el, &self.er));
        let (a, att, to) = (self.a.view(), self.attention(), Sums { lse, out, positive });
        forward_at(level, &par, a, first..m, &att, from, to);
        all
    }

    /// `(dz, del, der)`; sources before `first` hold 7.
    fn backward(&self, level: Level, threads: usize, first: usize) -> (Mat, Mat, Mat) {
        let (m, n) = (self.a.rows(), self.a.n_cols);
        let par = Par::new(threads);
        let [lse, out, positive, share] = self.forward_with(level, threads, 0, true);
        let [mut c, mut der] = [0; 2].map(|_| Mat::from_elem((m, self.heads), 7.0));
        let sums = Summed {
            out: &out,
            positive: &positive,
            share: &share,
        };
        let slope = self.attention().slope;
        crate::gat_dense::destination_pass(&par, slope, &self.g, sums, &mut c, &mut der);
        let t = self.a.view().transpose();
        let mut dz = Mat::from_elem(self.z.dim(), 7.0);
        let mut del = Mat::from_elem((n, self.heads), 7.0);
        let saved = Saved {
            z: &self.z,
            el: &self.el,
            er: &self.er,
            lse: &lse,
            c: &c,
            g: &self.g,
        };
        let outputs = SourceGradients {
            dz: &mut dz,
            del: &mut del,
        };
        let (att, t) = (self.attention(), t.view());
        backward::source_pass_at(level, &par, t, first..n, &att, &saved, outputs);
        (dz, del, der)
    }
}

fn wide(x: &Mat) -> Array2<f64> {
    x.mapv(f64::from)
}

fn assert_close(name: &str, got: &Mat, want: &Array2<f64>, first: usize, tolerance: f64) {
    for ((r, c), &w) in want.indexed_iter() {
        let g = f64::from(got[[r, c]]);
        if r < first {
            assert_eq!(g, 7.0, "{name}[{r}, {c}] was touched");
        } else {
            let near = g == w || (g - w).abs() <= tolerance * (1.0 + w.abs());
            assert!(near, "{name}[{r}, {c}]: {g} instead of {w}");
        }
    }
}

/// Usual and awkward numbers of heads and their widths.
fn shapes() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        Just((8, 32)),
        Just((1, 32)),
        Just((1, 7)),
        Just((8, 8)),
        Just((8, 2)),
        Just((8, 4)),
        Just((8, 3)),
        Just((4, 2)),
        Just((4, 8)),
        Just((4, 1)),
        Just((4, 64)),
        Just((2, 40)),
        Just((1, 300)),
        Just((5, 16)),
        Just((2, 130)),
        Just((20, 3)),
        Just((17, 16)),
        Just((9, 70)),
        (1usize..10, 1usize..30),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 96 }))]

    #[test]
    fn attention_equals_naive_at_every_level(
        a in any_csr(), (heads, width) in shapes(), cut in 0.0f64..1.0,
        p in prop_oneof![Just(None), (0.1f32..0.9).prop_map(Some)], size in prop_oneof![Just(1.0f32), 10.0f32..80.0],
    ) {
        let mut case = Case::new(a, heads, width, p);
        // Also scores whose exponentials leave the range of `f32`, and what rounding them costs.
        case.el.mapv_inplace(|x| size * x);
        let tolerance = |usual: f64| usual * f64::from(size);
        let (z, el, er) = (wide(&case.z), wide(&case.el), wide(&case.er));
        let (lse, out) = naive(case.a.view(), &case.attention(), &z, &el, &er);
        let want = backward::naive(case.a.view(), &case.attention(), &z, &el, &er, &wide(&case.g));
        let first = (case.a.rows() as f64 * cut) as usize;
        let first_source = (case.a.n_cols as f64 * cut) as usize;
        for level in Level::available() {
            let (got_lse, got) = case.forward(level, 2, first);
            assert_close("lse", &got_lse, &lse, first, tolerance(1e-5));
            assert_close("out", &got, &out, first, tolerance(1e-5));
            // A source may have a thousand edges, whose rounding adds up.
            let [_, alone, ..] = case.forward_with(level, 1, first, false);
            prop_assert_eq!(alone, got, "without sums of positive scores");
            let (dz, del, der) = case.backward(level, 2, 0);
            assert_close("dz", &dz, &want.dz, 0, tolerance(1.5e-4));
            assert_close("del", &del, &want.del, 0, tolerance(3e-4));
            assert_close("der", &der, &want.der, 0, tolerance(3e-4));
            let (part, part_del, _) = case.backward(level, 1, first_source);
            assert_close("dz of a part", &part, &want.dz, first_source, tolerance(1.5e-4));
            assert_close("del of a part", &part_del, &want.del, first_source, tolerance(3e-4));
        }
    }

    #[test]
    fn the_dense_part_equals_sums_written_out(
        n in 1usize..60, cut in 0.0f64..1.0, (heads, width) in shapes(), threads in 1usize..4,
    ) {
        let (par, d, m) = (Par::new(threads), heads * width, (n as f64 * cut) as usize);
        let (z, a) = (matrix(n, d, 1), matrix(2, d, 2));
        let (a_src, a_dst) = (&a.as_slice().expect("made here")[..d], &a.as_slice().expect("made here")[d..]);
        let (mut el, mut er) = (Mat::zeros((n, heads)), Mat::zeros((m, heads)));
        score_pair_into(&par, &z, (a_src, a_dst), heads, &mut el, &mut er);
        let mut alone = Mat::zeros((m, heads));
        scores_into(&par, &z, a_dst, heads, 0..m, &mut alone);
        prop_assert_eq!(&alone, &er);
        let (sel, ser) = (matrix(n, heads, 3), matrix(m, heads, 4));
        let dz0 = matrix(n, d, 5);
        let (mut dz, mut da, mut db) = (dz0.clone(), vec![9.0; d], vec![9.0; d]);
        let mut terms = [
            ScoreTerm { ds: &sel, a: a_src, da: &mut da },
            ScoreTerm { ds: &ser, a: a_dst, da: &mut db },
        ];
        score_backward_into(&par, &z, &mut terms, &mut dz);
        for h in 0..heads {
            let columns = h * width..(h + 1) * width;
            for u in 0..n {
                let dot: f32 = columns.clone().map(|c| z[[u, c]] * a_src[c]).sum();
                prop_assert!((dot - el[[u, h]]).abs() < 1e-3);
                for c in columns.clone() {
                    let mut want = dz0[[u, c]] + sel[[u, h]] * a_src[c];
                    if u < m {
                        want += ser[[u, h]] * a_dst[c];
                    }
                    prop_assert!((dz[[u, c]] - want).abs() < 1e-4);
                }
            }
            for c in columns {
                let want: f32 = (0..n).map(|u| sel[[u, h]] * z[[u, c]]).sum();
                prop_assert!((da[c] - want).abs() < 1e-3);
                let want: f32 = (0..m).map(|u| ser[[u, h]] * z[[u, c]]).sum();
                prop_assert!((db[c] - want).abs() < 1e-3);
            }
        }
    }
}

#[test]
fn the_reference_gradients_are_those_of_central_differences() {
    let mut a = CsrBuf::empty(5);
    // Repeated edges, an isolated row, a source without edges.
    for row in [vec![0, 1, 2, 2], vec![], vec![1], vec![0, 3, 3, 1, 0]] {
        a.indices.extend(row);
        a.indptr.push(a.indices.len() as u64);
    }
    for p in [None, Some(0.4)] {
        let case = Case::new(a.clone(), 2, 3, p);
        let att = case.attention();
        let (z, el, er) = (wide(&case.z), wide(&case.el), wide(&case.er));
        let g = wide(&case.g);
        let got = backward::naive(case.a.view(), &att, &z, &el, &er, &g);
        let loss = |z: &Array2<f64>, el: &Array2<f64>, er: &Array2<f64>| {
            (&naive(case.a.view(), &att, z, el, er).1 * &g).sum()
        };
        let h = 1e-6;
        for (which, gradient) in [(0, &got.dz), (1, &got.del), (2, &got.der)] {
            for (at, &want) in gradient.indexed_iter() {
                let moved = |by: f64| {
                    let mut x = [z.clone(), el.clone(), er.clone()];
                    x[which][at] += by;
                    loss(&x[0], &x[1], &x[2])
                };
                let difference = (moved(h) - moved(-h)) / (2.0 * h);
                assert!(
                    (difference - want).abs() < 1e-7,
                    "{which} {at:?}: {difference} {want}"
                );
            }
        }
    }
}

#[test]
fn hubs_are_right_and_threads_do_not_change_a_bit() {
    // Row 3 has 10 000 in-edges; source 3 gets as many out-edges in the transposed graph.
    for a in [star(500), star(500).view().transpose()] {
        for (heads, width, p) in [
            (8, 8, None),
            (1, 7, Some(0.5)),
            (2, 40, None),
            (8, 2, Some(0.5)),
            (4, 6, None),
        ] {
            let case = Case::new(a.clone(), heads, width, p);
            let (z, el, er) = (wide(&case.z), wide(&case.el), wide(&case.er));
            let (lse, out) = naive(case.a.view(), &case.attention(), &z, &el, &er);
            let level = Level::detect();
            let (got_lse, got) = case.forward(level, 1, 0);
            assert_close("lse", &got_lse, &lse, 0, 1e-5);
            assert_close("out", &got, &out, 0, 1e-5);
            let back = case.backward(level, 1, 0);
            for threads in [2, 3, 8] {
                assert_eq!(
                    case.forward(level, threads, 0),
                    (got_lse.clone(), got.clone())
                );
                assert_eq!(case.backward(level, threads, 0), back);
            }
        }
    }
}

#[test]
fn a_hubs_gradients_are_right() {
    // The reference takes the square of the degree: 5000 edges, one head.
    let mut a = CsrBuf::empty(5000);
    a.indices = (0..5000).collect();
    a.indptr.extend([5000, 5000]);
    for a in [a.clone(), a.view().transpose()] {
        let case = Case::new(a, 1, 3, None);
        let (z, el, er) = (wide(&case.z), wide(&case.el), wide(&case.er));
        let want = backward::naive(
            case.a.view(),
            &case.attention(),
            &z,
            &el,
            &er,
            &wide(&case.g),
        );
        let (dz, del, der) = case.backward(Level::detect(), 2, 0);
        assert_close("dz", &dz, &want.dz, 0, 1e-4);
        assert_close("del", &del, &want.del, 0, 3e-4);
        assert_close("der", &der, &want.der, 0, 3e-4);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let mut a = CsrBuf::empty(2);
    a.indices = vec![0, 1];
    a.indptr.push(2);
    let mut case = Case::new(a, 1, 4, None);
    case.el = ndarray::arr2(&[[1e4], [-1e4]]);
    let (lse, out) = case.forward(Level::detect(), 1, 0);
    assert!((lse[[0, 0]] - (1e4 + case.er[[0, 0]])).abs() < 1.0);
    assert!(
        out.row(0)
            .iter()
            .zip(case.z.row(0))
            .all(|(o, z)| (o - z).abs() < 1e-6)
    );
    let (dz, _, der) = case.backward(Level::detect(), 1, 0);
    assert!(dz.iter().chain(&der).all(|x| x.is_finite()));
}

#[test]
fn what_an_edge_needs_does_not_depend_on_other_rows() {
    // Rows 0 and 1 read the same sources; row 2 one with a score that factors cannot hold.
    let mut a = CsrBuf::empty(4);
    for row in [vec![0, 1], vec![0, 1], vec![2, 3]] {
        a.indices.extend(row);
        a.indptr.push(a.indices.len() as u64);
    }
    let mut case = Case::new(a, 8, 2, None);
    let (lse, out) = case.forward(Level::detect(), 1, 0);
    let (dz, del, ..) = case.backward(Level::detect(), 1, 0);
    case.el.row_mut(3).fill(1e3);
    let (far_lse, far_out) = case.forward(Level::detect(), 1, 0);
    let (far_dz, far_del, ..) = case.backward(Level::detect(), 1, 0);
    for r in [0, 1] {
        assert_eq!((lse.row(r), out.row(r)), (far_lse.row(r), far_out.row(r)));
        assert_eq!((dz.row(r), del.row(r)), (far_dz.row(r), far_del.row(r)));
    }
    assert_ne!(out.row(2), far_out.row(2));
}

#[test]
#[should_panic(expected = "gat: expected el with rows 3, got 2")]
fn wrong_shapes_name_both_sides() {
    let mut case = Case::new(CsrBuf::empty(3), 1, 4, None);
    case.el = Mat::zeros((2, 1));
    case.forward(Level::detect(), 1, 0);
}

#[test]
#[should_panic(expected = "attention: expected indices below 2, got 9")]
fn an_index_out_of_range_panics_and_does_not_read() {
    let a = crate::Csr {
        indptr: &[0, 1],
        indices: &[9],
        weights: None,
        n_cols: 2,
    };
    let att = Attention {
        heads: 1,
        slope: 0.2,
        dropout: None,
    };
    let (z, s, e) = (Mat::zeros((2, 4)), Mat::zeros((2, 1)), Mat::zeros((1, 1)));
    let to = Sums {
        lse: &mut Mat::zeros((1, 1)),
        out: &mut Mat::zeros((1, 4)),
        positive: None,
    };
    forward_into(&Par::new(1), a, 0..1, &att, (&z, &s, &e), to);
}
