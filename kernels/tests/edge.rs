//! The public edge under arbitrary input: arrays of any content are refused with words or run
//! without a panic; arrays that nobody checked may panic but never read outside their slices
//! (which the address sanitizer and Miri see, when this file is run under them).
//! What this cannot catch: a wrong number (the property tests beside each kernel do).

use kernels::{Csr, Mat, Par, dropout, elementwise, linear, loss, rows, spmm};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Cases of a property: few under Miri, which is thousands of times slower.
fn cases(n: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 3 } else { n })
    }
}

#[derive(Debug, Clone)]
struct Arrays {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    weights: Option<Vec<f32>>,
    n_cols: usize,
}

impl Arrays {
    fn view(&self) -> Csr<'_> {
        Csr {
            indptr: &self.indptr,
            indices: &self.indices,
            weights: self.weights.as_deref(),
            n_cols: self.n_cols,
        }
    }
}

fn value() -> impl Strategy<Value = f32> {
    let odd = prop_oneof![
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(-f32::INFINITY),
        Just(f32::MAX),
        Just(1e-40)
    ];
    prop_oneof![8 => -2.0f32..2.0, 1 => Just(0.0), 1 => odd]
}

/// Arrays that are right.
fn right() -> impl Strategy<Value = Arrays> {
    let shape = (0usize..12, 1usize..12, prop::collection::vec(value(), 200));
    shape.prop_flat_map(|(rows, n_cols, values)| {
        let row = prop::collection::vec(0..n_cols as u32, 0..9);
        prop::collection::vec(row, rows).prop_map(move |rows| {
            let mut indptr = vec![0u64];
            for r in &rows {
                indptr.push(indptr[indptr.len() - 1] + r.len() as u64);
            }
            let indices: Vec<u32> = rows.concat();
            let weighted = !indices.len().is_multiple_of(3);
            let weights = weighted.then(|| values[..indices.len()].to_vec());
            Arrays {
                indptr,
                indices,
                weights,
                n_cols,
            }
        })
    })
}

/// Arrays that are right, or wrong in one place or everywhere; counts beyond 32 bits included.
fn arrays() -> impl Strategy<Value = Arrays> {
    let big = || prop_oneof![0u64..30, Just(1 << 32), Just((1 << 32) + 1), Just(u64::MAX)];
    let wild = (
        prop::collection::vec(big(), 0..8),
        prop::collection::vec(prop_oneof![0u32..12, Just(u32::MAX)], 0..20),
        prop::option::of(prop::collection::vec(value(), 0..20)),
        prop_oneof![0usize..12, Just(1usize << 33)],
    )
        .prop_map(|(indptr, indices, weights, n_cols)| Arrays {
            indptr,
            indices,
            weights,
            n_cols,
        });
    let spoilt = (right(), any::<prop::sample::Index>(), big()).prop_map(|(mut a, at, with)| {
        let at = at.index(a.indptr.len());
        a.indptr[at] = with;
        a
    });
    prop_oneof![2 => right(), 1 => wild, 1 => spoilt]
}

/// Every kernel that takes a sparse matrix, on one that was checked.
fn exercise(par: &Par, a: Csr<'_>, d: usize, fill: f32) {
    let (m, n) = (a.rows(), a.n_cols);
    let x = Mat::from_elem((n, d), fill);
    let mut out = Mat::zeros((m, d));
    spmm::spmm_into(par, a, 0..m, &x, &mut out);
    let t = a.transpose();
    let checked = t.view().check();
    checked.expect("the transposed of a checked matrix");
    let mut back = Mat::zeros((n, d));
    spmm::spmm_into(par, t.view(), 0..n, &out, &mut back);
    let ids: Vec<u32> = (0..m as u32).collect();
    let mut values = vec![0.0; a.n_edges()];
    dropout::dropout_csr(par, 7, &ids, 0.4, &a, &mut values);
    dropout::dropout_csr_t(par, 7, &ids, 0.4, &t.view(), &mut values);
    let mut edge_rows = Mat::zeros((a.n_edges(), d));
    rows::gather_rows_into(par, &x, a.indices, &mut edge_rows);
    rows::scatter_add_rows(par, &edge_rows, a.indices, &mut back);
}

/// Dense kernels on any shape and any value.
fn exercise_dense(par: &Par, [m, k, n]: [usize; 3], fill: f32) {
    let (x, w) = (Mat::from_elem((m, k), fill), Mat::from_elem((k, n), 0.5));
    let (mut y, bias) = (Mat::zeros((m, n)), vec![fill; n]);
    let ids: Vec<u32> = (0..m as u32).collect();
    let term = linear::Term {
        a: &x,
        b: &w,
        ta: false,
        tb: false,
    };
    let then = linear::Then {
        bias: Some(&bias),
        act: linear::Act::Elu,
        dropout: Some(linear::Dropout {
            key: 3,
            ids: &ids,
            p: 0.5,
        }),
        gate: None,
    };
    linear::linear_into(par, &[term], linear::Write::Set, then, &mut y);
    let (mut gw, mut gb) = (Mat::zeros((k, n)), vec![0.0; n]);
    linear::weight_gradient_into(par, &x, &y, &mut gw, Some(&mut gb));
    elementwise::column_sums_into(par, &y, &mut gb);
    if n > 0 {
        let labels: Vec<i32> = (0..m).map(|v| (v % (n + 1)) as i32 - 1).collect();
        let mask: Vec<bool> = labels.iter().map(|&l| l >= 0).collect();
        let mut grad = Mat::zeros((m, n));
        loss::softmax_xent(par, &y, &labels, &mask, 1.0, &mut grad);
        loss::accuracy(&y, &labels, &mask);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn checked_arrays_run_and_others_are_refused_with_words(
        a in arrays(), d in prop_oneof![Just(0usize), Just(1), Just(17), 1usize..70],
        threads in 1usize..4, fill in value(),
    ) {
        match a.view().check() {
            Ok(()) => exercise(&Par::new(threads), a.view(), d, fill),
            Err(e) => prop_assert!(e.to_string().starts_with("csr: expected "), "{}", e),
        }
    }

    #[test]
    fn arrays_that_nobody_checked_never_read_outside(a in arrays(), d in 1usize..40) {
        prop_assume!(a.n_cols < 1000);
        let x = Mat::from_elem((a.n_cols, d), 1.0);
        let mut out = Mat::zeros((a.view().rows(), d));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let rows = 0..a.view().rows();
            spmm::spmm_into(&Par::new(1), a.view(), rows, &x, &mut out);
        }));
    }

    #[test]
    fn dense_kernels_take_any_shape_and_value(
        m in 0usize..20, k in 0usize..20, n in 0usize..20, threads in 1usize..4, fill in value(),
    ) {
        exercise_dense(&Par::new(threads), [m, k, n], fill);
    }
}
