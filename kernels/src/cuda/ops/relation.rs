//! Aggregation by relation: `rspmm.cu`.

use super::spmm::{SET, combine};
use super::{WARPS, optional, word};
use crate::cuda::{Buf, Device, SparseOn};
use crate::{Csr, expect_eq};
use std::ops::Range;
use std::sync::Arc;

/// Edges of one run of [`ByType`] at most.
const RUN: usize = 256;

/// Types and coefficients of a block's edges.
#[derive(Clone, Copy, Debug)]
pub struct TypesOn<'a> {
    /// Type of each edge, in the order of the block: `[E]`.
    pub types: &'a Buf<u16>,
    /// `[types, bases]`.
    pub coef: &'a Buf<f32>,
    /// Number of bases.
    pub bases: usize,
}

/// Edges of a block in the order of their types, in runs of one type.
#[derive(Debug)]
pub struct ByType {
    order: Buf<u32>,
    run_first: Buf<u32>,
    row_of: Buf<u32>,
    /// First run of each type: `[types + 1]`.
    type_first: Buf<u32>,
    runs: usize,
    types: usize,
}

impl ByType {
    /// For the edges of `a`, of which edge `e` has type `types[e]`, below `n_types`.
    ///
    /// # Panics
    /// When there is not one type an edge.
    pub fn new(device: &Arc<Device>, a: Csr<'_>, types: &[u16], n_types: usize) -> ByType {
        expect_eq("rspmm", "types (one an edge)", a.n_edges(), types.len());
        let mut order: Vec<u32> = (0..types.len() as u32).collect();
        order.sort_by_key(|&e| types[e as usize]); // stable, so in the block's order within a type
        let (mut run_first, mut type_first) = (Vec::new(), vec![0u32]);
        let mut at = 0;
        for t in 0..n_types {
            let of = order[at..].partition_point(|&e| usize::from(types[e as usize]) <= t);
            run_first.extend((at..at + of).step_by(RUN).map(|k| k as u32));
            type_first.push(run_first.len() as u32);
            at += of;
        }
        expect_eq(
            "rspmm",
            "edges with types below the number of types",
            types.len(),
            at,
        );
        let runs = run_first.len();
        run_first.push(at as u32);
        let mut row_of = vec![0u32; types.len()];
        for r in 0..a.rows() {
            row_of[a.span(r)].fill(r as u32);
        }
        ByType {
            order: device.upload(&order),
            run_first: device.upload(&run_first),
            row_of: device.upload(&row_of),
            type_first: device.upload(&type_first),
            runs,
            types: n_types,
        }
    }
}

fn lanes(d: usize) -> usize {
    d.next_power_of_two().min(32)
}

/// `out[v] = Σ_e w_e Σ_b coef[type_e, b] · x[col_e, b·d..(b+1)·d]` for the rows in `rows`, the others
/// stay. `x: [n_cols, bases·d]`, `out: [rows, d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn rspmm(
    a: &SparseOn,
    rows: Range<usize>,
    on: TypesOn<'_>,
    x: &Buf<f32>,
    d: usize,
    out: &mut Buf<f32>,
) {
    expect_eq("rspmm", "types (one an edge)", a.n_edges(), on.types.len());
    expect_eq(
        "rspmm",
        "x with elements",
        a.n_cols() * on.bases * d,
        x.len(),
    );
    expect_eq("rspmm", "out with elements", a.rows() * d, out.len());
    let items = a.items("rspmm", rows);
    let partial = a.device().fresh::<f32>(items.pieces.len() * d);
    let mut args = a.args(&items).to_vec();
    args.extend([on.types.arg(), optional(a.weights()), on.coef.arg()]);
    args.extend([
        word("rspmm", on.bases),
        x.arg(),
        word("rspmm", d),
        word("rspmm", lanes(d)),
    ]);
    args.extend([partial.arg(), out.arg()]);
    let grid = [items.blocks(), d.div_ceil(lanes(d)), 1];
    // SAFETY: rspmm's arguments, shapes checked above; types are below the rows of `coef`, which
    // the block's maker checked.
    unsafe { a.device().launch("rspmm", grid, &args) };
    combine(a, &items, &partial, d, SET, out);
}

