//! Aggregation of wide rows, segment of sources by segment, so that the rows of frequent sources
//! are gathered from the second-level cache.
//!
//! In a graph with skewed degrees few vertices are the source of most edges, and most edges lead to
//! destinations that have several sources among them. Sources are ranked by how many edges they
//! have and cut into segments of [`SEGMENT`]; a segment of rows of 128 numbers is 512 KiB. Edges of
//! one destination with at least [`RUN`] sources in a segment form a *visit*: the destination's
//! sum is loaded, the edges are added, and it is stored again. All visits of a segment follow each
//! other, so that its rows stay in the cache. The other edges are gathered row by row as in
//! [`crate::spmm`].
//!
//! The sum of a row has a fixed order (other edges, then its visits by segment), so that neither
//! threads nor ranges of rows change a bit; it is another order than that of [`crate::spmm`].
//!
//! # Measured
//! Wide rows of skewed graphs gain a quarter to a third: `notebooks/measured/kernels.md`. A planted partition of even degrees has
//! no frequent sources: [`Segmented::of`] gives none.

use std::ops::Range;

use crate::factor::Factor;
use crate::lines::Lines;
use crate::simd::Level;
use crate::spmm::{self, Onto, SMALL};
use crate::spmm_tile::{Visits, add_visits};
use crate::{Csr, CsrBuf, Mat, Par, flat_mut};

/// Sources in a segment.
pub const SEGMENT: usize = 1024;

/// Edges of a destination within a segment from which they are worth a visit.
pub const RUN: usize = 3;

/// Columns from which rows are wide: narrower ones lie in two lines of memory.
pub const WIDE: usize = 33;

/// Numbers that an average visit adds, edges times columns, from which it is worth loading and storing its sums.
const WORTH: usize = 640;

/// Bytes of `x` up to which its rows lie in the third-level cache, and the edges that an average visit needs then.
const NEAR: usize = 24 << 20;
const LONG: usize = 16;

/// Edges in visits, per source, from which a segment is worth loading.
const LOADS: usize = 4;

/// Sources from which their rows no longer lie in the second-level cache anyway.
const MANY: usize = 16 << 10;

/// A sparse matrix whose elements are ordered by segment of sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Segmented {
    /// The edges that are in no visit.
    rest: CsrBuf,
    /// The edges in visits: a row for each visit, by segment, then by destination.
    visits: CsrBuf,
    /// The destination of each visit.
    row_of: Vec<u32>,
    /// Where each segment's visits start: `[segments + 1]`.
    starts: Vec<usize>,
    /// Edges in visits of the rows before each row: `[rows + 1]`.
    before: Vec<u64>,
}

/// How sources are cut, and what is worth it.
#[derive(Clone, Copy)]
struct Cut {
    segment: usize,
    run: u32,
    loads: usize,
    /// Of so many edges at least one must be in a visit.
    of: usize,
}

impl Segmented {
    /// The matrix by segments where that pays: when rows of some [`WIDE`] columns or more do not fit
    /// into the second-level cache, and at least half of the edges would be in visits.
    ///
    /// # Panics
    /// When an index of `a` is not below its number of columns.
    pub fn of(a: Csr<'_>) -> Option<Segmented> {
        if a.n_cols < MANY {
            return None;
        }
        let cut = Cut {
            segment: SEGMENT,
            run: RUN as u32,
            loads: LOADS,
            of: 2,
        };
        Segmented::cut(a, cut)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rest.rows()
    }

    /// Whether rows of `d` columns are aggregated faster than one by one, as far as the length of visits and the size of
    /// `x` say.
    pub fn pays(&self, d: usize) -> bool {
        let (edges, visits) = (self.visits.indices.len(), self.row_of.len());
        let near = self.visits.n_cols * d * 4 <= NEAR;
        d >= WIDE && edges * d >= WORTH * visits && (!near || edges >= LONG * visits)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.rest.bytes()
            + self.visits.bytes()
            + self.row_of.len() * 4
            + self.starts.len() * 8
            + self.before.len() * 8
    }

