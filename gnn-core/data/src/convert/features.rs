//! Features of the vertices of an edge list, larger than memory: rows of an array, read when they are written.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::dataset::NpyHead;
use crate::store::{Writer, bad};
use crate::{Error, Result};

/// A `.npy` file `[n, d]` with a row of numbers for each vertex, by its id in the source.
#[derive(Debug)]
pub struct NpyFeatures {
    path: PathBuf,
    file: File,
    head: NpyHead,
    /// Where the first element is.
    start: u64,
    rows: u64,
    width: usize,
    /// Bytes that are read at once, about.
    block: usize,
}

impl NpyFeatures {
    /// Opens `path`; rows of about `block` bytes are held at a time.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Data`] for another shape, or a file of another length than its shape has.
    pub fn open(path: &Path, block: usize) -> Result<NpyFeatures> {
        let name = path.display().to_string();
        let io = |e| Error::io(path, e);
        let mut from = BufReader::new(File::open(path).map_err(io)?);
        let head = NpyHead::read(&mut from, &name, "array")?;
        let start = from.stream_position().map_err(io)?;
        let file = from.into_inner();
        let help = "save the features of every vertex as an array [n, d] of float32";
        let wrong = |reason: String| Err(bad(&name, "array", reason, help));
        let (rows, width) = match head.shape[..] {
            [rows, width] if width > 0 => (rows, width),
            _ => return wrong(format!("has the shape {:?}; expected [n, d]", head.shape)),
        };
        let there = file.metadata().map_err(io)?.len() - start;
        head.expect_bytes(there, &name, help)?;
        Ok(NpyFeatures {
            path: path.to_owned(),
            file,
            head,
            start,
            rows: rows as u64,
            width,
            block,
        })
    }

    /// Vertices that have a row.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Features of each.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes the section of `n` vertices whose ids in the source are `ids`, or their numbers.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Data`] for a vertex without a row, or a number that is not finite.
    pub(super) fn write(&self, out: &mut Writer, n: u64, ids: Option<&[u64]>) -> Result<()> {
        let mut section = out.section::<f32>("feat", n * self.width as u64);
        let most = (self.block / (4 * self.width)).max(1) as u64;
        let id = |v: u64| ids.map_or(v, |ids| ids[v as usize]);
        let mut v = 0;
        while v < n {
            // Vertices whose rows follow each other.
            let first = id(v);
            let follow = |k: &u64| v + k < n && id(v + k) == first + k;
            let count = (1..most).take_while(follow).count() as u64 + 1;
            for &x in &self.read(first, count)? {
                section.push(x)?;
            }
            v += count;
        }
        out.close(section)
    }

    /// Rows `first..first + count`.
    fn read(&self, first: u64, count: u64) -> Result<Vec<f32>> {
        let wrong = |row: u64, reason: String, help: &str| {
            let name = self.path.display().to_string();
            Err(bad(&name, &format!("row {row}"), reason, help))
        };
        if first + count > self.rows {
            let help = "save a row for every vertex, whether it has edges or not";
            let reason = format!("is missing: there are {}", self.rows);
            return wrong(first.max(self.rows), reason, help);
        }
        let row = self.head.width() * self.width;
        let mut bytes = vec![0; count as usize * row];
        let at = self.start + first * row as u64;
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|e| Error::io(&self.path, e))?;
        let floats = self.head.floats(&bytes);
        match floats.iter().position(|x| !x.is_finite()) {
            Some(k) => {
                let row = first + (k / self.width) as u64;
                wrong(row, "has a number that is not finite".into(), "replace it")
            }
            None => Ok(floats),
        }
    }
}
