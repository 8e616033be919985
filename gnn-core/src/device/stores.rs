//! What things take on a device: numbers that are needed before anything is there.

use crate::backend::Backend;
use kernels::Csr;
use kernels::cuda::{SparseNeed, room};

/// How a device stores what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Lists and rows as they are: a part of the host's memory.
    AsIs,
    /// As CUDA's kernels read them, in pieces of memory that are `kept` for the next owner or not.
    ForKernels {
        /// Whether memory comes in multiples of a grain.
        kept: bool,
    },
}

impl Stores {
    /// On the device behind `backend`; for a backend that stands for another, on the one `named`.
    pub fn of(backend: &dyn Backend, named: &str) -> Stores {
        match backend.memory() {
            Some(device) => Stores::ForKernels {
                kept: device.keeps_memory(),
            },
            None if named == "cuda" => Stores::ForKernels { kept: true },
            None => Stores::AsIs,
        }
    }

    /// Bytes of a matrix.
    pub fn matrix(self, rows: usize, cols: usize) -> u64 {
        let bytes = 4 * rows * cols;
        match self {
            Stores::AsIs => bytes as u64,
            Stores::ForKernels { kept } => room(kept, bytes) as u64,
        }
    }

    /// Bytes of a sparse matrix, its rows to be added.
    pub fn sparse(self, weighted: bool) -> SparseBytes {
        let kept = matches!(self, Stores::ForKernels { kept: true });
        SparseBytes {
            stores: self,
            need: SparseNeed::new(kept, weighted),
        }
    }
}

/// Bytes of a sparse matrix on a device.
#[derive(Debug, Clone, Copy)]
pub struct SparseBytes {
    stores: Stores,
    need: SparseNeed,
}

impl SparseBytes {
    /// With the rows of `a`.
    pub fn rows(mut self, a: Csr<'_>) -> SparseBytes {
        let rows = a.indptr.windows(2);
        rows.for_each(|span| self.row((span[1] - span[0]) as usize));
        self
    }

    /// With one row more, of so many edges.
    pub fn row(&mut self, edges: usize) {
        self.need.add(edges);
    }

    /// What is copied there.
    pub fn copied(&self) -> u64 {
        match self.stores {
            Stores::AsIs => self.need.lists() as u64,
            Stores::ForKernels { .. } => self.need.copied() as u64,
        }
    }

    /// What it takes there, with what a product with rows of `d` columns takes beside.
    pub fn held(&self, d: usize) -> u64 {
        match self.stores {
            Stores::AsIs => self.need.lists() as u64,
            Stores::ForKernels { .. } => self.need.room(d) as u64,
        }
    }
}
