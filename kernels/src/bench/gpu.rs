//! The CUDA kernels on an R-MAT graph, beside the GPU's own copy bandwidth. Times are the device's own.

use crate::cuda::ops::{self, AttentionOn, GatSums, Reduce};
use crate::cuda::{Buf, Device, SparseOn};
use crate::{CsrBuf, Mat, Par, hash};
use std::sync::Arc;

/// Widths that sums of rows are timed with.
const WIDTHS: [usize; 3] = [32, 128, 256];

/// A kernel's time.
#[derive(Clone, Debug, PartialEq)]
pub struct OnGpu {
    /// The kernel and its shape.
    pub kernel: String,
    /// Milliseconds, the median.
    pub ms: f64,
    /// Compulsory bytes.
    pub bytes: f64,
    /// Bytes of the rows that edges read, most of them from caches.
    pub gathered: f64,
    /// The largest difference from the CPU's kernel over the largest number, where that was computed.
    pub off: Option<f64>,
}

/// What was timed.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuKernels {
    /// Vertices of the graph.
    pub vertices: usize,
    /// Its edges.
    pub edges: usize,
    /// Gigabytes a second that the device's own copy reads and writes.
    pub copy: f64,
    /// The kernels.
    pub lines: Vec<OnGpu>,
}

/// Times the kernels on an R-MAT graph of `2^scale` vertices and edge factor 16; `told` hears what comes next.
///
/// # Panics
/// When the device fails, or has no memory for it.
pub fn gpu_kernels(device: &Arc<Device>, scale: u32, told: &mut dyn FnMut(&str)) -> GpuKernels {
    told("an R-MAT graph");
    let a = rmat(scale, 16);
    let (n, edges) = (a.rows(), a.indices.len());
    let graph = (8 * (n + 1) + 4 * edges) as f64;
    told("copies");
    let copy = copy_bandwidth(device, n);
    let mut lines = Vec::new();
    let mut line = |kernel: String, ms: f64, bytes: f64, width: usize, off: Option<f64>| {
        let gathered = (4 * edges * width) as f64;
        lines.push(OnGpu {
            kernel,
            ms,
            bytes,
            gathered,
            off,
        });
    };
    let (on, t) = (SparseOn::new(device, a.view()), a.view().transpose());
    let on_t = SparseOn::new(device, t.view());
    for d in WIDTHS {
        told(&format!("sums of rows of {d}"));
        let x = matrix(n, d, 1);
        let (xs, mut out) = (upload(device, &x), device.fresh(n * d));
        let ms = time(device, || {
            ops::spmm(&on, None, 0..n, &xs, d, Reduce::Sum, &mut out)
        });
        let mut want = Mat::zeros((n, d));
        crate::spmm::spmm_into(&Par::new(1), a.view(), 0..n, &x, &mut want);
        let off = off(&out.download(), &want);
        let bytes = graph + (8 * n * d) as f64;
        line(format!("sums of rows of {d}"), ms, bytes, d, Some(off));
    }

    told("attention");
    let (heads, dim) = (8, 32);
    let width = heads * dim;
    let att = AttentionOn {
        heads,
        dim,
        slope: 0.2,
        dropout: None,
    };
    let [z, g] = [1, 2].map(|seed| upload(device, &matrix(n, width, seed)));
    let [el, er] = [3, 4].map(|seed| upload(device, &matrix(n, heads, seed)));
    let (mut lse, mut out) = (device.fresh(n * heads), device.fresh(n * width));
    let (mut above, mut share) = (device.fresh(n * width), device.fresh(n * heads));
    let ms = time(device, || {
        let to = GatSums {
            lse: &mut lse,
            out: &mut out,
            positive: Some((&mut above, &mut share)),
        };
        ops::gat_forward(&on, 0..n, &att, [&z, &el, &er], to);
    });
    let bytes = graph + (12 * n * width + 16 * n * heads) as f64;
    let name = "attention, 8 heads of 32, forward".into();
    line(name, ms, bytes, width + 2 * heads, None);
    let [mut c, mut der] = [0; 2].map(|_| device.fresh(n * heads));
    let sums = [&out, &above, &share];
    ops::gat_destinations([heads, dim], att.slope, &g, sums, &mut c, &mut der);
    let (mut dz, mut del) = (device.fresh(n * width), device.fresh(n * heads));
    let ms = time(device, || {
        let read = [&el, &er, &lse, &c];
        ops::gat_source_pass(&on_t, 0..n, &att, &z, read, &g, &mut dz, &mut del);
    });
    let bytes = graph + (12 * n * width + 20 * n * heads) as f64;
    let name = "attention, 8 heads of 32, backward".into();
    line(name, ms, bytes, width + 3 * heads, None);

    told("a dense layer");
    let d = 128;
    let (w, x) = (matrix(d, d, 5), matrix(n, d, 6));
    let (ws, xs) = (upload(device, &w), upload(device, &x));
    let mut out = device.fresh(n * d);
    let ms = time(device, || {
        ops::gemm([false; 2], [n, d, d], &xs, &ws, 0.0, &mut out)
    });
    let off = off(&out.download(), &x.dot(&w));
    let name = "dense layer, 128 to 128".into();
    line(name, ms, (8 * n * d) as f64, 0, Some(off));
    GpuKernels {
        vertices: n,
        edges,
        copy,
        lines,
    }
}

/// The largest difference over the largest number; infinite where there is one that is no number.
fn off(got: &[f32], want: &Mat) -> f64 {
    let largest = want.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let apart = got.iter().zip(want).map(|(g, w)| match (g - w).abs() {
        apart if apart.is_nan() => f64::INFINITY,
        apart => f64::from(apart / largest),
    });
    apart.fold(0.0, f64::max)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Shim;

    #[test]
    fn every_line_has_a_time_and_what_was_checked_is_right() {
        let Ok(shim) = Shim::open(false) else {
            eprintln!("skip: no C++ compiler");
            return;
        };
        let device = Device::new(Box::new(shim));
        let mut heard = 0;
        let all = gpu_kernels(&device, 6, &mut |_| heard += 1);
        assert_eq!((all.vertices, all.edges, all.lines.len()), (64, 1024, 6));
        assert!(heard >= 6 && all.copy > 0.0);
        for line in &all.lines {
            assert!(line.ms > 0.0 && line.bytes > 0.0, "{line:?}");
            assert!(line.off.is_none_or(|off| off < 1e-5), "{line:?}");
        }
        assert_eq!(all.lines.iter().filter(|l| l.off.is_some()).count(), 4);
        // Wherever it stands.
        for got in [[f32::NAN, 1.0], [1.0, f32::NAN]] {
            assert_eq!(off(&got, &Mat::ones((1, 2))), f64::INFINITY);
        }
    }
}
