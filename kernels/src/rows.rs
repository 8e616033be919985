//! Moving rows: gather into a send buffer, and its adjoint, the deterministic scatter-add.

use crate::par::{cut_mut, split_rows};
use crate::{Mat, Par, expect_eq, flat, flat_mut};

/// Scalar references.
pub mod naive {
    use crate::Mat;

    /// `out[i, :] = x[idx[i], :]`.
    pub fn gather(x: &Mat, idx: &[u32], out: &mut Mat) {
        for (i, &v) in idx.iter().enumerate() {
            out.row_mut(i).assign(&x.row(v as usize));
        }
    }

    /// `out[idx[i], :] += g[i, :]`.
    pub fn scatter_add(g: &Mat, idx: &[u32], out: &mut Mat) {
        for (i, &v) in idx.iter().enumerate() {
            let mut row = out.row_mut(v as usize);
            row += &g.row(i);
        }
    }
}

/// Writes `out[i, :] = x[idx[i], :]`. `x: [n, d]`, `idx: [m]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree or an index is not below `n`.
pub fn gather_rows_into(par: &Par, x: &Mat, idx: &[u32], out: &mut Mat) {
    let d = x.ncols();
    expect_eq("gather_rows", "out with rows", idx.len(), out.nrows());
    expect_eq("gather_rows", "out with columns", d, out.ncols());
    let (x, n) = (flat("gather_rows", x), x.nrows());
    par.rows_mut(flat_mut("gather_rows", out), d, |first, rows| {
        for (to, &v) in rows.chunks_exact_mut(d).zip(&idx[first..]) {
            let v = v as usize;
            assert!(v < n, "gather_rows: expected indices below {n}, got {v}");
            to.copy_from_slice(&x[v * d..(v + 1) * d]);
        }
    });
}

/// Adds `out[idx[i], :] += g[i, :]` in ascending order of `i`, also where indices repeat.
/// `g: [m, d]`, `idx: [m]`, `out: [n, d]`.
///
/// Each thread owns a run of rows of `out` and picks its own out of `idx`.
///
/// # Panics
/// When the shapes disagree or an index is not below `n`.
pub fn scatter_add_rows(par: &Par, g: &Mat, idx: &[u32], out: &mut Mat) {
    let d = out.ncols();
    expect_eq("scatter_add_rows", "g with rows", idx.len(), g.nrows());
    expect_eq("scatter_add_rows", "g with columns", d, g.ncols());
    scatter_add_slice(par, flat("scatter_add_rows", g), idx, out);
}

/// [`scatter_add_rows`] of rows that lie behind each other, `g: [m · d]`.
///
/// # Panics
/// As there.
pub fn scatter_add_slice(par: &Par, g: &[f32], idx: &[u32], out: &mut Mat) {
    expect_eq(
        "scatter_add_rows",
        "g of elements",
        idx.len() * out.ncols(),
        g.len(),
    );
    add(par, g, |i| i, idx, out);
}

/// [`scatter_add_rows`] of rows `at: [m]` of `x: [k, d]`.
///
/// # Panics
/// As there, or when a place is not below `k`.
pub fn scatter_add_picked(par: &Par, (x, at): (&Mat, &[u32]), idx: &[u32], out: &mut Mat) {
    let (k, name) = (x.nrows(), "scatter_add_rows");
    expect_eq(name, "x with columns", out.ncols(), x.ncols());
    expect_eq(name, "places", idx.len(), at.len());
    if let Some(p) = at.iter().find(|&&p| p as usize >= k) {
        panic!("scatter_add_rows: expected places below {k}, got {p}");
    }
    add(par, flat(name, x), |i| at[i] as usize, idx, out);
}

