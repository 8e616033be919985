//! What layers have made of a rank's vertices, while others read it.

use super::rows::RowData;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// By layer, the rows that it reads.
#[derive(Debug, Default)]
pub(crate) struct Hidden(RwLock<BTreeMap<usize, RowData>>);

impl Hidden {
    /// Has the rows that layer `layer` reads.
    pub(super) fn put(&self, layer: usize, rows: RowData) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(layer, rows);
    }

    /// Lets go of what layers before `layer` read.
    pub(super) fn keep(&self, layer: usize) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|&l, _| l >= layer);
    }

    /// The rows that layer `layer` reads, if they are there.
    pub(super) fn get(&self, layer: usize) -> Option<RowData> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&layer).cloned()
    }
}
