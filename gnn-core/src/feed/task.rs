//! One hop, or the feature rows of some vertices, from whichever ranks own them: work that keeps no thread
//! while answers are on their way.
//!
//! # Paper
//! DistDGL § 4.1.4: requests to other ranks are sent first, local work hides their way, and the answers
//! are stitched together in the order of the rows. That such one-hop operations are tasks of their own,
//! of several batches at once, is ByteGNN's (Zheng et al., PVLDB 15(6), 2022, § 4.2).

use super::desk::Ticket;
use super::reach::{Halo, Reach};
use super::rows::RowData;
use super::wire::{What, unpack};
use crate::error::Result;
use crate::sample::{Hop, Without};

/// What is drawn: by a layer, in an epoch and step, without some edges (by the data set's ids).
#[derive(Clone, Copy)]
pub(crate) struct DrawAt<'a> {
    pub(crate) layer: usize,
    pub(crate) at: (u64, u64),
    pub(crate) without: Option<&'a Without>,
}

/// What several owners draw of some rows.
pub(super) struct HopTask {
    /// By owner, how many of the rows are its, and what it has drawn. One part of all rows where only this
    /// rank draws.
    counts: Vec<usize>,
    parts: Vec<Hop>,
    me: usize,
    open: Vec<(usize, Ticket)>,
}

impl HopTask {
    /// Asks the owners of `rows`, and draws what is this rank's.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn start(reach: &mut Reach, of: DrawAt<'_>, rows: &[u32]) -> Result<HopTask> {
        let DrawAt { layer, at, without } = of;
        let me = reach.shard.rank;
        if reach.shard.alone() || reach.halo == Halo::Leaves {
            let first = reach.shard.numbers.first[me];
            let own: Vec<u32>;
            let rows = match first {
                0 => rows,
                _ => {
                    own = rows.iter().map(|v| v - first).collect();
                    &own
                }
            };
            let whole = reach.shard.draw(layer, at, rows, without, &reach.par);
            return Ok(HopTask {
                counts: vec![rows.len()],
                parts: vec![whole],
                me: 0,
                open: Vec::new(),
            });
        }
        let of_owner = reach.by_owner(rows);
        let mut open = Vec::new();
        for (owner, rows) in of_owner.iter().enumerate() {
            if owner == me || rows.is_empty() {
                continue;
            }
            let left_out = reach.shard.left_out(owner, rows, without);
            let data = left_out.as_flattened();
            let ticket = reach.ask((What::Draw(layer), at), owner, (rows, data))?;
            open.push((owner, ticket));
        }
        let mut parts: Vec<Hop> = of_owner.iter().map(|_| Hop::default()).collect();
        parts[me] = reach
            .shard
            .draw(layer, at, &of_owner[me], without, &reach.par);
        Ok(HopTask {
            counts: of_owner.iter().map(Vec::len).collect(),
            parts,
            me,
            open,
        })
    }

    /// How many of the rows others own.
    pub(super) fn remote(&self) -> usize {
        self.counts.iter().sum::<usize>() - self.counts[self.me]
    }

    /// The hop of `rows`, those that it was started with, once all have answered.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] for an answer that cannot be read.
    pub(super) fn poll(&mut self, reach: &mut Reach, rows: &[u32]) -> Result<Option<Hop>> {
        let (counts, parts) = (&self.counts, &mut self.parts);
        collect(reach, &mut self.open, |_, owner, words| {
            parts[owner] = unpack(owner, counts[owner], &words)?;
            Ok(())
        })?;
        if !self.open.is_empty() {
            return Ok(None);
        }
        let mut parts = std::mem::take(&mut self.parts);
        if parts.len() == 1 {
            return Ok(parts.pop());
        }
        Ok(Some(stitch(reach, rows, &parts)))
    }
}

/// Takes the answers that have come to what is open.
fn collect(
    reach: &mut Reach,
    open: &mut Vec<(usize, Ticket)>,
    mut take: impl FnMut(&Reach, usize, crate::comm::Words) -> Result<()>,
) -> Result<()> {
    let mut k = 0;
    while k < open.len() {
        let (owner, ticket) = open[k];
        match reach.desk().take(ticket) {
            Some(words) => {
                open.swap_remove(k);
                take(reach, owner, words)?;
            }
            None => k += 1,
        }
    }
    Ok(())
}

