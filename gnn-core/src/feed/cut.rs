//! A rank's part of the graph, straight from the graph and its owners: what others have is read once and
//! not kept, and no other copy of the graph is made.
//!
//! # Paper
//! DistDGL § 4.1.2: core vertices and the halo of their in-edges.

use super::shard::Numbers;
use crate::error::{Error, Result};
use crate::graph::{Block, Relations, RowMut, WeightedRows, rows_mut};
use crate::partition::{Facts, Masks};
use rayon::prelude::*;
use std::sync::Arc;

/// Rows that are filled before the graph is let go.
const AT_ONCE: usize = 1 << 12;

/// How vertices are cut.
#[derive(Clone, Copy)]
pub(crate) struct Ownership<'a> {
    /// By vertex, the rank that owns it: `[n]`; none where one rank owns all.
    pub(crate) owner: Option<&'a [u32]>,
    /// Which rank's part is made, of how many.
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
}

impl Ownership<'_> {
    fn of(&self, v: usize) -> usize {
        self.owner.map_or(0, |owner| owner[v] as usize)
    }

    fn check(&self, n: usize) -> Result<()> {
        let err = |expected: String, got: String| {
            Err(Error::Shape {
                op: "local part".into(),
                expected,
                got,
            })
        };
        let ranks = self.ranks;
        if self.rank >= ranks {
            return err(format!("a rank below {ranks}"), self.rank.to_string());
        }
        let Some(owner) = self.owner else {
            return match ranks {
                1 => Ok(()),
                _ => err("an owner a vertex".into(), "none".into()),
            };
        };
        if owner.len() != n {
            return err(format!("{n} owners"), owner.len().to_string());
        }
        match owner.iter().position(|&r| r as usize >= ranks) {
            Some(v) => err(format!("owner[{v}] below {ranks}"), owner[v].to_string()),
            None => Ok(()),
        }
    }
}

/// One rank's part. All ranks number vertices alike.
pub(crate) struct RankPart {
    pub(crate) numbers: Arc<Numbers>,
    /// The data set's ids of its own vertices: those with all sources here, then the others, both in the
    /// order of the vertices.
    pub(crate) own: Vec<u32>,
    /// The data set's ids of remote sources, by owner, then in the order of the vertices.
    pub(crate) halo: Vec<u32>,
    /// Rows are `own`, columns `own` and `halo`; weights are those of the whole graph.
    pub(crate) block: Block,
    /// The number of each column of the block.
    pub(crate) columns: Vec<u32>,
    /// In-edges from rank to rank, `[destination][source]`, and remote vertices that each rank reads:
    /// `[ranks]`.
    crossing: Vec<Vec<u64>>,
    halos: Vec<u64>,
}

impl RankPart {
    /// What the cut costs, for each rank; `row_bytes` are those of one row of features.
    pub(crate) fn facts(&self, by: Ownership<'_>, masks: Masks, row_bytes: u64) -> Facts {
        let owner = by.owner.unwrap_or_default();
        Facts::new(self.crossing.clone(), &self.halos, owner, masks, row_bytes)
    }
}

/// A bit a vertex.
struct Bits(Vec<u64>);

impl Bits {
    fn new(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }

    fn has(&self, v: u32) -> bool {
        self.0[v as usize / 64] >> (v % 64) & 1 == 1
    }

    /// Whether it was not there before.
    fn add(&mut self, v: u32) -> bool {
        let word = &mut self.0[v as usize / 64];
        let new = *word >> (v % 64) & 1 == 0;
        *word |= 1 << (v % 64);
        new
    }
}

/// What one pass over all edges says.
struct Seen {
    /// Vertices with a source that another rank owns.
    boundary: Bits,
    /// By rank, the remote vertices that it reads.
    read: Vec<Bits>,
    crossing: Vec<Vec<u64>>,
    halos: Vec<u64>,
}

impl Seen {
    fn of(rows: &WeightedRows<'_>, by: Ownership<'_>) -> Seen {
        let (graph, ranks) = (rows.graph, by.ranks);
        let n = graph.n();
        let mut seen = Seen {
            boundary: Bits::new(n),
            read: (0..ranks).map(|_| Bits::new(n)).collect(),
            crossing: vec![vec![0; ranks]; ranks],
            halos: vec![0; ranks],
        };
        if ranks == 1 {
            seen.read.clear();
            return seen;
        }
        for piece in graph.pieces() {
            for v in piece.clone() {
                let r = by.of(v);
                let mut here = u64::from(rows.loops());
                for &s in graph.neighbours(v) {
                    let from = by.of(s as usize);
                    if from == r {
                        here += u64::from(s as usize != v || !rows.loops());
                        continue;
                    }
                    seen.crossing[r][from] += 1;
                    seen.boundary.add(v as u32);
                    seen.halos[r] += u64::from(seen.read[r].add(s));
                }
                seen.crossing[r][r] += here;
            }
            graph.release(piece);
        }
        seen
    }
}

