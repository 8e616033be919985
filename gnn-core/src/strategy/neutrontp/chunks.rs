//! Chunks: runs of destinations with all their in-edges, and which vertices each needs first.
//!
//! A chunk is a cut of the matrix's rows and nothing else: the topology stays where it is. All ranks
//! take the same chunks in the same order, so that their load is the same without balancing chunks.
//! A backward pass is the same over the transposed matrix: every source adds up what comes along its
//! out-edges, a chunk is a run of sources, and no chunk has a transposed copy of its own.

use super::cuts::Cut;
use super::layout::Portion;
use crate::backend::Sparse;
use crate::error::{Error, Result};
use kernels::par::split_edges;
use kernels::{Csr, CsrBuf};

/// How many chunks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// As few as fit into the device; one where it has no budget.
    Auto,
    /// So many, with about as many edges each; fewer where there are fewer vertices.
    Of(usize),
}

/// Bounds of chunks of vertices whose edges start at `indptr: [n + 1]`. `grow` gives the bytes that a
/// device needs for a run of them when the next vertex is added, or when that begins another run; they
/// grow with the run. A budget of 0 is none.
///
/// # Errors
/// [`Error::Spec`] with the bytes needed and the budget, when a chunk does not fit.
pub(super) fn bounds(
    indptr: &[u64],
    count: Count,
    budget: u64,
    grow: &mut dyn FnMut(usize, bool) -> u64,
) -> Result<Vec<usize>> {
    let n = indptr.len() - 1;
    let mut need = 0;
    let bounds = match count {
        Count::Of(chunks) => split_edges(indptr, 0..n, chunks),
        Count::Auto if budget == 0 || n == 0 => vec![0, n],
        Count::Auto => {
            // As many rows as fit, again and again: no other cut into runs has fewer.
            let mut bounds = vec![0];
            need = grow(0, true);
            for v in 1..n {
                if grow(v, false) > budget {
                    bounds.push(v);
                    need = need.max(grow(v, true));
                }
            }
            bounds.push(n);
            bounds
        }
    };
    if let (Count::Of(_), true) = (count, budget > 0) {
        for b in bounds.windows(2) {
            let run = (b[0]..b[1]).map(|v| grow(v, v == b[0]));
            need = need.max(run.last().unwrap_or(0));
        }
    }
    if budget > 0 && need > budget {
        return Err(over_budget(need, budget));
    }
    Ok(bounds)
}

/// A device that does not hold what it must.
fn over_budget(need: u64, budget: u64) -> Error {
    Error::Spec {
        key: "device_mem".into(),
        reason: format!("a chunk needs {need} bytes on the device, which has {budget}"),
        help: "use more chunks (chunks = auto takes as few as fit), more ranks, or more memory"
            .into(),
    }
}

/// For each chunk, the vertices that it is the first to need, ascending: its destinations, and the
/// sources of their in-edges. Every vertex is in one list.
pub(super) fn first_needs(a: Csr<'_>, bounds: &[usize]) -> Vec<Vec<u32>> {
    if bounds.len() == 2 {
        return vec![(0..a.rows() as u32).collect()];
    }
    let mut seen = vec![false; a.rows()];
    let new = |b: &[usize]| {
        let edges = a.span(b[0]).start..a.span(b[1] - 1).end;
        let sources = a.indices[edges].iter().copied();
        let mut new: Vec<u32> = (b[0] as u32..b[1] as u32)
            .chain(sources)
            .filter(|&v| !std::mem::replace(&mut seen[v as usize], true))
            .collect();
        new.sort_unstable();
        new
    };
    bounds.windows(2).map(new).collect()
}

/// The vertices by the chunk that needs them first, and within it by the chunk they are in: rows that
/// travel together, however the split is cut.
pub(super) fn portions(a: Csr<'_>, bounds: &[usize]) -> Vec<Vec<u32>> {
    let of_run = |list: &[u32], b: &[usize]| -> Vec<u32> {
        let at = |end: usize| list.partition_point(|&v| (v as usize) < end);
        list[at(b[0])..at(b[1])].to_vec()
    };
    let needs = first_needs(a, bounds);
    let parts = needs
        .iter()
        .flat_map(|list| bounds.windows(2).map(move |b| of_run(list, b)));
    parts.filter(|part| !part.is_empty()).collect()
}

