//! Steps of optimisers on the rows of an embedding table that a batch touched; the other rows and
//! their state stay as they are, so a step costs what the batch is large, not the table.
//!
//! A row that occurs several times is one row with the sum of its gradients, added in the order
//! given. Threads share the occurrences, not the rows of the table; the sum of a row with very many
//! occurrences is cut by columns.
//!
//! # Papers
//! Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
//! Optimization", JMLR 2011, <https://jmlr.org/papers/v12/duchi11a.html>; Adam as in
//! [`crate::adam`].
//!
//! # Not done
//! Occurrences are sorted by one thread (not at all when `rows` ascends strictly).

use crate::adam::{self, AdamParams, Step};
use crate::par::cut_mut;
use crate::simd::{Level, multiversion};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Occurrences above which the sum of a row's gradients is cut by columns.
const HUB: usize = 4096;
/// Columns of such a cut: a cache line.
const COLUMNS: usize = 16;
/// Elements of gradients below which one thread does everything.
const SMALL: usize = 16 * 1024;

/// Gradients of some rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct RowGradients<'a> {
    /// The rows: `[m]`, in any order, also repeated.
    pub rows: &'a [u32],
    /// Their gradients: `[m, d]`.
    pub grads: &'a Mat,
}

/// Settings of AdaGrad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdagradParams {
    /// Step size.
    pub lr: f32,
    /// Added to the root of the sum of squares.
    pub eps: f32,
}

impl Default for AdagradParams {
    fn default() -> Self {
        AdagradParams {
            lr: 0.01,
            eps: 1e-10,
        }
    }
}

/// Scalar references with arithmetic and state in `f64`.
pub mod naive {
    use super::{AdagradParams, RowGradients};
    use crate::adam::AdamParams;
    use ndarray::Array2;
    use std::collections::BTreeMap;

    /// The sum of the gradients of each touched row.
    fn sums(of: RowGradients<'_>) -> BTreeMap<usize, Vec<f64>> {
        let mut sums = BTreeMap::new();
        for (&v, g) in of.rows.iter().zip(of.grads.rows()) {
            let sum = sums.entry(v as usize).or_insert(vec![0.0; g.len()]);
            sum.iter_mut().zip(g).for_each(|(s, g)| *s += f64::from(*g));
        }
        sums
    }

    /// See [`super::sparse_adagrad`].
    pub fn adagrad(
        p: AdagradParams,
        of: RowGradients<'_>,
        w: &mut Array2<f64>,
        squares: &mut Array2<f64>,
    ) {
        for (v, sum) in sums(of) {
            for (c, g) in sum.into_iter().enumerate() {
                squares[[v, c]] += g * g;
                w[[v, c]] -= f64::from(p.lr) * g / (squares[[v, c]].sqrt() + f64::from(p.eps));
            }
        }
    }

    /// See [`super::sparse_adam`].
    pub fn adam(
        p: AdamParams,
        t: u64,
        of: RowGradients<'_>,
        w: &mut Array2<f64>,
        m: &mut Array2<f64>,
        v: &mut Array2<f64>,
    ) {
        for (r, sum) in sums(of) {
            let rows = [w.row_mut(r), m.row_mut(r), v.row_mut(r)];
            let [w, m, v] = rows.map(|row| row.into_slice().expect("rows of a row-major matrix"));
            crate::adam::naive(p, t, w, &sum, m, v);
        }
    }
}

multiversion! {
    fn adagrad_row(level: Level, p: AdagradParams, w: &mut [f32], g: &[f32], squares: &mut [f32]) {
        for ((w, g), s) in w.iter_mut().zip(g).zip(squares) {
            *s += g * g;
            *w -= p.lr * (g / (s.sqrt() + p.eps));
        }
    }
}

/// Positions in `rows` by row, those of one row ascending.
fn by_row(rows: &[u32]) -> Vec<u32> {
    let m = u32::try_from(rows.len()).expect("positions fit into 32 bits: checked by the caller");
    if rows.windows(2).all(|w| w[0] < w[1]) {
        return (0..m).collect();
    }
    let mut keys: Vec<u64> = (0..m)
        .zip(rows)
        .map(|(k, &v)| u64::from(v) << 32 | u64::from(k))
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| key as u32).collect()
}

/// `sum = Σ grads[k, first..first + sum.len()]` over the positions `k` in `at`, in their order;
/// `grads: [m, d]`.
fn sum_columns(at: &[u32], grads: &[f32], d: usize, first: usize, sum: &mut [f32]) {
    let columns = first..first + sum.len();
    let part = |k: u32| &grads[k as usize * d..][columns.clone()];
    let (head, tail) = at.split_first().expect("a touched row occurs");
    sum.copy_from_slice(part(*head));
    for &k in tail {
        sum.iter_mut().zip(part(k)).for_each(|(s, g)| *s += g);
    }
}

