//! What a model makes of every vertex in the end, in a file a rank, for whoever wants to look at it.
//!
//! ```text
//! rows, columns (u64 each) │ vertices (u32 each) │ classes (i32) │ sets (u8) │ values (f32, row by row)
//! ```
//! Numbers are little-endian.

use crate::dataset::Rows;
use crate::error::{Error, Result};
use kernels::Mat;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Which set a vertex is in, by its byte in the file; the first is none.
pub const SETS: [&str; 4] = ["", "train", "val", "test"];

/// Some vertices with what the model makes of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// By the data set's ids: `[rows]`.
    pub vertices: Vec<u32>,
    /// Class of each, -1 for none.
    pub labels: Vec<i32>,
    /// Set of each, as an index into [`SETS`].
    pub sets: Vec<u8>,
    /// `[rows, columns]`.
    pub values: Mat,
}

/// The file of a rank in a run's folder.
pub fn path(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("embeddings-{rank}.bin"))
}

impl Embeddings {
    /// Those of a rank's rows.
    pub fn of(rows: &Rows, values: Mat) -> Embeddings {
        let set = |k: usize| match (rows.train[k], rows.val[k], rows.test[k]) {
            (true, ..) => 1,
            (_, true, _) => 2,
            (_, _, true) => 3,
            _ => 0,
        };
        Embeddings {
            vertices: rows.ids.to_vec(),
            labels: rows.labels.to_vec(),
            sets: (0..rows.ids.len()).map(set).collect(),
            values,
        }
    }

    /// Writes them.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file = std::fs::File::create(path).map_err(|e| Error::io(path, e))?;
        let mut to = std::io::BufWriter::new(file);
        let (rows, columns) = self.values.dim();
        let mut put = || -> std::io::Result<()> {
            to.write_all(&(rows as u64).to_le_bytes())?;
            to.write_all(&(columns as u64).to_le_bytes())?;
            self.vertices
                .iter()
                .try_for_each(|v| to.write_all(&v.to_le_bytes()))?;
            self.labels
                .iter()
                .try_for_each(|v| to.write_all(&v.to_le_bytes()))?;
            to.write_all(&self.sets)?;
            self.values
                .iter()
                .try_for_each(|v| to.write_all(&v.to_le_bytes()))?;
            to.flush()
        };
        put().map_err(|e| Error::io(path, e))
    }

    /// Reads them back.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Data`] when it is none of these.
    pub fn read(path: &Path) -> Result<Embeddings> {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        Embeddings::parse(&bytes).ok_or_else(|| Error::Data {
            file: path.display().to_string(),
            place: "length".into(),
            reason: format!("{} bytes are not what its beginning says", bytes.len()),
            help: "train again with keep_embeddings = true".into(),
        })
    }

    fn parse(bytes: &[u8]) -> Option<Embeddings> {
        let (head, rest) = bytes.split_at_checked(16)?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let (rows, columns) = (
            usize::try_from(number(0)).ok()?,
            usize::try_from(number(8)).ok()?,
        );
        let count = rows.checked_mul(columns)?;
        let expected = rows.checked_mul(9)?.checked_add(count.checked_mul(4)?)?;
        if rest.len() != expected {
            return None;
        }
        let words = |bytes: &[u8]| -> Vec<[u8; 4]> { bytes.as_chunks().0.to_vec() };
        let (vertices, rest) = rest.split_at(4 * rows);
        let (labels, rest) = rest.split_at(4 * rows);
        let (sets, values) = rest.split_at(rows);
        let values = words(values).into_iter().map(f32::from_le_bytes).collect();
        Some(Embeddings {
            vertices: words(vertices)
                .into_iter()
                .map(u32::from_le_bytes)
                .collect(),
            labels: words(labels).into_iter().map(i32::from_le_bytes).collect(),
            sets: sets
                .iter()
                .all(|&s| usize::from(s) < SETS.len())
                .then(|| sets.to_vec())?,
            values: Mat::from_shape_vec((rows, columns), values).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_survive_their_file_and_others_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = path(folder.path(), 3);
        for rows in [0, 5] {
            let there = Embeddings {
                vertices: (0..rows).map(|v| 7 * v).collect(),
                labels: (0..rows as i32).map(|v| v - 1).collect(),
                sets: (0..rows).map(|v| (v % 4) as u8).collect(),
                values: Mat::from_shape_fn((rows as usize, 3), |(r, c)| r as f32 - 0.5 * c as f32),
            };
            there.write(&file).expect("writes");
            assert_eq!(Embeddings::read(&file).expect("whole"), there);
        }
        let bytes = std::fs::read(&file).expect("there");
        for cut in [0, 15, 16, bytes.len() - 1] {
            std::fs::write(&file, &bytes[..cut]).expect("writes");
            assert!(Embeddings::read(&file).is_err(), "{cut}");
        }
        let mut huge = bytes;
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        std::fs::write(&file, &huge).expect("writes");
        assert!(Embeddings::read(&file).is_err());
    }
}
