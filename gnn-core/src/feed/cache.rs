//! Copies of other ranks' rows that are asked for often. What is kept is chosen once, before the first
//! epoch, since features never change.

use super::make::Maker;
use super::rows::RowData;
use crate::error::{Error, Result};
use crate::spec::Value;
use std::collections::HashMap;

/// Rows of other ranks that this one keeps.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) rows: RowData,
    place: HashMap<u32, u32>,
}

impl Cache {
    /// Nothing, of rows like `like`.
    pub(crate) fn none(like: &RowData) -> Cache {
        Cache {
            rows: like.none(),
            place: HashMap::new(),
        }
    }

    /// The rows of these numbers, in their order.
    pub(crate) fn of(numbers: &[u32], rows: RowData) -> Cache {
        let place = numbers.iter().zip(0..).map(|(&v, k)| (v, k)).collect();
        Cache { rows, place }
    }

    /// The numbers whose rows are kept, in their order.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let mut all: Vec<(u32, u32)> = self.place.iter().map(|(&v, &k)| (k, v)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, v)| v).collect()
    }

    /// Bytes held: the rows, and a table of two words and a byte for each place, with an eighth or more free.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + 9 * (self.place.capacity() * 8).div_ceil(7).next_power_of_two()
    }

    /// The row of a number, if it is kept.
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        if self.place.is_empty() {
            return None;
        }
        self.place.get(&number).copied()
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// So many rows.
    Rows(usize),
    /// As many as fit into so many bytes.
    Bytes(usize),
}

impl Room {
    /// Reads `5000` (rows) or `64MB` (millions of bytes).
    ///
    /// # Errors
    /// [`Error::Spec`] for anything else.
    pub(crate) fn read(value: &str) -> Result<Room> {
        let wrong = || Error::Spec {
            key: "cache".into(),
            reason: format!("'{value}' is neither a number of rows nor of megabytes"),
            help: "write rows, as in cache = 5000, or megabytes, as in cache = \"64MB\"".into(),
        };
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        match value.trim().strip_suffix("MB") {
            Some(mega) => Ok(Room::Bytes(number(mega)? * 1_000_000)),
            None => Ok(Room::Rows(number(value)?)),
        }
    }

    /// Whether a knob's value can be read.
    pub(crate) fn is_one(value: &Value) -> bool {
        Room::read(&value.to_string()).is_ok()
    }

    /// How many rows like those of `like` that is.
    pub(crate) fn rows(self, like: &RowData) -> usize {
        match self {
            Room::Rows(rows) => rows,
            Room::Bytes(bytes) => bytes / (like.bytes() / like.len().max(1)).max(4),
        }
    }
}

/// How often `maker` will fetch the rows of each number that others own, in the batches of `epoch`: numbers
/// by count, descending, and ascending where it is equal.
///
/// # Errors
/// Whatever the communicator meets.
pub(crate) fn presample(maker: &mut Maker, epoch: u64) -> Result<Vec<u32>> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for step in 0..maker.seeds.batches() {
        for number in maker.reads(epoch, step)? {
            *counts.entry(number).or_default() += 1;
        }
    }
    let mut numbers: Vec<u32> = counts.keys().copied().collect();
    numbers.sort_unstable_by_key(|v| (std::cmp::Reverse(counts[v]), *v));
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn room_is_rows_or_megabytes() {
        let like = RowData::Dense(Arc::new(kernels::Mat::zeros((10, 250))));
        let rows = |text: &str| Room::read(text).map(|room| room.rows(&like));
        assert_eq!(rows("70").expect("rows"), 70);
        assert_eq!(rows("3MB").expect("megabytes"), 3000);
        assert!(rows("3 GB").is_err() && rows("many").is_err() && rows("-1").is_err());
    }
}
