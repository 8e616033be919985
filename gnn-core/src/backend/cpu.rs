//! The CPU backend: kernels on this rank's threads.

use super::{Adam, Backend, Mat, Product, Target, Write};
use kernels::{Csr, Par};
use std::ops::Range;

/// Kernels on the threads of one rank.
pub struct Cpu {
    par: Par,
}

impl Cpu {
    /// A backend with `threads` threads.
    pub fn new(threads: usize) -> Cpu {
        Cpu {
            par: Par::new(threads),
        }
    }
}

impl Backend for Cpu {
    fn device(&self) -> &str {
        "cpu"
    }

    fn spmm(&self, a: Csr<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        kernels::spmm::spmm_into(&self.par, a, rows, x, out);
    }

    fn gemm(&self, product: Product, a: &Mat, b: &Mat, write: Write, out: &mut Mat) {
        let beta = if write == Write::Add { 1.0 } else { 0.0 };
        let (ta, tb) = (product == Product::LeftT, product == Product::RightT);
        kernels::gemm::gemm_into(&self.par, ta, tb, a, b, beta, out);
    }

    fn sparse_gemm(&self, a: Csr<'_>, b: &Mat, write: Write, out: &mut Mat) {
        if write == Write::Set {
            return kernels::spmm::spmm_into(&self.par, a, 0..a.rows(), b, out);
        }
        let mut product = Mat::zeros(out.raw_dim());
        kernels::spmm::spmm_into(&self.par, a, 0..a.rows(), b, &mut product);
        kernels::elementwise::axpy(&self.par, 1.0, &product, out);
    }

    fn bias(&self, x: &mut Mat, bias: &[f32], relu: bool) {
        if relu {
            kernels::elementwise::bias_relu(&self.par, x, bias);
        } else {
            kernels::elementwise::add_bias_into(&self.par, x, bias);
        }
    }

    fn relu_backward(&self, y: &Mat, g: &mut Mat) {
        kernels::elementwise::relu_backward(&self.par, y, g);
    }

    fn column_sums(&self, g: &Mat, out: &mut [f32]) {
        kernels::elementwise::column_sums_into(&self.par, g, out);
    }

    fn dropout(&self, key: u64, ids: &[u32], p: f32, x: &mut Mat) {
        kernels::dropout::dropout(&self.par, key, ids, p, x);
    }

    fn sparse_dropout(&self, key: u64, ids: &[u32], p: f32, a: Csr<'_>, out: &mut [f32]) {
        kernels::dropout::dropout_csr(&self.par, key, ids, p, &a, out);
    }

    fn sparse_dropout_t(&self, key: u64, ids: &[u32], p: f32, at: Csr<'_>, out: &mut [f32]) {
        kernels::dropout::dropout_csr_t(&self.par, key, ids, p, &at, out);
    }

    fn gather_rows(&self, x: &Mat, rows: &[u32], out: &mut Mat) {
        kernels::rows::gather_rows_into(&self.par, x, rows, out);
    }

    fn copy_rows(&self, x: &Mat, out: &mut Mat, first: usize) {
        out.slice_mut(ndarray::s![first..first + x.nrows(), ..])
            .assign(x);
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &[u32], out: &mut Mat) {
        kernels::rows::scatter_add_rows(&self.par, g, rows, out);
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        let Target {
            labels,
            mask,
            scale,
        } = target;
        kernels::loss::softmax_xent(&self.par, logits, labels, mask, scale, grad)
    }

    fn adam(&self, adam: Adam, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let params = kernels::adam::AdamParams {
            lr: adam.lr,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: adam.weight_decay,
        };
        kernels::adam::adam_step(&self.par, params, adam.step, w, g, m, v);
    }
}
