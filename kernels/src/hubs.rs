//! Rows cut into pieces of work: runs of ordinary rows, and parts of rows with very many edges.
//!
//! Where a row is cut depends on its length alone, so a kernel that sums the parts in their order
//! gives the same bits for any number of threads.

use std::ops::Range;

use crate::Par;
use crate::par::split_edges;

/// Rows with more edges than this are worked on in parts of as many; very few under Miri, whose
/// inputs are small, so that it sees parts at all.
pub(crate) const PART: usize = if cfg!(miri) { 5 } else { 4096 };

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Whole rows, none of them a hub.
    Rows(Range<usize>),
    /// Some edges of one hub; all its parts follow each other.
    Part { row: usize, edges: Range<usize> },
}

/// Cuts `rows` into pieces of about equally many edges for `threads` threads.
pub(crate) fn pieces(indptr: &[u64], rows: Range<usize>, threads: usize) -> Vec<Piece> {
    let edges = (indptr[rows.end] - indptr[rows.start]) as usize;
    let parts = if threads == 1 {
        1
    } else {
        (threads * 16).min((edges + rows.len()) / 512).max(1)
    };
    let mut pieces = Vec::with_capacity(parts);
    for b in split_edges(indptr, rows, parts).windows(2) {
        let mut first = b[0];
        for r in b[0]..b[1] {
            let span = indptr[r] as usize..indptr[r + 1] as usize;
            if span.len() > PART {
                if first < r {
                    pieces.push(Piece::Rows(first..r));
                }
                first = r + 1;
                for at in span.clone().step_by(PART) {
                    let edges = at..(at + PART).min(span.end);
                    pieces.push(Piece::Part { row: r, edges });
                }
            }
        }
        if first < b[1] {
            pieces.push(Piece::Rows(first..b[1]));
        }
    }
    pieces
}

/// Runs `f(rows, edges, outs)` on pieces of work with `K` outputs a row: `f` writes, for each of
/// `rows`, what those of its edges give that lie in `edges`. Then `join(outs, parts)` makes a hub's
/// outputs of its parts, which follow each other in their order, in each of them the `K` outputs.
/// `outs: [rows, width]` each, of exactly `rows`.
pub(crate) fn reduce_rows<const K: usize>(
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    outs: [(&mut [f32], usize); K],
    f: impl Fn(Range<usize>, Range<usize>, [&mut [f32]; K]) + Sync + Send,
    join: impl Fn([&mut [f32]; K], std::slice::ChunksExact<'_, f32>),
) {
    let pieces = pieces(indptr, rows, par.threads());
    let is_part = |p: &&Piece| matches!(p, Piece::Part { .. });
    let widths = outs.each_ref().map(|o| o.1);
    let stride = widths.iter().sum();
    let mut scratch = par.scratch(pieces.iter().filter(is_part).count() * stride);
    let mut partials = scratch.chunks_exact_mut(stride);
    let mut rest = outs.map(|o| o.0);
    let mut take = |n: usize| {
        let mut k = 0;
        rest.each_mut().map(|rest| {
            let (mine, tail) = std::mem::take(rest).split_at_mut(n * widths[k]);
            (*rest, k) = (tail, k + 1);
            mine
        })
    };
    let (mut jobs, mut hubs, mut part) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Rows(rows) => {
                let edges = indptr[rows.start] as usize..indptr[rows.end] as usize;
                let mine = take(rows.len());
                jobs.push((rows, edges, mine));
            }
            Piece::Part { row, edges } => {
                if edges.start as u64 == indptr[row] {
                    hubs.push((part, take(1)));
                }
                part += 1;
                let mut partial = partials.next().expect("one for each part");
                let partial = widths.map(|width| {
                    let (mine, tail) = std::mem::take(&mut partial).split_at_mut(width);
                    partial = tail;
                    mine
                });
                jobs.push((row..row + 1, edges, partial));
            }
        }
    }
    par.run(jobs, |(rows, edges, outs)| f(rows, edges, outs));
    let ends: Vec<usize> = hubs.iter().skip(1).map(|h| h.0).chain([part]).collect();
    for ((first, outs), end) in hubs.into_iter().zip(ends) {
        join(
            outs,
            scratch[first * stride..end * stride].chunks_exact(stride),
        );
    }
    par.recycle(scratch);
}

