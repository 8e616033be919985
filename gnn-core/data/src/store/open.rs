//! Opening a stored graph.
//!
//! Unsafe: a mapped file that another process shortens ends this one with a signal, and one that is
//! written to changes under our feet. Our writer never does either: it makes a new file and renames
//! it. Whatever the bytes are, they are checked here before anything relies on them.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernels::CsrBuf;
use memmap2::Mmap;
use rayon::prelude::*;

use super::about::Saved;
use super::checksum::{self, BLOCK};
use super::header::{AGAIN, io};
use super::verdict::{Verdict, Verdicts};
use super::{Element, Header, List, Section, bad};
use crate::dataset::{About, Dataset, Features, Links};
use crate::first::position;
use crate::graph::{Graph, Relations};
use crate::{Error, Result};

/// Classes at most, as of every other data set.
const MAX_CLASSES: u64 = 1 << 16;

/// A stored graph whose header was checked and whose sections are mapped.
#[derive(Debug)]
pub struct Stored {
    file: String,
    /// For those who read it all and should not keep it in memory.
    from: (PathBuf, File),
    map: Arc<Mmap>,
    header: Header,
    pub(super) verdict: Verdict,
}

impl Stored {
    /// [`Stored::open_known`] that keeps nothing and relies on nothing kept.
    ///
    /// # Errors
    /// As there.
    pub fn open(path: &Path) -> Result<Stored> {
        Stored::open_known(path, &Verdicts::none())
    }

