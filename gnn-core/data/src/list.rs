//! A list that is owned or lies in a mapped file.
//!
//! Unsafe: telling the system that mapped pages are not needed would lose what was written to them.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

/// Numbers that do not change: owned, or part of a file that is mapped into memory. A mapped list
/// costs no reading until it is looked at, its clones share it, and so do all processes of a host.
#[derive(Clone)]
pub struct List<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Vec<T>),
    Mapped { map: Arc<Mmap>, bytes: Range<usize> },
}

impl<T: Pod> List<T> {
    /// The bytes `bytes` of a mapped file; none when they leave the file, are not aligned for `T`,
    /// or end in the middle of one.
    pub(crate) fn mapped(map: &Arc<Mmap>, bytes: Range<usize>) -> Option<List<T>> {
        bytemuck::try_cast_slice::<u8, T>(map.get(bytes.clone())?).ok()?;
        let map = Arc::clone(map);
        Some(List(Storage::Mapped { map, bytes }))
    }

    /// The elements as a list of their own; a mapped one is copied.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Storage::Owned(list) => list,
            Storage::Mapped { .. } => self.to_vec(),
        }
    }

    /// Says that these elements will not be read soon. Pages of a mapped file that were read count as
    /// memory of the process until then; they may be read again, from the system's cache of files. Owned
    /// elements stay where they are. A range that leaves the list is ignored.
    pub fn release(&self, elements: Range<usize>) {
        let Storage::Mapped { map, bytes } = &self.0 else {
            return;
        };
        if elements.start >= elements.end || elements.end > bytes.len() / size_of::<T>() {
            return;
        }
        let (at, len) = (
            bytes.start + elements.start * size_of::<T>(),
            elements.len() * size_of::<T>(),
        );
        #[cfg(unix)]
        // SAFETY: the mapping is of a file, shared and read-only (`Stored::open` made it so), and nobody
        // can have written to it: what is read next is the file's content as before. Its range was
        // checked above. A refusal is no error, pages only stay.
        let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, at, len) };
        #[cfg(not(unix))]
        let _ = (map, at, len);
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(list: Vec<T>) -> List<T> {
        List(Storage::Owned(list))
    }
}

impl<T: Pod> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(list) => list,
            // Both checks of the cast were passed in `mapped`.
            Storage::Mapped { map, bytes } => bytemuck::cast_slice(&map[bytes.clone()]),
        }
    }
}

impl<T: Pod + PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &List<T>) -> bool {
        **self == **other
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
