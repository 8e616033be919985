//! Between rows and columns: split and gather.
//!
//! A matrix `[n, d]` is held by rows (each rank has all columns of the vertices it owns) or by columns
//! (each rank has a slice of the columns of every vertex, in the order of global ids). *Split* goes
//! from rows to columns, *gather* back; each is one all-to-all, and each is the other's adjoint.
//! Slices differ by at most one column, and may have none. Who has one more goes round ([`Turns`]), so
//! that in the end nobody has had more work than others.

use crate::backend::{Corner, Kept, Mat};
use crate::comm::{Label, Message, Ticket};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::record::Direction;
use std::ops::Range;

/// Rows that travel together.
pub(super) struct Portion {
    /// The rows of each owner by their global numbers, ascending.
    by_owner: Vec<Kept<u32>>,
    /// This rank's, numbered within its own rows.
    local: Kept<u32>,
}

impl Portion {
    /// The rows `ids` (ascending) of a graph whose vertex `v` is row `local[v]` of rank `owner[v]`;
    /// every vertex has `group` rows, one after the other.
    pub(super) fn new(
        ids: impl Iterator<Item = u32>,
        (owner, local): (&[u32], &[u32]),
        me: usize,
        ranks: usize,
        group: usize,
    ) -> Portion {
        let (mut by_owner, mut mine) = (vec![Vec::new(); ranks], Vec::new());
        let group = group as u32;
        let rows = |v: u32| (0..group).map(move |k| v * group + k);
        for v in ids {
            let rank = owner[v as usize] as usize;
            by_owner[rank].extend(rows(v));
            if rank == me {
                mine.extend(rows(local[v as usize]));
            }
        }
        Portion {
            by_owner: by_owner.into_iter().map(Kept::from).collect(),
            local: mine.into(),
        }
    }

    /// How many rows this rank has of it.
    pub(super) fn own_rows(&self) -> usize {
        self.local.len()
    }

    /// How many rows each rank has of it.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.by_owner.iter().map(|rows| rows.len())
    }
}

/// How often the columns that do not divide have gone round: another rank has one more each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    /// Forward and backward have the same columns, since backward reads slices that forward kept.
    Epoch,
    /// Each direction has others.
    Direction,
}

impl Turns {
    /// The turn of an epoch's direction: the first rank that has one more. Forward and backward are half a
    /// round apart, so that an epoch is nearly even on its own.
    pub(super) fn at(self, epoch: u64, direction: Direction, ranks: usize) -> usize {
        let half = self == Turns::Direction && direction == Direction::Backward;
        let ahead = if half { ranks as u64 / 2 } else { 0 };
        ((epoch + ahead) % ranks as u64) as usize
    }
}

/// The columns of a matrix of `d` columns that each rank has.
pub(super) struct Columns(Vec<usize>);

impl Columns {
    /// Slices that differ by at most one column; what does not divide goes to the ranks from `first` on.
    pub(super) fn new(d: usize, ranks: usize, first: usize) -> Columns {
        let size = |r: usize| d / ranks + usize::from((r + ranks - first) % ranks < d % ranks);
        let ends = (0..ranks).scan(0, |end, r| {
            *end += size(r);
            Some(*end)
        });
        Columns(std::iter::once(0).chain(ends).collect())
    }

    /// The columns of a rank.
    pub(super) fn of(&self, rank: usize) -> Range<usize> {
        self.0[rank]..self.0[rank + 1]
    }

    /// Columns of the widest slice.
    pub(super) fn widest(&self) -> usize {
        self.0.windows(2).map(|c| c[1] - c[0]).max().unwrap_or(0)
    }
}

/// Starts to send this rank's rows of `portion` in `x: [n_local, d]` to where their columns belong,
/// and puts its own columns of them into `slices: [n, own columns]`.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn post_split(
    cx: &mut Ctx,
    label: Label,
    portion: &Portion,
    columns: &Columns,
    x: &Mat,
    slices: &mut Mat,
) -> Result<Ticket> {
    let (me, ranks) = (cx.rank(), cx.size());
    let rows = portion.local.len();
    let mut send: Vec<Message> = (0..ranks).map(|_| Message::default()).collect();
    for peer in (0..ranks).filter(|&r| r != me) {
        let theirs = columns.of(peer);
        let mut packed = cx.backend.fresh(rows, theirs.len());
        let from = Corner::of(&portion.local, theirs.start);
        let size = (rows, theirs.len());
        cx.backend
            .copy_block(x, from, size, &mut packed, Corner::at(0));
        send[peer] = cx.message(packed);
    }
    let mine = columns.of(me);
    let lens: Vec<usize> = portion.counts().map(|n| n * mine.len()).collect();
    let ticket = cx.comm.post_all_to_all_v(label, send, &lens)?;
    let from = Corner::of(&portion.local, mine.start);
    let to = Corner::of(&portion.by_owner[me], 0);
    cx.backend
        .copy_block(x, from, (rows, mine.len()), slices, to);
    Ok(ticket)
}

