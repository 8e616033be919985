//! Host data of which a device may keep a copy.

use kernels::factor::Factor;
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
    factor: OnceLock<Option<Arc<Factor>>>,
    segmented: OnceLock<Option<Segmented>>,
    slot: Slot,
}

impl Sparse {
    /// From its arrays, which the caller has checked ([`Csr::check`]).
    pub fn new(csr: CsrBuf) -> Sparse {
        Sparse {
            csr,
            factor: OnceLock::new(),
            segmented: OnceLock::new(),
            slot: Slot::default(),
        }
    }

    /// The same of a matrix that is used once or twice: nothing is made of it that pays later.
    pub fn brief(csr: CsrBuf) -> Sparse {
        let made = Sparse::new(csr);
        let _ = (made.factor.set(None), made.segmented.set(None));
        made
    }

    /// Its weights, where they are one number a row, or one a column of many. Looked for at the first call.
    pub fn factor(&self) -> Option<&Factor> {
        let found = self
            .factor
            .get_or_init(|| Factor::of(self.view()).map(Arc::new));
        found.as_deref()
    }

    /// [`Sparse::brief`] of the arrays of `of`, which may have left it; sums of both have the same bits, where `of` is
    /// not aggregated over by segments.
    pub fn brief_as(of: &Sparse, csr: CsrBuf) -> Sparse {
        of.factor();
        Sparse {
            factor: of.factor.clone(),
            ..Sparse::brief(csr)
        }
    }

    /// Its arrays, which leave it; what its weights were found to be stays.
    pub fn leave(&mut self) -> CsrBuf {
        let empty = Sparse::brief_as(self, CsrBuf::empty(0));
        std::mem::replace(self, empty).into_csr()
    }

    /// The matrix by segments of sources, for wide rows on the host, where that pays; without weights where
    /// [`Sparse::factor`] has them. Made at the first call and kept.
    pub fn segmented(&self) -> Option<&Segmented> {
        let made = self.segmented.get_or_init(|| {
            let mut a = self.view();
            if self.factor().is_some() {
                a.weights = None;
            }
            Segmented::of(a)
        });
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
        let factor = self.factor.get().and_then(Option::as_deref);
        let made = self.segmented.get().and_then(Option::as_ref);
        self.csr.bytes() + factor.map_or(0, Factor::bytes) + made.map_or(0, Segmented::bytes)
    }

    /// Where a device keeps its copy.
    #[inline]
    pub fn slot(&self) -> &Slot {
        &self.slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weights_were_found_to_be_stays_when_arrays_leave() {
        let csr = CsrBuf {
            indptr: vec![0, 2, 3],
            indices: vec![0, 1, 1],
            weights: Some(vec![0.5, 0.5, 1.0]),
            n_cols: 2,
        };
        let (plain, rows) = (csr.bytes(), Factor::Rows(vec![0.5, 1.0]));
        let mut a = Sparse::new(csr);
        assert_eq!(a.bytes(), plain, "nobody has asked");
        let csr = a.leave();
        assert_eq!((a.factor(), a.n_edges()), (Some(&rows), 0));
        let back = Sparse::brief_as(&a, csr.clone());
        assert_eq!(back.factor(), Some(&rows));
        assert_eq!(back.bytes(), plain + 8);
        assert_eq!(Sparse::brief(csr).factor(), None, "used once");
    }
}
