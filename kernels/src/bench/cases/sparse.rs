//! Kernels along edges, and rows by index.

use super::{Bench, Work, deviation, matrix};
use crate::pairs::{self, Pairs};
use crate::segmented::{self, Segmented, WIDE};
use crate::spmm::Reduce;
use crate::{Csr, Mat, Par, rows, rspmm, spmm, spmm_bf16};
use half::bf16;
use std::ops::Range;

/// Rows whose answer is checked.
const CHECKED: usize = 200;

pub(super) fn all(b: &mut Bench<'_>) {
    aggregate(b);
    relations(b);
    by_index(b);
    pair_products(b);
}

/// Bytes of a sparse matrix.
pub(super) fn csr_bytes(a: &Csr<'_>) -> usize {
    a.indptr.len() * 8 + a.indices.len() * 4 + a.weights.map_or(0, |w| w.len() * 4)
}

/// Some rows in the middle, hubs and isolated vertices as they come.
pub(super) fn some_rows(n: usize) -> Range<usize> {
    let first = n / 2;
    first..(first + CHECKED).min(n)
}

/// Longest row of a run.
fn longest(a: &Csr<'_>, rows: Range<usize>) -> usize {
    rows.map(|r| a.span(r).len()).max().unwrap_or(0)
}

fn aggregate(b: &mut Bench<'_>) {
    let (a, d) = (b.input.graph, b.input.width);
    let names = [
        "spmm, weights",
        "spmm, no weights",
        "spmm, no weights, row by row",
        "spmm, mean",
        "spmm, bf16 rows",
    ];
    if !b.wants(&names) {
        return;
    }
    let (n, e) = (a.rows(), a.n_edges());
    let x = matrix(a.n_cols, d, 1);
    let mut out = Mat::zeros((n, d));
    let dense = 4 * d * (n + a.n_cols);
    let shape = format!("{n} rows, {e} edges, {d}");
    let right = |a: &Csr<'_>, out: &Mat| {
        let rows = some_rows(n);
        let mut want = Mat::zeros((n, d));
        spmm::naive(*a, rows.clone(), &x, &mut want);
        let cut = ndarray::s![rows.clone(), ..];
        deviation(out.slice(cut), want.slice(cut), longest(a, rows))
    };
    let work = Work::once(csr_bytes(&a) + dense, 2 * e * d);
    b.case(
        "spmm, weights",
        shape.clone(),
        work,
        &mut out,
        as_trained(a, &x),
        |out| right(&a, out),
    );
    let plain = Csr { weights: None, ..a };
    let work = Work::once(csr_bytes(&plain) + dense, e * d);
    b.case(
        "spmm, no weights",
        shape.clone(),
        work,
        &mut out,
        as_trained(plain, &x),
        |out| right(&plain, out),
    );
    b.case(
        "spmm, no weights, row by row",
        shape,
        work,
        &mut out,
        |par, out| spmm::spmm_into(par, plain, 0..n, &x, out),
        |out| right(&plain, out),
    );
    others(b, plain, &x, &mut out);
}

/// Aggregation as training does it: by segments of sources where that pays, which are made once.
fn as_trained<'a>(a: Csr<'a>, x: &'a Mat) -> impl Fn(&Par, &mut Mat) + 'a {
    let segmented = (x.ncols() >= WIDE).then(|| Segmented::of(a)).flatten();
    let segmented = segmented.filter(|s| s.pays(x.ncols()));
    move |par, out| match &segmented {
        Some(s) => segmented::spmm_into(par, s, 0..a.rows(), x, out),
        None => spmm::spmm_into(par, a, 0..a.rows(), x, out),
    }
}

