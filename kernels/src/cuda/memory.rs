//! What was taken from a driver: in use, or idle and kept for the next owner, within a limit.

use super::{Driver, Error};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kept memory comes in multiples of this.
pub const GRAIN: usize = 512;

/// Bytes that a buffer of `bytes` takes where memory is `kept` for the next owner, or is not.
pub fn room(kept: bool, bytes: usize) -> usize {
    match kept {
        true => bytes.next_multiple_of(GRAIN).max(GRAIN),
        false => bytes,
    }
}

/// A device's memory.
#[derive(Default)]
pub(super) struct Memory(Mutex<Books>);

#[derive(Default)]
struct Books {
    /// Idle memory by size.
    idle: BTreeMap<usize, Vec<u64>>,
    idle_bytes: usize,
    used: usize,
    most: usize,
    limit: Option<usize>,
}

impl Books {
    /// The smallest idle piece with room for `bytes`. It may be an eighth larger, but not within a
    /// limit, where whoever counts on a size gets that size.
    fn again(&mut self, bytes: usize) -> Option<(u64, usize)> {
        let loose = self.limit.map_or(bytes / 8, |_| 0);
        let mut fits = self.idle.range_mut(bytes..=bytes + loose);
        let (at, size) = fits.find_map(|(size, list)| Some((list.pop()?, *size)))?;
        self.idle_bytes -= size;
        self.use_more(size);
        Some((at, size))
    }

    fn use_more(&mut self, bytes: usize) {
        self.used += bytes;
        self.most = self.most.max(self.used);
    }

    fn refused(&self, asked: usize, limit: usize) -> Error {
        let free = limit.saturating_sub(self.used);
        Error::Memory { asked, free, limit }
    }
}

impl Memory {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self) -> usize {
        self.books().used
    }

    pub(super) fn idle(&self) -> usize {
        self.books().idle_bytes
    }

    pub(super) fn most(&self) -> usize {
        self.books().most
    }

    pub(super) fn limit(&self, driver: &dyn Driver, bytes: usize) -> Result<(), Error> {
        self.trim(driver);
        let mut books = self.books();
        if books.used > bytes {
            return Err(books.refused(0, bytes));
        }
        let asked = bytes - books.used;
        if let Some(free) = driver.free_bytes()?.filter(|&free| free < asked) {
            let limit = bytes;
            return Err(Error::Memory { asked, free, limit });
        }
        books.limit = Some(bytes);
        Ok(())
    }

    /// Memory of at least `bytes`, and how much it is.
    pub(super) fn take(&self, driver: &dyn Driver, bytes: usize) -> Result<(u64, usize), Error> {
        let bytes = room(driver.keeps_memory(), bytes);
        let mut books = self.books();
        if let Some(again) = books.again(bytes) {
            return Ok(again);
        }
        if let Some(limit) = books.limit {
            if books.used + bytes > limit {
                return Err(books.refused(bytes, limit));
            }
            if books.used + books.idle_bytes + bytes > limit {
                free_idle(&mut books, driver);
            }
        }
        let at = driver.alloc(bytes).or_else(|_| {
            free_idle(&mut books, driver);
            driver.alloc(bytes)
        })?;
        books.use_more(bytes);
        Ok((at, bytes))
    }

    /// Takes back what [`Memory::take`] gave.
    ///
    /// # Safety
    /// It came from there, with this driver, and is not used again.
    pub(super) unsafe fn put(&self, driver: &dyn Driver, (at, bytes): (u64, usize)) {
        let mut books = self.books();
        books.used -= bytes;
        if driver.keeps_memory() {
            books.idle_bytes += bytes;
            return books.idle.entry(bytes).or_default().push(at);
        }
        drop(books);
        // SAFETY: the caller's.
        unsafe { driver.free(at) };
    }

    /// Gives idle memory back to the driver.
    pub(super) fn trim(&self, driver: &dyn Driver) {
        free_idle(&mut self.books(), driver);
    }
}

fn free_idle(books: &mut Books, driver: &dyn Driver) {
    books.idle_bytes = 0;
    for at in std::mem::take(&mut books.idle).into_values().flatten() {
        // SAFETY: nobody owns idle memory.
        unsafe { driver.free(at) };
    }
}
