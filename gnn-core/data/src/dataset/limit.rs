//! How much memory reading may take: files declare sizes, and nobody has to believe them.

use std::cell::Cell;

use crate::Result;
use crate::dataset::bad;
use crate::memory::Memory;

/// The limit where the machine does not say how much memory it has.
const UNKNOWN: u64 = 16 << 30;

/// Bytes that a vertex takes beside its features: row start while and after sorting, class, masks,
/// one-hot features, type.
const VERTEX: u64 = 48;

/// Bytes that an edge takes while a list becomes a graph.
const EDGE: u64 = 24;

/// Bytes that reading one data set may take. What a file declares is counted before memory is
/// asked for, so a small hostile file cannot ask for more.
#[derive(Debug)]
pub struct Limit {
    bytes: u64,
    left: Cell<u64>,
}

impl Limit {
    /// At most so many bytes.
    pub fn new(bytes: u64) -> Limit {
        Limit {
            bytes,
            left: Cell::new(bytes),
        }
    }

    /// All memory of this machine, or what a container or the process's own limits allow of it.
    pub fn machine() -> Limit {
        Limit::new(Memory::now().total().unwrap_or(UNKNOWN))
    }

    /// The whole limit, whatever is taken.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` that are about to be held.
    ///
    /// # Errors
    /// [`crate::Error::Data`] with both numbers when they are not left.
    pub(super) fn take(&self, bytes: u64, file: &str, place: &str) -> Result<()> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(bad(
                file,
                place,
                format!(
                    "needs {} more, but reading may take {} in all",
                    size(bytes),
                    size(self.bytes)
                ),
                "the file is damaged, or needs a machine with more memory",
            )),
        }
    }

    /// Gives back what was held only for a while.
    pub(super) fn give(&self, bytes: u64) {
        self.left
            .set(self.left.get().saturating_add(bytes).min(self.bytes));
    }

    /// Counts a graph with what belongs to its vertices beside features.
    pub(super) fn graph(&self, n: u64, edges: u64, file: &str) -> Result<()> {
        let vertices = n.saturating_mul(VERTEX);
        let what = format!("a graph of {n} vertices and {edges} edges");
        self.take(
            vertices.saturating_add(edges.saturating_mul(EDGE)),
            file,
            &what,
        )
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut k = 0;
    while value >= 1024.0 && k + 1 < units.len() {
        value /= 1024.0;
        k += 1;
    }
    if k == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {}", units[k])
    }
}