/// An owner of each vertex, so that every rank has an equal share of what each chunk needs first,
/// and of all. A share is a run of ids.
pub(super) fn share_out(needs: &[Vec<u32>], n: usize, ranks: usize) -> Vec<u32> {
    let (mut owner, mut totals) = (vec![0; n], vec![0; ranks]);
    for list in needs {
        let mut order: Vec<usize> = (0..ranks).collect();
        // What does not divide goes to those that have least.
        order.sort_by_key(|&r| totals[r]);
        let mut sizes = vec![list.len() / ranks; ranks];
        order[..list.len() % ranks]
            .iter()
            .for_each(|&r| sizes[r] += 1);
        let mut rest = &list[..];
        for (rank, &size) in sizes.iter().enumerate() {
            let (mine, others) = rest.split_at(size);
            mine.iter().for_each(|&v| owner[v as usize] = rank as u32);
            totals[rank] += size;
            rest = others;
        }
    }
    owner
}

/// How the split and the gather are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipeline {
    /// Not at all.
    Off,
    /// The split by what each chunk of destinations needs first, as in the paper. In a dense graph the
    /// first chunk needs nearly everything, and nothing of the split is hidden.
    ByNeed,
    /// The split by runs of sources: the first round multiplies by the columns of a run when its rows
    /// have come, whatever they are needed for. That takes a second copy of the edges, and a result
    /// that stays where it is until all runs have been added to it.
    BySource,
}

/// One direction's way over the graph: its chunks, and the rows that travel before and after them.
pub(super) struct Way {
    /// Bounds of the chunks' destinations.
    pub(super) bounds: Vec<usize>,
    /// What arrives before each chunk; one portion, before the first chunk, without pipelining.
    pub(super) split: Vec<Portion>,
    /// What leaves after each chunk; one portion, after the last chunk, without pipelining.
    pub(super) gather: Vec<Portion>,
    /// What a device is given of each chunk, over every matrix of the way; none without a device.
    pub(super) cuts: Vec<Vec<Cut>>,
    /// The first round's matrix by the columns of each portion of the split; none where chunks of
    /// destinations follow each other in the first round too. Added up in order, every sum is that of
    /// the whole matrix.
    pub(super) columns: Vec<Sparse>,
}

/// The columns of `a: [m, n]` between bounds, each as a matrix `[m, n]` of its own.
fn by_columns(a: Csr<'_>, bounds: &[usize]) -> Vec<Sparse> {
    let part = |b: &[usize]| {
        let mut part = CsrBuf::empty(a.n_cols);
        part.weights = a.weights.map(|_| Vec::new());
        for r in 0..a.rows() {
            let span = a.span(r);
            // Sources ascend.
            let from =
                |end: usize| a.indices[span.clone()].partition_point(|&s| (s as usize) < end);
            let span = span.start + from(b[0])..span.start + from(b[1]);
            part.indices.extend_from_slice(&a.indices[span.clone()]);
            if let (Some(all), Some(weights)) = (a.weights, &mut part.weights) {
                weights.extend_from_slice(&all[span]);
            }
            part.indptr.push(part.indices.len() as u64);
        }
        Sparse::new(part)
    };
    bounds.windows(2).map(part).collect()
}

/// Who owns what, as one rank sees it.
#[derive(Clone, Copy)]
pub(super) struct Owners<'a> {
    /// Owner of each vertex.
    pub(super) owner: &'a [u32],
    /// Its row among those of its owner.
    pub(super) local: &'a [u32],
    /// This rank.
    pub(super) me: usize,
    /// Number of ranks.
    pub(super) ranks: usize,
}

