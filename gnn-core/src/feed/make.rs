//! A whole batch: its blocks, its features, its labels.

use super::gather::Reach;
use super::links::EdgeSeeds;
use super::rows::RowData;
use super::seeds::Seeds;
use super::stats::{HopStats, Stats};
use crate::backend::{Kept, Sparse};
use crate::error::Result;
use crate::graph::{Block, Relations};
use crate::head::PairBatch;
use crate::record::now_ns;
use crate::sample::{Compact, Hop, Without};
use crate::strategy::Rows;
use kernels::CsrBuf;
use std::sync::Arc;

/// What a model wants of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) layers: usize,
    /// The first layer only reads aggregates of features, which are summed where they lie.
    pub(crate) in_place: bool,
    /// The first layer reads its destinations' own features as well.
    pub(crate) own: bool,
    /// Backward reads where an edge is in the transposed.
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

/// A batch that a thread has made for another.
pub(crate) struct Made {
    pub(crate) step: u64,
    pub(crate) input: MadeInput,
    pub(crate) blocks: Vec<Option<Block>>,
    pub(crate) ids: Vec<Kept<u32>>,
    /// Where some of the input is learnt, the numbers of its rows.
    pub(crate) read: Vec<u32>,
    pub(crate) rows: Rows,
    pub(crate) pairs: Option<PairBatch>,
    pub(crate) stats: Stats,
}

/// Makes batches, one after the other.
pub(crate) struct Maker {
    pub(crate) reach: Reach,
    pub(crate) seeds: Arc<Seeds>,
    /// Of the seeds, in their order.
    pub(crate) labels: Arc<Rows>,
    /// Where links are predicted, the edges that [`Maker::seeds`] are the first ends of.
    pub(crate) links: Option<Arc<EdgeSeeds>>,
    pub(crate) wants: Wants,
    pub(crate) compact: Compact,
    /// The order of the seeds in an epoch.
    pub(crate) order: Option<(u64, Vec<u32>)>,
    /// By owned vertex, whether the batch reads it.
    pub(crate) touched: Vec<u64>,
}

/// Numbers of the rows of a batch's last block, their labels, pairs of them and edges that are left out
/// where links are predicted, and how many seeds or edges it has.
type Begun = (Vec<u32>, Rows, Option<PairBatch>, Option<Without>, usize);

