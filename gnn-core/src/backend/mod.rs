//! Matrices on a device, and the operations that models and strategies ask of it.
//!
//! One call is one matrix, so the seam is `dyn`. [`Cpu`] runs the kernels; [`Metered`] wraps any
//! backend and tells the meter what each call was and how long it took.
//!
//! A [`Mat`] lives on its backend's device and is made by it; only numbers that leave the device
//! (messages, logits, losses) are downloaded. Lists and sparse matrices that do not change
//! ([`Kept`], [`Sparse`]) are host data of which a device keeps a copy.

mod calls;
mod cpu;
mod cuda;
mod hollow;
mod lack;
mod mat;
mod metered;
mod on_host;
mod ops;
mod pages;
mod profiled;
mod shelf;

pub use cpu::Cpu;
pub use cuda::Cuda;
pub use gnn_data::kept::{Kept, Slot, Sparse};
pub use hollow::{Asked, Hollow, Ledger};
pub use lack::lack_of_memory;
pub use mat::Mat;
pub use metered::Metered;
pub use ops::{
    Act, Attended, Attention, AttentionDropout, AttentionSums, BothWays, Coefficients, Corner,
    Dropout, Gate, MultiTarget, Normed, Operand, Picked, Product, Projected, ScoreTerm,
    SourceGradients, Summed, Target, Term, Then, Typed, Write,
};
pub(crate) use pages::prefer_huge;
pub use profiled::{Call, Gathered, Listed, Profiled};

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::Meter;
use kernels::Par;
use kernels::adam::AdamParams;
use kernels::cuda::{Device, Mark};
use kernels::pairs::Pairs;
use kernels::sgd::SgdParams;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Refuses a device that this machine does not have, before anything starts.
///
/// # Errors
/// [`Error::Spec`] with what is missing and what to do.
pub fn check(device: &str) -> Result<()> {
    match device {
        "cuda" => kernels::cuda::gpus().map(|_| ()).map_err(|e| no_cuda(&e)),
        _ => Ok(()),
    }
}

fn no_cuda(e: &kernels::cuda::Error) -> Error {
    Error::Spec {
        key: "backend".into(),
        reason: format!("cuda: {e}"),
        help: "set backend = cpu to train on this machine's processor".into(),
    }
}

/// The device that `plan` asks for, its work told to `meter`; ranks of one machine take its GPUs in
/// turn.
///
/// # Errors
/// As [`check`].
pub fn open(plan: &Plan, rank: usize, meter: Rc<Meter>) -> Result<Box<dyn Backend>> {
    if plan.spec.backend != "cuda" {
        return Ok(Box::new(Metered::new(Cpu::new(plan.threads), meter)));
    }
    let open = || kernels::cuda::open(rank % kernels::cuda::gpus()?);
    let device = open().map_err(|e| no_cuda(&e))?;
    meter.has_device(&device);
    let cuda = Metered::new(Cuda::new(device), meter);
    Ok(Box::new(cuda.waiting(plan.spec.sync)))
}

/// Operations on matrices that live on one device.
pub trait Backend {
    /// Name of the device for the `device` column.
    fn device(&self) -> &str;

    /// This moment of the device's work, for a device that works on its own; none where a call
    /// returns when it is done.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// Nanoseconds of the device's time between two marks, waiting for the second.
    fn between(&self, _from: &Mark, _to: &Mark) -> u64 {
        0
    }

    /// Waits for the device, at the end of an epoch's timed part.
    fn settle(&self) {}

    /// Somebody sees to it that matrices take no more than so many bytes: idle buffers, which are kept for
    /// later ones, do not go beyond that either.
    fn limit(&self, _bytes: u64) {}

    /// Whether its matrices have elements.
    fn keeps_elements(&self) -> bool {
        true
    }

    /// Its memory, where that is not this process's.
    fn memory(&self) -> Option<&Arc<Device>> {
        None
    }

    /// Brings a sparse matrix to the device now, which its first use would do otherwise.
    fn prepare(&self, _a: &Sparse) {}

