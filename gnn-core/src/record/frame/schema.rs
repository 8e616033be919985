//! Frames as a run folder has them, for whoever reads it without knowing the strategy.

use super::{Column, ColumnDef, FrameDef, is_plain};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A frame as a run folder has it: [`FrameDef`], owned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Name.
    pub name: String,
    /// What a row is.
    pub doc: String,
    /// Columns in order.
    pub columns: Vec<Field>,
    /// Columns by which rows are sorted.
    pub sort: Vec<String>,
}

/// A column as a run folder has it: [`ColumnDef`], owned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: Column,
    /// Unit.
    pub unit: String,
    /// What it is.
    pub doc: String,
}

impl Schema {
    /// The same for an entry. What it names lives as long as the process.
    pub fn leak(self) -> FrameDef {
        let column = |field: Field| ColumnDef {
            name: field.name.leak(),
            kind: field.kind,
            unit: field.unit.leak(),
            doc: field.doc.leak(),
        };
        let columns: Vec<ColumnDef> = self.columns.into_iter().map(column).collect();
        let sort: Vec<&str> = self.sort.into_iter().map(|key| &*key.leak()).collect();
        FrameDef {
            name: self.name.leak(),
            doc: self.doc.leak(),
            columns: columns.leak(),
            sort: sort.leak(),
        }
    }
}

/// Where a run folder has the schemas of its strategy's frames.
pub const FILE: &str = "frames.json";

/// Writes the schemas of a strategy's frames into a run folder.
///
/// # Errors
/// [`Error::Io`] when that fails.
pub fn write(run_dir: &Path, frames: &[FrameDef]) -> Result<()> {
    let path = run_dir.join(FILE);
    let schemas: Vec<Schema> = frames.iter().map(FrameDef::schema).collect();
    let text = serde_json::to_vec_pretty(&schemas).expect("plain data with text keys");
    std::fs::write(&path, text).map_err(|e| Error::io(&path, e))
}

/// Reads them back; none where the folder has none, as in runs of versions that did not write any.
///
/// # Errors
/// [`Error::Data`] for a file that cannot be read as such.
pub fn read(run_dir: &Path) -> Result<Option<Vec<Schema>>> {
    let path = run_dir.join(FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(&path, e)),
    };
    let bad = |reason: String| Error::Data {
        file: path.display().to_string(),
        place: "schemas".into(),
        reason,
        help: "remove the file: frames of built-in strategies are known without it".into(),
    };
    let schemas: Vec<Schema> = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
    match schemas.iter().find(|schema| !is_plain(&schema.name)) {
        Some(schema) => Err(bad(format!("{:?} is no name of a frame", schema.name))),
        None => Ok(Some(schemas)),
    }
}