/// The part of a rank. Vertices are numbered rank by rank, each rank's in the order of [`RankPart::own`];
/// `ids` are all vertices in their order, ascending without them. Beside the part, some words a vertex
/// and a bit a vertex and rank exist meanwhile.
///
/// # Errors
/// [`Error::Shape`] when owners do not fit the graph or name a rank that does not exist.
pub(crate) fn cut(
    rows: &WeightedRows<'_>,
    ids: Option<&[u32]>,
    by: Ownership<'_>,
) -> Result<RankPart> {
    let n = rows.graph.n();
    by.check(n)?;
    let (me, ranks) = (by.rank, by.ranks);
    let seen = Seen::of(rows, by);
    let in_order = || (0..n).map(|k| ids.map_or(k as u32, |ids| ids[k]));

    // Every rank's interior vertices, then its others.
    let mut sizes = vec![[0u32; 2]; ranks];
    let kind = |v: u32| usize::from(seen.boundary.has(v));
    in_order().for_each(|v| sizes[by.of(v as usize)][kind(v)] += 1);
    let (mut first, mut next, mut sum) = (vec![0], Vec::with_capacity(ranks), 0);
    for [interior, rest] in &sizes {
        next.push([sum, sum + interior]);
        sum += interior + rest;
        first.push(sum);
    }
    let (mut number, mut by_number) = (vec![0u32; n], vec![0u32; n]);
    for v in in_order() {
        let slot = &mut next[by.of(v as usize)][kind(v)];
        number[v as usize] = *slot;
        by_number[*slot as usize] = v;
        *slot += 1;
    }
    let own = by_number[first[me] as usize..first[me + 1] as usize].to_vec();

    let mut halo: Vec<u32> = match seen.read.get(me) {
        Some(read) => (0..n as u32).filter(|&v| read.has(v)).collect(),
        None => Vec::new(),
    };
    halo.sort_unstable_by_key(|&v| (by.of(v as usize), rows.place(v)));

    let columns = own.iter().chain(&halo).map(|&v| number[v as usize]);
    let columns: Vec<u32> = columns.collect();
    // From here on, the column of each vertex that has one.
    let mut column = number;
    for (&v, c) in own.iter().chain(&halo).zip(0..) {
        column[v as usize] = c;
    }
    let block = block(rows, &own, &column, columns.len())?;
    Ok(RankPart {
        numbers: Arc::new(Numbers {
            first,
            ids: by_number,
        }),
        own,
        halo,
        block,
        columns,
        crossing: seen.crossing,
        halos: seen.halos,
    })
}

/// The rows of `own` with sources renamed by `column`, of which there are `n_src`.
fn block(rows: &WeightedRows<'_>, own: &[u32], column: &[u32], n_src: usize) -> Result<Block> {
    // Rows are read in the order in which they lie in the file.
    let mut order: Vec<u32> = (0..own.len() as u32).collect();
    order.sort_unstable_by_key(|&r| own[r as usize]);
    let mut indptr = vec![0u64; own.len() + 1];
    for some in order.chunks(AT_ONCE) {
        for &r in some {
            indptr[r as usize + 1] = rows.len(own[r as usize] as usize) as u64;
        }
        release(rows, own, some);
    }
    for r in 0..own.len() {
        indptr[r + 1] += indptr[r];
    }
    let edges = indptr[own.len()] as usize;
    let mut indices = vec![0u32; edges];
    let mut weights = rows.has_weights().then(|| vec![0f32; edges]);
    let mut types = rows.relations().map(|_| vec![0u16; edges]);
    {
        let mut sources = slots(rows_mut(&indptr, &mut indices));
        let mut weights = weights.as_mut().map(|w| slots(rows_mut(&indptr, w)));
        let mut types = types.as_mut().map(|t| slots(rows_mut(&indptr, t)));
        for some in order.chunks(AT_ONCE) {
            let job = |&r: &u32| {
                let r = r as usize;
                let row = RowMut {
                    sources: sources[r].take()?,
                    weights: weights.as_mut().and_then(|w| w[r].take()),
                    types: types.as_mut().and_then(|t| t[r].take()),
                };
                Some((own[r] as usize, row))
            };
            let jobs: Vec<(usize, RowMut<'_>)> = some.iter().filter_map(job).collect();
            jobs.into_par_iter().for_each(|(v, row)| {
                rows.fill(v, row);
            });
            release(rows, own, some);
        }
    }
    indices
        .par_iter_mut()
        .for_each(|s| *s = column[*s as usize]);
    let block = Block::new(own.len(), n_src, indptr, indices, weights)?;
    match (types, rows.relations()) {
        (Some(types), Some(count)) => block.with_relations(Relations::new(types, count)?),
        _ => Ok(block),
    }
}

/// Each of them may be taken once.
fn slots<T>(rows: Vec<&mut [T]>) -> Vec<Option<&mut [T]>> {
    rows.into_iter().map(Some).collect()
}

/// Lets go of the graph between the first and the last of these rows of `own`, which ascend.
fn release(rows: &WeightedRows<'_>, own: &[u32], some: &[u32]) {
    let ends = some.first().zip(some.last());
    if let Some((&first, &last)) = ends {
        let (first, last) = (own[first as usize] as usize, own[last as usize] as usize);
        rows.graph.release(first..last + 1);
    }
}

#[cfg(test)]
mod tests;