impl Maker {
    /// Batch `step` of `epoch`.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn make(&mut self, epoch: u64, step: u64) -> Result<Made> {
        let start = now_ns();
        self.reach.wait_ns = 0;
        self.reach.epoch = epoch;
        let (mut rows, labels, pairs, without, seeds) = self.begin(epoch, step)?;
        let layers = self.wants.layers;
        let mut stats = Stats {
            batches: 1,
            seeds: seeds as u64,
            ..Stats::new(layers)
        };
        let (mut blocks, mut levels) = (Vec::with_capacity(layers), vec![rows.clone()]);
        let mut input = None;
        for layer in (0..layers).rev() {
            let (hop, remote) = self
                .reach
                .hop(layer, (epoch, step), &rows, without.as_ref())?;
            stats.drawn_remote += remote as u64;
            stats.hops[layer] = HopStats {
                rows: rows.len() as u64,
                columns: 0,
                edges: hop.sources.len() as u64,
            };
            if layer == 0 && self.wants.in_place {
                stats.draw_ns = now_ns() - start - self.reach.wait_ns;
                input = Some(self.in_place(hop, &rows, &mut stats)?);
                blocks.push(None);
                break;
            }
            let (block, columns) = self.block(hop, &rows)?;
            stats.hops[layer].columns = columns.len() as u64;
            blocks.push(Some(block));
            levels.push(columns.clone());
            rows = columns;
        }
        let input = match input {
            Some(input) => input,
            None => {
                stats.draw_ns = now_ns() - start - self.reach.wait_ns;
                match self.wants.features {
                    true => self.rows_of(&rows, &mut stats)?,
                    false => MadeInput::Nothing,
                }
            }
        };
        stats.wait_ns = self.reach.wait_ns;
        stats.collect_ns = (now_ns() - start).saturating_sub(stats.draw_ns + stats.wait_ns);
        blocks.reverse();
        if levels.len() == layers {
            // A block in place has no columns of its own.
            levels.push(Vec::new());
        }
        let ids = &self.reach.shard.numbers.ids;
        let named = levels.iter().rev().map(|level| {
            let ids: Vec<u32> = level.iter().map(|&v| ids[v as usize]).collect();
            Kept::from(ids)
        });
        Ok(Made {
            step,
            input,
            blocks,
            ids: named.collect(),
            read: if self.wants.learnt { rows } else { Vec::new() },
            rows: labels,
            pairs,
            stats,
        })
    }

    /// Where a batch begins.
    fn begin(&mut self, epoch: u64, step: u64) -> Result<Begun> {
        if self.order.as_ref().is_none_or(|o| o.0 != epoch) {
            self.order = Some((epoch, self.seeds.order(epoch)));
        }
        let (_, order) = self.order.as_ref().expect("set above");
        let places = order[self.seeds.of_batch(step)].to_vec();
        let total = self.seeds.total(step);
        let begun = match &self.links {
            None => {
                let mine = self.seeds.mine();
                let rows: Vec<u32> = places.iter().map(|&k| mine[k as usize]).collect();
                (
                    rows,
                    self.labels.pick(&places, total),
                    None,
                    None,
                    places.len(),
                )
            }
            Some(links) => {
                let batch = links.batch(epoch, &places, &mut self.compact)?;
                let mut labels = self.labels.pick(&[], 0);
                labels.train_total = total * self.labels.train_total;
                let (pairs, without) = (Some(batch.pairs), batch.without);
                (batch.seeds, labels, pairs, without, places.len())
            }
        };
        Ok(begun)
    }

    /// The numbers, each once, whose feature rows batch `step` of `epoch` has to fetch.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn reads(&mut self, epoch: u64, step: u64) -> Result<Vec<u32>> {
        let (mut rows, _, _, without, _) = self.begin(epoch, step)?;
        let n = self.reach.shard.numbers.ids.len();
        for layer in (0..self.wants.layers).rev() {
            let at = (epoch, step);
            let (mut hop, _) = self.reach.hop(layer, at, &rows, without.as_ref())?;
            rows = self.compact.number(n, &rows, &mut hop.sources);
        }
        rows.retain(|&v| self.place(v).is_none());
        Ok(rows)
    }

    /// A hop from `rows` as a block, and the numbers of its columns. What backward will ask of it is made
    /// here, beside the thread that trains.
    fn block(&mut self, hop: Hop, rows: &[u32]) -> Result<(Block, Vec<u32>)> {
        let Hop {
            indptr,
            mut sources,
            weights,
            types,
        } = hop;
        let n = self.reach.shard.numbers.ids.len();
        let columns = self.compact.number(n, rows, &mut sources);
        let block = Block::brief(rows.len(), columns.len(), indptr, sources, weights)?;
        let typed = self.reach.shard.typed;
        let block = match types {
            Some(types) => block.with_relations(Relations::new(types, typed)?)?,
            // A hop without rows says nothing about types.
            None if typed > 0 => block.with_relations(Relations::new(Vec::new(), typed)?)?,
            None => block,
        };
        block.edges_t();
        if self.wants.edge_places {
            block.t_of()?;
        }
        Ok((block, columns))
    }

    /// Where a number's row lies, if it need not be fetched.
    fn place(&self, number: u32) -> Option<(Source, u32)> {
        let shard = &self.reach.shard;
        let own = shard.numbers.of(shard.rank);
        if own.contains(&number) {
            return Some((Source::Store, number - own.start));
        }
        let kept = self.reach.cache.find(number);
        kept.map(|row| (Source::Cache, row))
    }

    /// The feature rows of `numbers`, which are distinct.
    fn rows_of(&mut self, numbers: &[u32], stats: &mut Stats) -> Result<MadeInput> {
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
            RowData::Sparse(x) if !self.wants.learnt => Some(x.view().transpose()),
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
    fn in_place(&mut self, hop: Hop, rows: &[u32], stats: &mut Stats) -> Result<MadeInput> {
        self.count_local(&hop.sources, rows, stats);
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
    fn count_local(&mut self, sources: &[u32], rows: &[u32], stats: &mut Stats) {
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
