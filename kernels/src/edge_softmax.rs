//! Softmax over the in-edges of each row, per head, on stored edge values; forward and backward.
//!
//! A hub is worked on in parts: first their maxima and sums (backward: their products), which are
//! joined in order, then their outputs.

use std::ops::Range;

use crate::exp::exp;
use crate::hubs::{each_edge, within};
use crate::simd::{Level, multiversion};
use crate::{Par, expect_eq, expect_indptr, expect_rows};

/// Scalar references in double precision.
pub mod naive {
    /// `α[e, h] = exp(s[e, h]) / Σ exp(s)` over the edges of each row.
    pub fn forward(indptr: &[u64], heads: usize, s: &[f64]) -> Vec<f64> {
        let mut alpha = vec![0.0; s.len()];
        for r in indptr.windows(2) {
            for h in 0..heads {
                let at = |e: u64| e as usize * heads + h;
                let m = (r[0]..r[1])
                    .map(|e| s[at(e)])
                    .fold(f64::NEG_INFINITY, f64::max);
                let t: f64 = (r[0]..r[1]).map(|e| (s[at(e)] - m).exp()).sum();
                (r[0]..r[1]).for_each(|e| alpha[at(e)] = (s[at(e)] - m).exp() / t);
            }
        }
        alpha
    }

    /// The gradient of `s` from that of `α`, by the full Jacobian.
    pub fn backward(indptr: &[u64], heads: usize, alpha: &[f64], dalpha: &[f64]) -> Vec<f64> {
        let mut ds = vec![0.0; alpha.len()];
        for r in indptr.windows(2) {
            for h in 0..heads {
                let at = |e: u64| e as usize * heads + h;
                for i in r[0]..r[1] {
                    for j in r[0]..r[1] {
                        let same = if i == j { 1.0 } else { 0.0 };
                        ds[at(i)] += dalpha[at(j)] * alpha[at(j)] * (same - alpha[at(i)]);
                    }
                }
            }
        }
        ds
    }
}

multiversion! {
    /// Raises `m: [heads]` to the maxima of `s: [edges, heads]`.
    fn raise(level: Level, s: &[f32], m: &mut [f32]) {
        for s in s.chunks_exact(m.len()) {
            for (m, &s) in m.iter_mut().zip(s) {
                *m = if s > *m { s } else { *m };
            }
        }
    }
}

multiversion! {
    /// `out = exp(s − m)`, and its sums added to `t: [heads]`.
    fn powers(level: Level, s: &[f32], m: &[f32], out: &mut [f32], t: &mut [f32]) {
        let heads = m.len();
        for (s, out) in s.chunks_exact(heads).zip(out.chunks_exact_mut(heads)) {
            for ((out, &s), &m) in out.iter_mut().zip(s).zip(m) {
                *out = s - m;
            }
        }
        for out in out.iter_mut() {
            *out = exp(*out);
        }
        for out in out.chunks_exact(heads) {
            for (t, &out) in t.iter_mut().zip(out) {
                *t += out;
            }
        }
    }
}

multiversion! {
    /// `out[e, h] *= by[h]`.
    fn scale(level: Level, by: &[f32], out: &mut [f32]) {
        for out in out.chunks_exact_mut(by.len()) {
            for (out, &by) in out.iter_mut().zip(by) {
                *out *= by;
            }
        }
    }
}

multiversion! {
    /// Adds `Σ_e a[e, h] · b[e, h]` to `sum: [heads]`.
    fn products(level: Level, a: &[f32], b: &[f32], sum: &mut [f32]) {
        let heads = sum.len();
        for (a, b) in a.chunks_exact(heads).zip(b.chunks_exact(heads)) {
            for ((sum, &a), &b) in sum.iter_mut().zip(a).zip(b) {
                *sum += a * b;
            }
        }
    }
}

multiversion! {
    /// `ds = α (dα − c[h])`.
    fn slopes(level: Level, alpha: &[f32], dalpha: &[f32], c: &[f32], ds: &mut [f32]) {
        let heads = c.len();
        let inputs = alpha.chunks_exact(heads).zip(dalpha.chunks_exact(heads));
        for ((alpha, dalpha), ds) in inputs.zip(ds.chunks_exact_mut(heads)) {
            for (((ds, &a), &da), &c) in ds.iter_mut().zip(alpha).zip(dalpha).zip(c) {
                *ds = a * (da - c);
            }
        }
    }
}

