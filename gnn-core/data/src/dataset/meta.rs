//! What a data set says about itself.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::dataset::{bad, regular};
use crate::{Error, Result};

/// Bytes of a `meta.json` at most.
const MAX_BYTES: u64 = 1 << 20;

/// The keys of `meta.json` that readers use; others are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    /// Number of classes, so that a label beyond it is noticed.
    pub(super) num_classes: Option<usize>,
    /// Number of vertices, for plain folders whose last vertices have no edges.
    pub(super) num_nodes: Option<usize>,
    /// Number of edge types, so that a type beyond it is noticed.
    pub(super) num_edge_types: Option<usize>,
    /// Whether edges have a direction: where readers else add the other one.
    pub(super) directed: bool,
    /// Names of the types of vertices.
    pub(super) node_types: Names,
    /// Names of the relations.
    pub(super) edge_types: Names,
    /// Names of the classes.
    pub(super) class_names: Names,
}

/// A list of names; anything else in its place is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(super) struct Names(pub(super) Vec<String>);

impl From<serde_json::Value> for Names {
    fn from(value: serde_json::Value) -> Names {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        let names = list.iter().map(|v| Some(v.as_str()?.to_owned()));
        Names(names.collect::<Option<_>>().unwrap_or_default())
    }
}

impl Meta {
    /// The `meta.json` in the folder of the file `path`; all absent when there is none.
    pub(super) fn beside(path: &Path) -> Result<Meta> {
        let path = path.parent().unwrap_or(Path::new(".")).join("meta.json");
        let file = path.display().to_string();
        match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Meta::default()),
            Err(e) => return Err(Error::io(path, e)),
            Ok(m) if m.len() > MAX_BYTES => {
                let reason = format!("is {} bytes, more than {MAX_BYTES}", m.len());
                return Err(bad(
                    &file,
                    "file",
                    reason,
                    "keep only what describes the data set",
                ));
            }
            Ok(_) => {}
        }
        let mut text = Vec::new();
        let mut whole = regular::open(&path)?.take(MAX_BYTES);
        let read = whole.read_to_end(&mut text);
        read.map_err(|e| Error::io(&path, e))?;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        serde_json::from_slice(text).map_err(|e| {
            let place = format!("line {}", e.line());
            bad(
                &file,
                place,
                e.to_string(),
                "correct the JSON, or remove the file",
            )
        })
    }
}
