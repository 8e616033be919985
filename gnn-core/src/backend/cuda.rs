//! The CUDA backend: the kernels' twins on one device.
//!
//! Calls return before the device is done; only what leaves it (downloads, losses) waits. Graphs and
//! lists are copied to the device at first use and stay there with their owners.
//!
//! # Not done
//! Blocks of mini-batches are put together by the host. What its threads fetch of other ranks (letters) and gradients for parameter servers are staged through host
//! memory; other messages are where ranks share a device, or where there is no NCCL.

mod kept;
#[cfg(test)]
mod tests;

use super::ops::{
    Act, Attended, Attention, AttentionSums, Coefficients, Corner, Dropout, LAYER_NORM_EPS,
    MultiTarget, Normed, Operand, Picked, Product, Projected, ScoreTerm, SourceGradients, Summed,
    Target, Term, Then, Typed, Write,
};
use super::{Backend, Kept, Mat, Sparse, lack};
use kernels::adam::AdamParams;
use kernels::cuda::ops::{
    ActOn, AttentionOn, CornerOn, DropOn, DropoutOn, GateOn, PickedOn, Reduce, ThenOn, TypesOn,
};
use kernels::cuda::{Device, Error, Mark, ops};
use kernels::pairs::Pairs;
use kernels::sgd::SgdParams;
use std::ops::Range;
use std::sync::Arc;

/// Kernels on one GPU, or on whatever else executes them.
pub struct Cuda {
    device: Arc<Device>,
}

impl Cuda {
    /// A backend on `device`.
    pub fn new(device: Arc<Device>) -> Cuda {
        Cuda { device }
    }

    fn make(&self, rows: usize, cols: usize) -> Mat {
        let made = self.device.try_fresh(rows * cols);
        let made = made.unwrap_or_else(|e| lack::end(e, || format!("a matrix of {rows} × {cols}")));
        Mat::on_device(rows, cols, made)
    }

    fn types<'a>(&self, edges: &Typed<'a>) -> TypesOn<'a> {
        TypesOn {
            types: self.relations(edges.types),
            coef: edges.coef.buf(),
            bases: edges.coef.ncols(),
        }
    }

    fn corner<'a>(&self, corner: &Corner<'a>, x: &Mat) -> CornerOn<'a> {
        CornerOn {
            rows: match corner.rows {
                Picked::From(first) => PickedOn::From(first),
                Picked::List(list) => PickedOn::List(self.ids(list), self.bound(list)),
            },
            col: corner.col,
            d: x.ncols(),
        }
    }

    fn steps<'a>(&self, then: &Then<'a>) -> ThenOn<'a> {
        ThenOn {
            bias: then.bias.map(Mat::buf),
            act: act(then.act),
            dropout: then.dropout.map(|d| DropoutOn {
                key: d.key,
                ids: self.ids(d.ids),
                p: d.p,
            }),
            gate: then.gate.map(|g| GateOn {
                y: g.y.buf(),
                act: act(g.act),
                scale: g.scale,
            }),
        }
    }

    fn attention_on<'a>(&self, att: &Attention<'a>, columns: usize) -> AttentionOn<'a> {
        AttentionOn {
            heads: att.heads,
            dim: columns / att.heads,
            slope: att.slope,
            dropout: att.dropout.map(|d| DropOn {
                key: d.key,
                p: d.p,
                // The destinations are the first sources.
                dst_ids: self.ids(d.ids),
                src_ids: self.ids(d.ids),
            }),
        }
    }
}

fn act(act: Act) -> ActOn {
    match act {
        Act::None => ActOn::None,
        Act::Relu => ActOn::Relu,
        Act::Elu => ActOn::Elu,
    }
}

/// What becomes of the sums of a sparse product.
fn reduce(write: Write) -> Reduce {
    match write {
        Write::Set => Reduce::Sum,
        Write::Add => Reduce::Add,
    }
}

impl Backend for Cuda {
    fn device(&self) -> &str {
        self.device.name()
    }

    fn mark(&self) -> Option<Mark> {
        Some(self.device.mark())
    }

    fn between(&self, from: &Mark, to: &Mark) -> u64 {
        self.device.between(from, to)
    }

    fn settle(&self) {
        self.device.finish();
    }

    fn memory(&self) -> Option<&Arc<Device>> {
        Some(&self.device)
    }

    fn prepare(&self, a: &Sparse) {
        self.sparse(a);
    }