/// Checks the shapes and returns the edges of `rows`.
fn check(
    op: &str,
    indptr: &[u64],
    rows: &Range<usize>,
    heads: usize,
    lengths: [usize; 2],
) -> Range<usize> {
    assert!(heads > 0, "{op}: expected at least one head, got 0");
    let m = expect_indptr(op, indptr);
    expect_rows(op, rows, m);
    for n in lengths {
        expect_eq(op, "numbers of edges", indptr[m] as usize * heads, n);
    }
    indptr[rows.start] as usize..indptr[rows.end] as usize
}

/// Writes `α[e, h] = exp(s[e, h]) / Σ exp(s)`, the sum over the edges of `e`'s row, for the rows in
/// `rows`; other edges stay as they are. `indptr: [m + 1]`, `s, alpha: [edges, heads]`.
///
/// # Panics
/// When the shapes disagree or `rows` exceeds `m`.
pub fn forward_into(
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    heads: usize,
    s: &[f32],
    alpha: &mut [f32],
) {
    forward_at(Level::detect(), par, indptr, rows, heads, s, alpha);
}

fn forward_at(
    level: Level,
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    heads: usize,
    s: &[f32],
    alpha: &mut [f32],
) {
    let edges = check("edge_softmax", indptr, &rows, heads, [s.len(), alpha.len()]);
    let alpha = &mut alpha[edges.start * heads..edges.end * heads];
    // Maxima and sums of the parts of hubs, by the first edge of each part.
    let parts = Parts::new(par, indptr, rows.clone(), |edges| {
        let (mut m, mut t) = (vec![f32::NEG_INFINITY; heads], vec![0.0; heads]);
        let s = &s[edges.start * heads..edges.end * heads];
        raise(level, s, &mut m);
        powers(level, s, &m, &mut vec![0.0; s.len()], &mut t);
        (m, t)
    });
    let joined = parts.join(|parts: &[(Vec<f32>, Vec<f32>)]| {
        let (mut m, mut t) = (vec![f32::NEG_INFINITY; heads], vec![0.0; heads]);
        parts
            .iter()
            .for_each(|(part, _)| raise(level, part, &mut m));
        for (part, sums) in parts {
            for h in 0..heads {
                t[h] += exp(part[h] - m[h]) * sums[h];
            }
        }
        (m, t)
    });
    each_edge(par, indptr, rows, heads, alpha, |rows, edges, alpha| {
        let (mut rest, mut m, mut t) = (alpha, vec![0.0; heads], vec![0.0; heads]);
        for r in rows {
            let mine = within(indptr[r] as usize..indptr[r + 1] as usize, &edges);
            let (alpha, tail) = std::mem::take(&mut rest).split_at_mut(mine.len() * heads);
            rest = tail;
            let s = &s[mine.start * heads..mine.end * heads];
            let hub = joined.get(&r);
            if let Some((most, _)) = hub {
                m.copy_from_slice(most);
            } else {
                m.fill(f32::NEG_INFINITY);
                raise(level, s, &mut m);
            }
            t.fill(0.0);
            powers(level, s, &m, alpha, &mut t);
            let total = hub.map_or(&t, |(_, total)| total);
            m.iter_mut().zip(total).for_each(|(by, t)| *by = 1.0 / t);
            scale(level, &m, alpha);
        }
    });
}

/// Writes the gradient `ds[e, h] = α (dα − Σ α dα)` of the scores for the rows in `rows`; other
/// edges stay as they are. `indptr: [m + 1]`, `alpha, dalpha, ds: [edges, heads]`.
///
/// # Panics
/// When the shapes disagree or `rows` exceeds `m`.
pub fn backward_into(
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    heads: usize,
    alpha: &[f32],
    dalpha: &[f32],
    ds: &mut [f32],
) {
    backward_at(
        Level::detect(),
        par,
        indptr,
        rows,
        heads,
        (alpha, dalpha),
        ds,
    );
}

fn backward_at(
    level: Level,
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    heads: usize,
    (alpha, dalpha): (&[f32], &[f32]),
    ds: &mut [f32],
) {
    const OP: &str = "edge_softmax_backward";
    let edges = check(OP, indptr, &rows, heads, [alpha.len(), dalpha.len()]);
    expect_eq(OP, "numbers in ds", alpha.len(), ds.len());
    let ds = &mut ds[edges.start * heads..edges.end * heads];
    let sums_into = |edges: Range<usize>, c: &mut [f32]| {
        let at = edges.start * heads..edges.end * heads;
        c.fill(0.0);
        products(level, &alpha[at.clone()], &dalpha[at], c);
    };
    let parts = Parts::new(par, indptr, rows.clone(), |edges| {
        let mut c = vec![0.0; heads];
        sums_into(edges, &mut c);
        c
    });
    let joined = parts.join(|parts: &[Vec<f32>]| {
        let mut c = vec![0.0; heads];
        for part in parts {
            c.iter_mut().zip(part).for_each(|(c, part)| *c += part);
        }
        c
    });
    each_edge(par, indptr, rows, heads, ds, |rows, edges, ds| {
        let (mut rest, mut c) = (ds, vec![0.0; heads]);
        for r in rows {
            let mine = within(indptr[r] as usize..indptr[r + 1] as usize, &edges);
            let (ds, tail) = std::mem::take(&mut rest).split_at_mut(mine.len() * heads);
            rest = tail;
            let at = mine.start * heads..mine.end * heads;
            match joined.get(&r) {
                Some(hub) => c.copy_from_slice(hub),
                None => sums_into(mine, &mut c),
            }
            slopes(level, &alpha[at.clone()], &dalpha[at], &c, ds);
        }
    });
}