    /// Two passes over the edges: one counts what each segment would get, one fills. None without
    /// enough visits.
    fn cut(a: Csr<'_>, cut: Cut) -> Option<Segmented> {
        let segment_of = segment_of(a, cut.segment);
        let segments = a.n_cols.div_ceil(cut.segment);
        let mut row = Row::new(segments);
        let (mut visits, mut edges) = (vec![0usize; segments + 1], vec![0usize; segments + 1]);
        for r in 0..a.rows() {
            row.count(&a.indices[a.span(r)], &segment_of);
            row.each(|s, n| {
                if n >= cut.run {
                    visits[s + 1] += 1;
                    edges[s + 1] += n as usize;
                }
            });
        }
        let worth: Vec<bool> = edges[1..]
            .iter()
            .map(|&e| e > 0 && e >= cut.loads * cut.segment)
            .collect();
        for s in 0..segments {
            let keep = usize::from(worth[s]);
            visits[s + 1] = visits[s] + visits[s + 1] * keep;
            edges[s + 1] = edges[s] + edges[s + 1] * keep;
        }
        if edges[segments] == 0 || edges[segments].saturating_mul(cut.of) < a.n_edges() {
            return None;
        }
        Some(fill(a, cut.run, &segment_of, &worth, visits, edges))
    }
}

/// Writes every edge to its place; `starts` and `edges` are where each segment's visits and their
/// edges start.
fn fill(
    a: Csr<'_>,
    run: u32,
    segment_of: &[u32],
    worth: &[bool],
    starts: Vec<usize>,
    mut edges: Vec<usize>,
) -> Segmented {
    let segments = worth.len();
    let (n_visits, n_hot) = (starts[segments], edges[segments]);
    let weighted = a.weights.is_some();
    let mut visits = CsrBuf {
        indptr: vec![0; n_visits + 1],
        indices: vec![0; n_hot],
        weights: weighted.then(|| vec![0.0; n_hot]),
        n_cols: a.n_cols,
    };
    let n_rest = a.n_edges() - n_hot;
    let mut rest = CsrBuf {
        indptr: Vec::with_capacity(a.rows() + 1),
        indices: Vec::with_capacity(n_rest),
        weights: weighted.then(|| Vec::with_capacity(n_rest)),
        n_cols: a.n_cols,
    };
    rest.indptr.push(0);
    let mut row_of = vec![0; n_visits];
    let mut next = starts.clone();
    let mut row = Row::new(segments);
    // Whether the row's edges in a segment are a visit.
    let mut visited = vec![false; segments];
    let mut before = Vec::with_capacity(a.rows() + 1);
    before.push(0);
    for r in 0..a.rows() {
        let span = a.span(r);
        row.count(&a.indices[span.clone()], segment_of);
        row.each(|s, n| {
            visited[s] = n >= run && worth[s];
            if visited[s] {
                row_of[next[s]] = r as u32;
                next[s] += 1;
                visits.indptr[next[s]] = (edges[s] + n as usize) as u64;
            }
        });
        for e in span.clone() {
            let s = segment_of[a.indices[e] as usize] as usize;
            if visited[s] {
                let at = edges[s];
                edges[s] += 1;
                visits.indices[at] = a.indices[e];
                if let (Some(to), Some(from)) = (&mut visits.weights, a.weights) {
                    to[at] = from[e];
                }
            } else {
                rest.indices.push(a.indices[e]);
                if let (Some(to), Some(from)) = (&mut rest.weights, a.weights) {
                    to.push(from[e]);
                }
            }
        }
        rest.indptr.push(rest.indices.len() as u64);
        before.push((span.end - rest.indices.len()) as u64);
    }
    Segmented {
        rest,
        visits,
        row_of,
        starts,
        before,
    }
}

