//! Tables in Parquet and Arrow files: edges as a source of a conversion, and what belongs to vertices.

mod edges;
mod rows;
pub mod sound;
mod vertices;

pub use edges::TableEdges;
pub use rows::Kind;
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
