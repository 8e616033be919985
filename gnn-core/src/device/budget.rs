//! An allocator's books: what is on a device, and what still fits.

use crate::error::{Error, Result};
use crate::record::Meter;
use std::cell::Cell;
use std::rc::Rc;

/// So many bytes of a device, given out before they are used and refused when they are gone.
#[derive(Clone)]
pub struct Budget(Rc<Books>);

struct Books {
    bytes: u64,
    held: Cell<u64>,
    /// Is told how much is held.
    meter: Rc<Meter>,
}

/// Bytes of a budget, until this is gone.
pub struct Lease {
    books: Rc<Books>,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let books = &self.books;
        books.held.set(books.held.get() - self.bytes);
    }
}

impl Budget {
    /// `bytes` bytes; the most that are held at one moment are `meter`'s [`Meter::most_on_device`].
    pub fn new(bytes: u64, meter: Rc<Meter>) -> Budget {
        let held = Cell::new(0);
        Budget(Rc::new(Books { bytes, held, meter }))
    }

    /// Takes `bytes` bytes for `item`.
    ///
    /// # Errors
    /// [`Error::Budget`] with the item, the bytes asked for, and how many of how many are free.
    pub fn reserve(&self, item: &str, bytes: u64) -> Result<Lease> {
        let books = &self.0;
        if bytes > self.free() {
            return Err(Error::Budget {
                of: "device",
                item: item.into(),
                asked: bytes,
                free: self.free(),
                budget: books.bytes,
            });
        }
        let held = self.held() + bytes;
        books.held.set(held);
        books.meter.on_device(held);
        let books = Rc::clone(books);
        Ok(Lease { books, bytes })
    }

    /// All of its bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes that are held now.
    pub fn held(&self) -> u64 {
        self.0.held.get()
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        self.bytes() - self.held()
    }
}
