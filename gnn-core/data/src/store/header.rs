//! The first pages of a stored graph: what it is, and where its sections lie.

use serde::{Deserialize, Serialize};

use super::checksum;
use crate::dataset::Task;
use crate::{Error, Result};

/// Bytes at the start of the file that the header may take; the first section follows.
pub(super) const SPACE: usize = 16 << 10;

/// Sections start at multiples of this: a page, so that any element type is aligned.
pub(super) const ALIGN: u64 = 4096;

/// The version this program writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;

/// Not text, broken by a transfer that changes line ends, and with a high bit.
const MAGIC: [u8; 8] = *b"\x8fHALO\r\n\x1a";

/// Reads as another number on a machine of the other byte order.
const ENDIAN: u32 = 0x0102_0304;

/// Bytes before the JSON: magic 8, byte order 4, version 4, length of the JSON 8, length of the file
/// 8, checksum of the JSON 8, checksum of these 40 bytes 8, zeros 16.
const PREFIX: usize = 64;

/// What a stored graph says about itself: a JSON object after the fixed first bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Name as it is shown.
    pub name: String,
    /// What it was converted from.
    pub source: String,
    /// Whether the data was generated.
    pub synthetic: bool,
    /// What is to be learned.
    pub task: Kind,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of directed edges.
    pub edges: u64,
    /// Columns of the features; without a feature section they are one-hot.
    pub feature_width: u64,
    /// Number of classes.
    pub classes: u64,
    /// Number of relations, where edges are typed.
    pub relations: Option<u64>,
    /// The arrays.
    pub sections: Vec<Section>,
}

/// [`Task`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One class a vertex.
    NodeClassification,
    /// Any number of classes a vertex.
    MultiLabel,
    /// Which vertices are joined by an edge.
    LinkPrediction,
}

impl From<Task> for Kind {
    fn from(task: Task) -> Kind {
        match task {
            Task::NodeClassification => Kind::NodeClassification,
            Task::MultiLabel => Kind::MultiLabel,
            Task::LinkPrediction => Kind::LinkPrediction,
        }
    }
}

impl From<Kind> for Task {
    fn from(kind: Kind) -> Task {
        match kind {
            Kind::NodeClassification => Task::NodeClassification,
            Kind::MultiLabel => Task::MultiLabel,
            Kind::LinkPrediction => Task::LinkPrediction,
        }
    }
}

/// One array of a stored graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Its name; see [`crate::store`].
    pub name: String,
    /// Type of its elements: `u8`, `u16`, `u32`, `u64`, `i32` or `f32`.
    pub kind: String,
    /// Where it starts in the file.
    pub offset: u64,
    /// Bytes it takes.
    pub bytes: u64,
    /// Checksum of these bytes.
    pub checksum: u64,
}

impl Section {
    /// Bytes of one element; none for a type this version does not know.
    pub(super) fn width(&self) -> Option<u64> {
        match self.kind.as_str() {
            "u8" => Some(1),
            "u16" => Some(2),
            "u32" | "i32" | "f32" => Some(4),
            "u64" => Some(8),
            _ => None,
        }
    }
}

impl Header {
    /// The bytes at the start of a file of `file_bytes` bytes.
    pub(super) fn encode(&self, file: &str, file_bytes: u64) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(self).expect("plain values with text keys");
        if PREFIX + json.len() > SPACE {
            let reason = format!("takes {} bytes, more than {SPACE}", PREFIX + json.len());
            let help = "give the data set a shorter name";
            return Err(super::bad(file, "header", reason, help));
        }
        let mut out = Vec::with_capacity(SPACE);
        out.extend(MAGIC);
        out.extend(ENDIAN.to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend((json.len() as u64).to_le_bytes());
        out.extend(file_bytes.to_le_bytes());
        out.extend(checksum::block(&json).to_le_bytes());
        out.extend(checksum::block(&out).to_le_bytes());
        out.resize(PREFIX, 0);
        out.extend(json);
        out.resize(SPACE, 0);
        Ok(out)
    }

    /// The header at the start of `bytes`, which are the whole file.
    pub(super) fn decode(file: &str, bytes: &[u8]) -> Result<Header> {
        let fail = |reason: String, help: &str| Err(super::bad(file, "header", reason, help));
        if bytes.len() < SPACE {
            let reason = format!("the file has {} bytes, fewer than a header", bytes.len());
            return fail(reason, AGAIN);
        }
        let word = |at: usize| {
            let eight = bytes[at..at + 8].try_into();
            u64::from_le_bytes(eight.expect("eight bytes of a header that is there"))
        };
        let (mark, version) = (word(8) as u32, (word(8) >> 32) as u32);
        if bytes[..8] != MAGIC {
            let help = "give a file that `halobook convert` wrote";
            return fail("does not begin like a stored graph".into(), help);
        }
        if mark == ENDIAN.swap_bytes() {
            let reason = "was written with the other byte order".into();
            return fail(
                reason,
                "convert the source again on a little-endian machine",
            );
        }
        if mark != ENDIAN {
            return fail(format!("has the byte order mark {mark:#x}"), AGAIN);
        }
        if version > VERSION {
            let reason = format!("has version {version}; this program reads up to {VERSION}");
            return fail(reason, "use the Halobook that wrote it, or a newer one");
        }
        if word(40) != checksum::block(&bytes[..40]) {
            return fail("is damaged in its first 48 bytes".into(), AGAIN);
        }
        if word(24) != bytes.len() as u64 {
            let reason = format!("expected a file of {} bytes, got {}", word(24), bytes.len());
            return fail(reason, "the file is truncated; copy or convert it again");
        }
        let rest = &bytes[PREFIX..SPACE];
        let json = usize::try_from(word(16)).ok().and_then(|n| rest.get(..n));
        let Some(json) = json.filter(|json| checksum::block(json) == word(32)) else {
            return fail("is damaged: its checksum does not agree".into(), AGAIN);
        };
        let header: Header = serde_json::from_slice(json).or_else(|e| {
            let reason = format!("is not understood: {e}");
            fail(reason, AGAIN)
        })?;
        header.check(file, bytes.len() as u64)?;
        Ok(header)
    }

    /// Sections lie within the file, aligned, and hold whole elements.
    fn check(&self, file: &str, file_bytes: u64) -> Result<()> {
        for s in &self.sections {
            let fail = |reason: String| Err(super::bad(file, &s.name, reason, AGAIN));
            let Some(width) = s.width() else {
                return fail(format!("has elements of the unknown type '{}'", s.kind));
            };
            let end = s.offset.checked_add(s.bytes);
            if end.is_none_or(|end| end > file_bytes) || s.offset < SPACE as u64 {
                return fail(format!(
                    "{} bytes at {} are outside the file of {file_bytes} bytes",
                    s.bytes, s.offset
                ));
            }
            if s.offset % ALIGN != 0 || s.bytes % width != 0 {
                return fail(format!("{} bytes at {} are not aligned", s.bytes, s.offset));
            }
        }
        Ok(())
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }
}

/// What helps against damage.
pub(super) const AGAIN: &str = "copy the file again, or convert its source again";

/// The error of a file that could not be read or written.
pub(super) fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::io(&path, source)
}
