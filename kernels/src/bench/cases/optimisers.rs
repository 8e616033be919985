//! Steps of the optimisers: on all weights of a layer, and on some rows of a table.

use super::{Bench, Work, deviation, matrix};
use crate::Mat;
use crate::adam::{self, AdamParams};
use crate::sgd::{self, SgdParams};
use crate::sparse_optim::{self, AdagradParams, RowGradients};
use ndarray::Array2;

pub(super) fn all(b: &mut Bench<'_>) {
    dense(b);
    sparse(b);
}

/// `K` vectors of `len` zeros.
fn zeros<T: Clone + From<u8>, const K: usize>(len: usize) -> [Vec<T>; K] {
    [0; K].map(|zero: u8| vec![T::from(zero); len])
}

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

fn dense(b: &mut Bench<'_>) {
    if !b.wants(&["sgd", "adam", "adamw"]) {
        return;
    }
    let len = b.input.width * b.input.width;
    let (w, g) = (matrix(1, len, 10), matrix(1, len, 11));
    let (w, g) = (w.as_slice().expect("row"), g.as_slice().expect("row"));
    let shape = format!("{len} weights");
    let params = SgdParams::default();
    let [velocity] = zeros::<f32, 1>(len);
    b.case(
        "sgd",
        shape.clone(),
        Work {
            bytes: 20 * len,
            footprint: 12 * len,
            flops: 6 * len,
        },
        &mut (w.to_vec(), velocity),
        |par, (w, u)| sgd::sgd_step(par, params, w, g, Some(u)),
        |_| {
            let (mut got, [mut u]) = (w.to_vec(), zeros(len));
            sgd::sgd_step(b.par, params, &mut got, g, Some(&mut u));
            let (mut want, [mut u]) = (wide(w), zeros(len));
            sgd::naive(params, &mut want, g, &mut u);
            deviation(&got, &narrow(&want), 1)
        },
    );
    for (name, decoupled) in [("adam", false), ("adamw", true)] {
        let params = AdamParams {
            weight_decay: 0.01,
            decoupled,
            ..AdamParams::default()
        };
        b.case(
            name,
            shape.clone(),
            Work {
                bytes: 28 * len,
                footprint: 16 * len,
                flops: 16 * len,
            },
            &mut (w.to_vec(), zeros::<f32, 2>(len)),
            |par, (w, [m, v])| adam::adam_step(par, params, 1, w, g, m, v),
            |_| {
                let (mut got, [mut m, mut v]) = (w.to_vec(), zeros(len));
                adam::adam_step(b.par, params, 1, &mut got, g, &mut m, &mut v);
                let (mut want, [mut m, mut v]) = (wide(w), zeros(len));
                adam::naive(params, 1, &mut want, &wide(g), &mut m, &mut v);
                deviation(&got, &narrow(&want), 1)
            },
        );
    }
}

/// One row of the table in so many has a gradient.
const TOUCHED: usize = 4;

fn sparse(b: &mut Bench<'_>) {
    if !b.wants(&["sparse adagrad", "sparse adam"]) {
        return;
    }
    let (n, d) = (b.input.graph.n_cols, b.input.width);
    // In descending order, so that a step sorts them.
    let rows: Vec<u32> = (0..n as u32).rev().step_by(TOUCHED).collect();
    let (m, grads, table) = (rows.len(), matrix(rows.len(), d, 14), matrix(n, d, 15));
    let of = RowGradients {
        rows: &rows,
        grads: &grads,
    };
    let exact = table.mapv(f64::from);
    let shape = format!("{m} rows of [{n}, {d}]");
    let close = |got: &Mat, want: &Array2<f64>| deviation(got, &want.mapv(|x| x as f32), 1);
    let params = AdagradParams::default();
    b.case(
        "sparse adagrad",
        shape.clone(),
        Work {
            bytes: m * (4 + 20 * d),
            footprint: m * (4 + 12 * d),
            flops: 6 * m * d,
        },
        &mut (table.clone(), Mat::zeros((n, d))),
        |par, (w, squares)| sparse_optim::sparse_adagrad(par, params, of, w, squares),
        |_| {
            let (mut got, mut squares) = (table.clone(), Mat::zeros((n, d)));
            sparse_optim::sparse_adagrad(b.par, params, of, &mut got, &mut squares);
            let (mut want, mut squares) = (exact.clone(), Array2::zeros((n, d)));
            sparse_optim::naive::adagrad(params, of, &mut want, &mut squares);
            close(&got, &want)
        },
    );
    let params = AdamParams::default();
    let moments = || [0; 2].map(|_| Mat::zeros((n, d)));
    b.case(
        "sparse adam",
        shape,
        Work {
            bytes: m * (4 + 28 * d),
            footprint: m * (4 + 16 * d),
            flops: 16 * m * d,
        },
        &mut (table.clone(), moments()),
        |par, (w, [m, v])| sparse_optim::sparse_adam(par, params, 1, of, w, m, v),
        |_| {
            let (mut got, [mut m, mut v]) = (table.clone(), moments());
            sparse_optim::sparse_adam(b.par, params, 1, of, &mut got, &mut m, &mut v);
            let mut want = exact.clone();
            let [mut m, mut v] = [0; 2].map(|_| Array2::zeros((n, d)));
            sparse_optim::naive::adam(params, 1, of, &mut want, &mut m, &mut v);
            close(&got, &want)
        },
    );
}
