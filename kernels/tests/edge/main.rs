//! The public edge under arbitrary input: arrays of any content are refused with words or run
//! without a panic; arrays that nobody checked may panic but never read outside their slices
//! (which the address sanitizer and Miri see, when this file is run under them).
//! What this cannot catch: a wrong number (the property tests beside each kernel do).

mod arrays;
mod attention;
mod relations;
mod rowwise;

use arrays::{arrays, value};
use kernels::{Csr, Mat, Par, dropout, elementwise, linear, loss, rows, sddmm, spmm};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Cases of a property: few under Miri, which is thousands of times slower.
fn cases(n: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 3 } else { n })
    }
}

/// Runs `call` with the sizes `right`, and then with each of them off by one, which must be refused
/// in the words of `op`.
fn each_size<const N: usize>(op: &str, right: [usize; N], call: impl Fn([usize; N])) {
    call(right);
    for at in 0..N {
        let mut sizes = right;
        sizes[at] += 1;
        refused(op, || call(sizes));
    }
}

/// Runs `call`, which must panic with the message `op: expected …, got …`.
fn refused(op: &str, call: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let words = match &outcome {
        Ok(()) => "nothing: it ran",
        Err(words) => match (words.downcast_ref::<String>(), words.downcast_ref::<&str>()) {
            (Some(words), _) => words,
            (None, Some(words)) => *words,
            (None, None) => "no words",
        },
    };
    let both = words.starts_with(&format!("{op}: expected ")) && words.contains(", got ");
    assert!(both, "expected a refusal by {op}, got {words}");
}

/// Every kernel of sums over a sparse matrix, on one that was checked.
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
        let (par, a) = (&Par::new(1), a.view());
        let (m, n) = (a.rows(), a.n_cols);
        let x = Mat::from_elem((n, d), 1.0);
        let mut out = Mat::zeros((m, d));
        let run = |f: &mut dyn FnMut()| drop(catch_unwind(AssertUnwindSafe(f)));
        run(&mut || spmm::spmm_into(par, a, 0..m, &x, &mut out));
        // The others cut rows by their lengths first, and so believe them.
        prop_assume!(a.indptr.iter().all(|&at| at < 1000));
        let mut s = vec![0.5; a.indices.len()];
        run(&mut || sddmm::sddmm_into(par, a, 0..m, 1, &out, &x, &mut s));
        run(&mut || sddmm::spmm_heads_into(par, a, 0..m, 1, &s, &x, &mut out));
        run(&mut || attention::forward(par, a, 1, d, 1.0));
        run(&mut || relations::forward(par, a, 2, d, 1.0));
    }

    #[test]
    fn dense_kernels_take_any_shape_and_value(
        m in 0usize..20, k in 0usize..20, n in 0usize..20, threads in 1usize..4, fill in value(),
    ) {
        exercise_dense(&Par::new(threads), [m, k, n], fill);
    }
}