impl Way {
    /// Over the rows of `a`, cut at `bounds`. `groups` are the rows that a vertex has before the first
    /// chunk and after the last.
    pub(super) fn new(
        a: Csr<'_>,
        bounds: Vec<usize>,
        owners: Owners<'_>,
        groups: (usize, usize),
        pipeline: Pipeline,
    ) -> Way {
        let n = a.rows() as u32;
        let portion = |ids: &mut dyn Iterator<Item = u32>, group| {
            let places = (owners.owner, owners.local);
            Portion::new(ids, places, owners.me, owners.ranks, group)
        };
        if pipeline == Pipeline::Off || bounds.len() == 2 {
            return Way {
                split: vec![portion(&mut (0..n), groups.0)],
                gather: vec![portion(&mut (0..n), groups.1)],
                columns: Vec::new(),
                cuts: Vec::new(),
                bounds,
            };
        }
        let by_run = |group| -> Vec<Portion> {
            let runs = bounds.windows(2).map(|b| b[0] as u32..b[1] as u32);
            runs.map(|mut run| portion(&mut run, group)).collect()
        };
        let by_need = || {
            let needs = first_needs(a, &bounds);
            let each = needs.iter();
            let each = each.map(|list| portion(&mut list.iter().copied(), groups.0));
            each.collect()
        };
        let by_source = pipeline == Pipeline::BySource;
        Way {
            split: if by_source {
                by_run(groups.0)
            } else {
                by_need()
            },
            gather: by_run(groups.1),
            columns: if by_source {
                by_columns(a, &bounds)
            } else {
                Vec::new()
            },
            cuts: Vec::new(),
            bounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelKind;
    use crate::testing::random_dataset;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn every_vertex_is_needed_first_once_and_shares_are_even(
            n in 1usize..80, degree in 0usize..6, chunks in 1usize..9, ranks in 1usize..5, seed: u64,
        ) {
            let data = random_dataset(n, n * degree, 2, 2, false, seed);
            let block = data.graph.propagation(ModelKind::Sage.propagation());
            let bounds = bounds(block.csr().indptr, Count::Of(chunks), 0, &mut |_, _| 0).expect("no budget");
            let needs = first_needs(block.csr(), &bounds);
            prop_assert_eq!(needs.len(), bounds.len() - 1);
            let mut all: Vec<u32> = needs.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
            // Nothing is needed before it has arrived.
            let mut there = vec![false; n];
            for (b, new) in bounds.windows(2).zip(&needs) {
                new.iter().for_each(|&v| there[v as usize] = true);
                for v in b[0]..b[1] {
                    prop_assert!(there[v]);
                    let sources = &block.csr().indices[block.csr().span(v)];
                    prop_assert!(sources.iter().all(|&s| there[s as usize]));
                }
            }
            let owner = share_out(&needs, n, ranks);
            let counts = |ids: &mut dyn Iterator<Item = u32>| {
                let mut counts = vec![0usize; ranks];
                ids.for_each(|v| counts[owner[v as usize] as usize] += 1);
                (counts.iter().max().copied(), counts.iter().min().copied())
            };
            let even = |(most, least): (Option<usize>, Option<usize>)| most <= least.map(|l| l + 1);
            prop_assert!(even(counts(&mut (0..n as u32))));
            for list in &needs {
                prop_assert!(even(counts(&mut list.iter().copied())));
            }
        }

        /// The automatic cut has as few chunks as any cut into runs that fit.
        #[test]
        fn the_automatic_cut_is_the_smallest(n in 1usize..9, degree in 0usize..4, slack in 0u64..60, seed: u64) {
            let data = random_dataset(n, n * degree, 2, 2, false, seed);
            let block = data.graph.propagation(ModelKind::Sage.propagation());
            let a = block.csr();
            let cost = |rows: std::ops::Range<usize>| 8 + rows.len() as u64 + a.indptr[rows.end] - a.indptr[rows.start];
            let budget = (0..n).map(|v| cost(v..v + 1)).max().expect("not empty") + slack;
            let mut begun = 0;
            let mut grow = |v: usize, begins: bool| {
                begun = if begins { v } else { begun };
                cost(begun..v + 1)
            };
            let found = bounds(a.indptr, Count::Auto, budget, &mut grow).expect("every vertex fits");
            let fewest = (0u32..1 << (n - 1)).filter_map(|cuts| {
                let inner = (1..n).filter(|k| cuts >> (k - 1) & 1 == 1);
                let b: Vec<usize> = std::iter::once(0).chain(inner).chain([n]).collect();
                b.windows(2).all(|b| cost(b[0]..b[1]) <= budget).then_some(b.len())
            }).min();
            prop_assert_eq!(Some(found.len()), fewest);
        }
    }

    #[test]
    fn a_vertex_that_does_not_fit_is_refused_with_both_numbers() {
        let data = random_dataset(5, 10, 2, 2, false, 1);
        let block = data.graph.propagation(ModelKind::Sage.propagation());
        let mut begun = 0;
        let e = bounds(block.csr().indptr, Count::Auto, 3, &mut |v, begins| {
            begun = if begins { v } else { begun };
            4 * (v + 1 - begun) as u64
        });
        let text = e.expect_err("nothing fits").to_string();
        assert!(text.contains("4 bytes") && text.contains("has 3"), "{text}");
    }
}