    fn fresh(&self, rows: usize, cols: usize) -> Mat {
        self.make(rows, cols)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Mat {
        Mat::on_device(rows, cols, self.device.zeros(rows * cols))
    }

    fn upload(&self, x: kernels::Mat) -> Mat {
        let (rows, cols) = x.dim();
        let x = x.as_standard_layout();
        let data = x.as_slice().expect("made standard one line above");
        Mat::on_device(rows, cols, self.device.upload(data))
    }

    fn share(&self, x: &Arc<kernels::Mat>) -> Mat {
        match x.as_slice() {
            Some(data) => Mat::on_device(x.nrows(), x.ncols(), self.device.upload(data)),
            None => self.upload(kernels::Mat::clone(x)),
        }
    }

    fn mapped(&self, x: &Arc<kernels::Mat>) -> Result<Mat, Error> {
        let data = self.device.mapped(x)?;
        Ok(Mat::on_device(x.nrows(), x.ncols(), data))
    }

    fn download(&self, x: &Mat) -> kernels::Mat {
        let data = kernels::Mat::from_shape_vec(x.dim(), x.buf().download());
        data.expect("as many elements as the matrix has")
    }

    fn spmm(&self, a: &Sparse, rows: Range<usize>, x: &Mat, write: Write, out: &mut Mat) {
        let (a, d) = (self.sparse(a), x.ncols());
        ops::spmm(a, None, rows, x.buf(), d, reduce(write), out.buf_mut());
    }

    fn linear(&self, terms: &[Term<'_>], write: Write, then: Then<'_>, out: &mut Mat) {
        if terms.is_empty() && write == Write::Set {
            *out = self.zeros(out.nrows(), out.ncols());
        }
        for (k, term) in terms.iter().enumerate() {
            let beta = if k > 0 || write == Write::Add {
                1.0
            } else {
                0.0
            };
            let (m, n) = term.dim();
            assert_eq!((m, n), out.dim(), "linear: shapes of a product and its sum");
            let (left, right) = (Product::LeftT, Product::RightT);
            let transposed = [term.product == left, term.product == right];
            let (rows, columns) = term.a.dim();
            let k = if transposed[0] { rows } else { columns };
            let (a, b) = (term.a.buf(), term.b.buf());
            ops::gemm(transposed, [m, n, k], a, b, beta, out.buf_mut());
        }
        self.then(then, out);
    }

    fn weight_gradients(&self, xs: &[&Mat], g: Operand<'_>, gws: &mut [Mat], gb: Option<&mut Mat>) {
        let made;
        let g = match g {
            Operand::Held(g) => g,
            Operand::Made { terms, then } => {
                let (rows, cols) = g.dim();
                let mut out = self.make(rows, cols);
                self.linear(terms, Write::Set, then, &mut out);
                made = out;
                &made
            }
        };
        for (x, gw) in xs.iter().zip(gws) {
            let shape = [x.ncols(), g.ncols(), x.nrows()];
            ops::gemm([true, false], shape, x.buf(), g.buf(), 0.0, gw.buf_mut());
        }
        if let Some(gb) = gb {
            self.column_sums(g, gb);
        }
    }

    fn sparse_gemm(&self, a: &Sparse, values: Option<&Mat>, b: &Mat, write: Write, out: &mut Mat) {
        let (on, d) = (self.sparse(a), b.ncols());
        let (rows, values) = (0..a.rows(), values.map(Mat::buf));
        ops::spmm(on, values, rows, b.buf(), d, reduce(write), out.buf_mut());
    }

    fn sparse_dropout(&self, drop: Dropout<'_>, a: &Sparse, transposed: bool) -> Mat {
        let mut values = self.make(1, a.n_edges());
        let (on, ids) = (self.sparse(a), self.ids(drop.ids));
        ops::sparse_dropout(on, transposed, drop.key, ids, drop.p, values.buf_mut());
        values
    }

    fn then(&self, then: Then<'_>, x: &mut Mat) {
        let (n, d) = x.dim();
        ops::then(&self.steps(&then), n, d, x.buf_mut());
    }

    fn axpby(&self, alpha: f32, x: &Mat, beta: f32, y: &mut Mat) {
        assert_eq!(x.dim(), y.dim(), "axpby: shapes of x and y");
        ops::axpby(alpha, x.buf(), beta, y.buf_mut());
    }

    fn dot(&self, a: &Mat, b: &Mat, out: &mut Mat) {
        ops::dot(a.buf(), b.buf(), out.buf_mut());
    }

    fn layer_norm(&self, x: &Mat, gain: &Mat, shift: &Mat, stats: &mut Mat, out: &mut Mat) {
        let (x, gain, shift) = (x.buf(), gain.buf(), shift.buf());
        ops::layer_norm(
            x,
            gain,
            shift,
            LAYER_NORM_EPS,
            out.buf_mut(),
            stats.buf_mut(),
        );
    }

    fn layer_norm_backward(
        &self,
        normed: Normed<'_>,
        g: &Mat,
        gx: &mut Mat,
        gain: &mut Mat,
        shift: &mut Mat,
    ) {
        let d = g.ncols();
        let mut params = self.device.fresh(2 * d);
        let (x, weight, stats) = (normed.x.buf(), normed.gain.buf(), normed.stats.buf());
        ops::layer_norm_backward(x, g.buf(), weight, stats, gx.buf_mut(), &mut params);
        gain.buf_mut().copy_from(0, &params, 0, d);
        shift.buf_mut().copy_from(0, &params, d, d);
    }

    fn attention_scores(
        &self,
        z: &Mat,
        (src, dst): (&Mat, Option<&Mat>),
        rows: Range<usize>,
        el: &mut Mat,
        er: &mut Mat,
    ) {
        let (heads, dim) = src.dim();
        ops::head_dots(heads, dim, rows.clone(), z.buf(), src.buf(), el.buf_mut());
        if let Some(dst) = dst {
            ops::head_dots(heads, dim, rows, z.buf(), dst.buf(), er.buf_mut());
        }
    }

    fn attention(
        &self,
        a: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        from: Projected<'_>,
        to: AttentionSums<'_>,
    ) {
        let (on, att) = (self.sparse(a), self.attention_on(&att, from.z.ncols()));
        let from = [from.z, from.el, from.er].map(Mat::buf);
        let to = ops::GatSums {
            lse: to.lse.buf_mut(),
            out: to.out.buf_mut(),
            positive: to
                .positive
                .map(|(out, share)| (out.buf_mut(), share.buf_mut())),
        };
        ops::gat_forward(on, rows, &att, from, to);
    }

    fn attention_destinations(
        &self,
        slope: f32,
        g: &Mat,
        sums: Summed<'_>,
        c: &mut Mat,
        der: &mut Mat,
    ) {
        let heads = [c.ncols(), g.ncols() / c.ncols().max(1)];
        let sums = [sums.out, sums.positive, sums.share].map(Mat::buf);
        let (c, der) = (c.buf_mut(), der.buf_mut());
        ops::gat_destinations(heads, slope, g.buf(), sums, c, der);
    }

    fn attention_sources(
        &self,
        at: &Sparse,
        rows: Range<usize>,
        att: Attention<'_>,
        saved: Attended<'_>,
        to: SourceGradients<'_>,
    ) {
        let (on, att) = (
            self.sparse(at),
            self.attention_on(&att, saved.from.z.ncols()),
        );
        let read = [saved.from.el, saved.from.er, saved.lse, saved.c].map(Mat::buf);
        let (z, g) = (saved.from.z.buf(), saved.g.buf());
        let (dz, del) = (to.dz.buf_mut(), to.del.buf_mut());
        ops::gat_source_pass(on, rows, &att, z, read, g, dz, del);
    }

    fn score_backward(&self, z: &Mat, terms: &mut [ScoreTerm<'_>], dz: &mut Mat) {
        for term in terms {
            let (heads, dim) = term.a.dim();
            ops::head_outer_add(heads, dim, term.ds.buf(), term.a.buf(), dz.buf_mut());
            ops::head_gradient(heads, dim, term.ds.buf(), z.buf(), term.da.buf_mut());
        }
    }

    fn relation_spmm(&self, edges: Typed<'_>, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let (on, types, d) = (self.sparse(edges.a), self.types(&edges), out.ncols());
        ops::rspmm(on, rows, types, x.buf(), d, out.buf_mut());
    }

    fn relation_spmm_t(&self, edges: Typed<'_>, rows: Range<usize>, g: &Mat, out: &mut Mat) {
        let (on, types, d) = (self.sparse(edges.a), self.types(&edges), g.ncols());
        ops::rspmm_t(on, rows, types, g.buf(), d, out.buf_mut());
    }

    fn relation_gradient(&self, edges: Typed<'_>, x: &Mat, g: &Mat, out: &mut Mat) {
        let (count, bases) = out.dim();
        let by = self.by_relation(edges.a, edges.types, count);
        let on = self.sparse(edges.a);
        ops::rspmm_coef(on, by, bases, x.buf(), g.buf(), g.ncols(), out.buf_mut());
    }

    fn spmm_values(&self, a: &Sparse, values: &Mat, rows: Range<usize>, x: &Mat, out: &mut Mat) {
        let (on, d) = (self.sparse(a), x.ncols());
        let values = Some(values.buf());
        ops::spmm(on, values, rows, x.buf(), d, Reduce::Sum, out.buf_mut());
    }

    fn edge_dots(&self, a: &Sparse, p: &Mat, q: &Mat, out: &mut Mat) {
        let (on, d) = (self.sparse(a), p.ncols());
        ops::sddmm(on, 1, d, p.buf(), q.buf(), out.buf_mut());
    }

    fn edge_dropout(&self, a: &Sparse, drop: Dropout<'_>, values: &Mat, out: &mut Mat) {
        let (on, ids) = (self.sparse(a), self.ids(drop.ids));
        ops::edge_dropout(on, drop.key, ids, drop.p, values.buf(), out.buf_mut());
    }

    fn coefficients(&self, a: &Sparse, slope: f32, el: &Mat, er: &Mat, alpha: &mut Mat) {
        let on = self.sparse(a);
        ops::coefficients(on, slope, el.buf(), er.buf(), alpha.buf_mut());
    }

    fn coefficients_backward(
        &self,
        a: &Sparse,
        slope: f32,
        made: Coefficients<'_>,
        dalpha: &Mat,
        to: (&mut Mat, &mut Mat),
    ) {
        let (on, columns) = (self.sparse(a), self.columns(a));
        let [el, er, alpha] = [made.el, made.er, made.alpha].map(Mat::buf);
        let made = ops::Made { el, er, alpha };
        let to = (to.0.buf_mut(), to.1.buf_mut());
        ops::coefficients_backward(on, columns, slope, made, dalpha.buf(), to);
    }

    fn column_sums(&self, g: &Mat, out: &mut Mat) {
        ops::column_sums(g.nrows(), g.ncols(), g.buf(), out.buf_mut());
    }

    fn copy_block(
        &self,
        x: &Mat,
        from: Corner<'_>,
        size: (usize, usize),
        out: &mut Mat,
        to: Corner<'_>,
    ) {
        if let (Picked::From(first), Picked::From(to)) = (from.rows, to.rows)
            && (size.1, size.1) == (x.ncols(), out.ncols())
        {
            let d = size.1;
            return out
                .buf_mut()
                .copy_from(to * d, x.buf(), first * d, size.0 * d);
        }
        let (from, to) = (self.corner(&from, x), self.corner(&to, out));
        ops::copy_block(x.buf(), from, size, out.buf_mut(), to);
    }

    fn scatter_add_rows(&self, g: &Mat, rows: &Kept<u32>, out: &mut Mat) {
        ops::scatter_add(g.buf(), self.moves(rows), g.ncols(), out.buf_mut());
    }

    fn softmax_xent(&self, logits: &Mat, target: Target<'_>, grad: &mut Mat) -> f64 {
        let (on, mask) = (self.labels(target.labels), self.mask(target.mask));
        ops::softmax_xent(logits.buf(), on, mask, target.scale, grad.buf_mut())
    }

    fn sigmoid_bce(&self, logits: &Mat, target: MultiTarget<'_>, grad: &mut Mat) -> f64 {
        let (on, mask) = (self.labels(target.labels), self.mask(target.mask));
        ops::sigmoid_bce(logits.buf(), on, mask, target.scale, grad.buf_mut())
    }

    fn pair_products(&self, pairs: &Pairs, z: &Mat, out: &mut Mat) {
        ops::pair_products(pairs, z.buf(), z.ncols(), out.buf_mut());
    }

    fn pair_products_backward(&self, pairs: &Pairs, z: &Mat, gp: &Mat, g: &mut Mat) {
        ops::pair_products_backward(pairs, z.buf(), gp.buf(), z.ncols(), g.buf_mut());
    }

    fn sgd(&self, sgd: SgdParams, w: &mut Mat, g: &Mat, velocity: Option<&mut Mat>) {
        ops::sgd(sgd, w.buf_mut(), g.buf(), velocity.map(Mat::buf_mut));
    }

    fn adam(&self, adam: AdamParams, t: u64, w: &mut Mat, g: &Mat, m: &mut Mat, v: &mut Mat) {
        let (m, v) = (m.buf_mut(), v.buf_mut());
        ops::adam(adam, t, w.buf_mut(), g.buf(), m, v);
    }
}
