//! Dictionaries that PyTorch saved (`.pt`), read as data.
//!
//! Since PyTorch 1.6 a zip with `NAME/data.pkl` and the elements of each tensor in
//! `NAME/data/KEY`; before, pickles one after another and the elements behind them. Values may be
//! tensors or NumPy arrays. The pickles are parsed by [`super::pickle`], never executed.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::pickle::{self, Pickle, Value};
use crate::dataset::archive::Archive;
use crate::dataset::npy::{self, Array, Header};
use crate::dataset::{Limit, bad, regular};
use crate::{Error, Result};

/// A file that PyTorch wrote.
pub(super) struct Saved<'l> {
    file: String,
    /// The pickle, or the whole file.
    bytes: Vec<u8>,
    /// The zip and the folder in it.
    zip: Option<(Archive<'l>, String)>,
    limit: &'l Limit,
}

impl<'l> Saved<'l> {
    /// Opens the file `at`.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when it is in neither form.
    pub(super) fn open(at: &Path, limit: &'l Limit) -> Result<Saved<'l>> {
        let file = at.display().to_string();
        let mut start = Vec::new();
        let opened = regular::open(at)?;
        let read = opened.take(2).read_to_end(&mut start);
        read.map_err(|e| Error::io(at, e))?;
        if start != b"PK" {
            return Ok(Saved {
                bytes: super::whole(at, limit)?,
                file,
                zip: None,
                limit,
            });
        }
        let mut archive = Archive::open(at, limit)?;
        let names = archive.names();
        let top = names.iter().find_map(|n| n.strip_suffix("/data.pkl"));
        let Some(top) = top.map(str::to_owned) else {
            let help = "download the file again; it is not one that PyTorch saved";
            return Err(bad(&file, "data.pkl", "is missing", help));
        };
        let bytes = archive.bytes(&format!("{top}/data.pkl"))?;
        Ok(Saved {
            file,
            bytes,
            zip: Some((archive, top)),
            limit,
        })
    }

    /// The file, for messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The whole numbers under a name of the dictionary with their shape, if it is there.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when the file is damaged or the value is something else.
    pub(super) fn ints(&mut self, name: &str) -> Result<Option<(Vec<i64>, Vec<usize>)>> {
        let (text, limit) = (&self.bytes[..], self.limit);
        let mut at = 0;
        if self.zip.is_none() {
            // The magic number, the version of the format, and the sizes of types.
            for _ in 0..3 {
                at += pickle::read(&self.file, "head", &text[at..], limit)?.end;
            }
        }
        let pickle = pickle::read(&self.file, "", &text[at..], limit)?;
        if !matches!(pickle.get(pickle.root()), Value::Dict(_)) {
            return Err(pickle.bad("value", "is not a dictionary"));
        }
        let Some(value) = pickle.item(pickle.root(), name) else {
            return Ok(None);
        };
        let array = match pickle.tensor(value) {
            None => pickle.array(value, name, limit)?,
            Some((descr, key, range, shape)) => {
                let stored = match &mut self.zip {
                    Some((archive, top)) => archive.bytes(&format!("{top}/data/{key}"))?,
                    None => {
                        let behind = behind(&pickle, &text[at + pickle.end..], limit)?;
                        let found = behind.get(key).cloned();
                        let found = found.ok_or_else(|| pickle.bad(key, "is not stored"))?;
                        text[at + pickle.end..][found].to_vec()
                    }
                };
                elements(&self.file, name, descr, &stored, range, shape, limit)?
            }
        };
        let shape = array.shape.clone();
        Ok(Some((array.into_ints()?, shape)))
    }
}

/// Some of the elements of a storage as an array.
fn elements(
    file: &str,
    place: &str,
    descr: &str,
    stored: &[u8],
    range: Range<usize>,
    shape: &[usize],
    limit: &Limit,
) -> Result<Array> {
    let width = width(descr);
    let bytes = range
        .start
        .checked_mul(width)
        .zip(range.end.checked_mul(width));
    let bytes = bytes
        .and_then(|(from, to)| stored.get(from..to))
        .ok_or_else(|| {
            let reason = format!(
                "expected {} elements, got {}",
                range.end,
                stored.len() / width
            );
            bad(file, place, reason, "download the file again")
        })?;
    let header = Header {
        file,
        place,
        descr,
        shape: shape.to_vec(),
        fortran: false,
    };
    npy::decode(&header, bytes, limit)
}

/// Bytes of an element, from NumPy's name of the type.
fn width(descr: &str) -> usize {
    descr.bytes().last().map_or(1, |b| usize::from(b - b'0'))
}

/// Where the elements of each storage are behind the pickles of the old form: a pickle of their
/// names, then for each its number of elements and the elements.
fn behind(pickle: &Pickle, rest: &[u8], limit: &Limit) -> Result<HashMap<String, Range<usize>>> {
    let names = pickle::read(pickle.file, "storages", rest, limit)?;
    let mut at = names.end;
    let mut out = HashMap::new();
    let types = pickle.storages();
    for &id in names.list(names.root()).unwrap_or(&[]) {
        let name = names.text(id).unwrap_or("");
        let descr = types.get(name).copied();
        let count = rest.get(at..at + 8).and_then(|b| b.try_into().ok());
        let count = count.and_then(|b| usize::try_from(i64::from_le_bytes(b)).ok());
        let bytes = descr.zip(count).and_then(|(d, c)| c.checked_mul(width(d)));
        let end = bytes.and_then(|b| b.checked_add(at + 8));
        let Some(end) = end.filter(|&e| e <= rest.len()) else {
            return Err(pickle.bad(name, "is truncated"));
        };
        out.insert(name.to_owned(), at + 8..end);
        at = end;
    }
    Ok(out)
}
