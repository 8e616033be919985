//! A disk behind the host: rows of all layers, and edges of all chunks, of which the host's memory holds
//! what is read next.
//!
//! What lies on the host is cut into *blocks*. Those that there is no room for lie in a file of this run. An
//! epoch touches them in the same order each time; that order is noted once, by an epoch that computes
//! nothing, and from then on it is known when every block is wanted next. So the block that leaves is the one
//! that is wanted last (Belady's rule: no other reads less, but for the room that reading ahead takes), it is written only if somebody reads it
//! before it is overwritten, and what is wanted soon is read while the device computes.
//!
//! | part | where |
//! |---|---|
//! | what is cut into blocks | [`block`] |
//! | what is in memory, what leaves, what is read ahead | [`memory`], [`pages`] |
//! | when a block is wanted next | [`order`] |
//! | the file, and the thread that reads and writes it | [`scratch`] |
//! | rows and lists of one matrix | [`rows`] |
//!
//! What is read and written depends on the order and the budget alone, not on how fast the disk is: whoever
//! computes nothing counts the same bytes.

mod block;
mod memory;
mod order;
mod pages;
mod rows;
mod scratch;
#[cfg(test)]
mod tests;

pub(super) use block::{Key, rows_of_block};
pub(super) use order::{Round, Use};
pub(super) use pages::Pages;
pub(super) use rows::{PagedRows, cut};
