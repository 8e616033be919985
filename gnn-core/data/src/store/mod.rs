//! The project's own form of a data set on disk: one file, mapped into memory.
//!
//! Opening it reads the header and, unless that was done before, looks over the structure; everything else is
//! read where it is used, and the ranks of a host share one copy in the system's cache. It is one file and not a
//! folder so that it appears, moves and disappears as a whole: a writer gives it its name last.
//!
//! # Layout, version 1
//! All numbers are little endian; a machine of the other byte order refuses the file. The first
//! 16 KiB hold 64 fixed bytes (magic, byte order, version, lengths, checksums), then a JSON object,
//! the [`Header`], then zeros. Every array is a section that starts at a multiple of 4096 bytes:
//!
//! | section | type | content |
//! |---|---|---|
//! | `indptr` | `u64` `[n + 1]` | where each vertex's in-edges start |
//! | `indices` | `u32` or `u64` `[E]` | source of each in-edge, ascending within a vertex |
//! | `edge_type` | `u16` `[E]` | relations |
//! | `feat` | `f32` `[n · d]` | dense features, row by row |
//! | `feat_indptr`, `feat_indices`, `feat_data` | `u64` `[n + 1]`, `u32`, `f32` | or sparse ones, without `feat_data` all 1; without any section features are one-hot |
//! | `label` | `i32` `[n]` | class, -1 unlabelled; absent: nobody is labelled |
//! | `multi_label` | `u8` `[n · k]` | or 0 and 1 for each of several classes |
//! | `split` | `u8` `[n]` | 1 training, 2 validation, 3 test, 0 none |
//! | `node_type` | `u16` `[n]` | types of vertices |
//! | `vertex_id` | `u64` `[n]` | ids in the source, where vertices were left out or numbered anew |
//! | `about` | `u8` | JSON: names and counts of types, names of classes and vertices, notes |
//! | `train_link`, `val_link`, `test_link`, `val_neg`, `test_neg` | `u32` `[2 · M]` | pairs held out for link prediction |
//!
//! # What is checked when
//! - At opening: lengths, versions and the header's checksums; that labels and masks are in range.
//! - At the first opening, and the first after a change: that `indptr` ascends and all indices and types are in
//!   range, which is what code behind relies on. In parallel. That they are is remembered for this file as it is
//!   ([`Verdicts`], whose source says when one holds) by those who have a place for it, as the command line has.
//! - At conversion and on request ([`Stored::verify`]): the checksum of every section.
//! - At conversion only: that features are finite.
//!
//! # Measured
//! Opening a graph that was and was not looked at before: `notebooks/measured/data.md`.
//!
//! # Ids
//! `indices` are `u32` when the vertices fit, else `u64`. Training takes up to 2³² - 1 vertices: a
//! file with more is refused when it is loaded, one with `u64` ids of fewer is narrowed.
//!
//! Unsafe: mapping a file, in `open`.

mod about;
pub mod checksum;
mod header;
mod open;
mod save;
mod verdict;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::list::List;
pub use header::{Header, Kind, Section};
pub use open::Stored;
pub use save::save;
pub use verdict::Verdicts;
pub use writer::{Element, SectionWriter, Writer};

use std::path::{Path, PathBuf};

use crate::Error;

/// The ending of stored graphs.
pub const ENDING: &str = "halo";

/// The name of a stored graph in a folder of its own.
pub const IN_FOLDER: &str = "graph.halo";

/// The stored graph that `path` means: the file itself, or `graph.halo` in a folder.
pub fn find(path: &Path) -> Option<PathBuf> {
    let inside = path.join(IN_FOLDER);
    if inside.is_file() {
        return Some(inside);
    }
    let own = path.extension().is_some_and(|e| e == ENDING) && path.is_file();
    own.then(|| path.to_owned())
}

/// [`Error::Data`] from its four parts.
pub(crate) fn bad(file: &str, place: &str, reason: impl Into<String>, help: &str) -> Error {
    Error::Data {
        file: file.into(),
        place: place.into(),
        reason: reason.into(),
        help: help.into(),
    }
}
