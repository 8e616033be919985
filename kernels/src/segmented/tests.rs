use super::*;
use crate::csr::tests::any_csr;
use crate::spmm::tests::{assert_close, matrix, star};
use proptest::prelude::*;

const TINY: Cut = Cut {
    segment: 3,
    run: 2,
    loads: 0,
    of: usize::MAX,
};

impl Segmented {
    /// By tiny segments.
    pub(crate) fn tiny(a: Csr<'_>) -> Segmented {
        Segmented::cut(a, TINY).expect("visits")
    }
}

proptest! {
    #[test]
    fn every_level_equals_naive(
        a in any_csr(), d in prop_oneof![0usize..40, 100usize..300], cut in 0.0f64..1.0,
    ) {
        let Some(s) = Segmented::cut(a.view(), TINY) else { return Ok(()) };
        prop_assert_eq!(s.rest.view().check(), Ok(()));
        prop_assert_eq!(s.visits.view().check(), Ok(()));
        prop_assert_eq!(s.rest.indices.len() + s.visits.indices.len(), a.indices.len());
        prop_assert_eq!(s.before[a.rows()] as usize, s.visits.indices.len());
        let x = matrix(a.n_cols, d, 1);
        let first = (a.rows() as f64 * cut) as usize;
        let mut want = Mat::from_elem((a.rows(), d), 7.0);
        spmm::naive(a.view(), first..a.rows(), &x, &mut want);
        for level in Level::available() {
            let mut got = Mat::from_elem((a.rows(), d), 7.0);
            let (one, rows) = (Par::new(1), first..a.rows());
            at_level(level, &one, &s, rows.clone(), &x, (Onto::Set, None), &mut got);
            assert_close(&got, &want);
            at_level(level, &one, &s, rows, &x, (Onto::Add, None), &mut got);
            got.slice_mut(ndarray::s![first.., ..]).mapv_inplace(|v| v / 2.0);
            assert_close(&got, &want);
        }
    }
}

/// Every destination has `n` edges, all of them in one visit.
#[test]
fn short_visits_are_worth_it_for_wide_and_far_rows_only() {
    let far = NEAR / 4 / 64 + 1;
    let of = |n: usize, n_cols: usize| {
        let rows = 40;
        let a = CsrBuf {
            indptr: (0..=rows).map(|r| (r * n) as u64).collect(),
            indices: (0..rows).flat_map(|_| 0..n as u32).collect(),
            weights: None,
            n_cols,
        };
        let cut = Cut {
            segment: SEGMENT,
            run: 1,
            loads: 0,
            of: 1,
        };
        Segmented::cut(a.view(), cut).expect("visits")
    };
    assert!(of(10, far).pays(64) && of(5, far).pays(128));
    assert!(!of(9, far).pays(64) && !of(4, far).pays(128));
    assert!(of(16, 1000).pays(64) && !of(15, 1000).pays(64));
    assert!(!of(100, far).pays(WIDE - 1));
}

#[test]
fn threads_and_ranges_of_rows_do_not_change_a_bit() {
    let a = star(500);
    let s = Segmented::cut(
        a.view(),
        Cut {
            segment: 40,
            ..TINY
        },
    )
    .expect("a hub has visits");
    for d in [1, 17, 64, 130, 300] {
        let x = matrix(500, d, 2);
        let mut want = Mat::zeros((500, d));
        spmm_into(&Par::new(1), &s, 0..500, &x, &mut want);
        for threads in [2, 3, 8] {
            let mut got = Mat::zeros((500, d));
            spmm_into(&Par::new(threads), &s, 0..2, &x, &mut got);
            spmm_into(&Par::new(threads), &s, 2..500, &x, &mut got);
            assert_eq!(got, want);
        }
    }
}

#[test]
fn sources_are_ranked_by_their_edges_then_by_number() {
    let a = CsrBuf {
        indptr: vec![0, 4, 6],
        indices: vec![1, 3, 3, 5, 3, 1],
        ..CsrBuf::empty(6)
    };
    // 3 has three edges, 1 two, 5 one, and 0, 2, 4 none.
    assert_eq!(segment_of(a.view(), 1), [3, 1, 4, 0, 5, 2]);
    assert_eq!(segment_of(a.view(), 2), [1, 0, 2, 0, 2, 1]);
    assert_eq!(segment_of(CsrBuf::empty(2).view(), 2), [0, 0]);
    assert!(segment_of(CsrBuf::empty(0).view(), 2).is_empty());
}

#[test]
fn it_is_made_where_it_pays() {
    // Every vertex has edges from 40 of 64 frequent vertices, and one from itself.
    let n = 20_000;
    let mut a = CsrBuf::empty(n);
    for r in 0..n {
        a.indices
            .extend((0..40).map(|k| ((r * 7 + k) % 64 * 300) as u32));
        a.indices.push(r as u32);
        a.indptr.push(a.indices.len() as u64);
    }
    let s = Segmented::of(a.view()).expect("few sources have most edges");
    assert!(
        s.visits.indices.len() >= 40 * n,
        "{}",
        s.visits.indices.len()
    );
    assert!(s.bytes() > a.indices.len() * 4);
    let even = CsrBuf {
        indices: (0..n as u32 * 4).map(|e| e * 7919 % n as u32).collect(),
        indptr: (0..=n as u64).map(|r| r * 4).collect(),
        ..CsrBuf::empty(n)
    };
    assert_eq!(Segmented::of(even.view()), None);
    assert_eq!(Segmented::of(star(500).view()), None, "small");
}

#[test]
#[should_panic(expected = "spmm: expected x with rows 500, got 4")]
fn wrong_shapes_name_both_sides() {
    let s = Segmented::cut(star(500).view(), TINY).expect("a hub has visits");
    spmm_into(
        &Par::new(1),
        &s,
        0..0,
        &Mat::zeros((4, 2)),
        &mut Mat::zeros((500, 2)),
    );
}