/// The other reductions, and rows of half the bytes.
fn others(b: &mut Bench<'_>, a: Csr<'_>, x: &Mat, out: &mut Mat) {
    let ((n, d), e) = (out.dim(), a.n_edges());
    let (csr, shape) = (csr_bytes(&a), format!("{n} rows, {e} edges, {d}"));
    let rows = some_rows(n);
    let cut = ndarray::s![rows.clone(), ..];
    b.case(
        "spmm, mean",
        shape.clone(),
        Work::once(csr + 4 * d * (n + a.n_cols), e * d),
        out,
        |par, out| spmm::spmm_reduce_into(par, a, 0..n, Reduce::Mean, x, out),
        |out| {
            let mut want = Mat::zeros((n, d));
            spmm::naive(a, rows.clone(), x, &mut want);
            for r in rows.clone() {
                let edges = a.span(r).len().max(1) as f32;
                want.row_mut(r).mapv_inplace(|v| v / edges);
            }
            deviation(out.slice(cut), want.slice(cut), 1)
        },
    );
    let mut small = vec![bf16::ZERO; x.len()];
    spmm_bf16::to_bf16(b.par, crate::flat("bench", x), &mut small);
    b.case(
        "spmm, bf16 rows",
        shape,
        Work::once(csr + d * (4 * n + 2 * a.n_cols), e * d),
        out,
        |par, out| spmm_bf16::spmm_bf16_into(par, a, 0..n, &small, d, out),
        |out| {
            // Rounding of the rows is the caller's choice, so the reference reads rounded ones.
            let mut rounded = Mat::zeros(x.dim());
            spmm_bf16::from_bf16(b.par, &small, crate::flat_mut("bench", &mut rounded));
            let mut want = Mat::zeros((n, d));
            spmm::naive(a, rows.clone(), &rounded, &mut want);
            deviation(out.slice(cut), want.slice(cut), longest(&a, rows.clone()))
        },
    );
}

/// Types of edges, and bases that they mix.
const TYPES: usize = 8;
const BASES: usize = 4;

fn relations(b: &mut Bench<'_>) {
    let (a, d) = (b.input.graph, b.input.width.div_ceil(BASES));
    if !b.wants(&["rspmm", "rspmm, transposed", "rspmm, coefficients"]) {
        return;
    }
    let (n, e) = (a.rows(), a.n_edges());
    let types: Vec<u16> = (0..e).map(|e| (e * 7 % TYPES) as u16).collect();
    let coef = matrix(TYPES, BASES, 30);
    let rel = rspmm::Relations {
        types: &types,
        coef: &coef,
    };
    let (x, g) = (matrix(a.n_cols, BASES * d, 31), matrix(n, d, 32));
    let shape = format!("{n} rows, {e} edges, {BASES}×{d}");
    let work = || {
        Work::once(
            csr_bytes(&a) + 2 * e + 4 * n * d * (BASES + 1),
            2 * e * d * BASES,
        )
    };
    let mut out = Mat::zeros((n, d));
    b.case(
        "rspmm",
        shape.clone(),
        work(),
        &mut out,
        |par, out| rspmm::rspmm_into(par, a, 0..n, &rel, &x, out),
        |out| {
            let rows = some_rows(n);
            let mut want = Mat::zeros((n, d));
            rspmm::naive::forward(a, rows.clone(), &rel, &x, &mut want);
            let cut = ndarray::s![rows.clone(), ..];
            deviation(out.slice(cut), want.slice(cut), BASES * longest(&a, rows))
        },
    );
    let mut dx = Mat::zeros((n, BASES * d));
    b.case(
        "rspmm, transposed",
        shape.clone(),
        work(),
        &mut dx,
        |par, dx| rspmm::rspmm_t_into(par, a, 0..n, &rel, &g, dx),
        |dx| {
            let rows = some_rows(n);
            let mut want = Mat::zeros((n, BASES * d));
            rspmm::naive::transposed(a, rows.clone(), &rel, &g, &mut want);
            let cut = ndarray::s![rows.clone(), ..];
            deviation(dx.slice(cut), want.slice(cut), longest(&a, rows))
        },
    );
    let mut dcoef = Mat::zeros((TYPES, BASES));
    b.case(
        "rspmm, coefficients",
        shape,
        Work::once(
            csr_bytes(&a) + 2 * e + 4 * d * (n + BASES * a.n_cols) + 4 * TYPES * BASES,
            2 * e * d * BASES,
        ),
        &mut dcoef,
        |par, dcoef| rspmm::coef_gradient_into(par, a, &types, &x, &g, dcoef),
        |dcoef| {
            // One basis of them.
            let x = x.slice(ndarray::s![.., ..d]).to_owned();
            let mut want = Mat::zeros((TYPES, 1));
            rspmm::naive::coef(a, &types, &x, &g, &mut want);
            deviation(dcoef.column(0), &want, e * d)
        },
    );
}

