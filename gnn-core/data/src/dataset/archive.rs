//! An opened `.npz`: a zip of NumPy arrays, read by name within limits.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::dataset::npy::{self, Array};
use crate::dataset::{Limit, bad, regular};
use crate::{Error, Result};

/// Bytes that one byte of a deflated file can grow to.
const MAX_RATIO: u64 = 1032;

/// Bytes of a zip's table of contents at most.
const MAX_DIRECTORY: u64 = 16 << 20;

/// An opened archive.
pub(super) struct Archive<'l> {
    /// The file, for messages.
    pub(super) file: String,
    zip: zip::ZipArchive<BufReader<File>>,
    /// What reading may take.
    pub(super) limit: &'l Limit,
    /// Other names of arrays.
    also: &'static [(&'static str, &'static str)],
}

impl<'l> Archive<'l> {
    /// Opens the archive in the file `path`.
    pub(super) fn open(path: &Path, limit: &'l Limit) -> Result<Archive<'l>> {
        let file = path.display().to_string();
        let mut from = BufReader::new(regular::open(path)?);
        let help = "copy or download the file again";
        refuse_repeats(&mut from, &file).map_err(|e| Error::io(path, e))??;
        let zip = zip::ZipArchive::new(from).map_err(|e| {
            bad(
                &file,
                "archive",
                format!("cannot be read, is it truncated? ({e})"),
                help,
            )
        })?;
        Ok(Archive {
            file,
            zip,
            limit,
            also: &[],
        })
    }

    /// Whether there is an array of that name, or of another that others call it by.
    pub(super) fn has(&self, name: &str) -> bool {
        self.zip
            .index_for_name(&format!("{}.npy", self.spelled(name)))
            .is_some()
    }

    /// The name that the array called `name` has here.
    fn spelled<'n>(&self, name: &'n str) -> &'n str {
        let is_there = |name: &str| self.zip.index_for_name(&format!("{name}.npy")).is_some();
        let others = self.also.iter().filter(|(known, _)| *known == name);
        let other = others
            .map(|(_, other)| *other)
            .find(|other| is_there(other));
        match other {
            Some(other) if !is_there(name) => other,
            _ => name,
        }
    }

    /// The same archive, in which an array may also have the other name of a pair.
    pub(super) fn or_called(
        mut self,
        also: &'static [(&'static str, &'static str)],
    ) -> Archive<'l> {
        self.also = also;
        self
    }

    /// Names of all arrays.
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.zip.file_names();
        names
            .map(|n| n.trim_end_matches(".npy").to_owned())
            .collect()
    }

    /// The array of that name.
    pub(super) fn array(&mut self, name: &str) -> Result<Array> {
        let name = self.spelled(name);
        let file = self.file.as_str();
        if self.zip.index_for_name(&format!("{name}.npy")).is_none() {
            let names = self.names();
            let near = crate::error::nearest(name, names.iter().map(String::as_str));
            let near = near
                .map(|n| format!(" (there is '{n}')"))
                .unwrap_or_default();
            return Err(bad(
                file,
                name,
                format!("is missing{near}"),
                format!("save the array under the name {name}"),
            ));
        }
        let help = "copy or download the file again";
        let entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|e| bad(file, name, format!("cannot be read: {e}"), help))?;
        let size = checked_size(&entry, file, name)?;
        // One byte more than claimed, so that more data than claimed is noticed and not just cut.
        npy::read(entry.take(size.saturating_add(1)), file, name, self.limit)
    }

    /// The content of the member of that name, which is no array.
    ///
    /// # Errors
    /// As [`Archive::array`].
    pub(super) fn bytes(&mut self, name: &str) -> Result<Vec<u8>> {
        let file = self.file.as_str();
        let help = "copy or download the file again";
        let entry = self
            .zip
            .by_name(name)
            .map_err(|e| bad(file, name, format!("cannot be read: {e}"), help))?;
        let size = checked_size(&entry, file, name)?;
        self.limit.take(size, file, name)?;
        let mut bytes = Vec::with_capacity(size as usize);
        // One byte more than claimed, so that more data than claimed is noticed and not just cut.
        let got = entry.take(size + 1).read_to_end(&mut bytes);
        let got = got.map_err(|e| bad(file, name, format!("cannot be read: {e}"), help))?;
        if got as u64 != size {
            let reason = format!("claims {size} bytes, but holds others");
            return Err(bad(file, name, reason, help));
        }
        Ok(bytes)
    }

    /// The array of that name, which must have one dimension.
    pub(super) fn vector(&mut self, name: &str) -> Result<Array> {
        let array = self.array(name)?;
        array.expect_dims(1)?;
        Ok(array)
    }
}

/// Bytes that a member claims to have, refused where no deflated bytes could be so many.
fn checked_size<R: Read>(entry: &zip::read::ZipFile<R>, file: &str, name: &str) -> Result<u64> {
    let (size, packed) = (entry.size(), entry.compressed_size());
    if size > packed.saturating_mul(MAX_RATIO).saturating_add(1024) {
        let reason = format!("claims {size} bytes from {packed} packed ones");
        let help = "save the array again; this file is damaged or hostile";
        return Err(bad(file, name, reason, help));
    }
    Ok(size)
}

/// Refuses a zip that holds two arrays of one name, which readers otherwise resolve silently and
/// differently. Walks the table of contents at the end of the file; a damaged or 64-bit one is
/// left to the zip reader.
fn refuse_repeats(from: &mut (impl Read + Seek), file: &str) -> std::io::Result<Result<()>> {
    let len = from.seek(SeekFrom::End(0))?;
    let tail = len.min(22 + 65_535);
    from.seek(SeekFrom::Start(len - tail))?;
    let mut end = Vec::new();
    from.by_ref().take(tail).read_to_end(&mut end)?;
    let word = |b: &[u8], at: usize| {
        u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
    };
    let found = (0..end.len().saturating_sub(21))
        .rev()
        .find(|&k| end[k..].starts_with(b"PK\x05\x06"));
    let directory = found.map(|k| (word(&end, k + 12), word(&end, k + 16)));
    let Some((size, start)) =
        directory.filter(|&(size, start)| size <= MAX_DIRECTORY && start + size <= len)
    else {
        from.rewind()?;
        return Ok(Ok(()));
    };
    from.seek(SeekFrom::Start(start))?;
    let mut entries = Vec::new();
    from.by_ref().take(size).read_to_end(&mut entries)?;
    from.rewind()?;
    let mut rest = &entries[..];
    let mut seen = HashSet::new();
    while rest.len() >= 46 && rest.starts_with(b"PK\x01\x02") {
        let short = |at: usize| usize::from(u16::from_le_bytes([rest[at], rest[at + 1]]));
        let (name, whole) = (short(28), 46 + short(28) + short(30) + short(32));
        if rest.len() < whole {
            break;
        }
        let name = &rest[46..46 + name];
        if !seen.insert(name) {
            let name = String::from_utf8_lossy(name);
            let (place, reason) = match name.trim_end_matches(".npy") {
                "" => ("archive".into(), "two arrays are without a name"),
                name => (name.escape_debug().to_string(), "is there twice"),
            };
            return Ok(Err(bad(file, place, reason, "save every array once")));
        }
        rest = &rest[whole..];
    }
    Ok(Ok(()))
}
