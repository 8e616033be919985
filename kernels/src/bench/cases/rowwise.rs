//! Kernels that go over rows or elements once: dropout, sums of columns, normalisation, the losses.

use super::{Bench, Work, deviation, matrix};
use crate::{Mat, bce, dropout, elementwise, layernorm, loss};

pub(super) fn all(b: &mut Bench<'_>) {
    columns_and_elements(b);
    norm(b);
    objective(b);
}

fn columns_and_elements(b: &mut Bench<'_>) {
    let (n, d) = (b.input.graph.rows(), b.input.width);
    if !b.wants(&["dropout", "column_sums"]) {
        return;
    }
    let x = matrix(n, d, 7);
    let ids: Vec<u32> = (0..n as u32).collect();
    let shape = format!("[{n}, {d}]");
    // In place: each call goes on from the last, so a fresh copy is what is compared.
    let mut buffer = x.clone();
    b.case(
        "dropout",
        shape.clone(),
        Work {
            bytes: 8 * n * d,
            footprint: 4 * n * d,
            flops: n * d,
        },
        &mut buffer,
        |par, out| dropout::dropout(par, 7, &ids, 0.5, out),
        |_| {
            let (mut got, mut want) = (x.clone(), x.clone());
            dropout::dropout(b.par, 7, &ids, 0.5, &mut got);
            dropout::naive(7, &ids, 0.5, &mut want);
            deviation(&got, &want, 1)
        },
    );
    let mut sums = vec![0f32; d];
    b.case(
        "column_sums",
        shape,
        Work::once(4 * n * d, n * d),
        &mut sums,
        |par, sums| elementwise::column_sums_into(par, &x, sums),
        |sums| deviation(sums, &elementwise::naive_column_sums(&x), n),
    );
}

fn norm(b: &mut Bench<'_>) {
    let (n, d) = (b.input.graph.rows(), b.input.width);
    if !b.wants(&["layer norm", "layer norm, backward"]) {
        return;
    }
    let (x, g) = (matrix(n, d, 12), matrix(n, d, 13));
    let (gain, bias, eps) = (vec![1.5f32; d], vec![0.25f32; d], 1e-5);
    let shape = format!("[{n}, {d}]");
    let mut out = (Mat::zeros((n, 2)), Mat::zeros((n, d)));
    // Backward reads the statistics, whatever was asked for.
    layernorm::layer_norm_into(b.par, &x, &gain, &bias, eps, &mut out.0, &mut out.1);
    b.case(
        "layer norm",
        shape.clone(),
        Work::once(8 * n * (d + 1), 7 * n * d),
        &mut out,
        |par, (stats, y)| layernorm::layer_norm_into(par, &x, &gain, &bias, eps, stats, y),
        |(_, y)| deviation(y, &layernorm::naive::forward(&x, &gain, &bias, eps).0, d),
    );
    let stats = out.0;
    let mut grads = (out.1, vec![0f32; d], vec![0f32; d]);
    let normed = layernorm::Normed {
        x: &x,
        gain: &gain,
        stats: &stats,
    };
    b.case(
        "layer norm, backward",
        shape,
        Work::once(4 * n * (3 * d + 2), 13 * n * d),
        &mut grads,
        |par, (gx, ggain, gbias)| {
            layernorm::layer_norm_backward_into(par, normed, &g, gx, ggain, gbias);
        },
        |(gx, ggain, gbias)| {
            let (want, wgain, wbias) = layernorm::naive::backward(&x, &gain, eps, &g);
            let narrow = |sums: Vec<f64>| sums.into_iter().map(|s| s as f32).collect::<Vec<_>>();
            deviation(gx, &want, d)
                .max(deviation(ggain, &narrow(wgain), n))
                .max(deviation(gbias, &narrow(wbias), n))
        },
    );
}

fn objective(b: &mut Bench<'_>) {
    let (n, c) = (b.input.graph.rows(), b.input.classes);
    if !b.wants(&["softmax_xent", "sigmoid_bce"]) {
        return;
    }
    let logits = matrix(n, c, 9);
    let (labels, mask): (Vec<i32>, Vec<bool>) =
        (0..n).map(|v| ((v % c) as i32, v % 5 != 0)).unzip();
    let mut grad = Mat::zeros((n, c));
    b.case(
        "softmax_xent",
        format!("[{n}, {c}]"),
        Work::once(n * (8 * c + 5), 4 * n * c),
        &mut grad,
        |par, grad| {
            loss::softmax_xent(par, &logits, &labels, &mask, 1.0, grad);
        },
        |grad| {
            let mut want = Mat::zeros((n, c));
            loss::naive(&logits, &labels, &mask, 1.0, &mut want);
            deviation(grad, &want, c)
        },
    );
    let labels: Vec<u8> = (0..n * c).map(|k| u8::from(k % 7 == 0)).collect();
    b.case(
        "sigmoid_bce",
        format!("[{n}, {c}]"),
        Work::once(n * (9 * c + 1), 8 * n * c),
        &mut grad,
        |par, grad| {
            bce::sigmoid_bce(par, &logits, &labels, &mask, 1.0, grad);
        },
        |grad| {
            let mut want = Mat::zeros((n, c));
            bce::naive(&logits, &labels, &mask, 1.0, &mut want);
            deviation(grad, &want, 1)
        },
    );
}
