//! From edge lists of any length to a stored graph, within a number of bytes of memory.
//!
//! Edges stream from a source through a sorter into the compressed rows of a
//! [`crate::store`] file; neither edges nor rows are ever held whole. What is held by vertex is
//! said at the options that need it.
//!
//! | module | one idea |
//! |---|---|
//! | `text`, `npy` | sources of edges, read in blocks |
//! | `sort` | more keys than memory holds, in order |
//! | `rows` | keys in order become a stored graph |
//! | `number` | which vertices stay, and their new numbers |
//! | `vertices` | labels, split and features beside an edge list |
//! | `features` | features beside it that are larger than memory |
//! | `data` | the same options for a data set in memory |
//!
//! # Measured
//! Time, disk and peak by the list's length: `notebooks/measured/data.md`.

mod data;
mod features;
mod npy;
mod number;
mod rows;
mod sort;
mod text;
mod vertices;

#[cfg(test)]
mod tests;

pub use data::apply;
pub use features::NpyFeatures;
pub use npy::NpyEdges;
pub use text::TextEdges;
pub use vertices::Vertices;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::graph::SelfLoops;
use crate::{Error, Result};
use number::Numbers;
use sort::{Key, Sorter};

/// Edges, block by block.
pub trait EdgeSource {
    /// Replaces `edges` by the next block of `[source, destination]`; false when there are no more
    /// after it.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Data`] naming the line or row.
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> Result<bool>;

    /// Begins again.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn rewind(&mut self) -> Result<()>;

    /// How much was read and how much there is, in a unit of its own.
    fn progress(&self) -> (u64, u64);

    /// What it is called in errors: its file.
    fn name(&self) -> String;
}

/// How vertices are numbered in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relabel {
    /// As in the source.
    #[default]
    None,
    /// In the order of their ids, those without edges left out. Holds 8 bytes a vertex.
    Compact,
    /// By falling in-degree, vertices of equal degree in order of their ids. Holds 16 bytes a vertex.
    Degree,
}

/// Integers that vertex ids are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// 32 bits; a larger id is refused.
    #[default]
    U32,
    /// 64 bits; training takes such a graph only if it has fewer than 2³² vertices.
    U64,
}

/// What happens to edges on their way.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of memory to stay within, of which [`RESERVE`] are for the program itself.
    pub mem: u64,
    /// Also store every edge in the other direction.
    pub symmetrise: bool,
    /// Store repeated edges once.
    pub dedup: bool,
    /// Edges from a vertex to itself.
    pub self_loops: SelfLoops,
    /// Keep only these vertices and the edges between them, numbered in ascending order. Holds 8
    /// bytes a vertex.
    pub induce: Option<Vec<u64>>,
    /// How vertices are numbered.
    pub relabel: Relabel,
    /// Integers that ids are stored as.
    pub ids: Ids,
    /// Number of vertices, where the last ones may be without edges.
    pub vertices: Option<u64>,
    /// Labels, split and features of the vertices.
    pub table: Option<Arc<Vertices>>,
    /// Features of the vertices; the table has none then.
    pub features: Option<Arc<NpyFeatures>>,
}

impl Default for Options {
    /// A simple directed graph within 1 GB.
    fn default() -> Options {
        Options {
            mem: 1_000_000_000,
            symmetrise: false,
            dedup: true,
            self_loops: SelfLoops::Drop,
            induce: None,
            relabel: Relabel::None,
            ids: Ids::U32,
            vertices: None,
            table: None,
            features: None,
        }
    }
}

/// Bytes that the program takes without any edges.
pub const RESERVE: u64 = 64 << 20;

/// The smallest limit of memory.
pub const MIN_MEM: u64 = 2 * RESERVE;

impl Options {
    /// Bytes for edges.
    fn working(&self) -> Result<usize> {
        if self.mem < MIN_MEM {
            return Err(Error::Spec {
                key: "mem".into(),
                reason: format!("{} bytes are too few to sort with", self.mem),
                help: format!("allow at least {} MB", MIN_MEM.div_ceil(1_000_000)),
            });
        }
        Ok((self.mem - RESERVE) as usize)
    }

    /// Bytes of text or of rows that a source should read at a time.
    pub fn block(&self) -> usize {
        ((self.mem.saturating_sub(RESERVE) / 64) as usize).clamp(256 << 10, 8 << 20)
    }

    /// Bytes that a sorter may hold.
    fn sorter(&self) -> Result<usize> {
        Ok(self.working()? / 10 * 6)
    }
}

/// A step of a conversion, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// What is being done.
    pub what: &'static str,
    /// Edges handled so far in this step.
    pub edges: u64,
    /// Share of the step that is done.
    pub share: f64,
}

/// What a conversion made.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Vertices of the graph.
    pub vertices: u64,
    /// Its directed edges.
    pub edges: u64,
    /// Edges read from the source.
    pub read: u64,
    /// Runs that were written because memory did not hold all edges.
    pub runs: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes the edges of `source` as a stored graph to `path`, named `name` and without features,