    /// A matrix with unspecified elements, for somebody who writes all of them.
    fn fresh(&self, rows: usize, cols: usize) -> Mat;

    /// A matrix of zeros.
    fn zeros(&self, rows: usize, cols: usize) -> Mat;

    /// Moves a matrix to the device.
    fn upload(&self, x: kernels::Mat) -> Mat;

    /// Makes a matrix of this shape and moves it to the device; where elements are not kept, it is not made.
    fn upload_made(&self, shape: (usize, usize), make: &dyn Fn() -> kernels::Mat) -> Mat {
        let x = make();
        assert_eq!(x.dim(), shape, "a matrix of the shape that was announced");
        self.upload(x)
    }

    /// Moves a matrix that is only read, its elements rounded to bfloat16, to the device. The device
    /// may store them in 16 bits; a backend that does not still rounds them.
    fn upload_rounded(&self, mut x: kernels::Mat) -> Mat {
        kernels::spmm_bf16::round_in_place(&Par::new(1), &mut x);
        self.upload(x)
    }

    /// A matrix that is only read, and that other threads of the rank read in this process's memory.
    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        self.upload(kernels::Mat::clone(x))
    }

    /// `x` where it lies, in this process's memory, to be read by the device; nobody writes it.
    ///
    /// # Errors
    /// What the device says where it refuses.
    fn mapped(&self, x: &Arc<kernels::Mat>) -> std::result::Result<Mat, kernels::cuda::Error> {
        Ok(self.share(x))
    }

    /// A copy of `x` in this process's memory.
    fn download(&self, x: &Mat) -> kernels::Mat;

    /// `x` in this process's memory, without a copy where it is there.
    fn take(&self, x: Mat) -> kernels::Mat {
        self.download(&x)
    }

    /// Keeps what [`Backend::take`] gave, and nobody reads any more, for later matrices. Freed instead,
    /// small pieces would be cut from it, and the next epoch's would need another place.
    fn give_back(&self, x: kernels::Mat) {
        drop(x);
    }

    /// Writes (or adds) `Σ_e w_e · x[col_e, :]` to `out[r, :]` for `r` in `rows`, the other rows
    /// stay; `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, write: Write, out: &mut Mat);

    /// Writes (or adds) the sum of products `Σ op(a) · op(b)` to `out` and applies `then` to it.
    fn linear(&self, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat);

    /// Whether [`Operand::Made`] is better than rows that are written first, for left operands of `k`
    /// columns together and `n` columns.
    fn makes_rows(&self, k: usize, n: usize) -> bool {
        let _ = (k, n);
        false
    }

    /// `xᵀ · g` of every left operand `x: [m, k]` of `xs` to one of `gws`, `[k, n]` each, and the column
    /// sums of `g: [m, n]` to `gb: [1, n]`.
    fn weight_gradients(&self, xs: &[&Mat], g: Operand<'_>, gws: &mut [Mat], gb: Option<&mut Mat>);

    /// Sparse rows times a dense matrix: `a: [m, k]`, `b: [k, n]`, `out: [m, n]`; `values: [1, E]`
    /// stand in for those of `a`. Counted as a dense layer, not as aggregation.
    fn sparse_gemm(&self, a: &Sparse, values: Option<&Mat>, b: &Mat, write: Write, out: &mut Mat);

    /// Whether [`Backend::sparse_gemm_t`] of rows of `k` columns with `n` columns of `g` reads their transposed.
    fn reads_cols(&self, k: usize, n: usize) -> bool {
        let _ = (k, n);
        true
    }

    /// `xᵀ · g` of sparse rows: `x: [m, k]`, `g: [m, n]`, `out: [k, n]`. Counted as a dense layer.
    fn sparse_gemm_t(&self, x: BothWays<'_>, g: &Mat, out: &mut Mat) {
        self.sparse_gemm(x.columns(), x.col_values, g, Write::Set, out);
    }

    /// Values `[1, E]` of the sparse rows `a: [n, d]` after dropout; with `transposed`, `a: [d, n]`
    /// holds the columns of such rows.
    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, transposed: bool) -> Mat;

    /// Applies `then` to `x: [n, d]`.
    fn then(&self, then: Then<'_>, x: &mut Mat);

    /// `out = then(x)`, of the shape of `x`.
    fn then_of(&self, then: Then<'_>, x: &Mat, out: &mut Mat) {
        self.copy_block(x, Corner::at(0), x.dim(), out, Corner::at(0));
        self.then(then, out);
    }

    /// `y = alpha · x + beta · y`, both `[n, d]`.
    fn axpby(&self, alpha: f32, x: &Mat, beta: f32, y: &mut Mat);

    /// The sum of `a · b` over all elements, both `[n, d]`, into `out: [1, 1]`.
    fn dot(&self, a: &Mat, b: &Mat, out: &mut Mat);

    /// LayerNorm of every row of `x: [n, d]`, times `gain: [1, d]` plus `shift: [1, d]`, into
    /// `out: [n, d]`; mean and one over the standard deviation of each row into `stats: [n, 2]`.
    fn layer_norm(&self, x: &Mat, gain: &Mat, shift: &Mat, stats: &mut Mat, out: &mut Mat);

    /// From `g: [n, d]`, the gradient of LayerNorm's output, its input's into `gx: [n, d]`, the
    /// gain's and the shift's into rows `[1, d]`.
    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        g: &Mat,
        gx: &mut Mat,
        gain: &mut Mat,
        shift: &mut Mat,
    );

    /// Attention scores of the rows in `rows` by `vectors = (src, dst)`, the others stay: `el[u, h] = ⟨z[u, h, :], src[h, :]⟩`
    /// and, with `dst`, `er` of the same rows likewise; `z: [n, heads · width]`,
    /// `src, dst: [heads, width]`, `el, er: [.., heads]`.
    fn attention_scores(
        &self,
        z: &Mat,
        vectors: (&Mat, Option<&Mat>),
        rows: Range<usize>,
        el: &mut Mat,
        er: &mut Mat,
    );

    /// Softmax-weighted sums over the in-edges of the destinations in `rows`, the others stay. A row without
    /// edges gets zeros.
    fn attention(
        &self,
        a: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        from: Projected<'_>,
        to: AttentionSums<'_>,
    );

    /// `c[v, h] = ⟨g[v, h, :], out[v, h, :]⟩` and the gradient of the destinations' scores, `der[v, h] = (1 − slope)
    /// · (⟨g[v, h, :], positive[v, h, :]⟩ − c[v, h] · share[v, h])`; `g: [n_dst, heads · width]`, `c, der: [n_dst,
    /// heads]`.
    fn attention_destinations(
        &self,
        slope: f32,
        g: &Mat,
        sums: Summed<'_>,
        c: &mut Mat,
        der: &mut Mat,
    );

    /// Attention's backward to the sources in `rows`, the others stay; `at` is the transposed.
    fn attention_sources(
        &self,
        at: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        saved: Attended<'_>,
        to: SourceGradients<'_>,
    );

    /// Adds every term's `ds[u, h] · a[h, :]` to `dz[u, h, :]` and writes
    /// `da[h, :] = Σ_u ds[u, h] · z[u, h, :]`; `z, dz: [n, heads · width]`.
    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat);

    /// `out[v] = Σ_e w_e Σ_b coef[type_e, b] · x[col_e, b·d..(b+1)·d]` for `v` in `rows`, the others
    /// stay; `x: [n, bases · d]`, `out: [m, d]`.
    fn relation_spmm(&self, edges: Typed<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat);

    /// Its adjoint: `out[u, b·d..(b+1)·d] = Σ_e w_e coef[type_e, b] · g[col_e]` over the transposed
    /// `edges` of `u` in `rows`; `g: [m, d]`, `out: [n, bases · d]`.
    fn relation_spmm_t(&self, edges: Typed<'_>, rows: Range<usize>, g: &Mat, out: &mut Mat);

    /// The gradient of `coef`: `out[r, b] = Σ_e w_e ⟨g[row_e], x[col_e, b·d..(b+1)·d]⟩` over the
    /// edges of relation `r`; `out: [relations, bases]`.
    fn relation_gradient(&self, edges: Typed<'_>, x: &Mat, g: &Mat, out: &mut Mat);

    /// [`Backend::spmm`] with `values: [1, edges]` in the place of those of `a`; writes.
    fn spmm_values(&self, a: &Sparse, values: &Mat, rows: Range<usize>, x: &Mat, out: &mut Mat);

    /// `out[e] = ⟨p[row_e, :], q[col_e, :]⟩`: the gradient of an edge's value; `a: [m, n]`,
    /// `p: [m, d]`, `q: [n, d]`, `out: [1, edges]`.
    fn edge_dots(&self, a: &Sparse, p: &Mat, q: &Mat, out: &mut Mat);

    /// `out = values` after dropout with a key and a probability, the mask that
    /// [`Backend::attention`] has for one head; row and column `k` of `a: [m, n]`, `m <= n`, are vertex
    /// `drop.ids[k]`; `values, out: [1, edges]`.
    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, values: &Mat, out: &mut Mat);

    /// Softmax over each row's edges of LeakyReLU of the sum of both ends' scores;
    /// `a: [m, n]`, `el: [n, 1]`, `er: [m, 1]`, `alpha: [1, edges]`.
    fn coefficients(&self, a: &Sparse, slope: f32, el: &Mat, er: &Mat, alpha: &mut Mat);

    /// The gradient of both ends' scores into `to = (del: [n, 1], der: [m, 1])` from that of the
    /// coefficients, `dalpha: [1, edges]`.
    fn coefficients_backward(
        &self,
        a: &Sparse,
        slope: f32,
        made: Coefficients<'_>,
        dalpha: &Mat,
        to: (&mut Mat, &mut Mat),
    );

    /// Sums of the columns of `g: [n, d]` into `out: [1, d]`.
    fn column_sums(&self, g: &Mat, out: &mut Mat);

    /// A rectangle of `n` rows and `width` columns of `x` to a place in `out`, the rest of which
    /// stays: what a rank does between rows and columns.
    fn copy_block(
        &self,
        x: &Mat,
        from: Corner<'_>,
        size: (usize, usize),
        out: &mut Mat,
        to: Corner<'_>,
    );

    /// `out[rows[i], :] += g[i, :]`, in the order of `i`.
    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, out: &mut Mat);

    /// Writes the gradient of the mean softmax cross-entropy into `grad: [n, c]` (zero outside the
    /// mask) and returns the unscaled sum of the losses.
    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64;

    /// Writes the gradient of the mean sigmoid cross-entropy into `grad: [n, c]` (zero outside the
    /// mask) and returns the unscaled sum of the losses.
    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, grad: &mut Mat) -> f64;

    /// `out[e, :] = z[u, :] · z[v, :]`, element by element, for each pair; `z: [n, d]`,
    /// `out: [pairs, d]`.
    fn pair_products(&self, pairs: &Pairs, z: &Mat, out: &mut Mat);

    /// The gradient of the rows `z: [n, d]` into `g: [n, d]`, from that of their products
    /// `gp: [pairs, d]`.
    fn pair_products_backward(&self, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat);

    /// One step of gradient descent on `w` with gradient `g`; the `velocity`, zero before the first
    /// step, is there with momentum. All of one shape.
    fn sgd(&self, sgd: SgdParams, w: &mut Mat, g: &Mat, velocity: Option<&mut Mat>);

    /// Step `t`, counted from 1, of Adam or AdamW on `w` with gradient `g` and moments `m`, `v`,
    /// zero before the first step; all of one shape.
    fn adam(&self, adam: AdamParams, t: u64, w: &mut Mat, g: &Mat, m: &mut Mat, v: &mut Mat);
}
