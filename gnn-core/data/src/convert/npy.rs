//! Edge lists as a NumPy array `[E, 2]` of integers, read in blocks.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::EdgeSource;
use crate::dataset::NpyHead;
use crate::store::bad;
use crate::{Error, Result};

/// A `.npy` file with an edge a row.
pub struct NpyEdges {
    path: PathBuf,
    block: usize,
    head: NpyHead,
    from: BufReader<File>,
    /// Where the first element is.
    start: u64,
    edge: u64,
    edges: u64,
}

impl NpyEdges {
    /// Opens `path`; rows of about `block` bytes are read at a time.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Data`] for another shape or elements that are no integers.
    pub fn open(path: &Path, block: usize) -> Result<NpyEdges> {
        let file = path.display().to_string();
        let io = |e| Error::io(path, e);
        let mut from = BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?);
        let head = NpyHead::read(&mut from, &file, "array")?;
        let start = from.stream_position().map_err(io)?;
        let help = "save source and destination of every edge as an array [E, 2] of int64";
        let wrong = |reason: String| Err(bad(&file, "array", reason, help));
        let [edges, 2] = head.shape[..] else {
            return wrong(format!("has the shape {:?}; expected [E, 2]", head.shape));
        };
        if !head.is_whole() {
            return wrong("holds floats; expected integers".into());
        }
        let there = from.get_ref().metadata().map_err(io)?.len() - start;
        head.expect_bytes(there, &file, help)?;
        Ok(NpyEdges {
            path: path.to_owned(),
            block,
            head,
            from,
            start,
            edge: 0,
            edges: edges as u64,
        })
    }
}

impl EdgeSource for NpyEdges {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> Result<bool> {
        edges.clear();
        let width = self.head.width();
        let count = (self.block / (2 * width)).max(1) as u64;
        let count = count.min(self.edges - self.edge) as usize;
        let mut bytes = vec![0; count * 2 * width];
        let read = self.from.read_exact(&mut bytes);
        read.map_err(|e| Error::io(&self.path, e))?;
        for pair in bytes.chunks_exact(2 * width) {
            let mut ends = [0; 2];
            for (end, element) in ends.iter_mut().zip(pair.chunks_exact(width)) {
                let Some(id) = self.head.id(element) else {
                    let place = format!("row {}", self.edge + edges.len() as u64);
                    let file = self.path.display().to_string();
                    let help = "number the vertices from 0";
                    return Err(bad(&file, &place, "has a negative vertex", help));
                };
                *end = id;
            }
            edges.push(ends);
        }
        self.edge += count as u64;
        Ok(self.edge < self.edges)
    }

    fn rewind(&mut self) -> Result<()> {
        let sought = self.from.seek(SeekFrom::Start(self.start));
        sought.map_err(|e| Error::io(&self.path, e))?;
        self.edge = 0;
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.edge, self.edges)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
