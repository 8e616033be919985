//! Tables in Parquet files: edges as a source of a conversion, and what belongs to vertices.
//!
//! # Not done
//! Arrow IPC files: their reader is not built in.

mod edges;
mod vertices;

pub use edges::ParquetEdges;
pub use vertices::read as vertices;

use std::path::Path;

/// A file that a column is wrong in.
fn wrong(path: &Path, place: &str, reason: String, help: &str) -> gnn_core::Error {
    gnn_core::Error::Data {
        file: path.display().to_string(),
        place: place.into(),
        reason,
        help: help.into(),
    }
}
