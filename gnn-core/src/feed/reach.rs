//! What a thread reaches: its rank's part, the rows that it has, and whoever owns others.

use super::cache::Cache;
use super::desk::{Desk, Ticket};
use super::rows::RowData;
use super::shard::Shard;
use super::table::Table;
use super::task::{DrawAt, HopTask, RowsTask};
use super::wire::{Head, Query, What};
use crate::error::Result;
use crate::record::now_ns;
use crate::sample::Hop;
use kernels::par::Par;
use std::sync::Arc;

/// Who draws the in-edges of vertices that other ranks own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halo {
    /// Their owners.
    Drawn,
    /// Nobody: such a vertex is a leaf, whose rows come from elsewhere or do not come.
    Leaves,
}

/// What a thread that makes batches reaches.
pub(crate) struct Reach {
    pub(crate) shard: Arc<Shard>,
    /// Feature rows of this rank's vertices, or what some layer reads of them.
    pub(crate) rows: RowData,
    /// The layer whose rows others are asked for, instead of features.
    pub(crate) hidden: Option<usize>,
    pub(crate) cache: Arc<Cache>,
    /// Where answers come; none for one rank.
    pub(crate) desk: Option<Desk>,
    pub(crate) par: Arc<Par>,
    pub(crate) halo: Halo,
    /// The epoch that letters count for.
    pub(crate) counted: u64,
}

impl Reach {
    /// What is drawn of the vertices with the numbers `rows`, and how many of them others own.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn hop(&mut self, at: DrawAt<'_>, rows: &[u32]) -> Result<(Hop, usize)> {
        let mut task = HopTask::start(self, at, rows)?;
        let remote = task.remote();
        let hop = self.finish(|reach| task.poll(reach, rows))?;
        Ok((hop, remote))
    }

    /// The rows of numbers that others own, in their order.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn fetch(&mut self, numbers: &[u32]) -> Result<RowData> {
        let at = (self.counted, 0);
        let mut task = RowsTask::start(self, at, numbers.to_vec())?;
        self.finish(|reach| task.poll(reach))
    }

    /// The learnt rows of `numbers` as step `step` reads them, in their order; `table` has this rank's.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn pull(&mut self, numbers: &[u32], step: u64, table: &Table) -> Result<RowData> {
        let mut task = RowsTask::start_learnt(self, step, numbers.to_vec())?;
        let start = now_ns();
        let own = table.pull(step, task.own(self.shard.rank))?;
        let waited = now_ns() - start;
        task.put(self.shard.rank, RowData::Dense(Arc::new(own)));
        let rows = self.finish(|reach| task.poll(reach))?;
        if let Some(desk) = &mut self.desk {
            desk.also_waited(waited);
        }
        Ok(rows)
    }

    /// Waits for answers until `poll` has what it wants.
    pub(super) fn finish<T>(
        &mut self,
        mut poll: impl FnMut(&mut Reach) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            if let Some(done) = poll(self)? {
                return Ok(done);
            }
            self.wait()?;
        }
    }

    /// Waits for one more answer.
    ///
    /// # Errors
    /// Whatever the communicator meets.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.desk().wait()
    }

    /// Time spent waiting since the last call.
    pub(crate) fn take_waited(&mut self) -> u64 {
        self.desk.as_mut().map_or(0, Desk::take_waited)
    }

    pub(super) fn desk(&mut self) -> &mut Desk {
        let desk = self.desk.as_mut();
        desk.expect("only several ranks have anything to ask")
    }

    /// By owner, its rows of these numbers.
    pub(super) fn by_owner(&self, numbers: &[u32]) -> Vec<Vec<u32>> {
        let all = &self.shard.numbers;
        let mut of_owner = vec![Vec::new(); all.first.len() - 1];
        for &v in numbers {
            let owner = all.owner(v);
            of_owner[owner].push(v - all.first[owner]);
        }
        of_owner
    }

    /// Asks `owner` for something of its `rows`.
    pub(super) fn ask(
        &mut self,
        (what, at): (What, (u64, u64)),
        owner: usize,
        (rows, data): (&[u32], &[u32]),
    ) -> Result<Ticket> {
        let query = self.query((what, at), (rows, data));
        self.desk().ask(owner, &query)
    }

    /// Tells `owner` something about its `rows`.
    pub(super) fn tell(
        &mut self,
        (what, at): (What, (u64, u64)),
        owner: usize,
        (rows, data): (&[u32], &[u32]),
    ) -> Result<()> {
        let query = self.query((what, at), (rows, data));
        self.desk().tell(owner, &query)
    }

    /// A request for something of some rows, with what it is expected to cost.
    pub(super) fn query<'a>(
        &self,
        (what, at): (What, (u64, u64)),
        (rows, data): (&'a [u32], &'a [u32]),
    ) -> Query<'a> {
        let cost = match what {
            What::Draw(layer) => rows.len() + self.shard.expects(layer, rows.len()),
            What::Rows | What::Hidden(_) | What::Learnt => rows.len() * self.rows.width(),
            What::Push | What::Settle => 0,
        };
        let head = Head {
            what,
            at,
            counted: self.counted,
            cost: u32::try_from(cost).unwrap_or(u32::MAX),
        };
        Query { head, data, rows }
    }
}
