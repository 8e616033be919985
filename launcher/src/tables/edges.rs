//! Edge tables in Parquet files, as a source of edges for a conversion.
//!
//! # Not done
//! Row groups are decoded whole, so memory beyond a conversion's limit grows with the largest one.

use crate::error::{Error, Result};
use gnn_core::Error as CoreError;
use gnn_core::convert::EdgeSource;
use polars::prelude::{DataType, ParquetReader, SerReader};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Names that columns of sources and destinations have.
const NAMES: [[&str; 2]; 7] = [
    ["src", "dst"],
    ["source", "target"],
    ["source", "destination"],
    ["edge_src", "edge_dst"],
    ["from", "to"],
    ["head", "tail"],
    ["u", "v"],
];

/// The edges in two columns of a Parquet file.
pub struct ParquetEdges {
    path: PathBuf,
    columns: [String; 2],
    /// Rows that are read at a time.
    block: usize,
    row: usize,
    rows: usize,
}

impl ParquetEdges {
    /// Opens `path`; source and destination are the columns named so, or the only two. Rows of about
    /// `block` bytes are read at a time.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Frame`] for a file that cannot be read, [`Error::Refused`] when no
    /// two columns are the edges.
    pub fn open(path: &Path, block: usize) -> Result<ParquetEdges> {
        let file = File::open(path).map_err(Error::io(path))?;
        let mut reader = ParquetReader::new(file);
        let frame = || Error::frame(&path.display().to_string());
        let schema = reader.schema().map_err(frame())?;
        let names: Vec<String> = schema.iter_names().map(|n| n.to_string()).collect();
        let rows = reader.num_rows().map_err(frame())?;
        let has = |pair: &&[&str; 2]| pair.iter().all(|c| names.iter().any(|n| n == c));
        let columns = match (NAMES.iter().find(has), names.as_slice()) {
            (Some(pair), _) => pair.map(str::to_owned),
            (None, [a, b]) => [a.clone(), b.clone()],
            _ => {
                return Err(Error::refused(
                    format!(
                        "{}: which columns are the edges? It has {}",
                        path.display(),
                        names.join(", ")
                    ),
                    "name them src and dst",
                ));
            }
        };
        Ok(ParquetEdges {
            path: path.to_owned(),
            columns,
            block: (block / 16).max(1),
            row: 0,
            rows,
        })
    }

    fn wrong(&self, place: &str, reason: String) -> CoreError {
        let help = "write vertex ids as whole numbers from 0, without missing ones";
        super::wrong(&self.path, place, reason, help)
    }
}

impl EdgeSource for ParquetEdges {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> gnn_core::Result<bool> {
        edges.clear();
        let count = self.block.min(self.rows - self.row);
        let file = File::open(&self.path).map_err(|e| CoreError::io(&self.path, e))?;
        let read = ParquetReader::new(file)
            .with_columns(Some(self.columns.to_vec()))
            .with_slice(Some((self.row, count)))
            .finish();
        let frame = read.map_err(|e| self.wrong("rows", e.to_string()))?;
        edges.resize(frame.height(), [0; 2]);
        for (k, name) in self.columns.iter().enumerate() {
            let column = frame.column(name).and_then(|c| match c.dtype() {
                t if t.is_integer() => c.cast(&DataType::Int64),
                t => Err(polars::error::PolarsError::SchemaMismatch(
                    format!("holds {t}; expected integers").into(),
                )),
            });
            let column = column.map_err(|e| self.wrong(name, e.to_string()))?;
            let ids = column.i64().map_err(|e| self.wrong(name, e.to_string()))?;
            for ((id, edge), row) in ids.iter().zip(edges.iter_mut()).zip(self.row..) {
                edge[k] = id.and_then(|id| u64::try_from(id).ok()).ok_or_else(|| {
                    let what = id.map_or("is missing".into(), |id| format!("{id} is no vertex id"));
                    self.wrong(name, format!("row {row}: {what}"))
                })?;
            }
        }
        self.row += count;
        Ok(self.row < self.rows)
    }

    fn rewind(&mut self) -> gnn_core::Result<()> {
        self.row = 0;
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.row as u64, self.rows as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{Column, DataFrame, NamedFrom, ParquetWriter, Series};

    fn written(columns: Vec<Series>) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("edges.parquet");
        let height = columns[0].len();
        let columns = columns.into_iter().map(Column::from).collect();
        let mut frame = DataFrame::new(height, columns).expect("equal lengths");
        let file = File::create(&path).expect("writable");
        ParquetWriter::new(file).finish(&mut frame).expect("space");
        (dir, path)
    }

    fn all(path: &Path) -> gnn_core::Result<Vec<[u64; 2]>> {
        let mut source = ParquetEdges::open(path, 16 * 7).expect("two columns");
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while source.next(&mut block)? {
            all.extend_from_slice(&block);
        }
        all.extend_from_slice(&block);
        Ok(all)
    }

    #[test]
    fn columns_are_found_by_name_and_read_in_blocks() {
        let ids = |name: &str, by: i64| {
            let list: Vec<i64> = (0..20).map(|k| k * by).collect();
            Series::new(name.into(), list)
        };
        let expected: Vec<[u64; 2]> = (0..20).map(|k| [k * 3, k]).collect();
        let (_a, path) = written(vec![ids("weight", 9), ids("dst", 1), ids("src", 3)]);
        assert_eq!(all(&path).expect("edges"), expected);
        let small: Vec<u32> = (0..20).collect();
        let (_b, path) = written(vec![ids("a", 3), Series::new("b".into(), small)]);
        assert_eq!(all(&path).expect("edges"), expected);
    }

    #[test]
    fn what_is_no_edge_is_refused_with_its_row() {
        let good = || Series::new("src".into(), vec![0i64, 1, 2]);
        let error = |other: Series| {
            let (_dir, path) = written(vec![good(), other]);
            all(&path).expect_err("refused").to_string()
        };
        let e = error(Series::new("dst".into(), vec![Some(1i64), None, Some(2)]));
        assert!(e.contains("row 1: is missing"), "{e}");
        let e = error(Series::new("dst".into(), vec![1i64, 2, -3]));
        assert!(e.contains("row 2: -3"), "{e}");
        let e = error(Series::new("dst".into(), vec![1.0f64, 2.0, 3.0]));
        assert!(e.contains("expected integers"), "{e}");
        let three = ["x", "y", "z"].map(|n| Series::new(n.into(), vec![1i64]));
        let (_dir, path) = written(three.into());
        let e = ParquetEdges::open(&path, 100).err().map(|e| e.to_string());
        assert!(e.is_some_and(|e| e.contains("x, y, z")));
        std::fs::write(&path, "PAR1 nothing PAR1").expect("writable");
        assert!(ParquetEdges::open(&path, 100).is_err());
    }
}
