//! One hop, or the feature rows of some vertices, from whichever ranks own them.
//!
//! # Paper
//! DistDGL § 4.1.4: requests to other ranks are sent first, local work hides their way, and the answers
//! are stitched together in the order of the rows.

use super::cache::Cache;
use super::rows::RowData;
use super::server::{Request, SERVER, unpack};
use super::shard::Shard;
use super::table::{Answer, Table};
use crate::comm::{Mailbox, Words, unreadable};
use crate::error::Result;
use crate::record::now_ns;
use crate::sample::{Hop, Without};
use kernels::par::Par;
use std::sync::Arc;

/// What a thread that makes batches reaches.
pub(crate) struct Reach {
    pub(crate) shard: Arc<Shard>,
    /// Feature rows of this rank's vertices, or what some layer reads of them.
    pub(crate) rows: RowData,
    /// The layer whose rows others are asked for, instead of features.
    pub(crate) hidden: Option<usize>,
    pub(crate) cache: Arc<Cache>,
    /// Where answers come; none for one rank.
    pub(crate) mailbox: Option<Mailbox>,
    pub(crate) par: Arc<Par>,
    /// The epoch that letters count for.
    pub(crate) epoch: u64,
    /// Time spent waiting for answers.
    pub(crate) wait_ns: u64,
}

