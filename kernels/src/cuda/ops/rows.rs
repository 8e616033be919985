//! Moving rows, and dropout of sparse rows: `rows.cu`.

use super::{THREADS, optional, vector, word};
use crate::cuda::{Arg, Buf, Moves, SparseOn};
use crate::expect_eq;

/// Rows of a matrix on a device, in order.
#[derive(Clone, Copy, Debug)]
pub enum PickedOn<'a> {
    /// Those that follow each other from this one on.
    From(usize),
    /// These, all of them below the number beside them.
    List(&'a Buf<u32>, usize),
}

/// A corner of a rectangle in a matrix on a device: its rows, its first column, and how many columns the
/// matrix has.
#[derive(Clone, Copy, Debug)]
pub struct CornerOn<'a> {
    /// Its rows.
    pub rows: PickedOn<'a>,
    /// Its first column.
    pub col: usize,
    /// Columns of the matrix.
    pub d: usize,
}

impl CornerOn<'_> {
    /// The list, the first row without one, columns and first column.
    fn args(&self) -> [Arg; 4] {
        let (list, first) = match self.rows {
            PickedOn::From(first) => (Arg::U64(0), first),
            PickedOn::List(list, _) => (list.arg(), 0),
        };
        let [d, col] = [self.d, self.col].map(|size| word("copy_block", size));
        [list, Arg::U64(first as u64), d, col]
    }

    /// Panics unless a rectangle of `n` rows and `width` columns is within `elements`.
    fn check(&self, what: &str, (n, width): (usize, usize), elements: usize) {
        let end = match self.rows {
            PickedOn::From(first) => first + n,
            PickedOn::List(list, bound) => {
                let rows = list.len();
                assert!(
                    rows >= n,
                    "copy_block: expected {n} rows of {what}, got {rows}"
                );
                bound
            }
        };
        let rows = elements / self.d.max(1);
        assert!(
            end <= rows,
            "copy_block: expected rows of {what} below {rows}, got {end}"
        );
        crate::expect_rows("copy_block", &(self.col..self.col + width), self.d);
    }
}

/// Writes a rectangle of `n` rows and `width` columns of `x` to a place in `out`, the rest of which stays.
///
/// # Panics
/// When it leaves `x` or `out`, or the device fails.
pub fn copy_block(
    x: &Buf<f32>,
    from: CornerOn<'_>,
    (n, width): (usize, usize),
    out: &mut Buf<f32>,
    to: CornerOn<'_>,
) {
    if n == 0 || width == 0 {
        return;
    }
    from.check("x", (n, width), x.len());
    to.check("out", (n, width), out.len());
    let mut args = vec![x.arg()];
    args.extend(from.args());
    args.extend([Arg::U64(n as u64), word("copy_block", width)]);
    args.extend(to.args());
    args.push(out.arg());
    // Whole vectors begin where vectors do.
    let sizes = [width, from.d, from.col, to.d, to.col];
    let v = sizes.into_iter().map(vector).min().unwrap_or(1);
    let kernel = if v == 4 {
        "copy_block_4"
    } else {
        "copy_block_1"
    };
    let grid = [(n * width / v).div_ceil(THREADS as usize), 1, 1];
    // SAFETY: copy_body's arguments; rows and columns were checked above.
    unsafe { x.device().launch(kernel, grid, &args) };
}

pub(super) fn check_bound(op: &str, rows: &Moves, d: usize, x: &Buf<f32>) {
    assert!(
        rows.bound * d <= x.len(),
        "{op}: expected indices below {}, got {}",
        x.len() / d.max(1),
        rows.bound.wrapping_sub(1)
    );
}

/// `out[rows[i], :] += g[i, :]` in ascending order of `i`. `g: [m, d]`, `out: [n, d]`.
///
/// # Panics
/// When the shapes disagree, a row is not in `out` or the device fails.
pub fn scatter_add(g: &Buf<f32>, rows: &Moves, d: usize, out: &mut Buf<f32>) {
    expect_eq(
        "scatter_add_rows",
        "g with elements",
        rows.rows() * d,
        g.len(),
    );
    check_bound("scatter_add_rows", rows, d, out);
    let mut args = rows.by_target().to_vec();
    args.extend([g.arg(), word("scatter_add_rows", d), out.arg()]);
    let grid = [(rows.targets() * d).div_ceil(THREADS as usize), 1, 1];
    // SAFETY: scatter_add's arguments, shapes checked above.
    unsafe { out.device().launch("scatter_add", grid, &args) };
}

/// Values of the sparse rows `a: [n, d]` after dropout by the counters of `ids: [n]`; `transposed`,
/// `a: [d, n]` holds the columns of such rows. `out: [E]`.
///
/// # Panics
/// When the shapes disagree, `p` is not in `[0, 1)` or the device fails.
pub fn sparse_dropout(
    a: &SparseOn,
    transposed: bool,
    key: u64,
    ids: &Buf<u32>,
    p: f32,
    out: &mut Buf<f32>,
) {
    let n = if transposed { a.n_cols() } else { a.rows() };
    expect_eq("sparse_dropout", "ids", n, ids.len());
    expect_eq(
        "sparse_dropout",
        "out with elements",
        a.n_edges(),
        out.len(),
    );
    let (keep, scale) = crate::dropout::threshold(p);
    let items = a.items("sparse_dropout", 0..a.rows());
    let mut args = a.args(&items).to_vec();
    args.extend([
        optional(a.weights()),
        Arg::U32(u32::from(transposed)),
        Arg::U64(key),
    ]);
    args.extend([ids.arg(), Arg::U32(keep), Arg::F32(scale), out.arg()]);
    // SAFETY: sparse_dropout's arguments, shapes checked above.
    unsafe {
        a.device()
            .launch("sparse_dropout", [items.blocks(), 1, 1], &args)
    };
}
