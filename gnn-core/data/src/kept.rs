//! Host data of which a device may keep a copy.

use kernels::segmented::Segmented;
use kernels::{Csr, CsrBuf};
use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A place where a backend keeps its own form of what stands beside it: made at first use, gone
/// with its owner. A clone begins empty.
#[derive(Default)]
pub struct Slot(OnceLock<Box<dyn Any + Send + Sync>>);

impl Slot {
    /// What is kept, made by `make` at the first call.
    ///
    /// # Panics
    /// When another type was kept before: one value belongs to one backend.
    pub fn get_or_init<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &T {
        let kept = self.0.get_or_init(|| Box::new(make()));
        kept.downcast_ref()
            .expect("one value belongs to one backend")
    }
}

impl Clone for Slot {
    fn clone(&self) -> Slot {
        Slot::default()
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

/// A list that does not change, such as vertex ids, labels or masks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Kept<T> {
    host: Arc<Vec<T>>,
    slot: Slot,
}

impl<T> Kept<T> {
    /// Where a device keeps its copy.
    #[inline]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }
}

impl<T> From<Vec<T>> for Kept<T> {
    fn from(host: Vec<T>) -> Kept<T> {
        Kept {
            host: Arc::new(host),
            slot: Slot::default(),
        }
    }
}

impl<T> Deref for Kept<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.host
    }
}

/// A sparse matrix that does not change.
#[derive(Debug, Clone)]
pub struct Sparse {
    csr: CsrBuf,
    segmented: OnceLock<Option<Segmented>>,
    slot: Slot,
}

impl Sparse {
    /// From its arrays, which the caller has checked ([`Csr::check`]).
    pub fn new(csr: CsrBuf) -> Sparse {
        Sparse {
            csr,
            segmented: OnceLock::new(),
            slot: Slot::default(),
        }
    }

    /// The same of a matrix that is used once or twice: nothing is made of it that pays later.
    pub fn brief(csr: CsrBuf) -> Sparse {
        let made = Sparse::new(csr);
        let _ = made.segmented.set(None);
        made
    }

    /// The matrix by segments of sources, for wide rows on the host, where that pays. Made at the
    /// first call and kept.
    pub fn segmented(&self) -> Option<&Segmented> {
        let made = self.segmented.get_or_init(|| Segmented::of(self.view()));
        made.as_ref()
    }

    /// Its arrays.
    #[inline]
    pub fn into_csr(self) -> CsrBuf {
        self.csr
    }

    /// The matrix.
    #[inline]
    pub fn view(&self) -> Csr<'_> {
        self.csr.view()
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.csr.rows()
    }

    /// Number of columns.
    #[inline]
    pub fn n_cols(&self) -> usize {
        self.csr.n_cols
    }

    /// Number of stored elements.
    #[inline]
    pub fn n_edges(&self) -> usize {
        self.csr.indices.len()
    }

    /// Bytes held on the host, with what was made of it.
    pub fn bytes(&self) -> usize {
        let made = self.segmented.get().and_then(Option::as_ref);
        self.csr.bytes() + made.map_or(0, Segmented::bytes)
    }

    /// Where a device keeps its copy.
    #[inline]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }
}