impl Reach {
    /// What layer `layer` draws of the vertices with the numbers `rows`, without some edges (by the data
    /// set's ids), and how many of them others own.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn hop(
        &mut self,
        layer: usize,
        at: (u64, u64),
        rows: &[u32],
        without: Option<&Without>,
    ) -> Result<(Hop, usize)> {
        if self.shard.alone() {
            return Ok((self.shard.draw(layer, at, rows, without, &self.par), 0));
        }
        let (me, of_owner) = (self.shard.rank, self.by_owner(rows));
        let all = Arc::clone(&self.shard.numbers);
        let asked = self.ask(&of_owner, |owner, rows| {
            let id = |&r: &u32| all.ids[(all.first[owner] + r) as usize];
            let left_out =
                without.map(|w| rows.iter().flat_map(|r| w.of(id(r))).copied().collect());
            Request::Draw(layer, at, rows, left_out.unwrap_or_default())
        })?;
        let mut parts: Vec<Hop> = of_owner.iter().map(|_| Hop::default()).collect();
        parts[me] = self
            .shard
            .draw(layer, at, &of_owner[me], without, &self.par);
        for _ in 0..asked {
            let (from, words) = self.answer()?;
            parts[from] = unpack(from, of_owner[from].len(), &words)?;
        }
        let remote = rows.len() - of_owner[me].len();
        Ok((self.stitch(rows, parts), remote))
    }

    /// The rows of numbers that others own, in their order.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn fetch(&mut self, numbers: &[u32]) -> Result<RowData> {
        if numbers.is_empty() {
            return self.rows.unpack(self.shard.rank, 0, Words::new());
        }
        let of_owner = self.by_owner(numbers);
        let asked = self.ask(&of_owner, |_, rows| match self.hidden {
            Some(layer) => Request::Hidden(layer, rows),
            None => Request::Rows(rows),
        })?;
        let parts = of_owner.iter().map(|_| None).collect();
        let parts = self.answers(asked, &of_owner, parts)?;
        Ok(self.in_order(numbers, parts))
    }

    /// The learnt rows of `numbers` as step `step` reads them, in their order; `table` has this rank's.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn pull(&mut self, numbers: &[u32], step: u64, table: &Table) -> Result<RowData> {
        let (me, of_owner) = (self.shard.rank, self.by_owner(numbers));
        let asked = self.ask(&of_owner, |_, rows| Request::Learnt(step, rows))?;
        let mut parts: Vec<Option<RowData>> = of_owner.iter().map(|_| None).collect();
        let start = now_ns();
        let own = table.pull(step, &of_owner[me])?;
        self.wait_ns += now_ns() - start;
        if asked == 0 || !of_owner[me].is_empty() {
            parts[me] = Some(RowData::Dense(Arc::new(own)));
        }
        let parts = self.answers(asked, &of_owner, parts)?;
        Ok(self.in_order(numbers, parts))
    }

    /// Adds `asked` answers to what is there by owner.
    fn answers(
        &mut self,
        asked: usize,
        of_owner: &[Vec<u32>],
        mut parts: Vec<Option<RowData>>,
    ) -> Result<Vec<Option<RowData>>> {
        for _ in 0..asked {
            let (from, words) = self.answer()?;
            parts[from] = Some(self.rows.unpack(from, of_owner[from].len(), words)?);
        }
        Ok(parts)
    }

    /// Rows by owner in the order of `numbers`.
    fn in_order(&self, numbers: &[u32], mut parts: Vec<Option<RowData>>) -> RowData {
        let mut there = parts.iter_mut().filter(|p| p.is_some());
        if let (Some(only), None) = (there.next(), there.next()) {
            // One owner's rows are in the order asked.
            return only.take().expect("filtered");
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
            let owner = self.shard.numbers.owner(v);
            let row = next[owner];
            next[owner] += 1;
            (source_of[owner], row)
        };
        let places: Vec<(u32, u32)> = numbers.iter().map(place).collect();
        self.rows.pick(&sources, &places, &self.par)
    }

    /// By owner, its rows of these numbers.
    fn by_owner(&self, numbers: &[u32]) -> Vec<Vec<u32>> {
        let all = &self.shard.numbers;
        let mut of_owner = vec![Vec::new(); all.first.len() - 1];
        for &v in numbers {
            let owner = all.owner(v);
            of_owner[owner].push(v - all.first[owner]);
        }
        of_owner
    }

    /// Sends a request to every other rank that owns any; how many answers will come.
    fn ask<'a>(
        &self,
        of_owner: &'a [Vec<u32>],
        request: impl Fn(usize, &'a [u32]) -> Request<'a>,
    ) -> Result<usize> {
        let mut asked = 0;
        for (owner, rows) in of_owner.iter().enumerate() {
            if owner == self.shard.rank || rows.is_empty() {
                continue;
            }
            self.tell(owner, request(owner, rows))?;
            asked += 1;
        }
        Ok(asked)
    }

    /// Sends a request.
    pub(super) fn tell(&self, owner: usize, request: Request<'_>) -> Result<()> {
        let (label, to) = ((request.label(), self.epoch), (owner, SERVER));
        self.mail().send(label, to, request.words(self.epoch))
    }

    /// Sends an answer that another thread's work has made possible.
    pub(super) fn answer_to(&self, (asked, words): Answer) -> Result<()> {
        let label = Request::Learnt(0, &[]).label();
        self.mail().send((label, asked.epoch), asked.to, words)
    }

    fn mail(&self) -> &Mailbox {
        let mailbox = self.mailbox.as_ref();
        mailbox.expect("several ranks have letters")
    }

    /// Waits for an answer: who sent it, and what it says.
    pub(super) fn answer(&mut self) -> Result<(usize, Words)> {
        let start = now_ns();
        let letter = self.mail().recv()?;
        self.wait_ns += now_ns() - start;
        if letter.from >= self.shard.numbers.first.len() - 1 {
            return Err(unreadable(letter.from, "an answer"));
        }
        Ok((letter.from, letter.words))
    }

    /// The hop of `rows` out of those of their owners.
    fn stitch(&self, rows: &[u32], parts: Vec<Hop>) -> Hop {
        let edges = parts.iter().map(|p| p.sources.len()).sum();
        let mut all = Hop {
            indptr: Vec::with_capacity(rows.len() + 1),
            sources: Vec::with_capacity(edges),
            ..Hop::default()
        };
        // Parts without rows say nothing.
        let said = |p: &&Hop| p.indptr.len() > 1;
        if parts.iter().filter(said).any(|p| p.weights.is_some()) {
            all.weights = Some(Vec::with_capacity(edges));
        }
        if parts.iter().filter(said).any(|p| p.types.is_some()) {
            all.types = Some(Vec::with_capacity(edges));
        }
        all.indptr.push(0);
        let mut next = vec![0usize; parts.len()];
        for &v in rows {
            let owner = self.shard.numbers.owner(v);
            let (part, row) = (&parts[owner], next[owner]);
            next[owner] += 1;
            let span = part.indptr[row] as usize..part.indptr[row + 1] as usize;
            all.sources.extend_from_slice(&part.sources[span.clone()]);
            if let (Some(to), Some(from)) = (&mut all.weights, &part.weights) {
                to.extend_from_slice(&from[span.clone()]);
            }
            if let (Some(to), Some(from)) = (&mut all.types, &part.types) {
                to.extend_from_slice(&from[span]);
            }
            all.indptr.push(all.sources.len() as u64);
        }
        all
    }
}