/// Calls `f` with each touched row of all `mats: [n, d]` and the sum of its gradients.
fn each_row<const K: usize>(
    op: &str,
    par: &Par,
    of: RowGradients<'_>,
    mats: [&mut Mat; K],
    f: impl Fn([&mut [f32]; K], &[f32]) + Sync + Send,
) {
    let RowGradients { rows, grads } = of;
    let (m, (n, d)) = (rows.len(), mats[0].dim());
    expect_eq(op, "gradients with rows", m, grads.nrows());
    expect_eq(op, "gradients with columns", d, grads.ncols());
    for state in &mats[1..] {
        expect_eq(op, "state with rows", n, state.nrows());
        expect_eq(op, "state with columns", d, state.ncols());
    }
    if let Some(v) = rows.iter().find(|&&v| v as usize >= n) {
        panic!("{op}: expected rows below {n}, got {v}");
    }
    let most = u32::MAX as usize;
    assert!(m <= most, "{op}: expected at most {most} rows, got {m}");
    if m == 0 || d == 0 {
        return;
    }
    let grads = flat(op, grads);
    let order = by_row(rows);
    let row = |k: usize| rows[order[k] as usize] as usize;
    // Where each touched row starts in `order`, and the end.
    let mut starts = vec![0];
    starts.extend((1..m).filter(|&k| row(k) != row(k - 1)));
    starts.push(m);
    let hubs = hub_sums(par, &order, &starts, grads, d);

    let parts = if m * d <= SMALL { 1 } else { 4 * par.threads() };
    let cut = |k| starts.partition_point(|&s| s < m * k / parts);
    let mut cuts: Vec<usize> = (0..=parts).map(cut).collect();
    cuts.dedup();
    let mut bounds: Vec<usize> = cuts
        .iter()
        .map(|&k| if k == 0 { 0 } else { starts[k] })
        .collect();
    let last = bounds.len() - 1;
    bounds[1..last].iter_mut().for_each(|k| *k = row(*k));
    bounds[last] = n;
    let mut pieces = mats.map(|mat| cut_mut(flat_mut(op, mat), d, &bounds).into_iter());
    let piece = |p: &mut std::vec::IntoIter<_>| p.next().expect("no run of rows is empty");
    let jobs: Vec<_> = cuts
        .windows(2)
        .map(|w| (w[0]..w[1], pieces.each_mut().map(piece)))
        .collect();
    par.run(jobs, |(touched, mut pieces)| {
        let mut sum = vec![0.0; d];
        for k in touched {
            let at = &order[starts[k]..starts[k + 1]];
            let g = if let Ok(hub) = hubs.binary_search_by_key(&k, |(hub, _)| *hub) {
                &hubs[hub].1[..]
            } else if let [only] = *at {
                &grads[only as usize * d..][..d]
            } else {
                sum_columns(at, grads, d, 0, &mut sum);
                &sum[..]
            };
            let row = rows[at[0] as usize] as usize;
            f(
                pieces
                    .each_mut()
                    .map(|(first, x)| &mut x[(row - *first) * d..][..d]),
                g,
            );
        }
    });
}

/// The sums of the rows with more than [`HUB`] occurrences, each with its place in `starts`.
fn hub_sums(
    par: &Par,
    order: &[u32],
    starts: &[usize],
    grads: &[f32],
    d: usize,
) -> Vec<(usize, Vec<f32>)> {
    let mut hubs: Vec<(usize, Vec<f32>)> = starts
        .windows(2)
        .enumerate()
        .filter(|(_, w)| w[1] - w[0] > HUB)
        .map(|(k, _)| (k, vec![0.0; d]))
        .collect();
    let jobs = hubs.iter_mut().flat_map(|(k, sum)| {
        let at = &order[starts[*k]..starts[*k + 1]];
        let parts = sum.chunks_mut(COLUMNS).enumerate();
        parts.map(move |(part, sum)| (at, part * COLUMNS, sum))
    });
    par.run(jobs.collect(), |(at, first, sum)| {
        sum_columns(at, grads, d, first, sum)
    });
    hubs
}

/// One AdaGrad step, as `torch.optim.Adagrad` on a coalesced sparse gradient: for each touched row
/// with the summed gradient g, `squares += g²`, `w -= lr · g / (√squares + eps)`.
/// `w, squares: [n, d]`; `squares` is zero before the first step.
///
/// # Panics
/// When the shapes disagree or a row is not below `n`.
pub fn sparse_adagrad(
    par: &Par,
    params: AdagradParams,
    of: RowGradients<'_>,
    w: &mut Mat,
    squares: &mut Mat,
) {
    adagrad_at(Level::detect(), par, params, of, w, squares);
}

fn adagrad_at(
    level: Level,
    par: &Par,
    params: AdagradParams,
    of: RowGradients<'_>,
    w: &mut Mat,
    squares: &mut Mat,
) {
    each_row("sparse_adagrad", par, of, [w, squares], |[w, s], g| {
        adagrad_row(level, params, w, g, s);
    });
}

/// Step `t` (counted from 1, over the whole table) of Adam on the touched rows, each as
/// [`adam::adam_step`] with its summed gradient: decay, too, acts on touched rows only.
/// `w, m, v: [n, d]`; the moments `m` and `v` are zero before the first step.
///
/// # Panics
/// When the shapes disagree, a row is not below `n` or `t` is 0.
pub fn sparse_adam(
    par: &Par,
    params: AdamParams,
    t: u64,
    of: RowGradients<'_>,
    w: &mut Mat,
    m: &mut Mat,
    v: &mut Mat,
) {
    adam_at(Level::detect(), par, (params, t), of, [w, m, v]);
}

fn adam_at(
    level: Level,
    par: &Par,
    (params, t): (AdamParams, u64),
    of: RowGradients<'_>,
    table: [&mut Mat; 3],
) {
    assert!(t > 0, "sparse_adam: expected steps counted from 1, got 0");
    let s = Step::new(params, t);
    each_row("sparse_adam", par, of, table, |[w, m, v], g| {
        adam::run(level, params, s, w, g, m, v);
    });
}

#[cfg(test)]
mod tests;
