//! Dense layers: the product with its epilogue, its input gradient and its weight gradient; the bare
//! products beside them.

use super::{Bench, Work, deviation, matrix};
use crate::linear::{Act, Gate, Term, Then, Write, linear_into, weight_gradient_into};
use crate::{Mat, gemm, linear};
use ndarray::s;

/// Rows whose answer is checked.
const CHECKED: usize = 50;

/// Columns of each operand whose weight gradient is checked.
const CORNER: usize = 3;

/// Operands of a layer: `x`, `g` and `y` are `[n, d]`, `w` and `v` are `[d, d]`.
struct Operands {
    x: Mat,
    g: Mat,
    y: Mat,
    w: Mat,
    v: Mat,
    bias: Vec<f32>,
}

pub(super) fn all(b: &mut Bench<'_>) {
    let names = [
        "linear x·w + b, relu",
        "linear x·w + y·v + b, relu",
        "linear g·wᵀ, gate",
    ];
    let more = ["weight gradient, bias", "gemm x·w", "gemm xᵀ·g"];
    if !b.wants(&names) && !b.wants(&more) {
        return;
    }
    let (n, d) = (b.input.graph.rows(), b.input.width);
    let o = Operands {
        x: matrix(n, d, 4),
        g: matrix(n, d, 5),
        y: matrix(n, d, 6),
        w: matrix(d, d, 7),
        v: matrix(d, d, 8),
        bias: vec![0.125; d],
    };
    layers(b, &o);
    gradients(b, &o);
}

fn term<'a>(a: &'a Mat, b: &'a Mat, tb: bool) -> Term<'a> {
    Term {
        a,
        b,
        ta: false,
        tb,
    }
}

/// `a · b` with what follows, as `n` times `d` elements of `extra` further operands.
fn layers(b: &mut Bench<'_>, o: &Operands) {
    let (n, d) = o.x.dim();
    let relu = Then {
        bias: Some(&o.bias),
        act: Act::Relu,
        ..Then::default()
    };
    let gate = Then {
        gate: Some(Gate::Relu {
            y: &o.y,
            scale: 1.0,
        }),
        ..Then::default()
    };
    let one = [term(&o.x, &o.w, false)];
    let two = [term(&o.x, &o.w, false), term(&o.y, &o.v, false)];
    let back = [term(&o.g, &o.w, true)];
    let mut out = Mat::zeros((n, d));
    for (name, terms, then, reads) in [
        ("linear x·w + b, relu", &one[..], relu, 1),
        ("linear x·w + y·v + b, relu", &two[..], relu, 2),
        ("linear g·wᵀ, gate", &back[..], gate, 2),
    ] {
        let work = Work::once(
            4 * ((reads + 1) * n * d + terms.len() * d * d),
            2 * n * d * (terms.len() * d + 1),
        );
        b.case(
            name,
            format!("[{n}, {d}]"),
            work,
            &mut out,
            |par, out| linear_into(par, terms, Write::Set, then, out),
            |out| {
                let rows = n.min(CHECKED);
                let top = |x: &Mat| x.slice(s![..rows, ..]).to_owned();
                let (y, tops): (Mat, Vec<Mat>) =
                    (top(&o.y), terms.iter().map(|t| top(t.a)).collect());
                let small: Vec<Term<'_>> = tops
                    .iter()
                    .zip(terms)
                    .map(|(a, t)| term(a, t.b, t.tb))
                    .collect();
                let then = Then {
                    gate: then.gate.map(|_| Gate::Relu { y: &y, scale: 1.0 }),
                    ..then
                };
                let mut want = Mat::zeros((rows, d));
                linear::naive(&small, Write::Set, then, &mut want);
                deviation(out.slice(s![..rows, ..]), &want, terms.len() * d)
            },
        );
    }
    b.case(
        "gemm x·w",
        format!("[{n}, {d}]"),
        Work::once(4 * (2 * n * d + d * d), 2 * n * d * d),
        &mut out,
        |par, out| gemm::gemm_into(par, false, false, &o.x, &o.w, 0.0, out),
        |out| {
            let rows = n.min(CHECKED);
            let mut want = Mat::zeros((rows, d));
            let top = o.x.slice(s![..rows, ..]).to_owned();
            gemm::naive(false, false, &top, &o.w, 0.0, &mut want);
            deviation(out.slice(s![..rows, ..]), &want, d)
        },
    );
}

fn gradients(b: &mut Bench<'_>, o: &Operands) {
    let (n, d) = o.x.dim();
    let mut out = (Mat::zeros((d, d)), vec![0f32; d]);
    let work = || Work::once(4 * (2 * n * d + d * d), 2 * n * d * d);
    b.case(
        "weight gradient, bias",
        format!("[{n}, {d}]ᵀ × [{n}, {d}]"),
        work(),
        &mut out,
        |par, (gw, gb)| weight_gradient_into(par, &o.x, &o.g, gw, Some(gb)),
        |(gw, gb)| {
            let sums: Vec<f32> = o.g.columns().into_iter().map(sum).collect();
            corner(&o.x, &o.g, gw).max(deviation(gb, &sums, n))
        },
    );
    b.case(
        "gemm xᵀ·g",
        format!("[{n}, {d}]ᵀ × [{n}, {d}]"),
        work(),
        &mut out.0,
        |par, gw| gemm::gemm_into(par, true, false, &o.x, &o.g, 0.0, gw),
        |gw| corner(&o.x, &o.g, gw),
    );
}

fn sum(column: ndarray::ArrayView1<'_, f32>) -> f32 {
    column.iter().map(|&g| f64::from(g)).sum::<f64>() as f32
}

/// Deviation of the first few rows and columns of `xᵀ g` from sums in `f64`.
fn corner(x: &Mat, g: &Mat, got: &Mat) -> f64 {
    let (rows, cols) = (x.ncols().min(CORNER), g.ncols().min(CORNER));
    let want = Mat::from_shape_fn((rows, cols), |(i, j)| {
        let products = x.column(i).into_iter().zip(g.column(j));
        products
            .map(|(x, g)| f64::from(*x) * f64::from(*g))
            .sum::<f64>() as f32
    });
    deviation(got.slice(s![..rows, ..cols]), &want, x.nrows())
}
