//! What splits and gathers send, from the cut and the model alone.

use super::layout::{Columns, Turns};
use crate::ctx::Ctx;
use crate::record::Direction;

/// A split, or a gather.
pub(super) struct Trip {
    pub(super) layer: u16,
    pub(super) direction: Direction,
    /// Rows of each rank.
    pub(super) rows: Vec<usize>,
    /// Columns of a row.
    pub(super) width: usize,
    /// Whether it is a gather.
    pub(super) gathers: bool,
}

impl Trip {
    /// Bytes that rank `me` sends to rank `to`: in a split its rows' columns of the other, in a gather
    /// the other's rows' columns of its own.
    fn bytes(&self, me: usize, to: usize, turn: usize) -> u64 {
        let columns = Columns::new(self.width, self.rows.len(), turn);
        let (rows, slice) = if self.gathers { (to, me) } else { (me, to) };
        4 * (self.rows[rows] * columns.of(slice).len()) as u64
    }
}

/// Every split and gather of an epoch.
pub(super) struct Traffic {
    pub(super) trips: Vec<Trip>,
    pub(super) turns: Turns,
    /// The epoch that was predicted last.
    pub(super) said: Option<u64>,
}

impl Traffic {
    /// Says what this rank will send in this epoch, the first time it is asked in it. Evaluation is not
    /// predicted.
    pub(super) fn predict(&mut self, cx: &Ctx, direction: Direction) {
        if direction == Direction::Eval || self.said.replace(cx.epoch) == Some(cx.epoch) {
            return;
        }
        let me = cx.rank();
        for trip in &self.trips {
            let turn = self.turns.at(cx.epoch, trip.direction, cx.size());
            for to in (0..cx.size()).filter(|&r| r != me) {
                let lane = (trip.layer, trip.direction, to as u32);
                cx.predict(lane, trip.bytes(me, to, turn));
            }
        }
    }
}