    /// Maps the file and checks its header. The structure of one that was found sound before is not
    /// looked at again.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Data`] for a file that is truncated, damaged, of the other byte
    /// order, of a newer version, or no stored graph.
    pub fn open_known(path: &Path, verdicts: &Verdicts) -> Result<Stored> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(io(path))?;
        // Before anything is looked at: what changes it from here on changes this too.
        let about = file.metadata().map_err(io(path))?;
        if cfg!(target_endian = "big") {
            let reason = "stored graphs are little endian, and this machine is not";
            return Err(bad(&name, "header", reason, "use a little-endian machine"));
        }
        // SAFETY: the mapping is read-only and stays valid while the file keeps its length, which
        // our writers never change (see the module's head); its bytes are only taken for numbers,
        // of which every pattern is one.
        let map = unsafe { Mmap::map(&file) }.map_err(io(path))?;
        let header = Header::decode(&name, &map)?;
        let verdict = verdicts.of(path, &about, &map);
        Ok(Stored {
            verdict,
            file: name,
            from: (path.to_owned(), file),
            map: Arc::new(map),
            header,
        })
    }

    /// What it says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads every section and compares its checksum.
    ///
    /// # Errors
    /// [`Error::Data`] naming the first section that is damaged; [`Error::Io`].
    pub fn verify(&self) -> Result<()> {
        for s in &self.header.sections {
            let sum = self.sum(s)?;
            if sum != s.checksum {
                let reason = format!("checksum {sum:016x} instead of {:016x}", s.checksum);
                return Err(bad(&self.file, &s.name, reason, AGAIN));
            }
        }
        Ok(())
    }

    /// The checksum of a section as it is in the file.
    fn sum(&self, s: &Section) -> Result<u64> {
        let (path, file) = &self.from;
        let block = |buffer: &mut Vec<u8>, k: u64| {
            let at = k * BLOCK as u64;
            let part = &mut buffer[..(s.bytes - at).min(BLOCK as u64) as usize];
            file.read_exact_at(part, s.offset + at)
                .map(|()| checksum::block(part))
        };
        let blocks = (0..s.bytes.div_ceil(BLOCK as u64)).into_par_iter();
        let sums = blocks.map_init(|| vec![0; BLOCK], block);
        let sums: Vec<u64> = sums.collect::<std::io::Result<_>>().map_err(io(path))?;
        Ok(checksum::chain(sums))
    }

    /// The graph, its arrays in the mapped file.
    ///
    /// What is looked at here and nowhere else is what a verdict is about: that `indptr` ascends, and
    /// indices and types are in range. Everything else is read anyway, and looked at each time.
    ///
    /// # Errors
    /// [`Error::Data`] for arrays that are no graph; [`Error::Unsupported`] for more vertices than
    /// training takes.
    pub fn graph(&self) -> Result<Graph> {
        let n = self.n()?;
        let edges = self.header.edges;
        let indptr = self.needed::<u64>("indptr", n as u64 + 1)?;
        let wide = self
            .header
            .section("indices")
            .is_some_and(|s| s.kind == "u64");
        let indices: List<u32> = if wide {
            let wide = self.needed::<u64>("indices", edges)?;
            let narrow = wide
                .par_iter()
                .map(|&v| u32::try_from(v).unwrap_or(u32::MAX));
            narrow.collect::<Vec<u32>>().into()
        } else {
            self.needed("indices", edges)?
        };
        let known = matches!(self.verdict, Verdict::Sound);
        let relations = match self.header.relations {
            None => None,
            Some(count) => {
                let types = self.needed::<u16>("edge_type", edges)?;
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let made = match known {
                    true => Relations::from_known_list(types, count),
                    false => Relations::from_list(types, count),
                };
                Some(made.map_err(|e| self.shape("edge_type", e))?)
            }
        };
        let made = match known {
            true => Graph::from_known_lists(n, indptr, indices, relations),
            false => Graph::from_lists(n, indptr, indices, relations),
        };
        let graph = made.map_err(|e| self.shape("graph", e))?;
        self.verdict.keep();
        Ok(graph)
    }

    /// The data set; graph and dense features stay in the mapped file.
    ///
    /// # Errors
    /// As [`Stored::graph`], and [`Error::Data`] for labels or masks out of range.
    pub fn dataset(&self) -> Result<Dataset> {
        let header = &self.header;
        let n = self.n()?;
        if header.classes > MAX_CLASSES {
            let reason = format!("{} classes, more than {MAX_CLASSES}", header.classes);
            return Err(bad(&self.file, "header", reason, AGAIN));
        }
        // What there is by edge beside what there is by vertex.
        let (graph, by_vertex) = rayon::join(|| self.graph(), || self.classes(n));
        let (graph, (labels, [train, val, test])) = (graph?, by_vertex?);
        let multi = self.part::<u8>("multi_label", n as u64 * header.classes)?;
        if let Some(at) = multi.as_ref().and_then(|m| position(m, |&x| x > 1)) {
            let reason = format!("element {at} is neither 0 nor 1");
            return Err(bad(&self.file, "multi_label", reason, AGAIN));
        }
        let node_types = self.part::<u16>("node_type", n as u64)?;
        Ok(Dataset {
            name: header.name.clone(),
            features: self.features(n)?,
            graph,
            labels,
            n_classes: header.classes as usize,
            train,
            val,
            test,
            synthetic: header.synthetic,
            task: header.task.into(),
            multi_labels: multi.map(List::into_vec),
            node_types: node_types.map(List::into_vec),
            links: self.links(n)?,
            about: self.about(n)?,
        })
    }

    /// The vertices' ids in the source, where they are others: `[n]`.
    ///
    /// # Errors
    /// [`Error::Data`] for a section of another length.
    pub fn vertex_ids(&self) -> Result<Option<List<u64>>> {
        self.part("vertex_id", self.header.vertices)
    }

    fn n(&self) -> Result<usize> {
        match self.header.vertices {
            0 => Err(bad(
                &self.file,
                "header",
                "the graph has no vertices",
                "convert a source that has some",
            )),
            n if n > u64::from(u32::MAX) => Err(Error::Unsupported {
                what: self.file.clone(),
                reason: format!("{n} vertices, more than training takes ({})", u32::MAX),
                help: "convert with --relabel compact, or --induce fewer vertices".into(),
            }),
            n => Ok(n as usize),
        }
    }

    /// A section of `count` elements, if it is there.
    fn part<T: Element>(&self, name: &str, count: u64) -> Result<Option<List<T>>> {
        let Some(s) = self.header.section(name) else {
            return Ok(None);
        };
        let wrong = |reason: String| bad(&self.file, name, reason, AGAIN);
        if s.kind != T::NAME {
            return Err(wrong(format!("holds {}; expected {}", s.kind, T::NAME)));
        }
        if count.checked_mul(size_of::<T>() as u64) != Some(s.bytes) {
            return Err(wrong(format!(
                "expected {count} elements, got {} bytes of {}",
                s.bytes, s.kind
            )));
        }
        // The header was checked against the file's length, which fits into memory's addresses.
        let range = s.offset as usize..(s.offset + s.bytes) as usize;
        let list = List::mapped(&self.map, range);
        list.map(Some).ok_or_else(|| wrong("is not aligned".into()))
    }

    fn needed<T: Element>(&self, name: &str, count: u64) -> Result<List<T>> {
        self.part(name, count)?
            .ok_or_else(|| bad(&self.file, name, "is missing", AGAIN))
    }

    /// An error of the structure as one of this file.
    fn shape(&self, place: &str, e: Error) -> Error {
        match e {
            Error::Shape { expected, got, .. } => {
                let reason = format!("expected {expected}, got {got}");
                bad(&self.file, place, reason, AGAIN)
            }
            other => other,
        }
    }

    /// The class of each vertex, and the masks.
    fn classes(&self, n: usize) -> Result<(Vec<i32>, [Vec<bool>; 3])> {
        let labels = self.labels(n)?;
        let Some(split) = self.part::<u8>("split", n as u64)? else {
            return Ok((labels, [0; 3].map(|_| vec![false; n])));
        };
        self.check_split(&split, &labels)?;
        let of = |part: u8| split.iter().map(|&s| s == part).collect();
        let masks = [1, 2, 3].map(of);
        split.release(0..n);
        Ok((labels, masks))
    }

    fn labels(&self, n: usize) -> Result<Vec<i32>> {
        let Some(labels) = self.part::<i32>("label", n as u64)? else {
            return Ok(vec![-1; n]);
        };
        let classes = self.header.classes as i32;
        if let Some(v) = position(&labels, |&c| c < -1 || c >= classes) {
            let reason = format!("class {} of vertex {v} is outside 0..{classes}", labels[v]);
            return Err(bad(&self.file, "label", reason, AGAIN));
        }
        let own = labels.to_vec();
        labels.release(0..n);
        Ok(own)
    }

    fn check_split(&self, split: &[u8], labels: &[i32]) -> Result<()> {
        let wrong = |s: u8, label: i32| (s > 3) | ((s > 0) & (label < 0));
        let pairs = || split.iter().zip(labels);
        let any = pairs().fold(false, |any, (&s, &label)| any | wrong(s, label));
        let found = any.then(|| pairs().position(|(&s, &label)| wrong(s, label)));
        match found.flatten() {
            None => Ok(()),
            Some(v) => {
                let reason = match split[v] {
                    1..=3 => format!("selects vertex {v}, which has no label"),
                    other => format!("{other} of vertex {v} is none of 0, 1, 2, 3"),
                };
                Err(bad(&self.file, "split", reason, AGAIN))
            }
        }
    }

    fn features(&self, n: usize) -> Result<Features> {
        let d = self.header.feature_width;
        let wrong = |place: &str, reason: String| Err(bad(&self.file, place, reason, AGAIN));
        if d == 0 || d > u64::from(u32::MAX) {
            return wrong("header", format!("features of {d} columns"));
        }
        let cells = (n as u64).checked_mul(d);
        if self.header.section("feat").is_some() {
            let values = self.needed("feat", cells.unwrap_or(u64::MAX))?;
            return Ok(Features::Mapped {
                values,
                dim: d as usize,
            });
        }
        let Some(indptr) = self.part::<u64>("feat_indptr", n as u64 + 1)? else {
            if d != n as u64 {
                return wrong("header", format!("one-hot features of {d} columns"));
            }
            return Ok(Features::Identity(n));
        };
        let stored = indptr.last().copied().unwrap_or(0);
        let weights = self.part::<f32>("feat_data", stored)?;
        let x = CsrBuf {
            indices: self.needed::<u32>("feat_indices", stored)?.into_vec(),
            indptr: indptr.into_vec(),
            weights: weights.map(List::into_vec),
            n_cols: d as usize,
        };
        match x.view().check() {
            Ok(()) => Ok(Features::Sparse(x)),
            Err(e) => wrong("feat_indptr", e.to_string()),
        }
    }

    fn about(&self, n: usize) -> Result<About> {
        let bytes = self.header.section("about").map_or(0, |s| s.bytes);
        let saved = match self.part::<u8>("about", bytes)? {
            None => Saved::default(),
            Some(json) => serde_json::from_slice(&json).map_err(|e| {
                bad(
                    &self.file,
                    "about",
                    format!("is not understood: {e}"),
                    AGAIN,
                )
            })?,
        };
        Ok(saved.about(n))
    }

    fn links(&self, n: usize) -> Result<Option<Links>> {
        let list = |name: &str| -> Result<Vec<[u32; 2]>> {
            let count = self.header.section(name).map_or(0, |s| s.bytes / 4);
            let ends = self.needed::<u32>(name, count)?;
            match position(&ends, |&v| v as usize >= n) {
                None => Ok(ends.chunks_exact(2).map(|p| [p[0], p[1]]).collect()),
                Some(k) => {
                    let reason = format!("vertex {} is outside 0..{n}", ends[k]);
                    Err(bad(&self.file, name, reason, AGAIN))
                }
            }
        };
        if self.header.section("train_link").is_none() {
            return Ok(None);
        }
        Ok(Some(Links {
            train: list("train_link")?,
            val: list("val_link")?,
            test: list("test_link")?,
            val_neg: list("val_neg")?,
            test_neg: list("test_neg")?,
            negatives: 1,
            pairing: None,
        }))
    }
}