/// [`reduce_rows`] with one output a row, the sum over its edges: the parts of a hub are added in
/// their order. `out: [rows, width]`.
pub(crate) fn sum_rows(
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    width: usize,
    out: &mut [f32],
    f: impl Fn(Range<usize>, Range<usize>, &mut [f32]) + Sync + Send,
) {
    let sums =
        |rows: Range<usize>, edges: Range<usize>, [out]: [&mut [f32]; 1]| f(rows, edges, out);
    reduce_rows(par, indptr, rows, [(out, width)], sums, |[out], parts| {
        out.fill(0.0);
        for part in parts {
            for (to, from) in out.iter_mut().zip(part) {
                *to += from;
            }
        }
    });
}

/// Runs `f(rows, edges, out)` on pieces of work whose outputs belong to edges; `out` holds `width`
/// numbers for each edge of `rows`.
pub(crate) fn each_edge(
    par: &Par,
    indptr: &[u64],
    rows: Range<usize>,
    width: usize,
    out: &mut [f32],
    f: impl Fn(Range<usize>, Range<usize>, &mut [f32]) + Sync + Send,
) {
    let mut rest = out;
    let mut jobs = Vec::new();
    for piece in pieces(indptr, rows, par.threads()) {
        let (rows, edges) = match piece {
            Piece::Rows(rows) => {
                let edges = indptr[rows.start] as usize..indptr[rows.end] as usize;
                (rows, edges)
            }
            Piece::Part { row, edges } => (row..row + 1, edges),
        };
        let (mine, tail) = std::mem::take(&mut rest).split_at_mut(edges.len() * width);
        rest = tail;
        jobs.push((rows, edges, mine));
    }
    par.run(jobs, |(rows, edges, out)| f(rows, edges, out));
}

/// The edges of row `r` that lie in `edges`.
#[inline(always)]
pub(crate) fn within(span: Range<usize>, edges: &Range<usize>) -> Range<usize> {
    span.start.max(edges.start)..span.end.min(edges.end)
}

/// The parts of all hubs among `rows`, in order.
pub(crate) fn parts(indptr: &[u64], rows: Range<usize>) -> Vec<(usize, Range<usize>)> {
    pieces(indptr, rows, 1)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Part { row, edges } => Some((row, edges)),
            Piece::Rows(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_rows_once_and_cut_hubs_alike() {
        let mut indptr = vec![0u64];
        for r in 0..300u64 {
            let hub = 5 * PART as u64 / 2;
            let degree = if r % 97 == 5 { hub } else { r % 50 };
            indptr.push(indptr[indptr.len() - 1] + degree);
        }
        let hubs = |threads| -> Vec<Piece> {
            let all = pieces(&indptr, 3..300, threads);
            let mut next = indptr[3] as usize;
            for piece in &all {
                let edges = match piece {
                    Piece::Rows(rows) => indptr[rows.start] as usize..indptr[rows.end] as usize,
                    Piece::Part { edges, .. } => edges.clone(),
                };
                assert_eq!(edges.start, next);
                next = edges.end;
            }
            assert_eq!(next as u64, indptr[300]);
            let part = |p: &Piece| matches!(p, Piece::Part { .. });
            all.into_iter().filter(part).collect()
        };
        let parts = |degree: u64| {
            if degree > PART as u64 {
                degree.div_ceil(PART as u64)
            } else {
                0
            }
        };
        let degrees = indptr[3..].windows(2).map(|at| at[1] - at[0]);
        assert_eq!(hubs(1).len() as u64, degrees.map(parts).sum());
        assert_eq!(hubs(2), hubs(1));
        assert_eq!(hubs(8), hubs(1));
    }
}
