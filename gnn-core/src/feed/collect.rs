//! A hop as a layer reads it: its block, and the rows of its sources, from wherever they lie.
//!
//! The columns of a layer's block are the rows of the layer below, and then leaves: vertices of other ranks
//! that nothing computes, since [historical rows](super::historical) of them are there.

use super::historical::{SharedHistory, There, lock};
use super::reach::Reach;
use super::rows::RowData;
use super::stats::Stats;
use super::task::RowsTask;
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
    /// Sparse features by column as well, for weight gradients.
    pub(crate) by_column: bool,
    /// The first layer whose backward goes through its edges; none where there is no backward.
    pub(crate) backward: Option<usize>,
    /// Layers behind the first only sum, so that leaves need not be among their columns.
    pub(crate) leaves_apart: bool,
    /// Features are read at all.
    pub(crate) features: bool,
    /// Some of the input is learnt.
    pub(crate) learnt: bool,
    /// Features lie on a device of the rank's, those of others that it keeps too: rows are put together there, so
    /// that only those that are fetched have to be copied to it.
    pub(crate) placed: bool,
}

impl Wants {
    /// Whether a layer's backward goes through its edges.
    pub(super) fn goes_back(&self, layer: usize) -> bool {
        self.backward.is_some_and(|first| layer >= first)
    }
}

impl MadeInput {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            MadeInput::Nothing => 0,
            MadeInput::Rows(rows, transposed) => {
                rows.bytes() + transposed.as_ref().map_or(0, CsrBuf::bytes)
            }
            MadeInput::InPlace(parts, fetched, own) => {
                let edges: usize = parts.iter().map(|(_, a)| a.bytes()).sum();
                edges + fetched.bytes() + own.as_ref().map_or(0, Rows::bytes)
            }
            MadeInput::Placed(places, fetched) => size_of_val(&places[..]) + fetched.bytes(),
        }
    }
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

/// For each row where it lies (a [`Source`]), and its row there.
pub(crate) type Places = Vec<(u32, u32)>;

/// Rows of a batch: there, or to be put together where they lie.
pub(crate) enum Rows {
    There(RowData),
    Placed(Places),
}

impl Rows {
    fn bytes(&self) -> usize {
        match self {
            Rows::There(rows) => rows.bytes(),
            Rows::Placed(places) => size_of_val(&places[..]),
        }
    }
}

/// Features of a batch.
pub(crate) enum MadeInput {
    /// None: all of the input is learnt.
    Nothing,
    /// The rows of the first block's columns. Sparse ones with their transposed, where that is wanted.
    Rows(RowData, Option<CsrBuf>),
    /// The first layer's in-edges by where their sources lie, the rows that were fetched, and those of
    /// the destinations where they are wanted.
    InPlace(Vec<(Source, Sparse)>, RowData, Option<Rows>),
    /// The rows of the first block's columns, to be put together where they lie, and those that were fetched.
    Placed(Places, RowData),
}

/// A hop's block with the numbers of its columns.
pub(super) struct NamedBlock {
    pub(super) block: Block,
    pub(super) columns: Vec<u32>,
    /// How many of the first columns are rows of the layer below; leaves follow.
    pub(super) solid: usize,
    /// The edges to those, where the block has them not.
    pub(super) leaves: Option<Sparse>,
}

/// Collects what hops read.
pub(crate) struct Collector {
    pub(crate) reach: Reach,
    pub(crate) wants: Wants,
    pub(super) compact: Compact,
    /// By row of this rank's, and then of those it keeps, whether a hop reads it.
    pub(super) touched: Vec<u64>,
    /// Rows of others that nobody computes or fetches.
    pub(crate) history: Option<SharedHistory>,
}

impl Collector {
    /// One that reaches what `reach` does.
    pub(crate) fn new(reach: Reach, wants: Wants) -> Collector {
        Collector {
            reach,
            wants,
            compact: Compact::default(),
            touched: Vec::new(),
            history: None,
        }
    }