/// The hop of `rows` out of those of their owners.
fn stitch(reach: &Reach, rows: &[u32], parts: &[Hop]) -> Hop {
    let mut all = Hop::like(parts);
    all.indptr.reserve(rows.len());
    let mut next = vec![0usize; parts.len()];
    for &v in rows {
        let owner = reach.shard.numbers.owner(v);
        all.push_rows(&parts[owner], next[owner]..next[owner] + 1);
        next[owner] += 1;
    }
    all
}

/// Rows of some numbers, from their owners.
pub(super) struct RowsTask {
    numbers: Vec<u32>,
    of_owner: Vec<Vec<u32>>,
    parts: Vec<Option<RowData>>,
    open: Vec<(usize, Ticket)>,
}

impl RowsTask {
    /// Asks the owners of `numbers`, none of which are this rank's.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn start(reach: &mut Reach, at: (u64, u64), numbers: Vec<u32>) -> Result<RowsTask> {
        let what = reach.hidden.map_or(What::Rows, What::Hidden);
        RowsTask::asked(reach, (what, at), numbers)
    }

    /// Asks for learnt rows as step `step` reads them; this rank's are to be [put](RowsTask::put).
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(super) fn start_learnt(
        reach: &mut Reach,
        step: u64,
        numbers: Vec<u32>,
    ) -> Result<RowsTask> {
        let of = (What::Learnt, (reach.counted, step));
        RowsTask::asked(reach, of, numbers)
    }

    fn asked(reach: &mut Reach, of: (What, (u64, u64)), numbers: Vec<u32>) -> Result<RowsTask> {
        let of_owner = match numbers.is_empty() {
            true => vec![Vec::new(); reach.shard.numbers.first.len() - 1],
            false => reach.by_owner(&numbers),
        };
        let mut open = Vec::new();
        for (owner, rows) in of_owner.iter().enumerate() {
            if owner == reach.shard.rank || rows.is_empty() {
                continue;
            }
            open.push((owner, reach.ask(of, owner, (rows, &[]))?));
        }
        Ok(RowsTask {
            numbers,
            parts: of_owner.iter().map(|_| None).collect(),
            of_owner,
            open,
        })
    }

    /// Those of the rows that rank `me` owns.
    pub(super) fn own(&self, me: usize) -> &[u32] {
        &self.of_owner[me]
    }

    /// The rows of an owner that need not be asked for.
    pub(super) fn put(&mut self, owner: usize, rows: RowData) {
        self.parts[owner] = Some(rows);
    }

    /// The rows, once all have answered.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] for an answer that cannot be read.
    pub(super) fn poll(&mut self, reach: &mut Reach) -> Result<Option<RowData>> {
        let (of_owner, parts) = (&self.of_owner, &mut self.parts);
        collect(reach, &mut self.open, |reach, owner, words| {
            let rows = reach.rows.unpack(owner, of_owner[owner].len(), words)?;
            parts[owner] = Some(rows);
            Ok(())
        })?;
        if !self.open.is_empty() {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        Ok(Some(in_order(reach, &self.numbers, parts)))
    }
}

/// Rows by owner in the order of `numbers`.
fn in_order(reach: &Reach, numbers: &[u32], mut parts: Vec<Option<RowData>>) -> RowData {
    let mut there = parts
        .iter_mut()
        .filter(|p| p.as_ref().is_some_and(|p| p.len() > 0));
    let (first, second) = (there.next(), there.next());
    match (first, second) {
        (None, _) => return reach.rows.none(),
        // One owner's rows are in the order asked.
        (Some(only), None) => return only.take().expect("filtered"),
        _ => {}
    }
    // By owner, which source it is.
    let mut sources: Vec<&RowData> = Vec::with_capacity(parts.len());
    let mut source_of = vec![0u32; parts.len()];
    for (owner, part) in parts.iter().enumerate() {
        if let Some(part) = part {
            source_of[owner] = sources.len() as u32;
            sources.push(part);
        }
    }
    let mut next = vec![0u32; parts.len()];
    let place = |&v: &u32| {
        let owner = reach.shard.numbers.owner(v);
        let row = next[owner];
        next[owner] += 1;
        (source_of[owner], row)
    };
    let places: Vec<(u32, u32)> = numbers.iter().map(place).collect();
    reach.rows.pick(&sources, &places, &reach.par)
}
