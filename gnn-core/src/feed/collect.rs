//! A hop as a layer reads it: its block, and the rows of its sources, from wherever they lie.

use super::gather::Reach;
use super::rows::RowData;
use super::stats::Stats;
use crate::backend::Sparse;
use crate::error::Result;
use crate::graph::{Block, Relations};
use crate::sample::{Compact, Hop};
use kernels::CsrBuf;

/// What a model wants of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) layers: usize,
    /// The first layer only reads aggregates of features, which are summed where they lie.
    pub(crate) in_place: bool,
    /// The first layer reads its destinations' own features as well.
    pub(crate) own: bool,
    /// There will be a backward pass.
    pub(crate) trains: bool,
    /// It reads where an edge is in the transposed.
    pub(crate) edge_places: bool,
    /// Features are read at all.
    pub(crate) features: bool,
    /// Some of the input is learnt.
    pub(crate) learnt: bool,
}

/// Where rows of features lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// This rank's own.
    Store,
    /// Copies that it keeps.
    Cache,
    /// Fetched for this batch.
    Fetched,
}

/// Features of a batch.
pub(crate) enum MadeInput {
    /// None: all of the input is learnt.
    Nothing,
    /// The rows of the first block's columns. Sparse ones with their transposed.
    Rows(RowData, Option<CsrBuf>),
    /// The first layer's in-edges by where their sources lie, the rows that were fetched, and those of
    /// the destinations where they are wanted.
    InPlace(Vec<(Source, Sparse)>, RowData, Option<RowData>),
}

/// Collects what hops read.
pub(crate) struct Collector {
    pub(crate) reach: Reach,
    pub(crate) wants: Wants,
    pub(super) compact: Compact,
    /// By row of this rank's, and then of those it keeps, whether a hop reads it.
    touched: Vec<u64>,
}

impl Collector {
    /// One that reaches what `reach` does.
    pub(crate) fn new(reach: Reach, wants: Wants) -> Collector {
        Collector {
            reach,
            wants,
            compact: Compact::default(),
            touched: Vec::new(),
        }
    }

    /// A hop from `rows` as a block, and the numbers of its columns.
    pub(super) fn block(&mut self, hop: Hop, rows: &[u32]) -> Result<(Block, Vec<u32>)> {
        let Hop {
            indptr,
            mut sources,
            weights,
            types,
        } = hop;
        let n = self.reach.shard.numbers.ids.len();
        let columns = self.compact.number(n, rows, &mut sources);
        let make = match self.wants.trains {
            true => Block::brief,
            false => Block::once,
        };
        let block = make(rows.len(), columns.len(), indptr, sources, weights)?;
        let typed = self.reach.shard.typed;
        let block = match types {
            Some(types) => block.with_relations(Relations::new(types, typed)?)?,
            // A hop without rows says nothing about types.
            None if typed > 0 => block.with_relations(Relations::new(Vec::new(), typed)?)?,
            None => block,
        };
        Ok((block, columns))
    }

    /// Where a number's row lies, if it need not be fetched.
    pub(super) fn place(&self, number: u32) -> Option<(Source, u32)> {
        let shard = &self.reach.shard;
        let own = shard.numbers.of(shard.rank);
        if own.contains(&number) {
            return Some((Source::Store, number - own.start));
        }
        let kept = self.reach.cache.find(number);
        kept.map(|row| (Source::Cache, row))
    }

    /// The feature rows of `numbers`, which are distinct.
    pub(super) fn rows_of(&mut self, numbers: &[u32], stats: &mut Stats) -> Result<MadeInput> {
        let mut missing = Vec::new();
        let mut places = Vec::with_capacity(numbers.len());
        for &v in numbers {
            let (source, row) = self.place(v).unwrap_or_else(|| {
                missing.push(v);
                (Source::Fetched, missing.len() as u32 - 1)
            });
            match source {
                Source::Store => stats.rows_local += 1,
                Source::Cache => stats.rows_cached += 1,
                Source::Fetched => stats.rows_remote += 1,
            }
            places.push((source as u32, row));
        }
        let fetched = self.reach.fetch(&missing)?;
        let rows = self.pick(&fetched, &places);
        let transposed = match &rows {
            RowData::Sparse(x) if self.wants.trains && !self.wants.learnt => {
                Some(x.view().transpose())
            }
            _ => None,
        };
        Ok(MadeInput::Rows(rows, transposed))
    }

    fn pick(&self, fetched: &RowData, places: &[(u32, u32)]) -> RowData {
        let Reach {
            rows, cache, par, ..
        } = &self.reach;
        rows.pick(&[rows, &cache.rows, fetched], places, par)
    }

