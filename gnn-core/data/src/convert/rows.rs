//! Keys in order become the rows of a stored graph; and a stored graph is a source of edges again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::sort::Key;
use super::{EdgeSource, Gathered, Options, Step, Summary};
use crate::dataset::Task;
use crate::graph::SelfLoops;
use crate::store::{Element, Header, SectionWriter, Stored, Writer, bad};
use crate::{Error, Result};

/// Sources of edges of a width that a graph is stored in.
trait Width: Element {
    fn from_id(id: u64) -> Self;
}

impl Width for u32 {
    fn from_id(id: u64) -> u32 {
        // Keys of this width hold no larger ids.
        id as u32
    }
}

impl Width for u64 {
    fn from_id(id: u64) -> u64 {
        id
    }
}

/// Writes what was gathered to `path`; `ids` are the vertices' ids in the source.
pub(super) fn write<K: Key>(
    gathered: Gathered<K>,
    name: &str,
    path: &Path,
    ids: Option<&[u64]>,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Summary> {
    if K::MOST <= u64::from(u32::MAX) {
        write_as::<K, u32>(gathered, name, path, ids, options, tell)
    } else {
        write_as::<K, u64>(gathered, name, path, ids, options, tell)
    }
}

fn write_as<K: Key, W: Width>(
    gathered: Gathered<K>,
    name: &str,
    path: &Path,
    ids: Option<&[u64]>,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Summary> {
    let Gathered {
        sorter,
        vertices,
        kept,
        read,
    } = gathered;
    let mut out = Writer::create(path)?;
    if let Some(ids) = ids {
        out.put("vertex_id", ids)?;
    }
    let starts = vertices.checked_add(1).filter(|&n| n < 1 << 40);
    let Some(starts) = starts else {
        let reason = format!("{vertices} vertices are more than a graph can have");
        return Err(bad(name, "edges", reason, "use --relabel compact"));
    };
    if let Some(table) = &options.table {
        table.write(&mut out, vertices, ids)?;
    }
    if let Some(features) = &options.features {
        features.write(&mut out, vertices, ids)?;
    }
    let mut rows = FilledRows::<W> {
        starts: out.section("indptr", starts),
        sources: out.last_section("indices"),
        row: 0,
        loops: options.self_loops == SelfLoops::Add,
        looped: false,
    };
    rows.starts.push(0)?;
    let runs = sorter.runs();
    let mut done = 0u64;
    sorter.drain(|block| {
        for key in block {
            let [src, dst] = key.ends();
            rows.add(src, dst)?;
        }
        done += block.len() as u64;
        tell(Step {
            what: "writing rows",
            edges: done,
            share: done as f64 / kept.max(1) as f64,
        });
        Ok(())
    })?;
    rows.advance(vertices)?;
    let edges = rows.sources.count();
    out.close(rows.starts)?;
    out.close(rows.sources)?;
    let table = options.table.as_ref();
    let classes = table.map_or(0, |t| t.classes() as u64);
    let width = match &options.features {
        Some(features) => Some(features.width() as u64),
        None => table.map(|t| t.width() as u64).filter(|&w| w > 0),
    };
    let bytes = out.finish(Header {
        name: name.into(),
        source: name.into(),
        synthetic: false,
        task: if classes > 0 {
            Task::NodeClassification.into()
        } else {
            Task::LinkPrediction.into()
        },
        vertices,
        edges,
        feature_width: width.unwrap_or(vertices),
        classes,
        relations: None,
        sections: Vec::new(),
    })?;
    Ok(Summary {
        vertices,
        edges,
        read,
        runs,
        bytes,
    })
}

/// Rows that are filled in order.
struct FilledRows<W> {
    starts: SectionWriter<u64>,
    sources: SectionWriter<W>,
    /// The row that is being filled.
    row: u64,
    /// Whether every vertex gets a self loop, and whether this one has it.
    loops: bool,
    looped: bool,
}

impl<W: Width> FilledRows<W> {
    #[inline]
    fn add(&mut self, src: u64, dst: u64) -> Result<()> {
        if dst > self.row {
            self.advance(dst)?;
        }
        if self.loops && !self.looped && src > dst {
            self.looped = true;
            self.sources.push(W::from_id(dst))?;
        }
        self.sources.push(W::from_id(src))
    }

    /// Ends all rows before `row`.
    fn advance(&mut self, row: u64) -> Result<()> {
        while self.row < row {
            if self.loops && !self.looped {
                self.sources.push(W::from_id(self.row))?;
            }
            self.starts.push(self.sources.count())?;
            self.row += 1;
            self.looped = false;
        }
        Ok(())
    }
}

/// The edges of a stored graph with 32-bit ids, read in blocks.
pub(super) struct StoredEdges {
    file: File,
    path: PathBuf,
    vertices: u64,
    edges: u64,
    /// Where the sections lie.
    starts: u64,
    sources: u64,
    block: usize,
    /// The next edge and the row that it is in.
    edge: u64,
    row: u64,
}

impl StoredEdges {
    pub(super) fn open(path: &Path, block: usize) -> Result<StoredEdges> {
        let stored = Stored::open(path)?;
        let header = stored.header();
        let at = |name: &str| {
            let section = header.section(name).map(|s| s.offset);
            let help = "convert its source again";
            section.ok_or_else(|| bad(&path.display().to_string(), name, "is missing", help))
        };
        Ok(StoredEdges {
            file: File::open(path).map_err(|e| Error::io(path, e))?,
            path: path.to_owned(),
            vertices: header.vertices,
            edges: header.edges,
            starts: at("indptr")?,
            sources: at("indices")?,
            block,
            edge: 0,
            row: 0,
        })
    }

    /// Elements `from..from + count` of a section that starts at `offset`.
    fn list<T: Element>(&self, offset: u64, from: u64, count: usize) -> Result<Vec<T>> {
        let mut list = vec![T::zeroed(); count];
        let bytes = bytemuck::cast_slice_mut(&mut list);
        let at = offset + from * size_of::<T>() as u64;
        let read = self.file.read_exact_at(bytes, at);
        read.map_err(|e| Error::io(&self.path, e))?;
        Ok(list)
    }

    /// In-degree of every vertex.
    pub(super) fn degrees(&self) -> Result<Vec<u32>> {
        let mut degrees = Vec::with_capacity(self.vertices as usize);
        let most = self.block / 8;
        while (degrees.len() as u64) < self.vertices {
            let left = self.vertices - degrees.len() as u64;
            let count = left.min(most as u64) as usize;
            let starts = self.list::<u64>(self.starts, degrees.len() as u64, count + 1)?;
            degrees.extend(starts.windows(2).map(|w| (w[1] - w[0]) as u32));
        }
        Ok(degrees)
    }
}

impl EdgeSource for StoredEdges {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> Result<bool> {
        edges.clear();
        let count = (self.edges - self.edge).min((self.block / 16) as u64) as usize;
        let sources = self.list::<u32>(self.sources, self.edge, count)?;
        // Ends of as many rows as there are edges at most, and again where rows are empty.
        let mut ends: Vec<u64> = Vec::new();
        let mut first = self.row;
        for src in sources {
            loop {
                let k = (self.row - first) as usize;
                if k == ends.len() {
                    first = self.row;
                    let left = self.vertices - first;
                    let rows = left.min((self.block / 16).max(1) as u64) as usize;
                    ends = self.list::<u64>(self.starts, first + 1, rows)?;
                    continue;
                }
                if ends[k] > self.edge {
                    break;
                }
                self.row += 1;
            }
            edges.push([src.into(), self.row]);
            self.edge += 1;
        }
        Ok(self.edge < self.edges)
    }

    fn rewind(&mut self) -> Result<()> {
        (self.edge, self.row) = (0, 0);
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.edge, self.edges)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
