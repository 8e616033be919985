//! How a rank's rows are taken in pieces that fit beside them.

use crate::graph::Block;

/// Runs of a block's rows, and what they read of others' vertices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Where each run begins, and the last one's end. There is at least one.
    pub(crate) bounds: Vec<usize>,
    /// Numbers of others' vertices that most edges read: their rows are fetched once for all runs.
    pub(crate) kept: Vec<u32>,
    /// The most of any run.
    pub(crate) most: Run,
}

/// Sizes of a run of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) rows: usize,
    pub(crate) edges: usize,
    /// Distinct vertices that are named, rows and sources, and those that others own and are not kept.
    pub(crate) columns: usize,
    pub(crate) fetched: usize,
}

/// A run has no more than such a part of a rank's rows and edges.
const RUNS: usize = 16;

/// No more of others' rows than such a part of its own are kept, or fetched for a run. A smaller one would
/// have more of them fetched several times.
const OTHERS: usize = 8;

/// Fewer rows are not worth taking apart.
pub(crate) const LEAST: usize = 4096;

impl Run {
    fn within(&self, most: &Run) -> bool {
        self.rows <= most.rows
            && self.edges <= most.edges
            && self.columns <= most.columns
            && self.fetched <= most.fetched
    }

    fn or(self, other: Run) -> Run {
        Run {
            rows: self.rows.max(other.rows),
            edges: self.edges.max(other.edges),
            columns: self.columns.max(other.columns),
            fetched: self.fetched.max(other.fetched),
        }
    }
}

impl Pieces {
    /// Of a block whose columns are its rows, then others' vertices; `numbers` are those of its columns.
    /// `least` rows are never taken apart, unless there is only `room` for so many columns; and a row that has more
    /// than a run should have is one alone.
    pub(crate) fn of(block: &Block, numbers: &[u32], least: usize, room: Option<usize>) -> Pieces {
        let (a, own) = (block.csr(), block.n_dst);
        let others = (own / OTHERS).max(least);
        let limit = Run {
            rows: (own / RUNS).max(least),
            edges: (block.n_edges() / RUNS).max(8 * least),
            columns: own.max(2 * least).min(room.unwrap_or(usize::MAX)),
            fetched: others,
        };
        let kept = most_read(block, others);
        let mut is_kept = vec![false; block.n_src - own];
        kept.iter().for_each(|&c| is_kept[c as usize - own] = true);
        // By column, the run that named it last.
        let mut named = vec![u32::MAX; block.n_src];
        let (mut bounds, mut most, mut run) = (vec![0], Run::default(), Run::default());
        for r in 0..own {
            let mut add = |run: Run, number: u32| {
                let sources = &a.indices[a.span(r)];
                let mut next = Run {
                    rows: run.rows + 1,
                    edges: run.edges + sources.len(),
                    ..run
                };
                for &c in [r as u32].iter().chain(sources) {
                    let seen = &mut named[c as usize];
                    if *seen == number {
                        continue;
                    }
                    *seen = number;
                    next.columns += 1;
                    let other = (c as usize).checked_sub(own);
                    next.fetched += usize::from(other.is_some_and(|k| !is_kept[k]));
                }
                next
            };
            let number = bounds.len() as u32;
            let next = add(run, number);
            if run.rows > 0 && !next.within(&limit) {
                most = most.or(run);
                bounds.push(r);
                run = add(Run::default(), number + 1);
            } else {
                run = next;
            }
        }
        bounds.push(own);
        Pieces {
            bounds,
            kept: kept.iter().map(|&c| numbers[c as usize]).collect(),
            most: most.or(run),
        }
    }
}

/// Up to `room` columns of others' vertices that several edges read: those that most do. All that there
/// are, if there is room.
fn most_read(block: &Block, room: usize) -> Vec<u32> {
    let own = block.n_dst;
    let others = block.n_src - own;
    let mut columns: Vec<u32> = (own as u32..block.n_src as u32).collect();
    if others <= room {
        return columns;
    }
    let mut reads = vec![0u32; others];
    for &c in block.csr().indices {
        if let Some(k) = (c as usize).checked_sub(own) {
            reads[k] += 1;
        }
    }
    columns.retain(|&c| reads[c as usize - own] > 1);
    columns.sort_by_key(|&c| std::cmp::Reverse(reads[c as usize - own]));
    columns.truncate(room);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_hold_every_row_once_and_say_what_they_read(
            own in 0usize..40, others in 0usize..60, least in 1usize..6,
            edges in proptest::collection::vec((0u32..1000, 0u32..1000), 0..200), room in proptest::option::of(1usize..30),
        ) {
            let n_src = own + others;
            let mut rows = vec![Vec::new(); own];
            for (r, c) in edges.iter().filter(|_| own > 0) {
                rows[*r as usize % own].push(c % n_src as u32);
            }
            let mut indptr = vec![0u64];
            rows.iter().for_each(|row| indptr.push(indptr[indptr.len() - 1] + row.len() as u64));
            let block = Block::new(own, n_src, indptr, rows.concat(), None).expect("valid");
            let numbers: Vec<u32> = (0..n_src as u32).map(|c| c + 7).collect();
            let pieces = Pieces::of(&block, &numbers, least, room);
            prop_assert_eq!((pieces.bounds[0], pieces.bounds[pieces.bounds.len() - 1]), (0, own));
            prop_assert!(pieces.bounds.len() > 1);
            let kept: BTreeSet<u32> = pieces.kept.iter().map(|v| v - 7).collect();
            prop_assert!(kept.iter().all(|&c| c as usize >= own));
            let part = (own / OTHERS).max(least);
            prop_assert!(kept.len() <= part && kept.len() == pieces.kept.len());
            if others <= part {
                prop_assert_eq!(kept.len(), others);
            }
            let mut most = Run::default();
            for w in pieces.bounds.windows(2) {
                prop_assert!(own == 0 || w[0] < w[1]);
                let of = &rows[w[0]..w[1]];
                let named: BTreeSet<u32> =
                    of.iter().flatten().copied().chain(w[0] as u32..w[1] as u32).collect();
                let far = |c: &&u32| **c as usize >= own && !kept.contains(c);
                let run = Run {
                    rows: of.len(),
                    edges: of.iter().map(Vec::len).sum(),
                    columns: named.len(),
                    fetched: named.iter().filter(far).count(),
                };
                prop_assert!(of.len() <= 1 || room.is_none_or(|room| run.columns <= room));
                prop_assert!(of.len() <= 1 || run.rows <= (own / RUNS).max(least) && run.fetched <= part);
                most = most.or(run);
            }
            prop_assert_eq!(most, pieces.most);
        }
    }
}