/// labels or masks; `tell` hears of progress.
///
/// # Errors
/// [`Error::Data`] for edges that cannot be used, [`Error::Spec`] for too little memory,
/// [`Error::Io`]. Nothing new stays then, and a file that was there before is untouched.
pub fn edges(
    source: &mut dyn EdgeSource,
    name: &str,
    path: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Summary> {
    match options.ids {
        Ids::U32 => narrow(source, name, path, options, tell),
        Ids::U64 => wide(source, name, path, options, tell),
    }
}

fn narrow(
    source: &mut dyn EdgeSource,
    name: &str,
    path: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Summary> {
    let numbers = Numbers::choose(source, folder(path), options, tell)?;
    let mut gathered = gather::<u64>(source, &numbers, folder(path), options, tell)?;
    if options.relabel != Relabel::Degree {
        return rows::write(gathered, name, path, numbers.ids(), options, tell);
    }
    // The degrees are those of the stored graph, so it is made once in the order of the ids.
    let first = First::beside(path);
    let read = gathered.read;
    let bare = Options {
        table: None,
        features: None,
        ..options.clone()
    };
    let plain = rows::write(gathered, name, &first.0, None, &bare, tell)?;
    let mut stored = rows::StoredEdges::open(&first.0, options.block())?;
    let numbers = numbers.by_degree(stored.degrees()?, options.working()?)?;
    // Everything was done to the edges before; now they only move.
    let moved = Options {
        symmetrise: false,
        self_loops: SelfLoops::Keep,
        vertices: Some(plain.vertices),
        ..options.clone()
    };
    gathered = gather::<u64>(&mut stored, &numbers, folder(path), &moved, tell)?;
    gathered.read = read;
    rows::write(gathered, name, path, numbers.ids(), &moved, tell)
}

fn wide(
    source: &mut dyn EdgeSource,
    name: &str,
    path: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Summary> {
    if options.relabel == Relabel::Degree {
        return Err(Error::Spec {
            key: "ids".into(),
            reason: "64-bit ids are not numbered by degree".into(),
            help: "leave --ids out, or --relabel".into(),
        });
    }
    let numbers = Numbers::choose(source, folder(path), options, tell)?;
    let gathered = gather::<u128>(source, &numbers, folder(path), options, tell)?;
    rows::write(gathered, name, path, numbers.ids(), options, tell)
}

/// A stored graph that is only needed for a while.
struct First(PathBuf);

impl First {
    fn beside(path: &Path) -> First {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".tmp-{}.halo", std::process::id()));
        First(path.with_file_name(name))
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // What cannot be removed has a name that nobody takes for a result.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Vertices that a graph may always have, and beside them for each edge: with more, an id is wrong, or ids are
/// no numbers from 0. Every vertex takes 8 bytes of the result.
const SPARE: u64 = 1 << 24;
const EMPTY: u64 = 64;

/// Edges of the result in a sorter, with what is known of them.
struct Gathered<K> {
    sorter: Sorter<K>,
    /// Vertices of the result.
    vertices: u64,
    /// Keys in the sorter.
    kept: u64,
    read: u64,
}

/// Calls `f` with the number of edges before each block of `source`, and the block, and `tell` after
/// it; returns how many edges there were.
fn each_block(
    source: &mut dyn EdgeSource,
    what: &'static str,
    tell: &mut dyn FnMut(Step),
    mut f: impl FnMut(u64, &[[u64; 2]]) -> Result<()>,
) -> Result<u64> {
    let (mut block, mut read) = (Vec::new(), 0);
    loop {
        let more = source.next(&mut block)?;
        f(read, &block)?;
        read += block.len() as u64;
        let (at, of) = source.progress();
        tell(Step {
            what,
            edges: read,
            share: at as f64 / of.max(1) as f64,
        });
        if !more {
            return Ok(read);
        }
    }
}

/// Streams the edges of `source` into a sorter, in their new numbers.
fn gather<K: Key>(
    source: &mut dyn EdgeSource,
    numbers: &Numbers,
    folder: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Step),
) -> Result<Gathered<K>> {
    let mut sorter = Sorter::<K>::new(options.sorter()?, options.dedup, folder);
    let mut kept = 0;
    let file = source.name();
    // One more than the largest id.
    let rows = options.table.as_ref().map_or(0, |t| t.end());
    let rows = options
        .features
        .as_ref()
        .map_or(rows, |x| x.rows().max(rows));
    let mut vertices = numbers.count().or(options.vertices).unwrap_or(rows);
    let fixed = numbers.count().or(options.vertices);
    let read = each_block(source, "reading edges", tell, |first, block| {
        for (e, &[s, d]) in (first..).zip(block) {
            let (Some(src), Some(dst)) = (numbers.of(s), numbers.of(d)) else {
                continue;
            };
            let largest = src.max(dst);
            if largest >= vertices {
                check_id(&file, largest, K::MOST, fixed, e)?;
                vertices = largest + 1;
            }
            if src == dst && options.self_loops != SelfLoops::Keep {
                continue;
            }
            sorter.push(K::new(src, dst))?;
            kept += 1;
            if options.symmetrise && src != dst {
                sorter.push(K::new(dst, src))?;
                kept += 1;
            }
        }
        Ok(())
    })?;
    if vertices == 0 {
        let help = "give a source with edges, or the number of vertices";
        return Err(crate::store::bad(&file, "edges", "there are none", help));
    }
    if fixed.is_none() && vertices > SPARE + EMPTY * read {
        let reason = format!("{read} edges among {vertices} vertices, nearly all without an edge");
        let help = format!(
            "number the vertices anew with --relabel compact; or keep them all with --vertices {vertices}"
        );
        return Err(crate::store::bad(&file, "ids", reason, &help));
    }
    Ok(Gathered {
        sorter,
        vertices,
        kept,
        read,
    })
}

fn check_id(file: &str, id: u64, most: u64, fixed: Option<u64>, edge: u64) -> Result<()> {
    let place = format!("edge {edge}");
    if let Some(n) = fixed {
        let reason = format!("vertex {id} is outside 0..{n}");
        let help = "give the number of vertices that the edges have";
        return Err(crate::store::bad(file, &place, reason, help));
    }
    if id > most {
        let reason = format!("vertex {id} is above {most}, the largest id that is stored");
        let help = "number the vertices anew with --relabel compact; --ids u64 stores 64-bit ids, which training does not take";
        return Err(crate::store::bad(file, &place, reason, help));
    }
    Ok(())
}