fn by_index(b: &mut Bench<'_>) {
    let (n, d) = (b.input.graph.n_cols, b.input.width);
    if !b.wants(&["gather_rows", "scatter_add_rows"]) {
        return;
    }
    let x = matrix(n, d, 2);
    // An odd factor, so every row is read once, in an order that no prefetcher guesses.
    let ids: Vec<u32> = (0..n as u64)
        .map(|v| (v * 40_503 % n as u64) as u32)
        .collect();
    let mut out = Mat::zeros((n, d));
    let shape = format!("[{n}, {d}] by index");
    b.case(
        "gather_rows",
        shape.clone(),
        Work::once(n * (8 * d + 4), 0),
        &mut out,
        |par, out| rows::gather_rows_into(par, &x, &ids, out),
        |out| {
            let mut want = Mat::zeros((n, d));
            rows::naive::gather(&x, &ids, &mut want);
            deviation(out, &want, 1)
        },
    );
    let unique: Vec<u32> = {
        let mut seen = vec![false; n];
        ids.iter()
            .copied()
            .filter(|&v| !std::mem::replace(&mut seen[v as usize], true))
            .collect()
    };
    let g = matrix(unique.len(), d, 3);
    // The sum grows by the same rows with every call, so only the first is compared.
    let mut first = Mat::zeros((n, d));
    rows::scatter_add_rows(b.par, &g, &unique, &mut first);
    b.case(
        "scatter_add_rows",
        shape,
        Work {
            bytes: unique.len() * (12 * d + 4),
            footprint: unique.len() * (8 * d + 4),
            flops: unique.len() * d,
        },
        &mut out,
        |par, out| rows::scatter_add_rows(par, &g, &unique, out),
        |_| {
            let mut want = Mat::zeros((n, d));
            rows::naive::scatter_add(&g, &unique, &mut want);
            deviation(&first, &want, 1)
        },
    );
}

fn pair_products(b: &mut Bench<'_>) {
    if !b.wants(&["pair products", "pair products, backward"]) {
        return;
    }
    let (n, d) = (b.input.graph.n_cols, b.input.width);
    let other = |v: u64| (v * 40_503 % n as u64) as u32;
    let ends: Vec<[u32; 2]> = (0..n as u64).map(|v| [v as u32, other(v)]).collect();
    let k = ends.len();
    // Both ends are below n; more pairs than 2³¹ are not timed.
    let Ok(pairs) = Pairs::new(n, ends) else {
        return;
    };
    let (z, gp) = (matrix(n, d, 4), matrix(k, d, 5));
    let shape = format!("{k} pairs of [{n}, {d}]");
    b.case(
        "pair products",
        shape.clone(),
        Work::once(8 * k + 4 * d * (n + k), k * d),
        &mut Mat::zeros((k, d)),
        |par, out| pairs::products_into(par, &pairs, &z, out),
        |out| {
            let mut want = Mat::zeros((k, d));
            pairs::naive::products(&pairs, &z, &mut want);
            deviation(out, &want, 1)
        },
    );
    b.case(
        "pair products, backward",
        shape,
        // The pairs, and the pairs of each row.
        Work::once(16 * k + 8 * (n + 1) + 4 * d * (2 * n + k), 4 * k * d),
        &mut Mat::zeros((n, d)),
        |par, g| pairs::products_backward_into(par, &pairs, &z, &gp, g),
        |g| {
            let mut want = Mat::zeros((n, d));
            pairs::naive::products_backward(&pairs, &z, &gp, &mut want);
            deviation(g, &want, 2)
        },
    );
}