    /// A hop of layer `layer` from `rows` as a block.
    pub(super) fn block(&mut self, layer: usize, hop: Hop, rows: &[u32]) -> Result<NamedBlock> {
        let Hop {
            mut indptr,
            mut sources,
            mut weights,
            types,
        } = hop;
        let n = self.reach.shard.numbers.ids.len();
        let mut columns = self.compact.number(n, rows, &mut sources);
        let solid = match &self.history {
            None => columns.len(),
            Some(history) => {
                let history = lock(history);
                let own = self.reach.shard.numbers.of(self.reach.shard.rank);
                let is_leaf = |v: u32| !own.contains(&v) && history.has(layer, v);
                leaves_last(rows.len(), is_leaf, &mut columns, &mut sources)
            }
        };
        let apart = self.wants.leaves_apart && layer > 0 && solid < columns.len();
        let leaves = apart.then(|| {
            let n_cols = columns.len() - solid;
            let edges = (&mut indptr[..], &mut sources, &mut weights);
            Sparse::brief(leaves_apart(solid, n_cols, edges))
        });
        let n_src = if apart { solid } else { columns.len() };
        let make = match self.wants.goes_back(layer) {
            true => Block::brief,
            false => Block::once,
        };
        let block = make(rows.len(), n_src, indptr, sources, weights)?;
        let typed = self.reach.shard.typed;
        let block = match types {
            Some(types) => block.with_relations(Relations::new(types, typed)?)?,
            // A hop without rows says nothing about types.
            None if typed > 0 => block.with_relations(Relations::new(Vec::new(), typed)?)?,
            None => block,
        };
        Ok(NamedBlock {
            block,
            columns,
            solid,
            leaves,
        })
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

    /// What the first layer reads, whose rows are `rows`: a hop from them where it is summed in place, or
    /// else the rows themselves; none where it reads no features. `fetched` are the numbers of rows that have
    /// been fetched, if they have.
    pub(super) fn reads(
        &mut self,
        in_place: Option<Hop>,
        rows: &[u32],
        fetched: Option<&[u32]>,
        stats: &mut Stats,
    ) -> Option<Reading> {
        match in_place {
            Some(hop) => {
                self.count_local(&hop.sources, rows, stats);
                self.say_touched();
                Some(self.in_place(hop, rows, fetched, stats))
            }
            None => self.wants.features.then(|| self.rows_of(rows, stats)),
        }
        .inspect(|reading| self.count_there(&reading.missing, stats))
    }

    /// The feature rows of `numbers`, which are distinct.
    pub(super) fn rows_of(&self, numbers: &[u32], stats: &mut Stats) -> Reading {
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
        Reading {
            missing,
            as_what: As::Rows(places),
        }
    }

    /// Begins to collect what is read.
    pub(super) fn fetch(&mut self, at: (u64, u64), mut reading: Reading) -> Result<Collecting> {
        let there = self.there(&mut reading);
        Ok(Collecting {
            fetch: RowsTask::start(&mut self.reach, at, reading.missing)?,
            there,
            as_what: reading.as_what,
        })
    }

    /// Waits for what is being collected.
    pub(super) fn finish(&mut self, collecting: &mut Collecting) -> Result<MadeInput> {
        loop {
            if let Some(input) = collecting.poll(self)? {
                return Ok(input);
            }
            self.reach.wait()?;
        }
    }

    fn rows_input(&self, rows: RowData) -> MadeInput {
        let transposed = match &rows {
            RowData::Sparse(x) if self.wants.by_column => Some(x.view().transpose()),
            _ => None,
        };
        MadeInput::Rows(rows, transposed)
    }

    /// Rows from wherever they lie: this rank's, copies that it keeps, and what was fetched, in parts.
    fn pick(&self, fetched: &[&RowData], places: &[(u32, u32)]) -> RowData {
        let Reach {
            rows, cache, par, ..
        } = &self.reach;
        let sources = [&[rows, &cache.rows], fetched].concat();
        rows.pick(&sources, places, par)
    }
}

/// What a first layer reads.
pub(super) struct Reading {
    /// Numbers of rows that have to be fetched.
    pub(super) missing: Vec<u32>,
    pub(super) as_what: As,
}

/// What a layer reads, some of which is on its way.
pub(super) struct Collecting {
    fetch: RowsTask,
    /// Those of the missing rows that are there.
    there: Option<There>,
    as_what: As,
}

/// How rows become the layer's input, by where they lie and their row there.
pub(super) enum As {
    Rows(Places),
    /// The layer's in-edges by source, and the destinations' own rows where they are wanted.
    InPlace(Box<[CsrBuf; 3]>, Option<Places>),
}

impl Collecting {
    /// The input, once all of it is there.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] for an answer that cannot be read.
    pub(super) fn poll(&mut self, by: &mut Collector) -> Result<Option<MadeInput>> {
        let Some(fetched) = self.fetch.poll(&mut by.reach)? else {
            return Ok(None);
        };
        let fetched = match self.there.take() {
            None => fetched,
            Some(there) => there.joined(fetched, &by.reach.par),
        };
        let as_what = std::mem::replace(&mut self.as_what, As::Rows(Vec::new()));
        as_what.input(by, fetched).map(Some)
    }
}

impl As {
    /// The input, out of the rows that were fetched.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for edges that leave the rows.
    fn input(self, by: &Collector, fetched: RowData) -> Result<MadeInput> {
        match self {
            As::Rows(places) if by.wants.placed => Ok(MadeInput::Placed(places, fetched)),
            As::Rows(places) => Ok(by.rows_input(by.pick(&[&fetched], &places))),
            As::InPlace(parts, own) => {
                let own = own.map(|places| match by.wants.placed {
                    true => Rows::Placed(places),
                    false => Rows::There(by.pick(&[&fetched], &places)),
                });
                let mut of = Vec::with_capacity(3);
                let kinds = [Source::Store, Source::Cache, Source::Fetched];
                for (kind, part) in kinds.into_iter().zip(*parts) {
                    // The first one is what others are added to.
                    if kind == Source::Store || !part.indices.is_empty() {
                        of.push((kind, checked(part)?));
                    }
                }
                Ok(MadeInput::InPlace(of, fetched, own))
            }
        }
    }