/// The segment of every source: sources by how many edges they have, most first.
fn segment_of(a: Csr<'_>, segment: usize) -> Vec<u32> {
    let mut n_edges = vec![0u32; a.n_cols];
    for &c in a.indices {
        n_edges[c as usize] = n_edges[c as usize].saturating_add(1);
    }
    // Counted, not compared: a chunk of a graph has few edges and the columns of all.
    let most = n_edges.iter().copied().max().unwrap_or(0) as usize;
    let mut next = vec![0u32; most + 2];
    n_edges
        .iter()
        .for_each(|&n| next[most - n as usize + 1] += 1);
    for k in 0..=most {
        next[k + 1] += next[k];
    }
    let rank = |n: u32| {
        let next = &mut next[most - n as usize];
        *next += 1;
        (*next - 1) / segment as u32
    };
    n_edges.into_iter().map(rank).collect()
}

/// How many edges of one row lie in each segment.
struct Row {
    count: Vec<u32>,
    touched: Vec<u32>,
}

impl Row {
    fn new(segments: usize) -> Row {
        Row {
            count: vec![0; segments],
            touched: Vec::new(),
        }
    }

    /// Forgets the row before and counts that of these sources.
    fn count(&mut self, sources: &[u32], segment_of: &[u32]) {
        for &s in &self.touched {
            self.count[s as usize] = 0;
        }
        self.touched.clear();
        for &c in sources {
            let s = segment_of[c as usize];
            if self.count[s as usize] == 0 {
                self.touched.push(s);
            }
            self.count[s as usize] += 1;
        }
    }

    /// Calls `f` with each segment that has any, and how many.
    fn each(&self, mut f: impl FnMut(usize, u32)) {
        for &s in &self.touched {
            f(s as usize, self.count[s as usize]);
        }
    }
}

/// Writes `out[r, :] = Σ_e w_e · x[col_e, :]` for the rows in `rows` and leaves the others as
/// they are: [`crate::spmm::spmm_into`] in another order of summation.
///
/// `a: [m, n]`, `x: [n, d]`, `out: [m, d]`.
///
/// # Panics
/// When the shapes disagree or `rows` exceeds `m`.
pub fn spmm_into(par: &Par, a: &Segmented, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    at_level(Level::detect(), par, a, rows, x, (Onto::Set, None), out);
}

/// Adds the same to `out[r, :]`.
///
/// # Panics
/// Like [`spmm_into`].
pub fn spmm_add_into(par: &Par, a: &Segmented, rows: Range<usize>, x: &Mat, out: &mut Mat) {
    at_level(Level::detect(), par, a, rows, x, (Onto::Add, None), out);
}

/// [`spmm_into`], or [`spmm_add_into`] when asked, of a matrix without weights whose weights `factor` says.
///
/// # Panics
/// Like [`spmm_into`], and when `factor` is of another shape.
pub fn spmm_by_factor(
    par: &Par,
    a: &Segmented,
    factor: &Factor,
    rows: Range<usize>,
    add: bool,
    x: &Mat,
    out: &mut Mat,
) {
    let how = factor.how(a.rest.view(), add);
    at_level(Level::detect(), par, a, rows, x, how, out);
}

fn at_level(
    level: Level,
    par: &Par,
    a: &Segmented,
    rows: Range<usize>,
    x: &Mat,
    (onto, scale): (Onto<'_>, Option<&[f32]>),
    out: &mut Mat,
) {
    let (d, rest) = (x.ncols(), a.rest.view());
    let all = a.rows();
    assert!(
        rows.end <= all,
        "spmm: expected rows within {all}, got {rows:?}"
    );
    let edges = (a.before[rows.end] - a.before[rows.start]) as usize;
    let x = Lines::of(par, x, edges, scale);
    x.spmm(level, par, rest, rows.clone(), onto, out);
    if edges == 0 || d == 0 {
        return x.done(par);
    }
    // Every job loads every segment, so there are few.
    let parts = if edges * d <= SMALL { 1 } else { par.threads() };
    let visits = Visits {
        edges: a.visits.view(),
        row_of: &a.row_of,
        starts: &a.starts,
    };
    let out = &mut flat_mut("spmm", out)[rows.start * d..rows.end * d];
    par.run(spmm::jobs(&a.before, rows, d, parts, out), |job| {
        add_visits(level, visits, x.rows(), onto, job);
    });
    x.done(par);
}

#[cfg(test)]
mod tests;