/// Backward of [`rspmm`] to `x`, over the transposed block `at: [n, m]` with types in its own order,
/// for the rows in `rows`, the others stay. `g: [m, d]`, `out: [n, bases·d]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn rspmm_t(
    at: &SparseOn,
    rows: Range<usize>,
    on: TypesOn<'_>,
    g: &Buf<f32>,
    d: usize,
    out: &mut Buf<f32>,
) {
    expect_eq(
        "rspmm_t",
        "types (one an edge)",
        at.n_edges(),
        on.types.len(),
    );
    expect_eq("rspmm_t", "g with elements", at.n_cols() * d, g.len());
    expect_eq(
        "rspmm_t",
        "out with elements",
        at.rows() * on.bases * d,
        out.len(),
    );
    let items = at.items("rspmm_t", rows);
    let width = on.bases * d;
    let partial = at.device().fresh::<f32>(items.pieces.len() * width);
    let mut args = at.args(&items).to_vec();
    args.extend([on.types.arg(), optional(at.weights()), on.coef.arg()]);
    args.extend([
        word("rspmm", on.bases),
        g.arg(),
        word("rspmm", d),
        word("rspmm", lanes(d)),
    ]);
    args.extend([partial.arg(), out.arg()]);
    let grid = [items.blocks(), d.div_ceil(lanes(d)), on.bases];
    // SAFETY: rspmm_t's arguments, shapes checked above.
    unsafe { at.device().launch("rspmm_t", grid, &args) };
    combine(at, &items, &partial, width, SET, out);
}

/// Gradient of the coefficients: `out[r, b] = Σ_{e of type r} w_e ⟨g[v], x[col_e, b·d..]⟩`, in the
/// order of the block within a type. `x: [n_cols, bases·d]`, `g: [rows, d]`, `out: [types, bases]`.
///
/// # Panics
/// When the shapes disagree or the device fails.
pub fn rspmm_coef(
    a: &SparseOn,
    by: &ByType,
    bases: usize,
    x: &Buf<f32>,
    g: &Buf<f32>,
    d: usize,
    out: &mut Buf<f32>,
) {
    expect_eq("rspmm_coef", "edges", a.n_edges(), by.order.len());
    expect_eq(
        "rspmm_coef",
        "x with elements",
        a.n_cols() * bases * d,
        x.len(),
    );
    expect_eq("rspmm_coef", "g with elements", a.rows() * d, g.len());
    expect_eq(
        "rspmm_coef",
        "out with elements",
        by.types * bases,
        out.len(),
    );
    let partial = a.device().fresh::<f32>(by.runs * bases);
    let mut args = vec![by.order.arg(), by.run_first.arg(), word("rspmm", by.runs)];
    args.extend([by.row_of.arg(), a.indices().arg(), optional(a.weights())]);
    args.extend([
        word("rspmm", bases),
        x.arg(),
        g.arg(),
        word("rspmm", d),
        partial.arg(),
    ]);
    // SAFETY: rspmm_coef's arguments, shapes checked above.
    unsafe {
        a.device()
            .launch("rspmm_coef", [by.runs.div_ceil(WARPS), bases, 1], &args)
    };
    let types = word("rspmm", by.types);
    let args = [
        by.type_first.arg(),
        types,
        word("rspmm", bases),
        partial.arg(),
        out.arg(),
    ];
    let grid = [(by.types * bases).div_ceil(super::THREADS as usize), 1, 1];
    // SAFETY: rspmm_coef_sum's arguments; the partials were written by the kernel above.
    unsafe { a.device().launch("rspmm_coef_sum", grid, &args) };
}