/// Adds row `of(i)` of `g` to row `idx[i]` of `out`, in ascending order of `i`.
fn add(
    par: &Par,
    g: &[f32],
    of: impl Fn(usize) -> usize + Sync + Send,
    idx: &[u32],
    out: &mut Mat,
) {
    let (n, d) = out.dim();
    if let Some(v) = idx.iter().find(|&&v| v as usize >= n) {
        panic!("scatter_add_rows: expected indices below {n}, got {v}");
    }
    if d == 0 || n == 0 {
        return;
    }
    let parts = if idx.len() * d < 16 * 1024 {
        1
    } else {
        par.threads()
    };
    let bounds = split_rows(n, parts);
    let ascends = idx.is_sorted();
    par.run(
        cut_mut(flat_mut("scatter_add_rows", out), d, &bounds),
        |(first, rows)| {
            let end = first + rows.len() / d;
            // Of a list that ascends, a thread's rows are a run.
            let mine = match ascends {
                true => [first, end].map(|v| idx.partition_point(|&x| (x as usize) < v)),
                false => [0, idx.len()],
            };
            for (i, &v) in (mine[0]..).zip(&idx[mine[0]..mine[1]]) {
                if (first..end).contains(&(v as usize)) {
                    let (at, from) = ((v as usize - first) * d, of(i) * d);
                    let sums = rows[at..at + d].iter_mut();
                    sums.zip(&g[from..from + d]).for_each(|(o, g)| *o += g);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gather_and_scatter_equal_naive(
            (n, idx) in (1usize..30).prop_flat_map(|n| (Just(n), prop::collection::vec(0..n as u32, 0..80))),
            d in 0usize..40, threads in 1usize..4,
        ) {
            let par = Par::new(threads);
            let x = Mat::from_shape_fn((n, d), |(r, c)| (r * 31 + c * 7) as f32 * 0.1);
            let (mut want, mut got) = (Mat::ones((idx.len(), d)), Mat::zeros((idx.len(), d)));
            naive::gather(&x, &idx, &mut want);
            gather_rows_into(&par, &x, &idx, &mut got);
            prop_assert_eq!(&got, &want);
            let (mut sw, mut sg) = (x.clone(), x.clone());
            naive::scatter_add(&want, &idx, &mut sw);
            scatter_add_rows(&par, &got, &idx, &mut sg);
            prop_assert_eq!(&sg, &sw);
            // Straight from where the rows lie; and of a list that ascends.
            let (mut sp, mut sorted) = (x.clone(), idx.clone());
            scatter_add_picked(&par, (&x, &idx), &idx, &mut sp);
            prop_assert_eq!(&sp, &sw);
            sorted.sort_unstable();
            let (mut sp, mut sw) = (x.clone(), x.clone());
            let mut rows = Mat::zeros((idx.len(), d));
            naive::gather(&x, &idx, &mut rows);
            naive::scatter_add(&rows, &sorted, &mut sw);
            scatter_add_picked(&par, (&x, &idx), &sorted, &mut sp);
            prop_assert_eq!(sp, sw);
        }
    }

    #[test]
    fn scatter_is_the_adjoint_of_gather_and_thread_independent() {
        let idx: Vec<u32> = (0..5000u32)
            .map(|i| i.wrapping_mul(2_654_435_761) % 300)
            .collect();
        let g = Mat::from_shape_fn((5000, 20), |(r, c)| ((r * 13 + c) % 101) as f32 - 50.0);
        let x = Mat::from_shape_fn((300, 20), |(r, c)| ((r * 3 + c) % 17) as f32 - 8.0);
        let (mut pulled, mut pushed) = (Mat::zeros((5000, 20)), Mat::zeros((300, 20)));
        gather_rows_into(&Par::new(2), &x, &idx, &mut pulled);
        scatter_add_rows(&Par::new(1), &g, &idx, &mut pushed);
        let dot = |a: &Mat, b: &Mat| {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum::<f64>()
        };
        assert!((dot(&pulled, &g) - dot(&x, &pushed)).abs() < 1e-6);
        let mut other = Mat::zeros((300, 20));
        scatter_add_rows(&Par::new(5), &g, &idx, &mut other);
        assert_eq!(other, pushed);
    }

    #[test]
    #[should_panic(expected = "gather_rows: expected indices below 2, got 2")]
    fn an_index_out_of_range_is_named() {
        gather_rows_into(
            &Par::new(1),
            &Mat::zeros((2, 1)),
            &[2],
            &mut Mat::zeros((1, 1)),
        );
    }
}