    /// The input, out of fetched rows that lie in several `parts`, one after the other; `lies` says of the
    /// reading's missing rows in which part each is, and where in that.
    ///
    /// # Errors
    /// As [`As::input`].
    pub(super) fn input_of(
        self,
        by: &Collector,
        parts: &[&RowData],
        lies: impl FnOnce() -> Vec<(u32, u32)>,
    ) -> Result<MadeInput> {
        match self {
            As::Rows(mut places) if by.wants.placed => {
                let first = |part: u32| -> u32 {
                    parts[..part as usize].iter().map(|p| p.len() as u32).sum()
                };
                let firsts: Vec<u32> = (0..parts.len() as u32).map(first).collect();
                let lies = lies();
                for place in &mut places {
                    if place.0 == Source::Fetched as u32 {
                        let (part, row) = lies[place.1 as usize];
                        place.1 = firsts[part as usize] + row;
                    }
                }
                Ok(MadeInput::Placed(places, by.reach.rows.joined(parts)))
            }
            As::Rows(mut places) => {
                let lies = lies();
                for place in &mut places {
                    if place.0 == Source::Fetched as u32 {
                        let (part, row) = lies[place.1 as usize];
                        *place = (Source::Fetched as u32 + part, row);
                    }
                }
                Ok(by.rows_input(by.pick(parts, &places)))
            }
            // The reading has all of them, in their order.
            in_place => in_place.input(by, by.reach.rows.joined(parts)),
        }
    }
}

/// A sparse matrix of a batch.
fn checked(csr: CsrBuf) -> Result<Sparse> {
    csr.view().check()?;
    Ok(Sparse::brief(csr))
}

/// Moves leaves among the columns behind the first `rows` to the end, each kind in its order; where they begin.
fn leaves_last(
    rows: usize,
    is_leaf: impl Fn(u32) -> bool,
    columns: &mut Vec<u32>,
    sources: &mut [u32],
) -> usize {
    let (mut solid, mut leaves) = (rows, Vec::new());
    let mut place: Vec<u32> = (0..columns.len() as u32).collect();
    for c in rows..columns.len() {
        let v = columns[c];
        if is_leaf(v) {
            // Where it will be, once it is known how many come before.
            place[c] = leaves.len() as u32 | LEAF;
            leaves.push(v);
        } else {
            place[c] = solid as u32;
            columns[solid] = v;
            solid += 1;
        }
    }
    if leaves.is_empty() {
        return solid;
    }
    columns.truncate(solid);
    columns.extend(leaves);
    let at = |p: u32| {
        if p & LEAF == 0 {
            p
        } else {
            (p & !LEAF) + solid as u32
        }
    };
    place.iter_mut().for_each(|p| *p = at(*p));
    sources.iter_mut().for_each(|c| *c = place[*c as usize]);
    solid
}

/// Marks the place of a leaf; a batch has fewer columns.
const LEAF: u32 = 1 << 31;

/// Takes the edges to columns from `solid` on, of which there are `n_cols`, out of a block's.
fn leaves_apart(
    solid: usize,
    n_cols: usize,
    (indptr, sources, weights): (&mut [u64], &mut Vec<u32>, &mut Option<Vec<f32>>),
) -> CsrBuf {
    let mut apart = CsrBuf {
        weights: weights.as_ref().map(|_| Vec::new()),
        ..CsrBuf::empty(n_cols)
    };
    let (mut from, mut to) = (0, 0);
    for end in &mut indptr[1..] {
        for e in from..*end as usize {
            match (sources[e] as usize).checked_sub(solid) {
                None => {
                    sources[to] = sources[e];
                    if let Some(weights) = weights {
                        weights[to] = weights[e];
                    }
                    to += 1;
                }
                Some(leaf) => {
                    apart.indices.push(leaf as u32);
                    if let (Some(to), Some(from)) = (&mut apart.weights, &*weights) {
                        to.push(from[e]);
                    }
                }
            }
        }
        from = *end as usize;
        *end = to as u64;
        apart.indptr.push(apart.indices.len() as u64);
    }
    sources.truncate(to);
    weights.iter_mut().for_each(|weights| weights.truncate(to));
    apart
}
