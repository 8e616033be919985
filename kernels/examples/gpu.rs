//! Times the CUDA kernels on an R-MAT graph against the GPU's copy bandwidth, and checks the answers.
//!
//! `cargo run --release -p kernels --example gpu -- [SCALE] [shim]`: 2^SCALE vertices (default 20),
//! edge factor 16. Times are the device's own. With `shim` the kernels run on the CPU, which only
//! shows that this program works: use a scale of at most 8.

use kernels::cuda::ops::{self, AttentionOn, Reduce};
use kernels::cuda::{self, Buf, Device, Shim, SparseOn};
use kernels::{CsrBuf, Mat, Par, hash};
use std::sync::Arc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let scale = args.first().and_then(|a| a.parse().ok()).unwrap_or(20);
    let opened = match args.iter().any(|a| a == "shim") {
        true => Shim::open(false).map(|shim| Device::new(Box::new(shim))),
        false => cuda::open(0),
    };
    let device = opened.unwrap_or_else(|e| {
        eprintln!("error: {e}");
        std::process::exit(2);
    });
    let a = rmat(scale, 16);
    let (n, edges) = (a.rows(), a.indices.len());
    println!("{}: {n} vertices, {edges} edges", device.name());
    let graph = (8 * (n + 1) + 4 * edges) as f64;
    let copy = copy_bandwidth(&device, n);
    println!(
        "{:<28} {:>9} {:>9} {:>7} {:>9}",
        "kernel", "ms", "GB/s", "of copy", "gathered"
    );
    // Compulsory bytes; `width` floats are read of every edge's end besides, most of them from caches.
    let line = |name: &str, ms: f64, bytes: f64, width: usize| {
        let speed = bytes / ms / 1e6;
        let gathered = (4 * edges * width) as f64 / ms / 1e6;
        println!(
            "{name:<28} {ms:>9.3} {speed:>9.1} {:>6.0}% {gathered:>9.0}",
            100.0 * speed / copy
        );
    };
    println!("{:<28} {:>9} {copy:>9.1}", "copy", "");

    let (on, t) = (SparseOn::new(&device, a.view()), a.view().transpose());
    let on_t = SparseOn::new(&device, t.view());
    for d in [32, 128, 256] {
        let x = matrix(n, d, 1);
        let (xs, mut out) = (upload(&device, &x), device.fresh(n * d));
        let ms = time(&device, || {
            ops::spmm(&on, None, 0..n, &xs, d, Reduce::Sum, &mut out)
        });
        let bytes = graph + (8 * n * d) as f64;
        line(&format!("spmm, width {d}"), ms, bytes, d);
        let mut want = Mat::zeros((n, d));
        kernels::spmm::spmm_into(&Par::new(1), a.view(), 0..n, &x, &mut want);
        let largest = want.iter().fold(1f32, |m, v| m.max(v.abs()));
        let off = out
            .download()
            .iter()
            .zip(&want)
            .fold(0f32, |m, (g, w)| m.max((g - w).abs()));
        assert!(
            off <= 1e-4 * largest,
            "spmm, width {d}: off by {off} of {largest}"
        );
    }

    let (heads, dim) = (8, 32);
    let width = heads * dim;
    let att = AttentionOn {
        heads,
        dim,
        slope: 0.2,
        dropout: None,
    };
    let [z, g] = [1, 2].map(|seed| upload(&device, &matrix(n, width, seed)));
    let [el, er] = [3, 4].map(|seed| upload(&device, &matrix(n, heads, seed)));
    let (mut lse, mut out) = (device.fresh(n * heads), device.fresh(n * width));
    let ms = time(&device, || {
        ops::gat_forward(&on, 0..n, &att, &z, &el, &er, &mut lse, &mut out);
    });
    line(
        "attention forward, 8 of 32",
        ms,
        graph + (8 * n * width + 12 * n * heads) as f64,
        width + 2 * heads,
    );
    let mut c = device.fresh(n * heads);
    ops::head_dots(heads, dim, 0..n, &g, &out, &mut c);
    let (mut dz, mut del) = (device.fresh(n * width), device.fresh(n * heads));
    let mut ds = device.fresh(edges * heads);
    let ms = time(&device, || {
        let read = [&el, &er, &lse, &c];
        ops::gat_source_pass(&on_t, 0..n, &att, &z, read, &g, &mut dz, &mut del, &mut ds);
    });
    let bytes = graph + (12 * n * width + 20 * n * heads + 4 * edges * heads) as f64;
    line("attention backward, 8 of 32", ms, bytes, width + 3 * heads);

    let (w, d) = (upload(&device, &matrix(128, 128, 5)), 128);
    let x = upload(&device, &matrix(n, d, 6));
    let mut out = device.fresh(n * d);
    let ms = time(&device, || {
        ops::gemm([false; 2], [n, d, d], &x, &w, 0.0, &mut out)
    });
    line("dense layer, 128 to 128", ms, (8 * n * d) as f64, 0);
}

/// Gigabytes read and written in a second by the device's own copy.
fn copy_bandwidth(device: &Arc<Device>, n: usize) -> f64 {
    let from = device.zeros::<f32>(n * 128);
    let mut to = device.fresh::<f32>(n * 128);
    let ms = time(device, || to.copy_from(0, &from, 0, n * 128));
    (8 * n * 128) as f64 / ms / 1e6
}

/// Median milliseconds on the device, after a warm-up.
fn time(device: &Arc<Device>, mut f: impl FnMut()) -> f64 {
    (0..3).for_each(|_| f());
    let mut all: Vec<u64> = (0..15)
        .map(|_| {
            let from = device.mark();
            f();
            device.between(&from, &device.mark())
        })
        .collect();
    all.sort_unstable();
    all[all.len() / 2] as f64 / 1e6
}

fn upload(device: &Arc<Device>, x: &Mat) -> Buf<f32> {
    device.upload(x.as_slice().expect("made in standard layout"))
}

fn matrix(n: usize, d: usize, seed: u64) -> Mat {
    Mat::from_shape_fn((n, d), |(r, c)| {
        hash::element(hash::row(seed, r as u32), c as u32) as f32 / 2f32.powi(31) - 1.0
    })
}

/// A directed R-MAT graph with Graph500's quadrants, repeated edges kept.
fn rmat(scale: u32, factor: usize) -> CsrBuf {
    let (n, edges) = (1usize << scale, factor << scale);
    let end = |e: usize| {
        let (mut u, mut v, key) = (0, 0, hash::row(11, e as u32));
        for bit in 0..scale {
            let (right, down) = match hash::element(key, bit) as f64 / 2f64.powi(32) {
                p if p < 0.57 => (0, 0),
                p if p < 0.76 => (1, 0),
                p if p < 0.95 => (0, 1),
                _ => (1, 1),
            };
            (u, v) = (2 * u + right, 2 * v + down);
        }
        (u, v)
    };
    let mut pairs: Vec<(u32, u32)> = (0..edges).map(end).collect();
    pairs.sort_unstable();
    let mut indptr = vec![0u64; n + 1];
    pairs.iter().for_each(|p| indptr[p.0 as usize + 1] += 1);
    (0..n).for_each(|r| indptr[r + 1] += indptr[r]);
    CsrBuf {
        indptr,
        indices: pairs.into_iter().map(|p| p.1).collect(),
        weights: None,
        n_cols: n,
    }
}