    /// The first layer's hop from `rows`, by where its sources lie.
    pub(super) fn in_place(
        &mut self,
        hop: Hop,
        rows: &[u32],
        stats: &mut Stats,
    ) -> Result<MadeInput> {
        let n = rows.len();
        if self.reach.shard.alone() {
            let own = self.wants.own.then(|| {
                let places: Vec<(u32, u32)> = rows.iter().map(|&v| (0, v)).collect();
                self.reach
                    .rows
                    .pick(&[&self.reach.rows], &places, &self.reach.par)
            });
            let fetched = self.reach.fetch(&[])?;
            let whole = checked(CsrBuf {
                indptr: hop.indptr,
                indices: hop.sources,
                weights: hop.weights,
                n_cols: self.reach.rows.len(),
            })?;
            return Ok(MadeInput::InPlace(
                vec![(Source::Store, whole)],
                fetched,
                own,
            ));
        }
        // By where their sources lie; those to be fetched keep their numbers for now.
        let widths = [self.reach.rows.len(), self.reach.cache.rows.len(), 0];
        let mut parts = widths.map(|n_cols| CsrBuf {
            weights: hop.weights.as_ref().map(|_| Vec::new()),
            ..CsrBuf::empty(n_cols)
        });
        for r in 0..n {
            for e in hop.indptr[r] as usize..hop.indptr[r + 1] as usize {
                let number = hop.sources[e];
                let (source, row) = self.place(number).unwrap_or((Source::Fetched, number));
                let part = &mut parts[source as usize];
                part.indices.push(row);
                if let (Some(to), Some(from)) = (&mut part.weights, &hop.weights) {
                    to.push(from[e]);
                }
            }
            for part in &mut parts {
                part.indptr.push(part.indices.len() as u64);
            }
        }
        // Own rows that are missing come first.
        let mut own_places = Vec::new();
        let mut missing = Vec::new();
        if self.wants.own {
            own_places.extend(rows.iter().map(|&v| {
                self.place(v).unwrap_or_else(|| {
                    missing.push(v);
                    (Source::Fetched, missing.len() as u32 - 1)
                })
            }));
        }
        let all = self.reach.shard.numbers.ids.len();
        let fetch = &mut parts[Source::Fetched as usize];
        let wanted = self.compact.number(all, &missing, &mut fetch.indices);
        fetch.n_cols = wanted.len();
        let fetched = self.reach.fetch(&wanted)?;
        stats.rows_remote += wanted.len() as u64;
        stats.hops[0].columns += wanted.len() as u64;
        let own = self.wants.own.then(|| {
            let places = own_places.iter().map(|&(source, row)| (source as u32, row));
            self.pick(&fetched, &places.collect::<Vec<_>>())
        });
        let mut of = Vec::with_capacity(3);
        let kinds = [Source::Store, Source::Cache, Source::Fetched];
        for (kind, part) in kinds.into_iter().zip(parts) {
            // The first one is what others are added to.
            if kind == Source::Store || !part.indices.is_empty() {
                of.push((kind, checked(part)?));
            }
        }
        Ok(MadeInput::InPlace(of, fetched, own))
    }

    /// Counts the rows of this rank, and those it keeps copies of, that a first layer in place reads.
    pub(super) fn count_local(&mut self, sources: &[u32], rows: &[u32], stats: &mut Stats) {
        let shard = &self.reach.shard;
        let own = shard.numbers.of(shard.rank);
        let cache = &self.reach.cache;
        let len = own.len() + cache.rows.len();
        self.touched.clear();
        self.touched.resize(len.div_ceil(64), 0);
        for &v in sources.iter().chain(rows) {
            let place = if own.contains(&v) {
                (v - own.start) as usize
            } else {
                match cache.find(v) {
                    Some(row) => own.len() + row as usize,
                    None => continue,
                }
            };
            self.touched[place / 64] |= 1 << (place % 64);
        }
        let count = |range: std::ops::Range<usize>| -> u64 {
            let bit = |k: &usize| self.touched[k / 64] >> (k % 64) & 1 == 1;
            range.filter(bit).count() as u64
        };
        let whole: u64 = self.touched.iter().map(|w| u64::from(w.count_ones())).sum();
        let cached = count(own.len()..len);
        stats.rows_local += whole - cached;
        stats.rows_cached += cached;
        stats.hops[0].columns += whole;
    }
}

/// A sparse matrix of a batch.
fn checked(csr: CsrBuf) -> Result<Sparse> {
    csr.view().check()?;
    Ok(Sparse::brief(csr))
}
