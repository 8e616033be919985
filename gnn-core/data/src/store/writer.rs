//! Writing a stored graph: sections one after another or side by side, the header last, and the
//! file's name only when everything is in it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use rayon::prelude::*;

use super::checksum::{self, BLOCK, Chain};
use super::header::{ALIGN, Header, SPACE, Section, io};
use crate::Result;

/// Element types that sections may have, with their names.
pub trait Element: Pod + Send + Sync {
    /// The name in a header.
    const NAME: &'static str;
}

macro_rules! elements {
    ($($t:ident)*) => { $(impl Element for $t { const NAME: &'static str = stringify!($t); })* };
}
elements!(u8 u16 u32 u64 i32 f32);

/// A stored graph that is being written under a temporary name; without [`Writer::finish`] nothing
/// of it stays.
pub struct Writer {
    file: Arc<File>,
    path: PathBuf,
    temporary: PathBuf,
    sections: Vec<Section>,
    /// Where the next section starts.
    end: u64,
    finished: bool,
}

impl Writer {
    /// Begins the file `path`, which appears when it is finished; what was there stays until then.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when it cannot be made.
    pub fn create(path: &Path) -> Result<Writer> {
        let temporary = temporary(path);
        sweep(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(io(&temporary))?;
        Ok(Writer {
            file: Arc::new(file),
            path: path.to_owned(),
            temporary,
            sections: Vec::new(),
            end: SPACE as u64,
            finished: false,
        })
    }

    /// Begins a section of exactly `count` elements; others may be begun before it is filled.
    pub fn section<T: Element>(&mut self, name: &'static str, count: u64) -> SectionWriter<T> {
        let writer = self.open_section(name);
        self.end += (count * size_of::<T>() as u64).next_multiple_of(ALIGN);
        writer
    }

    /// Begins the last section, whose length is known when it is filled.
    pub fn last_section<T: Element>(&mut self, name: &'static str) -> SectionWriter<T> {
        self.open_section(name)
    }

    fn open_section<T: Element>(&mut self, name: &'static str) -> SectionWriter<T> {
        SectionWriter {
            file: Arc::clone(&self.file),
            path: self.temporary.clone(),
            name,
            offset: self.end,
            written: 0,
            waiting: Vec::with_capacity(BLOCK / size_of::<T>()),
            chain: Chain::default(),
        }
    }

    /// Takes note of a section that is filled.
    pub fn close<T: Element>(&mut self, section: SectionWriter<T>) -> Result<()> {
        let section = section.finish()?;
        let end = (section.offset + section.bytes).next_multiple_of(ALIGN);
        self.end = self.end.max(end);
        self.sections.push(section);
        Ok(())
    }

    /// Writes a whole section.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when the disk is full or fails.
    pub fn put<T: Element>(&mut self, name: &'static str, values: &[T]) -> Result<()> {
        let offset = self.end;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let write = |(k, block): (usize, &[u8])| {
            self.file
                .write_all_at(block, offset + (k * BLOCK) as u64)
                .map(|()| checksum::block(block))
        };
        let sums = bytes.par_chunks(BLOCK).enumerate().map(write);
        let sums: Vec<u64> = sums
            .collect::<std::io::Result<_>>()
            .map_err(io(&self.temporary))?;
        self.sections.push(Section {
            name: name.into(),
            kind: T::NAME.into(),
            offset,
            bytes: bytes.len() as u64,
            checksum: checksum::chain(sums),
        });
        self.end = (offset + bytes.len() as u64).next_multiple_of(ALIGN);
        Ok(())
    }

    /// Writes the header, whose list of sections is filled in here, and gives the file its name.
    /// Returns its bytes.
    ///
    /// # Errors
    /// [`crate::Error::Io`] when the disk is full or fails; [`crate::Error::Data`] for a header that
    /// is too long.
    pub fn finish(mut self, mut header: Header) -> Result<u64> {
        header.sections = std::mem::take(&mut self.sections);
        let first = header.encode(&self.path.display().to_string(), self.end)?;
        let write = || -> std::io::Result<()> {
            self.file.set_len(self.end)?;
            self.file.write_all_at(&first, 0)?;
            // A file that has its name is whole, also after the machine lost power.
            self.file.sync_all()?;
            std::fs::rename(&self.temporary, &self.path)
        };
        write().map_err(io(&self.path))?;
        self.finished = true;
        Ok(self.end)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed has a name that nobody takes for a graph.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// A name beside `path` that no other process uses.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    path.with_file_name(name)
}

/// Removes what killed writers of the same file left behind. Only a system that says which processes
/// there are can tell.
fn sweep(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let left = format!("{}.tmp-", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|n| n.strip_prefix(&left));
        let process = process.and_then(|p| p.trim_end_matches(".halo").parse::<u32>().ok());
        let gone =
            |p: u32| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{p}")).exists();
        if process.is_some_and(gone) {
            // Another process may have removed it first.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A section that is filled piece by piece.
pub struct SectionWriter<T> {
    file: Arc<File>,
    path: PathBuf,
    name: &'static str,
    offset: u64,
    /// Bytes that are in the file.
    written: u64,
    waiting: Vec<T>,
    chain: Chain,
}

impl<T: Element> SectionWriter<T> {
    /// Adds an element.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<()> {
        self.waiting.push(value);
        if self.waiting.len() * size_of::<T>() == BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// Elements added so far.
    pub fn count(&self) -> u64 {
        self.written / size_of::<T>() as u64 + self.waiting.len() as u64
    }

    fn flush(&mut self) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.waiting);
        self.chain.add(checksum::block(bytes));
        self.file
            .write_all_at(bytes, self.offset + self.written)
            .map_err(io(&self.path))?;
        self.written += bytes.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Section> {
        if !self.waiting.is_empty() {
            self.flush()?;
        }
        Ok(Section {
            name: self.name.into(),
            kind: T::NAME.into(),
            offset: self.offset,
            bytes: self.written,
            checksum: self.chain.value(),
        })
    }
}
