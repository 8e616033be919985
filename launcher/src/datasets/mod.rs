//! The catalogue of data sets that people publish results on, and fetching them.
//!
//! Nothing is downloaded unless it is asked for, and never by this program itself: `curl` of the
//! system does it, where there is one. Without a network [`get`] says which files belong where.

mod fetch;
mod table;
mod unpack;

pub use fetch::{Fetched, get};
pub use table::{ALL, Accuracy, Entry, Payload, find};

use crate::store;
use std::path::PathBuf;

/// The folder of a data set's files, `$HALOBOOK_HOME/data/NAME` unless another is named.
pub fn folder(name: &str, within: Option<&str>) -> PathBuf {
    let within = within.map_or_else(|| store::home().join("data"), PathBuf::from);
    within.join(name)
}
