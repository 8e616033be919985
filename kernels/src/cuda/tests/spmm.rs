//! Aggregation, moved rows and dropped features.

use super::{any_cut, assert_close, few, matrix, on_every_device, up};
use crate::cuda::ops::{
    self, CornerOn, PickedOn, Reduce, copy_block, scatter_add, sparse_dropout, spmm,
};
use crate::cuda::{Moves, SparseOn};
use crate::spmm_bf16::{spmm_bf16_into, to_bf16};
use crate::{CsrBuf, Mat, Par};
use half::bf16;
use proptest::prelude::*;

/// Widths that reach every variant: narrow, odd, one vector a lane, several, several tiles.
fn width() -> impl Strategy<Value = usize> {
    prop_oneof![
        1usize..9,
        30usize..40,
        Just(128usize),
        Just(130),
        Just(160),
        Just(256),
        Just(520)
    ]
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn rows_of_bf16_round_and_sum_as_on_the_cpu((a, piece) in any_cut(), d in width(), cut in 0.0f64..1.0) {
        let (x, par) = (matrix(a.n_cols, d, 1), Par::new(1));
        let rows = (a.rows() as f64 * cut) as usize..a.rows();
        let mut stored = vec![bf16::ZERO; x.len()];
        to_bf16(&par, x.as_slice().unwrap(), &mut stored);
        let mut want = Mat::from_elem((a.rows(), d), 7.0);
        spmm_bf16_into(&par, a.view(), rows.clone(), &stored, d, &mut want);
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, a.view(), piece);
            let xs = ops::to_bf16(&up(device, &x));
            assert_eq!(xs.download(), stored);
            let mut out = up(device, &Mat::from_elem((a.rows(), d), 7.0));
            spmm(&on, None, rows.clone(), &xs, d, Reduce::Sum, &mut out);
            let sum = out.download();
            assert_close(&sum, want.as_slice().unwrap(), 1e-4);
            sum.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
    }

    #[test]
    fn spmm_equals_the_cpu_kernel((a, piece) in any_cut(), d in width(), cut in 0.0f64..1.0) {
        let x = matrix(a.n_cols, d, 1);
        let first = (a.rows() as f64 * cut) as usize;
        let rows = first..a.rows();
        let before = Mat::from_elem((a.rows(), d), 7.0);
        let mut want = before.clone();
        crate::spmm::naive(a.view(), rows.clone(), &x, &mut want);
        on_every_device(|device| {
            let on = SparseOn::with_pieces(device, a.view(), piece);
            let (xs, mut out) = (up(device, &x), up(device, &before));
            spmm(&on, None, rows.clone(), &xs, d, Reduce::Sum, &mut out);
            let sum = out.download();
            assert_close(&sum, want.as_slice().unwrap(), 1e-4);
            spmm(&on, None, rows.clone(), &xs, d, Reduce::Add, &mut out);
            let twice: Vec<f32> = want.indexed_iter()
                .map(|((r, _), v)| if rows.contains(&r) { 2.0 * v } else { *v }).collect();
            assert_close(&out.download(), &twice, 1e-4);
            spmm(&on, None, rows.clone(), &xs, d, Reduce::Mean, &mut out);
            let mean: Vec<f32> = want.indexed_iter().map(|((r, _), v)| {
                if rows.contains(&r) { v / (a.view().span(r).len().max(1) as f32) } else { *v }
            }).collect();
            let got = out.download();
            assert_close(&got, &mean, 1e-4);
            (sum, got)
        });
    }

    #[test]
    fn rows_move_as_on_the_cpu(
        (n, idx) in (1usize..30).prop_flat_map(|n| (Just(n), prop::collection::vec(0..n as u32, 0..80))),
        d in 1usize..40,
    ) {
        let x = matrix(n, d, 4);
        let mut pulled = Mat::zeros((idx.len(), d));
        crate::rows::naive::gather(&x, &idx, &mut pulled);
        let mut pushed = x.clone();
        crate::rows::naive::scatter_add(&pulled, &idx, &mut pushed);
        on_every_device(|device| {
            let rows = Moves::new(device, &idx);
            let mut out = device.fresh(idx.len() * d);
            let (list, whole) = (device.upload(&idx), CornerOn { rows: PickedOn::From(0), col: 0, d });
            let from = CornerOn { rows: PickedOn::List(&list, n), ..whole };
            copy_block(&up(device, &x), from, (idx.len(), d), &mut out, whole);
            assert_eq!(out.download(), pulled.as_slice().unwrap());
            let mut onto = up(device, &x);
            scatter_add(&out, &rows, d, &mut onto);
            // The same numbers in the same order: equal to the last bit.
            assert_eq!(onto.download(), pushed.as_slice().unwrap());
        });
    }

    #[test]
    fn sparse_dropout_draws_the_same_mask((a, piece) in any_cut(), key: u64, p in 0.0f32..0.99) {
        let ids: Vec<u32> = (0..a.rows() as u32).map(|v| v * 31 + 5).collect();
        let par = Par::new(1);
        let t = a.view().transpose();
        let (mut by_row, mut by_column) = (vec![0.0; a.indices.len()], vec![0.0; a.indices.len()]);
        crate::dropout::dropout_csr(&par, key, &ids, p, &a.view(), &mut by_row);
        crate::dropout::dropout_csr_t(&par, key, &ids, p, &t.view(), &mut by_column);
        on_every_device(|device| {
            let on_ids = device.upload(&ids);
            for (a, transposed, want) in [(&a, false, &by_row), (&t, true, &by_column)] {
                let on = SparseOn::with_pieces(device, a.view(), piece);
                let mut out = device.fresh(want.len());
                sparse_dropout(&on, transposed, key, &on_ids, p, &mut out);
                assert_eq!(&out.download(), want);
            }
        });
    }
}

#[test]
fn a_hub_is_cut_and_combined_in_order() {
    let n = 300;
    let mut a = CsrBuf::empty(n);
    for r in 0..n {
        let hub = (0..if r == 7 { 5000 } else { 2 }).map(|c| ((c * 13 + r) % n) as u32);
        a.indices.extend(hub);
        a.indptr.push(a.indices.len() as u64);
    }
    let x = matrix(n, 24, 5);
    let mut want = Mat::zeros((n, 24));
    crate::spmm::naive(a.view(), 0..n, &x, &mut want);
    on_every_device(|device| {
        let on = SparseOn::new(device, a.view());
        assert_eq!(on.items("test", 0..n).pieces, 0..5000usize.div_ceil(512));
        assert_eq!(on.items("test", 8..n).long, 1..1);
        let mut out = device.fresh(n * 24);
        spmm(&on, None, 0..n, &up(device, &x), 24, Reduce::Sum, &mut out);
        assert_close(&out.download(), want.as_slice().unwrap(), 1e-3);
        out.download()
    });
}
