//! Times the kernels on one shape and checks their answers against the scalar reference.
//!
//! `cargo run --release -p kernels --example speed -- [SCALE] [WIDTH] [THREADS]` (default 16 128 2):
//! an undirected R-MAT graph of `2^SCALE` vertices, edge factor 16. Prints medians of 15 runs (or `REPS`)
//! after two warm-ups, and the rate in GFLOP/s or GB/s.

use kernels::{CsrBuf, Mat, Par, adam, dropout, elementwise, gemm, hash, loss, rows, spmm};
use std::time::Instant;

fn main() {
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let arg = |k: usize, default| args.get(k).copied().unwrap_or(default);
    let (scale, d, par) = (arg(0, 16) as u32, arg(1, 128), Par::new(arg(2, 2)));
    let a = rmat(scale, 16);
    let n = a.rows();
    let e = a.indices.len();
    println!(
        "{n} vertices, {e} edges, width {d}, {} threads, {:?}",
        par.threads(),
        kernels::simd::Level::detect()
    );
    let x = matrix(n, d);
    let w = matrix(d, d);
    let mut out = Mat::zeros((n, d));
    let flops = 2.0 * (e * d) as f64;
    clock("spmm, weights", flops / 1e9, "GFLOP/s", || {
        spmm::spmm_into(&par, a.view(), 0..n, &x, &mut out)
    });
    check_spmm(&a, &x, &out);
    let plain = kernels::Csr {
        weights: None,
        ..a.view()
    };
    clock("spmm, no weights", flops / 1e9, "GFLOP/s", || {
        spmm::spmm_into(&par, plain, 0..n, &x, &mut out)
    });
    let flops = 2.0 * (n * d * d) as f64;
    clock("gemm [n,d]x[d,d]", flops / 1e9, "GFLOP/s", || {
        gemm::gemm_into(&par, false, false, &x, &w, 0.0, &mut out)
    });
    check_gemm(&x, &w, &out);
    clock("gemm [n,d]x[d,d]t", flops / 1e9, "GFLOP/s", || {
        gemm::gemm_into(&par, false, true, &x, &w, 0.0, &mut out)
    });
    let mut dw = Mat::zeros((d, d));
    clock("gemm [n,d]t x [n,d]", flops / 1e9, "GFLOP/s", || {
        gemm::gemm_into(&par, true, false, &x, &out, 0.0, &mut dw)
    });
    let bytes = (n * d * 8) as f64 / 1e9;
    let bias = vec![0.1; d];
    let ids: Vec<u32> = (0..n as u32).collect();
    clock("bias_relu", bytes, "GB/s", || {
        elementwise::bias_relu(&par, &mut out, &bias)
    });
    clock("relu_backward", 1.5 * bytes, "GB/s", || {
        elementwise::relu_backward(&par, &x, &mut out)
    });
    clock("dropout", bytes, "GB/s", || {
        dropout::dropout(&par, 7, &ids, 0.5, &mut out)
    });
    let mut sums = vec![0.0; d];
    clock("column_sums", bytes / 2.0, "GB/s", || {
        elementwise::column_sums_into(&par, &out, &mut sums)
    });
    let order: Vec<u32> = ids
        .iter()
        .map(|v| v.wrapping_mul(40_503) % n as u32)
        .collect();
    clock("gather_rows", bytes, "GB/s", || {
        rows::gather_rows_into(&par, &x, &order, &mut out)
    });
    let mut to = Mat::zeros((n, d));
    clock("scatter_add_rows", 1.5 * bytes, "GB/s", || {
        rows::scatter_add_rows(&par, &out, &order, &mut to)
    });
    let (labels, mask): (Vec<i32>, Vec<bool>) =
        (0..n).map(|v| ((v % d) as i32, v % 5 != 0)).unzip();
    clock("softmax_xent", bytes, "GB/s", || {
        loss::softmax_xent(&par, &x, &labels, &mask, 1.0, &mut to);
    });
    let (mut p, mut m, mut v) = (vec![0.1f32; d * d], vec![0.0; d * d], vec![0.0; d * d]);
    let g = dw.as_slice().expect("made here");
    let params = adam::AdamParams::default();
    clock("adam", (d * d * 28) as f64 / 1e9, "GB/s", || {
        adam::adam_step(&par, params, 1, &mut p, g, &mut m, &mut v)
    });
}

fn clock(name: &str, work: f64, unit: &str, mut f: impl FnMut()) {
    let mut ms: Vec<f64> = (0..reps())
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(reps() / 8)
        .collect();
    ms.sort_by(f64::total_cmp);
    println!(
        "{name:<22} {:9.3} ms (best {:.3})  {:7.1} {unit}",
        ms[7],
        ms[0],
        work / ms[7] * 1e3
    );
}

/// Runs of each kernel, from the environment (`REPS`).
fn reps() -> usize {
    std::env::var("REPS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(17)
}

fn matrix(n: usize, d: usize) -> Mat {
    Mat::from_shape_fn((n, d), |(r, c)| {
        hash::element(hash::row(1, r as u32), c as u32) as f32 / 2e9 - 1.0
    })
}

fn check_spmm(a: &CsrBuf, x: &Mat, got: &Mat) {
    let n = a.rows();
    let mut want = Mat::zeros(got.dim());
    let some = n / 2..n / 2 + 200;
    spmm::naive(a.view(), some.clone(), x, &mut want);
    for r in some {
        for (g, w) in got.row(r).iter().zip(want.row(r)) {
            assert!(
                (g - w).abs() <= 1e-3 + 1e-4 * w.abs(),
                "row {r}: {g} instead of {w}"
            );
        }
    }
}

fn check_gemm(x: &Mat, w: &Mat, got: &Mat) {
    let rows = x.nrows().min(50);
    let x = x.slice(ndarray::s![..rows, ..]).to_owned();
    let mut want = Mat::zeros((rows, w.ncols()));
    gemm::naive(false, false, &x, w, 0.0, &mut want);
    for (g, w) in got.iter().zip(&want) {
        assert!((g - w).abs() <= 1e-3, "{g} instead of {w}");
    }
}

/// An undirected R-MAT graph with Graph500's quadrants, ids mixed, rows ascending, no repeats.
fn rmat(scale: u32, factor: usize) -> CsrBuf {
    let n = 1usize << scale;
    let mut rows = vec![Vec::new(); n];
    for e in 0..n * factor {
        let (mut s, mut t) = (0usize, 0usize);
        for l in 0..scale {
            let u = hash::mix64((e as u64) << 8 | u64::from(l)) >> 48;
            s = s << 1 | usize::from(u >= 49_807);
            t = t << 1 | usize::from((37_355..49_807).contains(&u) || u >= 62_259);
        }
        let mix = |v: usize| v.wrapping_mul(0x9e37_79b1) & (n - 1);
        let (s, t) = (mix(s), mix(t));
        if s != t {
            rows[s].push(t as u32);
            rows[t].push(s as u32);
        }
    }
    let mut a = CsrBuf::empty(n);
    for mut row in rows {
        row.sort_unstable();
        row.dedup();
        a.indices.extend(row);
        a.indptr.push(a.indices.len() as u64);
    }
    a.weights = Some(
        (0..a.indices.len())
            .map(|e| 1.0 / (1 + e % 7) as f32)
            .collect(),
    );
    a
}