/// Waits for what [`post_split`] began on every rank.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn finish_split(
    cx: &mut Ctx,
    portion: &Portion,
    ticket: Ticket,
    slices: &mut Mat,
) -> Result<()> {
    let (me, width) = (cx.rank(), slices.ncols());
    let parts = cx.comm.finish(ticket)?;
    for (peer, part) in parts.into_iter().enumerate().filter(|(r, _)| *r != me) {
        let rows = &portion.by_owner[peer];
        let part = cx.received(rows.len(), width, part)?;
        let size = (rows.len(), width);
        cx.backend
            .copy_block(&part, Corner::at(0), size, slices, Corner::of(rows, 0));
    }
    Ok(())
}

/// Starts to send the slices of `portion`'s rows in `slices: [n, own columns]` to their owners, and
/// puts this rank's own into `out: [n_local, d]`.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn post_gather(
    cx: &mut Ctx,
    label: Label,
    portion: &Portion,
    columns: &Columns,
    slices: &Mat,
    out: &mut Mat,
) -> Result<Ticket> {
    let (me, ranks, width) = (cx.rank(), cx.size(), slices.ncols());
    let mut send: Vec<Message> = (0..ranks).map(|_| Message::default()).collect();
    for peer in (0..ranks).filter(|&r| r != me) {
        let rows = &portion.by_owner[peer];
        let mut packed = cx.backend.fresh(rows.len(), width);
        let size = (rows.len(), width);
        cx.backend.copy_block(
            slices,
            Corner::of(rows, 0),
            size,
            &mut packed,
            Corner::at(0),
        );
        send[peer] = cx.message(packed);
    }
    let rows = portion.local.len();
    let lens: Vec<usize> = (0..ranks).map(|r| rows * columns.of(r).len()).collect();
    let ticket = cx.comm.post_all_to_all_v(label, send, &lens)?;
    let from = Corner::of(&portion.by_owner[me], 0);
    let to = Corner::of(&portion.local, columns.of(me).start);
    cx.backend.copy_block(slices, from, (rows, width), out, to);
    Ok(ticket)
}

/// Waits for what [`post_gather`] began on every rank.
///
/// # Errors
/// Whatever the communicator meets.
pub(super) fn finish_gather(
    cx: &mut Ctx,
    portion: &Portion,
    columns: &Columns,
    ticket: Ticket,
    out: &mut Mat,
) -> Result<()> {
    let me = cx.rank();
    let rows = portion.local.len();
    let parts = cx.comm.finish(ticket)?;
    for (peer, part) in parts.into_iter().enumerate().filter(|(r, _)| *r != me) {
        let theirs = columns.of(peer);
        let part = cx.received(rows, theirs.len(), part)?;
        let to = Corner::of(&portion.local, theirs.start);
        let size = (rows, theirs.len());
        cx.backend.copy_block(&part, Corner::at(0), size, out, to);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns follow each other, differ by one at most, and over as many turns as there are ranks
    /// everybody has had as many.
    #[test]
    fn what_does_not_divide_goes_round() {
        for ranks in 1..=7 {
            for d in 0..=20 {
                let mut had = vec![0; ranks];
                for turn in 0..ranks {
                    let columns = Columns::new(d, ranks, turn);
                    let mut end = 0;
                    for (r, had) in had.iter_mut().enumerate() {
                        let own = columns.of(r);
                        assert_eq!(own.start, end);
                        assert!(own.len() == d / ranks || own.len() == d.div_ceil(ranks));
                        assert!(own.len() <= columns.widest());
                        *had += own.len();
                        end = own.end;
                    }
                    assert_eq!(end, d);
                }
                assert_eq!(had, vec![d; ranks]);
            }
        }
    }
}