/// What was computed of each part of each hub, in their order.
struct Parts<T> {
    of: Vec<(usize, T)>,
}

impl<T: Send> Parts<T> {
    fn new(
        par: &Par,
        indptr: &[u64],
        rows: Range<usize>,
        f: impl Fn(Range<usize>) -> T + Sync + Send,
    ) -> Parts<T> {
        let hubs = crate::hubs::parts(indptr, rows);
        Parts {
            of: par.map(hubs, |(row, edges)| (row, f(edges))),
        }
    }

    /// Joins the parts of each hub.
    fn join<U>(self, f: impl Fn(&[T]) -> U) -> std::collections::HashMap<usize, U> {
        let mut joined = std::collections::HashMap::new();
        let mut all = self.of.into_iter().peekable();
        while let Some((row, first)) = all.next() {
            let mut parts = vec![first];
            while let Some((_, part)) = all.next_if(|(r, _)| *r == row) {
                parts.push(part);
            }
            joined.insert(row, f(&parts));
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::tests::any_csr;
    use crate::spmm::tests::{matrix, star};
    use proptest::prelude::*;

    fn values(edges: usize, heads: usize, seed: u64, scale: f32) -> Vec<f32> {
        matrix(edges, heads, seed)
            .iter()
            .map(|x| x * scale)
            .collect()
    }

    fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    fn assert_close(got: &[f32], want: &[f64], from: usize) {
        for (k, (&g, w)) in got.iter().zip(want).enumerate() {
            if k < from {
                assert_eq!(g, 7.0);
            } else {
                assert!(
                    (f64::from(g) - w).abs() < 1e-6 + 1e-5 * w.abs(),
                    "{g} instead of {w}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn softmax_and_its_gradient_equal_naive_at_every_level(
            a in any_csr(), heads in 1usize..10, cut in 0.0f64..1.0,
        ) {
            let (n, m) = (a.indices.len(), a.rows());
            let (s, d) = (values(n, heads, 1, 20.0), values(n, heads, 2, 1.0));
            let alpha = naive::forward(&a.indptr, heads, &wide(&s));
            let short: Vec<f32> = alpha.iter().map(|&x| x as f32).collect();
            let ds = naive::backward(&a.indptr, heads, &wide(&short), &wide(&d));
            let first = (m as f64 * cut) as usize;
            let from = a.indptr[first] as usize * heads;
            for level in Level::available() {
                let mut got = vec![7.0; n * heads];
                forward_at(level, &Par::new(2), &a.indptr, first..m, heads, &s, &mut got);
                assert_close(&got, &alpha, from);
                let mut got = vec![7.0; n * heads];
                let inputs = (&short[..], &d[..]);
                backward_at(level, &Par::new(2), &a.indptr, first..m, heads, inputs, &mut got);
                assert_close(&got, &ds, from);
            }
        }
    }

    #[test]
    fn hubs_are_right_and_threads_do_not_change_a_bit() {
        let a = star(300);
        let (n, heads) = (a.indices.len(), 2);
        let (s, d) = (values(n, heads, 1, 5.0), values(n, heads, 2, 1.0));
        let both = |threads| {
            let par = Par::new(threads);
            let (mut alpha, mut ds) = (vec![0.0; n * heads], vec![0.0; n * heads]);
            forward_into(&par, &a.indptr, 0..300, heads, &s, &mut alpha);
            backward_into(&par, &a.indptr, 0..300, heads, &alpha, &d, &mut ds);
            (alpha, ds)
        };
        let want = both(1);
        assert_close(&want.0, &naive::forward(&a.indptr, heads, &wide(&s)), 0);
        let ds = naive::backward(&a.indptr, heads, &wide(&want.0), &wide(&d));
        assert_close(&want.1, &ds, 0);
        for threads in [2, 3, 8] {
            assert_eq!(both(threads), want);
        }
    }
}
